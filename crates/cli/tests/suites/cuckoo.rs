//! Cuckoo tables from the shell: made, filled, drawn, and written by one client at a time.

use crate::common::{Node, assert_fails, error_of, lines, one_object};
use std::io::Write;
use std::process::{Child, ChildStdin};

const CREATE: [&str; 10] = [
    "create",
    "t",
    "-c",
    "100000",
    "--max-key",
    "16",
    "--max-value",
    "64",
    "--scheme",
    "cuckoo",
];

/// A `load` that has put records and waits for more.
pub fn loading(node: &Node) -> (Child, ChildStdin) {
    let mut loader = node.spawn(["load", "t"]);
    let mut input = loader.stdin.take().unwrap();
    input.write_all(lines(0..20_000).as_bytes()).unwrap();
    while node.count("t") < 2_000 {
        std::thread::yield_now();
    }
    (loader, input)
}

#[test]
fn what_is_loaded_comes_back_and_goes_into_a_table_of_the_other_scheme() {
    let node = Node::start();
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (
        directory.path().join("first.csv"),
        directory.path().join("second.csv"),
    );
    std::fs::write(&first, lines(0..5_000)).unwrap();
    let first = first.to_str().unwrap();
    let load = ["load", "c", first, "--create", "--scheme", "cuckoo"];
    let loaded = node.json(load);
    assert_eq!(
        (&loaded["records"], &loaded["new"]),
        (&5_000.into(), &5_000.into())
    );
    let second = second.to_str().unwrap();
    node.ok(["dump", "c", second]);
    node.ok(["load", "l", second, "--create"]);
    assert_eq!(node.sorted_dump("c"), node.sorted_dump("l"));
    assert_eq!(node.sorted_dump("c").len(), 5_001);
    // Again, over what is there: nothing is new.
    let again = node.json(["load", "c", second]);
    assert_eq!(
        (&again["records"], &again["new"]),
        (&5_000.into(), &0.into())
    );
    assert_eq!(node.count("c"), 5_000);
    assert_eq!(node.ok(["get", "c", "key-4999", "--raw"]), b"value of 4999");
    assert_eq!(node.json(["del", "c", "key-1", "key-2"])["removed"], 2);
    assert_eq!(
        node.json(["count", "c", "--approximate"])["count"],
        node.count("c")
    );
}

#[test]
fn the_shape_is_told_to_people_and_machines() {
    let node = Node::start();
    let shape = ["--ways", "2", "--bucket-slots", "8", "--json"];
    let made = one_object(&node.run(CREATE.iter().chain(&shape)));
    assert_eq!(made["scheme"], "cuckoo");
    assert_eq!(
        (&made["ways"], &made["bucket_slots"]),
        (&2.into(), &8.into())
    );
    node.ok(["put", "t", "a", "1"]);
    let stat = node.json(["stat", "t"]);
    assert_eq!((&stat["records"], &stat["ways"]), (&1.into(), &2.into()));
    assert_eq!(stat["writer"], serde_json::Value::Null);
    let buckets = stat["buckets_by_used_slots"].as_array().unwrap();
    assert_eq!((buckets.len(), &buckets[1]), (9, &1.into()));
    assert!(stat.get("longest_cluster").is_none());
    let drawn = String::from_utf8(node.ok(["stat", "t"])).unwrap();
    for part in [
        "(cuckoo, 2 ways x 8)",
        "8 slots a READ, 2 READs a lookup",
        "writer  none",
        "slots in use",
    ] {
        assert!(drawn.contains(part), "{part:?} is not in {drawn}");
    }
    node.ok(["create", "l", "-c", "10"]);
    let linear = node.json(["stat", "l"]);
    assert_eq!(linear["scheme"], "linear");
    assert!(linear.get("ways").is_none() && linear.get("writer").is_none());
    let listed = String::from_utf8(node.ok(["stat"])).unwrap();
    assert!(listed.contains(" cuckoo ") && listed.contains(" linear "));
}

#[test]
fn options_that_do_not_go_together_are_named() {
    let node = Node::start();
    let fails = |args: &[&str], code, parts: &[&str]| {
        let create = ["create", "t", "-c", "10"];
        let output = node.run(create.iter().chain(args));
        assert_fails(&output, code, parts);
    };
    fails(&["--ways", "3"], 2, &["--ways 3", "scheme cuckoo"]);
    fails(&["--bucket-slots", "2"], 2, &["--bucket-slots 2"]);
    fails(&["--scheme", "robin-hood"], 2, &["linear, cuckoo"]);
    let cuckoo = |more: &[&'static str]| [&["--scheme", "cuckoo"], more].concat();
    fails(&cuckoo(&["--ways", "5"]), 2, &["ways = 5", "2 to 4"]);
    fails(&cuckoo(&["--slots", "pair"]), 2, &["slot"]);
    fails(
        &cuckoo(&["--ways", "2", "--bucket-slots", "1", "--load-factor", "0.7"]),
        2,
        &["load factor = 0.7", "at most 0.5"],
    );
    assert_eq!(node.json(["stat"])["tables"].as_array().unwrap().len(), 0);
}

/// Takes the table over from a process that is its writer and has not ended.
pub fn is_refused_while_alive(node: &Node, process: u32) {
    let parts = [
        &format!("process {process} is the writer of \"t\" and is alive"),
        &format!("kill {process}"),
        &format!("farslot -a {} take-over --force t", node.address),
    ];
    assert_fails(&node.run(["take-over", "t"]), 1, &parts.map(String::as_str));
}

#[test]
fn a_writer_that_is_alive_is_replaced_by_force() {
    let node = Node::start();
    node.ok(CREATE);
    let (mut loader, input) = loading(&node);
    is_refused_while_alive(&node, loader.id());
    let writer = node.json(["stat", "t"])["writer"].clone();
    assert_eq!(node.json(["take-over", "--force", "t"])["deposed"], writer);
    node.ok(["put", "t", "a", "b"]);
    // It may have written all of it before, and then has nothing to be refused.
    drop(input);
    loader.wait().unwrap();
    assert_eq!(node.ok(["get", "t", "a", "--raw"]), b"b");
}

#[test]
fn a_load_that_was_killed_is_named_and_replaced_and_nothing_is_lost() {
    let node = Node::start();
    node.ok(CREATE);
    let (mut loader, input) = loading(&node);
    is_refused_while_alive(&node, loader.id());
    loader.kill().unwrap();
    loader.wait().unwrap();
    drop(input);

    // As text: programs that read JSON numbers as doubles would round it.
    let stat = node.json(["stat", "t"]);
    let writer = stat["writer"].as_str().unwrap();
    let parts = [
        &format!("client {writer} is the writer of \"t\""),
        &format!("farslot -a {} take-over t", node.address),
    ];
    let parts = parts.map(String::as_str);
    assert_fails(&node.run(["put", "t", "a", "b"]), 1, &parts);
    assert_fails(&node.run(["del", "t", "key-0"]), 1, &parts);
    assert_fails(&node.feed(["load", "t"], b"a,1\n"), 1, &parts);
    assert_eq!(node.ok(["get", "t", "key-0", "--raw"]), b"value of 0");
    let held: Vec<_> = node.sorted_dump("t");

    assert_eq!(node.json(["take-over", "t"])["deposed"], writer);
    let nobody = node.run(["take-over", "t"]);
    assert!(nobody.status.success() && error_of(&nobody).contains("has no writer"));
    node.ok(["put", "t", "a", "b"]);
    let mut after = node.sorted_dump("t");
    after.retain(|line| line != "a,b");
    assert_eq!(after, held);
    assert!(held.len() > 2_000);
    // The rest can be loaded now.
    let loaded = node.feed(["load", "t"], lines(0..20_000).as_bytes());
    assert!(loaded.status.success(), "{}", error_of(&loaded));
    assert_eq!(node.count("t"), 20_001);
}

#[test]
fn others_are_told_to_wait_while_a_load_is_at_work() {
    let node = Node::start();
    node.ok(CREATE);
    let (loader, input) = loading(&node);
    assert_fails(
        &node.run(["put", "t", "a", "b"]),
        1,
        &["is the writer of \"t\"", "wait until it is done"],
    );
    // Another load says so before it reads: this one would wait for its input for ever.
    let mut other = node.spawn(["load", "t", "--json"]);
    let held_open = other.stdin.take();
    let other = other.wait_with_output().unwrap();
    drop(held_open);
    assert_fails(&other, 1, &["is the writer of \"t\""]);
    assert!(
        one_object(&other)["hint"]
            .as_str()
            .unwrap()
            .contains("take-over t")
    );
    drop(input);
    let output = loader.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", error_of(&output));
    node.ok(["put", "t", "a", "b"]);
    assert_eq!(node.count("t"), 20_001);
}

#[test]
fn one_shot_commands_take_turns() {
    let node = Node::start();
    node.ok(CREATE);
    std::thread::scope(|scope| {
        for client in 0..4 {
            let node = &node;
            scope.spawn(move || {
                for number in 0..5 {
                    node.ok(["put", "t", &format!("{client}/{number}"), "x"]);
                }
            });
        }
    });
    assert_eq!(node.count("t"), 20);
}

#[test]
fn more_threads_than_writers_are_declined() {
    let node = Node::start();
    node.ok(CREATE);
    let load = ["load", "t", "--threads", "3"];
    let loaded = node.feed(load, lines(0..1_000).as_bytes());
    assert!(loaded.status.success());
    assert!(error_of(&loaded).contains("one thread puts, not 3"));
    assert_eq!(node.count("t"), 1_000);
    node.ok(["create", "l", "-c", "2000"]);
    let loaded = node.feed(["load", "l", "--threads", "3"], lines(0..1_000).as_bytes());
    assert!(loaded.status.success());
    assert!(!error_of(&loaded).contains("one thread"));
    assert_fails(
        &node.run(["take-over", "l"]),
        2,
        &["l is a linear table", "no writer to take over from"],
    );
}

#[test]
fn a_table_that_is_loaded_whole_is_sealed() {
    let node = Node::start();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("all.csv");
    let input = lines(0..3_000) + "key-1,the last of two\n" + ",no key\n";
    std::fs::write(&file, &input).unwrap();
    let file = file.to_str().unwrap();
    let load = ["load", "t", file, "--create", "--seal", "--max-bad", "1"];
    let cuckoo = ["--scheme", "cuckoo", "--load-factor", "0.97"];
    let loaded = node.run(load.iter().chain(&cuckoo).chain(&["--json"]));
    let error = error_of(&loaded);
    assert!(error.contains("read 3 001 records into"), "{error}");
    assert!(error.contains("a key must have at least 1 byte"), "{error}");
    let loaded = one_object(&loaded);
    assert_eq!(
        (&loaded["records"], &loaded["new"], &loaded["bad_lines"]),
        (&3_001.into(), &3_000.into(), &1.into())
    );
    assert_eq!(loaded["sealed"], true);
    assert_eq!(node.count("t"), 3_000);
    assert_eq!(node.ok(["get", "t", "key-1", "--raw"]), b"the last of two");
    let stat = node.json(["stat", "t"]);
    assert_eq!(stat["sealed"], true);
    assert!(stat["load_factor"].as_f64().unwrap() > 0.96, "{stat}");
    let drawn = String::from_utf8(node.ok(["stat", "t"])).unwrap();
    assert!(drawn.contains("the table is sealed"), "{drawn}");
    let parts = ["the table is sealed", "load --create"];
    assert_fails(&node.run(["put", "t", "a", "b"]), 1, &parts);
    assert_fails(&node.run(["del", "t", "key-1"]), 1, &parts);
    assert_fails(&node.feed(["load", "t"], b"a,1\n"), 1, &parts);
    assert_fails(&node.feed(["load", "t", "--seal"], b"a,1\n"), 1, &parts);
    assert_eq!(node.sorted_dump("t").len(), 3_001);
}

#[test]
fn a_stream_of_several_records_a_key_is_loaded_whole() {
    let node = Node::start();
    node.ok(CREATE.iter().chain(&["--multi-key"]));
    assert_fails(
        &node.run(["put", "t", "a", "1"]),
        1,
        &["declared multi-key", "load --seal"],
    );
    let loaded = node.feed(["load", "t", "--seal"], b"a,1\nb,2\na,3\n");
    assert!(loaded.status.success(), "{}", error_of(&loaded));
    let found = node.json(["get", "t", "a", "--all"]);
    assert_eq!(found["records"].as_array().unwrap().len(), 2);
}

#[test]
fn what_cannot_be_loaded_whole_says_why_and_changes_nothing() {
    let node = Node::start();
    let linear = node.feed(["load", "l", "--create=10", "--seal"], b"a,1\n");
    assert_fails(&linear, 2, &["a linear table", "--scheme sealed or cuckoo"]);
    assert_eq!(node.json(["stat"])["tables"].as_array().unwrap().len(), 0);
    node.ok(CREATE);
    node.ok(["put", "t", "a", "1"]);
    let full = node.feed(["load", "t", "--seal"], b"b,1\n");
    assert_fails(&full, 1, &["only an empty table", "1 slots are in use"]);
    node.ok(["put", "t", "b", "2"]);
    assert_eq!(node.count("t"), 2);
}
