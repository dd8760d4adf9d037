//! Records move to other blocks of the heap, and are removed, only where their keys' slots name
//! exactly the block that is told.

use crate::common::duo::{Dimensions, region_bytes};
use crate::common::{
    HEAP, HYBRID, INLINE, Reads, Slot, TABLE, cuckoo, new_client, new_node, race, scan_all,
};
use farslot_fabric::{Executor, Rights};
use farslot_index::cuckoo::LookupOrder;
use farslot_index::duo::DuoTable;
use farslot_index::heap::{BlockRef, Record};
use farslot_index::internals::{Relocate, Relocation, records_in_pages};
use farslot_index::linear::{KeyRule, LinearOptions};
use farslot_index::{IndexExt, Sizing};
use farslot_testbed::{AnyEndpoint, Fabric};
use std::collections::BTreeSet;

const SLOTS: u64 = 256;
const KEYS: u64 = 120;
const SEED: u64 = 7;

pub fn of_records_of_linear_tables(fabric: Fabric) {
    // Of several records of a key, each inline one has a slot of its own.
    let kinds = [
        (INLINE, KeyRule::Unique),
        (HEAP, KeyRule::Unique),
        (HEAP, KeyRule::Multi),
        (HYBRID, KeyRule::Unique),
        (HYBRID, KeyRule::Multi),
    ];
    for (slot, keys) in kinds {
        let options = slot.options(SLOTS, SEED);
        let sizing = Sizing {
            keys,
            ..options.sizing
        };
        let layout = LinearOptions { sizing, ..options }.layout().unwrap();
        for records in [0, KEYS as usize] {
            let node = new_node(fabric, &layout);
            let (executor, table) = new_client(&node, &layout, Reads::fixed(4));
            let table = table.with_record_locations(records);
            relocate(&executor, &table, slot);
        }
    }
}

pub fn of_records_of_race_tables(fabric: Fabric) {
    let dimensions = race::Dimensions {
        bucket_slots: 4,
        groups: 2,
        roots: 1,
        most_subtables: 16,
    };
    for slot in [race::VARIED, race::SHORT] {
        let layout = dimensions.layout(slot, SEED, None);
        let node = race::new_node(fabric, &layout);
        let (executor, table) = race::new_client(&node, &layout);
        relocate(&executor, &table, slot);
    }
}

pub fn of_records_of_cuckoo_tables(fabric: Fabric) {
    for predetermines in [false, true] {
        let options = cuckoo::options(HEAP, SLOTS, cuckoo::ways(2, 4), SEED);
        let layout = options.layout().unwrap();
        let node = cuckoo::new_node(fabric, &layout);
        let (executor, table) = cuckoo::new_client(&node, &layout, LookupOrder::Parallel);
        let table = match predetermines {
            true => table.with_predetermination().unwrap(),
            false => table,
        };
        relocate(&executor, &table, HEAP);
    }
}

pub fn of_records_of_duo_tables(fabric: Fabric) {
    for readers in [false, true] {
        let dimensions = Dimensions {
            // Many slots match that are other keys'.
            fingerprint_bits: 8,
            readers,
            ..Dimensions::of_paper(SLOTS)
        };
        let layout = dimensions.layout(HEAP, SEED);
        let node = fabric.start(&[(region_bytes(&layout), Rights::ALL)]);
        let endpoint = node.connect(Fabric::limits());
        let executor = Executor::new(endpoint.clone());
        let table = DuoTable::open(endpoint, TABLE, layout).unwrap();
        relocate(&executor, &table, HEAP);
    }
}

fn relocate(
    executor: &Executor<AnyEndpoint>,
    table: &impl Relocate<Endpoint = AnyEndpoint>,
    slot: Slot,
) {
    executor.block_on(async {
        // Where records stand in their slots at first, the second one of a key does not.
        for round in [0, 1_000] {
            for key in 0..KEYS {
                let value = slot.value(round + key);
                table.put(&slot.key(key), &value).await.unwrap();
            }
        }
        let (before, counted) = (records(table).await, counts(table).await);
        let named = named_records(table, &BTreeSet::new()).await;
        let least = if slot.kind == HEAP.kind { KEYS } else { 1 };
        assert!(
            named.len() as u64 >= least,
            "{}: {}",
            slot.name,
            named.len()
        );

        moves_them_all(table, &named).await;
        let dead = packed(&named);
        let moved = named_records(table, &dead).await;
        assert_eq!(records(table).await, before, "{}", slot.name);
        assert_eq!(counts(table).await, counted, "{}", slot.name);
        let blocks = packed(&moved);
        assert_eq!(moved.len(), named.len());
        assert!(blocks.is_disjoint(&packed(&named)), "{}", slot.name);

        leaves_others_alone(table, slot, named.iter().map(|(block, of)| (*block, of))).await;
        let near = moved.iter().flat_map(|(block, record)| {
            let near = [
                BlockRef {
                    granule: block.granule ^ 1,
                    ..*block
                },
                BlockRef {
                    generation: block.generation ^ 1,
                    ..*block
                },
                BlockRef {
                    class: block.class ^ 1,
                    ..*block
                },
            ];
            near.map(|block| (block, record))
        });
        leaves_others_alone(table, slot, near).await;
        assert_eq!(packed(&named_records(table, &dead).await), blocks);
        assert_eq!(records(table).await, before, "{}", slot.name);
        assert_eq!(counts(table).await, counted, "{}", slot.name);

        removes_some(table, &moved, before).await;
        let left = counts(table).await.0 + moved.len().div_ceil(2) as u64;
        assert_eq!(left, counted.0, "{}", slot.name);
        // What is left can be written as ever.
        for key in 0..KEYS {
            table.remove(&slot.key(key)).await.unwrap();
        }
        assert!(records(table).await.is_empty() && counts(table).await.0 == 0);
    });
}

/// The records out of band that slots name: those of the table whose blocks are not known to be
/// dead.
async fn named_records(table: &impl Relocate, dead: &BTreeSet<u64>) -> Vec<(BlockRef, Record)> {
    let mut named = records_in_pages(table).await.unwrap();
    let there = records(table).await;
    named.retain(|(block, record)| {
        let record = (record.key().to_vec(), record.value().to_vec());
        !dead.contains(&block.pack()) && there.binary_search(&record).is_ok()
    });
    named
}

/// Moves all of them, the first by itself.
async fn moves_them_all(table: &impl Relocate, named: &[(BlockRef, Record)]) {
    let moves = named.iter().map(|(block, record)| Relocation {
        key: record.key(),
        value: Some(record.value()),
        block: *block,
    });
    let moves: Vec<_> = moves.collect();
    let (first, others) = moves.split_at(1);
    assert_eq!(answers(table, first).await, [true]);
    assert_eq!(answers(table, others).await, vec![true; others.len()]);
}

/// Tries to change records in blocks where they are not.
async fn leaves_others_alone<'r>(
    table: &impl Relocate,
    slot: Slot,
    blocks: impl Iterator<Item = (BlockRef, &'r Record)>,
) {
    let other = slot.value(5_000);
    let changes = blocks.flat_map(|(block, record)| {
        [Some(&other[..]), None].map(|value| Relocation {
            key: record.key(),
            value,
            block,
        })
    });
    let changes: Vec<_> = changes.collect();
    assert_eq!(answers(table, &changes).await, vec![false; changes.len()]);
    assert_eq!(answers(table, &changes[..1]).await, [false]);
}

/// Removes every second record in its block, twice, from those that there are.
async fn removes_some(
    table: &impl Relocate,
    named: &[(BlockRef, Record)],
    mut records_before: Vec<(Vec<u8>, Vec<u8>)>,
) {
    let removals = named.iter().step_by(2).map(|(block, record)| Relocation {
        key: record.key(),
        value: None,
        block: *block,
    });
    let removals: Vec<_> = removals.collect();
    assert_eq!(answers(table, &removals).await, vec![true; removals.len()]);
    assert_eq!(answers(table, &removals).await, vec![false; removals.len()]);
    for (_, record) in named.iter().step_by(2) {
        let is_it =
            |(key, value): &(Vec<u8>, Vec<u8>)| *key == record.key() && *value == record.value();
        let at = records_before.iter().position(is_it).unwrap();
        records_before.remove(at);
    }
    assert_eq!(records(table).await, records_before);
}

/// What the relocations have come to, each once.
async fn answers(table: &impl Relocate, relocations: &[Relocation<'_>]) -> Vec<bool> {
    let mut answers = vec![None; relocations.len()];
    let mut done = |number: usize, outcome: farslot_index::Result<bool>| {
        let twice = answers[number].replace(outcome.unwrap());
        assert_eq!(twice, None, "a relocation has one outcome");
    };
    table.relocate(relocations, &mut done).await;
    answers.into_iter().map(Option::unwrap).collect()
}

/// All records, sorted.
async fn records(table: &impl Relocate) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut records = scan_all(table).await.unwrap();
    records.sort();
    records
}

/// Entries and used slots.
async fn counts(table: &impl Relocate) -> (u64, u64) {
    table.flush().await.unwrap();
    let occupancy = table.occupancy().await.unwrap();
    (occupancy.entries, occupancy.used_slots)
}

fn packed(named: &[(BlockRef, Record)]) -> BTreeSet<u64> {
    named.iter().map(|(block, _)| block.pack()).collect()
}
