//! SCAN returns about as many keys as it is asked for, and misses none that stays.

use crate::client::{Client, Reply, gateway_with, request};
use farslot::{OpenOptions, Server, Store};
use farslot_gateway::{Gateway, GatewayOptions};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Keys that stay.
const STAY: usize = 20_000;
/// Keys that are put and removed meanwhile.
const COME: usize = 5_000;
/// Of a pipeline.
const AT_ONCE: usize = 500;

/// Runs these requests, some at a time.
fn pipeline(client: &mut Client, requests: impl IntoIterator<Item = Vec<u8>>) {
    let requests: Vec<_> = requests.into_iter().collect();
    for some in requests.chunks(AT_ONCE) {
        client.send(&some.concat()).unwrap();
        for _ in some {
            let reply = client.reply().unwrap();
            assert!(!matches!(reply, Reply::Error(_)), "{reply:?}");
        }
    }
}

fn fill(client: &mut Client, name: &str, keys: usize) {
    let set = |number| request(&["SET", &format!("{name}-{number}"), "1"]);
    pipeline(client, (0..keys).map(set));
}

fn clear(client: &mut Client, name: &str, keys: usize) {
    let remove = |number| request(&["DEL", &format!("{name}-{number}")]);
    pipeline(client, (0..keys).map(remove));
}

/// What a call of SCAN returns: the next cursor, and keys.
fn scan(client: &mut Client, cursor: &str, count: usize) -> (String, Vec<String>) {
    let Reply::Array(parts) = client.run(&["SCAN", cursor, "COUNT", &count.to_string()]) else {
        panic!("no array");
    };
    let text = |reply: &Reply| match reply {
        Reply::Bulk(bytes) => String::from_utf8(bytes.clone()).unwrap(),
        other => panic!("{other:?}"),
    };
    let [cursor, Reply::Array(keys)] = &parts[..] else {
        panic!("{parts:?}");
    };
    (text(cursor), keys.iter().map(text).collect())
}

/// Scans the whole database, with these counts by turns; returns the calls, and how often each key
/// was met.
fn scan_all(client: &mut Client, counts: &[usize]) -> (usize, BTreeMap<String, usize>) {
    let (mut cursor, mut calls, mut met) = ("0".to_string(), 0, BTreeMap::new());
    loop {
        let count = counts[calls % counts.len()];
        let (next, keys) = scan(client, &cursor, count);
        let is_last = next == "0";
        assert!(is_last || keys.len() >= count, "{} of {count}", keys.len());
        for key in keys {
            *met.entry(key).or_default() += 1;
        }
        (cursor, calls) = (next, calls + 1);
        if is_last {
            return (calls, met);
        }
    }
}

fn misses_none_that_stays(met: &BTreeMap<String, usize>) {
    for number in 0..STAY {
        let key = format!("stay-{number}");
        assert_eq!(met.get(&key), Some(&1), "{key} was there all along");
    }
}

/// Scans beside a client of the same gateway, which puts and removes other keys.
fn scans_beside_a_writer(gateway: &Gateway) {
    let mut client = Client::of(gateway);
    fill(&mut client, "stay", STAY);
    let scanned = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = Client::of(gateway);
            while !scanned.load(Relaxed) {
                fill(&mut writer, "come", COME);
                clear(&mut writer, "come", COME);
            }
        });
        // The writer ends also where a check fails.
        let _ended = AtEnd(|| scanned.store(true, Relaxed));
        for counts in [&[10][..], &[100], &[1_000], &[10, 1_000, 1]] {
            let (calls, met) = scan_all(&mut client, counts);
            misses_none_that_stays(&met);
            let keys: usize = met.values().sum();
            let asked = counts.iter().sum::<usize>() / counts.len();
            println!("COUNT {counts:?}: {calls} calls, {keys} keys");
            assert!(keys <= 10 * asked * calls, "{keys} in {calls} calls");
        }
        // All at once, and more than there are.
        let (calls, met) = scan_all(&mut client, &[1_000_000]);
        misses_none_that_stays(&met);
        assert_eq!(calls, 1);
    });
}

/// Does something when it goes out of scope.
struct AtEnd<F: Fn()>(F);

impl<F: Fn()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn scans_return_about_as_many_keys_as_they_are_asked_for() {
    let (_store, gateway) = gateway_with(|_| {});
    scans_beside_a_writer(&gateway);
}

#[test]
fn scans_over_three_nodes_do_likewise() {
    let servers = [(); 3].map(|()| Server::start("tcp://127.0.0.1:0", 64 << 20).unwrap());
    let ports = servers.each_ref().map(|server| {
        let address = server.addresses()[0].to_string();
        address["tcp://".len()..].to_owned()
    });
    let address = format!("tcp://{}", ports.join(","));
    let store = Store::open_with(&address, OpenOptions::default()).unwrap();
    let gateway = Gateway::start(&store, &GatewayOptions::at("127.0.0.1:0")).unwrap();
    scans_beside_a_writer(&gateway);
}

/// A database that many keys have left is scanned whole for the few that are there.
#[test]
fn a_call_finds_the_keys_of_a_sparse_database() {
    let (_store, gateway) = gateway_with(|_| {});
    let mut client = Client::of(&gateway);
    fill(&mut client, "come", STAY);
    fill(&mut client, "stay", 5);
    clear(&mut client, "come", STAY);
    let (next, mut keys) = scan(&mut client, "0", 10);
    keys.sort();
    assert_eq!(next, "0");
    assert_eq!(keys, [0, 1, 2, 3, 4].map(|number| format!("stay-{number}")));
}
