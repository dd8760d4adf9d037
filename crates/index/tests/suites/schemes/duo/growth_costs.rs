//! What growth costs, as the endpoint counts it and in simulated time, and what it does not cost
//! the operations that go on meanwhile.

use crate::common::costs::{cost_of_one, most_round_trips, spent};
use crate::common::duo::{
    Dimensions, ShmTable, growing, growing_bytes, growing_node, growing_world, memory_behind,
    shm_client,
};
use crate::common::{INLINE, Slot};
use farslot_fabric::shm::{Node, RegionSpec};
use farslot_fabric::{Endpoint, Executor, Limits, RegionId, RemoteAddr, Rights};
use farslot_index::duo::{DuoGrowth, DuoLayout, GrowthMemory};
use farslot_index::{FieldSize, GET, Index, IndexError, IndexExt, PUT, REMOVE, UPDATE, UPKEEP};
use farslot_testbed::AnyEndpoint;
use std::rc::Rc;

/// The paper's keys and values in its simulations.
const RECORD: Slot = Slot {
    name: "short",
    key: FieldSize::Fixed(8),
    value: FieldSize::Fixed(8),
    ..INLINE
};

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

fn table_of(slots: u64, seed: u64) -> (Executor<AnyEndpoint>, ShmTable, GrowthMemory, DuoLayout) {
    let layout = Dimensions::of_paper(slots).layout(RECORD, seed);
    let memory = memory_behind(&layout, 64 << 20);
    let (executor, table) = shm_client(&growing_node(&memory), &layout);
    executor.block_on(table.start()).unwrap();
    (executor, table, memory, layout)
}

async fn fill(table: &impl Index, keys: std::ops::Range<u64>) {
    for number in keys {
        assert!(table.put(&key(number), &[7; 8]).await.unwrap());
    }
}

#[test]
fn a_growth_begins_with_four_round_trips_whatever_the_tables_size() {
    for slots in [1 << 8, 1 << 14] {
        let (executor, table, memory, _) = table_of(slots, 1);
        executor.block_on(fill(&table, 0..slots * 9 / 10));
        let (begun, grown) = spent(&executor, UPKEEP, table.grow(&memory, 3));
        grown.unwrap();
        // The header is read, memory is taken, the entry is written and counted.
        assert_eq!((begun.verbs, begun.round_trips), (5, 4), "{slots}");
        assert_eq!(table.slots(), 3 * table.layout().slots());
        assert_eq!(table.unsplit(), 2 * table.layout().buckets);
    }
}

/// Verbs and round trips of single writes, of each class, of a table that has grown.
fn costs_of_writes(readers: bool, memory_is_mapped: bool) -> Vec<(u64, u64)> {
    let dimensions = Dimensions {
        readers,
        ..Dimensions::of_paper(1 << 8)
    };
    let layout = dimensions.layout(RECORD, 3);
    let behind = memory_behind(&layout, 1 << 20);
    let start = RemoteAddr {
        region: RegionId(1),
        offset: 0,
        ..behind.start
    };
    let memory = match memory_is_mapped {
        true => behind,
        false => GrowthMemory { start, ..behind },
    };
    let region = |len| RegionSpec {
        len,
        rights: Rights::ALL,
    };
    let regions = [growing_bytes(&behind), behind.bytes].map(region);
    let (executor, table) = shm_client(&Node::embedded(&regions).unwrap(), &layout);
    executor.block_on(async {
        fill(&table, 0..200).await;
        table.grow(&memory, 4).await.unwrap();
        table.sweep().await.unwrap();
    });
    let mut costs = Vec::new();
    for number in 0..300 {
        let key = key(number);
        let is_there = number < 200;
        costs.push(cost_of_one(&executor, UPDATE, async {
            assert_eq!(table.update(&key, &[8; 8]).await, Ok(is_there));
        }));
        costs.push(cost_of_one(&executor, PUT, async {
            assert_eq!(table.put(&key, &[9; 8]).await, Ok(!is_there));
        }));
        costs.push(cost_of_one(&executor, REMOVE, async {
            assert_eq!(table.remove(&key).await, Ok(true));
        }));
    }
    costs
}

/// What is fetched before it is looked at, where the memory is mapped, is no READ elsewhere.
#[test]
fn writes_read_no_more_where_the_table_has_grown_beyond_the_mapping() {
    for readers in [false, true] {
        let [mapped, apart] = [true, false].map(|is_mapped| costs_of_writes(readers, is_mapped));
        for (number, (mapped, apart)) in mapped.iter().zip(&apart).enumerate() {
            assert_eq!(mapped, apart, "write {number}, readers: {readers}");
        }
    }
}

#[test]
fn a_sweep_reads_the_old_buckets_once_and_writes_less_than_all_of_the_new_ones() {
    for ratio in [2, 3, 5] {
        let (executor, table, memory, layout) = table_of(1 << 14, 2);
        executor.block_on(fill(&table, 0..(1 << 14) * 9 / 10));
        executor.block_on(table.grow(&memory, ratio)).unwrap();
        let (swept, done) = spent(&executor, UPKEEP, table.sweep());
        done.unwrap();
        let arrays = layout.slots() * layout.slot_bytes() as u64;
        let most = arrays * (1 + ratio);
        println!("r = {ratio}: {swept:?}, {arrays} bytes before");
        assert!(swept.bytes > arrays * 5 / 2 && swept.bytes < most + most / 50);
        let pieces = arrays.div_ceil(8 << 10);
        assert!(swept.round_trips <= 2 * pieces + 8);
        // Besides those of whole runs of buckets, each message saves more than 256 bytes.
        let saved = most.saturating_sub(swept.bytes) / 256;
        assert!(swept.verbs <= (ratio + 4) * 2 * (pieces + 2) + saved);
        assert_eq!(table.unsplit(), 0);
        executor.block_on(async {
            for number in 0..(1 << 14) * 9 / 10 {
                assert!(table.get(&key(number)).await.unwrap().is_some());
            }
        });
    }
}

/// Of records that are worth a message, only those that go to new buckets are written, and heads of
/// those that have gone.
#[test]
fn a_sweep_of_large_records_writes_those_that_go() {
    let large = Slot {
        name: "large",
        key: FieldSize::Fixed(8),
        value: FieldSize::Fixed(2_000),
        ..INLINE
    };
    let layout = Dimensions::of_paper(1 << 10).layout(large, 2);
    let memory = memory_behind(&layout, 16 << 20);
    let (executor, table) = shm_client(&growing_node(&memory), &layout);
    let keys = (1 << 10) * 9 / 10;
    let value = |number: u64| [number as u8 | 1; 2_000];
    executor.block_on(async {
        for number in 0..keys {
            table.put(&key(number), &value(number)).await.unwrap();
        }
        table.grow(&memory, 2).await.unwrap();
    });
    let (swept, done) = spent(&executor, UPKEEP, table.sweep());
    done.unwrap();
    let slot = layout.slot_bytes() as u64;
    let (arrays, gone) = (layout.slots() * slot, keys * slot / 2);
    println!("{swept:?}, {arrays} bytes before, some {gone} of records that go");
    assert!(swept.bytes > arrays + gone * 9 / 10 && swept.bytes < arrays + gone * 23 / 20);
    executor.block_on(async {
        for number in 0..keys {
            let found = table.get(&key(number)).await.unwrap();
            assert_eq!(found.as_deref(), Some(&value(number)[..]), "{number}");
        }
        // The next owner finds the same in the vault.
        table.resign().await.unwrap();
        table.start().await.unwrap();
        assert_eq!(table.work().copies_removed, 0, "no dead slot looks live");
        for number in 0..keys {
            assert!(table.get(&key(number)).await.unwrap().is_some());
        }
    });
}

#[test]
fn lookups_updates_and_removals_cost_what_they_always_do() {
    let (executor, table, memory, _) = table_of(1 << 13, 3);
    let keys = (1 << 13) * 9 / 10;
    executor.block_on(fill(&table, 0..keys));
    executor.block_on(table.grow(&memory, 2)).unwrap();
    // Some buckets are split, and some are not.
    executor.block_on(fill(&table, keys..keys + 200));
    let unsplit = table.unsplit();
    assert!((1..2 * table.layout().buckets).contains(&unsplit));
    let keys = keys + 200;
    executor.block_on(async {
        for number in 0..keys {
            assert!(table.get(&key(number)).await.unwrap().is_some());
            if number % 8 == 0 {
                assert!(table.update(&key(number), &[8; 8]).await.unwrap());
            }
            if number % 8 == 1 {
                assert!(table.remove(&key(number)).await.unwrap());
            }
            assert!(table.get(&key(keys + number)).await.unwrap().is_none());
        }
    });
    assert_eq!(table.unsplit(), unsplit);
    let counters = executor.endpoint().core().counters.snapshot();
    let gets = counters.operation(GET);
    // One for each key that is there; fingerprints of 16 bits are wrong once in 4096 lookups.
    assert!(
        (keys..keys + keys / 100).contains(&gets.round_trips),
        "{gets:?}"
    );
    assert!(most_round_trips(&executor, GET) <= 2);
    assert_eq!(most_round_trips(&executor, REMOVE), 1);
    assert!(most_round_trips(&executor, UPDATE) <= 3);
}

#[test]
fn a_table_without_memory_to_grow_fills_up_and_goes_on_serving() {
    let layout = Dimensions::of_paper(1 << 10).layout(RECORD, 4);
    // For one growth, and no more.
    let memory = memory_behind(&layout, 64 << 10);
    let (executor, table) = shm_client(&growing_node(&memory), &layout);
    let table = table.with_growth(DuoGrowth::from(memory)).unwrap();
    let filling = async {
        let mut number = 0;
        loop {
            match table.put(&key(number), &[1; 8]).await {
                Ok(new) => assert!(new),
                Err(error) => return (number, error),
            }
            number += 1;
        }
    };
    let (keys, error) = executor.block_on(filling);
    assert!(
        matches!(error, IndexError::Full { slots: 2048, .. }),
        "{error}"
    );
    assert!(keys > 2_000, "{keys}");
    let grown = executor.block_on(table.grow(&memory, 2));
    let Err(IndexError::OutOfMemory { requested, free }) = grown else {
        panic!("{grown:?}");
    };
    assert!(requested > free && free < 64 << 10);
    executor.block_on(async {
        for number in 0..keys {
            assert!(table.get(&key(number)).await.unwrap().is_some());
        }
        assert!(table.remove(&key(5)).await.unwrap());
    });
}

#[test]
fn options_that_no_growth_can_have_are_refused() {
    let (executor, table, memory, _) = table_of(1 << 8, 5);
    for ratio in [0, 1, 4097, u64::MAX] {
        let refused = executor.block_on(table.grow(&memory, ratio));
        assert!(matches!(refused, Err(IndexError::BadOption { .. })));
    }
    let elsewhere = GrowthMemory {
        start: farslot_fabric::RemoteAddr {
            node: farslot_fabric::NodeId(1),
            ..memory.start
        },
        ..memory
    };
    let refused = executor.block_on(table.grow(&elsewhere, 2));
    assert!(matches!(refused, Err(IndexError::BadOption { .. })));
    assert_eq!(
        (table.slots(), table.unsplit()),
        (table.layout().slots(), 0)
    );
    for (ratio, at_load) in [(1, 0.5), (2, 0.0), (2, 1.1), (2, f64::NAN)] {
        let (_, table, memory, _) = table_of(1 << 8, 5);
        let growth = DuoGrowth {
            ratio,
            at_load,
            ..DuoGrowth::from(memory)
        };
        let refused = table.with_growth(growth).map(drop);
        assert!(matches!(refused, Err(IndexError::BadOption { .. })));
    }
}

/// Issue: lazy growth at least 6 times as fast as active growth, in the same run. Lazily, the table
/// has its new room as soon as the growth has begun; the splits are paid by insertions, of which
/// this says how much.
#[test]
fn lazily_a_growth_is_many_times_as_fast_as_actively() {
    let run = |actively: bool| {
        let layout = Dimensions::of_paper(1 << 14).layout(RECORD, 6);
        let memory = memory_behind(&layout, 4 << 20);
        let world = growing_world(7, &memory);
        let endpoint = world.endpoint(Limits::default());
        let executor = Executor::new(Rc::clone(&endpoint));
        let table = growing(&layout, endpoint, DuoGrowth::from(memory));
        executor.block_on(async {
            let keys = (1 << 14) * 8 / 10;
            fill(&table, 0..keys).await;
            let begun = table.now();
            table.grow(&memory, 2).await.unwrap();
            if actively {
                table.sweep().await.unwrap();
            }
            let grown = table.now();
            fill(&table, keys..2 * keys).await;
            (grown - begun, (table.now() - grown) / keys)
        })
    };
    let (lazily, insertion_lazily) = run(false);
    let (actively, insertion_actively) = run(true);
    println!(
        "growth {lazily} ns lazily, {actively} ns actively; an insertion after it {insertion_lazily} and \
         {insertion_actively} ns"
    );
    assert!(actively > 6 * lazily);
    // Each insertion splits two buckets at most, and the later ones none.
    assert!(insertion_lazily < 3 * insertion_actively);
}

#[test]
fn an_insertion_takes_ten_round_trips_at_most_however_often_the_table_grows() {
    for ratio in [2, 4] {
        let layout = Dimensions::of_paper(1_000).layout(RECORD, 8);
        let memory = memory_behind(&layout, 64 << 20);
        let (executor, table) = shm_client(&growing_node(&memory), &layout);
        let growth = DuoGrowth {
            ratio,
            ..DuoGrowth::from(memory)
        };
        let table = table.with_growth(growth).unwrap();
        executor.block_on(table.start()).unwrap();
        let (filled, ()) = spent(&executor, PUT, fill(&table, 0..100_000));
        let most = most_round_trips(&executor, PUT);
        println!(
            "r = {ratio}: {filled:?}, at most {most} round trips, {:?}",
            table.work()
        );
        assert!(most <= 10, "{most}");
        assert!(filled.round_trips < 2 * filled.count);
        assert!(table.slots() >= 100_000);
    }
}
