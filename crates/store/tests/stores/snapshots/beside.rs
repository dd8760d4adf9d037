//! Snapshots beside writers, checked against what these have done.

use super::{field, go_on, kinds};
use farslot::layout::Scheme;
use farslot::{FieldSize, Server, Store};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// Keys that writers change all the time, and as many that nobody does.
const KEYS: u64 = 300;
const WRITERS: u64 = 2;
/// Keys that each of them adds.
const NEW_KEYS: u64 = 500;

/// What is known of a key: the versions that were begun and acknowledged last.
#[derive(Default)]
struct Versions {
    begun: AtomicU64,
    acknowledged: AtomicU64,
}

/// A value that has a version in its first 3 bytes.
fn value(size: FieldSize, version: u64) -> Vec<u8> {
    let mut value = field(size, version);
    value[..3].copy_from_slice(&version.to_le_bytes()[..3]);
    value
}

fn version(value: &[u8]) -> u64 {
    u64::from(value[0]) | u64::from(value[1]) << 8 | u64::from(value[2]) << 16
}

#[test]
fn a_snapshot_beside_writers_has_every_key_as_it_was_at_some_moment() {
    for (number, options) in kinds().iter().enumerate() {
        let scheme = options.scheme().unwrap();
        let several = matches!(scheme.keys(), farslot::layout::KeyRule::Multi);
        if scheme.one_writer() || several {
            continue;
        }
        let address = format!("shm://snapshots-{}-{number}", std::process::id());
        let _node = Server::start(&address, 256 << 20).unwrap();
        let store = Store::open(&address).unwrap();
        store.create("t", options).unwrap();
        beside_writers(&store, &scheme);
    }
}

/// Ends the writers also where the check of a snapshot fails.
struct WritersEnd<'d>(&'d AtomicBool);

impl Drop for WritersEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn beside_writers(store: &Store, scheme: &Scheme) {
    let directory = TempDir::new().unwrap();
    let (key_size, value_size) = scheme.record_sizes();
    let key = |number| field(key_size, number);
    let table = store.table("t").unwrap();
    for number in 0..2 * KEYS {
        table.put(&key(number), &value(value_size, 1)).unwrap();
    }
    let known: Vec<Versions> = (0..KEYS).map(|_| Versions::default()).collect();
    for versions in &known {
        versions.begun.store(1, Ordering::SeqCst);
        versions.acknowledged.store(1, Ordering::SeqCst);
    }
    let (done, writing) = (AtomicBool::new(false), AtomicBool::new(true));
    let (known, done, writing, key) = (&known, &done, &writing, &key);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || {
                let table = store.table("t").unwrap();
                for version in 2.. {
                    // Some tables grow meanwhile.
                    if version < NEW_KEYS {
                        let new = 2 * KEYS + version * WRITERS + writer;
                        table.put(&key(new), &value(value_size, version)).unwrap();
                    }
                    for number in (writer..KEYS).step_by(WRITERS as usize) {
                        // Not while what was written is compared: that takes longer.
                        while !writing.load(Ordering::SeqCst) && !done.load(Ordering::SeqCst) {
                            std::thread::sleep(Duration::from_millis(1));
                        }
                        if done.load(Ordering::SeqCst) {
                            return;
                        }
                        let versions = &known[number as usize];
                        versions.begun.store(version, Ordering::SeqCst);
                        table
                            .put(&key(number), &value(value_size, version))
                            .unwrap();
                        versions.acknowledged.store(version, Ordering::SeqCst);
                    }
                    // 3 bytes of a word have fewer than 2^23 versions.
                    assert!(version < 1 << 22);
                }
            });
        }
        let _end = WritersEnd(done);
        for _ in 0..3 {
            let load = |of: fn(&Versions) -> &AtomicU64| -> Vec<u64> {
                known
                    .iter()
                    .map(|versions| of(versions).load(Ordering::SeqCst))
                    .collect()
            };
            writing.store(true, Ordering::SeqCst);
            let before = load(|versions| &versions.acknowledged);
            store.snapshot("t", directory.path(), &go_on).unwrap();
            let after = load(|versions| &versions.begun);
            writing.store(false, Ordering::SeqCst);
            check(&directory, scheme, &before, &after, key);
        }
    });
}

fn check(
    directory: &TempDir,
    scheme: &Scheme,
    before: &[u64],
    after: &[u64],
    key: &dyn Fn(u64) -> Vec<u8>,
) {
    let (_, value_size) = scheme.record_sizes();
    let other = super::store();
    other.restore("t", directory.path(), &go_on).unwrap();
    let mut found = HashMap::new();
    let table = other.table("t").unwrap();
    table
        .for_each(|key, value| {
            assert_eq!(found.insert(key.to_vec(), value.to_vec()), None);
        })
        .unwrap();
    assert!(found.len() as u64 >= 2 * KEYS, "{scheme:?}");
    for number in 0..2 * KEYS {
        let there = &found[&key(number)];
        let version = version(there);
        let range = match before.get(number as usize) {
            Some(before) => *before..=after[number as usize],
            None => 1..=1,
        };
        assert!(
            range.contains(&version),
            "key {number}: {version} of {range:?}"
        );
        assert_eq!(*there, value(value_size, version), "torn");
    }
}
