//! Several clients of one table at once: threads, over fabrics in real time, and the races are the
//! machine's own; in the simulator client threads of its own, without faults.

use crate::common::chaos::{Caller, Record, Tally};
use crate::common::{Reads, SLOTS, Slot, TABLE, cuckoo, duo, new_client, new_node, race, sealed};
use farslot_check::{History, RegisterMap, TableOp, TableRet, check};
use farslot_fabric::{Executor, Rights, window};
use farslot_index::cuckoo::{CuckooTable, LookupOrder};
use farslot_index::duo::{DuoGrowth, DuoOwner};
use farslot_index::linear::LinearTable;
use farslot_index::race::RaceTable;
use farslot_index::sealed::{ReadPolicy, SealedTable};
use farslot_index::{Index, IndexError};
use farslot_testbed::Fabric;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::Cell;
use std::sync::Arc;

const CLIENTS: u32 = 3;
const COROUTINES: u32 = 2;
/// Of each coroutine.
const OPERATIONS: u64 = 60;
const KEYS: u64 = 3;
/// Of tables that grow, so that they do.
const MORE_KEYS: u64 = 12;

type Of = History<u64, TableOp<u64>, TableRet<u64>>;

/// What a client does: random operations on few keys, recorded. One that may not write looks.
async fn work(
    table: &impl Index,
    (slot, keys): (Slot, u64),
    client: u32,
    seed: u64,
    writes: bool,
) -> (Of, Tally) {
    let (record, tally) = (Record::new(), Cell::new(Tally::default()));
    let coroutines = (0..COROUTINES).map(|coroutine| {
        let client = client * COROUTINES + coroutine;
        let caller = Caller {
            table,
            slot,
            record: &record,
            tally: &tally,
            client,
        };
        let mut rng = ChaCha8Rng::seed_from_u64(seed * 1_000 + u64::from(client));
        async move {
            for turn in 0..OPERATIONS {
                let key = rng.random_range(0..keys);
                let value = slot.fitted(u64::from(client) * OPERATIONS + turn + 1);
                let op = match rng.random_range(0..10) {
                    _ if !writes => TableOp::Get,
                    0..3 => TableOp::Get,
                    3..5 => TableOp::Put(value),
                    5..7 => TableOp::FindOrPut(value),
                    7 => TableOp::Update(value),
                    _ => TableOp::Remove,
                };
                caller.run(key, op).await;
            }
        }
    });
    window(COROUTINES as usize, coroutines, |_, ()| {}).await;
    (record.take(), tally.get())
}

/// What is there in the end, as lookups and a scan of a client more.
async fn look_around(table: &impl Index, slot: Slot, keys: u64) -> Of {
    let (record, tally) = (Record::new(), Cell::new(Tally::default()));
    let caller = Caller {
        table,
        slot,
        record: &record,
        tally: &tally,
        client: 99,
    };
    for key in 0..keys {
        caller.run(key, TableOp::Get).await;
    }
    caller.scan(keys).await;
    record.take()
}

/// Judges what the clients of a table, and who came after them, have recorded. Returns the clients'
/// tallies, and whether some of them were at work at the same time.
fn judge(slot: Slot, seed: u64, worked: Vec<(Of, Tally)>, after: Of) -> (Tally, bool) {
    let mut total = Tally::default();
    let mut histories = Vec::new();
    for (history, tally) in worked {
        total += tally;
        histories.push(history);
    }
    let side_by_side = overlap(&histories);
    let history = History::merge(histories.into_iter().chain([after]));
    if let Err(error) = check(&history, &RegisterMap::new()) {
        panic!("{}, table {seed}: {error}", slot.name);
    }
    (total, side_by_side)
}

/// Whether some clients were at work at the same time.
fn overlap(histories: &[Of]) -> bool {
    let starts = histories.iter().map(|history| {
        let starts = history.entries().iter().map(|entry| entry.start);
        (starts.clone().min().unwrap(), starts.max().unwrap())
    });
    let spans: Vec<(u64, u64)> = starts.collect();
    (1..spans.len()).any(|at| spans[at - 1].0 < spans[at].1 && spans[at].0 < spans[at - 1].1)
}

pub fn of_a_linear_table_are_linearizable(fabric: Fabric) {
    let (mut overlapping, mut total) = (0, Tally::default());
    for slot in SLOTS {
        for seed in 0..u64::from(fabric.cases(60)) {
            // Every third table is full with all but one of the keys.
            let slots = if seed.is_multiple_of(3) { KEYS - 1 } else { 8 };
            let layout = slot.options(slots, seed).layout().unwrap();
            let node = new_node(fabric, &layout);
            let reads = Reads {
                fixed: [Some(1), Some(3), None][seed as usize % 3],
                look_ahead: seed.is_multiple_of(5),
            };
            let of = layout.clone();
            let worked =
                node.run_clients(CLIENTS, Fabric::limits(), async move |client, endpoint| {
                    let opening = LinearTable::open(endpoint, TABLE, of.clone(), reads.sizes(&of));
                    work(&opening.await.unwrap(), (slot, KEYS), client, seed, true).await
                });
            let (executor, table) = new_client(&node, &layout, reads);
            let after = executor.block_on(look_around(&table, slot, KEYS));
            let (tally, side_by_side) = judge(slot, seed, worked, after);
            total += tally;
            overlapping += u64::from(side_by_side);
        }
    }
    println!("{overlapping} tables with clients side by side, {total:?}");
    assert!(overlapping > 0 && total.full > 0 && total.seen > 0);
}

/// The first client writes, the others look meanwhile.
pub fn of_a_cuckoo_table_are_linearizable(fabric: Fabric) {
    let (mut overlapping, mut total) = (0, Tally::default());
    for slot in cuckoo::SLOTS {
        for seed in 0..u64::from(fabric.cases(60)) {
            let shape = cuckoo::ways(2 + seed as u32 % 3, 1 + seed as u32 % 4);
            let layout = cuckoo::options(slot, 4, shape, seed).layout().unwrap();
            let node = cuckoo::new_node(fabric, &layout);
            let order = cuckoo::ORDERS[seed as usize % 3];
            let of = layout.clone();
            let worked =
                node.run_clients(CLIENTS, Fabric::limits(), async move |client, endpoint| {
                    let opening = CuckooTable::open(endpoint, TABLE, of.clone(), order);
                    let table = opening.await.unwrap();
                    work(&table, (slot, KEYS), client, seed, client == 0).await
                });
            let (executor, table) = cuckoo::new_client(&node, &layout, LookupOrder::Parallel);
            let after = executor.block_on(look_around(&table, slot, KEYS));
            let (tally, side_by_side) = judge(slot, seed, worked, after);
            total += tally;
            overlapping += u64::from(side_by_side);
        }
    }
    println!("{overlapping} tables with clients side by side, {total:?}");
    assert!(overlapping > 0 && total.seen > 0);
}

/// Every other table grows meanwhile.
pub fn of_a_race_table_are_linearizable(fabric: Fabric) {
    let (mut overlapping, mut total, mut grown) = (0, Tally::default(), 0);
    for slot in [race::VARIED, race::SHORT] {
        for seed in 0..u64::from(fabric.cases(60)) {
            let dimensions = race::Dimensions {
                bucket_slots: 1 + seed as u32 % 3 / 2,
                groups: 1 + seed % 5 / 4,
                roots: 1,
                most_subtables: 1 + seed % 2 * 15,
            };
            let layout = dimensions.layout(slot, seed, None);
            let node = race::new_node(fabric, &layout);
            let of = layout.clone();
            let worked =
                node.run_clients(CLIENTS, Fabric::limits(), async move |client, endpoint| {
                    let table = RaceTable::open(endpoint, TABLE, of.clone()).await.unwrap();
                    work(&table, (slot, MORE_KEYS), client, seed, true).await
                });
            let (executor, table) = race::new_client(&node, &layout);
            let after = executor.block_on(look_around(&table, slot, MORE_KEYS));
            grown += u64::from(table.subtables() > 1);
            let (tally, side_by_side) = judge(slot, seed, worked, after);
            total += tally;
            overlapping += u64::from(side_by_side);
        }
    }
    println!("{overlapping} tables with clients side by side, {grown} grown, {total:?}");
    assert!(overlapping > 0 && grown > 0 && total.full > 0 && total.seen > 0);
}

/// The clients are threads of one owner. Every other table grows meanwhile.
pub fn of_a_duo_owners_threads_are_linearizable(fabric: Fabric) {
    let (mut overlapping, mut total, mut grown) = (0, Tally::default(), 0);
    for slot in duo::SLOTS {
        for seed in 0..u64::from(fabric.cases(60)) {
            let grows = seed % 2 == 1;
            let dimensions = duo::Dimensions {
                // Those that do not grow are full with all but two of the keys.
                slots: if grows { 2 } else { 8 },
                bucket_slots: 1 + seed as u32 % 3 / 2,
                fingerprint_bits: 8,
                longest_path: 3,
                stash: 2,
                readers: !grows && seed % 4 == 0,
            };
            let layout = dimensions.layout(slot, seed);
            let growth = DuoGrowth::from(duo::memory_behind(&layout, 1 << 20));
            let node = fabric.start(&[(duo::growing_bytes(&growth.memory), Rights::ALL)]);
            let owner = DuoOwner::new(TABLE, layout.clone()).unwrap();
            let of = Arc::clone(&owner);
            let worked =
                node.run_clients(CLIENTS, Fabric::limits(), async move |client, endpoint| {
                    let table = of.table(endpoint);
                    let table = match grows {
                        true => table.with_growth(growth).unwrap(),
                        false => table,
                    };
                    work(&table, (slot, MORE_KEYS), client, seed, true).await
                });
            let endpoint = node.connect(Fabric::limits());
            let executor = Executor::new(endpoint);
            // The next owner finds what the threads of this one have left.
            let after = executor.block_on(async {
                let resigning = owner.table(executor.endpoint().clone());
                resigning.resign().await.unwrap();
                let next = DuoOwner::new(TABLE, layout).unwrap();
                let table = next.table(executor.endpoint().clone());
                let after = look_around(&table, slot, MORE_KEYS).await;
                grown += u64::from(table.slots() > dimensions.slots);
                after
            });
            let (tally, side_by_side) = judge(slot, seed, worked, after);
            total += tally;
            overlapping += u64::from(side_by_side);
        }
    }
    println!("{overlapping} tables with threads side by side, {grown} grown, {total:?}");
    assert!(overlapping > 0 && grown > 0 && total.full > 0 && total.seen > 0);
}

/// One client builds, the others look until it has: each is told that the table is not built, or
/// finds all of it.
pub fn of_a_sealed_table_find_all_or_nothing(fabric: Fabric) {
    let mut early = 0;
    for shape in sealed::shapes() {
        let record = move |number: u16| (shape.key(number), shape.value(u64::from(number)));
        let records: Vec<_> = (0..200).map(record).collect();
        let pairs: Vec<(&[u8], &[u8])> = records.iter().map(|(k, v)| (&k[..], &v[..])).collect();
        let layout = shape.options(0.9).layout_for(&pairs).unwrap();
        let node = sealed::new_node(fabric, &layout);
        let told = node.run_clients(CLIENTS, Fabric::limits(), async move |client, endpoint| {
            let opening = SealedTable::open(endpoint, TABLE, layout.clone(), ReadPolicy::Fixed(4));
            let table = opening.await.unwrap();
            if client == 0 {
                let pairs: Vec<_> = records.iter().map(|(k, v)| (&k[..], &v[..])).collect();
                table.build(&pairs).await.unwrap();
            }
            let mut not_built = 0;
            for (key, value) in &records {
                let got = loop {
                    match table.get(key).await {
                        Err(IndexError::NotBuilt) => not_built += 1,
                        got => break got.unwrap(),
                    }
                };
                assert_eq!(got.as_deref(), Some(&value[..]), "{shape:?}");
            }
            assert!(table.get(&shape.key(300)).await.unwrap().is_none());
            not_built
        });
        assert_eq!(told[0], 0, "who has built it finds it built");
        early += told.iter().sum::<u32>();
    }
    println!("{early} lookups came too early");
    assert!(early > 0);
}
