//! Users besides `default`: grants of databases, to who has their secrets.

use crate::client::{Client, gateway, gateway_with, request};
use farslot::admission::{Rate, Secret, TableGrant};
use farslot::{Rights, Store};
use farslot_gateway::Gateway;
use farslot_operate::{Source, text};

const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.";

/// A grant whose secret is "the secret of NAME".
fn grant(name: &str, tables: &[&str], rights: Rights) -> TableGrant {
    TableGrant {
        name: name.into(),
        secrets: vec![Secret::new(secret_of(name)).unwrap()],
        clients: None,
        tables: tables.iter().map(ToString::to_string).collect(),
        rights,
        prefix: None,
        rate: Rate::default(),
    }
}

fn secret_of(name: &str) -> String {
    format!("the secret of {name}")
}

/// With `default`, whose secret is "the secret of default".
fn served(users: &[TableGrant]) -> (Store, Gateway) {
    gateway_with(|options| {
        options.secrets = vec![Secret::new(secret_of("default")).unwrap()];
        options.users = users.into();
    })
}

fn client(gateway: &Gateway, user: &str) -> Client {
    let mut client = Client::of(gateway);
    let given = client.run(&["AUTH", user, &secret_of(user)]);
    assert_eq!(given.shown(), "OK", "{user}");
    client
}

fn denied(user: &str, command: &str) -> String {
    format!("-NOPERM User {user} has no permissions to run the '{command}' command")
}

#[test]
fn a_user_is_who_has_its_secret() {
    let (_store, gateway) = served(&[
        grant("reader", &["redis-0"], Rights::READ),
        grant("writer", &["redis-0"], Rights::ALL),
    ]);
    let mut client = Client::of(&gateway);
    client.expect(&[("ACL WHOAMI", "-NOAUTH Authentication required.")]);
    for (user, secret) in [
        ("reader", "wrong"),
        ("reader", &secret_of("writer")),
        ("reader", &secret_of("default")),
        ("default", &secret_of("reader")),
        ("nobody", &secret_of("reader")),
    ] {
        assert_eq!(client.run(&["AUTH", user, secret]).shown(), WRONG, "{user}");
    }
    let counted = text(&gateway.metrics().families());
    assert!(
        counted.contains("farslot_redis_wrong_secrets_total 5\n"),
        "{counted}"
    );
    client.expect(&[("GET a", "-NOAUTH Authentication required.")]);
    let hello = ["HELLO", "3", "AUTH", "reader", &secret_of("reader")];
    assert!(client.run(&hello).shown().contains("\"proto\" :3"));
    client.expect(&[("ACL WHOAMI", "\"reader\""), ("GET a", "nil")]);
    // A wrong secret leaves it who it is; another right one makes it another.
    assert_eq!(client.run(&["AUTH", "writer", "wrong"]).shown(), WRONG);
    client.expect(&[("acl whoami", "\"reader\"")]);
    let writer = ["AUTH", "writer", &secret_of("writer")];
    assert_eq!(client.run(&writer).shown(), "OK");
    client.expect(&[("ACL WHOAMI", "\"writer\""), ("SET a 1", "OK")]);
    assert_eq!(client.run(&["AUTH", &secret_of("default")]).shown(), "OK");
    client.expect(&[
        ("ACL WHOAMI", "\"default\""),
        ("FLUSHALL", "OK"),
        ("ACL LIST", "-ERR unknown subcommand 'LIST'. Try ACL HELP."),
        (
            "ACL WHOAMI x",
            "-ERR wrong number of arguments for 'acl|whoami' command",
        ),
    ]);
}

#[test]
fn whoever_may_read_changes_nothing() {
    let (_store, gateway) = served(&[grant("reader", &["redis-0", "redis-2"], Rights::READ)]);
    let mut owner = client(&gateway, "default");
    owner.expect(&[
        ("MSET a 1 b 2", "OK"),
        ("SELECT 1", "OK"),
        ("SET hidden 1", "OK"),
        // The count is told of from now on.
        ("DBSIZE", ":1"),
    ]);
    let mut reader = client(&gateway, "reader");
    reader.expect(&[
        ("GET a", "\"1\""),
        ("MGET a b c", "[\"1\" \"2\" nil]"),
        ("EXISTS a b", ":2"),
        ("TTL a", ":-1"),
        ("DBSIZE", ":2"),
        ("KEYS a*", "[\"a\"]"),
        ("SELECT 2", "OK"),
        ("GET a", "nil"),
        ("SELECT 0", "OK"),
    ]);
    let scanned = reader.ask("SCAN 0 COUNT 100");
    assert!(scanned.contains("\"b\""), "{scanned}");
    for words in [
        "SET a 2",
        "MSET a 2",
        "MSETNX n 2",
        "DEL a",
        "INCR a",
        "APPEND a 2",
        "GETDEL a",
        "GETEX a EX 1",
        "EXPIRE a 1",
        "PERSIST a",
        "FLUSHDB",
        "FLUSHALL",
    ] {
        let command = words.split(' ').next().unwrap().to_lowercase();
        assert_eq!(reader.ask(words), denied("reader", &command));
    }
    // Other databases are not opened, and not told of.
    let database = "-NOPERM User reader has no permissions to access database 1";
    reader.expect(&[("SELECT 1", database), ("GET a", "\"1\"")]);
    reader.expect(&[("SELECT 16", "-ERR DB index is out of range")]);
    let info = reader.ask("INFO keyspace");
    assert!(info.contains("db0:keys=2"), "{info}");
    assert!(!info.contains("db1"), "{info}");
    assert!(client(&gateway, "default").ask("INFO").contains("db1:"));
    owner.expect(&[
        ("GET hidden", "\"1\""),
        ("SELECT 0", "OK"),
        ("GET a", "\"1\""),
    ]);
    let counted = text(&gateway.metrics().families());
    let line = "farslot_redis_errors_total{code=\"NOPERM\"} 13\n";
    assert!(counted.contains(line), "{counted}");
}

#[test]
fn a_grant_of_a_prefix_opens_its_keys_alone() {
    let of_prefix = TableGrant {
        prefix: Some(b"17:".to_vec()),
        ..grant("tenant", &["redis-3", "users"], Rights::ALL)
    };
    let (_store, gateway) = served(&[of_prefix]);
    let mut tenant = client(&gateway, "tenant");
    let database = "-NOPERM User tenant has no permissions to access database 0";
    tenant.expect(&[("GET 17:a", database), ("SELECT 3", "OK")]);
    let key = "-NOPERM User tenant has no permissions to access one of the keys used as arguments";
    tenant.expect(&[
        ("SET 17:a 1", "OK"),
        ("INCR 17:a", ":2"),
        ("MSETNX 17:b 1 17:c 2", ":1"),
        ("MGET 17:a 17:b", "[\"2\" \"1\"]"),
        ("SET 18:a 1", key),
        ("GET 17", key),
        ("MGET 17:a 18:a", key),
        ("MSET 17:a 5 18:a 5", key),
        ("MSETNX 17:d 1 18:a 2", key),
        ("DEL 17:b 18:a", key),
        ("GET 17:a", "\"2\""),
        ("EXISTS 17:d", ":0"),
    ]);
    for words in [
        "KEYS *",
        "SCAN 0",
        "RANDOMKEY",
        "DBSIZE",
        "FLUSHDB",
        "FLUSHALL",
    ] {
        let command = words.split(' ').next().unwrap().to_lowercase();
        assert_eq!(tenant.ask(words), denied("tenant", &command));
    }
    assert!(!tenant.ask("INFO keyspace").contains("db3"));
    // Requests of a pipeline are each looked at.
    let sent = [
        request(&["SET", "17:e", "1"]),
        request(&["SET", "18:e", "1"]),
        request(&["GET", "17:e"]),
    ];
    tenant.send(&sent.concat()).unwrap();
    for told in ["OK", key, "\"1\""] {
        assert_eq!(tenant.reply().unwrap().shown(), told);
    }
}

#[test]
fn a_grant_that_redis_clients_cannot_be_held_to_is_refused_with_the_reason() {
    let with_rate = TableGrant {
        rate: Rate {
            operations: Some(10),
            bytes: None,
        },
        ..grant("slowed", &["redis-0"], Rights::ALL)
    };
    let without_secret = TableGrant {
        secrets: Vec::new(),
        ..grant("certified", &["redis-0"], Rights::ALL)
    };
    let of_others = grant("reporting", &["users", "redis-16"], Rights::READ);
    let (_store, gateway) = served(&[with_rate, without_secret, of_others]);
    let mut client = Client::of(&gateway);
    for (user, told) in [
        (
            "reporting",
            "-NOPERM the grant 'reporting' opens none of the tables redis-0 to redis-15",
        ),
        (
            "slowed",
            "-NOPERM the grant 'slowed' has a rate, which only clients of the store are held to",
        ),
        ("certified", WRONG),
    ] {
        let secret = secret_of(user);
        assert_eq!(client.run(&["AUTH", user, &secret]).shown(), told);
    }
    client.expect(&[("GET a", "-NOAUTH Authentication required.")]);
}

#[test]
fn users_change_while_they_are_served() {
    let all = ["stays", "shrinks", "goes"].map(|name| grant(name, &["redis-0"], Rights::ALL));
    let (_store, gateway) = served(&all);
    let mut clients = ["stays", "shrinks", "goes"].map(|name| client(&gateway, name));
    for client in &mut clients {
        client.expect(&[("INCR a", &format!(":{}", 1)), ("DEL a", ":1")]);
    }
    let [stays, _, _] = all;
    gateway.change_users(&[
        grant("shrinks", &["redis-0"], Rights::READ),
        stays,
        grant("comes", &["redis-0"], Rights::ALL),
    ]);
    let [stays, shrinks, goes] = &mut clients;
    stays.expect(&[("SET a 1", "OK"), ("ACL WHOAMI", "\"stays\"")]);
    for gone in [shrinks, goes] {
        gone.expect(&[("SET a 2", "-NOAUTH Authentication required.")]);
        assert!(gone.reply().is_err());
    }
    client(&gateway, "shrinks").expect(&[("GET a", "\"1\""), ("DEL a", &denied("shrinks", "del"))]);
    client(&gateway, "comes").expect(&[("DEL a", ":1")]);
    let mut gone = Client::of(&gateway);
    let given = gone.run(&["AUTH", "goes", &secret_of("goes")]);
    assert_eq!(given.shown(), WRONG);
}

#[test]
fn secrets_change_while_they_are_served() {
    let (_store, gateway) = served(&[grant("reader", &["redis-0"], Rights::READ)]);
    let secrets = ["default", "next"].map(|name| Secret::new(secret_of(name)).unwrap());
    let mut before = client(&gateway, "default");
    before.expect(&[("SET a 1", "OK")]);
    // Either is right meanwhile, and nobody notices.
    gateway.change_secrets(&secrets);
    let mut after = Client::of(&gateway);
    assert_eq!(after.run(&["AUTH", &secret_of("next")]).shown(), "OK");
    client(&gateway, "default").expect(&[("GET a", "\"1\"")]);
    before.expect(&[("GET a", "\"1\"")]);
    gateway.change_secrets(&secrets[1..]);
    before.expect(&[("GET a", "-NOAUTH Authentication required.")]);
    assert!(before.reply().is_err());
    after.expect(&[("GET a", "\"1\""), ("ACL WHOAMI", "\"default\"")]);
    let mut late = Client::of(&gateway);
    let given = late.run(&["AUTH", &secret_of("default")]);
    assert_eq!(given.shown(), WRONG);
    // Who has become another user has nothing of the secret left that was revoked.
    let given = after.run(&["AUTH", "reader", &secret_of("reader")]);
    assert_eq!(given.shown(), "OK");
    gateway.change_secrets(&[]);
    after.expect(&[("GET a", "\"1\"")]);
    // Without any the gateway is no more open than with one.
    Client::of(&gateway).expect(&[("GET a", "-NOAUTH Authentication required.")]);
}

/// Who gives no secret is `default`, as in Redis.
#[test]
fn without_a_secret_a_client_may_still_be_another_user() {
    let (_store, gateway) = gateway();
    gateway.change_users(&[grant("reader", &["redis-0"], Rights::READ)]);
    let mut client = Client::of(&gateway);
    client.expect(&[("ACL WHOAMI", "\"default\""), ("SET a 1", "OK")]);
    let given = client.run(&["AUTH", "reader", &secret_of("reader")]);
    assert_eq!(given.shown(), "OK");
    client.expect(&[("GET a", "\"1\""), ("SET a 2", &denied("reader", "set"))]);
}
