//! RACE tables from the shell: made, filled beyond what they were made for, drawn.

use crate::common::{Node, assert_fails, error_of, lines};

const CREATE: [&str; 10] = [
    "create",
    "t",
    "-c",
    "1000",
    "--max-key",
    "16",
    "--max-value",
    "64",
    "--scheme",
    "race",
];

#[test]
fn what_is_loaded_comes_back_and_goes_into_a_table_of_another_scheme() {
    let node = Node::start();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (first, second) = (path("first.csv"), path("second.csv"));
    std::fs::write(&first, lines(0..5_000)).unwrap();
    let loaded = node.json(["load", "r", &first, "--create", "--scheme", "race"]);
    assert_eq!(
        (&loaded["records"], &loaded["new"]),
        (&5_000.into(), &5_000.into())
    );
    node.ok(["dump", "r", &second]);
    node.ok(["load", "l", &second, "--create"]);
    assert_eq!(node.sorted_dump("r"), node.sorted_dump("l"));
    assert_eq!(node.json(["load", "r", &second])["new"], 0);
    assert_eq!(node.count("r"), 5_000);
    assert_eq!(node.ok(["get", "r", "key-4999", "--raw"]), b"value of 4999");
    assert_eq!(node.json(["del", "r", "key-1", "key-2"])["removed"], 2);
    assert_eq!(
        node.json(["count", "r", "--approximate"])["count"],
        node.count("r")
    );
}

#[test]
fn a_table_grows_by_several_threads_and_is_drawn() {
    let node = Node::start();
    let made = node.json(CREATE.iter().chain(&["--grow-to", "20_000"]));
    assert_eq!(
        (&made["scheme"], &made["bucket_slots"]),
        (&"race".into(), &8.into())
    );
    let (at_first, most) = (
        made["slots"].as_u64().unwrap(),
        made["most_slots"].as_u64().unwrap(),
    );
    assert!(most > 10 * at_first, "{made}");
    let loaded = node.feed(["load", "t", "--threads", "3"], lines(0..20_000).as_bytes());
    assert!(loaded.status.success(), "{}", error_of(&loaded));
    let stat = node.json(["stat", "t"]);
    assert_eq!(
        (&stat["records"], &stat["dead_slots"]),
        (&20_000.into(), &0.into())
    );
    assert!(stat["slots"].as_u64().unwrap() > 10 * at_first, "{stat}");
    assert!(
        stat["subtables_by_splits"].as_array().unwrap().len() > 3,
        "{stat}"
    );
    assert!(stat.get("writer").is_none());
    let drawn = String::from_utf8(node.ok(["stat", "t"])).unwrap();
    for part in [
        "(race, buckets of 8, growing to ",
        "16 slots a READ, 2 READs a lookup",
        "splits",
    ] {
        assert!(drawn.contains(part), "{part:?} is not in {drawn}");
    }
    let listed = node.json(["stat"]);
    assert_eq!(listed["tables"][0]["slots"], stat["slots"]);
    assert_fails(
        &node.run(["take-over", "t"]),
        2,
        &["t is a race table", "no writer"],
    );
}

#[test]
fn a_table_that_does_not_grow_is_full_and_says_what_to_do() {
    let node = Node::start();
    node.ok(CREATE);
    let loaded = node.feed(["load", "t"], lines(0..20_000).as_bytes());
    let parts = [
        "table \"t\" has no room: the table is full",
        "bytes of memory; of its node's",
        "are free",
        "copy t NEW-TABLE --scheme race --capacity N",
        "load --create=CAPACITY",
    ];
    assert_fails(&loaded, 1, &parts);
    assert!(node.count("t") >= 1_000);
    let copy = [
        "copy",
        "t",
        "larger",
        "--scheme",
        "race",
        "--capacity",
        "20000",
    ];
    node.ok(copy);
    let loaded = node.feed(["load", "larger"], lines(0..20_000).as_bytes());
    assert!(loaded.status.success(), "{}", error_of(&loaded));
}

#[test]
fn options_that_do_not_go_together_are_named() {
    let node = Node::start();
    let fails = |args: &[&str], code, parts: &[&str]| {
        let create = ["create", "t", "-c", "10"];
        assert_fails(&node.run(create.iter().chain(args)), code, parts);
    };
    let growing = "scheme duo or race";
    fails(&["--grow-to", "20"], 2, &["--grow-to 20", growing]);
    let race = |more: &[&'static str]| [&["--scheme", "race"], more].concat();
    fails(&race(&["--ways", "2"]), 2, &["--ways 2", "scheme cuckoo"]);
    fails(
        &race(&["--bucket-slots", "2"]),
        2,
        &["bucket slots = 2", "4 to 32"],
    );
    fails(
        &race(&["--slots", "inline"]),
        2,
        &["slot = Inline", "Heap in a RACE table"],
    );
    fails(&race(&["--multi-key"]), 2, &["unique in a RACE table"]);
    fails(&race(&["--grow-to", "5"]), 2, &["most capacity = 5"]);
    fails(
        &race(&["--load-factor", "0.95"]),
        2,
        &["load factor = 0.95", "at most 0.87"],
    );
    let sealed = node.feed(
        ["load", "t", "--create=10", "--scheme", "race", "--seal"],
        b"a,1\n",
    );
    assert_fails(&sealed, 2, &["a race table", "--scheme sealed or cuckoo"]);
    assert_eq!(node.json(["stat"])["tables"].as_array().unwrap().len(), 0);
}

#[test]
fn a_cache_forgets_and_says_so() {
    for node in Node::of_each_fabric() {
        let made = node.json(CREATE.iter().chain(&["--heap", "64KiB", "--evict", "all"]));
        assert_eq!(made["evict"], "all");
        let loaded = node.feed(["load", "t"], lines(0..3_000).as_bytes());
        assert!(loaded.status.success(), "{}", error_of(&loaded));
        let stat = node.json(["stat", "t"]);
        let [records, evicted] = ["records", "evicted"].map(|name| stat[name].as_u64().unwrap());
        assert_eq!(records + evicted, 3_000, "{stat}");
        assert!(records > 500 && evicted > 500, "{stat}");
        let shown = String::from_utf8(node.ok(["stat", "t"])).unwrap();
        assert!(shown.contains("a cache, which evicts any"), "{shown}");
        let linear = ["create", "l", "-c", "9", "--evict", "all"];
        let refused = "--evict all is not possible: for tables of the scheme race";
        assert_fails(&node.run(linear), 2, &[refused]);
        let never = CREATE.iter().chain(&["--evict", "expiring"]);
        let refused = "of tables whose records may have a time to live";
        assert_fails(
            &node.run(never.map(|word| if *word == "t" { "n" } else { word })),
            2,
            &[refused],
        );
    }
}

#[test]
fn memory_that_no_other_table_takes_is_shown_and_refused_where_there_is_less() {
    let node = Node::start();
    let made = node.json(["create", "kept", "--reserve-bytes", "2MiB"]);
    assert_eq!(made["reserve_bytes"], 2 << 20);
    assert_eq!(node.json(["stat", "kept"])["reserve_bytes"], 2 << 20);
    let shown = String::from_utf8(node.ok(["stat", "kept"])).unwrap();
    assert!(shown.contains("2.0 MiB are kept for it"), "{shown}");
    let large = node.run(["create", "large", "--reserve-bytes", "1TiB"]);
    assert_fails(&large, 1, &["1099511627776 bytes", "--reserve-bytes"]);
    let sized = ["create", "s", "-c", "9", "--reserve-bytes", "2MiB"];
    let refused = "--reserve-bytes 2097152 is not possible: not with --capacity";
    assert_fails(&node.run(sized), 2, &[refused]);
}
