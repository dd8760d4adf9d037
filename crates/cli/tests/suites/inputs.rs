//! Files and names that are not as they should be, as a user meets them. What each small file comes
//! to is in a table beside the formats.

use crate::common::{Node, assert_fails, error_of, farslot, one_object};
use std::process::Stdio;

#[test]
fn a_file_that_is_no_csv_fails_and_what_stands_before_is_loaded() {
    let node = Node::start();
    node.ok(["create", "t", "-c", "10k"]);
    let directory = tempfile::tempdir().unwrap();
    let load = |name: &str, content: &[u8], more: &[&str]| {
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        let path = path.to_str().unwrap();
        node.run([&["load", "t", path, "--json"], more].concat())
    };
    let mut cut: String = (0..1000).map(|line| format!("k{line},v\n")).collect();
    cut += "last,\"never closed\n";
    cut += &"more,1\n".repeat(1000);
    let failed = load("cut.csv", cut.as_bytes(), &["--max-bad", "5"]);
    let parts = [
        "cut.csv: line 1001: the quote",
        "not closed",
        "1 000 records had been put",
    ];
    assert_fails(&failed, 1, &parts);
    assert_eq!(node.count("t"), 1000);
    // A table that is to be made for its records is not made for those before the damage.
    let path = directory.path().join("cut.csv");
    let created = node.run(["load", "new", path.to_str().unwrap(), "--create"]);
    assert_fails(&created, 1, &["cut.csv: line 1001"]);
    assert_fails(&node.run(["count", "new"]), 1, &["no table \"new\""]);
    let stray = load("stray.csv", b"a,1\nb,\"2\" \nc,3\n", &[]);
    assert_fails(
        &stray,
        1,
        &["stray.csv: line 2: the quote", "' ' where ','"],
    );
    let wide = load("utf16.csv", b"\xFF\xFEi\0d\0,\0n\0\n\0", &[]);
    assert_fails(&wide, 1, &["utf16.csv: line 1: the file is in UTF-16"]);
    let asked = load("asked.csv", b"title,text\n", &[]);
    assert_fails(
        &asked,
        2,
        &["asked.csv: the first line", "--header or --no-header"],
    );
    for (name, content) in [
        ("marked.csv", &b"\xEF\xBB\xBFmarked,1\n"[..]),
        (
            "marked.ndjson",
            b"\xEF\xBB\xBF{\"key\":\"marked\",\"value\":\"2\"}\n",
        ),
    ] {
        let loaded = load(name, content, &[]);
        assert_eq!(one_object(&loaded)["records"], 1, "{}", error_of(&loaded));
    }
    assert_eq!(node.ok(["get", "t", "marked"]), b"2\n");
}

#[test]
fn a_file_without_end_is_refused() {
    let node = Node::start();
    node.ok(["create", "t", "-c", "10"]);
    for format in ["csv", "ndjson"] {
        let mut load = node.command(["load", "t", "--format", format, "--no-header"]);
        let endless = std::fs::File::open("/dev/zero").unwrap();
        let output = load.stdin(Stdio::from(endless)).output().unwrap();
        assert_fails(
            &output,
            1,
            &["line 1: longer than the limit of 33554432 bytes"],
        );
    }
}

#[test]
fn names_that_nobody_sees_are_refused() {
    let node = Node::start();
    for name in [".", "..", "a\u{202e}b", "a\u{200b}", " a", "\u{3164}"] {
        let refused = node.run(["create", name, "-c", "10"]);
        assert_fails(&refused, 2, &["the table name", "is not usable"]);
        assert!(error_of(&refused).chars().all(|of| of != '\u{202e}'));
    }
    node.ok(["create", "gr\u{fc}n \u{1f33f}", "-c", "10"]);
    let directory = tempfile::tempdir().unwrap();
    let path = |name| directory.path().join(name);
    let [grants, secret, own] = ["grants.toml", "secret", "own"].map(path);
    std::fs::write(&secret, "0123456789abcdef0123456789abcdef\n").unwrap();
    std::fs::write(&own, "another secret of the node's owner\n").unwrap();
    std::fs::write(
        &grants,
        format!("[\"..\"]\ntables = [\"t\"]\nrights = \"read\"\nsecret_file = {secret:?}\n"),
    )
    .unwrap();
    let mut served = farslot(["serve", "tcp://127.0.0.1:0", "--memory", "64MiB"]);
    let served = served.args(["--grants".as_ref(), grants.as_os_str()]);
    let served = served.args(["--secret-file".as_ref(), own.as_os_str()]);
    let served = served.stdin(Stdio::null()).output().unwrap();
    assert_fails(&served, 1, &["the grant \"..\"", "stands for a directory"]);
}

#[test]
fn several_keys_are_looked_up_together_and_those_that_are_absent_are_named() {
    let node = Node::start();
    node.ok(["create", "t"]);
    let all: String = (0..300)
        .map(|number| format!("k{number},v{number}\n"))
        .collect();
    assert!(
        node.feed(
            ["load", "t", "-", "--format", "csv", "--no-header"],
            all.as_bytes()
        )
        .status
        .success()
    );
    let found = node.run(["get", "t", "k7", "none", "k3"]);
    assert_fails(&found, 1, &["the table \"t\" has no key \"none\""]);
    assert_eq!(found.stdout, b"key,value\nk7,v7\nk3,v3\n");
    // Of a file, more than are looked up at a time, in its order.
    let keys: String = (0..300)
        .rev()
        .map(|number| format!("k{number}\n\n"))
        .collect();
    let listed = node.feed(
        ["get", "t", "k5", "--from", "-", "--format", "tsv"],
        keys.as_bytes(),
    );
    assert!(listed.status.success(), "{}", error_of(&listed));
    let listed = String::from_utf8(listed.stdout).unwrap();
    let lines: Vec<_> = listed.lines().collect();
    assert_eq!(
        (lines.len(), lines[1], lines[2], lines[301]),
        (302, "k5\tv5", "k299\tv299", "k0\tv0")
    );
    let or = node.ok(["get", "t", "k1", "none", "--or", "x", "--format", "ndjson"]);
    let lines = String::from_utf8(or).unwrap();
    assert_eq!(
        lines,
        "{\"key\":\"k1\",\"value\":\"v1\"}\n{\"key\":\"none\",\"value\":\"x\"}\n"
    );
    // One key, as a record.
    assert_eq!(
        node.ok(["get", "t", "6b31", "--hex", "-f", "csv"]),
        b"key,value\n6b31,7631\n"
    );
    let objects = node.run(["get", "t", "k1", "none", "--json"]);
    assert_eq!(objects.status.code(), Some(1));
    let objects = String::from_utf8(objects.stdout).unwrap();
    let found: Vec<serde_json::Value> = objects
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        (&found[0]["value"], &found[1]["found"]),
        (&"v1".into(), &false.into())
    );
    let many = (0..12)
        .map(|number| format!("no{number}\n"))
        .collect::<String>();
    let absent = node.feed(["get", "t", "--from", "-"], many.as_bytes());
    assert_fails(&absent, 1, &["\"no9\"", "nor 2 keys more"]);
    assert!(!error_of(&absent).contains("no10"));
    assert_fails(
        &node.run(["get", "t", "a", "b", "--raw"]),
        2,
        &["--raw is for one key"],
    );
    assert_fails(
        &node.run(["get", "t", "a", "b", "--all"]),
        2,
        &["--all is for one key"],
    );
}
