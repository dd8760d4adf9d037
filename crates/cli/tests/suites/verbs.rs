//! Memory that an RDMA NIC serves. What needs a device runs by `scripts/test-verbs`.

use crate::common::{ANY_PORT, Node, assert_fails, farslot};
use std::path::Path;
use std::process::Stdio;

const ANY_VERBS_PORT: &str = "verbs://127.0.0.1:0";

#[test]
fn a_machine_without_a_device_says_so() {
    if Path::new("/sys/class/infiniband").exists() {
        // It has one: the other tests of this file are for it.
        return;
    }
    for args in [
        &["serve", ANY_VERBS_PORT, "--memory", "4MiB"][..],
        &["bench", "raw", "--fabric", "verbs"],
    ] {
        let output = farslot(args).stdin(Stdio::null()).output().unwrap();
        assert_fails(&output, 1, &["RDMA"]);
    }
}

#[test]
fn a_nic_shares_memory_with_nobody() {
    let also = farslot(["serve", ANY_VERBS_PORT, "--also", ANY_PORT])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_fails(&also, 2, &["can have no other address"]);
}

#[test]
#[ignore = "needs a verbs device: scripts/test-verbs"]
fn every_command_works_by_the_address_alone() {
    let node = Node::start_at(ANY_VERBS_PORT, "64MiB");
    node.ok(["create", "users", "-c", "1000"]);
    node.ok(["put", "users", "ada", "Ada Lovelace"]);
    assert_eq!(node.ok(["get", "users", "ada"]), b"Ada Lovelace\n");
    let lines: String = (0..500)
        .map(|key| format!("key-{key},value-{key}\n"))
        .collect();
    let loaded = node.feed(["load", "users", "-", "--format", "csv"], lines.as_bytes());
    assert!(
        loaded.status.success(),
        "{}",
        crate::common::error_of(&loaded)
    );
    assert_eq!(node.ok(["count", "users"]), b"501\n");
    let dumped = node.ok(["dump", "users"]);
    assert_eq!(dumped.iter().filter(|byte| **byte == b'\n').count(), 502);
    node.ok(["del", "users", "ada"]);
    assert_eq!(node.run(["get", "users", "ada"]).status.code(), Some(1));
    node.ok(["stat", "users"]);
    node.ok(["nodes"]);
}

#[test]
#[ignore = "needs a verbs device: scripts/test-verbs"]
fn a_table_over_two_nodes() {
    let nodes = [(); 2].map(|()| Node::start_at(ANY_VERBS_PORT, "64MiB"));
    let both = format!(
        "{},{}",
        nodes[0].address,
        nodes[1].address.trim_start_matches("verbs://")
    );
    let run = |args: &[&str]| {
        let output = farslot(["-a", &both]).args(args).output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            crate::common::error_of(&output)
        );
        output.stdout
    };
    run(&["create", "t", "-c", "100"]);
    for key in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        run(&["put", "t", key, key]);
        assert_eq!(run(&["get", "t", key]), format!("{key}\n").into_bytes());
    }
    assert_eq!(run(&["count", "t"]), b"8\n");
}

#[test]
#[ignore = "needs a verbs device: scripts/test-verbs"]
fn bare_reads_are_measured() {
    let short = ["--operations", "2000", "--single-reads", "200"];
    let small = ["--repetitions", "2", "--memory", "1MiB"];
    let output = farslot(["bench", "raw", "--fabric", "verbs", "--json"])
        .args(short)
        .args(small)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        crate::common::error_of(&output)
    );
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["rows"][0]["value"].as_f64().unwrap() > 0.0);
}
