//! load -> dump -> load loses nothing, whatever the bytes.

use crate::common::{Node, error_of, one_object};
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;

fn nasty_records() -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut records: BTreeMap<Vec<u8>, Vec<u8>> = [
        (&b"key"[..], &b"value"[..]),
        (b"\xef\xbb\xbfkey", b"\xef\xbb\xbf"),
        (b"\0", b"\0\0"),
        (b"\n", b"\r\n"),
        (b"\"", b"\"\"quoted\", and more"),
        (b"\xff\xfe", b"\x80"),
        (b",", b""),
        (b"\t", b"a\tb"),
        (b" spaces ", b"  "),
        ("gr\u{fc}n\u{1f33f}".as_bytes(), "\u{2028}".as_bytes()),
        (b"{\"key\":1}", b"\\u0000"),
        (b"key_base64", b"YQ=="),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_vec(), value.to_vec()))
    .collect();
    for byte in 0..=u8::MAX {
        records.insert(vec![b'x', byte], vec![byte, byte, b'x']);
    }
    records.insert(vec![b'k'; 256], (0..=255).cycle().take(1024).collect());
    records
}

/// Reads a dump in NDJSON, with a reader that is not the program's own.
fn decoded(dump: &[u8]) -> BTreeMap<Vec<u8>, Vec<u8>> {
    use base64::Engine;
    let lines = dump
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    let field = |object: &serde_json::Value, name: &str| match object[name].as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => base64::engine::general_purpose::STANDARD
            .decode(object[format!("{name}_base64")].as_str().unwrap())
            .unwrap(),
    };
    lines
        .map(|line| serde_json::from_slice(line).unwrap())
        .map(|object: serde_json::Value| (field(&object, "key"), field(&object, "value")))
        .collect()
}

/// The records in NDJSON, with all bytes in base64.
fn as_base64(records: &BTreeMap<Vec<u8>, Vec<u8>>) -> String {
    let engine = base64::engine::general_purpose::STANDARD;
    let encode = |bytes: &[u8]| base64::Engine::encode(&engine, bytes);
    records
        .iter()
        .map(|(key, value)| {
            let (key, value) = (encode(key), encode(value));
            format!("{{\"key_base64\":\"{key}\",\"value_base64\":\"{value}\"}}\n")
        })
        .collect()
}

#[test]
fn any_bytes_survive_every_format() {
    Node::of_each_fabric().iter().for_each(round_trip_any_bytes);
}

fn round_trip_any_bytes(node: &Node) {
    let records = nasty_records();
    node.ok(["create", "first", "--capacity", "1000"]);
    // Into the table by a third way: base64 throughout.
    let input = as_base64(&records);
    let loaded = node.feed(
        ["load", "first", "--format", "ndjson", "--strict"],
        input.as_bytes(),
    );
    assert!(loaded.status.success(), "{}", error_of(&loaded));

    let directory = tempfile::tempdir().unwrap();
    let mut from = "first".to_string();
    for extension in ["csv", "tsv", "ndjson"] {
        let file = directory.path().join(format!("dump.{extension}"));
        let to = format!("via-{extension}");
        node.ok(["dump".as_ref(), from.as_ref(), file.as_os_str()]);
        node.ok([
            "load".as_ref(),
            to.as_ref(),
            file.as_os_str(),
            "--create".as_ref(),
            "--strict".as_ref(),
        ]);
        let dumped = node.ok(["dump", &to, "--format", "ndjson"]);
        assert_eq!(decoded(&dumped), records, "{extension}");
        from = to;
    }
}

#[test]
fn records_of_all_sizes_survive_hybrid_slots() {
    Node::of_each_fabric()
        .iter()
        .for_each(round_trip_hybrid_slots);
}

fn round_trip_hybrid_slots(node: &Node) {
    let records = nasty_records();
    let create = ["create", "h", "-c", "1000", "--slots", "hybrid"];
    node.ok(create.iter().chain(&["--inline-bytes", "16"]));
    let stat = node.json(["stat", "h"]);
    assert_eq!(
        (&stat["slot_kind"], &stat["slot_bytes"]),
        (&"hybrid".into(), &24.into())
    );
    let load = ["load", "h", "--format", "ndjson", "--strict"];
    let loaded = node.feed(load, as_base64(&records).as_bytes());
    assert!(loaded.status.success(), "{}", error_of(&loaded));
    let dumped = decoded(&node.ok(["dump", "h", "--format", "ndjson"]));
    assert_eq!(dumped, records);
}

#[test]
fn a_multi_key_table_keeps_every_record() {
    Node::of_each_fabric()
        .iter()
        .for_each(round_trip_multi_keys);
}

fn round_trip_multi_keys(node: &Node) {
    node.ok(["create", "all", "-c", "1000", "--multi-key"]);
    let input = "key,value\na,1\na,2\nb,3\na,1\n";
    let loaded = node.feed(["load", "all", "--json"], input.as_bytes());
    assert_eq!(one_object(&loaded)["records"], 4);
    let dump = node.ok(["dump", "all"]);
    node.ok(["create", "again", "-c", "1000", "--multi-key"]);
    assert!(node.feed(["load", "again"], &dump).status.success());
    let sorted = |table: &str| {
        let dump = node.ok(["dump", table, "--format", "tsv"]);
        let mut lines: Vec<_> = dump
            .split(|byte| *byte == b'\n')
            .map(<[u8]>::to_vec)
            .collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted("again"), sorted("all"));
    assert_eq!(sorted("again").len(), 6);
    let found = node.json(["get", "again", "a", "--all"]);
    assert_eq!(found["records"].as_array().unwrap().len(), 3);
}

#[test]
fn of_several_lines_with_one_key_the_last_stays() {
    Node::of_each_fabric()
        .iter()
        .for_each(load_keys_again_and_again);
}

fn load_keys_again_and_again(node: &Node) {
    node.ok(["create", "t", "-c", "1000"]);
    let input: String = (0..5_000)
        .map(|line| format!("k{},{line}\n", line % 7))
        .collect();
    let loaded = node.feed(["load", "t", "--json"], input.as_bytes());
    let loaded = one_object(&loaded);
    assert_eq!(
        (&loaded["records"], &loaded["new"]),
        (&5_000.into(), &7.into())
    );
    for key in 0..7_u32 {
        let last = (0..5_000).rev().find(|line| line % 7 == key).unwrap();
        assert_eq!(
            node.ok(["get", "t", &format!("k{key}"), "--raw"]),
            last.to_string().into_bytes()
        );
    }
}

#[test]
fn bad_lines_are_counted_and_named_and_only_fatal_when_asked() {
    let node = Node::start();
    node.ok([
        "create",
        "t",
        "-c",
        "100",
        "--max-key",
        "4",
        "--max-value",
        "4",
    ]);
    let input = b"a,1\nb\nlonger,2\nc,longer\n,3\nd,4\n";
    let loaded = node.feed(["load", "t", "--json", "--max-bad", "4"], input);
    assert!(loaded.status.success(), "{}", error_of(&loaded));
    let summary = one_object(&loaded);
    assert_eq!(
        (&summary["records"], &summary["bad_lines"]),
        (&2.into(), &4.into())
    );
    let lines: Vec<_> = summary["first_bad_lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|bad| bad["line"].as_u64().unwrap())
        .collect();
    assert_eq!(lines, [2, 3, 4, 5]);
    for part in [
        "line 2: 1 column where the first line has 2",
        "line 3: a key of 6 bytes does not fit: the table's keys have at most 4 bytes",
        "line 4: a value of 6 bytes does not fit",
        "line 5: a key must have at least 1 byte",
    ] {
        assert!(error_of(&loaded).contains(part), "{}", error_of(&loaded));
    }
    let quiet = node.feed(["load", "t", "--show-bad", "1"], input);
    assert!(error_of(&quiet).contains("4 bad lines") && !error_of(&quiet).contains("line 5"));
    let strict = node.feed(["load", "t", "--strict"], input);
    crate::common::assert_fails(&strict, 1, &["loaded 1 record", "error: line 2"]);
}

#[test]
fn columns_of_other_files_are_chosen() {
    let node = Node::start();
    let input = "id,city,zip\n1,Bonn,53111\n2,K\u{f6}ln,50667\n";
    let chosen = [
        "load",
        "zips",
        "--create=100",
        "--key",
        "city",
        "--value",
        "zip",
    ];
    assert!(node.feed(chosen, input.as_bytes()).status.success());
    assert_eq!(node.ok(["get", "zips", "K\u{f6}ln"]), b"50667\n");
    let rest = ["load", "rows", "--create=100", "--key", "2", "--no-header"];
    assert!(node.feed(rest, input.as_bytes()).status.success());
    assert_eq!(node.ok(["get", "rows", "Bonn"]), b"1,53111\n");
    let missing = node.feed(["load", "rows", "--key", "town"], input.as_bytes());
    crate::common::assert_fails(&missing, 2, &["\"town\"", "id, city, zip"]);
}

#[test]
fn a_dump_replaces_its_file_only_when_it_is_whole() {
    let mut node = Node::start();
    let file = tempfile::tempdir().unwrap();
    let path = file.path().join("t.csv");
    std::fs::write(&path, "precious").unwrap();
    node.ok(["create", "t", "-c", "100"]);
    node.ok(["put", "t", "a", "b"]);
    node.ok(["dump".as_ref(), "t".as_ref(), path.as_os_str()]);
    assert_eq!(std::fs::read(&path).unwrap(), b"key,value\na,b\n");
    node.kill();
    let failed = node.run(["dump".as_ref(), "t".as_ref(), path.as_os_str()]);
    crate::common::assert_fails(&failed, 1, &["no process serves"]);
    assert_eq!(std::fs::read(&path).unwrap(), b"key,value\na,b\n");
    assert_eq!(std::fs::read_dir(file.path()).unwrap().count(), 1);
}

#[test]
fn keys_and_values_of_any_bytes_on_the_command_line() {
    Node::of_each_fabric()
        .iter()
        .for_each(use_any_bytes_as_arguments);
}

fn use_any_bytes_as_arguments(node: &Node) {
    node.ok(["create", "t", "-c", "100"]);
    node.ok(["put", "t", "--hex", "00ff", "0a00"]);
    assert_eq!(node.ok(["get", "t", "--hex", "00ff"]), b"0a00\n");
    assert_eq!(
        node.ok(["get", "t", "--hex", "00ff", "--json"])
            .iter()
            .filter(|b| **b == b'\n')
            .count(),
        1
    );
    let raw = std::ffi::OsStr::from_bytes(b"\xff\xfe");
    assert!(
        node.feed(
            ["put".as_ref(), "t".as_ref(), raw, "-".as_ref()],
            b"line\n\0"
        )
        .status
        .success()
    );
    assert_eq!(
        node.ok(["get".as_ref(), "t".as_ref(), raw, "--raw".as_ref()]),
        b"line\n\0"
    );
}
