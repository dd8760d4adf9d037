//! Queues from the shell.

use crate::common::{ANY_PORT, Node, assert_fails, error_of, farslot};
use serde_json::Value;
use std::collections::BTreeSet;

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[test]
fn items_are_pushed_popped_and_looked_at() {
    for node in Node::of_each_fabric() {
        let create = ["create", "jobs", "--capacity", "5", "--max-value", "20"];
        let made = node.ok(create.iter().chain(&["--scheme", "queue"]));
        let made = text(made);
        assert!(
            made.contains("5 inline slots (queue), items of at most 20 bytes;"),
            "{made}"
        );
        let pushed = node.json(["push", "jobs", "one", "two", "three", "-4"]);
        assert_eq!(
            (&pushed["pushed"], &pushed["position"]),
            (&4.into(), &0.into())
        );
        assert_eq!(text(node.ok(["pop", "jobs", "--peek"])), "one\n");
        assert_eq!(text(node.ok(["pop", "jobs"])), "one\n");
        assert_eq!(node.ok(["pop", "jobs", "--raw"]), b"two");
        assert_eq!(node.count("jobs"), 2);
        let stat = node.json(["stat", "jobs"]);
        assert_eq!(stat["scheme"], "queue");
        assert_eq!((&stat["records"], &stat["slots"]), (&2.into(), &5.into()));
        assert_eq!(stat["key_bytes"], Value::Null);
        let shown = text(node.ok(["stat", "jobs"]));
        assert!(shown.contains("the node, by calls"), "{shown}");
        assert!(text(node.ok(["stat"])).contains("queue"));
        assert_eq!(node.sorted_dump("jobs"), ["2,three", "3,-4", "key,value"]);
        node.ok(["push", "jobs", "--hex", "00ff"]);
        let rest = node.command(["pop", "jobs", "--count", "9", "--json"]);
        let rest = { rest }.output().unwrap();
        let rest: Vec<Value> = text(rest.stdout)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(rest.len(), 3);
        assert_eq!(rest[1]["value"], "-4");
        assert_eq!(rest[2]["value_base64"], "AP8=");
        let empty = node.run(["pop", "jobs"]);
        assert_fails(&empty, 1, &["the queue \"jobs\" is empty"]);
        assert_eq!(empty.stdout, b"");
    }
}

#[test]
fn what_a_queue_cannot_do_is_said_and_so_is_what_others_cannot() {
    let node = Node::start();
    node.ok(["create", "q", "--capacity", "2", "--scheme", "queue"]);
    node.ok(["create", "t", "--capacity", "10"]);
    let full = node.run(["push", "q", "one", "two", "three"]);
    assert_fails(&full, 1, &["the queue \"q\" is full", "2 items"]);
    assert_eq!(node.count("q"), 0);
    let long = node.run(["push", "q", &"x".repeat(1_025)]);
    assert_fails(&long, 1, &["1025 bytes", "at most 1024 bytes"]);
    for other in [node.run(["push", "t", "one"]), node.run(["pop", "t"])] {
        assert_fails(&other, 1, &["table \"t\" is linear", "scheme queue"]);
    }
    for args in [&["get", "q", "key"][..], &["put", "q", "key", "value"]] {
        assert_fails(&node.run(args), 1, &["a queue has no keys (push and pop)"]);
    }
    let scanned = node.run(["scan", "q"]);
    assert!(error_of(&scanned).contains("no keys that could be locked"));
    let loaded = node.feed(["load", "r", "--create=10", "--scheme", "queue"], b"a,b\n");
    assert_fails(&loaded, 2, &["a queue table has no keys", "farslot push"]);
    let loaded = node.feed(["load", "q", "--no-header"], b"a,b\n");
    assert_fails(&loaded, 1, &["a queue has no keys (push and pop)"]);
    let copied = node.run(["copy", "t", "r", "--scheme", "queue"]);
    assert_fails(&copied, 2, &["copied from = linear", "queue alone"]);
    let keyed = ["create", "r", "--capacity", "2", "--scheme", "queue"];
    let keyed = node.run(keyed.iter().chain(&["--max-key", "8"]));
    assert_fails(
        &keyed,
        2,
        &["--max-key 8 is not possible: for tables of the scheme linear or"],
    );
    let growing = node.run(["create", "r", "--scheme", "queue"]);
    assert_fails(
        &growing,
        2,
        &["--scheme queue is not possible: it needs a capacity"],
    );
    assert_fails(&node.run(["push", "q"]), 2, &["VALUES"]);
}

/// Each process pushes or pops one or two at a time.
#[test]
fn processes_pop_each_item_once() {
    for node in Node::of_each_fabric() {
        node.ok(["create", "q", "--capacity", "100", "--scheme", "queue"]);
        let popped = std::thread::scope(|scope| {
            let node = &node;
            for producer in 0..2 {
                scope.spawn(move || {
                    for number in 0..15 {
                        let item = |half| format!("{producer} {number:02} {half}");
                        node.ok(["push", "q", &item(0), &item(1)]);
                    }
                });
            }
            let consumers = [(); 2].map(|()| {
                scope.spawn(move || {
                    let mut popped = Vec::new();
                    while popped.len() < 30 {
                        let output = node.run(["pop", "q", "--count", "2"]);
                        popped.extend(text(output.stdout).lines().map(String::from));
                        popped.extend((popped.len() == 29).then(|| text(node.ok(["pop", "q"]))));
                    }
                    popped
                })
            });
            consumers.map(|consumer| consumer.join().unwrap())
        });
        for popped in &popped {
            for producer in ["0", "1"] {
                let own = popped.iter().filter(|item| item.starts_with(producer));
                assert!(own.map(|item| item.trim()).is_sorted(), "{popped:?}");
            }
        }
        let all = popped.iter().flatten();
        let all: BTreeSet<_> = all.map(|item| item.trim().to_owned()).collect();
        assert_eq!(all.len(), 60);
        assert_eq!(node.count("q"), 0);
    }
}

#[test]
fn a_node_begins_with_the_queue_of_its_snapshot_in_its_order() {
    let directory = tempfile::tempdir().unwrap();
    let snapshots = directory.path().to_str().unwrap();
    let node = Node::start();
    node.ok(["create", "q", "--capacity", "100", "--scheme", "queue"]);
    node.ok(["push", "q", "gone", "one", "two"]);
    node.ok(["push", "q", "three"]);
    node.ok(["pop", "q"]);
    node.ok(["snapshot", snapshots]);
    node.ok(["copy", "q", "copy"]);
    node.ok([
        "copy",
        "q",
        "more",
        "--scheme",
        "queue",
        "--capacity",
        "200",
    ]);
    assert_eq!(node.json(["stat", "more"])["slots"], 200);
    let expected = "one\ntwo\nthree\n";
    for copy in ["copy", "more"] {
        assert_eq!(text(node.ok(["pop", copy, "--count", "9"])), expected);
    }
    let serve = ["serve", ANY_PORT, "--memory", "256MiB", "--while-stdin"];
    let restoring = ["--snapshot-dir", snapshots, "--restore"];
    let again = Node::start_command(farslot(serve.into_iter().chain(restoring)));
    again.ok(["push", "q", "four"]);
    let items = text(again.ok(["pop", "q", "--count", "9"]));
    assert_eq!(items, format!("{expected}four\n"));
}
