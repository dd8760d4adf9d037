//! `farslot calibrate`, profile files, and `farslot advise`, as a user meets them.

use crate::common::{Node, assert_fails, farslot, one_object};
use std::path::PathBuf;

/// A file that is removed at the end of its test.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Self {
        let name = format!("farslot-advice-{}-{name}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn json(args: &[&str]) -> serde_json::Value {
    let output = farslot(args).arg("--json").output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        crate::common::error_of(&output)
    );
    one_object(&output)
}

/// What is measured of a simulated NIC is a profile that can be simulated, and gives the same
/// advice.
#[test]
fn a_calibrated_profile_stands_in_for_the_nic() {
    let file = Temporary::new("cx5.toml");
    let args = [
        "calibrate",
        "sim://cx5-edr",
        "--threads",
        "16",
        "-o",
        file.path(),
    ];
    let calibration = json(&args);
    let peak = calibration["peak_reads_per_second"].as_f64().unwrap();
    assert!((peak / 87.17e6 - 1.0).abs() < 0.03, "{peak}");
    let text = std::fs::read_to_string(&file.0).unwrap();
    assert!(text.contains("\nname = \"calibrated-cx5-edr\"\n"), "{text}");
    let advice = |profile: &str| {
        let workload = ["advise", "--entries", "10M", "--key", "8", "--value", "56"];
        json(&[&workload[..], &["--load", "0.8", "--profile", profile]].concat())
    };
    let (named, measured) = (advice("cx5-edr"), advice(file.path()));
    let best = |advice: &serde_json::Value| advice["ranked"][0].clone();
    assert_eq!(best(&named)["scheme"], best(&measured)["scheme"]);
    let rate = |advice| best(advice)["operations_per_second"].as_f64().unwrap();
    assert!((rate(&measured) / rate(&named) - 1.0).abs() < 0.03);
}

#[test]
fn calibrating_leaves_the_tables_of_a_store_alone() {
    let node = Node::start();
    node.ok(["create", "t", "--capacity", "100"]);
    node.ok(["put", "t", "key", "value"]);
    let args = ["calibrate", "--threads", "1", "--scratch", "4MiB"];
    let text = String::from_utf8(node.ok(args)).unwrap();
    assert!(text.contains("name = \"calibrated-shm\""), "{text}");
    assert_eq!(node.count("t"), 1);
    assert_eq!(node.count("farslot-calibrate"), 0);
}

#[test]
fn advice_has_reasons_and_is_checked() {
    let args = [
        "advise",
        "--entries",
        "1M",
        "--key",
        "4",
        "--value",
        "3",
        "--load",
        "0.5",
        "--inserts",
        "0.05",
        "--top",
        "2",
        "--check",
    ];
    let advice = json(&args);
    assert_eq!(advice["ranked"][0]["scheme"], "linear, word");
    assert!(
        advice["ranked"][0]["why"]
            .as_str()
            .unwrap()
            .contains("message rate")
    );
    let checked = advice["check"].as_array().unwrap();
    assert_eq!(checked.len(), 2);
    for row in checked {
        for ratio in [&row["throughput_ratio"], &row["put"]["latency_ratio"]] {
            let ratio = ratio.as_f64().unwrap();
            assert!((ratio - 1.0).abs() < 0.1, "{row}");
        }
        assert!(row["update"].is_null(), "{row}");
    }
    let output = farslot(args).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(
        shown.contains("linear, word") && shown.contains("excluded (--excluded)"),
        "{shown}"
    );
    assert!(!shown.contains("\nexcluded:"), "{shown}");
    let unchecked = &args[..args.len() - 1];
    let all = farslot(unchecked).arg("--excluded").output().unwrap();
    let all = String::from_utf8(all.stdout).unwrap();
    let excluded = all.split_once("\nexcluded:").unwrap().1;
    assert!(
        excluded.contains("cuckoo") && excluded.lines().count() > 2,
        "{all}"
    );
    assert!(
        shown.contains("remote B/record") && shown.contains("writes of one client simulated"),
        "{shown}"
    );
}

/// Who uses the table, and what each may keep of it, decides which schemes there are.
#[test]
fn clients_and_their_memory_choose_among_the_schemes() {
    let workload = ["advise", "--entries", "10M", "--key", "8", "--value", "24"];
    let advice = |more: &[&'static str]| json(&[&workload[..], more].concat());
    let ranked = |advice: &serde_json::Value, scheme: &str| {
        let rows = advice["ranked"].as_array().unwrap();
        rows.iter().find(|row| row["scheme"] == scheme).cloned()
    };
    let usual = advice(&[]);
    let duo = ranked(&usual, "duo, inline").unwrap();
    assert_eq!(duo["writers"], "one");
    assert_eq!(duo["can_grow"], true);
    assert!(
        duo["client_bytes_per_record"].as_f64().unwrap() > 2.0,
        "{duo}"
    );
    let race = ranked(&usual, "race").unwrap();
    assert_eq!(race["writers"], "any");
    assert!(
        race["update"]["latency_ns"].as_f64().unwrap() > 3_000.0,
        "{race}"
    );
    for more in [
        ["--client-memory", "1MiB"],
        ["--clients", "8"],
        ["--grow-to", "100M"],
    ] {
        let advice = advice(&more);
        let is_there = |scheme| ranked(&advice, scheme).is_some();
        let expected = match more[0] {
            "--client-memory" => [true, true, false],
            "--clients" => [true, true, true],
            _ => [false, true, true],
        };
        let found = ["linear, heap", "race", "duo, inline"].map(is_there);
        assert_eq!(found, expected, "{more:?}");
    }
    let many = advice(&["--clients", "8", "--writers", "3"]);
    assert!(ranked(&many, "duo, inline").is_none() && ranked(&many, "race").is_some());
}

#[test]
fn what_cannot_be_is_named() {
    let fails = |args: &[&str], code, parts: &[&str]| {
        assert_fails(&farslot(args).output().unwrap(), code, parts);
    };
    let bad = Temporary::new("bad.toml");
    std::fs::write(&bad.0, "name = \"x\"\nread_latency_ns = -1\n").unwrap();
    fails(&["calibrate"], 2, &["what shall be measured?"]);
    fails(&["calibrate", "sim://cx9"], 2, &["cx9", "cx5-edr"]);
    fails(
        &["calibrate", "embedded", "--scratch", "1KiB"],
        2,
        &["scratch bytes", "2^20"],
    );
    let workload = ["advise", "--entries", "10M", "--key", "8", "--value", "56"];
    let with = |more: &[&'static str]| [&workload[..], more].concat();
    fails(
        &with(&["--hit-ratio", "2"]),
        2,
        &["hit ratio is 2", "from 0 to 1"],
    );
    fails(
        &with(&["--memory", "1MiB"]),
        1,
        &["no scheme will do", "memory limit"],
    );
    fails(
        &[&workload[..], &["--profile", bad.path()]].concat(),
        2,
        &["latency_per_byte_ns", "missing"],
    );
    fails(
        &with(&["--writers", "3"]),
        2,
        &["number of writers is 3", "at most that of the clients, 2"],
    );
    fails(
        &["bench", "lookup", "--scheme", "duo,hopscotch"],
        2,
        &[
            "hopscotch",
            "linear, sealed, perfect, cuckoo, race, duo, duo-alone",
        ],
    );
    fails(
        &["bench", "lookup", "--load", "0.9,0.5"],
        2,
        &["load factors", "rising"],
    );
}
