//! Transactions that change more at a node whose memory is kept than one turn of its owner may.

use farslot::fabric::Limits;
use farslot::{FieldSize, OpenOptions, Server, ServerOptions, Store, StoreError, TableOptions};
use std::ops::Range;

/// What a transaction has at another node than its home is applied, once it is decided, however
/// many words that takes.
#[test]
fn a_part_of_a_decided_transaction_may_be_larger_than_a_turn() {
    // Each put writes a slot with room for 16,000 bytes; a turn changes a million words at most.
    const KEYS: u32 = 600;
    let address = |name: &str| format!("shm://stores-turns-{name}-{}", std::process::id());
    let [home, other] = [address("home"), address("other")];
    let memory = Server::memory_to_keep(256 << 20).unwrap();
    let _servers = [
        Server::start(&home, 16 << 20).unwrap(),
        Server::start_on(&[&other], memory, &ServerOptions::default()).unwrap(),
    ];
    let both = format!("{home},{}", other.trim_start_matches("shm://"));
    let [at_home, at_other, store] = [&home, &other, &both].map(|at| Store::open(at).unwrap());
    let small = TableOptions::new(100).chained();
    at_home.create("small", &small).unwrap();
    let long = TableOptions::new(1_000).values(FieldSize::UpTo(16_000));
    at_other.create("large", &long.chained()).unwrap();
    store
        .transaction(|t| {
            t.put("small", b"a", b"1")?;
            (0..KEYS).try_for_each(|key| t.put("large", &key.to_le_bytes(), b"2"))
        })
        .unwrap();
    let [small, large] = ["small", "large"].map(|name| store.table(name).unwrap());
    assert_eq!(small.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    for key in 0..KEYS {
        let value = large.get(&key.to_le_bytes()).unwrap();
        assert_eq!(value.as_deref(), Some(&b"2"[..]), "{key}");
    }
}

/// Each removed value of 16,000 bytes has its words cleared in its leaf.
#[test]
fn a_transaction_that_is_larger_than_a_turn_is_told_of_the_limit() {
    const KEYS: u16 = 700;
    let address = format!("shm://stores-turns-large-{}", std::process::id());
    let memory = Server::memory_to_keep(768 << 20).unwrap();
    let _server = Server::start_on(&[&address], memory, &ServerOptions::default()).unwrap();
    // A machine may have other things to do besides.
    let patient = OpenOptions {
        limits: Limits {
            verb_timeout: 60_000_000_000,
            ..Limits::default()
        },
        ..OpenOptions::default()
    };
    let store = Store::open_with(&address, patient).unwrap();
    let long = TableOptions::new(8_000).values(FieldSize::UpTo(16_000));
    store.create("map", &long.ordered()).unwrap();
    let map = store.table("map").unwrap();
    let value = [b'x'; 16_000];
    for key in 0..KEYS {
        map.put(&key.to_be_bytes(), &value).unwrap();
    }
    let remove = |keys: Range<u16>| {
        store.transaction(|t| {
            let mut keys = keys.clone();
            keys.try_for_each(|key| t.remove("map", &key.to_be_bytes()).map(drop))
        })
    };
    let limit = 16 * 1_048_320;
    match remove(0..KEYS) {
        Err(StoreError::TransactionTooLarge { bytes, limit: told }) => {
            assert!(told == limit && bytes > limit, "{bytes} {told}");
        }
        other => panic!("{other:?}"),
    }
    for key in [0, KEYS - 1] {
        let found = map.get(&key.to_be_bytes()).unwrap();
        assert_eq!(found.as_deref(), Some(&value[..]));
    }
    for first in (0..KEYS).step_by(100) {
        remove(first..first + 100).unwrap();
    }
    assert_eq!(map.get(&[0, 0]).unwrap(), None);
}
