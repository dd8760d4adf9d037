//! One client's operations on a CuckooDuo table that grows, by itself and when it is told, against
//! a plain map: tiny tables, short fingerprints, one owner after the other.

use crate::common::duo::{
    Dimensions, GROWING, ShmTable, growing_node, memory_behind, shm_client_with, shm_node,
};
use crate::common::model::{Checked, Model, Records, Room, Step, run_cases, step};
use crate::common::{INLINE, Slot, scan_all};
use farslot_fabric::{Endpoint, Limits};
use farslot_index::Sizing;
use farslot_index::duo::{DuoGrowth, DuoLayout, DuoOptions, GrowthMemory};
use farslot_index::{FieldSize, Index, IndexError, IndexExt, Occupancy, PUT, SlotKind};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use std::collections::BTreeSet;

const KEYS: u64 = 250;

fn dimensions() -> impl Strategy<Value = Dimensions> {
    let fingerprint_bits = prop_oneof![4 => Just(8), 1 => 8..=32u32];
    let lengths = (0..=4u32, 0..=4u32);
    (1..=20u64, 2..=16u32, fingerprint_bits, lengths).prop_map(
        |(slots, bucket_slots, fingerprint_bits, (longest_path, stash))| Dimensions {
            slots,
            bucket_slots,
            fingerprint_bits,
            longest_path,
            stash,
            readers: false,
        },
    )
}

/// What an owner does between its operations.
#[derive(Clone, Copy, Debug)]
enum Between {
    Nothing,
    Grow(u64),
    Sweep,
}

/// The operations of one owner, and what it does before and after them.
type Turn = (Between, Vec<Step>, Between, Vec<Step>);

fn turn() -> impl Strategy<Value = Turn> {
    let between = || {
        prop_oneof![
            2 => Just(Between::Nothing),
            2 => (2..=5u64).prop_map(Between::Grow),
            1 => Just(Between::Sweep),
        ]
    };
    let steps = || vec(step(KEYS), 0..60);
    (between(), steps(), between(), steps())
}

/// A table with as much memory as it wants: a key is refused only where its bucket is full of its
/// like.
struct Growing;

impl Room for Growing {
    type Table = ShmTable;

    fn takes(&mut self, _: &[u8]) -> Checked {
        Ok(())
    }

    fn refuses(&self, key: &[u8], records: &Records, error: &IndexError) -> Checked {
        let IndexError::Full { slots, .. } = error else {
            return Err(TestCaseError::fail(error.to_string()));
        };
        prop_assert!(!records.contains_key(key));
        // Not for want of memory: there is room elsewhere.
        prop_assert!(
            (records.len() as u64) < *slots,
            "{error} with {} records",
            records.len()
        );
        Ok(())
    }

    fn counts(&self, table: &ShmTable, records: &Records, occupancy: Occupancy) -> Checked {
        let slots = table.slots();
        prop_assert_eq!(occupancy.slots, slots);
        prop_assert_eq!(occupancy.used_slots, slots.min(records.len() as u64));
        Ok(())
    }
}

async fn between(table: &ShmTable, memory: &GrowthMemory, reason: Between) -> Checked {
    match reason {
        Between::Nothing => {}
        // Not without end.
        Between::Grow(ratio) if table.slots() < 10_000 => {
            let before = table.slots();
            table.grow(memory, ratio).await.unwrap();
            prop_assert!(table.slots() == before * ratio || before < table.layout().slots());
            prop_assert!(table.unsplit() > 0);
        }
        Between::Grow(_) => {}
        Between::Sweep => {
            table.sweep().await.unwrap();
            prop_assert_eq!(table.unsplit(), 0);
        }
    }
    Ok(())
}

/// Plays the turns, each an owner's. Every other one dies of it: it resigns from nothing.
fn play(slot: Slot, layout: &DuoLayout, growth: DuoGrowth, turns: Vec<Turn>) -> Checked {
    let node = growing_node(&growth.memory);
    let mut model = Model::new(slot, KEYS, Growing);
    for (number, (first, steps, second, more)) in turns.into_iter().enumerate() {
        let limits = Limits {
            verb_timeout: 1_000_000,
            ..Limits::default()
        };
        let (executor, table) = shm_client_with(&node, layout, limits);
        let table = table.with_growth(growth).unwrap();
        model = executor.block_on(async {
            table.take_over().await.unwrap();
            between(&table, &growth.memory, first).await?;
            let model = model.play(&table, &steps).await?;
            between(&table, &growth.memory, second).await?;
            let model = model.play(&table, &more).await?;
            if number % 2 == 0 {
                table.resign().await.unwrap();
            }
            Ok::<_, TestCaseError>(model)
        })?;
    }
    Ok(())
}

#[test]
fn a_table_that_grows_is_a_map_to_one_owner_after_the_other() {
    for slot in GROWING {
        let growth = (2..=4u64, 0.5..=1.0);
        let runs = (dimensions(), any::<u64>(), growth, vec(turn(), 1..4));
        run_cases(60, slot.name, &runs, |(dimensions, seed, growth, turns)| {
            let layout = dimensions.layout(slot, seed);
            let (ratio, at_load) = growth;
            let growth = DuoGrowth {
                memory: memory_behind(&layout, 64 << 20),
                ratio,
                at_load,
            };
            play(slot, &layout, growth, turns)
        });
    }
}

const RECORD: Slot = Slot {
    name: "short",
    key: FieldSize::Fixed(8),
    value: FieldSize::Fixed(8),
    ..INLINE
};

#[test]
fn a_scan_by_who_did_not_know_that_the_table_has_grown_meets_all_of_it() {
    let dimensions = Dimensions {
        slots: 64,
        bucket_slots: 4,
        fingerprint_bits: 16,
        longest_path: 3,
        stash: 4,
        readers: false,
    };
    let layout = dimensions.layout(RECORD, 1);
    let memory = memory_behind(&layout, 1 << 20);
    let node = growing_node(&memory);
    let keys = 150u64;
    let (executor, table) = shm_client_with(&node, &layout, Limits::default());
    executor.block_on(async {
        let bytes = table.state().client_bytes;
        assert!((64 * 2..128 * 2).contains(&bytes), "{bytes}");
        table.grow(&memory, 4).await.unwrap();
        table.sweep().await.unwrap();
        // The index counts as large as it is, 16 bits a slot.
        assert!(table.state().client_bytes >= bytes + 3 * 64 * 2);
        for key in 0..keys {
            let key = key.to_le_bytes();
            assert!(table.put(&key, &key).await.unwrap());
        }
        table.sweep().await.unwrap();
        table.resign().await.unwrap();
    });
    drop((executor, table));
    let (executor, table) = shm_client_with(&node, &layout, Limits::default());
    let met = executor.block_on(scan_all(&table)).unwrap();
    let met = met
        .iter()
        .map(|(key, _)| u64::from_le_bytes(key[..].try_into().unwrap()));
    assert_eq!(met.collect::<BTreeSet<_>>(), (0..keys).collect());
}

/// One owner after the other, in a region with no byte more than the table's. Whoever is not the
/// owner counts right, too.
#[test]
fn a_table_with_memory_of_its_own_grows_until_that_is_used_up() {
    const MOST: u64 = 3_000;
    for kind in [SlotKind::Inline, SlotKind::Heap] {
        let layout = DuoOptions {
            most_capacity: Some(MOST),
            slot: kind,
            ..DuoOptions::new(Sizing::new(100, RECORD.key, RECORD.value, 4))
        };
        let layout = layout.layout().unwrap();
        assert!(layout.slots() < 250 && layout.most_slots() >= MOST * 20 / 19);
        assert!(layout.most_slots() < MOST * 12 / 10);
        let node = shm_node(&layout);
        for from in (0..MOST).step_by(500) {
            let (executor, table) = shm_client_with(&node, &layout, Limits::default());
            executor.block_on(async {
                for key in (from..from + 500).map(u64::to_le_bytes) {
                    assert!(table.put(&key, &key).await.unwrap());
                }
                table.resign().await.unwrap();
            });
        }
        let (executor, table) = shm_client_with(&node, &layout, Limits::default());
        let (other, onlooker) = shm_client_with(&node, &layout, Limits::default());
        let held = executor.block_on(async {
            for key in (0..MOST).map(u64::to_le_bytes) {
                let found = table.get(&key).await.unwrap();
                assert_eq!(found.as_deref(), Some(&key[..]));
            }
            table.sweep().await.unwrap();
            assert_eq!(table.slots(), layout.most_slots());
            let mut held = MOST;
            while let Ok(new) = table.put(&held.to_le_bytes(), &[0; 8]).await {
                assert!(new);
                held += 1;
            }
            let full = table.put(&held.to_le_bytes(), &[0; 8]).await;
            assert!(matches!(full, Err(IndexError::Full { .. })), "{full:?}");
            table.flush().await.unwrap();
            held
        });
        assert!(held as f64 > 0.95 * layout.most_slots() as f64, "{held}");
        // What cannot grow any more does not look for memory at every insertion, which would be a
        // round trip.
        let again = (0..300_u64).map(u64::to_le_bytes);
        executor.block_on(async {
            for key in again.clone() {
                assert!(table.remove(&key).await.unwrap());
            }
        });
        let before = executor.endpoint().core().counters.snapshot();
        executor.block_on(async {
            for key in again.clone().take(150) {
                assert!(table.put(&key, &key).await.unwrap());
            }
        });
        let spent = executor.endpoint().core().counters.snapshot();
        let round_trips = spent.since(&before).operation(PUT).round_trips;
        assert!(round_trips < 150 * 3 / 2, "{round_trips}");
        let held = held - 150;
        executor.block_on(table.flush()).unwrap();
        let (occupancy, survey) = other.block_on(async {
            assert!(!onlooker.is_owner());
            let counted = onlooker.occupancy().await.unwrap();
            (counted, onlooker.survey().await.unwrap())
        });
        assert_eq!(occupancy.slots, layout.most_slots());
        let counts = survey.counts;
        assert_eq!((occupancy.entries, counts.live), (held, held));
        assert_eq!((counts.slots, survey.unsplit), (layout.most_slots(), 0));
        assert_eq!(counts.parts.len(), 64);
        assert!(counts.full_buckets() > 0 && counts.load_factor() > 0.9);
        let met = executor.block_on(scan_all(&table)).unwrap();
        assert_eq!(met.len() as u64, held);
    }
}
