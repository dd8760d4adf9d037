//! The published index: the owner's, in remote memory, for readers elsewhere.
//!
//! ```text
//! behind the journal:  counts of changes, a word a segment | how often the table has grown | stash, a word a slot | pages
//! in each extent:      counts of changes, a word a segment | pages
//! page of a bucket     | word | word | ... |         by the buckets' numbers
//! word of a page       | entries, f + 1 bits each | stamp |
//! entry of a slot      | fingerprint, f bits | whether it is a backup one |     0: none
//! word of the stash    | 35 bits of the key's hash | 1 | stamp |                0: none
//! ```
//! Invariant: the entry of a live slot names its key, from before the slot is live until it is dead. It is
//! written in the batch that makes the slot live, before its head. The entry of a dead slot may be
//! anything. So who sees all words of a key's two pages and of the stash at one moment, and none that names the
//! key, knows that it is absent.
//!
//! A word is read and written whole. Its stamp is a count of its page's changes, so a word with
//! the same stamp is the same word, and pages with the same sum of stamps are the same pages, unless one
//! was written 2^28 times between two looks. The *count* of a segment, some pages in a row, grows after
//! a page is written and before the slot is live: by the counts a reader sees which part of its copy is old.
//!
//! **Growth.** What is published of the buckets that a growth adds lies in its extent, and the bits there say which
//! buckets are split (see `growth/mod.rs`). Invariant: the pages of the new buckets name what is in them before the bit is
//! set; the count of the bucket's segment grows after it is, and before any of these buckets takes another
//! key. The count of growths and the bits only grow, as stamps do. So who sees them as they were before, with
//! the words of the pages of the two buckets that are the key's by them, sees all that there is of the key at one moment.

use super::layout::{DuoLayout, EXTENTS_AT};
use super::placement::SlotNumber;
use farslot_fabric::RemoteAddr;
use std::ops::Range;

/// Counts of changes of the table, and of each extent.
pub(super) const SEGMENTS: u64 = 512;
/// The segment of the stash: the table's last one. That of an extent is nobody's.
pub(super) const STASH_SEGMENT: u64 = SEGMENTS - 1;
/// Bits of a word that are its entries', at most: the others are the stamp.
const ENTRY_BITS: u32 = 36;
/// In a word of the stash: there is a key.
const STASHED: u64 = 1 << (ENTRY_BITS - 1);

/// How the entries of a page lie in its words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PageShape {
    /// Entries of the page: the slots of a bucket, or one of the stash.
    pub(super) slots: u32,
    entry_bits: u32,
    /// Entries of a word.
    per_word: u32,
}

impl PageShape {
    const fn of_bucket(slots: u32, fingerprint_bits: u32) -> Self {
        let entry_bits = fingerprint_bits + 1;
        let fit = ENTRY_BITS / entry_bits;
        Self {
            slots,
            entry_bits,
            per_word: if fit < slots { fit } else { slots },
        }
    }

    const OF_STASH: Self = Self {
        slots: 1,
        entry_bits: ENTRY_BITS,
        per_word: 1,
    };

    /// Words of a page.
    pub(super) const fn words(self) -> u32 {
        self.slots.div_ceil(self.per_word)
    }

    /// The word that an entry is in.
    pub(super) const fn word_of(self, entry: u32) -> u32 {
        entry / self.per_word
    }

    /// The word number `word` of a page with these entries.
    pub(super) fn pack(self, word: u32, stamp: u32, entry: impl Fn(u32) -> u64) -> u64 {
        let first = word * self.per_word;
        let last = (first + self.per_word).min(self.slots);
        let packed = (first..last).fold(0, |packed, number| {
            packed | entry(number) << ((number - first) * self.entry_bits)
        });
        packed | u64::from(stamp) << (self.per_word * self.entry_bits)
    }

    /// The entries of a page's words, in order.
    pub(super) fn entries(self, words: &[u64]) -> impl Iterator<Item = u64> {
        (0..self.slots).map(move |number| {
            let word = words[self.word_of(number) as usize];
            word >> (number % self.per_word * self.entry_bits) & ((1 << self.entry_bits) - 1)
        })
    }

    /// The stamp of a word.
    pub(super) const fn stamp(self, word: u64) -> u32 {
        (word >> (self.per_word * self.entry_bits)) as u32
    }

    /// The sum of the stamps of a page's words.
    pub(super) fn sum(self, words: &[u64]) -> u32 {
        let stamps = words.iter().map(|word| self.stamp(*word));
        stamps.fold(0, u32::wrapping_add)
    }
}

/// The entry of a slot with this fingerprint, of f bits.
pub(super) const fn bucket_entry(fingerprint: u32, backup: bool, fingerprint_bits: u32) -> u64 {
    fingerprint as u64 | (backup as u64) << fingerprint_bits
}

/// The fingerprint of an entry, and whether it is a backup one.
pub(super) const fn entry_parts(entry: u64, fingerprint_bits: u32) -> (u32, bool) {
    let fingerprint = entry & ((1 << fingerprint_bits) - 1);
    (fingerprint as u32, entry >> fingerprint_bits & 1 != 0)
}

/// The entry of a slot of the stash with a key of this hash.
pub(super) const fn stash_entry(hash: u64) -> u64 {
    STASHED | hash & (STASHED - 1)
}

/// The table's part of the published index, and what is where in it. What growths add lies with their buckets.
impl DuoLayout {
    /// How the entries of a bucket's page lie in its words.
    pub(super) const fn bucket_page(&self) -> PageShape {
        PageShape::of_bucket(self.bucket_slots, self.fingerprint_bits)
    }

    pub(super) fn page_shape(&self, page: u64) -> PageShape {
        match SlotNumber(page).in_stash() {
            None => self.bucket_page(),
            Some(_) => PageShape::OF_STASH,
        }
    }

    /// Bytes of a bucket's page.
    pub(super) const fn page_bytes(&self) -> u64 {
        self.bucket_page().words() as u64 * 8
    }

    /// The page of a slot, and the slot's number in it.
    pub(super) const fn page_of(&self, slot: SlotNumber) -> (u64, u32) {
        match slot.in_stash() {
            Some(_) => (slot.0, 0),
            None => {
                let slots = self.bucket_slots as u64;
                (slot.0 / slots, (slot.0 % slots) as u32)
            }
        }
    }

    /// A page's first slot.
    pub(super) const fn first_of_page(&self, page: u64) -> SlotNumber {
        match SlotNumber(page).in_stash() {
            Some(_) => SlotNumber(page),
            None => SlotNumber(page * self.bucket_slots as u64),
        }
    }

    /// The pages of the stash.
    pub(super) const fn stash_pages(&self) -> Range<u64> {
        SlotNumber::STASH.0..SlotNumber::STASH.0 + self.stash as u64
    }

    /// Bytes of the published index, before the table has grown.
    pub(super) fn published_bytes(&self) -> u128 {
        if !self.published {
            return 0;
        }
        let counts = u128::from(SEGMENTS) + 1;
        let pages = u128::from(self.page_bytes()) * u128::from(2 * self.buckets);
        ((counts + u128::from(self.stash)) * 8 + pages).next_multiple_of(64)
    }

    /// Bytes by which the published index grows with so many buckets in each array.
    pub(super) fn published_growth(&self, buckets: u64) -> Option<u64> {
        if !self.published {
            return Some(0);
        }
        let pages = buckets.checked_mul(2 * self.page_bytes())?;
        let bytes = pages.checked_add(SEGMENTS * 8)?;
        bytes.checked_next_multiple_of(64)
    }

    /// Where the counts of changes are of the table's own buckets, and of the stash.
    pub(super) fn counts_at(&self, table: RemoteAddr) -> RemoteAddr {
        table.plus(self.map().bytes() as u64)
    }

    /// Where the count of growths is: where the index is published, in front of the stash's pages, so that who reads
    /// those has it in the same piece.
    pub(super) fn growths_at(&self, table: RemoteAddr) -> RemoteAddr {
        if self.published {
            self.counts_at(table).plus(SEGMENTS * 8)
        } else {
            table.plus(EXTENTS_AT)
        }
    }

    /// Where the stash's pages are: they follow one another, and then those of the buckets.
    pub(super) fn stash_pages_at(&self, table: RemoteAddr) -> RemoteAddr {
        self.counts_at(table).plus((SEGMENTS + 1) * 8)
    }

    /// Where the pages of the table's own buckets are.
    pub(super) fn pages_at(&self, table: RemoteAddr) -> RemoteAddr {
        self.stash_pages_at(table).plus(u64::from(self.stash) * 8)
    }
}

/// A number for each page: of the buckets, which become more, and of the stash.
pub(super) struct PerPage {
    buckets: Vec<u32>,
    stash: Vec<u32>,
}

impl PerPage {
    /// Zeros, for a table that has not grown.
    pub(super) fn new(layout: &DuoLayout) -> Self {
        Self {
            buckets: vec![0; 2 * layout.buckets as usize],
            stash: vec![0; layout.stash as usize],
        }
    }

    /// Has numbers for so many buckets of each array, if it had fewer.
    pub(super) fn grow_to(&mut self, buckets: u64) {
        let pages = self.buckets.len().max(2 * buckets as usize);
        self.buckets.resize(pages, 0);
    }

    pub(super) fn of(&mut self, page: u64) -> &mut u32 {
        match SlotNumber(page).in_stash() {
            Some(stashed) => &mut self.stash[stashed as usize],
            None => &mut self.buckets[page as usize],
        }
    }

    pub(super) fn of_bucket(&self, bucket: u64) -> u32 {
        self.buckets[bucket as usize]
    }

    /// The numbers of the stash's pages.
    pub(super) fn of_stash(&self) -> &[u32] {
        &self.stash
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
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
            stamp in 0u32..1 << 28,
            entries in proptest::collection::vec((any::<u32>(), any::<bool>()), 16),
        ) {
            let shape = PageShape::of_bucket(slots, fingerprint_bits);
            let mask = u32::MAX >> (32 - fingerprint_bits);
            let entry = |number: u32| {
                let (fingerprint, backup) = entries[number as usize];
                bucket_entry(fingerprint & mask, backup, fingerprint_bits)
            };
            let words: Vec<u64> = (0..shape.words())
                .map(|word| shape.pack(word, stamp + word, entry))
                .collect();
            let read: Vec<u64> = shape.entries(&words).collect();
            prop_assert_eq!(read.len(), slots as usize);
            for (number, read) in (0..).zip(read) {
                prop_assert_eq!(read, entry(number));
                let (fingerprint, backup) = entries[number as usize];
                prop_assert_eq!(entry_parts(read, fingerprint_bits), (fingerprint & mask, backup));
            }
            let stamps = (0..shape.words()).map(|word| stamp + word);
            // What does not fit into a word is lost: all but 28 bits at least.
            prop_assert_eq!(shape.sum(&words) & 0xff_ffff, stamps.sum::<u32>() & 0xff_ffff);
        }
    }
}
