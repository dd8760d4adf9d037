//! Whether the advisor ranks schemes in mapped memory as `farslot bench lookup` measures them
//! there.

use super::advise::place;
use farslot::Server;
use farslot::fabric::sim::NicProfile;
use farslot_bench::advise::{AdviceQuestion, CheckOptions, Ranked, advise, check};
use farslot_bench::lookup::{LookupScheme, Options, Served, memory, served};
use farslot_bench::{BenchError, calibrate};

const SCHEMES: [LookupScheme; 6] = [
    LookupScheme::Linear,
    LookupScheme::Sealed,
    LookupScheme::Perfect,
    LookupScheme::Cuckoo,
    LookupScheme::Race,
    LookupScheme::Duo,
];
const LOAD: f64 = 0.75;
/// Schemes that differ by more must stand in the order that was measured.
const APART: f64 = 1.5;

/// What the advisor calls the table that `bench lookup` makes.
fn name(scheme: LookupScheme) -> &'static str {
    match scheme {
        LookupScheme::Linear => "linear, pair",
        LookupScheme::Sealed => "sealed, inline",
        LookupScheme::Perfect => "sealed, inline, perfect hash",
        LookupScheme::Cuckoo => "cuckoo 3 x 4, parallel, inline",
        LookupScheme::Race => "race",
        LookupScheme::Duo => "duo, inline",
        LookupScheme::DuoAlone => "duo, inline, writer alone",
    }
}

fn question(profile: &NicProfile, slots: u64) -> AdviceQuestion {
    AdviceQuestion {
        load: Some(LOAD),
        hit_ratio: 1.0,
        threads: 1,
        ..AdviceQuestion::new((slots as f64 * LOAD) as u64, 8, 8, profile.clone())
    }
}

/// Schemes whose tables are built at once are ranked where tables may be sealed; all others where
/// they may not.
fn ranked(profile: &NicProfile, slots: u64, scheme: LookupScheme) -> Ranked {
    let question = AdviceQuestion {
        sealed: matches!(scheme, LookupScheme::Sealed | LookupScheme::Perfect),
        ..question(profile, slots)
    };
    let advice = advise(&question).unwrap();
    advice.ranked[place(&advice, name(scheme))].clone()
}

/// Compares what the profile gives with rates that were measured, in the order of [`SCHEMES`].
fn agrees(profile: &NicProfile, slots: u64, measured: [f64; 6]) {
    let priced = SCHEMES.map(|scheme| {
        let ranked = ranked(profile, slots, scheme);
        println!("{scheme}: {}", ranked.why);
        ranked.lookups_per_second
    });
    println!("priced {priced:?}, measured {measured:?}");
    let mut compared = 0;
    for one in 0..SCHEMES.len() {
        for other in 0..SCHEMES.len() {
            if measured[one] > APART * measured[other] {
                compared += 1;
                let (one_name, other_name) = (SCHEMES[one], SCHEMES[other]);
                assert!(
                    priced[one] > priced[other],
                    "{one_name} before {other_name}"
                );
            }
        }
    }
    assert!(compared > 0, "no scheme differs from another: {measured:?}");
}

/// What was measured in one session, beside other work: the profile by `farslot calibrate
/// shm://NAME`, and lookups/s, in the order of [`SCHEMES`], by `farslot bench lookup --scheme
/// linear,sealed,perfect,cuckoo,race,duo --load 0.75 --slots 4M --operations 300k`, medians of
/// three runs.
const PROFILE: &str = include_str!("in_place.toml");
const MEASURED: [f64; 6] = [23.416e6, 26.163e6, 28.941e6, 12.357e6, 8.340e6, 15.714e6];

#[test]
fn ranks_in_mapped_memory_are_those_that_were_measured_there() {
    let profile = NicProfile::parse(PROFILE).unwrap();
    agrees(&profile, 4_000_000, MEASURED);
    let advice = advise(&question(&profile, 4_000_000)).unwrap();
    assert!(place(&advice, "linear, pair") < place(&advice, "duo, inline"));
    let linear = &advice.ranked[place(&advice, "linear, pair")];
    assert!(
        linear.why.starts_with("client processors"),
        "{}",
        linear.why
    );
    // Two and a half slots of 16 bytes on average (Knuth), and nothing behind them.
    assert!(
        (linear.lines - 1.0 - 1.5 * 16.0 / 64.0).abs() < 0.01,
        "{linear:?}"
    );
    let update = linear.update.unwrap();
    assert!((update.per_second * update.client_ns / 1e9 - 1.0).abs() < 1e-9);
    // A lookup without a verb takes a processor's time too.
    let absent = AdviceQuestion {
        clients: 1,
        hit_ratio: 0.0,
        ..question(&profile, 1 << 12)
    };
    let absent = advise(&absent).unwrap();
    let alone = &absent.ranked[place(&absent, "duo, inline, writer alone")];
    assert!(
        alone.client_ns > 0.9 * profile.processor.verb_ns,
        "{alone:?}"
    );
    assert!(advice.notes[0].contains("assumed"), "{:?}", advice.notes);
}

#[test]
fn mapped_memory_is_not_priced_by_a_nic_nor_checked_by_one() {
    let profile = NicProfile::parse(PROFILE).unwrap();
    let old = NicProfile {
        processor: NicProfile::connectx5_edr().processor,
        ..profile.clone()
    };
    let refused = advise(&question(&old, 1 << 20)).unwrap_err();
    assert!(matches!(refused, BenchError::BadOption { .. }), "{refused}");
    assert!(refused.to_string().contains("calibrate"), "{refused}");
    let question = question(&profile, 1 << 20);
    let ranked = advise(&question).unwrap().ranked;
    let refused = check(&question, &ranked, &CheckOptions::default(), &|_| {}).unwrap_err();
    assert!(refused.to_string().contains("bench lookup"), "{refused}");
}

/// Calibrates and looks up for real: medians, of schemes that differ by far.
#[test]
#[ignore = "long: scripts/test --all"]
fn ranks_in_mapped_memory_are_those_that_are_measured_now() {
    const SLOTS: u64 = 1 << 22;
    let address = format!("shm://bench-in-place-{}", std::process::id());
    let options = Options {
        loads: vec![LOAD],
        ..Options::new(SCHEMES.to_vec(), SLOTS)
    };
    let scratch = calibrate::Options {
        clients: Some(1),
        ..calibrate::Options::default()
    };
    let room = memory(&options).unwrap() + 2 * scratch.scratch_bytes;
    let _server = Server::start(&address, room).unwrap();
    let opening = farslot::OpenOptions::default();
    let calibration = calibrate::run(&address, opening, &scratch, &|_| {}).unwrap();
    let measure = Served {
        repetitions: 7,
        operations: 1 << 19,
        single_lookups: 1 << 10,
        writes: false,
        cache: None,
    };
    let report = served(&address, &options, &measure, &|_| {}).unwrap();
    let measured = SCHEMES.map(|scheme| {
        let name = format!("load {LOAD}, {scheme}, hits");
        let row = report.rows.iter().find(|row| row.name == name);
        row.unwrap_or_else(|| panic!("{name}: {report:?}")).value
    });
    println!("{:?}", calibration.profile.processor);
    agrees(&calibration.profile, SLOTS, measured);
}
