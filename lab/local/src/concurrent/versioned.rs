//! Slots of one record each that are read without a lock: a seqlock a slot.
//!
//! A slot is a header and the record's words:
//!
//! ```text
//! bit  0       the record is being written
//! bits 1..9    the tag; 0: vacant
//! bits 9..64   the version: one more with every change
//! ```
//!
//! Orderings are those of Boehm ("Can seqlocks get along with programming language memory models?",
//! 2012): the words are relaxed atomics, a writer's release fence is behind the header that says
//! so, a reader's acquire fence before it looks at the header once more.

use super::sync::{AtomicU64, Ordering, SpinBackoff, fence};
use super::words::Words;
use std::marker::PhantomData;

const BUSY: u64 = 1;
const TAG_AT: u32 = 1;
const VERSION: u64 = 1 << 9;

/// The slots. One thread at a time may change them.
pub(super) struct VersionedSlots<K, V> {
    /// For each slot, its header, the key's words and the value's.
    words: Box<[AtomicU64]>,
    records: PhantomData<(K, V)>,
}

/// What a slot said.
pub(super) enum VersionedRead<V> {
    /// The key, with this value.
    Hit(V),
    /// Another key or none. The header is the same for as long as that is so.
    Miss(u64),
}

impl<K: Words + Eq, V: Words> VersionedSlots<K, V> {
    const STRIDE: usize = 1 + K::COUNT + V::COUNT;

    /// Vacant slots.
    pub(super) fn new(slots: usize) -> Self {
        Self {
            words: std::iter::repeat_with(|| AtomicU64::new(0))
                .take(slots * Self::STRIDE)
                .collect(),
            records: PhantomData,
        }
    }

    pub(super) fn slots(&self) -> usize {
        self.words.len() / Self::STRIDE
    }

    /// Reads a slot, for readers: of one moment between the call and its return.
    #[inline]
    pub(super) fn read(&self, slot: u32, tag: u8, key: &K) -> VersionedRead<V> {
        let slot = self.slot(slot);
        let mut backoff = SpinBackoff::default();
        loop {
            let header = slot[0].load(Ordering::Acquire);
            if header & BUSY != 0 {
                backoff.wait();
                continue;
            }
            if tag_of(header) != tag {
                return VersionedRead::Miss(header);
            }
            let is_it = key_of::<K>(slot) == *key;
            let value = value_of::<K, V>(slot);
            fence(Ordering::Acquire);
            if slot[0].load(Ordering::Relaxed) == header {
                return if is_it {
                    VersionedRead::Hit(value)
                } else {
                    VersionedRead::Miss(header)
                };
            }
        }
    }

    /// Whether a slot is now as it was when its header was this. What the caller has read before
    /// from other slots was written before whatever this does not see.
    #[inline]
    pub(super) fn is_still(&self, slot: u32, header: u64) -> bool {
        self.slot(slot)[0].load(Ordering::Acquire) == header
    }

    /// The tag of a slot, for the writer.
    #[inline]
    pub(super) fn tag(&self, slot: u32) -> u8 {
        tag_of(self.slot(slot)[0].load(Ordering::Relaxed))
    }

    /// The record of an occupied slot, for the writer.
    pub(super) fn record(&self, slot: u32) -> (K, V) {
        let slot = self.slot(slot);
        (key_of(slot), value_of::<K, V>(slot))
    }

    /// The key of an occupied slot, for the writer.
    #[inline]
    pub(super) fn key(&self, slot: u32) -> K {
        key_of(self.slot(slot))
    }

    /// Puts a record into a slot, in place of what is there. For the writer.
    pub(super) fn write(&self, slot: u32, tag: u8, key: &K, value: &V) {
        let slot = self.slot(slot);
        let header = slot[0].load(Ordering::Relaxed);
        slot[0].store(header | BUSY, Ordering::Relaxed);
        fence(Ordering::Release);
        for index in 0..K::COUNT {
            slot[1 + index].store(key.word(index), Ordering::Relaxed);
        }
        for index in 0..V::COUNT {
            slot[1 + K::COUNT + index].store(value.word(index), Ordering::Relaxed);
        }
        slot[0].store(changed(header, tag), Ordering::Release);
    }

    /// Makes a slot vacant. For the writer.
    pub(super) fn vacate(&self, slot: u32) {
        let header = &self.slot(slot)[0];
        let vacant = changed(header.load(Ordering::Relaxed), 0);
        header.store(vacant, Ordering::Release);
    }

    #[inline]
    fn slot(&self, slot: u32) -> &[AtomicU64] {
        let at = slot as usize * Self::STRIDE;
        &self.words[at..at + Self::STRIDE]
    }
}

/// A header after the one of another version.
fn changed(header: u64, tag: u8) -> u64 {
    (header & !(VERSION - 1)).wrapping_add(VERSION) | u64::from(tag) << TAG_AT
}

fn tag_of(header: u64) -> u8 {
    (header >> TAG_AT) as u8
}

#[inline]
fn key_of<K: Words>(slot: &[AtomicU64]) -> K {
    K::from_words(|index| slot[1 + index].load(Ordering::Relaxed))
}

#[inline]
fn value_of<K: Words, V: Words>(slot: &[AtomicU64]) -> V {
    V::from_words(|index| slot[1 + K::COUNT + index].load(Ordering::Relaxed))
}
