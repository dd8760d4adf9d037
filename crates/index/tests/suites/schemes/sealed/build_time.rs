//! How long it takes to build a large table: paper 000's 8-byte records.

use crate::common::sealed::new_table;
use farslot_index::Sizing;
use farslot_index::sealed::{ReadPolicy, SealedOptions, SlotOrder};
use farslot_index::{FieldSize, Index};
use farslot_testbed::Fabric;
use std::time::Instant;

fn build(records: u64, order: SlotOrder) {
    let keys: Vec<[u8; 8]> = (0..records).map(|key| key.to_le_bytes()).collect();
    let pairs: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&key[..], &[][..])).collect();
    let options = SealedOptions {
        order,
        ..SealedOptions::new(Sizing::new(0, FieldSize::Fixed(8), FieldSize::Fixed(0), 1))
    };
    let started = Instant::now();
    let layout = options.layout_for(&pairs).unwrap();
    let laid_out = started.elapsed();
    let (_node, executor, table) = new_table(Fabric::Shm, &layout, ReadPolicy::Fixed(16));
    let started = Instant::now();
    executor.block_on(table.build(&pairs)).unwrap();
    println!(
        "{records} records, {order:?}: layout {laid_out:.1?}, build {:.1?}",
        started.elapsed()
    );
    executor.block_on(async {
        for number in (0..records).step_by(99_991) {
            assert!(table.get(&number.to_le_bytes()).await.unwrap().is_some());
            let absent = (records + number).to_le_bytes();
            assert!(table.get(&absent).await.unwrap().is_none());
        }
    });
}

/// `cargo test --release -p farslot-index --test suites schemes::sealed::build_time -- --ignored
/// --nocapture`
#[test]
#[ignore = "takes 8 GB of memory, and a release build to say anything"]
fn ten_to_the_eighth_records() {
    for order in [SlotOrder::ByHash, SlotOrder::Arrival] {
        build(100_000_000, order);
    }
}

#[test]
fn a_million_records() {
    for order in [SlotOrder::ByHash, SlotOrder::Arrival] {
        build(1_000_000, order);
    }
}
