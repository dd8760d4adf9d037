//! CuckooDuo tables from the shell: with readers beside the writer, and for the writer alone.

use crate::common::{Node, assert_fails, error_of, lines};
use crate::cuckoo::{is_refused_while_alive, loading};

const CREATE: [&str; 10] = [
    "create",
    "t",
    "-c",
    "30_000",
    "--max-key",
    "16",
    "--max-value",
    "64",
    "--scheme",
    "duo",
];

#[test]
fn what_is_loaded_comes_back_and_the_shape_is_told() {
    let node = Node::start();
    let made = node.json(CREATE.iter().chain(&["--fingerprint-bits", "24"]));
    assert_eq!(
        (
            &made["scheme"],
            &made["bucket_slots"],
            &made["fingerprint_bits"]
        ),
        (&"duo".into(), &8.into(), &24.into())
    );
    assert_eq!(
        (&made["writer_alone"], &made["slot_kind"]),
        (&false.into(), &"heap".into())
    );
    let loaded = node.feed(["load", "t", "--threads", "3"], lines(0..20_000).as_bytes());
    assert!(loaded.status.success(), "{}", error_of(&loaded));
    assert!(error_of(&loaded).contains("one thread puts, not 3"));
    assert_eq!(node.ok(["get", "t", "key-4999", "--raw"]), b"value of 4999");
    assert_eq!(node.json(["del", "t", "key-1", "key-2"])["removed"], 2);
    node.ok(["put", "t", "key-1", "again"]);
    assert_eq!(node.count("t"), 19_999);
    assert_eq!(node.sorted_dump("t").len(), 20_000);
    let stat = node.json(["stat", "t"]);
    assert_eq!(
        (&stat["records"], &stat["writer"]),
        (&19_999.into(), &serde_json::Value::Null)
    );
    let buckets = stat["buckets_by_used_slots"].as_array().unwrap();
    assert_eq!(buckets.len(), 9);
    let drawn = String::from_utf8(node.ok(["stat", "t"])).unwrap();
    for part in [
        "(duo, buckets of 8, fingerprints of 24 bits)",
        "1 slot a lookup's READ",
        "stash  0 keys",
        "writer  none",
        "slots in use",
    ] {
        assert!(drawn.contains(part), "{part:?} is not in {drawn}");
    }
}

#[test]
fn a_load_that_was_killed_is_named_and_replaced_and_nothing_is_lost() {
    let node = Node::start();
    node.ok(CREATE);
    let (mut loader, input) = loading(&node);
    // Others read beside it.
    assert_eq!(node.ok(["get", "t", "key-0", "--raw"]), b"value of 0");
    assert!(node.sorted_dump("t").len() > 2_000);
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
    assert_fails(
        &node.run(["put", "t", "a", "b"]),
        1,
        &parts.map(String::as_str),
    );
    let held = node.sorted_dump("t");
    assert_eq!(node.json(["take-over", "t"])["deposed"], writer);
    node.ok(["put", "t", "a", "b"]);
    let mut after = node.sorted_dump("t");
    after.retain(|line| line != "a,b");
    assert_eq!(after, held);
    let loaded = node.feed(["load", "t"], lines(0..20_000).as_bytes());
    assert!(loaded.status.success(), "{}", error_of(&loaded));
    assert_eq!(node.count("t"), 20_001);
}

#[test]
fn a_table_for_its_writer_alone_grows_and_others_wait_for_it() {
    let node = Node::start();
    let create = [
        "create",
        "t",
        "-c",
        "1000",
        "--max-key",
        "16",
        "--max-value",
        "32",
    ];
    let alone = ["--scheme", "duo", "--writer-alone", "--grow-to", "25_000"];
    let made = node.json(create.iter().chain(&alone));
    let most = made["most_slots"].as_u64().unwrap();
    assert!((25_000..35_000).contains(&most), "{made}");
    assert_eq!(made["slot_kind"], "inline");
    let (loader, input) = loading(&node);
    let parts = ["is the writer of \"t\"", "wait until it is done"];
    assert_fails(&node.run(["get", "t", "key-0"]), 1, &parts);
    assert_fails(&node.run(["dump", "t"]), 1, &parts);
    // What there is of it can be told all the same.
    let stat = node.json(["stat", "t"]);
    assert!(stat["writer"].is_string() && stat["records"].as_u64() > Some(1_000));
    drop(input);
    let output = loader.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", error_of(&output));
    std::thread::scope(|scope| {
        for client in 0..3 {
            let node = &node;
            scope.spawn(move || {
                let key = format!("key-{client}");
                let value = format!("value of {client}");
                assert_eq!(node.ok(["get", "t", &key, "--raw"]), value.as_bytes());
            });
        }
    });
    assert_eq!(node.count("t"), 20_000);
    let stat = node.json(["stat", "t"]);
    assert_eq!(
        (&stat["slots"], &stat["most_slots"]),
        (&most.into(), &most.into())
    );
    let drawn = String::from_utf8(node.ok(["stat", "t"])).unwrap();
    assert!(drawn.contains("16 bits, for its writer alone)"), "{drawn}");
}

#[test]
fn options_that_do_not_go_together_are_named() {
    let node = Node::start();
    let fails = |args: &[&str], code, parts: &[&str]| {
        let create = ["create", "t", "-c", "10"];
        assert_fails(&node.run(create.iter().chain(args)), code, parts);
    };
    fails(
        &["--writer-alone"],
        2,
        &["--writer-alone is not possible", "scheme duo"],
    );
    fails(
        &["--fingerprint-bits", "16"],
        2,
        &["--fingerprint-bits 16", "scheme duo"],
    );
    let duo = |more: &[&'static str]| [&["--scheme", "duo"], more].concat();
    fails(&duo(&["--ways", "2"]), 2, &["--ways 2", "scheme cuckoo"]);
    fails(
        &duo(&["--bucket-slots", "2"]),
        2,
        &["bucket slots = 2", "4 to 16"],
    );
    fails(
        &duo(&["--slots", "pair"]),
        2,
        &["slot = Pair", "Inline or Heap"],
    );
    fails(&duo(&["--multi-key"]), 2, &["unique in a CuckooDuo table"]);
    fails(
        &duo(&["--hash", "knuth", "--key-size", "8"]),
        2,
        &["hash = knuth"],
    );
    fails(
        &duo(&["--load-factor", "1"]),
        2,
        &["load factor = 1", "at most 0.97"],
    );
    assert_eq!(node.json(["stat"])["tables"].as_array().unwrap().len(), 0);
}
