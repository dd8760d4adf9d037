//! A vault that holds nothing but the hashes of keys, under the index that says where they go: to
//! count what insertions cost, without a fabric.

use super::hashes::Candidates;
use super::index::{Entry, Placement};
use super::path::Path;
use super::shape::Shape;
use crate::duo::bytes::SlotNumber;

/// What one insertion took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    /// A batch of READs, if there was one, and one of WRITEs.
    pub round_trips: u64,
    /// Slots read and written.
    pub accessed: u64,
    /// Records that were moved to another slot.
    pub moved: u64,
    /// Whether the key stands by a backup fingerprint, or made another.
    pub adjusted: bool,
    /// Whether the key went to the stash because its fingerprints collide.
    pub unresolved: bool,
    /// Whether there was no path to a free slot.
    pub no_path: bool,
}

/// An index, and the hash of the key in each slot.
pub struct Vault {
    /// The index.
    pub index: Placement,
    arrays: Vec<u64>,
    stash: Vec<u64>,
}

impl Vault {
    /// An empty one.
    #[must_use]
    pub fn new(shape: Shape) -> Self {
        Self {
            index: Placement::new(shape),
            arrays: vec![0; shape.slots() as usize],
            stash: vec![0; shape.stash as usize],
        }
    }

    /// The hash of the key in a slot; that of the last one, if it is free.
    #[must_use]
    pub fn hash_in(&self, slot: SlotNumber) -> u64 {
        match slot.in_stash() {
            Some(index) => self.stash[index as usize],
            None => self.arrays[slot.0 as usize],
        }
    }

    fn write(&mut self, slot: SlotNumber, hash: u64) {
        match slot.in_stash() {
            Some(index) => self.stash[index as usize] = hash,
            None => self.arrays[slot.0 as usize] = hash,
        }
    }

    /// Begins a growth.
    pub fn grow(&mut self, ratio: u64) {
        self.index.grow(ratio);
        self.arrays.resize(self.index.shape().slots() as usize, 0);
    }

    /// Splits a bucket.
    pub fn split(&mut self, origin: u64) {
        let live = self.index.live_in(origin);
        let keys: Vec<_> = live.map(|slot| (slot, self.hash_in(slot))).collect();
        for (slot, hash) in &keys {
            self.write(self.index.slot_after_split(*slot, *hash), *hash);
        }
        self.index.split(origin, &keys);
    }

    /// The slot of the key with this hash, and how many are read to find it.
    #[must_use]
    pub fn find(&self, hash: u64) -> (Option<SlotNumber>, u64) {
        let mut read = 0;
        for slot in self.index.matches(hash) {
            read += 1;
            if self.hash_in(slot) == hash {
                return (Some(slot), read);
            }
        }
        (None, read)
    }

    /// Inserts a key that is not there; nothing if the stash is full too.
    pub fn insert(&mut self, hash: u64) -> Option<Cost> {
        let of = self.index.candidates(hash);
        let matched: Vec<SlotNumber> = self.index.matches(hash).collect();
        let known = self.known(&of, &matched);
        let mut cost = Cost::default();
        let mut entry = self.index.entry(&of, &known);
        cost.unresolved = entry == Entry::Stash;
        let mut path = None;
        if entry != Entry::Stash {
            let roots = self.index.roots(&of, entry);
            path = self.index.path(&roots, &matched, |_| true);
            cost.no_path = path.is_none();
        }
        let path = match path {
            Some(path) => path,
            None => {
                entry = Entry::Stash;
                Path::to(self.index.stash_room(|_| true)?)
            }
        };
        cost.adjusted = matches!(entry, Entry::Backup | Entry::InsteadOf(..));
        cost.moved = path.moves() as u64;
        let read = known.len() as u64 + cost.moved;
        cost.accessed = read + cost.moved + 1;
        cost.round_trips = 1 + u64::from(read > 0);
        self.carry_out(&path, &of, entry, hash);
        Some(cost)
    }

    /// The keys that an insertion reads before it decides: those of the slots that match, and of
    /// all in the bucket of the first array.
    fn known(&self, of: &Candidates, matched: &[SlotNumber]) -> Vec<(SlotNumber, Candidates)> {
        if matched.is_empty() {
            return Vec::new();
        }
        let first = self.index.buckets_of(of)[0];
        let mut slots: Vec<SlotNumber> = self.index.live_in(first).collect();
        slots.extend(
            matched
                .iter()
                .filter(|slot| self.index.bucket_of(**slot) != Some(first)),
        );
        let candidates = |slot: SlotNumber| self.index.candidates(self.hash_in(slot));
        slots
            .into_iter()
            .map(|slot| (slot, candidates(slot)))
            .collect()
    }

    fn carry_out(&mut self, path: &Path, of: &Candidates, entry: Entry, hash: u64) {
        for pair in path.slots.windows(2).rev() {
            self.write(pair[1], self.hash_in(pair[0]));
        }
        self.write(path.slots[0], hash);
        match entry {
            Entry::Stash => self.index.assign(path.slots[0], hash),
            entry => self.index.enter(path, of, entry),
        }
    }

    /// Removes a key; false if it is not there.
    pub fn remove(&mut self, hash: u64) -> bool {
        let found = self.find(hash).0;
        found.inspect(|slot| self.index.vacate(*slot)).is_some()
    }
}
