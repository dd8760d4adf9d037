//! What the tables have in common: a small interface, counters, and the error of a full table.

use std::ops::{Add, Sub};

/// A table of fixed size whose work is counted, for comparisons.
///
/// Insertions replace the value of a key that is there, as those of `std`'s map do. A table that
/// cannot place a record gives it back unchanged, and has all others as before.
pub trait LocalTable<K, V> {
    /// The design's name.
    fn name(&self) -> &'static str;

    /// Slots for records, the stash apart.
    fn slots(&self) -> usize;

    /// Records held, those in the stash included.
    fn len(&self) -> usize;

    /// Whether no record is held.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Records in the stash, if the design has one.
    fn stashed(&self) -> usize {
        0
    }

    /// A copy of a key's value.
    fn get(&self, key: &K) -> Option<V>;

    /// Inserts a record or replaces its value, and returns the old one.
    ///
    /// # Errors
    /// [`Full`], with the record, if it cannot be placed.
    fn insert(&mut self, key: K, value: V) -> Result<Option<V>, Full<K, V>>;

    /// Removes a record and returns its value.
    fn remove(&mut self, key: &K) -> Option<V>;

    /// What all insertions together have cost.
    fn counters(&self) -> InsertionCounters;

    /// Bytes of memory beside those of the slots' keys and values, for each slot.
    fn overhead_per_slot(&self) -> f64;
}

/// What insertions of new keys have cost. No clock is involved, so that any two machines agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InsertionCounters {
    /// Insertions of new keys that found a slot.
    pub insertions: u64,
    /// Those that found none: the record was refused, or went to the stash.
    pub failures: u64,
    /// Buckets read: the candidates, and those on the way to a vacant slot.
    pub bucket_probes: u64,
    /// Records moved to another bucket, also those that were moved back.
    pub kick_outs: u64,
    /// Walks that moved records and then found no place for the last of them.
    pub failed_walks: u64,
    /// Of the failures, those that were known without following any path.
    pub known_failures: u64,
    /// Times that what is known of the subgraphs was derived anew from the records.
    pub rebuilds: u64,
}

impl Add for InsertionCounters {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.with(other, u64::wrapping_add)
    }
}

impl Sub for InsertionCounters {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.with(other, u64::wrapping_sub)
    }
}

impl InsertionCounters {
    /// Insertions of new keys, with and without success.
    #[must_use]
    pub fn offered(&self) -> u64 {
        self.insertions + self.failures
    }

    fn with(self, other: Self, of: fn(u64, u64) -> u64) -> Self {
        Self {
            insertions: of(self.insertions, other.insertions),
            failures: of(self.failures, other.failures),
            bucket_probes: of(self.bucket_probes, other.bucket_probes),
            kick_outs: of(self.kick_outs, other.kick_outs),
            failed_walks: of(self.failed_walks, other.failed_walks),
            known_failures: of(self.known_failures, other.known_failures),
            rebuilds: of(self.rebuilds, other.rebuilds),
        }
    }
}

/// A record that a table of fixed size has no place for; the table is as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no place for this key: {records} records in {slots} slots (and a stash of at most {stash})"
)]
pub struct Full<K, V> {
    /// The key that was to be inserted.
    pub key: K,
    /// Its value.
    pub value: V,
    /// Records that the table holds, those in the stash included.
    pub records: usize,
    /// Its slots.
    pub slots: usize,
    /// The most records that its stash takes.
    pub stash: usize,
}
