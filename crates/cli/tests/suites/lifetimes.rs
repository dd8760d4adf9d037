//! Records with a time to live, and copies of tables, as the program has them.

use crate::common::{Node, assert_fails, error_of, farslot, lines, one_object, wait_until};

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
