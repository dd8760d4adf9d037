//! Cuckoo hashing with any number of hash functions and slots, which knows its failures.

use crate::hash::{mix, scaled};
use crate::{Full, InsertionCounters, LocalTable};
use farslot_index::internals::ClosedSets;
use std::hash::{BuildHasher, Hash, RandomState};

/// The most hash functions.
pub const MOST_WAYS: usize = 8;
/// The most slots of a bucket.
const MOST_BUCKET_SLOTS: usize = 64;
/// The most slots.
const MOST_SLOTS: usize = 1 << 30;

/// A table of a shape that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{parameter} is {value}: it must be from {least} to {most}")]
pub struct ShapeError {
    /// Of what.
    pub parameter: &'static str,
    /// How many were asked for.
    pub value: usize,
    /// The least that is possible.
    pub least: usize,
    /// The most that is possible.
    pub most: usize,
}

/// A table of fixed size with `ways` hash functions and buckets of several slots.
///
/// ```
/// use farslot_local::{LocalTable, SeveralCuckoo};
/// use std::hash::RandomState;
///
/// let mut table = SeveralCuckoo::with_shape(3, 4, 1_000, RandomState::new())?;
/// for key in 0..950 {
///     table.insert(key, "value")?;
/// }
/// assert_eq!(table.get(&7), Some(&"value"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SeveralCuckoo<K, V, S = RandomState> {
    slots: Box<[Option<(K, V)>]>,
    bucket_slots: usize,
    ways: usize,
    /// Buckets of each of the `ways` tables.
    side: u32,
    hasher: S,
    len: usize,
    closed: ClosedSets,
    search: Vec<Node>,
    counters: InsertionCounters,
}

/// A bucket that a search has come to, and the node and the slot of the record that leads to it.
#[derive(Clone, Copy, Debug)]
struct Node {
    bucket: u32,
    from: Option<(u32, u32)>,
}

/// The candidates of a key: one in each table.
#[derive(Clone, Copy)]
struct Ways {
    buckets: [u32; MOST_WAYS],
    count: usize,
}

impl Ways {
    fn as_slice(&self) -> &[u32] {
        &self.buckets[..self.count]
    }
}

impl<K: Eq + Hash, V, S: BuildHasher> SeveralCuckoo<K, V, S> {
    /// An empty table with `ways` hash functions and at least `slots` slots, `bucket_slots` a
    /// bucket.
    ///
    /// # Errors
    /// [`ShapeError`] for less than two ways or more than [`MOST_WAYS`], buckets of no slot or more
    /// than 64, and more than 2^30 slots.
    pub fn with_shape(
        ways: usize,
        bucket_slots: usize,
        slots: usize,
        hasher: S,
    ) -> Result<Self, ShapeError> {
        within("hash functions", ways, 2, MOST_WAYS)?;
        within("slots of a bucket", bucket_slots, 1, MOST_BUCKET_SLOTS)?;
        within("slots", slots, 0, MOST_SLOTS)?;
        let side = slots.div_ceil(ways * bucket_slots).max(1);
        let buckets = side * ways;
        Ok(Self {
            slots: std::iter::repeat_with(|| None)
                .take(buckets * bucket_slots)
                .collect(),
            bucket_slots,
            ways,
            side: side as u32,
            hasher,
            len: 0,
            closed: ClosedSets::new(buckets),
            search: Vec::new(),
            counters: InsertionCounters::default(),
        })
    }

    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        let slot = self.locate(self.candidates(key), key)?;
        self.slots[slot].as_ref().map(|(_, value)| value)
    }

    /// Whether a key that is not there has a place. Moves nothing.
    pub fn has_place(&mut self, key: &K) -> bool {
        let candidates = self.candidates(key);
        self.find_vacant(candidates).is_some()
    }

    /// The buckets that a key may be in, numbered over all tables.
    pub fn candidates_of(&self, key: &K) -> Vec<u32> {
        self.candidates(key).as_slice().to_vec()
    }

    /// Its buckets.
    pub fn buckets(&self) -> u32 {
        self.side * self.ways as u32
    }

    fn candidates(&self, key: &K) -> Ways {
        let hash = self.hasher.hash_one(key);
        let mut buckets = [0; MOST_WAYS];
        for (way, bucket) in buckets.iter_mut().enumerate().take(self.ways) {
            let mixed = mix(hash, 1 + way as u64);
            *bucket = way as u32 * self.side + scaled((mixed >> 32) as u32, self.side);
        }
        Ways {
            buckets,
            count: self.ways,
        }
    }

    fn slots_of(&self, bucket: u32) -> std::ops::Range<usize> {
        let first = bucket as usize * self.bucket_slots;
        first..first + self.bucket_slots
    }

    fn locate(&self, candidates: Ways, key: &K) -> Option<usize> {
        let buckets = candidates.as_slice().iter();
        buckets
            .flat_map(|&bucket| self.slots_of(bucket))
            .find(|&slot| matches!(&self.slots[slot], Some((held, _)) if held == key))
    }

    fn vacant_in(&self, bucket: u32) -> Option<usize> {
        self.slots_of(bucket)
            .find(|&slot| self.slots[slot].is_none())
    }

    /// A vacant slot that the candidates lead to, and the node of the search that is its bucket.
    /// `None` if there is none, which is remembered.
    fn find_vacant(&mut self, candidates: Ways) -> Option<(usize, usize)> {
        self.search.clear();
        let search = self.closed.begin();
        // Closed sets that the search has come to and gone around.
        let mut met = Vec::new();
        for &bucket in candidates.as_slice() {
            self.reach(bucket, None, search, &mut met);
        }
        let mut at = 0;
        while let Some(&Node { bucket, .. }) = self.search.get(at) {
            self.counters.bucket_probes += 1;
            if let Some(slot) = self.vacant_in(bucket) {
                return Some((slot, at));
            }
            for slot in self.slots_of(bucket) {
                let Some((key, _)) = &self.slots[slot] else {
                    continue;
                };
                let others = self.candidates(key);
                for &other in others.as_slice() {
                    self.reach(other, Some((at as u32, slot as u32)), search, &mut met);
                }
            }
            at += 1;
        }
        if !self.search.is_empty() {
            self.closed.close(search, &met);
        }
        None
    }

    fn reach(&mut self, bucket: u32, from: Option<(u32, u32)>, search: u32, met: &mut Vec<u32>) {
        if self.closed.is_closed(bucket) {
            met.push(bucket);
        } else if self.closed.visit(bucket, search) {
            self.search.push(Node { bucket, from });
        }
    }

    /// Moves each record on the way to a vacant slot on by one, the last one first. Returns the
    /// slot in a candidate that is vacant now.
    fn vacate(&mut self, mut vacant: usize, mut at: usize) -> usize {
        while let Some((node, slot)) = self.search[at].from {
            self.slots[vacant] = self.slots[slot as usize].take();
            self.counters.kick_outs += 1;
            (vacant, at) = (slot as usize, node as usize);
        }
        vacant
    }
}

fn within(
    parameter: &'static str,
    value: usize,
    least: usize,
    most: usize,
) -> Result<(), ShapeError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(ShapeError {
        parameter,
        value,
        least,
        most,
    })
}

impl<K: Eq + Hash, V: Clone, S: BuildHasher> LocalTable<K, V> for SeveralCuckoo<K, V, S> {
    fn name(&self) -> &'static str {
        "several ways and slots"
    }

    fn slots(&self) -> usize {
        self.slots.len()
    }

    fn len(&self) -> usize {
        self.len
    }

    fn get(&self, key: &K) -> Option<V> {
        SeveralCuckoo::get(self, key).cloned()
    }

    fn insert(&mut self, key: K, value: V) -> Result<Option<V>, Full<K, V>> {
        let candidates = self.candidates(&key);
        if let Some(slot) = self.locate(candidates, &key)
            && let Some((_, held)) = &mut self.slots[slot]
        {
            return Ok(Some(std::mem::replace(held, value)));
        }
        let Some((vacant, at)) = self.find_vacant(candidates) else {
            self.counters.failures += 1;
            // All candidates were in closed sets already.
            self.counters.known_failures += u64::from(self.search.is_empty());
            return Err(Full {
                key,
                value,
                records: self.len,
                slots: self.slots.len(),
                stash: 0,
            });
        };
        let slot = self.vacate(vacant, at);
        self.slots[slot] = Some((key, value));
        self.len += 1;
        self.counters.insertions += 1;
        Ok(None)
    }

    fn remove(&mut self, key: &K) -> Option<V> {
        let slot = self.locate(self.candidates(key), key)?;
        self.closed.open((slot / self.bucket_slots) as u32);
        self.len -= 1;
        self.slots[slot].take().map(|(_, value)| value)
    }

    fn counters(&self) -> InsertionCounters {
        self.counters
    }

    fn overhead_per_slot(&self) -> f64 {
        let option = size_of::<Option<(K, V)>>() - size_of::<K>() - size_of::<V>();
        option as f64 + ClosedSets::bytes_per_bucket() as f64 / self.bucket_slots as f64
    }
}

#[cfg(test)]
mod tests {
    use super::super::ComponentSpare;
    use super::*;
    use crate::oracle::{AsChosen, is_placeable};
    use proptest::prelude::*;

    type Table = SeveralCuckoo<u64, u64, AsChosen>;

    fn table(ways: usize, bucket_slots: usize, slots: usize) -> Table {
        Table::with_shape(ways, bucket_slots, slots, AsChosen).unwrap()
    }

    /// Whether all of the keys and one more can be placed.
    fn fits(table: &Table, keys: &[u64], key: u64) -> bool {
        let all = keys.iter().chain([&key]);
        let all: Vec<_> = all.map(|key| table.candidates_of(key)).collect();
        is_placeable(&all, table.buckets(), table.bucket_slots as u32)
    }

    fn run(mut table: Table, steps: &[(bool, u16)]) -> Result<(), TestCaseError> {
        let mut keys = Vec::new();
        for (number, &(inserts, which)) in steps.iter().enumerate() {
            if inserts || keys.is_empty() {
                let key = u64::from(which) << 32 | number as u64;
                let fits = fits(&table, &keys, key);
                prop_assert_eq!(table.has_place(&key), fits);
                let before = table.counters;
                prop_assert_eq!(table.insert(key, !key).is_ok(), fits);
                if fits {
                    keys.push(key);
                } else {
                    prop_assert_eq!((table.counters - before).kick_outs, 0);
                    // Twice told, it is remembered.
                    prop_assert_eq!((table.counters - before).known_failures, 1);
                }
            } else {
                let key = keys.swap_remove(usize::from(which) % keys.len());
                prop_assert_eq!(table.remove(&key), Some(!key));
            }
            prop_assert_eq!(table.len, keys.len());
            prop_assert!(keys.iter().all(|key| table.get(key) == Some(&!key)));
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

        #[test]
        fn every_insertion_ends_as_the_judge_says(
            (ways, bucket_slots) in (2usize..5, 1usize..5),
            slots in 4usize..40,
            removals in 0.0..0.45,
            seed in prop::collection::vec((0.0..1.0, any::<u16>()), 1..120),
        ) {
            let steps: Vec<_> = seed.iter().map(|&(at, which)| (at >= removals, which)).collect();
            run(table(ways, bucket_slots, slots), &steps)?;
        }
    }

    /// The module's example: vacant slots in the component, and no place.
    #[test]
    fn spare_slots_of_a_component_are_not_enough() {
        let mut table = table(2, 2, 8);
        let with = |first: u32, second: u32, count: usize| -> Vec<u64> {
            let is_it = |key: &u64| table.candidates_of(key) == [first, second];
            (0..).filter(is_it).take(count).collect()
        };
        let (dense, leads_in) = (with(0, 2, 5), with(1, 2, 1));
        let mut spare = ComponentSpare::new(table.buckets(), 2);
        for key in dense[..4].iter().chain(&leads_in) {
            spare.connect(&table.candidates_of(key));
            assert_eq!(table.insert(*key, 0), Ok(None));
        }
        assert!(spare.admits(&table.candidates_of(&dense[4])));
        assert!(!table.has_place(&dense[4]));
    }

    #[test]
    fn shapes_that_cannot_be_are_named() {
        for (ways, bucket_slots, slots, parameter) in [
            (1, 4, 8, "hash functions"),
            (9, 4, 8, "hash functions"),
            (2, 0, 8, "slots of a bucket"),
            (2, 65, 8, "slots of a bucket"),
            (2, 1, usize::MAX, "slots"),
        ] {
            let error = Table::with_shape(ways, bucket_slots, slots, AsChosen).unwrap_err();
            assert_eq!(error.parameter, parameter);
        }
    }
}
