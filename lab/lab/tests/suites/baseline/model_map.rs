//! One client's operations on the tables for comparison against a plain map: tiny and full tables,
//! one operation at a time and many, before and after growth.

use crate::common::model::{Checked, Model, Records, Room, Step, run_cases, step};
use crate::common::{INLINE, INLINE_SHORT, Slot, TABLE};
use farslot_fabric::shm::{Node, RegionSpec, ShmEndpoint};
use farslot_fabric::{Executor, Limits, RemoteAddr, Rights};
use farslot_index::{FieldSize, Index, IndexError, IndexExt, Occupancy};
use farslot_lab::baseline::map_embed::{MapEmbed, MapEmbedTable};
use farslot_lab::baseline::tea::{Tea, TeaTable};
use farslot_lab::baseline::{
    BaselineOptions, BaselineTable, CleaningMode, CopyPace, Homes, RoomPlanner,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use std::marker::PhantomData;
use std::rc::Rc;

/// As many as the smallest MapEmbed table with buckets of two has slots, nearly.
const KEYS: u64 = 30;
/// Keys and values of any length up to a most.
const VARIED: Slot = Slot {
    name: "varied",
    key: FieldSize::UpTo(40),
    value: FieldSize::UpTo(300),
    ..INLINE
};
const SLOTS: [Slot; 3] = [INLINE, INLINE_SHORT, VARIED];
/// Where a table goes when it grows, again and again.
const PLACES: [u64; 3] = [0, 1 << 20, 2 << 20];

fn endpoint() -> Rc<ShmEndpoint> {
    let region = RegionSpec {
        len: TABLE.offset + (3 << 20),
        rights: Rights::ALL,
    };
    let node = Node::embedded(&[region]).unwrap();
    Rc::new(ShmEndpoint::new(vec![node], Limits::default()))
}

fn place(number: usize) -> RemoteAddr {
    TABLE.plus(PLACES[number])
}

struct Expected<P> {
    stash: u32,
    design: PhantomData<P>,
}

impl<P: RoomPlanner> Room for Expected<P> {
    type Table = BaselineTable<ShmEndpoint, P>;

    fn takes(&mut self, _: &[u8]) -> Checked {
        Ok(())
    }

    /// Only a new key is refused, and only when the stash is full.
    fn refuses(&self, key: &[u8], records: &Records, error: &IndexError) -> Checked {
        if !matches!(error, IndexError::Full { .. }) {
            return Err(TestCaseError::fail(error.to_string()));
        }
        prop_assert!(!records.contains_key(key));
        prop_assert!(records.len() >= self.stash as usize);
        Ok(())
    }

    fn counts(&self, table: &Self::Table, records: &Records, occupancy: Occupancy) -> Checked {
        let slots = table.layout().slots();
        prop_assert!(table.stashed() <= self.stash as usize);
        prop_assert!(records.len() as u64 <= slots + u64::from(self.stash));
        prop_assert_eq!(occupancy.used_slots, slots.min(records.len() as u64));
        prop_assert_eq!(occupancy.slots, slots);
        Ok(())
    }
}

fn options() -> impl Strategy<Value = BaselineOptions> {
    (1..=28u64, 1..=3u32, 0..=4u32, any::<u64>()).prop_map(|(slots, bucket_slots, stash, seed)| {
        BaselineOptions {
            bucket_slots,
            stash,
            ..BaselineOptions::new(slots, INLINE.key, INLINE.value, seed)
        }
    })
}

fn with(options: BaselineOptions, slot: Slot) -> BaselineOptions {
    BaselineOptions {
        key: slot.key,
        value: slot.value,
        ..options
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    vec(step(KEYS), 0..80)
}

fn cleaning() -> impl Strategy<Value = CleaningMode> {
    prop_oneof![Just(CleaningMode::Active), Just(CleaningMode::Lazy)]
}

#[test]
fn tea_is_a_map() {
    for slot in SLOTS {
        // A table that is full walks long before it says so.
        run_cases(12, slot.name, &(options(), steps()), |(options, steps)| {
            let options = with(options, slot);
            let endpoint = endpoint();
            let table = TeaTable::create(Rc::clone(&endpoint), place(0), &options).unwrap();
            let model = Model::new(
                slot,
                KEYS,
                Expected::<Tea> {
                    stash: options.stash,
                    design: PhantomData,
                },
            );
            let executor = Executor::new(endpoint);
            executor.block_on(model.play(&table, &steps)).map(drop)
        });
    }
}

#[test]
fn map_embed_is_a_map_also_when_it_grows() {
    for slot in SLOTS {
        let runs = (options(), vec((steps(), cleaning()), PLACES.len()));
        run_cases(40, slot.name, &runs, |(options, ages)| {
            let options = with(options, slot);
            let endpoint = endpoint();
            let table = MapEmbedTable::create(Rc::clone(&endpoint), place(0), &options).unwrap();
            let mut model = Model::new(
                slot,
                KEYS,
                Expected::<MapEmbed> {
                    stash: options.stash,
                    design: PhantomData,
                },
            );
            let executor = Executor::new(endpoint);
            for (number, (steps, cleaning)) in ages.iter().enumerate() {
                model = executor.block_on(model.play(&table, steps))?;
                if number + 1 < PLACES.len() {
                    let slots = table.layout().slots();
                    let growing = table.grow(place(number + 1), *cleaning, CopyPace::SIDE_BY_SIDE);
                    executor.block_on(growing).unwrap();
                    prop_assert_eq!(table.layout().slots(), 2 * slots);
                    let (_, dimensions) = (table.grown_bytes(), table.design().local_bytes());
                    prop_assert!(dimensions > 0);
                }
            }
            executor.block_on(model.play(&table, &[])).map(drop)
        });
    }
}

/// What is removed before a lazy growth, or after it, does not come back from the copies.
#[test]
fn removed_keys_do_not_come_back_from_copies() {
    let slot = INLINE;
    let options = BaselineOptions {
        bucket_slots: 4,
        ..BaselineOptions::new(64, slot.key, slot.value, 1)
    };
    let endpoint = endpoint();
    let table = MapEmbedTable::create(Rc::clone(&endpoint), place(0), &options).unwrap();
    let executor = Executor::new(endpoint);
    executor.block_on(async {
        for number in 0..50 {
            let put = table.put(&slot.key(number), &slot.value(number)).await;
            assert!(put.unwrap());
        }
        for number in 0..10 {
            assert!(table.remove(&slot.key(number)).await.unwrap());
        }
        table
            .grow(place(1), CleaningMode::Lazy, CopyPace::BUCKET_BY_BUCKET)
            .await
            .unwrap();
        for number in 10..20 {
            assert!(table.remove(&slot.key(number)).await.unwrap());
        }
        table
            .grow(place(2), CleaningMode::Lazy, CopyPace::SIDE_BY_SIDE)
            .await
            .unwrap();
        // As many more as change most cells.
        for number in 50..250 {
            let put = table.put(&slot.key(number), &slot.value(number)).await;
            assert!(put.unwrap());
        }
        for number in 0..250 {
            let there = table.get(&slot.key(number)).await.unwrap();
            let expected = (number >= 20).then(|| slot.value(number));
            assert_eq!(there.as_deref(), expected.as_deref(), "{number}");
        }
    });
    assert!(table.design().adjusted() > 0);
}

#[test]
fn options_that_no_table_can_have_are_refused() {
    let of = BaselineOptions::new(64, INLINE.key, INLINE.value, 1);
    let refused = [
        BaselineOptions {
            slots: 0,
            ..of.clone()
        },
        BaselineOptions {
            slots: u64::MAX,
            ..of.clone()
        },
        BaselineOptions {
            bucket_slots: 0,
            ..of.clone()
        },
        BaselineOptions {
            bucket_slots: 65,
            ..of.clone()
        },
        BaselineOptions {
            stash: (1 << 20) + 1,
            ..of.clone()
        },
        BaselineOptions {
            key: FieldSize::Fixed(0),
            ..of.clone()
        },
        BaselineOptions {
            value: FieldSize::UpTo(1 << 16),
            ..of
        },
    ];
    for options in refused {
        let tea = TeaTable::create(endpoint(), place(0), &options).err();
        let map_embed = MapEmbedTable::create(endpoint(), place(0), &options).err();
        for error in [tea, map_embed] {
            assert!(
                matches!(error, Some(IndexError::BadOption { .. })),
                "{options:?}: {error:?}"
            );
        }
    }
}
