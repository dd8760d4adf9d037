//! Sealed tables against a plain map: both forms, both orders, unique keys and not, all loads.

use crate::common::model::{Checked, run_cases};
use crate::common::sealed::{Shape, new_client, new_node, new_table, shapes};
use crate::common::{scan_all, scan_in_pieces};
use farslot_fabric::{Endpoint, VerbKind};
use farslot_index::Sizing;
use farslot_index::sealed::{ReadPolicy, SealedForm, SealedOptions, SlotOrder};
use farslot_index::{FieldSize, GET, Hasher, Index, IndexError, IndexExt, KeyRule, Value};
use farslot_model::NicModel;
use farslot_testbed::Fabric;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;

type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// A table's shape, and the numbers of its keys with those of their values.
fn cases() -> impl Strategy<Value = (Shape, f64, ReadPolicy, Vec<(u16, u64)>)> {
    let load = prop_oneof![
        4 => 0.05f64..1.0,
        1 => Just(0.5),
        2 => Just(0.99),
        2 => Just(1.0),
    ];
    let reads = prop_oneof![
        Just(ReadPolicy::Fixed(1)),
        Just(ReadPolicy::Fixed(3)),
        Just(ReadPolicy::Fixed(64)),
        Just(ReadPolicy::throughput(NicModel::connectx5_edr())),
    ];
    let few = vec((0u16..40, any::<u64>()), 0..40);
    let many = vec((0u16..2000, any::<u64>()), 100..600);
    let records = prop_oneof![3 => few, 1 => many];
    (proptest::sample::select(shapes()), load, reads, records)
}

fn as_pairs(records: &Records) -> Vec<(&[u8], &[u8])> {
    records
        .iter()
        .map(|(key, value)| (&key[..], &value[..]))
        .collect()
}

fn sorted<T: Ord>(mut all: Vec<T>) -> Vec<T> {
    all.sort();
    all
}

/// The values of each key.
fn by_key(records: &Records) -> BTreeMap<Vec<u8>, Vec<Vec<u8>>> {
    let mut map: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (key, value) in records {
        map.entry(key.clone()).or_default().push(value.clone());
    }
    map
}

async fn look_up(table: &impl Index, map: &BTreeMap<Vec<u8>, Vec<Vec<u8>>>, key: &[u8]) -> Checked {
    let there = map.get(key).cloned().unwrap_or_default();
    let got = table.get(key).await.unwrap().map(|value| value.to_vec());
    prop_assert_eq!(got.is_some(), !there.is_empty(), "{:?}", key);
    prop_assert!(got.is_none_or(|value| there.contains(&value)));
    let all = table.get_all(key).await.unwrap();
    let all = all.iter().map(|value| value.to_vec()).collect();
    prop_assert_eq!(sorted(all), sorted(there));
    Ok(())
}

pub fn a_table_is_the_map_that_it_was_built_from(fabric: Fabric) {
    run_cases(
        fabric.cases(600),
        fabric.name(),
        &cases(),
        |(shape, load, reads, numbers)| is_the_map(fabric, shape, load, reads, &numbers),
    );
}

fn is_the_map(
    fabric: Fabric,
    shape: Shape,
    load: f64,
    reads: ReadPolicy,
    numbers: &[(u16, u64)],
) -> Checked {
    let mut records: Records = numbers
        .iter()
        .map(|(key, value)| (shape.key(*key), shape.value(*value)))
        .collect();
    if shape.keys == KeyRule::Unique {
        let unique: BTreeMap<_, _> = records.into_iter().collect();
        records = unique.into_iter().collect();
    }
    let pairs = as_pairs(&records);
    let layout = shape.options(load).layout_for(&pairs).unwrap();
    let node = new_node(fabric, &layout);
    let (executor, builder) = new_client(&node, &layout, reads);
    executor.block_on(builder.build(&pairs)).unwrap();
    let (reading, reader) = new_client(&node, &layout, reads);
    prop_assert!(reader.is_built() && builder.is_built());
    let map = by_key(&records);
    for (executor, table) in [(executor, builder), (reading, reader)] {
        executor.block_on(async {
            for number in 0..60 {
                look_up(&table, &map, &shape.key(number)).await?;
            }
            for key in map.keys().take(100) {
                look_up(&table, &map, key).await?;
            }
            let sizes = [numbers.len() as u64 % 7, 1, 20];
            for limits in [&[u64::MAX][..], &sizes] {
                let met = scan_in_pieces(&table, limits).await.unwrap();
                prop_assert_eq!(sorted(met), sorted(records.clone()));
            }
            let occupancy = table.occupancy().await.unwrap();
            let held = records.len() as u64;
            prop_assert_eq!((occupancy.entries, occupancy.used_slots), (held, held));
            prop_assert_eq!(occupancy.slots, layout.slots);
            prop_assert_eq!(
                occupancy.heap_used,
                occupancy.heap_bytes,
                "no byte too many"
            );
            let counted = || executor.endpoint().core().counters.snapshot();
            let before = counted();
            get_many(&table, &map, &shape).await?;
            let batched = counted().since(&before).operation(GET);
            let before = counted();
            for number in 0..60 {
                let _ = table.get(&shape.key(number)).await.unwrap();
            }
            let single = counted().since(&before).operation(GET);
            let [batched, single] = [batched, single].map(|of| (of.count, of.verbs, of.bytes));
            prop_assert_eq!(batched, single, "a batch reads what single gets do");
            Ok(())
        })?;
    }
    Ok(())
}

async fn get_many(
    table: &impl Index,
    map: &BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
    shape: &Shape,
) -> Checked {
    let keys: Vec<Vec<u8>> = (0..60).map(|number| shape.key(number)).collect();
    let mut got = vec![None; keys.len()];
    let done = |number: usize, value: farslot_index::Result<Option<Value>>| {
        let value = value.unwrap().map(|value| value.to_vec());
        assert!(got[number].replace(value).is_none(), "answered twice");
    };
    table.get_many(keys.iter().map(|key| &key[..]), done).await;
    for (key, value) in keys.iter().zip(got) {
        match (map.get(key), value.expect("answered")) {
            (None, None) => {}
            (Some(values), Some(value)) => prop_assert!(values.contains(&value)),
            other => prop_assert!(false, "{other:?}"),
        }
    }
    Ok(())
}

fn first_shape(form: SealedForm) -> Shape {
    let of_form = |shape: &Shape| shape.form == form;
    shapes().into_iter().find(of_form).unwrap()
}

pub fn keys_of_other_sizes_are_refused_and_nothing_is_written(fabric: Fabric) {
    for form in [SealedForm::Inline, SealedForm::OutOfBand] {
        let shape = first_shape(form);
        let (key, value) = (shape.key(1), shape.value(1));
        let layout = shape.options(0.5).holding(8, 1000).layout().unwrap();
        let (_node, executor, table) = new_table(fabric, &layout, ReadPolicy::Fixed(4));
        let refused = |records: &[(&[u8], &[u8])]| {
            let counters = || executor.endpoint().core().counters.snapshot();
            let before = counters();
            let error = executor.block_on(table.build(records)).unwrap_err();
            let spent = counters().since(&before);
            assert_eq!(
                spent.verbs_of(VerbKind::Read),
                spent.verbs.iter().sum::<u64>()
            );
            error
        };
        let longer = [&key[..], b"x"].concat();
        assert!(matches!(
            refused(&[(&key, &value), (&longer, &value)]),
            IndexError::KeyLength { .. }
        ));
        let longer = [&value[..], b"x"].concat();
        assert!(matches!(
            refused(&[(&key, &longer)]),
            IndexError::ValueLength { .. }
        ));
        assert_eq!(refused(&[(b"", &value)]), IndexError::EmptyKey);
        let twice = [
            (&shape.key(2)[..], &value[..]),
            (&key, &value),
            (&key, &value),
        ];
        assert_eq!(
            refused(&twice),
            IndexError::DuplicateKey {
                record: 2,
                first: 1
            }
        );
        executor.block_on(async {
            assert_eq!(table.get(&key).await.unwrap_err(), IndexError::NotBuilt);
            table.build(&[(&key, &value)]).await.unwrap();
            assert_eq!(table.get(&key).await.unwrap().as_deref(), Some(&value[..]));
            assert!(matches!(
                table.get(b"").await.unwrap_err(),
                IndexError::EmptyKey
            ));
        });
    }
}

pub fn a_table_that_is_not_built_says_so_and_one_that_is_changes_no_more(fabric: Fabric) {
    let shape = first_shape(SealedForm::Inline);
    let (key, value) = (shape.key(1), shape.value(1));
    let records = [(&key[..], &value[..])];
    let layout = shape.options(0.5).layout_for(&records).unwrap();
    let node = new_node(fabric, &layout);
    let (executor, builder) = new_client(&node, &layout, ReadPolicy::Fixed(4));
    let (reading, early) = new_client(&node, &layout, ReadPolicy::Fixed(4));
    reading.block_on(async {
        assert!(!early.is_built());
        assert_eq!(early.get(&key).await.unwrap_err(), IndexError::NotBuilt);
        assert_eq!(early.get_all(&key).await.unwrap_err(), IndexError::NotBuilt);
        assert_eq!(scan_all(&early).await.unwrap_err(), IndexError::NotBuilt);
        assert_eq!(early.occupancy().await.unwrap_err(), IndexError::NotBuilt);
    });
    executor.block_on(builder.build(&records)).unwrap();
    reading.block_on(async {
        // Who opened it before finds it built.
        assert_eq!(early.get(&key).await.unwrap().as_deref(), Some(&value[..]));
        let sealed = |operation| IndexError::Sealed { operation };
        assert_eq!(early.build(&records).await.unwrap_err(), sealed("build"));
        assert_eq!(early.put(&key, &value).await.unwrap_err(), sealed("put"));
        let put = early.find_or_put(&key, &value).await.unwrap_err();
        assert_eq!(put, sealed("find_or_put"));
        assert_eq!(
            early.update(&key, &value).await.unwrap_err(),
            sealed("update")
        );
        assert_eq!(early.remove(&key).await.unwrap_err(), sealed("remove"));
        early.flush().await.unwrap();
    });
    assert_eq!(
        executor.block_on(builder.build(&records)).unwrap_err(),
        IndexError::Sealed { operation: "build" }
    );
}

/// Keys of one byte: with one of them missing there is a mask, with all of them there is none.
pub fn every_key_can_be_stored_but_not_all_of_them_inline(fabric: Fabric) {
    let keys: Vec<[u8; 1]> = (0..=255).map(|key| [key]).collect();
    let records: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&key[..], &key[..])).collect();
    for form in [SealedForm::Inline, SealedForm::OutOfBand] {
        let options = SealedOptions {
            form: Some(form),
            ..SealedOptions::new(Sizing {
                load_factor: Some(1.0),
                ..Sizing::new(0, FieldSize::Fixed(1), FieldSize::Fixed(1), 5)
            })
        };
        let slowness = fabric.slowness() as usize;
        for missing in (0..256).step_by(slowness).chain([256]) {
            let mut some = records.clone();
            if missing < 256 {
                some.remove(missing);
            }
            let layout = options.layout_for(&some).unwrap();
            let (_node, executor, table) = new_table(fabric, &layout, ReadPolicy::Fixed(16));
            let built = executor.block_on(table.build(&some));
            if missing == 256 && form == SealedForm::Inline {
                let refused = matches!(built, Err(IndexError::BadOption { option: "form", .. }));
                assert!(refused, "{built:?}");
                continue;
            }
            built.unwrap();
            executor.block_on(async {
                for (number, key) in keys.iter().enumerate() {
                    let got = table.get(key).await.unwrap();
                    let there = (number != missing).then_some(&key[..]);
                    assert_eq!(got.as_deref(), there);
                }
            });
        }
    }
}

/// Knuth's hash, as in paper 000, and keys that it puts side by side.
pub fn knuths_hash_serves_all_forms_and_orders(fabric: Fabric) {
    let keys: Vec<[u8; 8]> = (0..3000u64).map(|key| (key * 256).to_le_bytes()).collect();
    let records: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&key[..], &key[..4])).collect();
    for form in [SealedForm::Inline, SealedForm::OutOfBand] {
        for order in [SlotOrder::Arrival, SlotOrder::ByHash] {
            let options = SealedOptions {
                form: Some(form),
                order,
                ..SealedOptions::new(Sizing {
                    hasher: Hasher::Knuth,
                    ..Sizing::new(0, FieldSize::Fixed(8), FieldSize::Fixed(4), 5)
                })
            };
            let layout = options.layout_for(&records).unwrap();
            let (_node, executor, table) = new_table(fabric, &layout, ReadPolicy::Fixed(16));
            executor.block_on(async {
                table.build(&records).await.unwrap();
                for key in &keys {
                    assert_eq!(table.get(key).await.unwrap().as_deref(), Some(&key[..4]));
                    let absent = (u64::from_le_bytes(*key) + 1).to_le_bytes();
                    assert!(table.get(&absent).await.unwrap().is_none());
                }
            });
        }
    }
}

/// Very many records of one key: the lookup goes on for many READs, and the keys behind are found.
pub fn a_key_may_have_very_many_records(fabric: Fabric) {
    for shape in shapes()
        .into_iter()
        .filter(|shape| shape.keys == KeyRule::Multi)
    {
        let others = fabric.cases(398) as u16;
        let mut records: Records = (0..3000)
            .map(|value| (shape.key(1), shape.value(value)))
            .collect();
        records.extend((2..2 + others).map(|key| (shape.key(key), shape.value(7))));
        let pairs = as_pairs(&records);
        let layout = shape.options(0.9).layout_for(&pairs).unwrap();
        let (_node, executor, table) = new_table(fabric, &layout, ReadPolicy::Fixed(100));
        let map = by_key(&records);
        executor.block_on(async {
            table.build(&pairs).await.unwrap();
            for key in map.keys() {
                look_up(&table, &map, key).await.unwrap();
            }
            look_up(&table, &map, &shape.key(401)).await.unwrap();
        });
    }
}

/// Records longer than a span tells, than a piece of a scan, and of lengths in between.
pub fn long_records_of_variable_size(fabric: Fabric) {
    let lengths = [
        0, 1, 7, 8, 9, 2020, 2021, 2030, 2031, 2032, 2040, 2047, 60_000, 70_000, 200_000,
    ];
    let records: Records = (0..)
        .zip(lengths)
        .map(|(number, len): (u8, usize)| {
            let key = vec![number; 1 + usize::from(number) * 211 % 3000];
            (key, (0..len).map(|at| at as u8 ^ number).collect())
        })
        .collect();
    for order in [SlotOrder::Arrival, SlotOrder::ByHash] {
        let options = SealedOptions {
            order,
            ..SealedOptions::new(Sizing::new(
                0,
                FieldSize::UpTo(3000),
                FieldSize::UpTo(200_000),
                5,
            ))
        };
        let pairs = as_pairs(&records);
        let layout = options.layout_for(&pairs).unwrap();
        let (_node, executor, table) = new_table(fabric, &layout, ReadPolicy::Fixed(16));
        let map = by_key(&records);
        executor.block_on(async {
            table.build(&pairs).await.unwrap();
            for key in map.keys() {
                look_up(&table, &map, key).await.unwrap();
                let mut other = key.clone();
                *other.last_mut().unwrap() ^= 0x80;
                look_up(&table, &map, &other).await.unwrap();
            }
            for limits in [&[u64::MAX][..], &[1], &[2, 7]] {
                let met = scan_in_pieces(&table, limits).await.unwrap();
                assert_eq!(sorted(met), sorted(records.clone()));
            }
        });
    }
}
