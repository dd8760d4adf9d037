//! `farslot-lab tatp` and `farslot-lab smallbank`, small, with real processes.

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
    for fabric in ["sim", "shm", "tcp"] {
        for locking in ["execution", "commit"] {
            // Virtual seconds take long.
            let seconds = if fabric == "sim" { "0.01" } else { "0.2" };
            let common = [
                "--seconds",
                seconds,
                "--fabric",
                fabric,
                "--locking",
                locking,
                "--threads",
                "2",
                "--nodes",
                "2",
            ];
            let tatp = [&["tatp", "--subscribers", "5000"][..], &common].concat();
            let tatp = report(&tatp);
            assert_eq!(
                (&tatp["bench"], &tatp["locking"]),
                (&"tatp".into(), &locking.into())
            );
            assert!(
                tatp["fabric"].as_str().unwrap().starts_with(fabric),
                "{tatp}"
            );
            let row = &tatp["rows"][0];
            check_row(row);
            check_rates(row);
            assert_eq!(
                row["server_cpu_seconds_per_million"].is_number(),
                fabric == "tcp"
            );
            // Few accounts, so that transactions meet.
            let bank = ["smallbank", "--accounts", "40", "--hot", "10"];
            let bank = report(&[&bank[..], &common].concat());
            let row = &bank["rows"][0];
            check_row(row);
            assert!(row["final_cents"].is_i64(), "{row}");
            assert!(
                row["conflicts_per_million"].as_f64().unwrap() > 0.0,
                "{row}"
            );
        }
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

#[test]
fn rivals_that_are_installed_are_compared_with() {
    for rival in ["redis", "postgres"] {
        for workload in [
            ["tatp", "--subscribers", "2000"],
            ["smallbank", "--accounts", "200"],
        ] {
            let all = [&workload[..], &["--against", rival, "--json"], &SMALL].concat();
            let output = lab(&all).output().unwrap();
            let absent = error_of(&output);
            if absent.contains("is not installed") {
                eprintln!("SKIPPED: {absent}");
                assert_fails(
                    &output,
                    1,
                    &[rival, "apt-get install", "scripts/peers install"],
                );
                continue;
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
                if workload[0] == "tatp" {
                    check_rates(row);
                }
            }
        }
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
    assert_fails(&run(&["smallbank", "--seconds=-1"]), 2, &["--seconds"]);
    assert_fails(
        &run(&["smallbank", "--nodes", "65"]),
        2,
        &["nodes is 65", "to 64"],
    );
}
