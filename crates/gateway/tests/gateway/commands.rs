//! What commands answer, and what they leave.

use crate::client::{Client, Reply, gateway, request};
use proptest::prelude::*;
use std::collections::HashMap;
use std::time::{Duration, Instant};

#[test]
fn strings_are_set_and_read() {
    let (_store, gateway) = gateway();
    Client::of(&gateway).expect(&[
        ("PING", "PONG"),
        ("PING a", "\"a\""),
        ("ECHO a", "\"a\""),
        ("GET a", "nil"),
        ("SET a 1", "OK"),
        ("get a", "\"1\""),
        ("SET a 2 NX", "nil"),
        ("SET b 2 XX", "nil"),
        ("SET a 2 XX GET", "\"1\""),
        ("SET c 3 NX GET", "nil"),
        ("SETNX a 9", ":0"),
        ("SETNX d 4", ":1"),
        ("GETSET a 5", "\"2\""),
        ("GETDEL d", "\"4\""),
        ("GETDEL d", "nil"),
        ("MSET a 1 b 2 a 3", "OK"),
        ("MGET a none b a", "[\"3\" nil \"2\" \"3\"]"),
        ("MSETNX x 1 a 1", ":0"),
        ("EXISTS x a a b", ":3"),
        ("MSETNX x 1 y 1 x 2", ":1"),
        ("GET x", "\"2\""),
        ("STRLEN a", ":1"),
        ("STRLEN none", ":0"),
        ("APPEND a bc", ":3"),
        ("APPEND n bc", ":2"),
        ("GETRANGE a 0 -1", "\"3bc\""),
        ("GETRANGE a -2 10", "\"bc\""),
        ("GETRANGE a 2 1", "\"\""),
        ("GETRANGE none 0 1", "\"\""),
        ("SETRANGE a 1 xyz", ":4"),
        ("GET a", "\"3xyz\""),
        ("SETRANGE z 2 a", ":3"),
        ("GET z", "\"\\0\\0a\""),
        (
            "SETRANGE a 9999999 b",
            "-ERR string exceeds maximum allowed size (proto-max-bulk-len): \
             10000000 bytes, and the limit is 2555880",
        ),
        ("SETRANGE a -1 b", "-ERR offset is out of range"),
        ("TYPE a", "string"),
        ("TYPE none", "none"),
        ("TOUCH a b none", ":2"),
        ("DEL a b none", ":2"),
        ("UNLINK c", ":1"),
        ("DEL c", ":0"),
    ]);
}

#[test]
fn numbers_are_counted() {
    let (_store, gateway) = gateway();
    Client::of(&gateway).expect(&[
        ("INCR a", ":1"),
        ("INCRBY a 41", ":42"),
        ("DECR a", ":41"),
        ("DECRBY a 50", ":-9"),
        ("GET a", "\"-9\""),
        ("SET a 9223372036854775807", "OK"),
        ("INCR a", "-ERR increment or decrement would overflow"),
        (
            "DECRBY a -9223372036854775808",
            "-ERR decrement would overflow",
        ),
        ("SET a 01", "OK"),
        ("INCR a", "-ERR value is not an integer or out of range"),
        ("INCRBY a x", "-ERR value is not an integer or out of range"),
        ("INCRBYFLOAT f 10.5", "\"10.5\""),
        ("INCRBYFLOAT f 0.1", "\"10.6\""),
        ("INCRBYFLOAT f -5.0e3", "\"-4989.4\""),
        ("INCRBYFLOAT f x", "-ERR value is not a valid float"),
    ]);
}

#[test]
fn keys_expire() {
    let (_store, gateway) = gateway();
    let mut client = Client::of(&gateway);
    client.expect(&[
        ("TTL a", ":-2"),
        ("SET a 1", "OK"),
        ("TTL a", ":-1"),
        ("EXPIRE a 100", ":1"),
        ("EXPIRE a 200 LT", ":0"),
        ("EXPIRE a 200 GT", ":1"),
        ("EXPIRE a 200 NX", ":0"),
        ("EXPIRE a 300 XX", ":1"),
        ("EXPIRE none 300", ":0"),
        (
            "EXPIRE a 1 NX GT",
            "-ERR NX and XX, GT or LT options at the same time are not compatible",
        ),
        ("EXPIRE a 1 what", "-ERR Unsupported option what"),
        ("PERSIST a", ":1"),
        ("PERSIST a", ":0"),
        ("PEXPIREAT a 99999999999999", ":1"),
        ("PEXPIRETIME a", ":99999999999999"),
        ("EXPIRETIME a", ":100000000000"),
        ("SET a 2 KEEPTTL", "OK"),
        ("PEXPIRETIME a", ":99999999999999"),
        ("INCR a", ":3"),
        ("APPEND a 0", ":2"),
        ("PEXPIRETIME a", ":99999999999999"),
        ("GETEX a PERSIST", "\"30\""),
        ("TTL a", ":-1"),
        ("GETEX a EX 50", "\"30\""),
    ]);
    client.expect_left("TTL a", 50);
    client.expect_left("PTTL a", 50_000);
    client.expect(&[
        ("SET a 3", "OK"),
        ("TTL a", ":-1"),
        ("EXPIRE a -1", ":1"),
        ("GET a", "nil"),
        ("SETEX a 0 b", "-ERR invalid expire time in 'setex' command"),
        ("SET a b", "OK"),
        (
            "PEXPIREAT a 281474976710656",
            "-ERR invalid expire time in 'pexpireat' command",
        ),
        (
            "SET a c EXAT 281474976711",
            "-ERR invalid expire time in 'set' command",
        ),
        (
            "EXPIRE a 281474976711",
            "-ERR invalid expire time in 'expire' command",
        ),
        ("PEXPIREAT a 281474976710655", ":1"),
        ("PEXPIRETIME a", ":281474976710655"),
        ("GETDEL a", "\"b\""),
        ("SET a b PXAT 1", "OK"),
        ("EXISTS a", ":0"),
        ("PSETEX a 20 b", "OK"),
    ]);
    let since = Instant::now();
    while client.ask("GET a") != "nil" {
        assert!(since.elapsed() < Duration::from_secs(30));
    }
    client.expect(&[("TTL a", ":-2"), ("SET a c NX", "OK"), ("TTL a", ":-1")]);
}

/// Other clients of the table see how many keys it has, soon and without a request.
#[test]
fn the_count_of_keys_is_reported() {
    let (store, gateway) = gateway();
    Client::of(&gateway).expect(&[("SET a 1", "OK"), ("SET b 1", "OK")]);
    let table = store.table("redis-0").unwrap();
    let since = std::time::Instant::now();
    while table.occupancy().unwrap().entries != 2 {
        assert!(since.elapsed().as_secs() < 60, "it is not reported");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Without anybody asking for them.
#[test]
fn expired_keys_are_swept() {
    let (store, gateway) = gateway();
    let mut client = Client::of(&gateway);
    for number in 0..500 {
        client.run(&["SET", &format!("key-{number}"), "value", "PX", "1"]);
    }
    client.expect(&[("SET stays 1 EX 1000", "OK"), ("SET too 1", "OK")]);
    let since = Instant::now();
    while client.ask("DBSIZE") != ":2" {
        assert!(since.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut records = Vec::new();
    let table = store.table("redis-0").unwrap();
    table.for_each(|key, _| records.push(key.to_vec())).unwrap();
    records.sort();
    assert_eq!(records, [b"stays".to_vec(), b"too".to_vec()]);
}

#[test]
fn whole_databases_are_visited() {
    let (_store, gateway) = gateway();
    let mut client = Client::of(&gateway);
    client.expect(&[
        ("DBSIZE", ":0"),
        ("KEYS *", "[]"),
        ("RANDOMKEY", "nil"),
        ("SCAN 0", "[\"0\" []]"),
        ("SCAN x", "-ERR invalid cursor"),
        ("SCAN 0 COUNT 0", "-ERR syntax error"),
    ]);
    let names: Vec<String> = (0..3_000).map(|number| format!("key-{number}")).collect();
    for name in &names {
        client.send(&request(&["SET", name, "1"])).unwrap();
    }
    names
        .iter()
        .for_each(|_| assert_eq!(client.reply().unwrap().shown(), "OK"));
    client.expect(&[("SET gone 1 PXAT 1", "OK"), ("DBSIZE", ":3000")]);
    client.expect(&[("KEYS key-7", "[\"key-7\"]"), ("KEYS g*", "[]")]);
    assert!(client.ask("RANDOMKEY").starts_with("\"key-"));
    let (mut cursor, mut met) = ("0".to_string(), Vec::new());
    loop {
        let reply = client.ask(&format!("SCAN {cursor} COUNT 100 MATCH key-*"));
        let inner = &reply[1..reply.len() - 1];
        let (next, keys) = inner.split_once(' ').unwrap();
        let keys = keys.trim_matches(['[', ']']).split(' ');
        met.extend(
            keys.filter(|key| !key.is_empty())
                .map(|key| key.trim_matches('"').to_string()),
        );
        cursor = next.trim_matches('"').to_string();
        if cursor == "0" {
            break;
        }
    }
    met.sort();
    let mut expected = names;
    expected.sort();
    assert_eq!(met, expected);
    // Numbers that were no cursors lead somewhere, or to the end.
    for cursor in [1, 7, u64::MAX, u64::MAX >> 16, 1 << 48] {
        assert!(
            client
                .ask(&format!("SCAN {cursor} TYPE string"))
                .starts_with('[')
        );
    }
    client.expect(&[
        ("SELECT 3", "OK"),
        ("SET other 1", "OK"),
        ("SELECT 0", "OK"),
        ("FLUSHDB", "OK"),
        ("DBSIZE", ":0"),
        ("SELECT 3", "OK"),
        ("GET other", "\"1\""),
        ("FLUSHALL ASYNC", "OK"),
        ("GET other", "nil"),
        ("SELECT 16", "-ERR DB index is out of range"),
        ("SELECT x", "-ERR value is not an integer or out of range"),
    ]);
}

#[test]
fn connections_say_who_they_are() {
    let (_store, gateway) = gateway();
    let mut client = Client::of(&gateway);
    let hello = client.ask("HELLO 3 SETNAME me");
    assert!(hello.contains("\"proto\" :3"), "{hello}");
    client.expect(&[
        ("GET none", "nil"),
        ("CLIENT GETNAME", "\"me\""),
        ("CLIENT SETNAME you", "OK"),
        ("CLIENT GETNAME", "\"you\""),
        ("CLIENT SETINFO LIB-NAME test", "OK"),
        (
            "CLIENT WHAT",
            "-ERR unknown subcommand 'WHAT'. Try CLIENT HELP.",
        ),
        ("HELLO 4", "-NOPROTO unsupported protocol version"),
        ("COMMAND INFO none", "[nil]"),
        (
            "AUTH secret",
            "-ERR AUTH <password> called without any password configured for the \
           default user. Are you sure your configuration is correct?",
        ),
        (
            "FOO a b",
            "-ERR unknown command 'FOO', with args beginning with: 'a' 'b' ",
        ),
        ("GET", "-ERR wrong number of arguments for 'get' command"),
        (
            "HELLO 2",
            "[\"server\" \"farslot\" \"version\" \"7.0.0\" \"proto\" :2 \"id\" :1 \"mode\" \
           \"standalone\" \"role\" \"master\" \"modules\" []]",
        ),
    ]);
    assert_eq!(client.ask("CLIENT ID"), ":1");
    let count: usize = client.ask("COMMAND COUNT")[1..].parse().unwrap();
    assert!(count > 40);
    assert!(
        client
            .ask("COMMAND")
            .contains("[\"mget\" :-2 [readonly fast] :1 :-1 :1")
    );
    assert!(
        client
            .ask("COMMAND DOCS get")
            .contains("Returns the value of a key.")
    );
    let info = client.ask("INFO");
    assert!(
        info.contains("redis_version:") && info.contains("cluster_enabled:0"),
        "{info}"
    );
    assert!(!client.ask("INFO server").contains("cluster_enabled"));
    client.expect(&[("SET key value", "OK")]);
    let memory = client.ask("INFO memory");
    let [used, dataset, overhead, dead, reserved, most] = [
        "used_memory",
        "used_memory_dataset",
        "used_memory_overhead",
        "farslot_dead_bytes",
        "farslot_reserved_bytes",
        "maxmemory",
    ]
    .map(|name| {
        let (_, line) = memory.split_once(&format!("{name}:")).unwrap();
        let end = line.find(|byte: char| !byte.is_ascii_digit()).unwrap();
        line[..end].parse::<u64>().unwrap()
    });
    assert!(
        dataset > 0 && dead == 0 && dataset + overhead == used,
        "{memory}"
    );
    // A database has set aside what it needs, and little more.
    assert!(used <= reserved && 16 * reserved < most, "{memory}");
    client.expect(&[("QUIT", "OK")]);
    assert!(client.reply().is_err());
}

#[test]
fn a_table_that_was_dropped_is_made_anew() {
    let (store, gateway) = gateway();
    let mut client = Client::of(&gateway);
    client.expect(&[("SET a 1", "OK"), ("GET a", "\"1\"")]);
    store.drop_table("redis-0").unwrap();
    client.expect(&[("GET a", "nil"), ("SET a 2", "OK"), ("GET a", "\"2\"")]);
    store.clear("redis-0").unwrap();
    client.expect(&[("INCR a", ":1"), ("DBSIZE", ":1")]);
}

#[test]
fn lines_that_a_person_types_are_commands() {
    let (_store, gateway) = gateway();
    let mut client = Client::of(&gateway);
    client.send(b"set a 1\r\n\r\nget a\nPING\r\n").unwrap();
    let replies: Vec<String> = (0..3).map(|_| client.reply().unwrap().shown()).collect();
    assert_eq!(replies, ["OK", "\"1\"", "PONG"]);
}

/// A command on one of a few keys.
fn commands() -> impl Strategy<Value = Vec<Vec<String>>> {
    let key = prop::sample::select(vec!["a", "b", "c"]);
    let command = prop::sample::select(vec![
        "GET k",
        "SET k 7",
        "SET k 8 NX",
        "SET k 9 XX GET",
        "DEL k",
        "INCR k",
        "DECRBY k 3",
        "APPEND k 1",
        "GETDEL k",
        "EXISTS k",
        "STRLEN k",
        "SETRANGE k 1 5",
        "GETRANGE k 0 1",
        "SETNX k 6",
        "EXPIRE k 1000",
        "TTL k",
        "PERSIST k",
        "SET k 5 EX 1000",
        "SET k 4 KEEPTTL",
        "EXPIRE k -1",
        "MSET k 2 a 3",
        "MGET k b",
    ]);
    let one = (key, command).prop_map(|(key, command)| {
        let words = command.split(' ');
        words
            .map(|word| if word == "k" { key } else { word }.to_string())
            .collect()
    });
    prop::collection::vec(one, 1..60)
}

/// The same for a time that is left, whether or not a second has passed.
fn steady(reply: Reply) -> String {
    match reply {
        Reply::Integer(900..=1_000) => ":1000".into(),
        reply => reply.shown(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Of one pipeline, which is a tick or a few, replies are those of the commands one by one.
    #[test]
    fn pipelines_answer_as_single_commands_do(commands in commands()) {
        let (_store, gateway) = gateway();
        let mut client = Client::of(&gateway);
        let alone: Vec<String> = commands.iter().map(|words| steady(client.run(words))).collect();
        let state = |client: &mut Client| (client.ask("MGET a b c"), steady(client.run(&["TTL", "a"])), steady(client.run(&["TTL", "b"])));
        let left = state(&mut client);
        client.expect(&[("FLUSHDB", "OK")]);
        let bytes: Vec<u8> = commands.iter().flat_map(|words| request(words)).collect();
        client.send(&bytes).unwrap();
        let together: Vec<String> = commands.iter().map(|_| steady(client.reply().unwrap())).collect();
        prop_assert_eq!(alone, together);
        prop_assert_eq!(left, state(&mut client));
    }

    #[test]
    fn keys_have_what_a_map_has(commands in commands()) {
        let (_store, gateway) = gateway();
        let mut client = Client::of(&gateway);
        let mut map: HashMap<String, String> = HashMap::new();
        for words in &commands {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let key = words.get(1).copied().unwrap_or_default().to_string();
            let there = map.get(&key).cloned();
            let quoted = |value: &Option<String>| value.as_ref().map_or("nil".into(), |value| format!("{value:?}"));
            let number = |value: &Option<String>| value.as_ref().map_or(Some(0), |value| value.parse::<i64>().ok().filter(|n| n.to_string() == *value));
            let expected = match words[..] {
                ["GET", _] => quoted(&there),
                ["GETDEL", _] => { map.remove(&key); quoted(&there) }
                ["DEL", _] => format!(":{}", u8::from(map.remove(&key).is_some())),
                ["EXISTS", _] => format!(":{}", u8::from(there.is_some())),
                ["STRLEN", _] => format!(":{}", there.map_or(0, |value| value.len())),
                ["SET", _, value, "NX"] => match there {
                    None => { map.insert(key, value.into()); "OK".into() }
                    Some(_) => "nil".into(),
                },
                ["SET", _, value, "XX", "GET"] => {
                    if there.is_some() { map.insert(key, value.into()); }
                    quoted(&there)
                }
                ["SET", _, value, ..] => { map.insert(key, value.into()); "OK".into() }
                ["APPEND", _, more] => {
                    let value = there.unwrap_or_default() + more;
                    let told = format!(":{}", value.len());
                    map.insert(key, value);
                    told
                }
                ["INCR", _] | ["DECRBY", _, _] => {
                    let by = if words[0] == "INCR" { 1 } else { -3 };
                    match number(&there) {
                        Some(number) => { map.insert(key, (number + by).to_string()); format!(":{}", number + by) }
                        None => "-ERR value is not an integer or out of range".into(),
                    }
                }
                ["MSET", _, one, other, second] => {
                    map.insert(key, one.into());
                    map.insert(other.into(), second.into());
                    "OK".into()
                }
                _ => {
                    // What these do is in the tables of literals: here only that they do not harm.
                    client.run(&words);
                    let value = client.ask(&format!("GET {key}"));
                    match value.as_str() {
                        "nil" => { map.remove(&key); }
                        value => { map.insert(key, value.trim_matches('"').replace("\\0", "\0")); }
                    }
                    continue;
                }
            };
            prop_assert_eq!(client.run(&words).shown(), expected, "{:?}", words);
        }
    }
}
