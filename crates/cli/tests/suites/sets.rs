//! Sets from the shell.

use crate::common::{Node, assert_fails};

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[test]
fn elements_are_put_once_found_and_loaded() {
    for node in Node::of_each_fabric() {
        let create = ["create", "seen", "--capacity", "300", "--scheme", "set"];
        let made = node.ok(create
            .iter()
            .chain(&["--key-size", "5", "--value-size", "0"]));
        let made = text(made);
        assert!(
            made.contains(
                "400 word slots (set), keys of exactly 5 bytes, values of exactly 0 bytes;"
            ),
            "{made}"
        );
        node.ok(["put", "seen", "pears", ""]);
        assert_eq!(node.ok(["get", "seen", "pears", "--raw"]), b"");
        let absent = node.run(["get", "seen", "plums"]);
        assert_fails(&absent, 1, &["plums"]);
        // Those that are there are loaded again without harm.
        let rows: String = (0..200).map(|number| format!("{number:05},\n")).collect();
        for _ in 0..2 {
            node.feed(["load", "seen", "--no-header"], rows.as_bytes());
            assert_eq!(node.count("seen"), 201);
        }
        let stat = node.json(["stat", "seen"]);
        assert_eq!(stat["scheme"], "set");
        assert_eq!(
            (&stat["records"], &stat["slots"]),
            (&201.into(), &400.into())
        );
        assert_eq!(
            (&stat["slot_kind"], &stat["slot_bytes"]),
            (&"word".into(), &8.into())
        );
        assert!(text(node.ok(["stat"])).contains("set"));
        let dumped = node.sorted_dump("seen");
        assert_eq!((dumped.len(), &*dumped[0]), (202, "00000,"));
        // With values, and keys of any size, beside the buckets.
        node.ok(["create", "names", "--capacity", "10", "--scheme", "set"]);
        node.ok(["put", "names", "Ada", "1815"]);
        assert_eq!(text(node.ok(["get", "names", "Ada"])), "1815\n");
        assert_eq!(node.json(["stat", "names"])["slot_kind"], "heap");
    }
}

#[test]
fn what_a_set_cannot_do_is_said_with_what_helps() {
    let node = Node::start();
    let create = ["create", "s", "--capacity", "10", "--scheme", "set"];
    node.ok(create.iter().chain(&["--max-value", "8"]));
    node.ok(["put", "s", "key", "value"]);
    let put = node.run(["put", "s", "key", "other"]);
    assert_fails(
        &put,
        1,
        &["a put of another value is not possible", "a set"],
    );
    let removed = node.run(["del", "s", "key"]);
    let says = [
        "a removal is not possible",
        "linear, cuckoo, duo",
        "farslot copy",
    ];
    assert_fails(&removed, 1, &says);
    node.ok(["copy", "s", "t", "--scheme", "race"]);
    node.ok(["del", "t", "key"]);
    let create = ["create", "r", "--capacity", "10", "--scheme", "set"];
    for (option, says) in [
        (&["--load-factor", "0.9"][..], "at most 0.8 in a set"),
        (
            &["--ways", "3"],
            "--ways 3 is not possible: for tables of the scheme cuckoo",
        ),
        (&["--multi-key"], "in linear, cuckoo and sealed tables"),
        (&["--max-value", "20KiB"], "elements of at most 16"),
    ] {
        assert_fails(&node.run(create.iter().chain(option)), 2, &[says]);
    }
    let growing = node.run(["create", "r", "--scheme", "set"]);
    assert_fails(
        &growing,
        2,
        &["--scheme set is not possible: it needs a capacity"],
    );
}
