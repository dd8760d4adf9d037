//! What operations on a CuckooDuo table cost, as the endpoint counts it, from empty to full (paper
//! 001, Table I).

use crate::common::costs::{most_round_trips, spent};
use crate::common::duo::{Dimensions, ShmTable, WORDS, shm_client, shm_node, shm_table};
use crate::common::{Slot, scan_all};
use farslot_fabric::{Executor, OperationCounters};
use farslot_index::duo::DuoLayout;
use farslot_index::{
    FIND_OR_PUT, FieldSize, GET, Index, IndexError, IndexExt, Operation, Outcome, PUT, REMOVE,
    Result, UPDATE, Value,
};
use farslot_testbed::AnyEndpoint;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const SLOTS: u64 = 1 << 15;
/// The paper's keys and values.
const RECORD: Slot = Slot {
    name: "paper",
    key: FieldSize::Fixed(64),
    value: FieldSize::Fixed(64),
    ..crate::common::INLINE
};

fn key(number: u64) -> [u8; 64] {
    let mut key = [0; 64];
    ChaCha8Rng::seed_from_u64(number).fill(&mut key[..]);
    key
}

/// Puts keys until the table is that full; returns the puts' cost.
fn fill(
    executor: &Executor<AnyEndpoint>,
    table: &ShmTable,
    keys: std::ops::Range<u64>,
) -> OperationCounters {
    let putting = async {
        for number in keys {
            assert!(table.put(&key(number), &[7; 64]).await.unwrap());
        }
    };
    spent(executor, PUT, putting).0
}

#[test]
fn an_insertion_takes_one_round_trip_below_seven_tenths_and_two_at_most() {
    let layout = Dimensions::of_paper(SLOTS).layout(RECORD, 3);
    let (executor, table) = shm_table(&layout);
    executor.block_on(table.start()).unwrap();
    let at = |load: f64| (SLOTS as f64 * load) as u64;
    for (from, to, most_mean) in [(0.0, 0.7, 1.02), (0.7, 0.9, 1.1), (0.9, 0.98, 1.7)] {
        let cost = fill(&executor, &table, at(from)..at(to));
        let mean = cost.round_trips as f64 / cost.count as f64;
        println!("{from} to {to}: {cost:?}, {mean:.4} round trips");
        assert_eq!(cost.count, at(to) - at(from));
        assert!(
            (1.0..=most_mean).contains(&mean),
            "{from} to {to}: {cost:?}"
        );
    }
    assert_eq!(most_round_trips(&executor, PUT), 2);
    assert_eq!(table.stashed(), 0);
    assert!(table.work().moved > 100, "{:?}", table.work());
}

#[test]
fn a_lookup_reads_one_slot_and_absent_keys_are_known_without() {
    let layout = Dimensions::of_paper(SLOTS).layout(RECORD, 4);
    let (executor, table) = shm_table(&layout);
    let keys = (SLOTS as f64 * 0.98) as u64;
    fill(&executor, &table, 0..keys);
    let present = async {
        for number in 0..keys {
            assert!(table.get(&key(number)).await.unwrap().is_some());
        }
    };
    let (hits, ()) = spent(&executor, GET, present);
    let hits = (hits.count, hits.verbs, hits.bytes, hits.round_trips);
    assert_eq!(hits, (keys, keys, keys * layout.slot_bytes() as u64, keys));
    let absent = async {
        for number in 0..keys {
            assert!(table.get(&key(keys + number)).await.unwrap().is_none());
        }
    };
    let (misses, ()) = spent(&executor, GET, absent);
    // False positives: 2d/2^f, so 7.8 here.
    assert!((1..30).contains(&misses.verbs), "{misses:?}");
    assert_eq!(misses.round_trips, misses.verbs);
}

fn bytes_of(answer: Result<Option<Value>>) -> Result<Option<Vec<u8>>> {
    answer.map(|value| value.map(|value| value.to_vec()))
}

#[test]
fn many_lookups_answer_and_cost_what_as_many_single_ones_do() {
    // False positives: 2d/2^f of the part that is full, so 0.03 a key with 8 bits.
    for (slot, fingerprint_bits, false_positives) in [
        (RECORD, 8, 1.0 / 30.0),
        (WORDS, 8, 1.0 / 30.0),
        (WORDS, 16, 0.0),
    ] {
        look_up_many(slot, fingerprint_bits, false_positives);
    }
}

fn look_up_many(slot: Slot, fingerprint_bits: u32, false_positives: f64) {
    let key = |number| key(number)[..slot.key.most()].to_vec();
    let dimensions = Dimensions {
        fingerprint_bits,
        ..Dimensions::of_paper(1 << 12)
    };
    let (executor, table) = shm_table(&dimensions.layout(slot, 9));
    let mut present = 0;
    executor.block_on(async {
        let value = vec![7; slot.value.most()];
        while table.put(&key(present), &value).await.is_ok() {
            present += 1;
        }
    });
    let mut keys: Vec<_> = (0..2 * present).map(key).collect();
    keys.insert(100, vec![1; 3]);
    let mut single = Vec::new();
    let (expected, ()) = spent(&executor, GET, async {
        for key in &keys {
            single.push(Some(bytes_of(table.get(key).await)));
        }
    });
    let mut batched: Vec<_> = keys.iter().map(|_| None).collect();
    let note = |number: usize, answer| {
        assert!(batched[number].replace(bytes_of(answer)).is_none());
    };
    let looking = table.get_many(keys.iter().map(|key| &key[..]), note);
    let (counted, ()) = spent(&executor, GET, looking);
    assert_eq!(batched, single);
    assert_eq!(counted, expected);
    let least = present + (present as f64 * false_positives) as u64;
    assert!(counted.verbs >= least, "{counted:?}");
    assert!(
        counted.most_round_trips > u32::from(false_positives > 0.0),
        "{counted:?}"
    );
}

#[test]
fn many_writes_do_and_cost_what_as_many_single_ones_do() {
    for slot in [RECORD, WORDS] {
        for readers in [false, true] {
            let dimensions = Dimensions {
                readers,
                // A single put reads the records as well that would make room, were the key new: so
                // there is.
                ..Dimensions::of_paper(1 << 14)
            };
            write_many(slot, &dimensions.layout(slot, 9));
        }
    }
}

fn write_many(slot: Slot, layout: &DuoLayout) {
    const KEYS: u64 = 3_000;
    let keys: Vec<_> = (0..KEYS)
        .map(|number| key(number)[..slot.key.most()].to_vec())
        .collect();
    let value = |by: u8| vec![by; slot.value.most()];
    let [first, second, third, fourth] = [1, 2, 3, 4].map(value);
    /// Keys, the value that all get, and what is done with each.
    type Round<'w> = (
        &'w [Vec<u8>],
        &'w [u8],
        fn(&'w [u8], &'w [u8]) -> Operation<'w>,
    );
    let rounds: [Round<'_>; 6] = [
        (&keys[..2_000], &first, Operation::Put),
        // Half of them are there.
        (&keys[1_000..], &second, Operation::FindOrPut),
        (&keys[..2_000], &third, Operation::Put),
        (&keys[..2_500], &fourth, Operation::Update),
        (&keys[500..1_500], &[], |key, _| Operation::Remove(key)),
        // Some of them are not.
        (&keys[..1_000], &first, Operation::Update),
    ];
    let [single, many] = [false, true].map(|at_once| {
        let (executor, table) = shm_table(layout);
        let mut told = Vec::new();
        for (keys, value, write) in rounds {
            let writes: Vec<_> = keys.iter().map(|key| write(key, value)).collect();
            let mut outcomes: Vec<_> = writes.iter().map(|_| None).collect();
            let (counted, ()) = spent(&executor, writes[0].class(), async {
                if at_once {
                    let done = |number: usize, outcome: Result<Outcome>| {
                        assert!(outcomes[number].replace(outcome.unwrap()).is_none());
                    };
                    table.run_each(&writes, done).await;
                } else {
                    for (write, outcome) in writes.iter().zip(&mut outcomes) {
                        *outcome = Some(table.run(*write).await.unwrap());
                    }
                }
            });
            told.push((counted, outcomes));
        }
        let found = executor.block_on(scan_all(&table)).unwrap();
        let occupancy = executor.block_on(table.occupancy()).unwrap();
        (told, found, occupancy)
    });
    for ((single, many), number) in single.0.iter().zip(&many.0).zip(0..) {
        assert_eq!(single.0, many.0, "round {number}");
        assert_eq!(single.1, many.1, "round {number}");
    }
    assert_eq!(single.1, many.1);
    assert_eq!(single.2, many.2);
}

#[test]
fn removals_take_one_round_trip_and_updates_two() {
    let layout = Dimensions::of_paper(SLOTS).layout(RECORD, 5);
    let (executor, table) = shm_table(&layout);
    let keys = SLOTS / 2;
    fill(&executor, &table, 0..keys);
    for number in 0..100 {
        let key = key(number);
        let update = table.update(&key, &[8; 64]);
        let (updated, was_there) = spent(&executor, UPDATE, update);
        assert_eq!((updated.round_trips, was_there), (2, Ok(true)));
        let put = table.put(&key, &[9; 64]);
        let (put, new) = spent(&executor, PUT, put);
        assert_eq!((put.round_trips, new), (2, Ok(false)));
        let find = table.find_or_put(&key, &[9; 64]);
        let (found, there) = spent(&executor, FIND_OR_PUT, find);
        assert!(matches!(there, Ok(Some(value)) if *value == [9; 64]));
        assert_eq!((found.verbs, found.round_trips), (1, 1));
        let (removed, was_there) = spent(&executor, REMOVE, table.remove(&key));
        let was_there = was_there.unwrap();
        assert_eq!(
            (removed.verbs, removed.round_trips, was_there),
            (1, 1, true)
        );
        let (gone, was_there) = spent(&executor, REMOVE, table.remove(&key));
        assert_eq!((gone.verbs, was_there), (0, Ok(false)));
    }
}

#[test]
fn a_table_fills_up_and_goes_on_serving() {
    let layout = Dimensions::of_paper(SLOTS).layout(RECORD, 7);
    let (executor, table) = shm_table(&layout);
    let filling = async {
        let mut number = 0;
        loop {
            match table.put(&key(number), &[1; 64]).await {
                Ok(new) => assert!(new),
                Err(error) => return (number, error),
            }
            number += 1;
        }
    };
    let (keys, error) = executor.block_on(filling);
    assert!(matches!(error, IndexError::Full { .. }), "{error}");
    let load = keys as f64 / SLOTS as f64;
    println!("full at {load}, {:?}", table.work());
    assert!(load > 0.98, "{load}");
    assert_eq!(table.stashed(), 32);
    assert_eq!(most_round_trips(&executor, PUT), 2);
    executor.block_on(async {
        for number in 0..keys {
            assert!(table.get(&key(number)).await.unwrap().is_some());
        }
        assert!(table.remove(&key(5)).await.unwrap());
        assert!(table.update(&key(6), &[2; 64]).await.unwrap());
        assert!(table.get(&key(5)).await.unwrap().is_none());
    });
}

#[test]
fn keys_come_back_from_the_stash_when_there_is_room() {
    for readers in [false, true] {
        let dimensions = Dimensions {
            readers,
            ..Dimensions::of_paper(1 << 12)
        };
        let (executor, table) = shm_table(&dimensions.layout(RECORD, 9));
        executor.block_on(async {
            let mut keys = 0;
            while table.put(&key(keys), &[3; 64]).await.is_ok() {
                keys += 1;
            }
            assert_eq!(table.stashed(), 32);
            for number in 0..keys / 2 {
                assert!(table.remove(&key(number)).await.unwrap());
            }
            assert_eq!(table.stashed(), 0);
            assert!(table.work().brought_back > 10, "{:?}", table.work());
            for number in 0..keys {
                let there = table.get(&key(number)).await.unwrap().is_some();
                assert_eq!(there, number >= keys / 2);
            }
        });
        // An update of one that came back is one of a bucket's key.
        let found = executor.block_on(table.update(&key((1 << 12) - 100), &[4; 64]));
        assert_eq!(found, Ok(true));
    }
}

#[test]
fn the_next_owner_has_all_that_the_one_before_had() {
    let layout = Dimensions::of_paper(1 << 12).layout(RECORD, 8);
    let node = shm_node(&layout);
    let (first, table) = shm_client(&node, &layout);
    let keys = (layout.slots() as f64 * 0.97) as u64;
    fill(&first, &table, 0..keys);
    first.block_on(table.remove(&key(3))).unwrap();
    let (second, next) = shm_client(&node, &layout);
    let busy = second.block_on(next.get(&key(1)));
    assert!(matches!(busy, Err(IndexError::WriterBusy { writer: 1 })));
    assert_eq!(second.block_on(next.owner()), Ok(Some(1)));
    // The first one dies: it resigns from nothing, and has not told its counts.
    drop((first, table));
    second.block_on(async {
        next.take_over().await.unwrap();
        assert_eq!(next.owner().await, Ok(Some(2)));
        for number in 0..keys {
            let there = next.get(&key(number)).await.unwrap().is_some();
            assert_eq!(there, number != 3);
        }
        next.flush().await.unwrap();
        let occupancy = next.occupancy().await.unwrap();
        assert_eq!(occupancy.entries, keys - 1);
        next.resign().await.unwrap();
        assert_eq!(next.owner().await, Ok(None));
        assert!(next.put(&key(3), &[0; 64]).await.unwrap());
        assert_eq!(next.owner().await, Ok(Some(2)));
    });
}

#[test]
fn options_that_no_table_can_have_are_refused() {
    let of = Dimensions::of_paper(1 << 10);
    let refused = [
        Dimensions {
            bucket_slots: 0,
            ..of
        },
        Dimensions {
            bucket_slots: 17,
            ..of
        },
        Dimensions {
            fingerprint_bits: 7,
            ..of
        },
        Dimensions {
            fingerprint_bits: 33,
            ..of
        },
        Dimensions {
            longest_path: 7,
            ..of
        },
        Dimensions { stash: 1025, ..of },
        Dimensions { slots: 0, ..of },
        Dimensions {
            slots: u64::MAX,
            ..of
        },
    ];
    for dimensions in refused {
        let layout = dimensions.options(RECORD, 1).layout();
        assert!(
            matches!(layout, Err(IndexError::BadOption { .. })),
            "{dimensions:?}: {layout:?}"
        );
    }
    for (key, value) in [(0, 8), (1 << 16, 8), (8, 1 << 16)] {
        let sizes = Slot {
            key: FieldSize::Fixed(key),
            value: FieldSize::Fixed(value),
            ..RECORD
        };
        let layout = of.options(sizes, 1).layout();
        assert!(matches!(layout, Err(IndexError::BadOption { .. })));
    }
    let (executor, table) = shm_table(&of.layout(RECORD, 1));
    executor.block_on(async {
        let empty = table.get(&[]).await.map(drop);
        assert_eq!(empty, Err(IndexError::EmptyKey));
        let long = table.put(&[1; 65], &[1; 64]).await;
        assert!(matches!(long, Err(IndexError::KeyLength { len: 65, .. })));
        let short = table.update(&[1; 64], &[1; 63]).await;
        assert!(matches!(
            short,
            Err(IndexError::ValueLength { len: 63, .. })
        ));
    });
}
