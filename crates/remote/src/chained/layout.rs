//! Where everything lies, and what a slot's words mean.

use crate::RemoteError;
use crate::sum::{bytes_of, put_bytes, sum, words_of};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The words of the header.
pub(super) const EXTRA: u64 = 0;
pub(super) const USED: u64 = 8;
pub(super) const FREE: u64 = 16;
pub(super) const PRESSURE: u64 = 24;
pub(super) const KEYS: u64 = 32;
pub(super) const NEWEST: u64 = 40;
const HEADER: u64 = 64;

/// Words of a slot before its key.
pub(super) const SLOT_HEAD: usize = 4;
/// Of a slot's words, which is the lock.
pub(super) const LOCK: u64 = 8;
/// Bytes of a bucket before its slots.
pub(super) const BUCKET_HEAD: u64 = 16;
/// Set in a slot's lengths if the key is locked and absent.
const RESERVED: u64 = 1 << 63;

/// How a table is laid out. Owner and clients must have the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// The table's first byte in its region, a multiple of 8.
    pub at: u64,
    /// Most bytes of a key.
    pub key_bytes: u16,
    /// Most bytes of a value.
    pub value_bytes: u16,
    /// Slots of a bucket, from 1 on.
    pub slots: u8,
    /// Buckets to begin with, a power of two. More than there are keys is oversubscription: chains
    /// become rare.
    pub buckets: u32,
    /// Buckets to grow to.
    pub most_buckets: u32,
    /// Slots for chains.
    pub overflow: u32,
    /// Walks of chains after which a bucket is split; 0 is never.
    pub split_after: u32,
    /// What keys are hashed by: whoever knows it can choose keys of one bucket.
    pub seed: u64,
}

impl Shape {
    /// Checks that a table can be laid out so.
    ///
    /// # Errors
    /// [`RemoteError::BadShape`].
    pub fn check(&self) -> Result<(), RemoteError> {
        let bad = |subject, value: u64, limit| {
            Err(RemoteError::BadShape {
                subject,
                value,
                limit,
            })
        };
        if !self.at.is_multiple_of(8) || self.at > 1 << 60 {
            return bad("the table's place", self.at, "a multiple of 8");
        }
        if self.key_bytes == 0 {
            return bad("the most bytes of a key", 0, "1 or more");
        }
        if self.slots == 0 {
            return bad("the slots of a bucket", 0, "1 or more");
        }
        if !self.buckets.is_power_of_two() {
            let buckets = self.buckets.into();
            return bad("the number of buckets", buckets, "a power of two");
        }
        if self.most_buckets < self.buckets {
            let most = self.most_buckets.into();
            return bad(
                "the most buckets",
                most,
                "no less than the buckets to begin with",
            );
        }
        Ok(())
    }

    /// Bytes of the whole table.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        HEADER
            + u64::from(self.most_buckets) * self.bucket_bytes()
            + u64::from(self.overflow) * self.entry_bytes()
    }

    /// What of a table's bytes may have been written, counted from its first: by its first two
    /// words.
    #[must_use]
    pub fn written(&self, counts: [u64; 2]) -> Vec<Range<u64>> {
        let [extra, used] = counts;
        let first = self.bucket_at(0) - self.at;
        let extra = extra.min((self.most_buckets - self.buckets).into());
        let buckets = (u64::from(self.buckets) + extra) * self.bucket_bytes();
        let chains = self.bucket_at(self.most_buckets.into()) - self.at;
        let used = used.min(self.overflow.into()) * self.entry_bytes();
        vec![0..first + buckets, chains..chains + used]
    }

    pub(super) fn key_words(&self) -> usize {
        words_of(self.key_bytes.into())
    }

    pub(super) fn slot_words(&self) -> usize {
        SLOT_HEAD + self.key_words() + words_of(self.value_bytes.into())
    }

    /// Bytes of a slot.
    #[must_use]
    pub fn slot_bytes(&self) -> u64 {
        self.slot_words() as u64 * 8
    }

    /// Bytes of a bucket.
    #[must_use]
    pub fn bucket_bytes(&self) -> u64 {
        BUCKET_HEAD + u64::from(self.slots) * self.slot_bytes()
    }

    fn entry_bytes(&self) -> u64 {
        8 + self.slot_bytes()
    }

    pub(super) fn header(&self, field: u64) -> u64 {
        self.at + field
    }

    pub(super) fn bucket_at(&self, bucket: u64) -> u64 {
        self.at + HEADER + bucket * self.bucket_bytes()
    }

    /// A slot of the bucket at `bucket`.
    pub(super) fn slot_at(&self, bucket: u64, slot: u8) -> u64 {
        bucket + BUCKET_HEAD + u64::from(slot) * self.slot_bytes()
    }

    /// An overflow slot's entry; they are numbered from 1 on.
    pub(super) fn entry_at(&self, entry: u32) -> Option<u64> {
        if entry == 0 || entry > self.overflow {
            return None;
        }
        let first = self.bucket_at(self.most_buckets.into());
        Some(first + u64::from(entry - 1) * self.entry_bytes())
    }

    /// Where a key goes by.
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        xxh3_64_with_seed(key, self.seed)
    }

    /// The bucket of a hash, if there are so many buckets beyond those to begin with.
    pub(super) fn bucket_of(&self, hash: u64, extra: u64) -> u64 {
        let first = u64::from(self.buckets);
        let buckets = first + extra;
        let doubled = (buckets / first).ilog2();
        let deep = hash & ((first << (doubled + 1)) - 1);
        if deep < buckets {
            return deep;
        }
        hash & ((first << doubled) - 1)
    }

    /// Whether a bucket of this depth is for a hash.
    pub(super) fn is_for(&self, bucket: u64, depth: u8, hash: u64) -> bool {
        let buckets = u64::from(self.buckets).checked_shl(depth.into());
        buckets.is_some_and(|buckets| hash & buckets.wrapping_sub(1) == bucket)
    }
}

/// The words of a slot.
#[derive(Clone, Copy)]
pub(super) struct Slot<'w>(pub(super) &'w [u64]);

impl<'w> Slot<'w> {
    pub(super) fn check(self) -> u64 {
        self.0[0]
    }

    pub(super) fn lock(self) -> u64 {
        self.0[1]
    }

    pub(super) fn version(self) -> u64 {
        self.0[2]
    }

    pub(super) fn is_reserved(self) -> bool {
        self.0[3] & RESERVED != 0
    }

    /// Whether the words were a key's slot at one moment.
    pub(super) fn is_whole(self, at: u64) -> bool {
        self.check() == check_of(at, self.0)
    }

    pub(super) fn is_of(self, key: &[u8]) -> bool {
        self.key() == Some(key)
    }

    /// The key; nothing of a slot whose lengths make no sense.
    pub(super) fn key(self) -> Option<&'w [u8]> {
        bytes_of(&self.0[SLOT_HEAD..], usize::from(self.0[3] as u16))
    }

    /// The value; nothing of a slot whose lengths make no sense.
    pub(super) fn value(self, shape: &Shape) -> Option<&'w [u8]> {
        let len = (self.0[3] >> 16) as u16;
        bytes_of(&self.0[SLOT_HEAD + shape.key_words()..], len.into())
    }
}

/// The check of a slot of these words at a place.
pub(super) fn check_of(at: u64, slot: &[u64]) -> u64 {
    sum(at, &slot[1..])
}

/// Puts key and value into the words of a slot; the check is not set.
pub(super) fn fill_slot(slot: &mut [u64], shape: &Shape, key: &[u8], value: Option<&[u8]>) {
    let reserved = if value.is_some() { 0 } else { RESERVED };
    let value = value.unwrap_or(&[]);
    slot[3] = key.len() as u64 | (value.len() as u64) << 16 | reserved;
    let (key_words, value_words) = slot[SLOT_HEAD..].split_at_mut(shape.key_words());
    put_bytes(key_words, key);
    put_bytes(value_words, value);
}

/// The bits of [`Meta::removals`].
const REMOVALS: u32 = (1 << 24) - 1;

/// A bucket's second word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Meta {
    pub(super) depth: u8,
    /// Keys removed from the bucket, modulo 2^24: no two of its contents have equal stamps.
    pub(super) removals: u32,
    /// The first entry of the chain; 0 is none.
    pub(super) first: u32,
}

impl Meta {
    pub(super) const fn word(self) -> u64 {
        self.first as u64 | ((self.removals & REMOVALS) as u64) << 32 | (self.depth as u64) << 56
    }

    pub(super) const fn of_word(word: u64) -> Self {
        Self {
            depth: (word >> 56) as u8,
            removals: (word >> 32) as u32 & REMOVALS,
            first: word as u32,
        }
    }
}

/// The stamp of a bucket; 0 of one in which nothing is, or ever was.
pub(super) fn stamp_of(at: u64, meta: u64, checks: impl Iterator<Item = u64>) -> u64 {
    let mut words: SmallVec<[u64; 16]> = smallvec![meta];
    words.extend(checks);
    if words.iter().all(|word| *word == 0) {
        return 0;
    }
    sum(at, &words)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) const SHAPE: Shape = Shape {
        at: 128,
        key_bytes: 12,
        value_bytes: 20,
        slots: 2,
        buckets: 4,
        most_buckets: 100,
        overflow: 9,
        split_after: 0,
        seed: 7,
    };

    #[test]
    fn every_hash_has_one_bucket_whose_depth_agrees() {
        // Depths as splits leave them.
        let mut depths = vec![0u8; 4];
        for extra in 0..60u64 {
            for hash in (0..2000u64).map(|hash| hash.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
                let bucket = SHAPE.bucket_of(hash, extra);
                let are_for = (0..4 + extra)
                    .filter(|bucket| SHAPE.is_for(*bucket, depths[*bucket as usize], hash));
                assert_eq!(are_for.collect::<Vec<_>>(), [bucket], "{extra}");
            }
            let buckets = 4 + extra;
            let split = buckets - (4 << (buckets / 4).ilog2());
            depths[split as usize] += 1;
            depths.push(depths[split as usize]);
        }
    }

    #[test]
    fn slots_do_not_overlap_and_end_where_the_table_ends() {
        let last = SHAPE.entry_at(SHAPE.overflow).unwrap();
        assert_eq!(last + 8 + SHAPE.slot_bytes(), SHAPE.at + SHAPE.bytes());
        assert_eq!(SHAPE.entry_at(0), None);
        assert_eq!(SHAPE.entry_at(SHAPE.overflow + 1), None);
        let end = SHAPE.slot_at(SHAPE.bucket_at(99), 1) + SHAPE.slot_bytes();
        assert_eq!(SHAPE.entry_at(1), Some(end));
    }

    #[test]
    fn a_slot_holds_its_bytes_and_notices_any_other_word() {
        let mut words = vec![0; SHAPE.slot_words()];
        fill_slot(&mut words, &SHAPE, b"key", Some(b"a longer value"));
        words[0] = check_of(64, &words);
        let slot = Slot(&words);
        assert!(slot.is_of(b"key") && slot.is_whole(64) && !slot.is_whole(72));
        assert_eq!(slot.value(&SHAPE), Some(&b"a longer value"[..]));
        assert!(!slot.is_reserved());
        for word in 0..words.len() {
            let mut torn = words.clone();
            torn[word] ^= 1 << 40;
            assert!(!Slot(&torn).is_whole(64), "word {word}");
        }
        fill_slot(&mut words, &SHAPE, b"", None);
        assert!(Slot(&words).is_reserved());
        words[3] = u64::MAX;
        assert_eq!(
            (Slot(&words).key(), Slot(&words).value(&SHAPE)),
            (None, None)
        );
    }

    #[test]
    fn shapes_that_cannot_be_are_refused() {
        assert!(SHAPE.check().is_ok());
        for bad in [
            Shape { at: 4, ..SHAPE },
            Shape {
                key_bytes: 0,
                ..SHAPE
            },
            Shape { slots: 0, ..SHAPE },
            Shape {
                buckets: 3,
                ..SHAPE
            },
            Shape {
                most_buckets: 2,
                ..SHAPE
            },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
