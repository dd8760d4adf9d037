//! Sealed tables from the shell: loaded whole, read, and refused to writers.

use crate::common::{Node, assert_fails, error_of, lines, one_object};
use std::process::Stdio;

const LOAD: [&str; 5] = ["load", "t", "--create", "--scheme", "sealed"];

#[test]
fn a_file_becomes_a_table_that_is_read_as_any_other() {
    let node = Node::start();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("all.csv");
    let input = lines(0..4_000) + "key-1,the last of two\n" + ",no key\n";
    std::fs::write(&file, input).unwrap();
    let file = [file.to_str().unwrap(), "--json"];
    // Of a part of its records it is not made.
    let refused = node.run(LOAD.iter().chain(&file));
    assert_fails(&refused, 1, &["1 bad line", "--max-bad 0", "line 4002"]);
    assert_fails(&node.run(["count", "t"]), 1, &["no table"]);
    let max_bad = ["--max-bad", "1"];
    let loaded = node.run(LOAD.iter().chain(&file).chain(&max_bad));
    let error = error_of(&loaded);
    assert!(error.contains("read 4 001 records into"), "{error}");
    assert!(error.contains("a key must have at least 1 byte"), "{error}");
    assert!(error.contains("created t: "), "{error}");
    let loaded = one_object(&loaded);
    assert_eq!(
        (&loaded["records"], &loaded["new"], &loaded["bad_lines"]),
        (&4_001.into(), &4_000.into(), &1.into())
    );
    assert_eq!(loaded["sealed"], true);

    assert_eq!(node.ok(["get", "t", "key-1", "--raw"]), b"the last of two");
    assert_fails(&node.run(["get", "t", "key-4000"]), 1, &["no key"]);
    assert_eq!(node.count("t"), 4_000);
    assert_eq!(
        node.json(["count", "t", "--approximate"])["count"],
        node.count("t")
    );
    let stat = node.json(["stat", "t"]);
    assert_eq!(
        (&stat["scheme"], &stat["built"]),
        (&"sealed".into(), &true.into())
    );
    assert_eq!(stat["records"], 4_000);
    let drawn = String::from_utf8(node.ok(["stat", "t"])).unwrap();
    assert!(
        drawn.contains("(sealed)") && drawn.contains("the table is sealed"),
        "{drawn}"
    );
    let dump = node.ok(["dump", "t"]);
    assert!(
        node.feed(["load", "l", "--create=5000"], &dump)
            .status
            .success()
    );
    assert_eq!(node.sorted_dump("l"), node.sorted_dump("t"));

    let parts = ["the table is sealed", "load --create"];
    assert_fails(&node.run(["put", "t", "a", "b"]), 1, &parts);
    assert_fails(&node.run(["del", "t", "key-1"]), 1, &parts);
    assert_fails(&node.feed(["load", "t"], b"a,1\n"), 1, &parts);
    assert_fails(&node.run(["take-over", "t"]), 2, &["t is a sealed table"]);
    assert_fails(&node.run(LOAD.iter().chain(&file)), 1, &["\"t\" already"]);
    assert_eq!(node.count("t"), 4_000);
}

#[test]
fn records_of_one_size_lie_in_the_slots() {
    let node = Node::start();
    let input = b"k1,abcd\nk2,efgh\nk1,last\n";
    let loaded = node.feed(LOAD, input);
    assert!(loaded.status.success(), "{}", error_of(&loaded));
    let stat = node.json(["stat", "t"]);
    assert_eq!(stat["slot_kind"], "inline");
    assert_eq!(stat["slot_bytes"], 6);
    assert_eq!(stat["key_bytes"], serde_json::json!({ "exactly": 2 }));
    assert_eq!(node.ok(["get", "t", "k1"]), b"last\n");
    let several = ["load", "m", "--create", "--scheme", "sealed", "--multi-key"];
    assert!(node.feed(several, input).status.success());
    assert_eq!(node.count("m"), 3);
    let found = node.json(["get", "m", "k1", "--all"]);
    assert_eq!(found["records"].as_array().unwrap().len(), 2);
}

#[test]
fn each_key_has_one_slot_with_a_perfect_hash() {
    let node = Node::start();
    for (table, more) in [("t", &["--perfect"][..]), ("f", &["--perfect", "--filter"])] {
        let load = ["load", table, "--create", "--scheme", "sealed"];
        let loaded = node.feed(load.iter().chain(more), lines(0..2_000).as_bytes());
        assert!(loaded.status.success(), "{}", error_of(&loaded));
        assert_eq!(node.count(table), 2_000);
        assert_eq!(node.json(["stat", table])["slots"], 2_021);
        assert_fails(&node.run(["get", table, "key-4000"]), 1, &["no key"]);
    }
    assert_eq!(node.sorted_dump("t"), node.sorted_dump("f"));
    let linear = node.run(["create", "l", "-c", "9", "--perfect"]);
    assert_fails(&linear, 2, &["--perfect is not possible", "scheme sealed"]);
    let alone = node.run(["create", "l", "-c", "9", "--scheme", "sealed", "--filter"]);
    assert_fails(
        &alone,
        2,
        &["--filter is not possible: only with --perfect"],
    );
}

#[test]
fn a_table_that_is_not_built_yet_is_listed_and_can_be_loaded() {
    let node = Node::start();
    node.ok(["create", "t", "-c", "100", "--scheme", "sealed"]);
    let listed = node.json(["stat"]);
    assert_eq!(listed["tables"][0]["built"], false);
    let drawn = String::from_utf8(node.ok(["stat"])).unwrap();
    assert!(drawn.contains("not built"), "{drawn}");
    for command in [&["get", "t", "a"][..], &["count", "t"], &["stat", "t"]] {
        assert_fails(&node.run(command), 1, &["has not been built", "at work"]);
    }
    let loaded = node.feed(["load", "t"], b"a,1\nb,2\n");
    assert!(loaded.status.success(), "{}", error_of(&loaded));
    assert_eq!(node.ok(["get", "t", "b"]), b"2\n");
    assert_eq!(node.count("t"), 2);
}

#[test]
fn a_load_that_is_killed_while_it_reads_has_made_nothing() {
    let node = Node::start();
    let mut loader = node
        .command(LOAD)
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = loader.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, lines(0..20_000).as_bytes()).unwrap();
    loader.kill().unwrap();
    loader.wait().unwrap();
    assert_eq!(node.json(["stat"])["tables"].as_array().unwrap().len(), 0);
    let loaded = node.feed(LOAD, lines(0..20_000).as_bytes());
    assert!(loaded.status.success(), "{}", error_of(&loaded));
    assert_eq!(node.count("t"), 20_000);
}

#[test]
fn what_does_not_go_together_is_named_before_anything_is_read() {
    let node = Node::start();
    let fails = |args: &[&str], code, parts: &[&str]| {
        assert_fails(&node.run(LOAD.iter().chain(args)), code, parts);
    };
    fails(&["--ways", "2"], 2, &["--ways 2", "scheme cuckoo"]);
    fails(&["--slots", "pair"], 2, &["slot = Pair", "Inline or Heap"]);
    fails(&["--heap", "1MiB"], 2, &["heap bytes"]);
    fails(&["/nonexistent.csv"], 1, &["/nonexistent.csv"]);
    let capacity = ["load", "t", "--create=10", "--scheme", "sealed"];
    assert_fails(&node.run(capacity), 2, &["--create=10", "never changes"]);
    let small = node.feed(
        LOAD.iter().chain(&["--key-size", "2", "--max-bad", "1"]),
        b"abc,1\nab,2\n",
    );
    assert!(small.status.success(), "{}", error_of(&small));
    assert!(error_of(&small).contains("a key of 3 bytes does not fit"));
    assert_eq!(node.count("t"), 1);
}

#[test]
fn a_table_larger_than_the_memory_is_refused_and_leaves_no_trace() {
    let node = Node::start_at(&crate::common::fresh_address(), "1MiB");
    let wide: String = (0..5_000)
        .map(|number| format!("key-{number},{}\n", "x".repeat(300)))
        .collect();
    let loaded = node.feed(LOAD, wide.as_bytes());
    assert_fails(&loaded, 1, &["bytes", "are free", "serve more"]);
    assert_eq!(node.json(["stat"])["tables"].as_array().unwrap().len(), 0);
}
