//! What maps are measured with, and how each is used.

use crate::{LabError, Result};
use farslot_bench::{Answers, Keys};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::ops::Range;

/// Bytes of a key.
pub(super) const KEY_BYTES: usize = 16;
pub(super) type Key = [u8; KEY_BYTES];

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Records of each map.
    pub(crate) records: u32,
    /// Bytes of a value, 8 at least.
    pub(crate) value_bytes: usize,
    /// Threads that share a map, each with a part of the records.
    pub(crate) threads: usize,
    /// Repetitions, of which the median counts.
    pub(crate) repetitions: usize,
    /// What keys and their order derive from.
    pub(crate) seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            records: 1_000_000,
            value_bytes: 100,
            threads: 1,
            repetitions: 5,
            seed: 0,
        }
    }
}

impl Options {
    pub(super) fn check(&self) -> Result<()> {
        LabError::check_ranges([
            ("records", u64::from(self.records), 1..=1 << 28),
            ("value bytes", self.value_bytes as u64, 8..=1 << 16),
            ("threads", self.threads as u64, 1..=1_024),
            ("repetitions", self.repetitions as u64, 1..=1_000),
        ])?;
        if self.threads as u64 > u64::from(self.records) {
            return Err(LabError::bad(
                "threads",
                self.threads as u64,
                "at most records",
            ));
        }
        Ok(())
    }

    /// The numbers of one thread's records, in an order that looks random.
    pub(super) fn numbers_of(&self, thread: usize) -> Vec<u32> {
        let of = |thread| (u64::from(self.records) * thread as u64 / self.threads as u64) as u32;
        let part: Range<u32> = of(thread)..of(thread + 1);
        let mut numbers: Vec<u32> = part.collect();
        let mut random = ChaCha8Rng::seed_from_u64(self.seed ^ random_of(thread as u64));
        numbers.shuffle(&mut random);
        numbers
    }
}

fn random_of(thread: u64) -> u64 {
    ChaCha8Rng::seed_from_u64(thread).next_u64()
}

/// The records of a run, by their numbers.
#[derive(Clone, Copy)]
pub(crate) struct Records {
    pub(super) keys: Keys,
    pub(super) value_bytes: usize,
}

impl Records {
    pub(crate) fn key(&self, number: u32) -> Key {
        let mut key = [0; KEY_BYTES];
        key[..8].copy_from_slice(&self.keys.long(number.into()));
        key[8..].copy_from_slice(&u64::from(number).to_le_bytes());
        key
    }

    /// Writes the value of a record, of so many bytes as all have.
    pub(crate) fn write_value(&self, number: u32, value: &mut [u8]) {
        value[..8].copy_from_slice(&u64::from(number).to_le_bytes());
    }

    pub(crate) fn new_value(&self) -> Vec<u8> {
        vec![7; self.value_bytes]
    }

    pub(crate) fn is_value(&self, number: u32, value: &[u8]) -> bool {
        value.len() == self.value_bytes && value.starts_with(&u64::from(number).to_le_bytes())
    }
}

/// One thread's way to a map.
pub(crate) trait Client {
    /// Puts these records, one after the other; tells of each whether it has gone well.
    fn put_each(&mut self, records: &Records, numbers: &[u32], answers: &mut Answers);

    /// Gets these records, one after the other, each value as a copy.
    fn get_each(&mut self, records: &Records, numbers: &[u32], answers: &mut Answers);

    /// Puts these records in batches; false if there are none.
    fn put_many(&mut self, _: &Records, _: &[u32], _: &mut Answers) -> bool {
        false
    }

    /// Gets these records in batches; false if there are none.
    fn get_many(&mut self, _: &Records, _: &[u32], _: &mut Answers) -> bool {
        false
    }
}

/// A map that threads share.
pub(crate) trait SharedMap: Sync {
    /// One thread's way to it.
    ///
    /// # Errors
    /// What the map says.
    fn client(&self) -> Result<Box<dyn Client + '_>>;
}
