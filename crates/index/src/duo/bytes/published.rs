//! The published index: the owner's, in remote memory, for readers elsewhere.
//!
//! ```text
//! behind the journal:  counts of changes, a word a segment | how often the table has grown |
//!                      stash, a word a slot | pages
//! in each extent:      counts of changes, a word a segment | pages
//! page of a bucket     | word | word | ... |         by the buckets' numbers
//! word of a page       | entries, f + 1 bits each | version |
//! entry of a slot      | fingerprint, f bits | whether it is a backup one |     0: none
//! word of the stash    | 35 bits of the key's hash | 1 | version |              0: none
//! ```
//! Invariant: the entry of a live slot names its key, from before the slot is live until it is
//! dead. It is written in the batch that makes the slot live, before the slot. The entry of a dead
//! slot may be anything. So who sees all words of a key's two pages and of the stash at one moment,
//! and none that names the key, knows that it is absent.
//!
//! A word is read and written whole. Its version is a count of its page's changes, so a word with
//! the same version is the same word, and pages with the same sum of versions are the same pages,
//! unless one was written 2^28 times between two looks. The *count* of a segment, some pages in a
//! row, grows after a page is written and before the slot is live: by the counts a reader sees
//! which part of its copy is old.
//!
//! **Growth.** What is published of the buckets that a growth adds lies in its extent, and the bits
//! there say which buckets are split (see `growth/mod.rs`). Invariant: the pages of the new buckets
//! name what is in them before the bit is set; the count of the bucket's segment grows after it is,
//! and before any of these buckets takes another key. The count of growths and the bits only grow,
//! as versions do. So who sees them as they were before, with the words of the pages of the two
//! buckets that are the key's by them, sees all that there is of the key at one moment.

use super::numbers::SlotNumber;

/// Bits of a word that are its entries', at most: the others are the version.
const ENTRY_BITS: u32 = 36;
/// In a word of the stash: there is a key.
const STASHED: u64 = 1 << (ENTRY_BITS - 1);

/// How the entries of a page lie in its words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct PageShape {
    /// Entries of the page: the slots of a bucket, or one of the stash.
    pub(in super::super) slots: u32,
    entry_bits: u32,
    /// Entries of a word.
    per_word: u32,
}

impl PageShape {
    pub(super) const fn of_bucket(slots: u32, fingerprint_bits: u32) -> Self {
        let entry_bits = fingerprint_bits + 1;
        let fit = ENTRY_BITS / entry_bits;
        Self {
            slots,
            entry_bits,
            per_word: if fit < slots { fit } else { slots },
        }
    }

    pub(super) const OF_STASH: Self = Self {
        slots: 1,
        entry_bits: ENTRY_BITS,
        per_word: 1,
    };

    /// Words of a page.
    pub(in super::super) const fn words(self) -> u32 {
        self.slots.div_ceil(self.per_word)
    }

    /// The word that an entry is in.
    pub(in super::super) const fn word_of(self, entry: u32) -> u32 {
        entry / self.per_word
    }

    /// The word number `word` of a page with these entries.
    pub(in super::super) fn pack(self, word: u32, version: u32, entry: impl Fn(u32) -> u64) -> u64 {
        let first = word * self.per_word;
        let last = (first + self.per_word).min(self.slots);
        let packed = (first..last).fold(0, |packed, number| {
            packed | entry(number) << ((number - first) * self.entry_bits)
        });
        packed | u64::from(version) << (self.per_word * self.entry_bits)
    }

    /// The entries of a page's words, in order.
    pub(in super::super) fn entries(self, words: &[u64]) -> impl Iterator<Item = u64> {
        (0..self.slots).map(move |number| {
            let word = words[self.word_of(number) as usize];
            word >> (number % self.per_word * self.entry_bits) & ((1 << self.entry_bits) - 1)
        })
    }

    /// The version of a word.
    pub(in super::super) const fn version(self, word: u64) -> u32 {
        (word >> (self.per_word * self.entry_bits)) as u32
    }

    /// The sum of the versions of a page's words.
    pub(in super::super) fn sum(self, words: &[u64]) -> u32 {
        let versions = words.iter().map(|word| self.version(*word));
        versions.fold(0, u32::wrapping_add)
    }
}

/// The entry of a slot with this fingerprint, of f bits.
pub(in super::super) const fn bucket_entry(
    fingerprint: u32,
    backup: bool,
    fingerprint_bits: u32,
) -> u64 {
    fingerprint as u64 | (backup as u64) << fingerprint_bits
}

/// The fingerprint of an entry, and whether it is a backup one.
pub(in super::super) const fn entry_parts(entry: u64, fingerprint_bits: u32) -> (u32, bool) {
    let fingerprint = entry & ((1 << fingerprint_bits) - 1);
    (fingerprint as u32, entry >> fingerprint_bits & 1 != 0)
}

/// The entry of a slot of the stash with a key of this hash.
pub(in super::super) const fn stash_entry(hash: u64) -> u64 {
    STASHED | hash & (STASHED - 1)
}

/// A number for each page: of the buckets, which become more, and of the stash.
pub(in super::super) struct PerPage {
    buckets: Vec<u32>,
    stash: Vec<u32>,
}

impl PerPage {
    /// Zeros, for so many buckets of each array, and so many slots of the stash.
    pub(in super::super) fn new(buckets: u64, stash: u32) -> Self {
        Self {
            buckets: vec![0; 2 * buckets as usize],
            stash: vec![0; stash as usize],
        }
    }

    /// Has numbers for so many buckets of each array, if it had fewer.
    pub(in super::super) fn grow_to(&mut self, buckets: u64) {
        let pages = self.buckets.len().max(2 * buckets as usize);
        self.buckets.resize(pages, 0);
    }

    pub(in super::super) fn of(&mut self, page: u64) -> &mut u32 {
        match SlotNumber(page).in_stash() {
            Some(stashed) => &mut self.stash[stashed as usize],
            None => &mut self.buckets[page as usize],
        }
    }

    pub(in super::super) fn of_bucket(&self, bucket: u64) -> u32 {
        self.buckets[bucket as usize]
    }

    /// The numbers of the stash's pages.
    pub(in super::super) fn of_stash(&self) -> &[u32] {
        &self.stash
    }

    /// Bytes of memory.
    pub(in super::super) fn bytes(&self) -> usize {
        (self.buckets.len() + self.stash.len()) * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pages_keep_entries_and_stamps(
            slots in 1u32..=16,
            fingerprint_bits in 8u32..=32,
            version in 0u32..1 << 28,
            entries in proptest::collection::vec((any::<u32>(), any::<bool>()), 16),
        ) {
            let shape = PageShape::of_bucket(slots, fingerprint_bits);
            let mask = u32::MAX >> (32 - fingerprint_bits);
            let entry = |number: u32| {
                let (fingerprint, backup) = entries[number as usize];
                bucket_entry(fingerprint & mask, backup, fingerprint_bits)
            };
            let words: Vec<u64> = (0..shape.words())
                .map(|word| shape.pack(word, version + word, entry))
                .collect();
            let read: Vec<u64> = shape.entries(&words).collect();
            prop_assert_eq!(read.len(), slots as usize);
            for (number, read) in (0..).zip(read) {
                prop_assert_eq!(read, entry(number));
                let (fingerprint, backup) = entries[number as usize];
                prop_assert_eq!(entry_parts(read, fingerprint_bits), (fingerprint & mask, backup));
            }
            let versions = (0..shape.words()).map(|word| version + word);
            // What does not fit into a word is lost: all but 28 bits at least.
            prop_assert_eq!(shape.sum(&words) & 0xff_ffff, versions.sum::<u32>() & 0xff_ffff);
        }
    }
}
