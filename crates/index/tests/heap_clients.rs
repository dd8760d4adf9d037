//! The heap below a table: its blocks come back to whoever needs them, none is lost, and nobody
//! reads another use of a block than the one that a slot names.

#![cfg(not(feature = "broken-insert"))]

mod common;

use common::chaos::{limits, open, world};
use common::{HEAP, INLINE, Reads, Slot, TORN, shm_client, shm_node, shm_table};
use farslot_fabric::EndpointExt;
use farslot_fabric::shm::Node;
use farslot_fabric::sim::{Chance, FaultPlan, HostId, RunEnd, Simulation};
use farslot_index::heap::{block_bytes, class_for};
use farslot_index::linear::{LinearLayout, LinearOptions, SlotKind};
use farslot_index::{FieldSize, Index, IndexError};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

const RECORD: [u8; 100] = [7; 100];

fn key(number: u64) -> Vec<u8> {
    format!("key {number:05}").into_bytes()
}

#[test]
fn blocks_that_one_client_frees_serve_another() {
    let mut options = HEAP.options(4096, 3);
    options.heap_bytes = Some(128 << 10);
    let layout = options.layout().unwrap();
    let node = shm_node(&layout);
    let (first_executor, first) = shm_client(&node, &layout, Reads::fixed(8));
    let (second_executor, second) = shm_client(&node, &layout, Reads::fixed(8));
    let heap_full = |error| matches!(error, IndexError::HeapFull { .. });

    let held = first_executor.block_on(async {
        let mut held = 0;
        while first.put(&key(held), &RECORD).await.is_ok() {
            held += 1;
        }
        held
    });
    assert!(held > 900, "{held} records");
    second_executor.block_on(async {
        let refused = second.put(&key(9_999), &RECORD).await;
        assert!(heap_full(refused.unwrap_err()));
    });
    first_executor.block_on(async {
        for number in 0..held {
            assert!(first.remove(&key(number)).await.unwrap());
        }
    });
    // All but what the first client keeps for itself.
    let got = second_executor.block_on(async {
        let mut got = 0;
        while second.put(&key(got), &RECORD).await.is_ok() {
            got += 1;
        }
        got
    });
    assert!(got >= held - 256, "{got} of {held}");
    second_executor.block_on(async {
        for number in 0..got {
            let value = second.get(&key(number)).await.unwrap();
            assert_eq!(value.as_deref(), Some(&RECORD[..]));
        }
        for number in 0..got {
            assert!(second.remove(&key(number)).await.unwrap());
        }
    });
    // And back, round the free lists, several times.
    for turn in 0..6 {
        let (executor, table) = if turn % 2 == 0 {
            (&first_executor, &first)
        } else {
            (&second_executor, &second)
        };
        executor.block_on(async {
            let enough = held - 256;
            for number in 0..enough {
                let put = table.put(&key(number), &RECORD).await;
                assert!(
                    put.is_ok(),
                    "turn {turn}, record {number} of {enough}: {put:?}"
                );
            }
            for number in 0..enough {
                assert!(table.remove(&key(number)).await.unwrap());
            }
        });
    }
}

/// The blocks that are left in the heap of a table, as one new client finds them.
fn blocks_left(node: &Node, layout: &LinearLayout) -> u64 {
    let (executor, table) = shm_client(node, layout, Reads::fixed(8));
    executor.block_on(async {
        let mut left = 0;
        while table.put(&key(50_000 + left), &RECORD).await.is_ok() {
            left += 1;
        }
        left
    })
}

/// A table of the default heap has room for its capacity, however many clients fill it.
#[test]
fn a_client_for_each_put_fills_a_table() {
    for flushing in [true, false] {
        let options = LinearOptions {
            load_factor: 0.9,
            ..HEAP.options(1_000, 3)
        };
        let layout = options.layout().unwrap();
        let node = shm_node(&layout);
        for number in 0..1_000 {
            let (executor, table) = shm_client(&node, &layout, Reads::fixed(8));
            let put = executor.block_on(table.put(&key(number), &[7; 300]));
            assert!(put.is_ok(), "flushing: {flushing}, put {number}: {put:?}");
            if flushing {
                executor.block_on(table.flush()).unwrap();
            }
        }
    }
}

/// Clients that replace one record, one after the other, need a block or two.
#[test]
fn clients_that_flush_leave_no_free_block_behind() {
    let mut options = HEAP.options(64, 3);
    options.heap_bytes = Some(16 + 3 * 128);
    let layout = options.layout().unwrap();
    let node = shm_node(&layout);
    for turn in 0..5_000u32 {
        let (executor, table) = shm_client(&node, &layout, Reads::fixed(8));
        executor.block_on(async {
            let mut value = RECORD;
            value[..4].copy_from_slice(&turn.to_le_bytes());
            table.put(&key(1), &value).await.unwrap();
            table.flush().await.unwrap();
            let got = table.get(&key(1)).await.unwrap();
            assert_eq!(got.as_deref(), Some(&value[..]));
        });
    }
    assert_eq!(blocks_left(&node, &layout), 2);
}

#[test]
fn a_flush_hands_back_the_rest_of_the_extent() {
    const BLOCKS: u64 = 256;
    let mut options = HEAP.options(1 << 10, 3);
    options.heap_bytes = Some(16 + BLOCKS * 128);
    let layout = options.layout().unwrap();
    for others_follow in [false, true] {
        let node = shm_node(&layout);
        let (executor, table) = shm_client(&node, &layout, Reads::fixed(8));
        let (other_executor, other) = shm_client(&node, &layout, Reads::fixed(8));
        executor.block_on(async {
            // Extents of 2 and 8 blocks, the last of which is used in part.
            for number in 0..8 {
                table.put(&key(number), &RECORD).await.unwrap();
            }
        });
        let used = || executor.block_on(table.occupancy()).unwrap().heap_used;
        assert_eq!(used(), 10 * 128);
        let mut held = 8;
        if others_follow {
            other_executor
                .block_on(other.put(&key(10), &RECORD))
                .unwrap();
            // The other client keeps the second block of its extent.
            held += 2;
        }
        executor.block_on(table.flush()).unwrap();
        let expected = if others_follow { 12 * 128 } else { 8 * 128 };
        assert_eq!(used(), expected);
        // The client goes on, and no block is handed out twice.
        executor.block_on(async {
            table.put(&key(11), &RECORD).await.unwrap();
            table.flush().await.unwrap();
        });
        held += 1;
        assert_eq!(blocks_left(&node, &layout), BLOCKS - held);
        executor.block_on(async {
            for number in (0..8).chain([11]) {
                let got = table.get(&key(number)).await.unwrap();
                assert_eq!(got.as_deref(), Some(&RECORD[..]));
            }
        });
    }
}

#[test]
fn a_refused_record_takes_nothing() {
    const LARGE: usize = 600 << 10;
    let mut options = LinearOptions {
        value: FieldSize::UpTo(1 << 20),
        ..HEAP.options(1 << 14, 3)
    };
    options.heap_bytes = Some(1 << 20);
    let layout = options.layout().unwrap();
    let node = shm_node(&layout);
    let (executor, table) = shm_client(&node, &layout, Reads::fixed(8));
    executor.block_on(async {
        table.put(&key(1), &vec![1; LARGE]).await.unwrap();
        for _ in 0..3 {
            let refused = table.put(&key(2), &vec![2; LARGE]).await;
            assert!(matches!(refused, Err(IndexError::HeapFull { .. })));
        }
        let (mut small, left) = (
            0,
            (1 << 20) - 16 - block_bytes(class_for(LARGE + 25).unwrap()),
        );
        while table.put(&key(10 + small), &RECORD).await.is_ok() {
            small += 1;
        }
        assert_eq!(small, left as u64 / 128);
    });
}

/// Threads that together want more than there is fight for the free lists. Each finds its own
/// records whole, and in the end no block is lost but those that the threads kept for themselves.
#[test]
fn threads_share_the_free_lists() {
    const THREADS: u64 = 3;
    const BLOCKS: u64 = 2_048;
    let mut options = HEAP.options(1 << 14, 3);
    options.heap_bytes = Some(BLOCKS * 128);
    let layout = options.layout().unwrap();
    let node = shm_node(&layout);
    let work = |thread: u64| {
        let (executor, table) = shm_client(&node, &layout, Reads::fixed(8));
        executor.block_on(async {
            let mut refused = 0;
            for round in 0..30u64 {
                let value = [(round * THREADS + thread) as u8; 100];
                let mut held = Vec::new();
                for number in 0..900 {
                    let key = key(thread * 1_000 + number);
                    match table.put(&key, &value).await {
                        Ok(new) => assert!(new),
                        Err(IndexError::HeapFull { .. }) => {
                            refused += 1;
                            continue;
                        }
                        Err(error) => panic!("{error}"),
                    }
                    held.push(key);
                }
                for key in held {
                    let got = table.get(&key).await.unwrap();
                    assert_eq!(got.as_deref(), Some(&value[..]));
                    assert!(table.remove(&key).await.unwrap());
                }
            }
            refused
        })
    };
    let refused: u64 = std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || work(thread)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    println!("{refused} puts refused");
    let (executor, table) = shm_client(&node, &layout, Reads::fixed(8));
    let held = executor.block_on(async {
        let mut held = 0;
        while table.put(&key(held), &RECORD).await.is_ok() {
            held += 1;
        }
        held
    });
    // Each thread keeps at most 256 free blocks, and what was left of its last extent.
    let kept = THREADS * (256 + 4096 / 128);
    assert!(
        held >= BLOCKS - kept - 1,
        "{held} of {BLOCKS} blocks are left"
    );
}

#[test]
fn churn_of_one_size_needs_no_more_than_its_records() {
    // As many records as fit, but for the blocks that rest before they are used again.
    let mut options = HEAP.options(64, 3);
    options.heap_bytes = Some(16 + 128 * (40 + 17));
    churn(&options, 40, 100..=100);
}

#[test]
fn churn_of_all_sizes_leaks_no_block() {
    // Each size class may once have held every record, and its resting blocks.
    let classes: [u64; 13] = [32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384];
    let mut options = HEAP.options(64, 3);
    options.heap_bytes =
        Some(16 + classes.iter().map(|bytes| bytes * (10 + 17)).sum::<u64>() + 4096);
    churn(&options, 10, 0..=300);
}

#[test]
fn churn_of_replaced_inline_records_leaks_no_block() {
    let mut options = INLINE.options(64, 3);
    options.heap_bytes = Some(16 + 48 * (40 + 17));
    churn(&options, 40, 20..=20);
}

/// Puts, updates and removes `keys` keys for long, and holds them to a map.
fn churn(options: &LinearOptions, keys: u64, sizes: std::ops::RangeInclusive<usize>) {
    let (executor, table) = shm_table(options, Reads::fixed(8));
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut records: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
    let key = |number: u64| match options.key {
        FieldSize::Fixed(len) => vec![number as u8; len as usize],
        FieldSize::UpTo(_) => key(number),
    };
    executor.block_on(async {
        for turn in 0..20_000u32 {
            let key = key(rng.random_range(0..keys));
            let value = vec![turn as u8; rng.random_range(sizes.clone())];
            match rng.random_range(0..4) {
                0 => {
                    let removed = table.remove(&key).await.unwrap();
                    assert_eq!(removed, records.remove(&key).is_some());
                }
                1 => {
                    let updated = table.update(&key, &value).await.unwrap();
                    assert_eq!(updated, records.contains_key(&key));
                    records.entry(key).and_modify(|old| *old = value);
                }
                _ => {
                    let put = table.put(&key, &value).await.unwrap();
                    assert_eq!(put, records.insert(key, value).is_none(), "turn {turn}");
                }
            }
        }
        for (key, value) in &records {
            let got = table.get(key).await.unwrap();
            assert_eq!(got.as_deref(), Some(&value[..]));
        }
    });
}

/// A lookup's answer was put by somebody, and no lookup goes back behind an earlier one: with one
/// writer that counts up, a reader sees numbers that only ever grow.
#[test]
fn readers_of_a_hot_key_see_whole_values_in_order() {
    let mut seen = 0;
    for (slot, tight) in [(HEAP, None), (HOT, Some(3 * 128)), (INLINE, Some(3 * 48))] {
        for seed in 0..30 {
            // In a heap of three blocks, one is written again as soon as it was freed.
            let heap_bytes = tight.map(|bytes| 16 + bytes);
            seen += race_updates(slot, heap_bytes, seed);
        }
    }
    println!("{seen} values seen");
    assert!(seen > 10_000);
}

/// Records out of band that are all of one size class.
const HOT: Slot = Slot {
    name: "heap",
    kind: SlotKind::Heap,
    key: FieldSize::Fixed(8),
    value: FieldSize::Fixed(100),
    inline_bytes: None,
};

fn race_updates(slot: Slot, heap_bytes: Option<u64>, seed: u64) -> u64 {
    const UPDATES: u64 = 200;
    let options = LinearOptions {
        heap_bytes,
        ..slot.options(8, seed)
    };
    let layout = options.layout().unwrap();
    let world = world(seed, &layout);
    let chance = |probability, up_to_ns| Chance {
        probability,
        up_to_ns,
    };
    world.set_faults(FaultPlan {
        torn_reads: chance(0.5, 50_000),
        torn_writes: chance(0.5, 5_000),
        late_writes: chance(0.3, 20_000),
        latency: chance(0.3, 10_000),
        ..FaultPlan::default()
    });
    let mut simulation = Simulation::new(world);
    let done = Rc::new(Cell::new(false));
    let (of_layout, finished) = (layout.clone(), Rc::clone(&done));
    let writer = simulation.spawn_client(async move |endpoint| {
        let table = open(endpoint, &of_layout, Reads::fixed(2)).await;
        for number in 1..=UPDATES {
            // Without pauses the readers would hardly ever find a record still there.
            table.endpoint().sleep(number % 7 * 2_000).await;
            let (key, value) = (slot.key(1), slot.value(number));
            assert_eq!(table.put(&key, &value).await.unwrap(), number == 1);
        }
        finished.set(true);
    });
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (layout, done) = (layout.clone(), Rc::clone(&done));
            let client = simulation.add_client(HostId(0), limits());
            simulation.spawn(client, async move |endpoint| {
                let table = open(endpoint, &layout, Reads::fixed(2)).await;
                let (mut last, mut seen) = (0, 0);
                while !done.get() {
                    let got = table.get(&slot.key(1)).await.unwrap();
                    let number = got.map_or(0, |value| slot.number(&value));
                    assert!(number != TORN, "{} {seed}: torn", slot.name);
                    assert!(
                        number >= last,
                        "{} {seed}: {number} after {last}",
                        slot.name
                    );
                    (last, seen) = (number, seen + 1);
                }
                seen
            })
        })
        .collect();
    assert_eq!(simulation.run(), RunEnd::Done);
    writer.try_take().unwrap();
    readers
        .iter()
        .map(|reader| reader.try_take().unwrap())
        .sum()
}
