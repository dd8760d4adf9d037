//! The map behaves as `std`'s does, whatever is done to it.

mod common;

use common::SevenEqual;
use farslot_local::SmartCuckooMap;
use farslot_local::smart_cuckoo::{Entry, MAX_LOAD};
use proptest::prelude::*;
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hasher};

/// A hasher with as many different hashes as `N`.
#[derive(Clone, Default)]
struct Few<const N: u64>(DefaultHasher);

impl<const N: u64> Hasher for Few<N> {
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    fn finish(&self) -> u64 {
        self.0.finish() % N
    }
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u16, u32),
    Within(u16, u32),
    Remove(u16),
    AddByEntry(u16),
    RemoveByEntry(u16),
    RetainBelow(u16),
    Drain,
    Clear,
    Reserve(u8),
    Shrink,
    Extend(Vec<(u16, u32)>),
    StashLimit(u8),
}

fn op() -> impl Strategy<Value = Op> {
    let key = || 0..300u16;
    prop_oneof![
        20 => (key(), any::<u32>()).prop_map(|(key, value)| Op::Insert(key, value)),
        8 => (key(), any::<u32>()).prop_map(|(key, value)| Op::Within(key, value)),
        14 => key().prop_map(Op::Remove),
        6 => key().prop_map(Op::AddByEntry),
        4 => key().prop_map(Op::RemoveByEntry),
        1 => key().prop_map(Op::RetainBelow),
        1 => Just(Op::Drain),
        1 => Just(Op::Clear),
        1 => any::<u8>().prop_map(Op::Reserve),
        1 => Just(Op::Shrink),
        1 => prop::collection::vec((key(), any::<u32>()), 0..60).prop_map(Op::Extend),
        1 => (0..6u8).prop_map(Op::StashLimit),
    ]
}

/// Does the same to both maps, and compares them after each step.
fn agree<S: BuildHasher + Default + Clone>(ops: Vec<Op>) {
    let mut ours = SmartCuckooMap::<u16, u32, S>::default();
    let mut theirs = HashMap::<u16, u32>::new();
    for op in ops {
        match op {
            Op::Insert(key, value) => {
                assert_eq!(ours.insert(key, value), theirs.insert(key, value))
            }
            Op::Within(key, value) => {
                let slots = ours.slots();
                match ours.insert_within(key, value) {
                    Ok(old) => assert_eq!(old, theirs.insert(key, value)),
                    Err(full) => {
                        assert_eq!((full.key, full.value), (key, value));
                        assert_eq!((full.records, full.slots), (theirs.len(), slots));
                        assert!(!theirs.contains_key(&key));
                    }
                }
                assert_eq!(ours.slots(), slots);
            }
            Op::Remove(key) => assert_eq!(
                ours.remove_entry(&key),
                theirs.remove(&key).map(|value| (key, value))
            ),
            Op::AddByEntry(key) => {
                let entry = ours.entry(key).and_modify(|value| *value ^= 1);
                assert_eq!(*entry.key(), key);
                let value = *entry.or_insert_with_key(|&key| u32::from(key));
                let expected = theirs.entry(key).and_modify(|value| *value ^= 1);
                assert_eq!(value, *expected.or_insert(u32::from(key)));
            }
            Op::RemoveByEntry(key) => match ours.entry(key) {
                Entry::Occupied(entry) => {
                    assert_eq!(Some(entry.remove_entry()), theirs.remove_entry(&key));
                }
                Entry::Vacant(entry) => {
                    assert!(!theirs.contains_key(&key));
                    theirs.insert(key, 7);
                    assert_eq!(*entry.insert_entry(7).get(), 7);
                }
            },
            Op::RetainBelow(limit) => {
                let mut asked = Vec::new();
                ours.retain(|&key, value| {
                    asked.push(key);
                    *value = value.wrapping_add(1);
                    key < limit
                });
                asked.sort_unstable();
                let mut all: Vec<_> = theirs.keys().copied().collect();
                all.sort_unstable();
                assert_eq!(asked, all);
                theirs.retain(|&key, value| {
                    *value = value.wrapping_add(1);
                    key < limit
                });
            }
            Op::Drain => {
                let slots = ours.slots();
                let drained = ours.drain();
                assert_eq!(drained.len(), theirs.len());
                let mut drained: Vec<_> = drained.collect();
                let mut all: Vec<_> = theirs.drain().collect();
                drained.sort_unstable();
                all.sort_unstable();
                assert_eq!(drained, all);
                assert_eq!(ours.slots(), slots);
            }
            Op::Clear => {
                ours.clear();
                theirs.clear();
            }
            Op::Reserve(more) => {
                ours.reserve(more.into());
                assert!(ours.capacity() >= ours.len() + usize::from(more));
            }
            Op::Shrink => ours.shrink_to_fit(),
            Op::Extend(records) => {
                ours.extend(records.iter().copied());
                theirs.extend(records);
            }
            Op::StashLimit(records) => ours.set_stash_limit(records.into()),
        }
        compare(&mut ours, &theirs);
    }
    let copy = ours.clone();
    assert!(copy == ours);
    let mut all: Vec<_> = copy.into_iter().collect();
    let mut expected: Vec<_> = theirs.into_iter().collect();
    all.sort_unstable();
    expected.sort_unstable();
    assert_eq!(all, expected);
}

fn compare<S: BuildHasher>(ours: &mut SmartCuckooMap<u16, u32, S>, theirs: &HashMap<u16, u32>) {
    assert_eq!(
        (ours.len(), ours.is_empty()),
        (theirs.len(), theirs.is_empty())
    );
    for key in 0..300 {
        assert_eq!(ours.get(&key), theirs.get(&key));
        assert_eq!(ours.contains_key(&key), theirs.contains_key(&key));
    }
    assert_eq!(ours.iter().len(), theirs.len());
    assert!(ours.iter().all(|(key, value)| theirs[key] == *value));
    assert_eq!(ours.iter().count(), theirs.len());
    for (key, value) in &mut *ours {
        assert_eq!(theirs[key], *value);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn with_a_good_hasher(ops in prop::collection::vec(op(), 1..400)) {
        agree::<BuildHasherDefault<DefaultHasher>>(ops);
    }

    #[test]
    fn with_twenty_hashes(ops in prop::collection::vec(op(), 1..200)) {
        agree::<BuildHasherDefault<Few<20>>>(ops);
    }

    #[test]
    fn with_one_hash(ops in prop::collection::vec(op(), 1..200)) {
        agree::<BuildHasherDefault<Few<1>>>(ops);
    }
}

#[test]
fn a_map_keeps_its_capacity_without_growing() {
    for records in [1, 3, 10, 1_000, 100_000] {
        let mut map =
            SmartCuckooMap::<u32, u32, BuildHasherDefault<DefaultHasher>>::with_capacity_and_hasher(
                records,
                BuildHasherDefault::default(),
            );
        let slots = map.slots();
        assert!(slots as f64 * MAX_LOAD >= records as f64);
        map.extend((0..records as u32).map(|key| (key, key)));
        assert_eq!((map.len(), map.slots()), (records, slots));
    }
}

#[test]
fn equal_hashes_do_not_make_the_map_large() {
    let mut map = SmartCuckooMap::<u32, u32, BuildHasherDefault<Few<1>>>::default();
    map.extend((0..500).map(|key| (key, key)));
    assert!(map.slots() <= 64 * 500, "{} slots", map.slots());
    assert!((0..500).all(|key| map[&key] == key));
    assert_eq!(map.stashed(), 498);
}

#[test]
fn what_a_map_cannot_hold_is_an_error() {
    let mut map = SmartCuckooMap::<u8, u8>::new();
    let error = map.try_reserve(usize::MAX).unwrap_err();
    assert!(
        error.to_string().contains(&usize::MAX.to_string()),
        "{error}"
    );
    assert_eq!(map.slots(), 0);
    let hasher = map.hasher().clone();
    assert!(SmartCuckooMap::<u8, u8>::with_slots_and_hasher(1 << 31, hasher).is_err());
}

#[test]
fn borrowed_keys_find_owned_ones() {
    let mut map: SmartCuckooMap<String, Vec<u8>> =
        SmartCuckooMap::from([("one".to_owned(), vec![1]), ("two".to_owned(), vec![2])]);
    map.get_mut("one").unwrap().push(1);
    assert_eq!(map["one"], [1, 1]);
    assert_eq!(map.get_key_value("two").unwrap().0, "two");
    assert_eq!(map.remove("one"), Some(vec![1, 1]));
    assert_eq!(format!("{map:?}"), r#"{"two": [2]}"#);
    assert_eq!(map.into_keys().collect::<Vec<_>>(), ["two"]);
}

#[test]
fn a_leaked_drain_leaves_an_empty_map() {
    let mut map: SmartCuckooMap<u32, u32> = (0..100).map(|key| (key, key)).collect();
    std::mem::forget(map.drain());
    assert!(map.is_empty() && map.get(&7).is_none());
    map.insert(7, 8);
    assert_eq!(map.iter().collect::<Vec<_>>(), [(&7, &8)]);
}

#[test]
fn serde_gives_the_same_map_back() {
    let map: SmartCuckooMap<String, u32> = (0..100).map(|key| (key.to_string(), key)).collect();
    let text = serde_json::to_string(&map).unwrap();
    let back: SmartCuckooMap<String, u32> = serde_json::from_str(&text).unwrap();
    assert_eq!(back, map);
    assert!(serde_json::from_str::<SmartCuckooMap<String, u32>>("[1]").is_err());
}

#[test]
fn equal_hashes_are_kept_apart_and_do_not_make_the_map_grow() {
    let hasher = BuildHasherDefault::<SevenEqual>::default;
    let with_equal = |keys: std::ops::Range<u64>| {
        let mut map = SmartCuckooMap::with_hasher(hasher());
        for key in keys.clone() {
            assert_eq!(map.insert(key, !key), None);
        }
        for key in keys {
            assert_eq!(map.get(&key), Some(&!key));
        }
        map
    };
    let (mut all, without) = (with_equal(0..100_000), with_equal(7..100_000));
    assert_eq!(all.slots(), without.slots());
    assert!(all.stashed() >= 5, "{} in the stash", all.stashed());
    // Equal hashes that come last, to a map that is nearly full.
    let mut late = without;
    for key in 0..7 {
        late.insert(key, !key);
    }
    assert!(late.slots() <= all.slots());
    for key in 0..7 {
        assert_eq!(all.remove(&key), Some(!key));
        assert_eq!(late.remove(&key), Some(!key));
    }
    assert!(all.stashed() <= 4 && late.stashed() <= 4);
}
