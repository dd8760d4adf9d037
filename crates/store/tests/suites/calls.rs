//! Lookups by calls of the owner, beside clients that write by verbs: on fabrics where the owner's
//! atomics are the clients', and where they are a NIC's.

use crate::common::{Served, patient};
use farslot::fabric::VerbKind;
use farslot::index::{GET, IndexError};
use farslot::layout::{CuckooShape, RaceShape};
use farslot::{Access, FieldSize, OpenOptions, SlotKind, Store, StoreError, TableOptions};
use std::sync::atomic::{AtomicBool, Ordering};

const KEYS: u64 = 60;

fn tables() -> [(&'static str, TableOptions); 6] {
    let small = TableOptions::new(200)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(32));
    let any = TableOptions::new(200)
        .keys(FieldSize::UpTo(24))
        .values(FieldSize::UpTo(700));
    let race = any.clone().race(RaceShape::default());
    [
        ("inline", small.slots(SlotKind::Inline)),
        ("heap", any.clone().slots(SlotKind::Heap)),
        ("hybrid", any.clone().slots(SlotKind::Hybrid)),
        ("race", race.clone()),
        ("race that grows", race.capacity(10).grow_to(400)),
        ("cuckoo", any.cuckoo(CuckooShape::default())),
    ]
}

/// The value of a key in a turn; what is seen of it may tear.
fn value(name: &str, key: u64, turn: u64) -> Vec<u8> {
    let words = match name {
        "inline" => 4,
        _ => 2 + key as usize % 80,
    };
    (key << 32 | turn).to_le_bytes().repeat(words)
}

/// The turn of a value, which was one turn's as a whole.
fn turn_of(name: &str, key: u64, found: &[u8]) -> u64 {
    let turn = u64::from_le_bytes(found[..8].try_into().unwrap()) & 0xffff_ffff;
    assert_eq!(found, value(name, key, turn), "{name}, key {key}");
    turn
}

fn open<S: Served>(store: &S, access: Access) -> Store {
    let options = OpenOptions {
        access,
        ..patient()
    };
    Store::open_with(&store.address(), options).unwrap()
}

pub fn whole_and_newest_records_are_found_while_others_write<S: Served>() {
    let server = S::start(32 << 20);
    let (calls, verbs) = (open(&server, Access::Calls), open(&server, Access::Reads));
    let turns = u64::from(S::repeat(100)).max(3);
    for (name, options) in tables() {
        verbs.create(name, &options).unwrap();
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let table = verbs.table(name).unwrap();
                for turn in 1..=turns {
                    for key in 0..KEYS {
                        table
                            .put(&key.to_le_bytes(), &value(name, key, turn))
                            .unwrap();
                        if (key + turn) % 9 == 0 {
                            assert_eq!(table.remove(&key.to_le_bytes()), Ok(true));
                        }
                    }
                }
                table.close().unwrap();
                is_done.store(true, Ordering::Release);
            });
            let table = calls.table(name).unwrap();
            let before = table.counters();
            let keys: Vec<_> = (0..KEYS).map(u64::to_le_bytes).collect();
            let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
            let mut newest = vec![0; KEYS as usize];
            let mut look = || {
                let mut found = 0;
                table
                    .get_many(&keys, |key, got| {
                        if let Some(got) = got {
                            let turn = turn_of(name, key as u64, got);
                            assert!(turn >= newest[key], "{name}, key {key}");
                            newest[key] = turn;
                            found += 1;
                        }
                    })
                    .unwrap();
                found
            };
            while !is_done.load(Ordering::Acquire) {
                look();
            }
            let last = (0..KEYS).filter(|key| (key + turns) % 9 > 0).count();
            assert_eq!(look(), last, "{name}");
            let gone = (0..KEYS).find(|key| (key + turns) % 9 == 0).unwrap();
            assert_eq!(table.get(&gone.to_le_bytes()), Ok(None));
            let counted = table.counters().since(&before);
            let gets = counted.operation(GET).count;
            let reads = counted.verbs_of(VerbKind::Read) + counted.verbs_of(VerbKind::ReadMany);
            assert!(counted.verbs_of(VerbKind::Call) > 0, "{name}: {counted:?}");
            // What the owner gave up, met in the middle of a write, is read.
            assert!(reads * 4 < gets, "{name}: {counted:?}");
            // This client writes, too: by calls or by verbs.
            let new = value(name, 1, turns + 1);
            table.put(&1_u64.to_le_bytes(), &new).unwrap();
            assert_eq!(table.get(&1_u64.to_le_bytes()), Ok(Some(new)));
        });
    }
}

pub fn sealed_tables_are_looked_up_and_say_that_they_are_sealed<S: Served>() {
    let server = S::start(16 << 20);
    let calls = open(&server, Access::Calls);
    let options = TableOptions::new(200)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::UpTo(700))
        .sealed();
    let records: Vec<_> = (0..KEYS)
        .map(|key| (key.to_le_bytes(), value("sealed", key, 1)))
        .collect();
    let pairs: Vec<(&[u8], &[u8])> = records
        .iter()
        .map(|(key, value)| (&key[..], &value[..]))
        .collect();
    calls.build("sealed", &options, &pairs).unwrap();
    let table = calls.table("sealed").unwrap();
    let before = table.counters();
    for (key, value) in &records {
        assert_eq!(table.get(key), Ok(Some(value.clone())));
    }
    assert_eq!(table.get(&[0xff; 8]), Ok(None));
    let counted = table.counters().since(&before);
    assert_eq!(counted.verbs_of(VerbKind::Call), KEYS + 1, "{counted:?}");
    let error = table.put(&[1; 8], b"new").unwrap_err();
    assert!(
        matches!(error, StoreError::Index(IndexError::Sealed { .. })),
        "{error}"
    );
}
