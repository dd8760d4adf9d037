//! Bad input: a message that names the value and the limit, exit code 2 for usage and 1 for
//! failure, nothing lost, no panic.

use crate::common::{Node, assert_fails, error_of, farslot, fresh_address, one_object};
use std::io::Read;
use std::process::Stdio;

#[test]
fn an_address_that_cannot_be_used_is_2() {
    for (address, parts) in [
        ("rdma://host", &["rdma", "shm://NAME"][..]),
        ("tcp://host", &["HOST:PORT"]),
        ("tcp://a:1,a:1", &["twice"]),
    ] {
        let output = farslot(["-a", address, "stat"]).output().unwrap();
        assert_fails(&output, 2, parts);
    }
}

#[test]
fn usage_is_2() {
    let fails = |args: &[&str], parts: &[&str]| {
        assert_fails(&farslot(args).output().unwrap(), 2, parts);
    };
    fails(&[], &["Usage"]);
    fails(&["nonsense"], &["nonsense"]);
    fails(&["get", "t"], &["<KEY>"]);
    fails(
        &["get", "t", "k"],
        &["no store was named", "farslot serve shm://work"],
    );
    fails(
        &["-a", "embedded", "stat"],
        &["embedded", "end with this command"],
    );
    fails(
        &["-a", "shm://x", "create", "t", "-c", "0"],
        &["at least 1"],
    );
    let linear = ["-a", "shm://x", "create", "t", "--scheme", "linear"];
    fails(&linear, &["it needs a capacity"]);
    fails(
        &["-a", "shm://x", "create", "t", "-c", "1", "--max-key", "0"],
        &["at least 1 byte"],
    );
    fails(
        &[
            "-a",
            "shm://x",
            "create",
            "t",
            "-c",
            "1",
            "--load-factor",
            "1.5",
        ],
        &["at most 1"],
    );
    fails(
        &["-a", "shm://x", "put", "t", "--hex", "0", "00"],
        &["whole number of bytes"],
    );
    fails(&["-a", "shm://x", "load", "t", "file.xlsx"], &["--format"]);
    fails(
        &["-a", "shm://x", "load", "t", "--create"],
        &["--create=CAPACITY"],
    );
    fails(&["-a", "shm://x", "dump", "t", "--json"], &["name a file"]);
    fails(&["serve"], &["farslot serve shm://work"]);
    fails(
        &["serve", "sim://cx5-edr"],
        &["shm://NAME", "tcp://HOST:PORT"],
    );
    let also = ["serve", "shm://x", "--also", "embedded"];
    fails(&also, &["embedded has no process"]);
    fails(&["serve", "shm://x", "--memory", "much"], &["much"]);
}

#[test]
fn what_the_store_refuses_is_1_and_changes_nothing() {
    let node = Node::start();
    let fails = |args: &[&str], parts: &[&str]| assert_fails(&node.run(args), 1, parts);
    let cannot_be = |args: &[&str], parts: &[&str]| assert_fails(&node.run(args), 2, parts);
    node.ok([
        "create",
        "t",
        "-c",
        "100",
        "--max-key",
        "8",
        "--max-value",
        "8",
    ]);
    node.ok(["put", "t", "key", "value"]);
    fails(&["create", "t", "-c", "5"], &["\"t\" already"]);
    cannot_be(&["create", "", "-c", "5"], &["empty"]);
    cannot_be(
        &["create", "h", "-c", "5", "--heap", "1"],
        &["a record of 17 bytes", "another heap (--heap)"],
    );
    cannot_be(
        &["create", "k", "--key-size", "8", "--max-key", "9"],
        &["--key-size 8 is not possible: not with --max-key"],
    );
    fails(
        &["get", "u", "k"],
        &["no table \"u\"", "has t", "create u --capacity"],
    );
    fails(&["put", "t", "", "v"], &["at least 1 byte"]);
    fails(&["put", "t", "ninebytes", "v"], &["9 bytes", "at most 8"]);
    fails(&["put", "t", "key", "ninebytes"], &["9 bytes", "at most 8"]);
    fails(&["get", "t", "ninebytes"], &["9 bytes", "at most 8"]);
    fails(&["del", "t", ""], &["at least 1 byte"]);
    fails(&["get", "t", "other"], &["no key \"other\""]);
    fails(&["del", "t", "other"], &["no key \"other\""]);
    fails(
        &["create", "big", "-c", "10_000_000"],
        &["table \"big\" needs", "bytes", "are free"],
    );
    cannot_be(
        &["create", "huge", "-c", "18446744073709551615"],
        &["capacity", "at most"],
    );
    cannot_be(
        &["create", "wide", "-c", "1", "--max-value", "1GiB"],
        &["at most"],
    );
    cannot_be(
        &["create", "w", "-c", "1", "--slots", "word"],
        &["fixed sizes"],
    );
    cannot_be(
        &[
            "create",
            "h",
            "-c",
            "1",
            "--slots",
            "hybrid",
            "--inline-bytes",
            "12",
        ],
        &["inline bytes", "multiple of 8"],
    );
    cannot_be(
        &[
            "create",
            "h",
            "-c",
            "1",
            "--slots",
            "heap",
            "--inline-bytes",
            "16",
        ],
        &["inline bytes", "only for Hybrid"],
    );
    fails(
        &["load", "t", "/nonexistent.csv"],
        &["/nonexistent.csv", "No such file"],
    );
    assert_eq!(node.ok(["get", "t", "key"]), b"value\n");
    assert_eq!(node.count("t"), 1);
    assert_eq!(node.json(["stat"])["tables"].as_array().unwrap().len(), 1);
}

#[test]
fn a_failure_for_machines_is_one_object_too() {
    let node = Node::start();
    let output = node.run(["stat", "u", "--json"]);
    assert_fails(&output, 1, &["no table"]);
    assert!(
        one_object(&output)["error"]
            .as_str()
            .unwrap()
            .contains("no table \"u\"")
    );
    node.ok(["create", "t", "-c", "10"]);
    let absent = node.run(["get", "t", "k", "--json"]);
    assert_fails(&absent, 1, &["no key"]);
    assert_eq!(one_object(&absent)["found"], false);
}

#[test]
fn a_full_table_says_so_and_goes_on() {
    let node = Node::start();
    node.ok([
        "create",
        "t",
        "-c",
        "10",
        "--load-factor",
        "1",
        "--key-size",
        "1",
        "--value-size",
        "1",
    ]);
    let input: String = (b'a'..=b'z')
        .map(|key| format!("{0},{0}\n", char::from(key)))
        .collect();
    let full = node.feed(["load", "t"], input.as_bytes());
    assert_fails(&full, 1, &["the table is full", "10 slots", "had been put"]);
    assert_eq!(node.count("t"), 10);
    let dump = String::from_utf8(node.ok(["dump", "t"])).unwrap();
    let key = &dump.lines().nth(1).unwrap()[..1];
    node.ok(["put", "t", key, "!"]);
    assert_eq!(node.ok(["get", "t", key]), b"!\n");
}

#[test]
fn nodes_that_are_not_there_or_taken() {
    let address = fresh_address();
    let absent = farslot(["-a", &address, "get", "t", "k"]).output().unwrap();
    assert_fails(
        &absent,
        1,
        &["no process serves", &format!("farslot serve {address}")],
    );
    let node = Node::start_at(&address, "64MiB");
    let taken = farslot(["serve", &address]).output().unwrap();
    assert_fails(&taken, 1, &["taken by a running process"]);
    let beyond = farslot(["serve", &fresh_address(), "--memory", "8EiB"])
        .output()
        .unwrap();
    assert_fails(
        &beyond,
        1,
        &[
            "bytes of memory were asked for; the limit is",
            "--memory SIZE",
        ],
    );
    let small = farslot(["serve", &fresh_address(), "--memory", "1KiB"])
        .output()
        .unwrap();
    assert_fails(&small, 1, &["1024", "at least"]);
    drop(node);
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let node = Node::start();
    let input: String = (0..50_000)
        .map(|line| format!("key-{line},value\n"))
        .collect();
    assert!(
        node.feed(
            [
                "load",
                "t",
                "--create=50000",
                "--max-key",
                "16",
                "--max-value",
                "16"
            ],
            input.as_bytes()
        )
        .status
        .success()
    );
    let mut dump = node
        .command(["dump", "t"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut some = [0; 10];
    dump.stdout.take().unwrap().read_exact(&mut some).unwrap();
    let output = dump.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", error_of(&output));
    assert_eq!(error_of(&output), "");
}

#[test]
fn del_and_count_and_stat_tell_what_there_is() {
    let node = Node::start();
    node.ok(["create", "t", "-c", "100"]);
    assert_eq!(node.json(["put", "t", "a", "1"])["new"], true);
    assert_eq!(node.json(["put", "t", "a", "2"])["new"], false);
    node.ok(["put", "t", "b", "1"]);
    assert_eq!(node.json(["count", "t", "--approximate"])["count"], 2);
    assert_eq!(node.json(["del", "t", "a"])["removed"], 1);
    assert_eq!(node.ok(["count", "t"]), b"1\n");
    let stat = node.json(["stat", "t"]);
    assert_eq!(
        (&stat["records"], &stat["dead_slots"]),
        (&1.into(), &1.into())
    );
    assert_eq!(stat["occupancy"].as_array().unwrap().len(), 64);
    let drawn = String::from_utf8(node.ok(["stat", "t"])).unwrap();
    assert!(
        drawn.contains("occupancy") && drawn.contains("cluster length"),
        "{drawn}"
    );
    let listed = String::from_utf8(node.ok(["stat"])).unwrap();
    assert!(
        listed.contains("1 table") && listed.contains(" t "),
        "{listed}"
    );
}

#[test]
fn a_line_that_is_longer_than_any_key_is_refused() {
    let node = Node::start();
    node.ok(["create", "t", "-c", "100", "--max-key", "16"]);
    node.ok(["put", "t", "0123456789abcdef", "1"]);
    let long = [&b"0123456789abcdef\r\n"[..], &[b'x'; 1 << 20]].concat();
    let refused = node.feed(["del", "t", "--from", "-"], &long);
    assert_fails(&refused, 1, &["a key of 1048576 bytes", "at most 16 bytes"]);
    // The key that stands before it was removed.
    node.ok(["put", "t", "0123456789abcdef", "1"]);
    let hex = "30313233343536373839616263646566\n\n".as_bytes();
    let removed = node.feed(["del", "t", "--from", "-", "--hex", "--json"], hex);
    assert_eq!(one_object(&removed)["removed"], 1);
}
