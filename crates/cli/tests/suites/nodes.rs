//! Stores over several nodes from the shell: one of them killed, and back again.

use crate::common::{ANY_PORT, Node, assert_fails, error_of, farslot, lines, one_object};
use std::process::Output;

/// Three nodes, and the address of all.
fn three() -> ([Node; 3], String) {
    let nodes = [(); 3].map(|()| Node::start_at(ANY_PORT, "64MiB"));
    let ports: Vec<_> = nodes
        .iter()
        .map(|node| node.address.strip_prefix("tcp://").unwrap())
        .collect();
    let all = format!("tcp://{}", ports.join(","));
    (nodes, all)
}

fn run(address: &str, args: &[&str]) -> Output {
    farslot(args).args(["-a", address]).output().unwrap()
}

fn ok(address: &str, args: &[&str]) -> String {
    let output = run(address, args);
    assert!(output.status.success(), "{args:?}: {}", error_of(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn json(address: &str, args: &[&str]) -> serde_json::Value {
    json_with(address, args, 0)
}

/// Of a command that ends with this exit code.
fn json_with(address: &str, args: &[&str], code: i32) -> serde_json::Value {
    let args = [args, &["--json"]].concat();
    let output = run(address, &args);
    assert_eq!(
        output.status.code(),
        Some(code),
        "{args:?}: {}",
        error_of(&output)
    );
    one_object(&output)
}

/// Loads numbered records into a new table.
fn load(address: &str, count: u32) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("records.csv");
    std::fs::write(&file, lines(0..count)).unwrap();
    ok(address, &["load", "t", file.to_str().unwrap(), "--create"]);
}

#[test]
fn every_command_works_over_several_nodes_and_figures_are_of_each() {
    let (_nodes, all) = three();
    load(&all, 3_000);
    assert_eq!(ok(&all, &["get", "t", "key-7"]).trim(), "value of 7");
    assert_eq!(ok(&all, &["count", "t"]).trim(), "3000");
    // With a line that names the columns.
    assert_eq!(ok(&all, &["dump", "t"]).lines().count(), 3_001);

    let nodes = json(&all, &["nodes"]);
    let nodes = nodes["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 3);
    for node in nodes {
        assert_eq!((&node["state"], &node["tables"]), (&"up".into(), &1.into()));
        assert!(node["round_trip_ns"].as_u64().unwrap() > 0 && node["incarnation"] != 0);
        assert!(node["memory_taken"].as_u64().unwrap() > 0);
    }
    assert_eq!(ok(&all, &["nodes"]).matches(" up ").count(), 3);

    let stat = json(&all, &["stat"]);
    let table = &stat["tables"][0];
    assert_eq!(table["records"], 3_000);
    let parts = table["partitions"].as_array().unwrap();
    let sum = |field: &str| {
        parts
            .iter()
            .map(|part| part[field].as_u64().unwrap())
            .sum::<u64>()
    };
    assert_eq!(sum("records"), 3_000);
    assert_eq!(sum("hash_slots"), 4_096);
    assert_eq!(table["table_bytes"].as_u64(), Some(sum("table_bytes")));
    assert_eq!(stat["nodes"].as_array().unwrap().len(), 3);
    let stat = json(&all, &["stat", "t"]);
    assert_eq!(stat["records"], 3_000);
    assert_eq!(stat["partitions"].as_array().unwrap().len(), 3);
    let drawn = ok(&all, &["stat", "t"]);
    assert!(
        drawn.contains("hash slots") && drawn.contains("load factor"),
        "{drawn}"
    );
}

#[test]
fn a_node_that_is_killed_is_shown_and_the_others_go_on() {
    let (mut nodes, all) = three();
    load(&all, 300);
    let down = nodes[1].address.clone();
    nodes[1].kill();

    // All that can be told is, and the exit code says that something is down.
    let shown = json_with(&all, &["nodes"], 1);
    let states: Vec<_> = (0..3).map(|node| &shown["nodes"][node]["state"]).collect();
    assert_eq!(states, ["up", "down", "up"]);
    let stat = json_with(&all, &["stat"], 1);
    let left = stat["tables"][0]["records"].as_u64().unwrap();
    assert!((100..280).contains(&left), "{left}");
    let of_table = json_with(&all, &["stat", "t"], 1);
    assert_eq!(of_table["partitions"].as_array().unwrap().len(), 3);
    for (args, part) in [
        (&["nodes"][..], "down: "),
        (&["stat"], "down: "),
        (&["stat", "t"], &down),
    ] {
        let output = run(&all, args);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.code() == Some(1) && said.contains(part),
            "{said}"
        );
    }

    let (mut found, mut failed) = (0, Vec::new());
    for number in 0..40 {
        let key = format!("key-{number}");
        let output = run(&all, &["get", "t", &key]);
        if output.status.success() {
            found += 1;
            assert_eq!(output.stdout, format!("value of {number}\n").as_bytes());
        } else {
            assert_fails(&output, 1, &[&down, "farslot serve"]);
            failed.push(key);
        }
    }
    assert!(found > 10 && failed.len() > 3, "{found}, {failed:?}");
    assert_fails(&run(&all, &["count", "t"]), 1, &[&down]);
    assert_fails(
        &run(&all, &["create", "u", "--capacity", "100"]),
        1,
        &[&down],
    );

    // It comes back empty: what it had is lost, for every client and whatever others have done,
    // until somebody says that this is fine.
    nodes[1] = Node::start_at(&down, "64MiB");
    let lost = [&down[..], "came back empty", "farslot accept-loss"];
    let directory = tempfile::tempdir().unwrap();
    let snapshot = ["snapshot", directory.path().to_str().unwrap()];
    for _ in 0..2 {
        assert_fails(&run(&all, &["get", "t", &failed[0]]), 1, &lost);
        assert_fails(&run(&all, &["put", "t", &failed[0], "again"]), 1, &lost);
        assert_fails(&run(&all, &["count", "t"]), 1, &lost);
        assert_fails(
            &run(&all, &snapshot),
            1,
            &[&down, "came back empty", "--node"],
        );
    }
    let shown = json(&all, &["nodes"]);
    assert_eq!(shown["nodes"][1]["lost"], serde_json::json!(["t"]));
    ok(&all, &["accept-loss", "t"]);
    let shown = json(&all, &["nodes"]);
    assert_eq!(shown["nodes"][1]["lost"], serde_json::json!([]));
    assert_fails(&run(&all, &["get", "t", &failed[0]]), 1, &[]);
    ok(&all, &["put", "t", &failed[0], "again"]);
    assert_eq!(ok(&all, &["get", "t", &failed[0]]).trim(), "again");
    assert_eq!(ok(&all, &["count", "t"]).trim(), (left + 1).to_string());

    nodes.iter_mut().for_each(Node::kill);
    assert_fails(&run(&all, &["nodes"]), 1, &["refused"]);
}

/// Of a cache the loss is accepted when it is made.
#[test]
fn a_cache_goes_on_without_what_a_node_had_that_came_back_empty() {
    let (mut nodes, all) = three();
    ok(&all, &["create", "t", "--on-restart", "recreate"]);
    for number in 0..30 {
        ok(&all, &["put", "t", &format!("key-{number}"), "v"]);
    }
    // Copies of it and what is restored from its snapshot are caches as well.
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().to_str().unwrap();
    ok(&all, &["copy", "t", "copied"]);
    ok(&all, &["snapshot", directory, "t"]);
    ok(&all, &["drop", "t"]);
    ok(&all, &["restore", directory]);
    let again = nodes[2].address.clone();
    nodes[2].kill();
    nodes[2] = Node::start_at(&again, "64MiB");
    assert_eq!(ok(&all, &["count", "t"]), ok(&all, &["count", "copied"]));
    let left: u64 = ok(&all, &["count", "t"]).trim().parse().unwrap();
    assert!((5..30).contains(&left), "{left}");
    for number in 0..30 {
        ok(&all, &["put", "t", &format!("key-{number}"), "v"]);
    }
    assert_eq!(ok(&all, &["count", "t"]).trim(), "30");
    let shown = json(&all, &["nodes"]);
    assert_eq!(shown["nodes"][2]["lost"], serde_json::json!([]));
}

#[test]
fn addresses_that_cannot_be_meant_say_why_or_name_what_is_missing() {
    for (address, part) in [
        ("tcp://a:1,b:2,a:1", "twice"),
        ("tcp://a:1,shm://b", "one scheme"),
        ("tcp://a:1,verbs://b:2", "one scheme"),
        ("tcp://a:1,", "HOST:PORT"),
        ("ftp://a:1", "unknown scheme"),
    ] {
        assert_fails(&run(address, &["nodes"]), 2, &["error: the address", part]);
        // Wherever it comes from, and in the form that was asked for.
        let by_environment = farslot(["nodes", "--json"])
            .env("FARSLOT_ADDRESS", address)
            .output()
            .unwrap();
        assert_fails(&by_environment, 2, &[part]);
        let told = one_object(&by_environment)["error"].to_string();
        assert!(told.contains(part), "{told}");
        let served = farslot(["serve", address]).output().unwrap();
        assert_fails(&served, 2, &[part]);
    }
    let (nodes, all) = three();
    load(&all, 30);
    let two = all.rsplit_once(',').unwrap().0;
    let output = run(two, &["get", "t", "key-1"]);
    assert_fails(&output, 1, &[&nodes[2].address, "name all of them"]);
    let listed = run(two, &["stat"]);
    assert!(listed.status.success() && error_of(&listed).contains("names no node for"));
}
