//! Tables that the node writes, from the shell: chained and ordered ones.

use crate::common::{ANY_PORT, Node, assert_fails, error_of, farslot, lines};

#[test]
fn an_ordered_table_is_loaded_copied_restored_and_scanned() {
    let node = Node::start();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("lines.csv");
    std::fs::write(&file, lines(0..3_000)).unwrap();
    let file = file.to_str().unwrap();
    let create = ["load", "o", file, "--create", "--scheme", "ordered"];
    assert_eq!(node.json(create)["new"], 3_000);
    assert_eq!(node.json(["load", "o", file])["new"], 0);
    node.json(["load", "c", file, "--create", "--scheme", "chained"]);
    node.ok(["copy", "o", "o2"]);
    assert_eq!(node.sorted_dump("o2"), node.sorted_dump("o"));
    node.ok(["drop", "o2"]);
    assert_eq!(node.sorted_dump("c"), node.sorted_dump("o"));
    for table in ["o", "c"] {
        assert_eq!(node.count(table), 3_000);
        let counted = node.json(["count", table, "--approximate"]);
        assert_eq!(counted["count"], 3_000);
        assert_eq!(node.ok(["get", table, "key-17", "--raw"]), b"value of 17");
        assert_eq!(node.json(["del", table, "key-17"])["removed"], 1);
        assert_fails(&node.run(["get", table, "key-17"]), 1, &["key-17"]);
    }
    let snapshots = directory.path().join("snapshots");
    let snapshots = snapshots.to_str().unwrap();
    node.ok(["snapshot", snapshots]);
    node.ok(["drop", "o"]);
    node.ok(["drop", "c"]);
    node.ok(["restore", snapshots]);
    assert_eq!(node.sorted_dump("c"), node.sorted_dump("o"));
    assert_eq!(node.count("o"), 2_999);

    let scanned = node.ok(["scan", "o", "--from", "key-10", "--to", "key-1001"]);
    let scanned = String::from_utf8(scanned).unwrap();
    let keys: Vec<_> = scanned
        .lines()
        .skip(1)
        .map(|line| line.split(',').next())
        .collect();
    assert_eq!(keys, [Some("key-10"), Some("key-100"), Some("key-1000")]);
    let of_prefix = node.ok(["scan", "o", "--prefix", "key-100"]);
    let of_range = node.ok(["scan", "o", "--from", "key-100", "--to", "key-101"]);
    assert_eq!(of_prefix, of_range);
    let both = node.run(["scan", "o", "--prefix", "key-1", "--to", "key-2"]);
    assert_fails(&both, 2, &["--prefix", "--to"]);
    let all = String::from_utf8(node.ok(["scan", "o"])).unwrap();
    assert_eq!(all.lines().count(), 3_000);
    assert!(all.lines().skip(1).is_sorted());
    let down = String::from_utf8(node.ok(["scan", "o", "--reverse"])).unwrap();
    assert!(
        down.lines()
            .skip(1)
            .eq(all.lines().skip(1).collect::<Vec<_>>().into_iter().rev())
    );
    let last = ["scan", "o", "--to", "key-9", "--reverse", "--limit", "1200"];
    let last = String::from_utf8(node.ok(last)).unwrap();
    let below = all.lines().skip(1).filter(|line| *line < "key-9");
    let below: Vec<_> = below.collect();
    assert!(last.lines().skip(1).eq(below.into_iter().rev().take(1_200)));
    let three = node.ok(["scan", "o", "--limit", "3", "--format", "ndjson"]);
    assert_eq!(String::from_utf8(three).unwrap().lines().count(), 3);
    let unordered = node.run(["scan", "c"]);
    assert!(error_of(&unordered).contains("farslot copy c NAME --scheme ordered"));
    assert_eq!(unordered.stdout, b"");
    node.ok(["create", "l", "--capacity", "100"]);
    let other = node.run(["scan", "l"]);
    let error = error_of(&other);
    assert!(error.contains("\"l\" has no order") && error.contains("--scheme ordered"));
}

#[test]
fn tables_of_other_schemes_are_copied_to_such_that_take_part() {
    let node = Node::start();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("lines.csv");
    std::fs::write(&file, lines(0..2_000)).unwrap();
    // Of any sizes, which a chained table does not have.
    node.ok(["create", "t"]);
    node.ok(["load", "t", file.to_str().unwrap()]);
    for scheme in ["chained", "ordered", "linear"] {
        let copied = node.json(["copy", "t", scheme, "--scheme", scheme]);
        assert_eq!(copied["records"], 2_000);
        assert_eq!(node.json(["stat", scheme])["scheme"], scheme);
        assert_eq!(node.sorted_dump(scheme), node.sorted_dump("t"));
        node.ok(["put", scheme, "another", "value"]);
    }
    assert_eq!(
        node.ok(["scan", "ordered", "--limit", "1"]),
        b"key,value\nanother,value\n"
    );
    // Sizes that it has as well.
    node.ok([
        "create",
        "f",
        "-c",
        "10",
        "--key-size",
        "4",
        "--value-size",
        "9000",
    ]);
    node.ok(["copy", "f", "g", "--scheme", "chained", "--capacity", "50"]);
    let refused = node.run(["put", "g", "five!", "value"]);
    assert!(
        error_of(&refused).contains("exactly 4"),
        "{}",
        error_of(&refused)
    );
    let short = [
        "copy",
        "t",
        "short",
        "--scheme",
        "chained",
        "--max-value",
        "4",
    ];
    assert_fails(&node.run(short), 1, &["at most 4"]);
    assert_fails(
        &node.run(["copy", "t", "x", "--max-key", "4"]),
        1,
        &["at most 4"],
    );
    // Without a scheme it has the table's, and all else that is not said.
    for flag in ["--ways", "--grow-to"] {
        let wrong = node.run(["copy", "f", "x", flag, "50"]);
        assert_fails(&wrong, 2, &[&format!("{flag} 50 is not possible")]);
    }
    let own = node.json(["stat", "f"]);
    node.ok(["copy", "f", "longer", "--max-value", "9500"]);
    let longer = node.json(["stat", "longer"]);
    assert_eq!(longer["value_bytes"]["at_most"], 9500);
    for field in ["scheme", "key_bytes", "slot_kind", "expiring"] {
        assert_eq!(longer[field], own[field], "{field}");
    }
    assert!(longer["slots"].as_u64() >= own["slots"].as_u64());
    assert!(longer["slots"].as_u64().unwrap() <= own["slots"].as_u64().unwrap() + 1);
    node.ok(["copy", "f", "larger", "-c", "1000"]);
    let larger = node.json(["stat", "larger"]);
    assert_eq!(larger["value_bytes"], own["value_bytes"]);
    assert!(larger["slots"].as_u64() > Some(1000));
    node.ok(["copy", "t", "kept", "--reserve-bytes", "2MiB"]);
    let kept = node.json(["stat", "kept"]);
    assert_eq!(
        (&kept["scheme"], &kept["reserve_bytes"]),
        (&"race".into(), &(2 << 20).into())
    );
    assert_eq!(kept["records"], 2_000);
    let wrong = ["copy", "t", "x", "--scheme", "ordered", "--grow-to", "4"];
    assert_fails(&node.run(wrong), 2, &["--grow-to 4"]);
    assert!(
        !String::from_utf8(node.ok(["tables"]))
            .unwrap()
            .contains('x')
    );
}

#[test]
fn a_node_begins_with_what_its_snapshots_have() {
    let directory = tempfile::tempdir().unwrap();
    let snapshots = directory.path().to_str().unwrap();
    let node = Node::start();
    for scheme in ["chained", "ordered"] {
        node.ok(["create", scheme, "--capacity", "100", "--scheme", scheme]);
        node.ok(["put", scheme, "key", "value"]);
    }
    node.ok(["snapshot", snapshots]);
    let serve = ["serve", ANY_PORT, "--memory", "256MiB", "--while-stdin"];
    let restoring = ["--snapshot-dir", snapshots, "--restore"];
    let again = Node::start_command(farslot(serve.into_iter().chain(restoring)));
    for scheme in ["chained", "ordered"] {
        assert_eq!(again.ok(["get", scheme, "key", "--raw"]), b"value");
        again.ok(["put", scheme, "key", "another"]);
    }
}

#[test]
fn options_that_the_node_cannot_keep_are_refused() {
    let node = Node::start();
    let create = |more: &[&'static str]| {
        let common = ["create", "t", "--capacity", "100", "--scheme", "chained"];
        node.run(common.iter().chain(more))
    };
    for (more, said) in [
        (&["--heap", "1MiB"][..], "heap"),
        (&["--multi-key"], "several records of a key"),
        (&["--max-value", "20000"], "16 KiB"),
        (&["--expiring"], "records that expire"),
        (&["--ways", "3"], "--ways"),
    ] {
        let refused = create(more);
        assert!(
            error_of(&refused).contains(said),
            "{more:?}: {}",
            error_of(&refused)
        );
    }
    let most = ["create", "t", "--capacity", "10000000000000000000"];
    for (scheme, more) in [("chained", &["--grow-to", "5"][..]), ("ordered", &[])] {
        let refused = node.run(most.iter().chain(&["--scheme", scheme]).chain(more));
        assert_fails(&refused, 2, &["capacity"]);
    }
    let grown = ["create", "t", "--capacity", "10", "--scheme", "ordered"];
    let refused = node.run(grown.iter().chain(&["--grow-to", "20"]));
    assert_fails(
        &refused,
        2,
        &["--grow-to 20", "scheme duo or race or chained"],
    );
    let made = create(&["--grow-to", "5000", "--value-size", "8"]);
    assert!(made.status.success(), "{}", error_of(&made));
}

#[test]
fn a_scan_goes_on_behind_keys_of_the_full_length() {
    let node = Node::start();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("lines.csv");
    let lines = (0..2_500).map(|number| format!("key-{number:04},{number}\n"));
    std::fs::write(&file, lines.collect::<String>()).unwrap();
    let file = file.to_str().unwrap();
    for (table, sizes) in [("fixed", "--key-size"), ("most", "--max-key")] {
        let create = ["--create", "--scheme", "ordered", sizes, "8"];
        let load = ["load", table, file];
        assert_eq!(node.json(load.iter().chain(&create))["new"], 2_500);
        let all = String::from_utf8(node.ok(["scan", table])).unwrap();
        assert_eq!(all.lines().count(), 2_501);
        assert!(all.lines().skip(1).is_sorted());
        let last = node.ok(["scan", table, "--from", "key-2498 and more"]);
        let last = String::from_utf8(last).unwrap();
        assert_eq!(last.lines().skip(1).collect::<Vec<_>>(), ["key-2499,2499"]);
    }
}

#[test]
fn a_bucket_larger_than_a_reply_is_dumped() {
    let node = Node::start();
    let create = ["--capacity", "1", "--max-value", "16000"];
    let create = ["create", "t", "--scheme", "chained"].iter().chain(&create);
    let made = node.run(create);
    assert!(made.status.success(), "{}", error_of(&made));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("lines.csv");
    let value = "v".repeat(16_000);
    let lines = (0..30).map(|number| format!("key-{number},{value}\n"));
    std::fs::write(&file, lines.collect::<String>()).unwrap();
    assert_eq!(node.json(["load", "t", file.to_str().unwrap()])["new"], 30);
    let dumped = node.sorted_dump("t");
    assert_eq!(dumped.len(), 31);
}
