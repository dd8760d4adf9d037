//! Secrets, and what clients may not do.

use crate::client::{Client, Reply, gateway, gateway_with, request};
use farslot::admission::Secret;
use farslot::{Evicting, Store};
use farslot_gateway::{Gateway, GatewayError, GatewayOptions};

#[test]
fn unauthenticated_clients_are_refused() {
    let secret = Secret::new("sixteen bytes at least").unwrap();
    let (_store, gateway) = gateway_with(|options| options.secrets = vec![secret]);
    let mut client = Client::of(&gateway);
    client.expect(&[
        ("GET a", "-NOAUTH Authentication required."),
        ("PING", "-NOAUTH Authentication required."),
        (
            "HELLO 3",
            "-NOAUTH HELLO must be called with the client already authenticated, otherwise \
          the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
          select the RESP protocol version at the same time",
        ),
        (
            "AUTH wrong",
            "-WRONGPASS invalid username-password pair or user is disabled.",
        ),
        (
            "AUTH default wrong",
            "-WRONGPASS invalid username-password pair or user is disabled.",
        ),
    ]);
    let right = "sixteen bytes at least";
    assert!(
        client
            .run(&["AUTH", "somebody", right])
            .shown()
            .starts_with("-WRONGPASS")
    );
    assert_eq!(client.run(&["AUTH", right]).shown(), "OK");
    client.expect(&[
        ("SET a 1", "OK"),
        (
            "AUTH wrong",
            "-WRONGPASS invalid username-password pair or user is disabled.",
        ),
        ("GET a", "\"1\""),
    ]);
    let mut client = Client::of(&gateway);
    let hello = client
        .run(&["HELLO", "3", "AUTH", "default", right])
        .shown();
    assert!(hello.contains("\"proto\" :3"), "{hello}");
    assert_eq!(client.ask("GET a"), "\"1\"");
    // Unauthenticated clients may not send what is long.
    for bytes in [&b"*11\r\n"[..], b"*1\r\n$2000\r\n"] {
        let mut client = Client::of(&gateway);
        client.send(bytes).unwrap();
        let told = client.reply().unwrap().shown();
        assert!(
            told.starts_with("-ERR Protocol error: unauthenticated"),
            "{told}"
        );
        assert!(client.reply().is_err());
    }
}

#[test]
fn an_open_address_needs_a_secret() {
    let store = Store::embedded_with(64 << 20, Default::default()).unwrap();
    let mut options = GatewayOptions::at("0.0.0.0:0");
    let refused = Gateway::start(&store, &options).unwrap_err();
    assert!(
        matches!(refused, GatewayError::Insecure { .. }),
        "{refused}"
    );
    options.insecure = true;
    Gateway::start(&store, &options).unwrap();
    options.threads = 0;
    let refused = Gateway::start(&store, &options).unwrap_err();
    assert!(matches!(
        refused,
        GatewayError::BadOption {
            option: "threads",
            value: 0
        }
    ));
    let taken = Gateway::start(&store, &GatewayOptions::at("127.0.0.1:0")).unwrap();
    let again = GatewayOptions::at(&taken.address().to_string());
    let refused = Gateway::start(&store, &again).unwrap_err();
    assert!(matches!(refused, GatewayError::Listen { .. }), "{refused}");
}

#[test]
fn what_is_no_request_ends_its_connection_alone() {
    let (_store, gateway) = gateway();
    let mut other = Client::of(&gateway);
    for (bytes, told) in [
        (
            &b"*1\r\n:1\r\n"[..],
            "-ERR Protocol error: expected '$', got ':'",
        ),
        (b"*x\r\n", "-ERR Protocol error: invalid multibulk length"),
        (
            b"*1\r\n$536870913\r\n",
            "-ERR Protocol error: invalid bulk length",
        ),
        (
            b"*1048577\r\n",
            "-ERR Protocol error: invalid multibulk length",
        ),
    ] {
        let mut client = Client::of(&gateway);
        client.send(b"PING\r\n").unwrap();
        client.send(bytes).unwrap();
        assert_eq!(client.reply().unwrap().shown(), "PONG");
        assert_eq!(client.reply().unwrap().shown(), told);
        assert!(client.reply().is_err());
        other.expect(&[("PING", "PONG")]);
    }
    // A browser that a page makes send one.
    let mut client = Client::of(&gateway);
    client
        .send(b"POST / HTTP/1.1\r\nHost: a\r\n\r\nSET a 1\r\n")
        .unwrap();
    assert!(client.reply().is_err());
    other.expect(&[("GET a", "nil")]);
}

/// Bytes of the longest value: what the largest record of a heap, of 2,621,440 bytes, has room for
/// beside its head of 16 bytes, a key of 64 KiB and the 8 bytes of an expiry.
const LONGEST_VALUE: usize = 2_621_440 - 16 - (64 << 10) - 8;

#[test]
fn keys_and_values_have_limits() {
    let (_store, gateway) = gateway();
    let mut client = Client::of(&gateway);
    let value = vec![b'v'; LONGEST_VALUE];
    assert_eq!(client.run(&[b"SET", &b"k"[..], &value]).shown(), "OK");
    assert_eq!(client.run(&["GET", "k"]), Reply::Bulk(value.clone()));
    let told = "-ERR string exceeds maximum allowed size (proto-max-bulk-len): \
                2555881 bytes, and the limit is 2555880";
    let end = LONGEST_VALUE.to_string();
    assert_eq!(client.run(&["SETRANGE", "k", &end, "v"]).shown(), told);
    assert_eq!(client.run(&["APPEND", "k", "v"]).shown(), told);
    assert!(client.run(&["GET", ""]).shown().starts_with("-ERR"));
    let long_key = "k".repeat(70_000);
    assert!(
        client
            .run(&["SET", &long_key, "v"])
            .shown()
            .starts_with("-ERR")
    );
    // Others of the same pipeline are not concerned.
    let bytes = [
        request(&["SET", &long_key, "v"]),
        request(&["SET", "a", "v"]),
    ]
    .concat();
    client.send(&bytes).unwrap();
    assert!(client.reply().unwrap().shown().starts_with("-ERR"));
    assert_eq!(client.reply().unwrap().shown(), "OK");
}

/// A reply that is longer than there is room for is an error, and the connection goes on.
#[test]
fn buffers_are_bounded() {
    let (_store, gateway) = gateway_with(|options| options.buffers = 16 << 20);
    let mut client = Client::of(&gateway);
    let value = vec![b'v'; 1 << 19];
    assert_eq!(client.run(&[b"SET", &b"k"[..], &value]).shown(), "OK");
    let keys = ["k"; 1_000];
    let told = client.run(&[&["MGET"], &keys[..]].concat()).shown();
    assert!(told.starts_with("-ERR the reply would be longer"), "{told}");
    let told = client.run(&["MGET", "k", "k", "none"]);
    assert_eq!(
        told,
        Reply::Array(vec![
            Reply::Bulk(value.clone()),
            Reply::Bulk(value.clone()),
            Reply::Null
        ])
    );
    // Requests that never end take no more than the limit; others are served meanwhile.
    let mut greedy: Vec<Client> = (0..20).map(|_| Client::of(&gateway)).collect();
    for client in &mut greedy {
        let _ = client.send(b"*60000\r\n");
        for _ in 0..8 {
            let _ = client.send(&request(&[&value])[4..]);
        }
    }
    client.expect(&[("SET a 1", "OK"), ("GET a", "\"1\"")]);
    // Clients that take no replies are not read any more.
    let mut deaf: Vec<Client> = (0..10).map(|_| Client::of(&gateway)).collect();
    for client in &mut deaf {
        client.send(&request(&["GET", "k"]).repeat(100)).unwrap();
    }
    client.expect(&[("SET a 2", "OK"), ("GET a", "\"2\"")]);
    drop(greedy);
    // They get all of them when they do.
    for client in &mut deaf[..2] {
        for _ in 0..100 {
            let reply = client.reply().unwrap();
            assert!(matches!(reply, Reply::Bulk(_) | Reply::Error(_)));
        }
    }
}

/// Whoever has not given the secret makes room for others who come, however many these are.
#[test]
fn unauthenticated_clients_keep_nobody_out() {
    let secret = "sixteen bytes at least";
    let (_store, gateway) = gateway_with(|options| {
        options.secrets = vec![Secret::new(secret).unwrap()];
        options.connections = 8;
    });
    let mut admitted = Vec::new();
    for number in 0..7 {
        // Two of one address may stay; the others are closed for those behind them.
        let unauthenticated: Vec<Client> = (0..20).map(|_| Client::of(&gateway)).collect();
        let mut client = Client::of(&gateway);
        assert_eq!(client.run(&["AUTH", secret]).shown(), "OK", "{number}");
        admitted.push(client);
        drop(unauthenticated);
    }
    // None of those who have given it is closed for them.
    let _unauthenticated: Vec<Client> = (0..20).map(|_| Client::of(&gateway)).collect();
    for client in &mut admitted {
        client.expect(&[("PING", "PONG")]);
    }
}

#[test]
fn connections_are_limited() {
    let (_store, gateway) = gateway_with(|options| options.connections = 3);
    let mut clients: Vec<Client> = (0..3).map(|_| Client::of(&gateway)).collect();
    clients
        .iter_mut()
        .for_each(|client| client.expect(&[("PING", "PONG")]));
    let told = Client::of(&gateway).reply().unwrap().shown();
    assert_eq!(told, "-ERR max number of clients reached");
    clients.pop();
    // The gateway learns of it in its own time.
    let since = std::time::Instant::now();
    loop {
        let mut client = Client::of(&gateway);
        let _ = client.send(b"PING\r\n");
        if client.reply().is_ok_and(|reply| reply.shown() == "PONG") {
            break;
        }
        assert!(since.elapsed().as_secs() < 30);
    }
}

/// Those who ask for much and take nothing keep nobody out, however many connections they have.
#[test]
fn connections_that_do_not_go_on_make_room_for_others() {
    let (_store, gateway) = gateway_with(|options| options.connections = 4);
    let mut deaf: Vec<Client> = (0..4).map(|_| Client::of(&gateway)).collect();
    let value = vec![b'v'; 1 << 20];
    assert_eq!(deaf[0].run(&[b"SET", &b"k"[..], &value]).shown(), "OK");
    for client in &mut deaf {
        client.send(&request(&["GET", "k"]).repeat(32)).unwrap();
    }
    // Once they have not gone on for a second, and long before they are closed for that alone.
    let since = std::time::Instant::now();
    loop {
        let mut client = Client::of(&gateway);
        let _ = client.send(b"PING\r\n");
        if client.reply().is_ok_and(|reply| reply.shown() == "PONG") {
            break;
        }
        assert!(since.elapsed().as_secs() < 50);
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// A database that refuses says which table has no room, and what it and the store have.
#[test]
fn a_full_database_says_what_there_is_of_memory() {
    let (store, gateway) = gateway();
    let mut client = Client::of(&gateway);
    let value = "v".repeat(60_000);
    let refused = (0..20_000).find_map(|number| {
        let reply = client
            .run(&["SET", &format!("key-{number}"), &value])
            .shown();
        (reply != "OK").then_some(reply)
    });
    let refused = refused.expect("the memory is full some time");
    let table = store.tables().unwrap().remove(0).name;
    let total = store.memory().unwrap().total;
    for part in [
        "-OOM command not allowed when used memory > 'maxmemory': ".into(),
        format!("table {table:?} has no room: "),
        format!("of its node's {total}, "),
        "INFO memory says what has it".into(),
    ] {
        assert!(refused.contains(&part), "{refused}");
    }
    assert_eq!(client.ask("STRLEN key-0"), ":60000");
}

/// A database that evicts takes keys without end, and keeps those that are read.
#[test]
fn a_full_database_forgets_keys_if_it_is_to() {
    let (_store, gateway) = gateway_with(|options| options.evicting = Some(Evicting::All));
    let mut client = Client::of(&gateway);
    let value = "v".repeat(20_000);
    client.expect(&[("SET hot 1", "OK")]);
    for number in 0..20_000 {
        let reply = client.run(&["SET", &format!("key-{number}"), &value]);
        assert_eq!(reply.shown(), "OK", "{number}");
        if number % 100 == 0 {
            assert_eq!(client.ask("GET hot"), "\"1\"", "{number}");
        }
    }
    let info = client.ask("INFO");
    assert!(info.contains("maxmemory_policy:allkeys-lru"), "{info}");
    let evicted = info.split("evicted_keys:").nth(1).unwrap();
    let evicted: u64 = evicted.split("\\r").next().unwrap().trim().parse().unwrap();
    assert!(evicted > 5_000, "{evicted}");
    // What a thread has counted it reports soon.
    let since = std::time::Instant::now();
    while client.ask("DBSIZE") != format!(":{}", 20_001 - evicted) {
        assert!(since.elapsed().as_secs() < 60, "{}", client.ask("DBSIZE"));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn a_pattern_that_is_too_long_is_refused_with_its_limit() {
    let (_store, gateway) = gateway();
    let mut client = Client::of(&gateway);
    client.ask("SET key 1");
    let mut ask = |arguments: &[&str]| {
        client.send(&request(arguments)).unwrap();
        client.reply().unwrap().shown()
    };
    let [most, more] = [1_024, 1_025].map(|bytes| "*".repeat(bytes));
    assert_eq!(ask(&["KEYS", &most]), "[\"key\"]");
    let refused = "-ERR a pattern of 1025 bytes is longer than the limit of 1024 bytes";
    assert_eq!(ask(&["KEYS", &more]), refused);
    assert_eq!(ask(&["SCAN", "0", "MATCH", &more]), refused);
}
