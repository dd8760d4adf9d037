//! The same commands to the gateway and to Redis, whose replies must be the same: what the literals
//! of the other tests say, said by somebody else. Needs `redis-server` (`scripts/peers install`).

use crate::client::{Client, Reply, gateway};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A Redis, killed at the end of the test.
struct Redis {
    process: Child,
    address: SocketAddr,
}

impl Redis {
    fn start() -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let port = address.port().to_string();
        let process = Command::new("redis-server")
            .args(["--port", &port, "--bind", "127.0.0.1", "--save", ""])
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server: scripts/peers install");
        let since = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(
                since.elapsed() < Duration::from_secs(30),
                "it does not listen"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { process, address }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const VALUES: [&str; 16] = [
    "1",
    "10",
    "-5",
    "01",
    "abc",
    "",
    "9223372036854775807",
    "-9223372036854775808",
    "3.5",
    "1e3",
    " 1",
    "hello world",
    "-0",
    "+1",
    "inf",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
];
const INTEGERS: [&str; 12] = [
    "0",
    "1",
    "-1",
    "5",
    "-3",
    "100",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "abc",
    "1.5",
    "01",
];
/// None after the last moment that a table has.
const TIMES: [&str; 8] = [
    "1000",
    "2000",
    "100000",
    "0",
    "-1",
    "9223372036854775807",
    "31536000000",
    "abc",
];
const MOMENTS: [&str; 7] = [
    "99999999999",
    "1",
    "0",
    "-5",
    "abc",
    "281474976710",
    "4102444800",
];

/// What may stand in a command: K a key, V a value, I a number, T a time, M a moment, O an option
/// of SET, C a condition of EXPIRE, F a number with a fraction. All others are words.
const COMMANDS: [&str; 60] = [
    "SET K V",
    "SET K V O",
    "SET K V GET O",
    "SET K V NX GET O",
    "SET K V EX T",
    "SET K V PX 100000 O",
    "SET K V EXAT M",
    "SET K V PXAT 4102444800000 O",
    "SET K V EX",
    "GET K",
    "SETNX K V",
    "SETEX K T V",
    "PSETEX K T V",
    "GETSET K V",
    "GETDEL K",
    "GETEX K",
    "GETEX K PERSIST",
    "GETEX K EX 100",
    "GETEX K PXAT 1",
    "GETEX K EX 5 PERSIST",
    "GETEX K what",
    "MGET K K K",
    "MGET",
    "MSET K V K V",
    "MSET K V K",
    "MSETNX K V K V",
    "MSETNX K V K",
    "DEL K",
    "DEL K f",
    "UNLINK K",
    "EXISTS K K",
    "TOUCH K K",
    "TYPE K",
    "STRLEN K",
    "APPEND K V",
    "GETRANGE K I I",
    "SUBSTR K I I",
    "SETRANGE K I V",
    "INCR K",
    "DECR K",
    "INCRBY K I",
    "DECRBY K I",
    "INCRBYFLOAT K abc",
    "INCRBYFLOAT f F",
    "EXPIRE K T",
    "EXPIRE K T C",
    "EXPIRE K T C C",
    "PEXPIRE K T C",
    "EXPIREAT K M C",
    "PEXPIREAT K M",
    "TTL K",
    "PERSIST K",
    "KEYS b",
    "KEYS a*",
    "KEYS [ab]",
    "SELECT 16",
    "PING V",
    "ECHO V",
    "FOO K V",
    "SCAN 0 what",
];
/// What begins and ends transactions, and what clients may do before and in them: nothing whose
/// reply depends on the order of keys or on the time.
const TRANSACTIONS: [&str; 10] = [
    "MULTI",
    "MULTI",
    "EXEC",
    "EXEC",
    "WATCH K",
    "WATCH K K",
    "UNWATCH",
    "DISCARD",
    "RESET",
    "SELECT 1",
];
const IN_TRANSACTIONS: [&str; 28] = [
    "SET K V",
    "SET K V O",
    "SET K V GET O",
    "SETNX K V",
    "GET K",
    "GETSET K V",
    "GETDEL K",
    "GETEX K EX 1000",
    "GETEX K PERSIST",
    "MGET K K K",
    "MSET K V K V",
    "MSET K V K",
    "MSETNX K V K V",
    "DEL K",
    "EXISTS K K",
    "APPEND K V",
    "INCR K",
    "INCRBY K I",
    "EXPIREAT K 4102444800 C",
    "EXPIRE K 0",
    "PERSIST K",
    "PING",
    "ECHO V",
    "SELECT 0",
    "GET",
    "FOO K V",
    "EXEC now",
    "FLUSHDB",
];
/// Whose sums are short enough: of others Redis tells binary digits.
const FLOATS: [&str; 12] = [
    "0.1", "-0.3", "+1", "1e0", ".5", "5.", "-0", "2.25", "abc", "inf", "", " 1",
];
const SET_OPTIONS: [&str; 5] = ["NX", "XX", "GET", "KEEPTTL", "what"];
const CONDITIONS: [&str; 5] = ["NX", "XX", "GT", "LT", "what"];

fn command(random: &mut ChaCha8Rng, of: &'static [&'static str]) -> Vec<&'static str> {
    fn one(random: &mut impl Rng, of: &'static [&'static str]) -> &'static str {
        of[random.random_range(0..of.len())]
    }
    let words = one(random, of).split(' ');
    let words = words.map(|word| match word {
        "K" => one(random, &["a", "b", "c", "d"]),
        "V" => one(random, &VALUES),
        "I" => one(random, &INTEGERS),
        "T" => one(random, &TIMES),
        "M" => one(random, &MOMENTS),
        "O" => one(random, &SET_OPTIONS),
        "C" => one(random, &CONDITIONS),
        "F" => one(random, &FLOATS),
        word => word,
    });
    words.collect()
}

/// What must be the same: not the order of keys, nor a second that has passed.
fn comparable(words: &[&str], reply: Reply) -> String {
    match reply {
        Reply::Array(mut keys) if words[0] == "KEYS" => {
            keys.sort_by_key(Reply::shown);
            Reply::Array(keys).shown()
        }
        Reply::Integer(left) if words[0] == "TTL" && left > 0 => "left".into(),
        reply => reply.shown(),
    }
}

#[test]
#[ignore = "needs redis-server: scripts/test --all"]
fn replies_are_those_of_redis() {
    let redis = Redis::start();
    for seed in 0..20 {
        let (_store, gateway) = gateway();
        let (mut ours, mut theirs) = (Client::of(&gateway), Client::at(redis.address));
        theirs.expect(&[("FLUSHALL", "OK")]);
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        for number in 0..2_000 {
            let words = command(&mut random, &COMMANDS);
            if words.iter().any(|word| matches!(*word, "GT" | "LT")) {
                // The same span ends later than one that was given in an earlier millisecond.
                std::thread::sleep(Duration::from_millis(3));
            }
            let mut reply = comparable(&words, ours.run(&words));
            // Redis does not say how long it is, nor what the limit is.
            if let Some(end) = reply.find("(proto-max-bulk-len): ") {
                reply.truncate(end + "(proto-max-bulk-len)".len());
            }
            let expected = comparable(&words, theirs.run(&words));
            assert_eq!(reply, expected, "seed {seed}, command {number}: {words:?}");
        }
    }
}

/// One client begins transactions, watches and ends them, and another one changes keys meanwhile.
#[test]
#[ignore = "needs redis-server: scripts/test --all"]
fn transactions_are_those_of_redis() {
    let redis = Redis::start();
    // How often EXEC did what was queued, and how often it answered nil.
    let mut executed = [0; 2];
    for seed in 0..20 {
        let (_store, gateway) = gateway();
        let both = || [Client::of(&gateway), Client::at(redis.address)];
        let mut clients = [both(), both()];
        clients[0][1].expect(&[("FLUSHALL", "OK")]);
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        for number in 0..2_000 {
            let client = usize::from(random.random_range(0..5) == 0);
            let controls = client == 0 && random.random_range(0..3) == 0;
            let of: &[&str] = if controls {
                &TRANSACTIONS
            } else {
                &IN_TRANSACTIONS
            };
            let words = command(&mut random, of);
            let [ours, theirs] = &mut clients[client];
            let (reply, expected) = (ours.run(&words), theirs.run(&words));
            let at = format!("seed {seed}, command {number} of client {client}: {words:?}");
            assert_eq!(reply.shown(), expected.shown(), "{at}");
            if words == ["EXEC"] {
                executed[0] += u32::from(matches!(reply, Reply::Array(_)));
                executed[1] += u32::from(reply == Reply::Null);
            }
        }
    }
    assert!(executed.iter().all(|count| *count > 50), "{executed:?}");
}
