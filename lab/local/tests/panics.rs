//! A `Hash` or `Eq` that panics loses nothing and doubles nothing.

use farslot_local::SmartCuckooMap;
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// Calls of `Hash` and `Eq` until one panics.
    static CALLS_LEFT: Cell<u32> = const { Cell::new(u32::MAX) };
    /// Values that exist.
    static ALIVE: Cell<i64> = const { Cell::new(0) };
}

fn called() {
    CALLS_LEFT.with(|left| match left.get() {
        0 => {
            left.set(u32::MAX);
            // Not `panic!`, which would print each of them.
            std::panic::resume_unwind(Box::new("as told"));
        }
        u32::MAX => {}
        calls => left.set(calls - 1),
    });
}

#[derive(Clone, Debug)]
struct Key(u32);

impl Hash for Key {
    fn hash<H: Hasher>(&self, to: &mut H) {
        called();
        // Of few values, so that `Eq` has work to do and keys get into the stash.
        (self.0 / 2).hash(to);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        called();
        self.0 == other.0
    }
}

impl Eq for Key {}

#[derive(Debug)]
struct Value(u32);

impl Value {
    fn new(value: u32) -> Self {
        ALIVE.with(|alive| alive.set(alive.get() + 1));
        Self(value)
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        ALIVE.with(|alive| alive.set(alive.get() - 1));
    }
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u32),
    Within(u32),
    Remove(u32),
    RetainOdd,
    Grow,
    Shrink,
}

fn op() -> impl Strategy<Value = Op> {
    let key = || 0..120u32;
    prop_oneof![
        10 => key().prop_map(Op::Insert),
        10 => key().prop_map(Op::Within),
        10 => key().prop_map(Op::Remove),
        1 => Just(Op::RetainOdd),
        1 => Just(Op::Grow),
        1 => Just(Op::Shrink),
    ]
}

type Map = SmartCuckooMap<Key, Value, BuildHasherDefault<DefaultHasher>>;

/// What the map holds, which must be what its iterator, its length and its lookups say.
fn held(map: &Map) -> HashMap<u32, u32> {
    let held: HashMap<_, _> = map.iter().map(|(key, value)| (key.0, value.0)).collect();
    assert_eq!((held.len(), map.iter().count()), (map.len(), map.len()));
    for (&key, &value) in &held {
        assert_eq!(map.get(&Key(key)).map(|held| held.0), Some(value));
    }
    assert_eq!(ALIVE.get(), held.len() as i64);
    held
}

fn apply(map: &mut Map, op: &Op, value: u32) {
    match *op {
        Op::Insert(key) => drop(map.insert(Key(key), Value::new(value))),
        Op::Within(key) => drop(map.insert_within(Key(key), Value::new(value))),
        Op::Remove(key) => drop(map.remove(&Key(key))),
        Op::RetainOdd => map.retain(|key, _| key.0 % 2 == 1),
        Op::Grow => map.reserve(2 * map.len() + 1),
        Op::Shrink => map.shrink_to_fit(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_or_doubled(ops in prop::collection::vec((op(), 0..12u32), 1..300)) {
        let mut map = Map::default();
        for (number, (op, calls)) in ops.iter().enumerate() {
            let before = held(&map);
            CALLS_LEFT.set(*calls);
            let outcome = catch_unwind(AssertUnwindSafe(|| apply(&mut map, op, number as u32)));
            CALLS_LEFT.set(u32::MAX);
            let after = held(&map);
            if outcome.is_err() {
                // A `retain` has removed what it had come to; everything else nothing.
                prop_assert!(after.iter().all(|record| before.get(record.0) == Some(record.1)));
                let may_be_gone = |key: &u32| matches!(op, Op::RetainOdd) && key.is_multiple_of(2);
                prop_assert!(before.keys().all(|key| after.contains_key(key) || may_be_gone(key)));
            }
        }
        drop(map);
        prop_assert_eq!(ALIVE.get(), 0);
    }
}

/// A key whose hash is another one each time it is asked for.
#[derive(Debug, PartialEq, Eq)]
struct Fickle(u32);

thread_local! {
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

impl Hash for Fickle {
    fn hash<H: Hasher>(&self, to: &mut H) {
        ASKED.set(ASKED.get() + 1);
        ASKED.get().hash(to);
    }
}

#[test]
fn a_hash_that_contradicts_itself_loses_no_record() {
    let mut map = SmartCuckooMap::<Fickle, u32>::new();
    for number in 0..3_000 {
        map.insert(Fickle(number), number);
        if number % 5 == 0 {
            map.remove(&Fickle(number / 2));
        }
        assert_eq!(map.iter().count(), map.len());
    }
    let mut keys: Vec<_> = map.into_keys().map(|key| key.0).collect();
    assert!(keys.len() > 2_000);
    keys.sort_unstable();
    assert!(keys.is_sorted_by(|one, two| one < two));
}
