//! CuckooDuo tables whose records are in a heap: what operations cost, that blocks come back, and
//! that the next owner and readers find all of it.

use crate::common::costs::spent;
use crate::common::duo::{Dimensions, ShmTable, open, shm_client, shm_node, shm_reader, world};
use crate::common::{INLINE, Slot};
use farslot_fabric::{Executor, FabricError, Limits, OperationClass};
use farslot_index::Sizing;
use farslot_index::duo::{DuoLayout, DuoOptions};
use farslot_index::{
    FieldSize, GET, Index, IndexError, IndexExt, PUT, REMOVE, SCAN, SlotKind, UPDATE, UPKEEP,
};
use farslot_testbed::AnyEndpoint;
use std::rc::Rc;

const ANY: Slot = Slot {
    name: "any",
    kind: SlotKind::Heap,
    key: FieldSize::UpTo(100),
    value: FieldSize::UpTo(200_000),
    ..INLINE
};

/// A table for so many slots, with so much heap.
fn layout(slots: u64, heap_bytes: u64, readers: bool) -> DuoLayout {
    let dimensions = Dimensions::of_paper(slots);
    let options = DuoOptions {
        readers,
        sizing: Sizing {
            heap_bytes: Some(heap_bytes),
            ..dimensions.options(ANY, 9).sizing
        },
        ..dimensions.options(ANY, 9)
    };
    options.layout().unwrap()
}

/// From 1 byte to 100.
fn key(number: u64) -> Vec<u8> {
    let len = 8 + number as usize % 93;
    let mut key = vec![number as u8; len];
    key[..8].copy_from_slice(&number.to_le_bytes());
    key
}

/// From 0 bytes to some thousand.
fn value(number: u64) -> Vec<u8> {
    vec![number as u8; number as usize * 37 % 3_000]
}

/// Round trips and verbs of an operation, and of what the heap does for itself.
fn cost<R>(
    executor: &Executor<AnyEndpoint>,
    class: OperationClass,
    run: impl Future<Output = R>,
) -> ((u64, u64), R) {
    let (spent, result) = spent(executor, class, run);
    ((spent.round_trips, spent.verbs), result)
}

fn fill(executor: &Executor<AnyEndpoint>, table: &ShmTable, keys: u64) {
    executor.block_on(async {
        for number in 0..keys {
            assert!(table.put(&key(number), &value(number)).await.unwrap());
        }
    });
}

#[test]
fn a_lookup_takes_two_reads_and_a_record_is_replaced_by_a_word() {
    let layout = layout(1 << 10, 64 << 20, false);
    assert_eq!(layout.slot_bytes(), 16);
    let node = shm_node(&layout);
    let (executor, table) = shm_client(&node, &layout);
    fill(&executor, &table, 500);
    let mut opening = 0;
    for number in 0..500 {
        let (key, old) = (key(number), value(number));
        let (got, found) = cost(&executor, GET, table.get(&key));
        assert_eq!((got, found.unwrap().as_deref()), ((2, 2), Some(&old[..])));
        let new = value(number + 1_000);
        let (updated, was_there) = cost(&executor, UPDATE, table.update(&key, &new));
        // The slot, the record; the new record and the swap, and sometimes a run is opened before.
        assert!(was_there.unwrap() && updated.0 <= 13, "{updated:?}");
        opening += u64::from(updated.0 > 5);
        let found = executor.block_on(table.get(&key)).unwrap();
        assert_eq!(found.as_deref(), Some(&new[..]));
    }
    // A page of so small a heap has room for some sixteen records.
    assert!(opening <= 500 / 12, "{opening} of 500 updates opened a run");
    let (removed, was_there) = cost(&executor, REMOVE, table.remove(&key(3)));
    assert_eq!((removed, was_there), ((1, 2), Ok(true)));
    let (absent, found) = cost(&executor, GET, table.get(&key(3)));
    assert!(absent == (0, 0) && found.unwrap().is_none());
    // The run that is open has room: nothing else is asked for.
    let (put, new) = cost(&executor, PUT, table.put(&key(3), &value(3)));
    assert!(new.unwrap() && put.0 <= 3, "{put:?}");
}

#[test]
fn blocks_come_back_and_a_full_heap_says_so() {
    let layout = layout(1 << 8, 1 << 20, false);
    let node = shm_node(&layout);
    let (executor, table) = shm_client(&node, &layout);
    executor.block_on(async {
        // Many times as much as the heap holds.
        for turn in 0..2_000 {
            let value = vec![turn as u8; 20_000];
            table.put(&key(turn % 3), &value).await.unwrap();
            if turn % 5 == 0 {
                assert!(table.remove(&key(turn % 3)).await.unwrap());
            }
        }
        let large = vec![7; 200_000];
        let mut put = 0;
        let error = loop {
            match table.put(&key(100 + put), &large).await {
                Ok(_) => put += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, IndexError::HeapFull { .. }), "{error}");
        assert!(put >= 2, "{put}");
        for number in 0..put {
            let found = table.get(&key(100 + number)).await.unwrap();
            assert_eq!(found.as_deref(), Some(&large[..]));
        }
        assert!(table.get(&key(100 + put)).await.unwrap().is_none());
        table.flush().await.unwrap();
        let occupancy = table.occupancy().await.unwrap();
        assert!(occupancy.heap_used > 0 && occupancy.heap_used <= occupancy.heap_bytes);
    });
}

/// What an owner has open of the heap is the next one's, who has it cleaned when the heap is full.
/// Where an owner that was replaced does not forget what it had, its next record lies over one of
/// another's.
#[test]
fn an_owner_that_was_replaced_forgets_what_it_held_of_the_heap() {
    const BYTES: usize = 20_000;
    const KEEPERS: u64 = 8;
    const REMOVED: u64 = 8;
    let layout = layout(1 << 8, 1 << 20, false);
    let world = world(1, &layout);
    let client = || {
        let endpoint = world.endpoint(Limits::default());
        (Executor::new(Rc::clone(&endpoint)), open(endpoint, &layout))
    };
    // One after the other is the owner, puts a record that stays, and keeps the block of one that
    // it has removed. All they keep is enough for the last to look for.
    let replaced: Vec<_> = (0..KEEPERS).map(|_| client()).collect();
    for (number, (executor, table)) in (0..).zip(&replaced) {
        executor.block_on(async {
            table.force_take_over().await.unwrap();
            let removed = key(KEEPERS + number);
            assert!(table.put(&key(number), &[1; BYTES]).await.unwrap());
            assert!(table.put(&removed, &[1; BYTES]).await.unwrap());
            assert!(table.remove(&removed).await.unwrap());
        });
    }
    let (executor, table) = client();
    let filled = executor.block_on(async {
        table.force_take_over().await.unwrap();
        for number in 100.. {
            match table.put(&key(number), &[2; BYTES]).await {
                Ok(is_new) => assert!(is_new),
                Err(IndexError::HeapFull { .. }) => return 100..number,
                Err(error) => panic!("{error}"),
            }
        }
        unreachable!("a heap is full some time")
    });
    let (executor, table) = &replaced[0];
    executor.block_on(async {
        table.force_take_over().await.unwrap();
        // For a record of as many bytes there is the room that these leave, besides the pages that
        // are left to those that move records.
        for number in filled.start..filled.start + REMOVED {
            assert!(table.remove(&key(number)).await.unwrap());
        }
        assert!(table.put(&key(1_000), &[3; BYTES]).await.unwrap());
        let records = (0..KEEPERS).map(|number| (number, 1));
        let rest = filled.start + REMOVED..filled.end;
        let records = records.chain(rest.map(|number| (number, 2)));
        for (number, byte) in records.chain([(1_000, 3)]) {
            let found = table.get(&key(number)).await.unwrap();
            assert!(found.as_deref() == Some(&[byte; BYTES]), "of key {number}");
        }
    });
}

/// A record that is longer than the endpoint's buffers is refused before anything is posted: its
/// block is used by the next one.
#[test]
fn blocks_of_records_that_are_never_posted_come_back() {
    const LARGEST_BUFFER: usize = 1 << 10;
    let layout = layout(1 << 8, 64 << 20, false);
    let endpoint = world(1, &layout).endpoint(Limits {
        largest_buffer: LARGEST_BUFFER,
        ..Limits::default()
    });
    let (executor, table) = (Executor::new(Rc::clone(&endpoint)), open(endpoint, &layout));
    let long = vec![7; 3 * LARGEST_BUFFER];
    let used_behind = |refused: u64| {
        executor.block_on(async {
            for number in 0..refused {
                // A new key, and one that is there.
                for number in [number, 1_000] {
                    let error = table.put(&key(number), &long).await.unwrap_err();
                    let is_too_large = matches!(
                        &error,
                        IndexError::Fabric(FabricError::BufferTooLarge { .. })
                    );
                    assert!(is_too_large, "{error}");
                }
            }
            table.occupancy().await.unwrap().heap_used
        })
    };
    executor.block_on(async {
        assert!(table.put(&key(1_000), b"short").await.unwrap());
    });
    // Some rest before they are used again.
    let used = used_behind(32);
    assert_eq!(used_behind(500), used);
}

#[test]
fn the_next_owner_and_readers_find_all_records() {
    let layout = layout(1 << 10, 8 << 20, true);
    let node = shm_node(&layout);
    let (executor, table) = shm_client(&node, &layout);
    let keys = 980;
    fill(&executor, &table, keys);
    assert!(table.work().moved > 0, "{:?}", table.work());

    let (reading, reader) = shm_reader(&node, &layout);
    reading.block_on(reader.refresh()).unwrap();
    let (spent, ()) = cost(&reading, GET, async {
        for number in 0..keys {
            let found = reader.get(&key(number)).await.unwrap();
            assert_eq!(found.as_deref(), Some(&value(number)[..]));
        }
    });
    // Fingerprints collide now and then.
    assert!((2 * keys..2 * keys + 20).contains(&spent.1), "{spent:?}");
    assert!(executor.block_on(table.remove(&key(5))).unwrap());
    let new = value(77);
    assert!(executor.block_on(table.update(&key(6), &new)).unwrap());
    assert!(reading.block_on(reader.get(&key(5))).unwrap().is_none());
    let found = reading.block_on(reader.get(&key(6))).unwrap();
    assert_eq!(found.as_deref(), Some(&new[..]));

    // The first one dies.
    drop((executor, table));
    let (executor, table) = shm_client(&node, &layout);
    let (taken, ()) = cost(&executor, UPKEEP, async {
        table.take_over().await.unwrap()
    });
    assert!(taken.1 > keys, "{taken:?}");
    let mut met = 0;
    let (_, ()) = cost(&executor, SCAN, async {
        let mut cursor = Some(farslot_index::Cursor::default());
        while let Some(next) = cursor {
            let mut visit = |found: &[u8], found_value: &[u8]| {
                let number = u64::from_le_bytes(found[..8].try_into().unwrap());
                assert_eq!(found, key(number));
                let expected = if number == 6 { &new } else { &value(number) };
                assert_eq!(found_value, &expected[..]);
                met += 1;
            };
            cursor = table.scan(next, u64::MAX, &mut visit).await.unwrap();
        }
    });
    assert_eq!(met, keys - 1);
}

#[test]
fn records_that_no_heap_holds_are_refused() {
    let of = Dimensions::of_paper(1 << 10).options(ANY, 1);
    let refused = [
        DuoOptions {
            sizing: Sizing {
                value: FieldSize::UpTo(u32::MAX),
                ..of.clone().sizing
            },
            ..of.clone()
        },
        DuoOptions {
            sizing: Sizing {
                key: FieldSize::Fixed(0),
                ..of.clone().sizing
            },
            ..of.clone()
        },
        DuoOptions {
            sizing: Sizing {
                heap_bytes: Some(u64::MAX),
                ..of.clone().sizing
            },
            ..of.clone()
        },
        DuoOptions {
            slot: SlotKind::Word,
            ..of.clone()
        },
    ];
    for options in refused {
        let layout = options.layout();
        let refused = matches!(layout, Err(IndexError::BadOption { .. }));
        assert!(refused, "{options:?}: {layout:?}");
    }
}
