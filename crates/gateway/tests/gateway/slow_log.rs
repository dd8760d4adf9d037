//! SLOWLOG, over real sockets.

use crate::client::{Client, Reply, gateway_with};
use farslot::Rights;
use farslot::admission::{Rate, Secret, TableGrant};
use farslot_operate::Source;
use std::time::Duration;

/// The parts of the latest entries.
fn entries(client: &mut Client, count: &str) -> Vec<Vec<Reply>> {
    let Reply::Array(entries) = client.run(&["SLOWLOG", "GET", count]) else {
        panic!("no array");
    };
    let parts = entries.into_iter().map(|entry| match entry {
        Reply::Array(parts) => parts,
        other => panic!("{other:?}"),
    });
    parts.collect()
}

#[test]
fn what_takes_long_is_told_the_latest_first() {
    let (_store, gateway) = gateway_with(|options| options.slower_than = Duration::ZERO);
    let mut client = Client::of(&gateway);
    let long = "v".repeat(200);
    client.expect(&[
        ("CLIENT SETNAME some", "OK"),
        ("SLOWLOG RESET", "OK"),
        ("SLOWLOG LEN", ":1"),
    ]);
    assert_eq!(client.run(&["SET", "k", &long]).shown(), "OK");
    client.expect(&[
        ("KEYS k*", "[\"k\"]"),
        ("NONSENSE secret", {
            "-ERR unknown command 'NONSENSE', with args beginning with: 'secret' "
        }),
    ]);
    let told = entries(&mut client, "-1");
    let requests: Vec<String> = told.iter().map(|entry| entry[3].shown()).collect();
    let cut = format!("[\"SET\" \"k\" \"{}... (72 more bytes)\"]", "v".repeat(128));
    assert_eq!(
        requests,
        [
            "[\"KEYS\" \"k*\"]",
            &cut,
            "[\"SLOWLOG\" \"LEN\"]",
            "[\"SLOWLOG\" \"RESET\"]",
        ]
    );
    for entry in &told {
        assert_eq!(entry.len(), 6);
        assert!(entry[4].shown().starts_with("\"127.0.0.1:"), "{entry:?}");
        assert_eq!(entry[5].shown(), "\"some\"");
        assert!(matches!(entry[1], Reply::Integer(1_600_000_000..)));
    }
    // Each has a number of its own, and no more are told of than are asked for.
    let number = |entry: &[Reply]| match entry[0] {
        Reply::Integer(number) => number,
        ref other => panic!("{other:?}"),
    };
    let numbers: Vec<i64> = told.iter().map(|entry| number(entry)).collect();
    assert!(numbers.is_sorted_by(|one, next| *one == next + 1));
    let latest = entries(&mut client, "1");
    assert_eq!(latest.len(), 1);
    assert_eq!(number(&latest[0]), numbers[0] + 1);
    // The ones before go for those that come.
    for _ in 0..300 {
        client.expect(&[("GET none", "nil")]);
    }
    client.expect(&[("SLOWLOG LEN", ":128")]);
    assert_eq!(entries(&mut client, "1000").len(), 128);
    client.expect(&[
        (
            "SLOWLOG GET -2",
            "-ERR count should be greater than or equal to -1",
        ),
        (
            "SLOWLOG GET x",
            "-ERR value is not an integer or out of range",
        ),
        (
            "SLOWLOG LEN x",
            "-ERR wrong number of arguments for 'slowlog|len' command",
        ),
        (
            "SLOWLOG NONE",
            "-ERR unknown subcommand 'NONE'. Try SLOWLOG HELP.",
        ),
    ]);
}

#[test]
fn what_is_faster_is_not_told() {
    let (_store, gateway) =
        gateway_with(|options| options.slower_than = Duration::from_secs(1 << 20));
    let mut client = Client::of(&gateway);
    client.expect(&[
        ("SET a 1", "OK"),
        ("KEYS *", "[\"a\"]"),
        ("SLOWLOG LEN", ":0"),
        ("SLOWLOG GET", "[]"),
    ]);
}

/// Secrets are not remembered, nor is what unauthenticated clients send; and only `default` sees
/// others' keys.
#[test]
fn secrets_are_not_told_and_nothing_is_told_to_other_users() {
    let secret = "opens-all-databases";
    let (_store, gateway) = gateway_with(|options| {
        options.slower_than = Duration::ZERO;
        options.secrets = vec![Secret::new(secret).unwrap()];
        options.users = vec![TableGrant {
            name: "reader".into(),
            secrets: vec![Secret::new("opens-one-database").unwrap()],
            clients: None,
            tables: vec!["redis-0".into()],
            rights: Rights::READ,
            prefix: None,
            rate: Rate::default(),
        }];
    });
    let mut unauthenticated = Client::of(&gateway);
    let told = unauthenticated.ask("GET what-they-send");
    assert!(told.starts_with("-NOAUTH"), "{told}");
    let mut reader = Client::of(&gateway);
    assert_eq!(reader.ask("AUTH reader opens-one-database"), "OK");
    let mut client = Client::of(&gateway);
    let hello = ["HELLO", "2", "AUTH", "default", secret];
    assert!(client.run(&hello).shown().contains("farslot"));
    assert_eq!(client.run(&["auth", secret]).shown(), "OK");
    let told: Vec<String> = entries(&mut client, "-1")
        .iter()
        .map(|entry| entry[3].shown())
        .collect();
    let redacted = "\"(redacted)\"";
    assert_eq!(
        told,
        [
            format!("[\"auth\" {redacted}]"),
            format!("[\"HELLO\" {redacted} {redacted} {redacted} {redacted}]"),
            format!("[\"AUTH\" {redacted} {redacted}]"),
        ]
    );
    let denied = "-NOPERM User reader has no permissions to run the 'slowlog' command";
    reader.expect(&[
        ("SLOWLOG GET", denied),
        ("SLOWLOG LEN", denied),
        ("SLOWLOG RESET", denied),
    ]);
}

/// Whoever reaches a page sees it: it names no keys.
#[test]
fn a_page_has_what_took_long_without_arguments() {
    let (_store, gateway) = gateway_with(|options| options.slower_than = Duration::ZERO);
    let mut client = Client::of(&gateway);
    client.expect(&[("SET a_key a_value", "OK"), ("KEYS a_*", "[\"a_key\"]")]);
    let told = gateway.metrics().slow();
    let whats: Vec<_> = told.iter().map(|slow| &*slow.operation).collect();
    assert_eq!(whats, ["keys", "set"]);
    assert!(told[0].at >= told[1].at && told[0].by.starts_with("127.0.0.1:"));
}
