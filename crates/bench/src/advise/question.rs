//! A workload, and what a table for it may be.

use crate::{BenchError, Result};
use farslot::FieldSize;
use farslot::fabric::sim::NicProfile;
use farslot::layout::{LARGEST_RECORD, record_block_bytes, record_bytes};
use farslot::model::{HitPolicy, Objective, RecordSize, Workload};

/// Client threads where nothing is said: enough for a NIC and not the processors to be the limit,
/// unless an operation costs the NIC next to nothing.
const THREADS: u32 = 64;

/// The records, what is asked of them, and what a table for them may take.
#[derive(Clone, Debug, PartialEq)]
pub struct AdviceQuestion {
    /// Records.
    pub entries: u64,
    /// Bytes of a key.
    pub key: u32,
    /// Bytes of a value: one size, or several with their weights.
    pub values: Vec<(u32, f64)>,
    /// Slots in use per slot. If not given: the lowest with which the table stays within `memory`,
    /// or 0.75 without such a limit.
    pub load: Option<f64>,
    /// Bytes that the table may take.
    pub memory: Option<u64>,
    /// Bytes that each client may keep of the table in its own memory.
    pub client_memory: Option<u64>,
    /// Programs that use the table at the same time.
    pub clients: u32,
    /// Threads of all of them together that use the table.
    pub threads: u32,
    /// Keys of which each client of a linear table remembers where their records lie out of band.
    pub record_locations: u64,
    /// Those of them that write.
    pub writers: u32,
    /// Records that the table must be able to grow to while it is used, if it must.
    pub grow_to: Option<u64>,
    /// The share of lookups that find their key, 0 to 1.
    pub hit_ratio: f64,
    /// The share of operations that replace the value of a key that is there, 0 to 1; the others
    /// are lookups.
    pub updates: f64,
    /// The share of operations that put a new key, 0 to 1.
    pub inserts: f64,
    /// Zipf's skew of the keys that are looked up: 0 is none.
    pub skew: f64,
    /// Whether a key has one record.
    pub unique: bool,
    /// Whether the table may be built whole and never changed.
    pub sealed: bool,
    /// What counts.
    pub objective: Objective,
    /// Whether owners execute operations by call: where processors execute verbs too, as over tcp.
    pub calls: bool,
    /// The NIC.
    pub profile: NicProfile,
}

impl AdviceQuestion {
    /// Lookups of nine hits in ten in records of fixed sizes, one a key, in tables that stay open,
    /// by two programs, one of which writes.
    #[must_use]
    pub fn new(entries: u64, key: u32, value: u32, profile: NicProfile) -> Self {
        Self {
            entries,
            key,
            values: vec![(value, 1.0)],
            load: None,
            memory: None,
            client_memory: None,
            clients: 2,
            threads: THREADS,
            record_locations: 0,
            writers: 1,
            grow_to: None,
            hit_ratio: 0.9,
            updates: 0.0,
            inserts: 0.0,
            skew: 0.0,
            unique: true,
            sealed: false,
            objective: Objective::Throughput,
            calls: Self::has_calls(&profile),
            profile,
        }
    }

    /// Whether owners behind a profile execute operations by call unless told otherwise: those
    /// whose processors execute verbs too.
    #[must_use]
    pub fn has_calls(profile: &NicProfile) -> bool {
        profile.name.starts_with("tcp")
    }

    /// Entries of each client's memory of where records are, in a linear table of so many slots.
    pub(super) fn remembered(&self, slots: u64) -> u64 {
        match self.record_locations.min(slots) {
            0 => 0,
            most => most.next_power_of_two(),
        }
    }

    /// The part of the lookups of keys that are there whose keys a client remembers in that many
    /// entries, each of the key of its part that was met last: keys without skew, of which all are
    /// looked up alike.
    pub(super) fn known_share(&self, remembered: u64) -> f64 {
        let keys_a_part = self.entries as f64 / remembered as f64;
        match remembered {
            0 => 0.0,
            _ => -(-keys_a_part).exp_m1() / keys_a_part,
        }
    }

    /// The mean length of a value, in bytes.
    pub(super) fn mean_value(&self) -> f64 {
        let weights: f64 = self.values.iter().map(|(_, weight)| weight).sum();
        let bytes = self
            .values
            .iter()
            .map(|(bytes, weight)| f64::from(*bytes) * weight);
        bytes.sum::<f64>() / weights
    }

    pub(super) fn check(&self) -> Result<()> {
        let bad = |option, value: String, limit: &str| {
            Err(BenchError::BadOption {
                option,
                value,
                limit: limit.into(),
            })
        };
        if !(1..=1 << 40).contains(&self.entries) {
            return bad("entries", self.entries.to_string(), "from 1 to 2^40");
        }
        if self.values.is_empty() {
            return bad("value sizes", "none".into(), "at least one");
        }
        let weight = |(_, weight): &(u32, f64)| weight.is_finite() && *weight > 0.0;
        if let Some((_, weight)) = self.values.iter().find(|value| !weight(value)) {
            return bad("weight of a value size", weight.to_string(), "above 0");
        }
        let weights: f64 = self.values.iter().map(|(_, weight)| weight).sum();
        if !weights.is_finite() {
            return bad(
                "weights of value sizes",
                weights.to_string(),
                "a finite sum",
            );
        }
        for (option, share) in [
            ("hit ratio", self.hit_ratio),
            ("updates", self.updates),
            ("inserts", self.inserts),
        ] {
            if !(0.0..=1.0).contains(&share) {
                return bad(option, share.to_string(), "from 0 to 1");
            }
        }
        if let Some(load) = self.load
            && !(load > 0.0 && load < 1.0)
        {
            return bad("load factor", load.to_string(), "above 0 and below 1");
        }
        if self.updates + self.inserts > 1.0 {
            let both = self.updates + self.inserts;
            return bad(
                "updates and inserts",
                both.to_string(),
                "at most 1 together",
            );
        }
        if self.clients == 0 {
            return bad("clients", "0".into(), "at least 1");
        }
        if self.threads == 0 {
            return bad("client threads", "0".into(), "at least 1");
        }
        if self.record_locations > 1 << 40 {
            let limit = "at most 2^40";
            return bad("record locations", self.record_locations.to_string(), limit);
        }
        if self.writers > self.clients {
            let limit = format!("at most that of the clients, {}", self.clients);
            return bad("number of writers", self.writers.to_string(), &limit);
        }
        if let Some(most) = self.grow_to
            && !(self.entries..=1 << 40).contains(&most)
        {
            let limit = format!("from the number of entries, {}, to 2^40", self.entries);
            return bad("capacity to grow to", most.to_string(), &limit);
        }
        if self.sealed && self.grow_to.is_some_and(|most| most > self.entries) {
            let limit = "the number of entries in sealed tables: they never change";
            return bad(
                "capacity to grow to",
                self.grow_to.unwrap_or_default().to_string(),
                limit,
            );
        }
        if self.writers == 0 && self.updates + self.inserts > 0.0 {
            let limit = "at least 1 where there are updates or inserts";
            return bad("number of writers", "0".into(), limit);
        }
        if !(0.0..=10.0).contains(&self.skew) {
            return bad("skew", self.skew.to_string(), "from 0 to 10");
        }
        for (option, share) in [("updates", self.updates), ("inserts", self.inserts)] {
            if share > 0.0 && self.sealed {
                let limit = "0 in sealed tables: they never change";
                return bad(option, share.to_string(), limit);
            }
        }
        if self.updates > 0.0 && !self.unique {
            return bad(
                "updates",
                self.updates.to_string(),
                "0 where keys have several records",
            );
        }
        Ok(())
    }

    /// The lookups.
    pub(super) fn workload(&self) -> Result<Workload> {
        let policy = if self.unique {
            HitPolicy::StopAtMatch
        } else {
            HitPolicy::AllMatches
        };
        Ok(Workload::new(self.hit_ratio, policy)?)
    }

    pub(super) fn key_size(&self) -> FieldSize {
        FieldSize::Fixed(self.key)
    }

    /// One size is fixed; several are up to the largest.
    pub(super) fn value_size(&self) -> FieldSize {
        let largest = self
            .values
            .iter()
            .map(|(bytes, _)| *bytes)
            .max()
            .unwrap_or(0);
        match self.values.len() {
            1 => FieldSize::Fixed(largest),
            _ => FieldSize::UpTo(largest),
        }
    }

    /// The records by their sizes, key and value together.
    pub(super) fn record_sizes(&self) -> Vec<RecordSize> {
        let size = |(value, weight): &(u32, f64)| RecordSize {
            bytes: self.key as usize + *value as usize,
            weight: *weight,
        };
        self.values.iter().map(size).collect()
    }

    /// The mean over the records of more than `room` bytes, and their share of all; 0 if there are
    /// none.
    pub(super) fn mean_beyond(&self, room: usize, of: impl Fn(usize) -> f64) -> (f64, f64) {
        let (mut sum, mut larger, mut all) = (0.0, 0.0, 0.0);
        for RecordSize { bytes, weight } in self.record_sizes() {
            all += weight;
            if bytes > room {
                larger += weight;
                sum += weight * of(bytes);
            }
        }
        match larger > 0.0 {
            true => (sum / larger, larger / all),
            false => (0.0, 0.0),
        }
    }

    /// Bytes that a READ fetches of a record larger than `room`, on average: its block, up to what
    /// the longest record takes; and the share of such records.
    ///
    /// # Errors
    /// [`BenchError::BadOption`] for a record that no block of a heap holds.
    pub(super) fn read_beyond(&self, room: usize) -> Result<(f64, f64)> {
        let longest = self.longest_in_heap()?.next_multiple_of(8);
        Ok(self.mean_beyond(room, |bytes| block(bytes).min(longest as f64)))
    }

    /// Bytes of the block of a record out of band, on average.
    ///
    /// # Errors
    /// As [`AdviceQuestion::read_beyond`].
    pub(super) fn block_bytes(&self) -> Result<f64> {
        self.longest_in_heap()?;
        Ok(self.mean_beyond(0, block).0)
    }

    /// Bytes that the longest record takes in a heap.
    fn longest_in_heap(&self) -> Result<usize> {
        let longest = self.record_sizes().iter().map(|size| size.bytes).max();
        let bytes = record_bytes(0, longest.unwrap_or(0));
        if bytes > LARGEST_RECORD {
            return Err(BenchError::BadOption {
                option: "value size",
                value: format!("{:?}", self.values),
                limit: "what a block of a heap holds".into(),
            });
        }
        Ok(bytes)
    }

    /// Bytes of a record of a sealed table out of band, and READs that fetch it, on average.
    /// Records of variable size have their lengths in front; if they are long, a first READ shows
    /// how long.
    pub(super) fn sealed_record(&self) -> (f64, f64) {
        if self.values.len() == 1 {
            return (self.mean_beyond(0, |bytes| bytes as f64).0, 1.0);
        }
        let padded = |bytes: usize| (bytes + 8).next_multiple_of(8);
        let (bytes, _) = self.mean_beyond(0, |bytes| padded(bytes) as f64);
        let (long, _) = self.mean_beyond(0, |bytes| f64::from(u8::from(padded(bytes) > 2048)));
        (bytes, 1.0 + long)
    }

    /// Bytes of a heap bucket's room for each of its records.
    pub(super) fn region_bytes(&self) -> f64 {
        let largest = self.record_sizes().iter().map(|size| size.bytes).max();
        record_bytes(0, largest.unwrap_or(0)).next_multiple_of(8) as f64
    }

    /// Bytes of a record with a key and a value in a heap, as it is written, on average.
    pub(super) fn written_bytes(&self) -> f64 {
        self.mean_beyond(0, |bytes| record_bytes(0, bytes) as f64).0
    }

    /// Bytes of a heap for all records: an eighth and 1 MiB more than their blocks, for what
    /// clients have taken and not used; nothing if no heap holds them.
    pub(super) fn heap_bytes(&self) -> Option<u64> {
        let entries = self.grow_to.unwrap_or(self.entries);
        let blocks = self.block_bytes().ok()? * entries as f64 * 9.0 / 8.0;
        Some(blocks as u64 + (1 << 20))
    }
}

/// Bytes of the block of a record whose key and value take so many.
fn block(bytes: usize) -> f64 {
    record_block_bytes(0, bytes).unwrap_or(record_bytes(0, bytes)) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_remembers_as_many_keys_as_there_are_knows_most() {
        let question = AdviceQuestion {
            record_locations: 1_000_000,
            ..AdviceQuestion::new(1 << 20, 8, 64, NicProfile::connectx5_edr())
        };
        assert_eq!(question.remembered(1 << 30), 1 << 20);
        assert_eq!(question.remembered(1_000), 1_024);
        let share = question.known_share(1 << 20);
        assert!((share - (1.0 - (-1f64).exp())).abs() < 1e-12, "{share}");
        assert!(question.known_share(1 << 40) > 0.999);
        assert_eq!(question.known_share(0), 0.0);
    }

    #[test]
    fn records_that_no_heap_holds_have_no_reads_out_of_band() {
        let ask = |value| AdviceQuestion::new(10_000_000, 8, value, NicProfile::connectx5_edr());
        let question = ask(1 << 24);
        let reads = question.read_beyond(0).map(drop);
        for refused in [reads, question.block_bytes().map(drop)] {
            let Err(BenchError::BadOption { option, .. }) = refused else {
                panic!("{refused:?}");
            };
            assert_eq!(option, "value size");
        }
        let (bytes, share) = ask(64).read_beyond(0).unwrap();
        assert_eq!((bytes % 8.0, share), (0.0, 1.0));
    }
}
