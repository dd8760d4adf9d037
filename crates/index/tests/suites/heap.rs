//! The heap below a table: its blocks come back to whoever needs them, none is lost, and nobody
//! reads another use of a block than the one that a slot names.

use crate::common::{HEAP, INLINE, Reads, TABLE, new_client, new_node, new_table};
use farslot_index::Sizing;
use farslot_index::heap::{block_bytes, class_for};
use farslot_index::linear::{LinearLayout, LinearOptions, LinearTable};
use farslot_index::{FieldSize, Index, IndexError, IndexExt};
use farslot_testbed::{Fabric, TestNode};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::HashMap;

const RECORD: [u8; 100] = [7; 100];

fn key(number: u64) -> Vec<u8> {
    format!("key {number:05}").into_bytes()
}

pub fn blocks_that_one_client_frees_serve_another(fabric: Fabric) {
    let mut options = HEAP.options(4096, 3);
    options.sizing.heap_bytes = Some(128 << 10);
    let layout = options.layout().unwrap();
    let node = new_node(fabric, &layout);
    let (first_executor, first) = new_client(&node, &layout, Reads::fixed(8));
    let (second_executor, second) = new_client(&node, &layout, Reads::fixed(8));
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
fn blocks_left(node: &TestNode, layout: &LinearLayout) -> u64 {
    let (executor, table) = new_client(node, layout, Reads::fixed(8));
    executor.block_on(async {
        let mut left = 0;
        while table.put(&key(50_000 + left), &RECORD).await.is_ok() {
            left += 1;
        }
        left
    })
}

/// A table of the default heap has room for its capacity, however many clients fill it.
pub fn a_client_for_each_put_fills_a_table(fabric: Fabric) {
    for flushing in [true, false] {
        let puts = u64::from(fabric.cases(1_000));
        let options = LinearOptions {
            sizing: Sizing {
                load_factor: Some(0.9),
                ..HEAP.options(puts, 3).sizing
            },
            ..HEAP.options(puts, 3)
        };
        let layout = options.layout().unwrap();
        let node = new_node(fabric, &layout);
        for number in 0..puts {
            let (executor, table) = new_client(&node, &layout, Reads::fixed(8));
            let put = executor.block_on(table.put(&key(number), &[7; 300]));
            assert!(put.is_ok(), "flushing: {flushing}, put {number}: {put:?}");
            if flushing {
                executor.block_on(table.flush()).unwrap();
            }
        }
    }
}

/// Clients that replace one record, one after the other, need a block or two.
pub fn clients_that_flush_leave_no_free_block_behind(fabric: Fabric) {
    let mut options = HEAP.options(64, 3);
    options.sizing.heap_bytes = Some(16 + 3 * 128);
    let layout = options.layout().unwrap();
    let node = new_node(fabric, &layout);
    for turn in 0..fabric.cases(5_000) {
        let (executor, table) = new_client(&node, &layout, Reads::fixed(8));
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

pub fn a_flush_hands_back_the_rest_of_the_extent(fabric: Fabric) {
    const BLOCKS: u64 = 256;
    let mut options = HEAP.options(1 << 10, 3);
    options.sizing.heap_bytes = Some(16 + BLOCKS * 128);
    let layout = options.layout().unwrap();
    for others_follow in [false, true] {
        let node = new_node(fabric, &layout);
        let (executor, table) = new_client(&node, &layout, Reads::fixed(8));
        let (other_executor, other) = new_client(&node, &layout, Reads::fixed(8));
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

pub fn a_refused_record_takes_nothing(fabric: Fabric) {
    const LARGE: usize = 600 << 10;
    let mut options = LinearOptions {
        sizing: Sizing {
            value: FieldSize::UpTo(1 << 20),
            ..HEAP.options(1 << 14, 3).sizing
        },
        ..HEAP.options(1 << 14, 3)
    };
    options.sizing.heap_bytes = Some(1 << 20);
    let layout = options.layout().unwrap();
    let node = new_node(fabric, &layout);
    let (executor, table) = new_client(&node, &layout, Reads::fixed(8));
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

/// Clients that together want more than there is fight for the free lists. Each finds its own
/// records whole, and in the end no block is lost but those that the clients kept for themselves.
pub fn clients_share_the_free_lists(fabric: Fabric) {
    const CLIENTS: u32 = 3;
    const BLOCKS: u64 = 2_048;
    let mut options = HEAP.options(1 << 14, 3);
    options.sizing.heap_bytes = Some(BLOCKS * 128);
    let layout = options.layout().unwrap();
    let node = new_node(fabric, &layout);
    let of = layout.clone();
    let refused = node.run_clients(CLIENTS, Fabric::limits(), async move |client, endpoint| {
        let sizes = Reads::fixed(8).sizes(&of);
        let table = LinearTable::open(endpoint, TABLE, of.clone(), sizes)
            .await
            .unwrap();
        let mut refused = 0;
        for round in 0..fabric.cases(30) {
            refused += put_and_remove(&table, client, (round * CLIENTS + client) as u8).await;
        }
        refused
    });
    println!("{} puts refused", refused.iter().sum::<u64>());
    // Each client keeps at most 256 free blocks, and what was left of its last extent.
    let kept = u64::from(CLIENTS) * (256 + 4096 / 128);
    let held = blocks_left(&node, &layout);
    assert!(
        held >= BLOCKS - kept - 1,
        "{held} of {BLOCKS} blocks are left"
    );
}

/// Puts 900 records, as far as there is room, finds them and removes them; returns how many were
/// refused.
async fn put_and_remove(table: &impl Index, client: u32, value: u8) -> u64 {
    let value = [value; 100];
    let mut held = Vec::new();
    for number in 0..900 {
        let key = key(u64::from(client) * 1_000 + number);
        match table.put(&key, &value).await {
            Ok(new) => {
                assert!(new);
                held.push(key);
            }
            Err(IndexError::HeapFull { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    for key in &held {
        let got = table.get(key).await.unwrap();
        assert_eq!(got.as_deref(), Some(&value[..]));
        assert!(table.remove(key).await.unwrap());
    }
    900 - held.len() as u64
}

pub fn churn_of_one_size_needs_no_more_than_its_records(fabric: Fabric) {
    // As many records as fit, but for the blocks that rest before they are used again.
    let mut options = HEAP.options(64, 3);
    options.sizing.heap_bytes = Some(16 + 128 * (40 + 17));
    churn(fabric, &options, 40, 100..=100);
}

pub fn churn_of_all_sizes_leaks_no_block(fabric: Fabric) {
    // Each size class may once have held every record, and its resting blocks.
    let classes: [u64; 13] = [32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384];
    let mut options = HEAP.options(64, 3);
    options.sizing.heap_bytes =
        Some(16 + classes.iter().map(|bytes| bytes * (10 + 17)).sum::<u64>() + 4096);
    churn(fabric, &options, 10, 0..=300);
}

pub fn churn_of_replaced_inline_records_leaks_no_block(fabric: Fabric) {
    let mut options = INLINE.options(64, 3);
    options.sizing.heap_bytes = Some(16 + 48 * (40 + 17));
    churn(fabric, &options, 40, 20..=20);
}

/// Puts, updates and removes `keys` keys for long, and holds them to a map.
fn churn(
    fabric: Fabric,
    options: &LinearOptions,
    keys: u64,
    sizes: std::ops::RangeInclusive<usize>,
) {
    let (_node, executor, table) = new_table(fabric, options, Reads::fixed(8));
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut records: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
    let key = |number: u64| match options.sizing.key {
        FieldSize::Fixed(len) => vec![number as u8; len as usize],
        FieldSize::UpTo(_) => key(number),
    };
    executor.block_on(async {
        for turn in 0..fabric.cases(20_000) {
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
