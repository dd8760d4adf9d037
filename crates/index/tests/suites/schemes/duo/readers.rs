//! Readers beside the owner of a CuckooDuo table: what their lookups cost, that a copy of the index
//! that is old costs READs and no answer, and what they promise for absent keys.

use crate::common::costs::spent;
use crate::common::duo::{
    Dimensions, growing_node, memory_behind, shm_client, shm_node, shm_reader,
};
use crate::common::{HEAP, INLINE, Slot};
use farslot_fabric::{Endpoint, Executor};
use farslot_index::duo::{DuoGrowth, DuoReader, ReaderPromise};
use farslot_index::{
    Cursor, FieldSize, GET, Got, IndexError, IndexExt, PUT, REMOVE, UPDATE, UPKEEP,
};
use farslot_testbed::AnyEndpoint;
use std::cell::Cell;
use std::collections::BTreeMap;

const SLOTS: u64 = 1 << 12;
const RECORD: Slot = Slot {
    name: "record",
    key: FieldSize::Fixed(8),
    value: FieldSize::Fixed(24),
    ..INLINE
};

fn dimensions() -> Dimensions {
    Dimensions::of_paper(SLOTS).with_readers()
}

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

fn value(number: u64) -> [u8; 24] {
    [number as u8; 24]
}

/// Round trips, verbs and bytes of a class.
type Cost = (u64, u64, u64);

fn cost<R>(
    executor: &Executor<AnyEndpoint>,
    class: farslot_fabric::OperationClass,
    run: impl Future<Output = R>,
) -> (Cost, R) {
    let (spent, result) = spent(executor, class, run);
    ((spent.round_trips, spent.verbs, spent.bytes), result)
}

/// A reader's lookup of a key: what it cost, and whether the key was found.
fn look(
    executor: &Executor<AnyEndpoint>,
    reader: &DuoReader<AnyEndpoint>,
    number: u64,
) -> (u64, bool) {
    let ((round_trips, ..), found) = cost(executor, GET, reader.get(&key(number)));
    let found = found.unwrap();
    if let Some(found) = &found {
        assert_eq!(**found, value(number));
    }
    (round_trips, found.is_some())
}

#[test]
fn a_reader_finds_a_key_with_one_read_and_learns_what_it_has_to() {
    let layout = dimensions().layout(RECORD, 1);
    let node = shm_node(&layout);
    let (owner, table) = shm_client(&node, &layout);
    let keys = (SLOTS as f64 * 0.95) as u64;
    owner.block_on(async {
        for number in 0..keys {
            assert!(table.put(&key(number), &value(number)).await.unwrap());
        }
    });

    // One that knows nothing reads the key's pages, then the slot.
    let (executor, reader) = shm_reader(&node, &layout);
    assert_eq!(look(&executor, &reader, 7), (2, true));
    assert_eq!(look(&executor, &reader, 7), (1, true));

    executor.block_on(reader.refresh()).unwrap();
    let all = async {
        for number in 0..keys {
            let found = reader.get(&key(number)).await.unwrap();
            assert_eq!(found.as_deref(), Some(&value(number)[..]));
        }
    };
    let (present, ()) = cost(&executor, GET, all);
    let (round_trips, verbs, bytes) = present;
    // Of two keys with one fingerprint in one bucket, which is in a second, one takes a READ more.
    assert!((keys..keys + keys / 200).contains(&verbs), "{present:?}");
    assert_eq!(round_trips, verbs);
    assert_eq!(bytes, verbs * layout.slot_bytes() as u64);

    // Absent: the two pages, of four words each, and the stash with the count of growths.
    let ((trips, verbs, bytes), ()) = cost(&executor, GET, async {
        for number in keys..2 * keys {
            assert!(reader.get(&key(number)).await.unwrap().is_none());
        }
    });
    let false_positives = trips - keys;
    assert!(false_positives < keys / 200, "{false_positives}");
    assert_eq!(verbs, trips);
    let pages = keys * (2 * 32 + 33 * 8);
    assert_eq!(bytes, pages + false_positives * layout.slot_bytes() as u64);

    // The copy takes what the owner's index takes, but for a few bytes a segment and a word a slot
    // of the stash.
    let few = 512 * 9 + 32 * 24;
    let copy = reader.copy_bytes() as u64;
    assert!(copy <= layout.index_bytes() + few, "{copy} bytes");
}

#[test]
fn many_keys_are_looked_up_side_by_side() {
    look_up_many(RECORD, 24);
}

#[test]
fn many_words_are_looked_up_side_by_side() {
    let words = Slot {
        value: FieldSize::Fixed(8),
        ..RECORD
    };
    look_up_many(words, 8);
}

/// In a table of values of so many bytes.
fn look_up_many(record: Slot, len: usize) {
    let value = |number: u64| value(number)[..len].to_vec();
    let layout = dimensions().layout(record, 2);
    let node = shm_node(&layout);
    let (owner, table) = shm_client(&node, &layout);
    let keys: Vec<[u8; 8]> = (0..500).map(key).collect();
    owner.block_on(async {
        for number in 0..250 {
            table.put(&key(number), &value(number)).await.unwrap();
        }
    });
    let (executor, reader) = shm_reader(&node, &layout);
    let answered = Cell::new(0);
    let keys: Vec<_> = keys.iter().map(|key| &key[..]).collect();
    let told = |number: usize, found: Got| {
        let expected = (number < 250).then(|| value(number as u64));
        assert_eq!(
            found.unwrap().as_deref(),
            expected.as_ref().map(|value| &value[..])
        );
        answered.set(answered.get() + 1);
    };
    executor.block_on(reader.look_up(&keys, &mut |answers| answers.each(told)));
    assert_eq!(answered.get(), 500);
    // As many READs as by single gets, once the copy is up to date.
    let gets = || {
        let all = executor.endpoint().core().counters.snapshot();
        all.operation(GET)
    };
    let before = gets();
    executor.block_on(reader.look_up(&keys, &mut |answers| answers.each(told)));
    let between = gets();
    for key in &keys {
        let _ = executor.block_on(reader.get(key)).unwrap();
    }
    let after = gets();
    let counted = [(between, before), (after, between)].map(|(now, before)| {
        let verbs = now.verbs - before.verbs;
        (now.count - before.count, verbs, now.bytes - before.bytes)
    });
    assert_eq!(counted[0], counted[1]);
    assert_eq!(answered.get(), 1000);
}

#[test]
fn a_copy_that_is_old_is_noticed() {
    let layout = dimensions().layout(RECORD, 3);
    let node = shm_node(&layout);
    let (owner, table) = shm_client(&node, &layout);
    let (executor, reader) = shm_reader(&node, &layout);
    owner.block_on(table.put(&key(1), &value(1))).unwrap();
    executor.block_on(reader.refresh()).unwrap();
    assert_eq!(look(&executor, &reader, 1), (1, true));

    // Put, removed and put again: the copy does not know.
    owner.block_on(table.put(&key(2), &value(2))).unwrap();
    assert_eq!(look(&executor, &reader, 2), (2, true));
    owner.block_on(table.remove(&key(1))).unwrap();
    assert_eq!(look(&executor, &reader, 1), (2 + 1, false));
    assert_eq!(look(&executor, &reader, 1), (1, false));
    owner.block_on(table.put(&key(1), &value(1))).unwrap();
    assert_eq!(look(&executor, &reader, 1), (2, true));

    // All of it moved about, by filling the table up.
    executor.block_on(reader.refresh()).unwrap();
    let keys = owner.block_on(async {
        for number in 3.. {
            if table.put(&key(number), &value(number)).await.is_err() {
                return number;
            }
        }
        0
    });
    assert!(table.work().moved > 100, "{:?}", table.work());
    assert_eq!(table.stashed(), 32);
    for number in 1..keys {
        let (round_trips, found) = look(&executor, &reader, number);
        assert!(found && round_trips <= 4, "{number}: {round_trips}");
    }
    for number in 1..keys {
        let (round_trips, found) = look(&executor, &reader, number);
        assert!(found && round_trips <= 2, "{number}: {round_trips}");
    }
}

#[test]
fn what_readers_cost_the_owner() {
    let layout = dimensions().layout(RECORD, 4);
    let node = shm_node(&layout);
    let (owner, table) = shm_client(&node, &layout);
    owner.block_on(table.start()).unwrap();
    let ((trips, verbs, bytes), _) = cost(&owner, PUT, table.put(&key(1), &value(1)));
    // A word of the published index and its count, the head, the record, and what publishes it.
    assert_eq!((trips, verbs), (1, 5));
    assert_eq!(bytes, layout.slot_bytes() as u64 + 16);
    let ((trips, ..), _) = cost(&owner, UPDATE, table.update(&key(1), &value(2)));
    assert_eq!(trips, 2);
    let ((trips, ..), _) = cost(&owner, REMOVE, table.remove(&key(1)));
    assert_eq!(trips, 2);
}

#[test]
fn absent_keys_cost_nothing_while_the_copy_is_young_enough() {
    let layout = dimensions().layout(RECORD, 5);
    let node = shm_node(&layout);
    let (owner, table) = shm_client(&node, &layout);
    owner.block_on(table.put(&key(1), &value(1))).unwrap();
    let promise = |most| ReaderPromise::BoundedStaleness { most };

    let (executor, reader) = shm_reader(&node, &layout);
    let reader = reader.promising(promise(u64::MAX));
    // A reader that knows nothing asks.
    assert_eq!(look(&executor, &reader, 1), (2, true));
    assert_eq!(look(&executor, &reader, 2), (1, false));
    executor.block_on(reader.refresh()).unwrap();
    assert_eq!(look(&executor, &reader, 2), (0, false));
    // What has come since is not known to it until the next refresh; what it knows is.
    owner.block_on(table.put(&key(2), &value(2))).unwrap();
    assert_eq!(look(&executor, &reader, 2), (0, false));
    let ((_, verbs, _), refreshed) = cost(&executor, UPKEEP, reader.refresh());
    refreshed.unwrap();
    // The counts and how often it has grown, the segment that has changed, and both once more.
    assert_eq!(verbs, 5);
    assert_eq!(look(&executor, &reader, 2), (1, true));
    let ((_, verbs, _), refreshed) = cost(&executor, UPKEEP, reader.refresh());
    refreshed.unwrap();
    assert_eq!(verbs, 2);

    // An answer may not be older than was promised: here, not old at all.
    let reader = reader.promising(promise(0));
    executor.block_on(reader.refresh()).unwrap();
    assert_eq!(look(&executor, &reader, 3), (1, false));
}

#[test]
fn readers_need_no_owner_and_are_told_what_is_wrong() {
    let layout = dimensions().layout(RECORD, 6);
    let node = shm_node(&layout);
    let (executor, reader) = shm_reader(&node, &layout);
    assert_eq!(look(&executor, &reader, 1), (1, false));
    let (owner, table) = shm_client(&node, &layout);
    owner.block_on(async {
        table.put(&key(1), &value(1)).await.unwrap();
        table.resign().await.unwrap();
    });
    assert_eq!(look(&executor, &reader, 1), (2, true));
    // The next owner finds the index published as it would publish it.
    let (next, table) = shm_client(&node, &layout);
    next.block_on(table.start()).unwrap();
    assert_eq!(look(&executor, &reader, 1), (1, true));

    let long = executor.block_on(reader.get(&[1; 9])).map(drop);
    assert!(matches!(long, Err(IndexError::KeyLength { len: 9, .. })));
    let empty = executor.block_on(reader.get(&[])).map(drop);
    assert_eq!(empty, Err(IndexError::EmptyKey));
    let alone = Dimensions::of_paper(SLOTS).layout(RECORD, 6);
    let endpoint = reader.endpoint().clone();
    let Err(error) = DuoReader::open(endpoint, crate::common::TABLE, alone) else {
        panic!("nothing is published there");
    };
    assert!(matches!(error, IndexError::BadOption { .. }), "{error}");
}

#[test]
fn a_reader_follows_a_table_that_grows() {
    let layout = dimensions().layout(RECORD, 7);
    let memory = memory_behind(&layout, 8 << 20);
    let node = growing_node(&memory);
    let (owner, table) = shm_client(&node, &layout);
    let keys = SLOTS * 9 / 10;
    owner.block_on(async {
        for number in 0..keys {
            table.put(&key(number), &value(number)).await.unwrap();
        }
    });
    let (executor, reader) = shm_reader(&node, &layout);
    executor.block_on(reader.refresh()).unwrap();
    let look_at_all = |most: u64| {
        let trips = (0..keys).map(|number| {
            let (trips, found) = look(&executor, &reader, number);
            assert!(found && trips <= most, "key {number}: {trips} round trips");
            trips
        });
        trips.sum::<u64>()
    };
    let copy_is_right = |trips: u64| (keys..keys + keys / 100).contains(&trips);

    // It has begun, and no key has moved: a reader that does not know finds every key at once.
    owner.block_on(table.grow(&memory, 2)).unwrap();
    assert!(copy_is_right(look_at_all(2)));
    assert_eq!(reader.slots(), layout.slots());
    // Absent keys tell of it, for its entry and for the bits; then it is known.
    assert_eq!(look(&executor, &reader, keys), (3, false));
    assert_eq!(reader.slots(), 2 * layout.slots());
    let ((trips, verbs, bytes), _) = cost(&executor, GET, reader.get(&key(keys + 1)));
    // Two pages, the stash with the count of growths, a word of bits for each page.
    assert_eq!((trips, verbs, bytes), (1, 1, 2 * 32 + 33 * 8 + 2 * 8));

    // Half of the keys are elsewhere: the lookups say so, each for itself and its neighbours.
    owner.block_on(table.sweep()).unwrap();
    let trips = look_at_all(5);
    assert!(!copy_is_right(trips), "{trips}");
    assert!(copy_is_right(look_at_all(2)));

    // Three times as large in the meantime, and grown once more; the copy knows of none of it.
    owner.block_on(async {
        table.grow(&memory, 3).await.unwrap();
        table.sweep().await.unwrap();
        table.grow(&memory, 2).await.unwrap();
        for number in keys..2 * keys {
            table.put(&key(number), &value(number)).await.unwrap();
        }
    });
    let (trips, found) = look(&executor, &reader, keys);
    assert!(found && trips <= 6, "{trips} round trips");
    assert!(table.unsplit() > 0);
    executor.block_on(reader.refresh()).unwrap();
    assert_eq!(reader.slots(), table.slots());
    assert!(copy_is_right(look_at_all(2)));
    let absent = look(&executor, &reader, 3 * keys);
    assert_eq!(absent, (1, false));
    let copy = reader.copy_bytes() as u64;
    let of_slots = layout.index_bytes() * table.slots() / layout.slots();
    assert!(copy <= of_slots + 4 * 512 * 9 + 32 * 24, "{copy} bytes");
}

#[test]
fn a_young_copy_of_a_table_that_grows_says_what_is_absent() {
    let layout = dimensions().layout(RECORD, 8);
    let memory = memory_behind(&layout, 8 << 20);
    let node = growing_node(&memory);
    let (owner, table) = shm_client(&node, &layout);
    let keys = SLOTS * 9 / 10;
    owner.block_on(async {
        for number in 0..keys {
            table.put(&key(number), &value(number)).await.unwrap();
        }
        table.grow(&memory, 2).await.unwrap();
    });
    let (executor, reader) = shm_reader(&node, &layout);
    let reader = reader.promising(ReaderPromise::BoundedStaleness { most: u64::MAX });
    executor.block_on(reader.refresh()).unwrap();
    let absent = || {
        let trips = (0..1_000).map(|number| look(&executor, &reader, 10 * keys + number));
        let trips = trips.map(|(trips, found)| {
            assert!(!found);
            trips
        });
        trips.sum::<u64>()
    };
    // But for fingerprints that are alike.
    assert!(absent() < 10);
    // What the copy does not know of it may answer as of then; what it learns of it does not take
    // for empty.
    owner.block_on(table.sweep()).unwrap();
    for number in 0..keys {
        let (trips, found) = look(&executor, &reader, number);
        assert!(found && trips <= 5, "key {number}: {trips} round trips");
    }
    executor.block_on(reader.refresh()).unwrap();
    assert!(absent() < 10);
    let ((_, verbs, _), refreshed) = cost(&executor, UPKEEP, reader.refresh());
    refreshed.unwrap();
    // The counts of the table and of its extent, and how often it has grown.
    assert_eq!(verbs, 3);

    // It knows of a growth of which nothing is split, and learns that it is over by the next one's
    // entry.
    owner.block_on(table.grow(&memory, 2)).unwrap();
    executor.block_on(reader.refresh()).unwrap();
    owner.block_on(async {
        table.sweep().await.unwrap();
        table.grow(&memory, 2).await.unwrap();
    });
    for number in 0..keys {
        let (trips, found) = look(&executor, &reader, number);
        assert!(found && trips <= 6, "key {number}: {trips} round trips");
    }
}

#[test]
fn a_reader_meets_every_record_of_a_table_that_grows_meanwhile() {
    meets_every_record(Dimensions::of_paper(1 << 9).with_readers(), 0.85, 300);
}

/// With so many insertions after each piece, into a table that grows at this load.
fn meets_every_record(dimensions: Dimensions, at_load: f64, insertions: u64) {
    let layout = dimensions.layout(RECORD, 9);
    let memory = memory_behind(&layout, 8 << 20);
    let node = growing_node(&memory);
    let (owner, table) = shm_client(&node, &layout);
    let growth = DuoGrowth {
        at_load,
        ..DuoGrowth::from(memory)
    };
    let table = table.with_growth(growth).unwrap();
    let keys = 4_000;
    owner.block_on(async {
        for number in 0..keys {
            table.put(&key(number), &value(number)).await.unwrap();
        }
    });
    let (executor, reader) = shm_reader(&node, &layout);
    let (mut put, mut unsplit) = (keys, 0);
    let mut limits = [u64::MAX, 1, 300].into_iter().cycle();
    let met = executor.block_on(async {
        let mut met = BTreeMap::new();
        let mut cursor = Some(Cursor::default());
        while let Some(from) = cursor {
            let visit = |key: &[u8], value: &[u8]| {
                met.insert(key.to_vec(), value.to_vec());
            };
            cursor = reader
                .scan(from, limits.next().unwrap(), visit)
                .await
                .unwrap();
            // Insertions that move nothing, but let buckets be split.
            owner.block_on(async {
                for _ in 0..insertions {
                    table.put(&key(put), &value(put)).await.unwrap();
                    put += 1;
                }
            });
            unsplit += u64::from(table.unsplit() > 0);
        }
        met
    });
    assert!(unsplit > 1 && put > keys + 2_000, "{unsplit}, {put}");
    let missed = (0..keys).filter(|number| {
        met.get(&key(*number)[..])
            .is_none_or(|met| *met != value(*number))
    });
    let missed = missed.count() as u64;
    let work = table.work();
    assert!(
        missed <= work.moved + work.brought_back,
        "{missed} missed, {work:?}"
    );
    // While nothing is written, each is met once.
    let all = executor.block_on(async {
        let (mut met, mut cursor) = (BTreeMap::new(), Some(Cursor::default()));
        while let Some(from) = cursor {
            let visit = |key: &[u8], value: &[u8]| {
                assert!(met.insert(key.to_vec(), value.to_vec()).is_none());
            };
            cursor = reader.scan(from, u64::MAX, visit).await.unwrap();
        }
        met
    });
    assert_eq!(all.len() as u64, put);
}

#[test]
fn a_reader_meets_every_record_whole_beside_the_owner() {
    for slot in [RECORD, HEAP] {
        let layout = Dimensions::of_paper(1 << 9).with_readers().layout(slot, 3);
        let node = shm_node(&layout);
        let (owner, table) = shm_client(&node, &layout);
        let keys = 480;
        owner.block_on(async {
            for number in 0..keys {
                table.put(&key(number), &value(number)).await.unwrap();
            }
        });
        let (executor, reader) = shm_reader(&node, &layout);
        let met = executor.block_on(async {
            let mut met = BTreeMap::new();
            let mut cursor = Some(Cursor::default());
            while let Some(from) = cursor {
                let visit = |key: &[u8], value: &[u8]| {
                    assert!(met.insert(key.to_vec(), value.to_vec()).is_none());
                };
                cursor = reader.scan(from, 50, visit).await.unwrap();
                // What is removed is not met, and what is updated is met with a value that it had.
                owner.block_on(async {
                    table.remove(&key(1)).await.unwrap();
                    table.update(&key(2), &value(200)).await.unwrap();
                });
            }
            met
        });
        for number in 3..keys {
            assert_eq!(met[&key(number)[..]], value(number), "{}", slot.name);
        }
        assert!([value(2), value(200)].contains(&met[&key(2)[..]][..].try_into().unwrap()));
        assert!(met.len() as u64 >= keys - 1);
    }
}
