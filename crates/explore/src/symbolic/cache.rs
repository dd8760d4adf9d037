//! Results of operations on diagrams, in the memory of all workers; a newer one may displace an
//! older one.
//!
//! ```text
//! an entry, two words:  | lock 1 | version 10 | kind 22 | first node 31 |
//!                       | result 32           | second node 32          |
//! ```
//! An entry is valid where its first word is the same before and after the second one is read, and
//! not locked. Its writer locks the first word, with another version, before it changes the second.
//! A reader that was asleep while the entry was written exactly 1,024 times, for the same operation
//! but for its second node, could take one result for another. A writer that is killed leaves its
//! entry locked until the next garbage collection: nothing is found there, and nothing put.

use farslot_fabric::shm::MappedWords;
use farslot_set::Share;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// An operation: what is done, and to which nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Operation {
    /// [`UNION`] or [`DIFFERENCE`], or a transition's number with one of the other kinds.
    pub(super) kind: u32,
    pub(super) one: u32,
    pub(super) two: u32,
}

/// The kinds of operations that are no transition's.
pub(super) const UNION: u32 = KINDS - 1;
pub(super) const DIFFERENCE: u32 = KINDS - 2;

/// Kinds that an entry can say. Operations of others are not remembered.
const KINDS: u32 = 1 << 22;
const NODE_BITS: u32 = 31;
const KIND_BITS: u32 = 22;
const LOCKED: u64 = 1 << 63;
const VERSION: u64 = 1 << (NODE_BITS + KIND_BITS);
/// The bits of an entry's first word that say which operation it is of; no operation is on node 0.
const TAG: u64 = VERSION - 1;
/// Bytes of an entry.
pub(super) const ENTRY: u64 = 16;

/// A cache is enlarged when a worker has written so many times as often as it has entries.
const WRITES: u64 = 2;

/// A worker's view of the table of results.
#[derive(Debug)]
pub(super) struct Cache {
    parts: Arc<[MappedWords]>,
    /// Entries of each rank's part that are in use, and that there is room for: powers of 2.
    entries: u64,
    reserved: u64,
    /// Whether no other worker writes.
    alone: bool,
    writes: u64,
    writes_since_growth: u64,
}

impl Cache {
    /// A cache over memory that starts as zeros, with so many entries of each rank in use.
    pub(super) fn new(parts: Arc<[MappedWords]>, entries: u64, alone: bool) -> Self {
        let words = parts.iter().map(|part| part.len()).min();
        let reserved = (words.unwrap_or_default() as u64 / 2).max(1);
        let reserved = 1 << reserved.ilog2();
        Self {
            parts,
            entries: entries.min(reserved),
            reserved,
            alone,
            writes: 0,
            writes_since_growth: 0,
        }
    }

    #[inline]
    fn place(&self, operation: Operation) -> Option<&[AtomicU64]> {
        let Operation { kind, one, two } = operation;
        let mut hash = (u64::from(one) | u64::from(two) << 32) ^ u64::from(kind) << 20;
        hash = (hash ^ hash >> 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        hash = (hash ^ hash >> 29 ^ u64::from(kind)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let rank = match self.parts.len() {
            1 => 0,
            ranks => ((hash & 0xffff) as usize * ranks) >> 16,
        };
        let entry = ((hash >> 32) & (self.entries - 1)) as usize;
        self.parts[rank].get(2 * entry..2 * entry + 2)
    }

    #[inline]
    fn tag(operation: Operation) -> Option<u64> {
        let fits = operation.kind < KINDS && operation.one >> NODE_BITS == 0;
        fits.then_some(u64::from(operation.kind) << NODE_BITS | u64::from(operation.one))
    }

    #[inline]
    pub(super) fn get(&self, operation: Operation) -> Option<u32> {
        let (tag, entry) = (Self::tag(operation)?, self.place(operation)?);
        let before = entry[0].load(Ordering::Acquire);
        if before & (LOCKED | TAG) != tag {
            return None;
        }
        let value = entry[1].load(Ordering::Acquire);
        let valid = value as u32 == operation.two && entry[0].load(Ordering::Relaxed) == before;
        valid.then_some((value >> 32) as u32)
    }

    #[inline]
    pub(super) fn put(&mut self, operation: Operation, result: u32) {
        self.writes += 1;
        self.writes_since_growth += 1;
        let (Some(tag), Some(entry)) = (Self::tag(operation), self.place(operation)) else {
            return;
        };
        let before = entry[0].load(Ordering::Relaxed);
        if before & LOCKED != 0 {
            return;
        }
        let new = (before & !TAG).wrapping_add(VERSION) & !LOCKED | tag;
        let locked = new | LOCKED;
        if self.alone {
            entry[0].store(locked, Ordering::Relaxed);
        } else {
            let (done, missed) = (Ordering::Acquire, Ordering::Relaxed);
            if entry[0]
                .compare_exchange(before, locked, done, missed)
                .is_err()
            {
                return;
            }
        }
        // Whoever sees the second word changed sees the lock.
        fence(Ordering::Release);
        let value = u64::from(result) << 32 | u64::from(operation.two);
        entry[1].store(value, Ordering::Relaxed);
        entry[0].store(new, Ordering::Release);
    }

    /// Entries of each rank's part, if it should have more than it has.
    pub(super) fn wanted(&self) -> Option<u64> {
        let many = self.writes_since_growth > WRITES * self.entries * self.parts.len() as u64;
        (many && self.entries < self.reserved).then_some(2 * self.entries)
    }

    /// Does not want more for now.
    pub(super) fn be_content(&mut self) {
        self.writes_since_growth = 0;
    }

    pub(super) fn entries(&self) -> u64 {
        self.entries
    }

    /// Bytes of all parts, with so many entries each.
    pub(super) fn bytes_with(&self, entries: u64) -> u64 {
        entries * ENTRY * self.parts.len() as u64
    }

    /// Uses twice as many entries, or as many as before. All workers do their shares of it, between
    /// two barriers.
    pub(super) fn grow(&mut self, share: Share, entries: u64) {
        self.writes_since_growth = 0;
        if entries <= self.entries || entries > self.reserved {
            return;
        }
        let before = self.entries;
        // A worker's part of the old entries goes there or into as much behind all old ones, where
        // no other worker's goes.
        self.entries = entries;
        for part in self.parts.iter() {
            for at in share.of(before) {
                let entry = &part[2 * at as usize..][..2];
                let [first, second] = [0, 1].map(|word| entry[word].load(Ordering::Relaxed));
                if first & TAG == 0 {
                    continue;
                }
                let operation = Operation {
                    kind: (first >> NODE_BITS) as u32 & (KINDS - 1),
                    one: (first & ((1 << NODE_BITS) - 1)) as u32,
                    two: second as u32,
                };
                let to = self.place(operation).filter(|_| first & LOCKED == 0);
                if to.is_some_and(|to| std::ptr::eq(to, entry)) {
                    continue;
                }
                if let Some(to) = to {
                    to[1].store(second, Ordering::Relaxed);
                    to[0].store(first, Ordering::Relaxed);
                }
                entry[0].store(0, Ordering::Relaxed);
            }
        }
    }

    /// Uses so many entries, and forgets the operations on nodes, and to nodes, that are no longer
    /// there. A share of it, as [`Cache::grow`].
    pub(super) fn retain(&mut self, share: Share, entries: u64, is_there: impl Fn(u32) -> bool) {
        self.writes_since_growth = 0;
        for part in self.parts.iter() {
            for at in share.of(self.entries) {
                let entry = &part[2 * at as usize..][..2];
                let [first, second] = [0, 1].map(|word| entry[word].load(Ordering::Relaxed));
                let nodes = [
                    (first & ((1 << NODE_BITS) - 1)) as u32,
                    second as u32,
                    (second >> 32) as u32,
                ];
                let is_valid = first & TAG != 0 && first & LOCKED == 0 && at < entries;
                if !is_valid || !nodes.into_iter().all(&is_there) {
                    entry[0].store(0, Ordering::Relaxed);
                }
            }
        }
        self.entries = entries.min(self.entries);
    }

    /// Results that this worker has put: how much was done.
    pub(super) fn writes(&self) -> u64 {
        self.writes
    }

    /// Counts anew.
    pub(super) fn forget_writes(&mut self) {
        self.writes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farslot_fabric::shm::{Node, RegionSpec};
    use farslot_fabric::{RegionId, Rights};

    fn parts(ranks: usize, entries: u64) -> Arc<[MappedWords]> {
        let region = RegionSpec {
            len: entries * ENTRY,
            rights: Rights::ALL,
        };
        let parts = (0..ranks).map(|_| {
            let node = Node::embedded(&[region]).unwrap();
            MappedWords::of(&node, RegionId(0)).unwrap()
        });
        parts.collect()
    }

    fn operation(number: u32) -> Operation {
        Operation {
            kind: if number.is_multiple_of(3) {
                UNION
            } else {
                number % 7
            },
            one: 1 + number % 91,
            two: number,
        }
    }

    #[test]
    fn results_stay_when_a_cache_grows_and_go_with_their_nodes() {
        for ranks in [1, 3] {
            let mut cache = Cache::new(parts(ranks, 1 << 10), 16, true);
            for number in 0..8 {
                cache.put(operation(number), number + 100);
            }
            let cached = |cache: &Cache| -> Vec<u32> {
                let found = (0..8).filter(|number| match cache.get(operation(*number)) {
                    Some(result) => result == number + 100,
                    None => false,
                });
                found.collect()
            };
            let before = cached(&cache);
            assert!(before.len() > 4, "{before:?}");
            for entries in [32, 64, 1 << 10] {
                cache.grow(Share::WHOLE, entries);
                assert_eq!(cached(&cache), before);
            }
            cache.retain(Share::WHOLE, 1 << 10, |node| node != 100 + before[0]);
            assert_eq!(cached(&cache), before[1..]);
            cache.retain(Share::WHOLE, 16, |_| false);
            assert!(cached(&cache).is_empty());
            assert_eq!(cache.entries(), 16);
        }
    }

    #[test]
    fn what_threads_put_at_the_same_time_is_never_mixed() {
        let parts = parts(1, 4);
        std::thread::scope(|scope| {
            for worker in 0..3 {
                let mut cache = Cache::new(Arc::clone(&parts), 4, false);
                scope.spawn(move || {
                    for round in 0..30_000 {
                        let number = (round * 7 + worker * 13) % 500;
                        if let Some(result) = cache.get(operation(number)) {
                            assert_eq!(result, number + 100);
                        }
                        cache.put(operation(number), number + 100);
                    }
                });
            }
        });
    }
}
