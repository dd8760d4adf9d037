//! Caches of answers, as a store is opened: what they save, what they take, and what they must not
//! say.

use farslot::index::{GET, IndexError};
use farslot::layout::{CuckooShape, RaceShape};
use farslot::{Cache, FieldSize, OpenOptions, Store, StoreError, Table, TableOptions};
use std::time::Duration;

const ONE: &str = "sim://cx5-edr?seed=3&memory=64MiB";
const THREE: &str = "sim://cx5-edr?seed=3&memory=64MiB&nodes=3";
const KEYS: u64 = 200;

fn options() -> TableOptions {
    TableOptions::new(1_000)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::UpTo(80))
        .slots(farslot::SlotKind::Heap)
}

fn open(address: &str, cache: Cache) -> Store {
    let options = OpenOptions {
        cache: Some(cache),
        ..OpenOptions::default()
    };
    Store::open_with(address, options).unwrap()
}

fn stale(bytes: u64) -> Cache {
    Cache::new(bytes).stale_for(Duration::from_secs(1))
}

fn value(number: u64) -> Vec<u8> {
    format!("value of {number}").into_bytes()
}

/// Gets all keys, one by one and as a batch; returns how many lookups the table has seen.
fn get_all(table: &Table, expected: impl Fn(u64) -> Option<Vec<u8>>) -> u64 {
    let before = table.counters().operation(GET).count;
    let keys: Vec<[u8; 8]> = (0..KEYS).map(u64::to_le_bytes).collect();
    for (number, key) in (0..).zip(&keys) {
        assert_eq!(table.get(key).unwrap(), expected(number));
    }
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let mut answers = 0;
    table
        .get_many(&keys, |number, found| {
            assert_eq!(found, expected(number as u64).as_deref());
            answers += 1;
        })
        .unwrap();
    assert_eq!(answers, KEYS);
    table.counters().operation(GET).count - before
}

#[test]
fn lookups_are_answered_from_the_cache_whatever_the_scheme_and_the_nodes() {
    for address in [ONE, THREE] {
        let race = options().race(RaceShape::default());
        for options in [options(), options().cuckoo(CuckooShape::default()), race] {
            let store = open(address, stale(1 << 18));
            store.create("t", &options).unwrap();
            let table = store.table("t").unwrap();
            let there = |number: u64| number.is_multiple_of(2).then(|| value(number));
            for number in (0..KEYS).step_by(2) {
                assert!(table.put(&number.to_le_bytes(), &value(number)).unwrap());
            }
            // Each is looked up once, absent or not.
            assert_eq!(get_all(&table, there), KEYS);
            assert_eq!(get_all(&table, there), 0);
            let counts = table.cache_counts();
            assert_eq!((counts.hits, counts.misses), (3 * KEYS, KEYS));
            assert_eq!(counts.entries, KEYS);
            assert!(counts.bytes > KEYS * 16 && table.client_bytes() <= 1 << 18);
            // Own writes are seen at once, one by one and in batches.
            let key = 2u64.to_le_bytes();
            assert!(table.update(&key, b"new").unwrap());
            assert_eq!(table.get(&key).unwrap().as_deref(), Some(&b"new"[..]));
            table
                .put_many(&[(&key, b"newer")], |_, put| assert!(!put))
                .unwrap();
            assert_eq!(table.get(&key).unwrap().as_deref(), Some(&b"newer"[..]));
            table
                .remove_many(&[&key], |_, removed| assert!(removed))
                .unwrap();
            assert_eq!(table.get(&key).unwrap(), None);
            // Others' when the bound has passed.
            table.close().unwrap();
            let reader = store.table("t").unwrap();
            assert_eq!(reader.get(&key).unwrap(), None);
            let writer = store.table("t").unwrap();
            writer.put(&key, b"other's").unwrap();
            assert_eq!(reader.get(&key).unwrap(), None);
            let world = store.sim_world().unwrap();
            world.advance_to(world.now() + 1_000_000_000);
            assert_eq!(reader.get(&key).unwrap().as_deref(), Some(&b"other's"[..]));
        }
    }
}

#[test]
fn answers_that_cannot_change_are_kept_without_a_bound() {
    let records: Vec<_> = (0..KEYS)
        .map(|number| (number.to_le_bytes(), value(number)))
        .collect();
    let records: Vec<(&[u8], &[u8])> = records
        .iter()
        .map(|(key, value)| (&key[..], &value[..]))
        .collect();
    for address in [ONE, THREE] {
        let store = open(address, Cache::new(1 << 18));
        store.build("t", &options().sealed(), &records).unwrap();
        let table = store.table("t").unwrap();
        assert_eq!(get_all(&table, |number| Some(value(number))), KEYS);
        assert_eq!(get_all(&table, |number| Some(value(number))), 0);
        // Those that can are not.
        store.create("open", &options()).unwrap();
        let table = store.table("open").unwrap();
        assert_eq!(get_all(&table, |_| None), 2 * KEYS);
        assert_eq!(get_all(&table, |_| None), 2 * KEYS);
        assert_eq!(table.cache_counts().entries, 0);
        // Nor what was known of a table before it was built whole.
        let store = open(address, stale(1 << 18));
        let cuckoo = options().cuckoo(CuckooShape::default());
        store.create("built", &cuckoo).unwrap();
        let table = store.table("built").unwrap();
        assert_eq!(get_all(&table, |_| None), KEYS);
        table.build(&records).unwrap();
        assert_eq!(get_all(&table, |number| Some(value(number))), KEYS);
    }
}

#[test]
fn hints_and_answers_share_the_memory() {
    const BYTES: u64 = 1 << 16;
    for address in [ONE, THREE] {
        let store = Store::open_with(
            address,
            OpenOptions {
                cache: Some(stale(BYTES)),
                record_locations: Some(1 << 10),
                ..OpenOptions::default()
            },
        )
        .unwrap();
        store.create("t", &options()).unwrap();
        let table = store.table("t").unwrap();
        let nodes = table.partitions().len().max(1) as u64;
        let of_hints = table.client_bytes() - table.cache_counts().bytes;
        assert_eq!(of_hints, nodes * (16 << 10));
        for number in 0..1_000_u64 {
            table.put(&number.to_le_bytes(), &value(number)).unwrap();
            table.get(&number.to_le_bytes()).unwrap();
        }
        let taken = table.client_bytes();
        assert!((BYTES / 2..=BYTES).contains(&taken), "{taken}");
    }
    // Hints that were asked for must have room.
    let store = Store::open_with(
        ONE,
        OpenOptions {
            cache: Some(stale(1 << 12)),
            record_locations: Some(1 << 10),
            ..OpenOptions::default()
        },
    )
    .unwrap();
    store.create("t", &options()).unwrap();
    match store.table("t").err() {
        Some(StoreError::Index(IndexError::BadOption { option, .. })) => {
            assert_eq!(option, "memory budget");
        }
        other => panic!("{other:?}"),
    }
}

/// Whoever was told of another's write is not told of what was before.
#[test]
fn time_does_not_go_back_after_a_lookup_of_all_records() {
    let store = open(ONE, stale(1 << 18));
    store.create("t", &options()).unwrap();
    let [table, other] = [(); 2].map(|()| store.table("t").unwrap());
    let [one, two] = [1_u64, 2].map(u64::to_le_bytes);
    for key in [&one, &two] {
        assert!(table.put(key, b"old").unwrap());
        assert_eq!(table.get(key).unwrap().as_deref(), Some(&b"old"[..]));
        assert!(!other.put(key, b"new").unwrap());
        assert_eq!(table.get(key).unwrap().as_deref(), Some(&b"old"[..]));
    }
    assert_eq!(table.get_all(&one).unwrap(), [b"new"]);
    table
        .get_all_many(&[&two], |_, values| assert_eq!(values, [b"new"]))
        .unwrap();
    for key in [&one, &two] {
        assert_eq!(table.get(key).unwrap().as_deref(), Some(&b"new"[..]));
    }
}

/// A cache of what cannot change keeps nothing of a table that can: so its size is none of that
/// table's business.
#[test]
fn a_table_that_changes_needs_nothing_of_a_cache_that_keeps_nothing_of_it() {
    let store = open(ONE, Cache::new(100));
    store.create("t", &options()).unwrap();
    let table = store.table("t").unwrap();
    assert!(table.put(&[1; 8], b"one").unwrap());
    assert_eq!(
        table.cache_counts(),
        farslot::metrics::CacheCounts::default()
    );
}
