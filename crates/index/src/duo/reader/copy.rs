//! A reader's copy of the index, and of what it knows of the table's growth.

use crate::Result;
use crate::duo::bytes::{
    DuoLayout, Entry, PerPage, SEGMENTS, STASH_SEGMENT, SlotNumber, VaultMap, entry_parts,
    stash_entry,
};
use crate::duo::placement::{Candidates, Placement, Primary, Shape};
use crate::duo::state::index_shape;
use farslot_fabric::{Nanos, RemoteAddr};
use std::ops::Range;
use std::rc::Rc;

/// The count of a segment that has to be read: no count is that.
const UNKNOWN: u64 = u64::MAX;

/// The index, as far as it was read. What was not is empty, as in a table in which nothing was ever
/// put.
pub(super) struct IndexCopy {
    layout: DuoLayout,
    /// Where everything is, as far as the table is known to have grown.
    pub(super) vault: Rc<VaultMap>,
    /// Without a stash. Buckets are split in it that are known to be.
    index: Placement,
    /// The entries of the stash, and the lowest bits of those that are some key's: a bit for each
    /// number that these may be.
    stash: Vec<u64>,
    stashed: u64,
    /// The sums of the versions of all pages.
    sums: PerPage,
    /// The count of each segment as it was before its pages were read.
    counts: Vec<u64>,
    /// The segments that had not changed when the counts were read last.
    unchanged: Vec<bool>,
    /// When that was.
    as_of: Option<Nanos>,
    /// How often what it says of keys has changed.
    changes: u64,
}

/// All that there is of one key in the published index: where it can be, and the state of that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct State {
    /// How often the table has grown.
    growths: u64,
    /// Its buckets, by those that are known to be split.
    pub(super) buckets: [u64; 2],
    /// Of both pages and of the stash.
    sums: [u32; 3],
}

/// A word of the bits that say which buckets are split.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BitsWord {
    pub(super) at: RemoteAddr,
    /// The bucket of its first bit.
    pub(super) first: u64,
}

impl BitsWord {
    /// The word so many words behind this one.
    pub(super) const fn plus(self, words: u64) -> Self {
        Self {
            at: self.at.plus(8 * words),
            first: self.first + 64 * words,
        }
    }
}

/// The copy as far as it is about one key.
pub(super) struct ReaderView {
    pub(super) state: State,
    /// The bits that say whether its buckets have been split meanwhile.
    pub(super) bits: Vec<BitsWord>,
    /// The slots that may be the key's.
    pub(super) matches: Vec<SlotNumber>,
}

impl IndexCopy {
    pub(super) fn new(table: RemoteAddr, layout: DuoLayout) -> Self {
        let shape = Shape {
            stash: 0,
            ..index_shape(&layout)
        };
        let vault = Rc::new(VaultMap::new(table, &layout));
        let segments = vault.segments() as usize;
        Self {
            index: Placement::new(shape),
            stash: vec![0; layout.stash as usize],
            stashed: 0,
            sums: PerPage::new(layout.buckets, layout.stash),
            counts: vec![UNKNOWN; segments],
            unchanged: vec![false; segments],
            as_of: None,
            changes: 0,
            vault,
            layout,
        }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        let segments = self.counts.len() * 8 + self.unchanged.len();
        self.index.bytes() + self.stash.len() * 8 + self.sums.bytes() + segments
    }

    /// Slots of both arrays.
    pub(super) const fn slots(&self) -> u64 {
        self.index.shape().slots()
    }

    /// How often what it says of keys has changed.
    #[inline]
    pub(super) const fn changes(&self) -> u64 {
        self.changes
    }

    /// Has what is said of keys with this hash fetched, for a look soon: where they may be.
    #[inline(always)]
    pub(super) fn prefetch(&self, hash: u64) -> Candidates {
        let of = self.index.candidates(hash);
        self.index.prefetch(&of);
        of
    }

    /// The slots that may be that of the key with this hash.
    #[inline]
    pub(super) fn matches(&self, hash: u64) -> impl Iterator<Item = SlotNumber> {
        self.matches_of(hash, &self.index.candidates(hash))
    }

    /// The same, of a key that may be there.
    #[inline]
    pub(super) fn matches_of(
        &self,
        hash: u64,
        of: &Candidates,
    ) -> impl Iterator<Item = SlotNumber> + use<'_> {
        let stashed = self.layout.stash_pages().map(SlotNumber);
        let entries = match self.may_be_stashed(hash) {
            false => &[],
            true => &self.stash[..],
        };
        let stashed = stashed.zip(entries);
        let stashed = stashed.filter(move |(_, entry)| **entry == stash_entry(hash));
        let in_stash = stashed.map(|(slot, _)| slot);
        in_stash.chain(self.index.matches_of(hash, of))
    }

    /// Whether the stash may have a key with this hash, by the lowest bits of its entry.
    #[inline(always)]
    fn may_be_stashed(&self, hash: u64) -> bool {
        self.stashed >> (hash % 64) & 1 != 0
    }

    /// Has fetched what [`IndexCopy::first_match`] will look at.
    #[inline(always)]
    pub(super) fn prefetch_first(&self, hash: u64) -> Primary {
        self.index.prefetch_first(hash)
    }

    /// The first of the slots that may be that of the key with this hash: its bucket, and its
    /// number there. Nothing also where it may be in the stash.
    #[inline(always)]
    pub(super) fn first_match(&self, hash: u64, of: &Primary) -> Option<(u64, u32)> {
        match self.may_be_stashed(hash) {
            false => self.index.first_match(hash, of),
            true => None,
        }
    }

    /// All that it says of the key with this hash.
    pub(super) fn view(&self, hash: u64) -> ReaderView {
        let state = self.state(hash);
        let words = state.buckets.iter();
        let mut bits: Vec<BitsWord> = words
            .filter_map(|bucket| self.bits_word(self.index.to_split(*bucket)?))
            .collect();
        bits.dedup();
        ReaderView {
            state,
            bits,
            matches: self.matches(hash).collect(),
        }
    }

    pub(super) fn state(&self, hash: u64) -> State {
        let buckets = self.index.buckets_of(&self.index.candidates(hash));
        let [first, second] = buckets.map(|bucket| self.sums.of_bucket(bucket));
        let stash = self.sums.of_stash().iter().copied();
        State {
            growths: self.vault.growths() as u64,
            buckets,
            sums: [first, second, stash.fold(0, u32::wrapping_add)],
        }
    }

    /// Takes in the words of pages that lie one behind the other, as they were read.
    pub(super) fn take(&mut self, first: u64, words: &[u64]) {
        let shape = self.layout.page_shape(first);
        let pages = words.chunks_exact(shape.words() as usize);
        let mut in_stash = false;
        for (page, words) in (first..).zip(pages) {
            let sum = shape.sum(words);
            if std::mem::replace(self.sums.of(page), sum) == sum {
                continue;
            }
            self.changes += 1;
            // It is newer than what the counts were about.
            self.is_unknown(self.vault.segment_of(page));
            let slots = (self.layout.first_of_page(page).0..).map(SlotNumber);
            for (slot, entry) in slots.zip(shape.entries(words)) {
                self.set(slot, entry);
            }
            in_stash |= self.layout.first_of_page(page).in_stash().is_some();
        }
        if in_stash {
            let entries = self.stash.iter().filter(|entry| **entry != 0);
            self.stashed = entries.fold(0, |stashed, entry| stashed | 1 << (entry % 64));
        }
    }

    fn set(&mut self, slot: SlotNumber, entry: u64) {
        match slot.in_stash() {
            Some(stashed) => self.stash[stashed as usize] = entry,
            None => {
                let (fingerprint, backup) = entry_parts(entry, self.layout.fingerprint_bits);
                self.index.copy_fingerprint(slot, fingerprint, backup);
            }
        }
    }

    /// The counts say nothing of this segment any more.
    fn is_unknown(&mut self, segment: u64) {
        self.counts[segment as usize] = UNKNOWN;
        self.unchanged[segment as usize] = false;
    }

    /// Takes in the counts, which were asked for at that time; returns the segments that have
    /// changed.
    pub(super) fn compare(&mut self, counts: &[u64], asked: Nanos) -> Vec<u64> {
        let same = counts.iter().zip(&self.counts).map(|(new, old)| new == old);
        self.unchanged = same.collect();
        // Of those that were learned of meanwhile nothing is known.
        self.unchanged.resize(self.counts.len(), false);
        self.as_of = Some(asked);
        self.changed(counts)
    }

    /// The segments that are not known as they were when there were these counts.
    pub(super) fn changed(&self, counts: &[u64]) -> Vec<u64> {
        let counts = (0..).zip(counts.iter().zip(&self.counts));
        let changed = counts.filter(|(_, (new, old))| new != old);
        changed.map(|(segment, _)| segment).collect()
    }

    /// The pages of a segment were read, after its count was that.
    pub(super) fn has_read(&mut self, segment: u64, count: u64) {
        self.counts[segment as usize] = count;
    }

    /// When both buckets and the stash were known, at the same moment, to be as they are here.
    pub(super) fn known_at(&self, buckets: [u64; 2]) -> Option<Nanos> {
        let mut segments = buckets
            .map(|bucket| self.vault.segment_of(bucket))
            .into_iter()
            .chain([STASH_SEGMENT]);
        self.as_of
            .filter(|_| segments.all(|segment| self.unchanged[segment as usize]))
    }
}

/// What it knows of growths.
impl IndexCopy {
    /// The table has grown, after `known` times: so that all of the growth before is split. Nothing
    /// if the copy has it.
    pub(super) fn grow(&mut self, known: u64, entry: Entry) -> Result<()> {
        if self.vault.growths() as u64 != known {
            return Ok(());
        }
        let newest = known;
        self.vault.add(&self.layout, entry)?;
        self.changes += 1;
        if self.index.unsplit() > 0 {
            self.index.note_all_split();
            self.are_unknown(newest);
        }
        self.index.grow(entry.ratio);
        self.has_grown();
        Ok(())
    }

    /// There are more buckets now, of which nothing is known.
    fn has_grown(&mut self) {
        self.sums.grow_to(self.vault.buckets());
        self.counts.resize(self.vault.segments() as usize, UNKNOWN);
        self.unchanged.resize(self.counts.len(), false);
    }

    /// The counts say nothing of an extent's segments any more.
    fn are_unknown(&mut self, extent: u64) {
        let segments = extent * SEGMENTS..(extent + 1) * SEGMENTS;
        segments.for_each(|segment| self.is_unknown(segment));
    }

    /// The word that has the bit of a bucket which is to be split, or was in a growth that is not
    /// over.
    pub(super) fn bits_word(&self, origin: u64) -> Option<BitsWord> {
        let newest = self.index.newest_sibling(origin)?;
        let (at, place) = self.vault.split_bit_of(newest, origin);
        let first = origin - place;
        Some(BitsWord { at, first })
    }

    /// The words of bits that say which of these buckets are split, which are of one extent: the
    /// first one, and how many. None, if all are known to be, or are none.
    pub(super) fn words_of_bits(&self, buckets: Range<u64>) -> Option<(BitsWord, u64)> {
        let mut unsplit = self.index.unsplit_from(buckets.start);
        let first = unsplit.next().filter(|first| buckets.contains(first))?;
        let word = self.bits_word(first)?;
        Some((word, (buckets.end - word.first).div_ceil(64)))
    }

    /// The words of bits that say whether these buckets, or those that they come from, are split,
    /// where that is not known: as many as lie side by side.
    pub(super) fn words_of_origins(&self, buckets: Range<u64>) -> Vec<(BitsWord, u64)> {
        // A cursor may be of any number.
        let existing = buckets.take_while(|bucket| *bucket < 2 * self.vault.buckets());
        let origins = existing.filter_map(|bucket| self.index.to_split(bucket));
        let mut words: Vec<BitsWord> = origins
            .filter_map(|origin| self.bits_word(origin))
            .collect();
        words.sort_unstable_by_key(|word| word.first);
        words.dedup();
        let mut runs: Vec<(BitsWord, u64)> = Vec::new();
        for word in words {
            match runs.last_mut() {
                Some((first, count)) if first.plus(*count) == word => *count += 1,
                _ => runs.push((word, 1)),
            }
        }
        runs
    }

    /// Whether a bucket is known to have keys of its own.
    pub(super) fn is_in_use(&self, bucket: u64) -> bool {
        self.index.is_in_use(bucket)
    }

    /// Whether a key with this hash can be in this slot, by what is known to be split.
    pub(super) fn belongs(&self, slot: SlotNumber, hash: u64) -> bool {
        self.index.belongs(slot, hash)
    }

    /// Takes in words of bits that were read, from one on: nothing, if the growth that they are of
    /// is known to be over.
    pub(super) fn take_bits(&mut self, first: BitsWord, words: &[u64]) {
        let end = 2 * self.vault.buckets();
        for (number, bits) in (0..).zip(words) {
            let word = first.plus(number);
            let split = (0..64).filter(|bit| bits >> bit & 1 != 0);
            for origin in split.map(|bit| word.first + bit).take_while(|b| *b < end) {
                let is_news = self.index.to_split(origin) == Some(origin);
                if is_news && self.bits_word(origin) == Some(word) {
                    self.note_split(origin);
                }
            }
        }
    }

    /// A bucket is split: what is in those that it was split into the counts have not said.
    fn note_split(&mut self, origin: u64) {
        for sibling in self.index.siblings(origin).skip(1) {
            self.is_unknown(self.vault.segment_of(sibling));
        }
        self.index.note_split(origin);
        self.changes += 1;
    }
}
