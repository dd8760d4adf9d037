//! The heap below a table: its memory comes back to whoever needs it, for records of any size, none
//! is lost, and nobody reads another use of a block than the one that a slot names.

use crate::common::{HEAP, INLINE, Reads, TABLE, new_client, new_node, new_table};
use farslot_index::Sizing;
use farslot_index::linear::{LinearLayout, LinearOptions, LinearTable};
use farslot_index::{FieldSize, Index, IndexError, IndexExt, Operation};
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
    // All but the runs that the first client appends to.
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
    // And back, several times.
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

/// A table of the default heap has room for its capacity, however many clients fill it: each may
/// leave behind a run that it appended to, if it does not flush.
pub fn a_client_for_each_put_fills_a_table(fabric: Fabric) {
    for (flushing, puts_each) in [(true, 1), (false, 100)] {
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
        for first in (0..puts).step_by(puts_each) {
            let (executor, table) = new_client(&node, &layout, Reads::fixed(8));
            for number in first..puts.min(first + puts_each as u64) {
                let put = executor.block_on(table.put(&key(number), &[7; 300]));
                assert!(put.is_ok(), "flushing: {flushing}, put {number}: {put:?}");
            }
            if flushing {
                executor.block_on(table.flush()).unwrap();
            }
        }
    }
}

/// Clients that replace one record, one after the other, need a page or two.
pub fn clients_that_flush_leave_nothing_behind(fabric: Fabric) {
    let mut options = HEAP.options(64, 3);
    options.sizing.heap_bytes = Some(16 << 10);
    let layout = options.layout().unwrap();
    let node = new_node(fabric, &layout);
    let mut most = 0;
    for turn in 0..fabric.cases(5_000) {
        let (executor, table) = new_client(&node, &layout, Reads::fixed(8));
        executor.block_on(async {
            let mut value = RECORD;
            value[..4].copy_from_slice(&turn.to_le_bytes());
            table.put(&key(1), &value).await.unwrap();
            table.flush().await.unwrap();
            let got = table.get(&key(1)).await.unwrap();
            assert_eq!(got.as_deref(), Some(&value[..]));
            most = most.max(table.occupancy().await.unwrap().heap_used);
        });
    }
    assert!(most <= 2 << 10, "{most} bytes in use");
}

/// Who flushes leaves its run to whoever comes next: records of one client stand behind those of
/// another.
pub fn a_flush_leaves_the_rest_of_a_run_to_others(fabric: Fabric) {
    let mut options = HEAP.options(1 << 10, 3);
    options.sizing.heap_bytes = Some(512 << 10);
    let layout = options.layout().unwrap();
    let node = new_node(fabric, &layout);
    let clients: Vec<_> = (0..4)
        .map(|_| new_client(&node, &layout, Reads::fixed(8)))
        .collect();
    let used = || {
        let (executor, table) = &clients[0];
        executor.block_on(table.occupancy()).unwrap().heap_used
    };
    let mut of_one = 0;
    for round in 0..6 {
        for (client, (executor, table)) in (0..).zip(&clients) {
            executor.block_on(async {
                table.put(&key(round * 4 + client), &RECORD).await.unwrap();
                table.flush().await.unwrap();
            });
        }
        of_one = if round == 0 { used() } else { of_one };
    }
    assert!(of_one > 0);
    assert_eq!(used(), of_one, "all went into one page");
    for number in 0..24 {
        let (executor, table) = &clients[number as usize % 3];
        let got = executor.block_on(table.get(&key(number))).unwrap();
        assert_eq!(got.as_deref(), Some(&RECORD[..]));
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
        let mut small = 0;
        while table.put(&key(10 + small), &RECORD).await.is_ok() {
            small += 1;
        }
        // But for the pages that are left to those that move records.
        let left = ((1 << 20) - LARGE as u64) / 128;
        assert!(small > left * 4 / 5, "{small} of {left}");
    });
}

/// What one size has left, another can have at once: values of 1,000 bytes, then of 100 kB, of 10
/// bytes, of a megabyte, and of all of these, each time in four fifths of the heap.
pub fn a_heap_takes_any_sizes_at_any_time(fabric: Fabric) {
    const HEAP_BYTES: u64 = 8 << 20;
    // What a record counts beside its key and its value.
    const OF_A_RECORD: u64 = 32;
    let mut options = LinearOptions {
        sizing: Sizing {
            value: FieldSize::UpTo(1_000_000),
            ..HEAP.options(1 << 20, 3).sizing
        },
        ..HEAP.options(1 << 20, 3)
    };
    options.sizing.heap_bytes = Some(HEAP_BYTES);
    let layout = options.layout().unwrap();
    let node = new_node(fabric, &layout);
    let (executor, table) = new_client(&node, &layout, Reads::fixed(8));
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mixed = [1_000, 100_000, 10, 1_000_000, 5_000];
    let rounds: [&[usize]; 8] = [
        &[1_000],
        &[100_000],
        &[10],
        &[1_000_000],
        &mixed,
        &[5_000],
        &[1_000_000],
        &[1_000],
    ];
    executor.block_on(async {
        for (round, sizes) in rounds.into_iter().enumerate() {
            let (mut held, mut number) = (0, 0);
            loop {
                let size = sizes[rng.random_range(0..sizes.len())];
                let value = vec![round as u8; size];
                match table.put(&key(number), &value).await {
                    Ok(is_new) => assert!(is_new),
                    Err(IndexError::HeapFull { .. }) => break,
                    Err(error) => panic!("{error}"),
                }
                held += (key(number).len() + size) as u64 + OF_A_RECORD;
                number += 1;
            }
            let part = held as f64 / HEAP_BYTES as f64;
            println!("values of {sizes:?} bytes: {part:.3} of the heap, {number} records");
            assert!(part >= 0.8, "{part} of values of {sizes:?} bytes");
            let keys: Vec<_> = (0..number).map(key).collect();
            let removals: Vec<_> = keys.iter().map(|key| Operation::Remove(key)).collect();
            let mut removed = 0;
            let removing = table.run_each(&removals, |_, outcome| {
                removed += u64::from(outcome.unwrap().is_changed());
            });
            removing.await;
            assert_eq!(removed, number);
        }
    });
}

/// The records that a table's heap still has room for, as one new client finds it.
fn records_left(node: &TestNode, layout: &LinearLayout) -> u64 {
    let (executor, table) = new_client(node, layout, Reads::fixed(8));
    executor.block_on(async {
        let mut left = 0;
        while table.put(&key(50_000 + left), &RECORD).await.is_ok() {
            left += 1;
        }
        left
    })
}

/// Clients that together want more than there is fight for the pages. Each finds its own records
/// whole, and in the end nothing is lost but the runs that the clients append to.
pub fn clients_share_a_heap(fabric: Fabric) {
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
    // Pages have 64 blocks; each client has four open at most, and one is left to who moves.
    let kept = (u64::from(CLIENTS) * 4 + 2) * 64;
    let held = records_left(&node, &layout);
    assert!(held >= BLOCKS - kept, "{held} of {BLOCKS} blocks are left");
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
    // Half as much again as the records.
    let mut options = HEAP.options(64, 3);
    options.sizing.heap_bytes = Some(128 * 60);
    churn(fabric, &options, 40, 100..=100);
}

pub fn churn_of_all_sizes_leaks_no_block(fabric: Fabric) {
    let mut options = HEAP.options(64, 3);
    options.sizing.heap_bytes = Some(336 * 30);
    churn(fabric, &options, 10, 0..=300);
}

pub fn churn_of_replaced_inline_records_leaks_no_block(fabric: Fabric) {
    let mut options = INLINE.options(64, 3);
    options.sizing.heap_bytes = Some(48 * 120);
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
