//! A reader's copy of the index.

use crate::duo::layout::DuoLayout;
use crate::duo::placement::{Placement, Shape, SlotNumber};
use crate::duo::published::{SEGMENTS, entry_parts, stash_entry};
use farslot_fabric::Nanos;

/// The count of a segment that has to be read: no count is that.
const UNKNOWN: u64 = u64::MAX;

/// The index, as far as it was read. What was not is empty, as in a table in which nothing was ever put.
pub(super) struct IndexCopy {
    layout: DuoLayout,
    /// Without a stash.
    index: Placement,
    /// The entries of the stash.
    stash: Vec<u64>,
    /// The sums of the stamps of all pages.
    sums: Vec<u32>,
    /// The count of each segment as it was before its pages were read.
    counts: Vec<u64>,
    /// The segments that had not changed when the counts were read last.
    unchanged: Vec<bool>,
    /// When that was.
    as_of: Option<Nanos>,
}

/// The state of what is to be known of one key: of its two pages and of the stash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sums([u32; 3]);

/// The copy as far as it is about one key.
pub(super) struct View {
    pub(super) buckets: [u64; 2],
    pub(super) sums: Sums,
    /// The slots that may be the key's.
    pub(super) matches: Vec<SlotNumber>,
}

impl IndexCopy {
    pub(super) fn new(layout: DuoLayout) -> Self {
        let index = Placement::new(Shape {
            stash: 0,
            ..layout.index_shape()
        });
        Self {
            index,
            stash: vec![0; layout.stash as usize],
            sums: vec![0; layout.pages() as usize],
            counts: vec![UNKNOWN; SEGMENTS as usize],
            unchanged: vec![false; SEGMENTS as usize],
            as_of: None,
            layout,
        }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        let segments = self.counts.len() * 8 + self.unchanged.len();
        self.index.bytes() + self.stash.len() * 8 + self.sums.len() * 4 + segments
    }

    pub(super) fn view(&self, hash: u64) -> View {
        let buckets = self.index.buckets_of(&self.index.candidates(hash));
        let stashed = (self.layout.slots()..).map(SlotNumber).zip(&self.stash);
        let stashed = stashed.filter(|(_, entry)| **entry == stash_entry(hash));
        let in_stash = stashed.map(|(slot, _)| slot);
        View {
            buckets,
            sums: self.sums_of(buckets),
            matches: in_stash.chain(self.index.matches(hash)).collect(),
        }
    }

    pub(super) fn sums_of(&self, [first, second]: [u64; 2]) -> Sums {
        let stash = &self.sums[2 * self.layout.buckets as usize..];
        Sums([
            self.sums[first as usize],
            self.sums[second as usize],
            stash.iter().copied().fold(0, u32::wrapping_add),
        ])
    }

    /// Takes in the words of pages that lie one behind the other, as they were read.
    pub(super) fn take(&mut self, first: u64, words: &[u64]) {
        let shape = self.layout.page_shape(first);
        let pages = words.chunks_exact(shape.words() as usize);
        for (page, words) in (first..).zip(pages) {
            let sum = shape.sum(words);
            if std::mem::replace(&mut self.sums[page as usize], sum) == sum {
                continue;
            }
            // It is newer than what the counts were about.
            let segment = self.layout.segment_of(page) as usize;
            self.counts[segment] = UNKNOWN;
            self.unchanged[segment] = false;
            let slots = (self.layout.first_of_page(page).0..).map(SlotNumber);
            for (slot, entry) in slots.zip(shape.entries(words)) {
                self.set(slot, entry);
            }
        }
    }

    fn set(&mut self, slot: SlotNumber, entry: u64) {
        match slot.0.checked_sub(self.layout.slots()) {
            Some(stashed) => self.stash[stashed as usize] = entry,
            None => {
                let (fingerprint, backup) = entry_parts(entry, self.layout.fingerprint_bits);
                self.index.copy_fingerprint(slot, fingerprint, backup);
            }
        }
    }

    /// Takes in the counts, which were asked for at that time; returns the segments that have changed.
    pub(super) fn compare(&mut self, counts: &[u64], asked: Nanos) -> Vec<u64> {
        let same = counts.iter().zip(&self.counts).map(|(new, old)| new == old);
        self.unchanged = same.collect();
        self.as_of = Some(asked);
        let segments = (0..SEGMENTS).zip(&self.unchanged);
        let changed = segments.filter(|(_, unchanged)| !**unchanged);
        changed.map(|(segment, _)| segment).collect()
    }

    /// The pages of a segment were read, after its count was that.
    pub(super) fn has_read(&mut self, segment: u64, count: u64) {
        self.counts[segment as usize] = count;
    }

    /// When both buckets and the stash were known, at the same moment, to be as they are here.
    pub(super) fn known_at(&self, buckets: [u64; 2]) -> Option<Nanos> {
        let mut segments = buckets
            .map(|bucket| self.layout.segment_of(bucket))
            .into_iter()
            .chain([SEGMENTS - 1]);
        self.as_of
            .filter(|_| segments.all(|segment| self.unchanged[segment as usize]))
    }
}
