//! Records with a time to live, copies of tables, and keys that come and go, as the program has
//! them.

use crate::common::{
    ANY_PORT, Node, assert_fails, error_of, farslot, lines, one_object, wait_until,
};

#[test]
fn records_live_as_long_as_they_are_told_to() {
    for node in Node::of_each_fabric() {
        let created = node.json(["create", "sessions"]);
        assert_eq!(created["expiring"], true);
        assert_eq!(created["value_bytes"]["at_most"], 1 << 20);
        node.ok(["put", "sessions", "ada", "in", "--ttl", "1h"]);
        assert_eq!(node.ok(["get", "sessions", "ada"]), b"in\n");
        let left = |key: &str| node.json(["get", "sessions", key])["expires_in_seconds"].as_f64();
        let seconds = left("ada").unwrap();
        assert!(seconds > 3_000.0 && seconds <= 3_600.0, "{seconds}");
        let said = String::from_utf8(node.ok(["expire", "sessions", "ada"])).unwrap();
        assert!(
            said.starts_with("expires in 3") && said.ends_with(" s\n"),
            "{said}"
        );
        assert_eq!(
            node.ok(["expire", "sessions", "ada", "never"]),
            b"never expires\n"
        );
        assert_eq!(left("ada"), None);
        node.ok(["expire", "sessions", "ada", "0s"]);
        assert_fails(&node.run(["get", "sessions", "ada"]), 1, &["no key"]);
        assert_fails(
            &node.run(["expire", "sessions", "ada", "1h"]),
            1,
            &["no key \"ada\""],
        );
        let absent = node.run(["expire", "sessions", "ada", "--json"]);
        assert_fails(&absent, 1, &[]);
        assert_eq!(one_object(&absent)["found"], false);
        // What a file brings goes as well, and its memory with it.
        let loaded = node.feed(
            ["load", "sessions", "--ttl", "1ms"],
            lines(0..500).as_bytes(),
        );
        assert!(loaded.status.success(), "{}", error_of(&loaded));
        node.ok(["put", "sessions", "stays", "here"]);
        assert_eq!(node.sorted_dump("sessions"), ["key,value", "stays,here"]);
        wait_until(
            || node.count("sessions") == 1,
            || format!("{} records are left", node.count("sessions")),
        );
        for (command, wrong) in [
            (
                &["put", "sessions", "k", "v", "--ttl", "soon"][..],
                "no time such as",
            ),
            (&["expire", "sessions", "k", "1"], "no time such as"),
        ] {
            assert_fails(&node.run(command), 2, &[wrong]);
        }
    }
}

#[test]
fn tables_are_asked_for_records_that_expire() {
    let node = Node::start();
    node.ok([
        "create",
        "fixed",
        "-c",
        "100",
        "--expiring",
        "--key-size",
        "4",
        "--value-size",
        "4",
    ]);
    node.ok(["put", "fixed", "abcd", "1234", "--ttl", "5m"]);
    assert_fails(
        &node.run(["put", "fixed", "abcd", "12345"]),
        1,
        &["5 bytes", "exactly 4"],
    );
    node.ok(["create", "plain", "-c", "100"]);
    let refused = node.run(["put", "plain", "k", "v", "--ttl", "5m"]);
    assert_fails(
        &refused,
        1,
        &["\"plain\" have no time to live", "--expiring"],
    );
    let refused = node.run([
        "create",
        "c",
        "-c",
        "100",
        "--scheme",
        "cuckoo",
        "--expiring",
    ]);
    assert_fails(&refused, 2, &["linear and RACE tables"]);
    let never = node.json(["create", "never", "--expiring=false"]);
    assert_eq!(never["expiring"], false);
    // A table that load makes for them.
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("records.csv");
    std::fs::write(&file, lines(0..3_000)).unwrap();
    node.ok([
        "load",
        "made",
        file.to_str().unwrap(),
        "--create",
        "--ttl",
        "1h",
    ]);
    let got = node.json(["get", "made", "key-7"]);
    assert!(got["expires_in_seconds"].as_f64().unwrap() > 3_000.0);
}

#[test]
fn a_dump_keeps_the_moments_if_asked_and_says_so_if_not() {
    let node = Node::start();
    node.ok(["create", "t"]);
    node.ok(["put", "t", "short", "v", "--ttl", "1h"]);
    node.ok(["put", "t", "stays", "w"]);
    let plain = node.run(["dump", "t"]);
    assert!(plain.status.success());
    assert!(
        error_of(&plain).contains("1 record that will expire")
            && error_of(&plain).contains("--expires")
    );
    assert_eq!(node.sorted_dump("t"), ["key,value", "short,v", "stays,w"]);
    let directory = tempfile::tempdir().unwrap();
    for (number, format) in ["csv", "tsv", "ndjson"].into_iter().enumerate() {
        let file = directory.path().join(format!("t.{format}"));
        let file = file.to_str().unwrap();
        let dumped = node.run(["dump", "t", file, "--expires"]);
        assert!(!error_of(&dumped).contains("will expire"), "{dumped:?}");
        // Into a table that is there, and into one that is made for them.
        let made = format!("made-{number}");
        node.ok(["load", &made, file, "--create"]);
        let there = format!("there-{number}");
        node.ok(["create", &there]);
        node.ok(["load", &there, file, "--ttl", "2h"]);
        for table in [&made, &there] {
            let left = |key| node.json(["get", table, key])["expires_in_seconds"].as_f64();
            let seconds = left("short").unwrap();
            assert!(
                seconds > 3_000.0 && seconds <= 3_600.0,
                "{format}: {seconds}"
            );
            // Of those whose file does not say.
            let stays = left("stays");
            assert_eq!(stays.is_some(), table == &there, "{stays:?}");
        }
    }
    // Records that have expired since are passed over, and no table takes one for ever instead.
    let file = "key,value,expires_unix_ms\na,1,1\nb,2,\nc,3,99999999999999\n";
    node.ok(["create", "late"]);
    let loaded = node.feed(["load", "late", "--json"], file.as_bytes());
    let loaded = one_object(&loaded);
    assert_eq!(
        (&loaded["records"], &loaded["expired"]),
        (&2.into(), &1.into())
    );
    assert_eq!(node.sorted_dump("late"), ["b,2", "c,3", "key,value"]);
    node.ok(["create", "plain", "-c", "100"]);
    let refused = node.feed(["load", "plain"], file.as_bytes());
    assert_fails(&refused, 1, &["line 2", "line 4", "--expiring"]);
    assert_eq!(node.sorted_dump("plain"), ["b,2", "key,value"]);
    let refused = node.feed(
        ["load", "sealed", "--create", "--seal", "--scheme", "sealed"],
        file.as_bytes(),
    );
    assert_fails(&refused, 1, &["line 2", "it expires"]);
}

#[test]
fn a_table_is_copied() {
    let node = Node::start();
    node.ok(["create", "t"]);
    let loaded = node.feed(["load", "t"], lines(0..2_000).as_bytes());
    assert!(loaded.status.success(), "{}", error_of(&loaded));
    node.ok(["put", "t", "short", "v", "--ttl", "1h"]);
    let copied = node.json(["copy", "t", "copy"]);
    assert_eq!(
        (&copied["records"], &copied["table"]),
        (&2_001.into(), &"copy".into())
    );
    node.ok(["put", "t", "key-1", "other"]);
    assert_eq!(node.ok(["get", "copy", "key-1"]), b"value of 1\n");
    assert!(node.json(["get", "copy", "short"])["expires_in_seconds"].is_number());
    assert_eq!(node.count("copy"), 2_001);
    assert_fails(&node.run(["copy", "t", "copy"]), 1, &["\"copy\" already"]);
    assert_fails(
        &node.run(["copy", "none", "new"]),
        1,
        &["no table \"none\""],
    );
    assert_eq!(node.ok(["tables"]), b"t\ncopy\n");
    assert_fails(&farslot(["copy", "t"]).output().unwrap(), 2, &[]);
}

#[test]
fn keys_of_a_file_are_removed() {
    let node = Node::start();
    node.ok(["create", "t"]);
    let loaded = node.feed(["load", "t"], lines(0..10_000).as_bytes());
    assert!(loaded.status.success(), "{}", error_of(&loaded));
    let keys: String = (0..9_000).map(|number| format!("key-{number}\n")).collect();
    let removed = node.feed(
        ["del", "t", "key-9000", "--from", "-", "--json"],
        keys.as_bytes(),
    );
    assert!(removed.status.success(), "{}", error_of(&removed));
    assert_eq!(one_object(&removed)["removed"], 9_001);
    assert_eq!(node.count("t"), 999);
    let again = node.feed(["del", "t", "--from", "-", "--json"], keys.as_bytes());
    assert_fails(&again, 1, &["no key \"key-0\""]);
    assert_eq!(one_object(&again)["absent"], 9_000);
    assert!(error_of(&again).lines().count() < 20, "the first are named");
    assert_fails(
        &node.run(["del", "t", "--from", "/nonexistent"]),
        1,
        &["/nonexistent"],
    );
    assert_fails(&node.run(["del", "t"]), 2, &[]);
}

/// As many keys come as go, through a table that was made without numbers: by files, as a user has
/// them.
fn churn(address: &str, live: u32, all: u32) {
    let run = |args: &[&str], input: &str| {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("input.csv");
        std::fs::write(&file, input).unwrap();
        let output = farslot(args)
            .arg(&file)
            .args(["-a", address, "--json"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{args:?}: {}", error_of(&output));
        one_object(&output)
    };
    let made = farslot(["create", "sessions", "-a", address]).output();
    assert!(made.unwrap().status.success());
    for first in (0..all).step_by(live as usize) {
        let loaded = run(
            &["load", "sessions", "--no-header"],
            &lines(first..first + live),
        );
        assert_eq!(loaded["new"], live, "from {first}");
        if first > 0 {
            let old = first - live..first;
            let old: String = old.map(|number| format!("key-{number}\n")).collect();
            let removed = run(&["del", "sessions", "--from"], &old);
            assert_eq!(removed["removed"], live, "before {first}");
        }
    }
    let counted = farslot(["count", "sessions", "-a", address, "--json"]).output();
    assert_eq!(one_object(&counted.unwrap())["count"], live);
    let key = format!("key-{}", all - 1);
    let last = farslot(["get", "sessions", &key, "-a", address]).output();
    let last = String::from_utf8(last.unwrap().stdout).unwrap();
    assert_eq!(last, format!("value of {}\n", all - 1));
}

/// Runs it on one node and on three.
fn churn_on_nodes(live: u32, all: u32) {
    let nodes = [(); 4].map(|()| Node::start_at(ANY_PORT, "128MiB"));
    churn(&nodes[0].address, live, all);
    let three: Vec<_> = nodes[1..]
        .iter()
        .map(|node| node.address.strip_prefix("tcp://").unwrap())
        .collect();
    churn(&format!("tcp://{}", three.join(",")), live, all);
}

#[test]
fn tables_without_numbers_survive_files_that_come_and_go() {
    churn_on_nodes(4_000, 20_000);
}

#[test]
#[ignore = "takes minutes: scripts/test --all"]
fn tables_without_numbers_survive_20_million_keys() {
    churn_on_nodes(200_000, 20_000_000);
}
