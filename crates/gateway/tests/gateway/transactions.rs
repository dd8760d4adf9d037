//! MULTI, EXEC, DISCARD, WATCH, UNWATCH and RESET, over real sockets.

use crate::client::{Client, Reply, gateway, gateway_with, request};
use farslot::Rights;
use farslot::admission::{Rate, Secret, TableGrant};
use farslot_gateway::Gateway;
use farslot_operate::{Source, text};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const ABORTED: &str = "-EXECABORT Transaction discarded because of previous errors.";

#[test]
fn queued_commands_are_done_in_their_order() {
    let (store, gateway) = gateway();
    let mut client = Client::of(&gateway);
    let mut other = Client::of(&gateway);
    client.expect(&[
        ("MULTI", "OK"),
        ("SET a 1", "QUEUED"),
        ("INCR a", "QUEUED"),
        ("GET a", "QUEUED"),
        ("APPEND a 0", "QUEUED"),
        ("MSET a 7 b x", "QUEUED"),
        ("INCR b", "QUEUED"),
        ("MGET a b c", "QUEUED"),
        ("DEL a", "QUEUED"),
        ("EXISTS a b", "QUEUED"),
        ("PING", "QUEUED"),
        ("SET d 1 XX NX", "QUEUED"),
        ("MSETNX e 1 f 2", "QUEUED"),
        ("DBSIZE", "QUEUED"),
        ("SET g 1 PX 100000", "QUEUED"),
    ]);
    other.expect(&[("EXISTS a b e", ":0")]);
    client.expect(&[
        (
            "EXEC",
            "[OK :2 \"2\" :2 OK -ERR value is not an integer or out of range \
             [\"7\" \"x\" nil] :1 :1 PONG -ERR syntax error :1 :3 OK]",
        ),
        ("EXEC", "-ERR EXEC without MULTI"),
        ("MULTI", "OK"),
        ("EXEC", "[]"),
    ]);
    client.expect_left("PTTL g", 100_000);
    other.expect(&[("GET b", "\"x\""), ("EXISTS a", ":0")]);
    let table = store.table("redis-0").unwrap();
    assert_eq!(table.get(b"e").unwrap().as_deref(), Some(&b"1"[..]));
    // Words that a person types.
    client
        .send(b"MULTI\r\nSET typed 1\r\n\r\nGET typed\r\nEXEC\r\n")
        .unwrap();
    for expected in ["OK", "QUEUED", "QUEUED", "[OK \"1\"]"] {
        assert_eq!(client.reply().unwrap().shown(), expected);
    }
}

#[test]
fn a_discarded_transaction_leaves_nothing() {
    let (_store, gateway) = gateway();
    let mut client = Client::of(&gateway);
    client.expect(&[
        ("DISCARD", "-ERR DISCARD without MULTI"),
        ("MULTI", "OK"),
        ("SET a 1", "QUEUED"),
        ("DISCARD", "OK"),
        ("GET a", "nil"),
        ("MULTI", "OK"),
        ("SET a 1", "QUEUED"),
        ("RESET", "RESET"),
        ("EXEC", "-ERR EXEC without MULTI"),
        ("MULTI", "OK"),
        ("SET a 1", "QUEUED"),
        ("QUIT", "OK"),
    ]);
    assert!(client.reply().is_err());
    let mut client = Client::of(&gateway);
    client.expect(&[("MULTI", "OK"), ("SET a 1", "QUEUED")]);
    drop(client);
    Client::of(&gateway).expect(&[("EXISTS a", ":0")]);
}

#[test]
fn a_refused_command_aborts_its_transaction() {
    let (_store, gateway) = gateway();
    let mut client = Client::of(&gateway);
    for (words, told) in [
        (
            "FOO a",
            "-ERR unknown command 'FOO', with args beginning with: 'a' ",
        ),
        ("GET", "-ERR wrong number of arguments for 'get' command"),
        (
            "CLIENT NO",
            "-ERR unknown subcommand 'NO'. Try CLIENT HELP.",
        ),
        (
            "CLIENT GETNAME x",
            "-ERR wrong number of arguments for 'client|getname' command",
        ),
        (
            "AUTH default x",
            "-ERR Command not allowed inside a transaction",
        ),
        ("HELLO 3", "-ERR Command not allowed inside a transaction"),
    ] {
        client.expect(&[
            ("MULTI", "OK"),
            ("SET a 1", "QUEUED"),
            (words, told),
            ("SET a 2", "QUEUED"),
            ("EXEC", ABORTED),
            ("GET a", "nil"),
        ]);
    }
    // These do not.
    client.expect(&[
        ("MULTI", "OK"),
        ("MULTI", "-ERR MULTI calls can not be nested"),
        ("WATCH a", "-ERR WATCH inside MULTI is not allowed"),
        ("PING a b c", "QUEUED"),
        ("UNWATCH", "QUEUED"),
        ("SET a 1", "QUEUED"),
        (
            "EXEC",
            "[-ERR wrong number of arguments for 'ping' command OK OK]",
        ),
        ("MULTI", "OK"),
        (
            "EXEC now",
            "-EXECABORT Transaction discarded because of: \
             wrong number of arguments for 'exec' command",
        ),
        ("EXEC", "-ERR EXEC without MULTI"),
    ]);
}

#[test]
fn select_within_a_transaction_is_for_what_follows() {
    let (_store, gateway) = gateway();
    let mut client = Client::of(&gateway);
    client.expect(&[
        ("MULTI", "OK"),
        ("SET a 0", "QUEUED"),
        ("SELECT 5", "QUEUED"),
        ("SET a 5", "QUEUED"),
        ("SELECT 16", "QUEUED"),
        ("GET a", "QUEUED"),
        ("EXEC", "[OK OK OK -ERR DB index is out of range \"5\"]"),
        ("GET a", "\"5\""),
        ("MULTI", "OK"),
        ("SELECT 0", "QUEUED"),
        ("DISCARD", "OK"),
        ("GET a", "\"5\""),
        ("RESET", "RESET"),
        ("GET a", "\"0\""),
    ]);
}

/// Each change of a watched key makes EXEC answer nil, and what changes no key does not.
#[test]
fn a_watched_key_that_was_touched_makes_exec_do_nothing() {
    let (store, gateway) = gateway_with(|options| options.threads = 2);
    let mut client = Client::of(&gateway);
    let mut other = Client::of(&gateway);
    let mut exec = |between: &mut dyn FnMut(&mut Client), nil: bool, step: &str| {
        client.expect(&[
            ("FLUSHALL", "OK"),
            ("MSET a 1 b 2", "OK"),
            ("SET t 1 EX 100", "OK"),
            ("WATCH a t absent", "OK"),
            ("WATCH a", "OK"),
        ]);
        between(&mut other);
        client.expect(&[("MULTI", "OK"), ("SET done 1", "QUEUED")]);
        let expected = if nil { "nil" } else { "[OK]" };
        assert_eq!(client.ask("EXEC"), expected, "{step}");
        assert_eq!(client.ask("EXISTS done"), format!(":{}", u8::from(!nil)));
        // Whatever came of it, nothing is watched now.
        client.expect(&[("SET a 2", "OK"), ("MULTI", "OK"), ("EXEC", "[]")]);
    };
    for words in [
        "SET a 1",
        "SET a 2",
        "DEL a",
        "UNLINK a",
        "APPEND a x",
        "INCR a",
        "GETDEL a",
        "GETSET a 1",
        "SETRANGE a 0 x",
        "MSET c 1 absent 1",
        "MSETNX c 1 absent 1",
        "EXPIRE a 100",
        "EXPIRE a 0",
        "GETEX a EX 100",
        "PERSIST t",
        "FLUSHDB",
        "FLUSHALL",
    ] {
        exec(&mut |other| drop(other.ask(words)), true, words);
    }
    for words in [
        "SET b 1",
        "DEL absent",
        "GET a",
        "SETNX a 2",
        "SET a 2 NX",
        "SET absent 2 XX",
        "PERSIST a",
        "EXPIRE a 0 GT",
        "GETEX a",
        "MSETNX absent 1 a 1",
        "SETRANGE absent 0 ",
    ] {
        exec(&mut |other| drop(other.ask(words)), false, words);
    }
    // Back to what it was, in one tick, in a transaction, after the end of a time to live.
    let back = request(&["DEL", "a"]);
    let back = [back, request(&["SET", "a", "1"])].concat();
    let mut both = |other: &mut Client| {
        other.send(&back).unwrap();
        assert_eq!(other.reply().unwrap().shown(), ":1");
        assert_eq!(other.reply().unwrap().shown(), "OK");
    };
    exec(&mut both, true, "removed and set back");
    let in_one = request(&["SET", "absent", "1"]);
    let in_one = [in_one, request(&["DEL", "absent"])].concat();
    let mut both = |other: &mut Client| {
        other.send(&in_one).unwrap();
        assert_eq!(other.reply().unwrap().shown(), "OK");
        assert_eq!(other.reply().unwrap().shown(), ":1");
    };
    exec(&mut both, true, "set and removed");
    let mut transaction = |other: &mut Client| {
        other.expect(&[("MULTI", "OK"), ("SET t 1", "QUEUED"), ("EXEC", "[OK]")]);
    };
    exec(&mut transaction, true, "by a transaction");
    let table = store.table("redis-0").unwrap();
    let mut by_library = |_: &mut Client| {
        table.put(b"a", b"other").unwrap();
    };
    exec(&mut by_library, true, "by another client of the store");
    let mut at_home = |other: &mut Client| {
        other.expect(&[("SELECT 1", "OK"), ("SET a 2", "OK"), ("FLUSHDB", "OK")]);
        other.expect(&[("SELECT 0", "OK")]);
    };
    exec(&mut at_home, false, "in another database");
}

#[test]
fn a_watched_key_that_expires_makes_exec_do_nothing() {
    let (_store, gateway) = gateway();
    let mut client = Client::of(&gateway);
    client.expect(&[("SET a 1 PX 1", "OK")]);
    while client.ask("EXISTS a") == ":1" {}
    // It is absent already, and stays so.
    client.expect(&[("WATCH a", "OK"), ("MULTI", "OK"), ("EXEC", "[]")]);
    // A slow machine may take longer than the key lives.
    loop {
        client.expect(&[
            ("UNWATCH", "OK"),
            ("SET a 1 PX 300", "OK"),
            ("WATCH a", "OK"),
        ]);
        if client.ask("EXISTS a") == ":1" {
            break;
        }
    }
    while client.ask("EXISTS a") == ":1" {
        std::thread::sleep(Duration::from_millis(5));
    }
    client.expect(&[("MULTI", "OK"), ("SET b 1", "QUEUED"), ("EXEC", "nil")]);
    client.expect(&[("EXISTS b", ":0")]);
}

#[test]
fn keys_are_no_longer_watched_after_unwatch() {
    let (_store, gateway) = gateway();
    let mut client = Client::of(&gateway);
    let mut other = Client::of(&gateway);
    for (end, told) in [
        ("UNWATCH", "OK"),
        ("DISCARD", "OK"),
        ("EXEC", "[]"),
        ("RESET", "RESET"),
    ] {
        client.expect(&[("WATCH a", "OK")]);
        if end != "UNWATCH" {
            client.expect(&[("MULTI", "OK")]);
        }
        client.expect(&[(end, told)]);
        other.expect(&[("SET a 1", "OK")]);
        client.expect(&[("MULTI", "OK"), ("GET a", "QUEUED"), ("EXEC", "[\"1\"]")]);
    }
    // An aborted one too; and a key that the client changes itself is changed.
    client.expect(&[("WATCH a", "OK"), ("MULTI", "OK")]);
    assert!(client.ask("NONSENSE").starts_with("-ERR unknown"));
    other.expect(&[("SET a 1", "OK")]);
    client.expect(&[("EXEC", ABORTED), ("MULTI", "OK"), ("EXEC", "[]")]);
    client.expect(&[("WATCH a", "OK"), ("SET a 1", "OK"), ("MULTI", "OK")]);
    client.expect(&[("EXEC", "nil")]);
    // Keys of two databases.
    client.expect(&[("WATCH a", "OK"), ("SELECT 1", "OK"), ("WATCH a", "OK")]);
    other.expect(&[("SET a 1", "OK")]);
    client.expect(&[("MULTI", "OK"), ("EXEC", "nil")]);
}

#[test]
fn replies_have_the_protocol_that_was_chosen() {
    let (_store, gateway) = gateway();
    let mut client = Client::of(&gateway);
    let mut raw = |words: &str, bytes: &[u8]| {
        let words: Vec<&str> = words.split(' ').collect();
        client.send(&request(&words)).unwrap();
        let mut got = vec![0; bytes.len()];
        client.read_exact(&mut got);
        assert_eq!(
            got.escape_ascii().to_string(),
            bytes.escape_ascii().to_string()
        );
    };
    raw("WATCH a", b"+OK\r\n");
    raw("SET a 1", b"+OK\r\n");
    raw("MULTI", b"+OK\r\n");
    raw("GET b", b"+QUEUED\r\n");
    raw("EXEC", b"*-1\r\n");
    raw("MULTI", b"+OK\r\n");
    raw("GET b", b"+QUEUED\r\n");
    raw("EXEC", b"*1\r\n$-1\r\n");
    client.ask("HELLO 3");
    let mut raw = |words: &str, bytes: &[u8]| {
        let words: Vec<&str> = words.split(' ').collect();
        client.send(&request(&words)).unwrap();
        let mut got = vec![0; bytes.len()];
        client.read_exact(&mut got);
        assert_eq!(
            got.escape_ascii().to_string(),
            bytes.escape_ascii().to_string()
        );
    };
    raw("WATCH a", b"+OK\r\n");
    raw("SET a 1", b"+OK\r\n");
    raw("MULTI", b"+OK\r\n");
    raw("EXEC", b"_\r\n");
    raw("MULTI", b"+OK\r\n");
    raw("GET b", b"+QUEUED\r\n");
    raw("EXEC", b"*1\r\n_\r\n");
    // RESET chooses the first protocol again.
    raw("RESET", b"+RESET\r\n");
    raw("GET b", b"$-1\r\n");
}

/// Clients send whole transactions at once, and several of them.
#[test]
fn a_pipeline_of_transactions_is_answered_in_order() {
    let (_store, gateway) = gateway();
    let mut client = Client::of(&gateway);
    let rounds = 50;
    let mut bytes = Vec::new();
    for round in 0..rounds {
        let value = format!("{round}");
        for words in [
            &["GET", "a"][..],
            &["MULTI"],
            &["SET", "a", &value],
            &["GETSET", "a", "x"],
            &["INCR", "n"],
            &["EXEC"],
            &["SET", "a", "before", "GET"],
            &["WATCH", "a"],
            &["MULTI"],
            &["INCR", "n"],
            &["EXEC"],
        ] {
            bytes.extend(request(words));
        }
    }
    client.send(&bytes).unwrap();
    for round in 0..rounds {
        let before = if round == 0 { "nil" } else { "\"before\"" };
        let exec = format!("[OK \"{round}\" :{}]", 2 * round + 1);
        let second = format!("[:{}]", 2 * round + 2);
        for expected in [
            before, "OK", "QUEUED", "QUEUED", "QUEUED", &exec, "\"x\"", "OK", "OK", "QUEUED",
            &second,
        ] {
            assert_eq!(client.reply().unwrap().shown(), expected, "round {round}");
        }
    }
}

#[test]
fn a_transaction_may_be_long_up_to_its_bounds() {
    let (_store, gateway) = gateway();
    let mut client = Client::of(&gateway);
    // With values that only the thread for long requests takes.
    let long = vec![b'v'; 1_000_000];
    client.expect(&[("MULTI", "OK")]);
    for key in 0..10 {
        let set = client.run(&[b"SET", format!("{key}").as_bytes(), &long]);
        assert_eq!(set.shown(), "QUEUED");
    }
    client.expect(&[("MGET 0 9", "QUEUED"), ("DBSIZE", "QUEUED")]);
    let Reply::Array(parts) = client.run(&["EXEC"]) else {
        panic!("no array");
    };
    assert_eq!(parts.len(), 12);
    assert_eq!(parts[9], Reply::Status("OK".into()));
    let both = [Reply::Bulk(long.clone()), Reply::Bulk(long.clone())];
    assert_eq!(parts[10], Reply::Array(both.into()));
    assert_eq!(parts[11], Reply::Integer(10));
    // One with more bytes is refused, and nothing of it is done.
    client.expect(&[("MULTI", "OK"), ("DEL 0", "QUEUED")]);
    let mut told = Vec::new();
    for _ in 0..17 {
        told.push(client.run(&[&b"SET"[..], b"1", &long]).shown());
    }
    let queued = told.iter().filter(|told| *told == "QUEUED").count();
    assert_eq!(queued, 16, "{told:?}");
    let bytes = request(&["DEL", "0"]).len() + 17 * request(&[&b"SET"[..], b"1", &long]).len();
    let expected =
        format!("-ERR the transaction would have {bytes} bytes, and the limit is 16777216");
    assert_eq!(told[16], expected);
    client.expect(&[("EXEC", ABORTED), ("EXISTS 0", ":1")]);
    // A request that is skipped aborts too.
    client.expect(&[("MULTI", "OK"), ("DEL 0", "QUEUED")]);
    let longest = vec![b'v'; 3 << 20];
    let told = client.run(&[&b"SET"[..], b"1", &longest]).shown();
    assert!(told.contains("longer than the limit"), "{told}");
    client.expect(&[("EXEC", ABORTED), ("EXISTS 0", ":1")]);
    // So is one whose replies would be too long, before anything of it is done.
    client.expect(&[("MULTI", "OK"), ("DEL 1", "QUEUED")]);
    for _ in 0..64 {
        client.expect(&[("GET 0", "QUEUED")]);
    }
    let told = client.ask("EXEC");
    assert!(
        told.starts_with("-EXECABORT Transaction discarded because of: the reply would be"),
        "{told}"
    );
    client.expect(&[("EXISTS 0 1", ":2"), ("EXEC", "-ERR EXEC without MULTI")]);
    // Many commands.
    let many = 20_000;
    let mut bytes = request(&["MULTI"]);
    for key in 0..many {
        bytes.extend(request(&["INCRBY", &format!("n{}", key % 7), "2"]));
    }
    bytes.extend(request(&["EXEC"]));
    client.send(&bytes).unwrap();
    assert_eq!(client.reply().unwrap().shown(), "OK");
    for _ in 0..many {
        assert_eq!(client.reply().unwrap().shown(), "QUEUED");
    }
    let Reply::Array(parts) = client.reply().unwrap() else {
        panic!("no array");
    };
    let expected = (0..many).map(|key| Reply::Integer(2 * (key / 7) as i64 + 2));
    assert!(parts.into_iter().eq(expected));
}

#[test]
fn no_more_keys_are_watched_than_the_bound() {
    let (_store, gateway) = gateway();
    let mut client = Client::of(&gateway);
    let names: Vec<String> = (0..4_096).map(|name| format!("key {name}")).collect();
    let watch = |client: &mut Client, names: &[String]| {
        let names = names.iter().map(|name| &name[..]);
        let all: Vec<&str> = std::iter::once("WATCH").chain(names).collect();
        client.run(&all).shown()
    };
    let told = watch(&mut client, &names);
    assert!(
        told.starts_with("-ERR the watched keys would take "),
        "{told}"
    );
    assert!(told.ends_with("and the limit is 1048576"), "{told}");
    // None of them is watched.
    client.expect(&[("SET k 1", "OK")]);
    client.run(&["SET", &names[0], "1"]);
    client.expect(&[("MULTI", "OK"), ("EXEC", "[]")]);
    assert_eq!(watch(&mut client, &names[..3_900]), "OK");
    assert_eq!(watch(&mut client, &names[..3_900]), "OK", "none is new");
    client.run(&["SET", &names[3_899], "1"]);
    client.expect(&[("MULTI", "OK"), ("EXEC", "nil")]);
}

#[test]
fn a_transaction_visits_a_database_a_bounded_number_of_times() {
    let (_store, gateway) = gateway();
    let mut client = Client::of(&gateway);
    client.expect(&[("SET a 1", "OK"), ("MULTI", "OK")]);
    for _ in 0..32 {
        client.expect(&[("KEYS *", "QUEUED")]);
    }
    let told =
        "-ERR the transaction would have 33 commands over a whole database, and the limit is 32";
    client.expect(&[("KEYS *", told), ("EXEC", ABORTED), ("MULTI", "OK")]);
    client.expect(&[
        ("SET b 1", "QUEUED"),
        ("KEYS b", "QUEUED"),
        ("DEL b", "QUEUED"),
        ("KEYS *", "QUEUED"),
        ("FLUSHDB", "QUEUED"),
        ("RANDOMKEY", "QUEUED"),
        ("SET b 2", "QUEUED"),
        ("EXEC", "[OK [\"b\"] :1 [\"a\"] OK nil OK]"),
        ("GET b", "\"2\""),
    ]);
}

fn grant(name: &str, rights: Rights, prefix: Option<&str>) -> TableGrant {
    TableGrant {
        name: name.into(),
        secrets: vec![Secret::new(format!("the secret of {name}")).unwrap()],
        clients: None,
        tables: vec!["redis-0".into(), "redis-1".into()],
        rights,
        prefix: prefix.map(|prefix| prefix.as_bytes().into()),
        rate: Rate::default(),
    }
}

#[test]
fn users_queue_what_they_may_do() {
    let secret = || Secret::new("the secret of default").unwrap();
    let (_store, gateway) = gateway_with(|options| {
        options.secrets = vec![secret()];
        options.users = vec![
            grant("reader", Rights::READ, None),
            grant("tenant", Rights::ALL, Some("t:")),
        ];
    });
    let client = |user: &str| {
        let mut client = Client::of(&gateway);
        client.expect(&[("MULTI", "-NOAUTH Authentication required.")]);
        let given = client.run(&["AUTH", user, &format!("the secret of {user}")]);
        assert_eq!(given.shown(), "OK");
        client
    };
    let keys = |user: &str| {
        format!(
            "-NOPERM User {user} has no permissions to access one of the keys used as arguments"
        )
    };
    let mut reader = client("reader");
    reader.expect(&[
        ("WATCH a", "OK"),
        ("MULTI", "OK"),
        ("GET a", "QUEUED"),
        (
            "SET a 1",
            "-NOPERM User reader has no permissions to run the 'set' command",
        ),
        ("EXEC", ABORTED),
        ("MULTI", "OK"),
        (
            "SELECT 2",
            "-NOPERM User reader has no permissions to access database 2",
        ),
        ("EXEC", ABORTED),
        ("MULTI", "OK"),
        ("SELECT 1", "QUEUED"),
        ("GET a", "QUEUED"),
        ("EXEC", "[OK nil]"),
    ]);
    let mut tenant = client("tenant");
    tenant.expect(&[
        ("WATCH t:a a", &keys("tenant")),
        ("WATCH t:a", "OK"),
        ("MULTI", "OK"),
        ("SET t:a 1", "QUEUED"),
        ("MSET t:b 1 b 2", &keys("tenant")),
        ("EXEC", ABORTED),
        ("EXISTS t:a", ":0"),
        ("MULTI", "OK"),
        ("SET t:a 1", "QUEUED"),
        ("EXEC", "[OK]"),
    ]);
    // One who is no user any more has nothing done.
    tenant.expect(&[("MULTI", "OK"), ("SET t:a 2", "QUEUED")]);
    gateway.change_users(&[]);
    assert_eq!(tenant.ask("EXEC"), "-NOAUTH Authentication required.");
    let mut owner = client("default");
    owner.expect(&[("GET t:a", "\"1\""), ("RESET", "RESET")]);
    owner.expect(&[("GET t:a", "-NOAUTH Authentication required.")]);
}

#[test]
fn commands_are_counted_when_they_are_done() {
    let (_store, gateway) = gateway_with(|options| options.slower_than = Duration::ZERO);
    let mut client = Client::of(&gateway);
    client.expect(&[
        ("MULTI", "OK"),
        ("SET a x", "QUEUED"),
        ("DISCARD", "OK"),
        ("MULTI", "OK"),
        ("INCR a", "QUEUED"),
        ("SET a x", "QUEUED"),
        ("INCR a", "QUEUED"),
        (
            "EXEC",
            "[:1 OK -ERR value is not an integer or out of range]",
        ),
    ]);
    let told = text(&gateway.metrics().families());
    for line in [
        "farslot_redis_commands_total{command=\"multi\"} 2",
        "farslot_redis_commands_total{command=\"exec\"} 1",
        "farslot_redis_commands_total{command=\"incr\"} 2",
        "farslot_redis_commands_total{command=\"set\"} 1",
        "farslot_redis_errors_total{code=\"ERR\"} 1",
        "farslot_redis_errors_total{code=\"EXECABORT\"} 0",
    ] {
        assert!(told.lines().any(|of| of == line), "no {line:?} in\n{told}");
    }
    let info = client.ask("INFO stats");
    assert!(info.contains("total_commands_processed:7\\r"), "{info}");
    let log = client.ask("SLOWLOG GET 100");
    assert!(
        log.contains("\"INCR\" \"a\"") && !log.contains("EXEC"),
        "{log}"
    );
    let described = client.ask("COMMAND INFO exec watch");
    assert_eq!(
        described,
        "[[\"exec\" :1 [noscript loading stale skip_slowlog] :0 :0 :0 [] [] [] []] \
         [\"watch\" :-2 [noscript loading stale fast allow_busy] :1 :-1 :1 [] [] [] []]]"
    );
}

const ACCOUNTS: usize = 24;
const EACH: i64 = 100;

/// Takes from some accounts and gives to others, so that the sum of all stays.
fn moves(random: &mut ChaCha8Rng) -> Vec<(String, i64)> {
    let (count, by) = (random.random_range(1..6), random.random_range(-9..10));
    let mut account = || format!("account-{}", random.random_range(0..ACCOUNTS));
    let pairs = (0..count).map(|_| [(account(), by), (account(), -by)]);
    pairs.flatten().collect()
}

/// Moves money by INCRBY in a transaction; every fifth time one that is discarded.
fn add(client: &mut Client, random: &mut ChaCha8Rng) {
    let is_discarded = random.random_range(0..5) == 0;
    let mut bytes = request(&["MULTI"]);
    let moves = moves(random);
    for (account, by) in &moves {
        bytes.extend(request(&["INCRBY", account, &by.to_string()]));
    }
    let end = if is_discarded { "DISCARD" } else { "EXEC" };
    bytes.extend(request(&[end]));
    client.send(&bytes).unwrap();
    for _ in 0..=moves.len() {
        client.reply().unwrap();
    }
    match client.reply().unwrap() {
        Reply::Array(parts) if !is_discarded => assert_eq!(parts.len(), moves.len()),
        Reply::Status(ok) if is_discarded => assert_eq!(ok, "OK"),
        other => panic!("{other:?}"),
    }
}

/// Moves money between two accounts that it watches, and sets both; whether nobody was faster.
fn watch_and_set(client: &mut Client, random: &mut ChaCha8Rng) -> bool {
    let first = random.random_range(0..ACCOUNTS);
    let second = (first + random.random_range(1..ACCOUNTS)) % ACCOUNTS;
    let [first, second] = [first, second].map(|account| format!("account-{account}"));
    assert_eq!(client.run(&["WATCH", &first, &second]).shown(), "OK");
    let [a, b] = numbers(client.run(&["MGET", &first, &second]))[..] else {
        panic!("not two");
    };
    let by = random.random_range(-9..10);
    let [a, b] = [a + by, b - by].map(|sum| sum.to_string());
    assert_eq!(client.ask("MULTI"), "OK");
    assert_eq!(client.run(&["SET", &first, &a]).shown(), "QUEUED");
    assert_eq!(client.run(&["SET", &second, &b]).shown(), "QUEUED");
    match client.ask("EXEC").as_str() {
        "[OK OK]" => true,
        "nil" => false,
        other => panic!("{other}"),
    }
}

fn numbers(reply: Reply) -> Vec<i64> {
    let Reply::Array(parts) = reply else {
        panic!("no array");
    };
    let number = |part| match part {
        Reply::Bulk(bytes) => String::from_utf8(bytes).unwrap().parse().unwrap(),
        other => panic!("{other:?}"),
    };
    parts.into_iter().map(number).collect()
}

/// The sums of all accounts, read at once by MGET or by a transaction.
fn sum(client: &mut Client, by_transaction: bool) -> i64 {
    let accounts: Vec<String> = (0..ACCOUNTS).map(|of| format!("account-{of}")).collect();
    let all = if by_transaction {
        let mut bytes = request(&["MULTI"]);
        for account in &accounts {
            bytes.extend(request(&["GET", account]));
        }
        bytes.extend(request(&["EXEC"]));
        client.send(&bytes).unwrap();
        for _ in 0..=ACCOUNTS {
            client.reply().unwrap();
        }
        client.reply().unwrap()
    } else {
        let accounts = accounts.iter().map(|account| &account[..]);
        let all: Vec<&str> = std::iter::once("MGET").chain(accounts).collect();
        client.run(&all)
    };
    numbers(all).iter().sum()
}

fn open_accounts(gateway: &Gateway) {
    let mut client = Client::of(gateway);
    for account in 0..ACCOUNTS {
        let each = EACH.to_string();
        client.run(&["SET", &format!("account-{account}"), &each]);
    }
}

/// Whoever reads all accounts at once finds all of the money, whatever transactions do meanwhile
/// on other threads.
#[test]
fn no_transaction_is_seen_half_done() {
    let (_store, gateway) = gateway_with(|options| options.threads = 3);
    open_accounts(&gateway);
    let seed = std::env::var("FARSLOT_SEED").map_or(1, |seed| seed.parse().unwrap());
    println!("FARSLOT_SEED={seed}");
    let rounds = 600;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..6)
            .map(|writer| {
                let gateway = &gateway;
                scope.spawn(move || {
                    let mut random = ChaCha8Rng::seed_from_u64(seed << 8 | writer);
                    let mut client = Client::of(gateway);
                    let mut done = 0;
                    for round in 0..rounds {
                        if writer < 3 {
                            add(&mut client, &mut random);
                        } else {
                            done += u32::from(watch_and_set(&mut client, &mut random));
                        }
                        if round % 50 == 49 {
                            // It dies amid a transaction.
                            client.send(b"MULTI\r\nINCRBY account-0 1000\r\n").unwrap();
                            client = Client::of(gateway);
                        }
                    }
                    (writer < 3) || done > 0
                })
            })
            .collect();
        let (gateway, is_over) = (&gateway, &is_over);
        for reader in 0..4 {
            scope.spawn(move || {
                let mut client = Client::of(gateway);
                let mut reads = 0;
                while !is_over.load(Relaxed) || reads < 10 {
                    let told = sum(&mut client, reader % 2 == 0);
                    if told != ACCOUNTS as i64 * EACH {
                        is_over.store(true, Relaxed);
                        panic!("seed {seed}: {told} in all");
                    }
                    reads += 1;
                }
            });
        }
        let are_done = writers.into_iter().map(|writer| writer.join());
        let are_done: Vec<_> = are_done.collect();
        is_over.store(true, Relaxed);
        assert!(are_done.into_iter().all(|is_done| is_done.unwrap()));
    });
    assert_eq!(sum(&mut Client::of(&gateway), true), ACCOUNTS as i64 * EACH);
}

/// Transactions replace all keys by others. Whoever visits the database finds the ones or the
/// others, also in a transaction that visits it twice.
#[test]
fn no_visit_of_a_database_sees_a_transaction_half_done() {
    const KEYS: usize = 40;
    let (_store, gateway) = gateway_with(|options| options.threads = 3);
    let names = |kind: &str| {
        (0..KEYS)
            .map(|key| format!("{kind}{key}"))
            .collect::<Vec<_>>()
    };
    let kinds = ["a", "b"].map(names);
    let replace = |client: &mut Client, from: &[String], to: &[String]| {
        let from: Vec<&str> = std::iter::once("DEL")
            .chain(from.iter().map(|key| &key[..]))
            .collect();
        let mut bytes = [request(&["MULTI"]), request(&from)].concat();
        for key in to {
            bytes.extend(request(&["SET", key, "1"]));
        }
        bytes.extend(request(&["EXEC"]));
        client.send(&bytes).unwrap();
        for _ in 0..KEYS + 2 {
            client.reply().unwrap();
        }
        assert!(matches!(client.reply().unwrap(), Reply::Array(_)));
    };
    let mut writer = Client::of(&gateway);
    // Others, so that a visit takes longer than a transaction.
    for key in 0..1_000 {
        writer.run(&["SET", &format!("other {key}"), "1"]);
    }
    replace(&mut writer, &kinds[1], &kinds[0]);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in 0..4 {
            let (gateway, is_over) = (&gateway, &is_over);
            scope.spawn(move || {
                let mut client = Client::of(gateway);
                let visit = [request(&["KEYS", "a*"]), request(&["KEYS", "b*"])].concat();
                let within = [b"MULTI\r\n".to_vec(), visit, b"EXEC\r\n".to_vec()].concat();
                let found = |reply| match reply {
                    Reply::Array(keys) => keys.len(),
                    other => panic!("{other:?}"),
                };
                while !is_over.load(Relaxed) {
                    let counts = if reader % 2 == 0 {
                        let all = found(client.run(&["KEYS", "[ab]*"]));
                        [all, 0]
                    } else {
                        client.send(&within).unwrap();
                        let Some(Reply::Array(both)) =
                            (0..4).map(|_| client.reply().unwrap()).last()
                        else {
                            panic!("no array");
                        };
                        let both: Vec<usize> = both.into_iter().map(found).collect();
                        [both[0], both[1]]
                    };
                    if !matches!(counts, [KEYS, 0] | [0, KEYS]) {
                        is_over.store(true, Relaxed);
                        panic!("{counts:?} keys");
                    }
                }
            });
        }
        for round in 0..200 {
            if !is_over.load(Relaxed) {
                replace(&mut writer, &kinds[round % 2], &kinds[(round + 1) % 2]);
            }
        }
        is_over.store(true, Relaxed);
    });
}
