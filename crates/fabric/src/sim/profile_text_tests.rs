use super::*;

/// The fields that a file must have.
const LEAST: &str = r#"
name = "mine"
read_latency_ns = 2000
latency_per_byte_ns = 0.1
requester_ns.per_message = 20.0
responder_ns = { per_message = 25.5, per_byte = 0.07 }
link_bytes_per_ns = 5.0
header_bytes = 40
"#;

fn with(line: &str) -> Result<NicProfile, ProfileError> {
    NicProfile::parse(&format!("{LEAST}{line}\n"))
}

fn replaced(field: &str, value: &str) -> Result<NicProfile, ProfileError> {
    let lines = LEAST.lines().map(|line| match line.split_once(" = ") {
        Some((name, _)) if name == field => format!("{field} = {value}\n"),
        _ => format!("{line}\n"),
    });
    NicProfile::parse(&lines.collect::<String>())
}

#[test]
fn what_is_written_is_read() {
    let profile = NicProfile::connectx5_edr();
    let note = |name: &str| (name == "atomic_ns").then(|| "assumed\nnot measured".to_owned());
    let text = profile.to_toml(note).unwrap();
    assert!(text.contains("# assumed\n# not measured\natomic_ns = 15.0\n"));
    assert_eq!(NicProfile::parse(&text).unwrap(), profile);
    let fields = text.lines().filter(|line| line.contains(" = "));
    assert_eq!(fields.count(), PROFILE_FIELDS.len());
}

#[test]
fn what_is_left_out_is_as_the_default_has_it() {
    let profile = with("cache.region_bytes = 0").unwrap();
    let default = NicProfile::connectx5_edr();
    assert_eq!((profile.name.as_str(), profile.header_bytes), ("mine", 40));
    assert_eq!(profile.read_latency_ns, 2000.0);
    assert_eq!(profile.responder_ns.per_message, 25.5);
    assert_eq!(profile.requester_ns.per_byte, 0.0);
    assert_eq!(profile.cache.region_bytes, 0);
    assert_eq!(
        profile.cache.queue_pair_bytes,
        default.cache.queue_pair_bytes
    );
    assert_eq!(profile.handler_ns, default.handler_ns);
}

#[test]
fn errors_name_the_field_and_the_limit() {
    let missing = NicProfile::parse("name = \"x\"").unwrap_err();
    assert_eq!(missing.to_string(), "`read_latency_ns` is missing");
    let unknown = with("cache.capacity = 3").unwrap_err();
    assert_eq!(unknown.to_string(), "there is no field `cache.capacity`");
    assert!(matches!(
        with("doorbells = 3"),
        Err(ProfileError::Unknown { .. })
    ));
    assert!(matches!(
        with("read_latency_ns"),
        Err(ProfileError::Syntax { .. })
    ));
    let typed = with("gathers = 1").unwrap_err();
    assert_eq!(
        typed.to_string(),
        "`gathers` is a TOML integer: it must be true or false"
    );
    assert!(matches!(
        with("cache = 3"),
        Err(ProfileError::Unknown { .. })
    ));
    for (field, value) in [
        ("read_latency_ns", "-1"),
        ("read_latency_ns", "nan"),
        ("latency_per_byte_ns", "inf"),
        ("requester_ns.per_message", "0"),
        ("link_bytes_per_ns", "0.0"),
        ("header_bytes", "0"),
        ("name", "\"\""),
    ] {
        match replaced(field, value).unwrap_err() {
            ProfileError::Range {
                field: named,
                limit,
                ..
            } => {
                assert_eq!(named, field);
                assert!(!limit.is_empty());
            }
            other => panic!("{field} = {value}: {other}"),
        }
    }
    let refused = replaced("header_bytes", "30.5").unwrap_err();
    assert!(
        refused.to_string().ends_with("it must be a whole number"),
        "{refused}"
    );
}

#[test]
fn a_profile_that_cannot_be_simulated_is_refused() {
    assert_eq!(NicProfile::connectx5_edr().validate(), Ok(()));
    let idle = NicProfile {
        max_outstanding_reads: 0,
        ..NicProfile::connectx5_edr()
    };
    assert_eq!(
        idle.validate().unwrap_err().to_string(),
        "`max_outstanding_reads` is 0: it must be from 1 to 16777216"
    );
    let unknown = NicProfile {
        handler_ns: f64::NAN,
        ..NicProfile::connectx5_edr()
    };
    assert!(unknown.to_toml(|_| None).is_err());
}
