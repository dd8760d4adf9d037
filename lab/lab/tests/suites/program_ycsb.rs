//! `farslot-lab ycsb`, small, with real processes.

use crate::program::{Node, assert_fails, error_of, lab, one_object};
use serde_json::Value;

/// The table has room for what clients under way may insert beyond the records, so that it is
/// nearly empty: keys lie at their homes, whatever the hash's seed.
const SMALL: [&str; 10] = [
    "--records",
    "300",
    "--value-bytes",
    "64",
    "--seconds",
    "0.3",
    "--rounds",
    "3",
    "--pipeline",
    "512",
];

fn report(args: &[&str]) -> Value {
    let all = ["ycsb", "--json"];
    let output = lab(all.iter().chain(&SMALL).chain(args)).output().unwrap();
    assert!(output.status.success(), "{}", error_of(&output));
    one_object(&output)
}

fn check_row(row: &Value) {
    for figure in ["operations", "operations_per_second", "p50_us", "p99_us"] {
        assert!(row[figure].as_f64().unwrap() > 0.0, "{figure}: {row}");
    }
}

#[test]
fn every_workload_runs_on_every_fabric() {
    for fabric in ["embedded", "shm", "tcp"] {
        let report = report(&["--fabric", fabric, "--threads", "2"]);
        assert_eq!(report["bench"], "ycsb");
        assert!(
            report["fabric"].as_str().unwrap().starts_with(fabric),
            "{report}"
        );
        let rows = report["rows"].as_array().unwrap();
        let workloads: Vec<_> = rows
            .iter()
            .map(|row| row["workload"].as_str().unwrap())
            .collect();
        assert_eq!(workloads, ["a", "b", "c", "d", "e", "f"]);
        for row in rows {
            check_row(row);
            assert_eq!(row["system"], "farslot");
            assert!(row["round_trips"].as_f64().unwrap() >= 1.0, "{row}");
            let served = row["server_cpu_seconds_per_million"].is_number();
            assert_eq!(served, fabric != "embedded", "{row}");
        }
    }
}

#[test]
fn a_cache_of_the_client_answers_some_of_the_reads() {
    let cached = ["--workload", "c", "--cache", "1MiB", "--stale-for", "10s"];
    let report = report(&cached);
    assert_eq!(report["cache_bytes"], 1 << 20);
    let row = &report["rows"][0];
    check_row(row);
    assert!(row["cache_hits"].as_f64().unwrap() > 0.0, "{row}");
    assert!(row["round_trips"].as_f64().unwrap() < 1.6, "{row}");
    // Said in words as well.
    let told = ["ycsb", "--fabric", "embedded"];
    let told = lab(told.iter().chain(&SMALL).chain(&cached)).output();
    let told = String::from_utf8(told.unwrap().stdout).unwrap();
    assert!(told.contains("a cache of 1.0 MiB"), "{told}");
    assert!(told.contains("may be as old as was allowed"), "{told}");
}

#[test]
fn a_store_that_is_served_already_is_used_by_its_address() {
    let node = Node::start("tcp://127.0.0.1:0", "64MiB");
    let report = report(&["--workload", "b,d", "--address", &node.address]);
    assert_eq!(report["fabric"], "tcp");
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    rows.iter().for_each(check_row);
    // Its tables stay, and are not written to again.
    let again = ["ycsb", "--workload", "b", "--address", &node.address];
    let again = lab(again.iter().chain(&SMALL)).output().unwrap();
    assert_fails(&again, 1, &["\"ycsb-b\" already"]);
}

#[test]
fn peers_that_are_installed_are_compared_with() {
    for peer in ["redis", "memcached"] {
        let all = ["ycsb", "--json", "--workload", "a,e", "--against", peer];
        let output = lab(all.iter().chain(&SMALL)).output().unwrap();
        let absent = error_of(&output);
        if absent.contains("is not installed") {
            eprintln!("SKIPPED: {absent}");
            assert_fails(
                &output,
                1,
                &[peer, "apt-get install", "scripts/peers install"],
            );
            continue;
        }
        assert!(output.status.success(), "{absent}");
        let report = one_object(&output);
        let rows = report["rows"].as_array().unwrap();
        let systems: Vec<_> = rows
            .iter()
            .map(|row| row["system"].as_str().unwrap())
            .collect();
        let each = ["farslot", peer, "echo"];
        assert_eq!(systems, [each, each].concat());
        for row in rows {
            check_row(row);
            let is_echo = row["system"] == "echo";
            let has_cpu = row["server_cpu_seconds_per_million"].is_number();
            assert!(has_cpu || is_echo, "{row}");
            assert_eq!(
                row["farslot_ratio"].is_number(),
                row["system"] == peer || is_echo,
                "{row}"
            );
        }
    }
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let run = |args: &[&str]| lab(["ycsb"].iter().chain(args)).output().unwrap();
    assert_fails(
        &run(&["--workload", "g"]),
        2,
        &["\"g\"", "a, b, c, d, e and f"],
    );
    assert_fails(
        &run(&["--against", "postgres"]),
        2,
        &["postgres", "redis and memcached"],
    );
    assert_fails(
        &run(&["--value-bytes", "8"]),
        2,
        &["value bytes is 8", "from 24"],
    );
    assert_fails(&run(&["--seconds=-1"]), 2, &["--seconds"]);
    // How old answers may be is the user's to say.
    assert_fails(&run(&["--cache", "1MiB"]), 2, &["--stale-for"]);
    let no_time = ["--cache", "1MiB", "--stale-for", "5"];
    assert_fails(&run(&no_time), 2, &["no time such as 500us"]);
    let little = [
        "--fabric",
        "embedded",
        "--cache",
        "100B",
        "--stale-for",
        "1s",
    ];
    assert_fails(&run(&little), 2, &["cache bytes = 100"]);
    let nobody = ["--against", "redis=127.0.0.1:1", "--fabric", "embedded"];
    assert_fails(&run(&nobody), 1, &["redis at 127.0.0.1:1", "refused"]);
}
