//! `farslot-lab tatp`, `smallbank` and `ycsb-transactions`, small, with real processes.

use crate::program::{assert_fails, error_of, lab, one_object};
use serde_json::Value;

const SMALL: [&str; 6] = ["--seconds", "0.4", "--rounds", "2", "--pipeline", "8"];

fn report(args: &[&str]) -> Value {
    let output = lab(args
        .iter()
        .chain(&["--json", "--rounds", "2", "--pipeline", "8"]))
    .output()
    .unwrap();
    assert!(output.status.success(), "{}", error_of(&output));
    one_object(&output)
}

/// A transaction posts something, and waits for some of that.
fn check_posted(row: &Value) {
    let of = |label: &str| row["posted"][label].as_f64().unwrap();
    let verbs = of("reads") + of("calls");
    assert!(
        of("round_trips") > 0.0 && of("round_trips") <= verbs,
        "{row}"
    );
    assert!(of("bytes") >= 8.0 * verbs, "{row}");
    assert!(of("most_round_trips") >= of("round_trips"), "{row}");
}

fn check_row(row: &Value) {
    for figure in [
        "attempted",
        "attempted_per_second",
        "committed_per_second",
        "p50_us",
        "p99_us",
    ] {
        assert!(row[figure].as_f64().unwrap() > 0.0, "{figure}: {row}");
    }
    let loaded = row["loaded_cents"].as_i64();
    let sum = loaded
        .zip(row["added_cents"].as_i64())
        .map(|(loaded, added)| loaded + added);
    assert_eq!(row["final_cents"].as_i64(), sum, "{row}");
}

/// Of a small register the rates are those of its few subscribers, and the specification's only
/// roughly.
fn check_rates(row: &Value) {
    for kind in row["kinds"].as_array().unwrap() {
        let attempted = kind["attempted"].as_f64().unwrap();
        let (found, specified) = (&kind["success_percent"], &kind["specified_percent"]);
        let (found, specified) = (found.as_f64().unwrap(), specified.as_f64().unwrap());
        // Eight standard deviations of so many draws, beside what few subscribers make of it.
        let most = 10.0 + 8.0 * 50.0 / attempted.max(1.0).sqrt();
        assert!((found - specified).abs() < most, "{kind}");
        assert!(
            specified < 100.0 || attempted == 0.0 || found == 100.0,
            "{kind}"
        );
    }
}

#[test]
fn both_workloads_run_on_every_fabric_with_both_ways_to_lock() {
    for (fabric, told) in [
        ("sim", "sim"),
        ("embedded", "shm, of this"),
        ("shm", "shm, of other"),
        ("tcp", "tcp"),
    ] {
        for (locking, runs_at) in [("execution", "client"), ("commit", "owner")] {
            // Virtual seconds take long.
            let seconds = if fabric == "sim" { "0.01" } else { "0.2" };
            let common = [
                "--seconds",
                seconds,
                "--fabric",
                fabric,
                "--locking",
                locking,
                "--runs-at",
                runs_at,
                "--threads",
                "2",
                "--nodes",
                "2",
            ];
            let tatp = [&["tatp", "--subscribers", "5000"][..], &common].concat();
            let tatp = report(&tatp);
            assert_eq!(
                (&tatp["bench"], &tatp["locking"], &tatp["runs_at"]),
                (&"tatp".into(), &locking.into(), &runs_at.into())
            );
            assert!(tatp["fabric"].as_str().unwrap().starts_with(told), "{tatp}");
            let row = &tatp["rows"][0];
            check_row(row);
            check_rates(row);
            check_posted(row);
            // One node has all rows of a transaction of TATP. Some calls are for what comes before
            // and behind all of them, which may be few on a busy machine.
            let number = |of: &serde_json::Value| of.as_f64().unwrap();
            let more = number(&row["posted"]["calls"]) - 1.0;
            let in_all = more * number(&row["attempted"]);
            let reads = number(&row["posted"]["reads"]);
            match runs_at {
                "owner" => {
                    assert!((-0.5..200.0).contains(&in_all), "{in_all} more: {row}");
                    assert!(reads < 0.1, "{row}");
                }
                _ => assert!(reads > 1.0, "{row}"),
            }
            assert_eq!(
                row["server_cpu_seconds_per_million"].is_number(),
                fabric == "tcp" || fabric == "shm"
            );
            // Few accounts, so that transactions meet.
            let bank = ["smallbank", "--accounts", "40", "--hot", "10"];
            let bank = report(&[&bank[..], &common].concat());
            let row = &bank["rows"][0];
            check_row(row);
            check_posted(row);
            assert!(row["final_cents"].is_i64(), "{row}");
            assert!(
                row["conflicts_per_million"].as_f64().unwrap() > 0.0,
                "{row}"
            );
        }
    }
}

#[test]
fn workloads_of_ycsb_run_in_transactions_on_every_fabric() {
    // Those that differ in what they need: writes, inserts, scans, and reads before writes.
    for (letter, fabric, nodes) in [
        ("a", "sim", "2"),
        ("d", "shm", "2"),
        ("e", "tcp", "1"),
        ("e", "sim", "1"),
        ("f", "tcp", "2"),
    ] {
        let seconds = if fabric == "sim" { "0.002" } else { "0.2" };
        let workload = [
            "ycsb-transactions",
            "--workload",
            letter,
            "--records",
            "200",
        ];
        let place = ["--fabric", fabric, "--nodes", nodes, "--seconds", seconds];
        let report = report(&[&workload[..], &place, &["--threads", "2"]].concat());
        assert_eq!(report["bench"], format!("ycsb-{letter}"));
        assert_eq!(report["size"], 200);
        let row = &report["rows"][0];
        check_row(row);
        // Whatever is read is checked, and nothing fails for good.
        assert_eq!(row["attempted"], row["committed"]);
        assert_eq!(row["kinds"].as_array().unwrap().len(), 8);
        check_rates(row);
    }
}

#[test]
fn simulated_transactions_are_the_same_in_every_run() {
    let args = [
        "smallbank",
        "--accounts",
        "100",
        "--hot",
        "10",
        "--fabric",
        "sim",
        "--seconds",
        "0.01",
    ];
    let run = || {
        let mut report = lab(args.iter().chain(&["--json", "--rounds", "1"]))
            .output()
            .unwrap();
        assert!(report.status.success(), "{}", error_of(&report));
        let mut value = one_object(&report);
        report.stdout.clear();
        // The processor's time is real.
        value["rows"][0]["client_cpu_seconds_per_million"] = Value::Null;
        value
    };
    assert_eq!(run(), run());
}

/// Compares Farslot with another system, where that is installed.
fn compare(rival: &str, workload: &[&str]) {
    let against = ["--against", rival, "--json"];
    let output = lab([workload, &against, &SMALL].concat()).output().unwrap();
    let absent = error_of(&output);
    if absent.contains("is not installed") {
        eprintln!("SKIPPED: {absent}");
        let parts = [rival, "apt-get install", "scripts/peers install"];
        return assert_fails(&output, 1, &parts);
    }
    assert!(output.status.success(), "{absent}");
    let report = one_object(&output);
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        check_row(row);
        assert!(row["server_cpu_seconds_per_million"].is_number(), "{row}");
        assert_eq!(
            row["farslot_ratio"].is_number(),
            row["system"] == rival,
            "{row}"
        );
        if workload[0] != "smallbank" {
            check_rates(row);
        }
    }
}

#[test]
fn rivals_that_are_installed_are_compared_with() {
    for rival in ["redis", "postgres"] {
        compare(rival, &["tatp", "--subscribers", "2000"]);
        compare(rival, &["smallbank", "--accounts", "200"]);
    }
}

/// Between them these have all operations.
#[test]
fn rivals_that_are_installed_run_ycsb_in_transactions() {
    for (rival, letter) in [
        ("redis", "a"),
        ("redis", "e"),
        ("redis", "f"),
        ("postgres", "e"),
        ("postgres", "f"),
    ] {
        compare(
            rival,
            &[
                "ycsb-transactions",
                "--workload",
                letter,
                "--records",
                "300",
            ],
        );
    }
}

#[test]
fn transactions_that_cannot_be_measured_are_refused() {
    let run = |args: &[&str]| lab(args).output().unwrap();
    assert_fails(
        &run(&["tatp", "--subscribers", "0"]),
        2,
        &["subscribers is 0", "from 1"],
    );
    assert_fails(
        &run(&["tatp", "--against", "memcached"]),
        2,
        &["memcached", "redis=HOST:PORT and postgres"],
    );
    assert_fails(
        &run(&["smallbank", "--accounts", "4001"]),
        2,
        &["accounts is 4001", "4000"],
    );
    assert_fails(
        &run(&["ycsb-transactions", "--workload", "e", "--nodes", "2"]),
        2,
        &["nodes is 2", "from 1 to 1"],
    );
    assert_fails(
        &run(&["ycsb-transactions", "--workload", "g"]),
        2,
        &["g", "a, b, c, d, e and f"],
    );
    assert_fails(&run(&["smallbank", "--seconds=-1"]), 2, &["--seconds"]);
    assert_fails(
        &run(&["smallbank", "--nodes", "65"]),
        2,
        &["nodes is 65", "to 64"],
    );
}
