//! A table all of whose memory is mapped here: the walk over its buckets by loads and
//! compare-and-swap.

use crate::layout::{self, COUNT, Layout, OCCUPIED, TAKEN};
use crate::{Outcome, SetError};
use farslot_fabric::shm::{MappedWords, Node, RegionSpec};
use farslot_fabric::{RegionId, Rights, prefetch};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Buckets that a walk examines before it gives up: those of 32 chunks of 32, as in paper 002,
/// section 4.2. Fewer in smaller tables.
const MOST_PROBES: u64 = 1024;

/// The memory of a table, all of it mapped in this process.
#[derive(Debug, Clone)]
pub struct Segments {
    layout: Layout,
    parts: Arc<[MappedWords]>,
    /// Which of the parts is this process's own.
    rank: usize,
    probes: u64,
}

/// Where the search for a hash begins.
#[derive(Clone, Copy, Default)]
pub(crate) struct HomeBucket<'s> {
    /// The number of the bucket.
    at: u64,
    /// Its word, and those behind it to the end of its rank's part.
    run: &'s [AtomicU64],
}

impl HomeBucket<'_> {
    /// Asks the processor for its buckets.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        if let Some(first) = self.run.first() {
            prefetch(first);
        }
    }
}

impl Segments {
    /// The memory of one process alone: a table of one rank.
    ///
    /// # Errors
    /// [`SetError::Fabric`] beyond what the machine has.
    pub fn alone(buckets: u64, element_words: u64) -> Result<Self, SetError> {
        let layout = Layout::new(1, buckets, element_words)?;
        let region = RegionSpec {
            len: layout.region_bytes(),
            rights: Rights::ALL,
        };
        let node = Node::embedded(&[region])?;
        Self::mapped(layout, 0, vec![MappedWords::of(&node, RegionId(0))?])
    }

    /// The memory of several ranks, mapped in this process, which is `rank`. All ranks' memory
    /// starts as zeros.
    ///
    /// # Errors
    /// [`SetError::WrongMemory`] where a part is not as long as the layout says;
    /// [`SetError::OutOfRange`] where there is not one for each rank.
    pub fn mapped(layout: Layout, rank: usize, parts: Vec<MappedWords>) -> Result<Self, SetError> {
        let ranks = layout.ranks();
        crate::error::check_range("the number of parts", parts.len() as u64, ranks, ranks)?;
        crate::error::check_range("the rank", rank as u64, 0, ranks - 1)?;
        let needed = layout.region_bytes() / 8;
        for (rank, part) in parts.iter().enumerate() {
            if (part.len() as u64) < needed {
                return Err(SetError::WrongMemory {
                    rank,
                    found: part.len() as u64,
                    needed,
                });
            }
        }
        Ok(Self {
            layout,
            parts: parts.into(),
            rank,
            probes: MOST_PROBES.min(layout.buckets()),
        })
    }

    /// The table's shape.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// This process's rank.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Bytes of all ranks' memory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.layout.region_bytes() * self.layout.ranks()
    }

    /// Elements that inserters have reported so far (`count_inserted`).
    #[must_use]
    pub fn counted(&self) -> u64 {
        let counts = self.parts.iter();
        counts.map(|part| part[COUNT].load(Ordering::Relaxed)).sum()
    }

    /// Reports elements that this process has inserted.
    pub(crate) fn count_inserted(&self, elements: u64) {
        if elements > 0 {
            self.parts[self.rank][COUNT].fetch_add(elements, Ordering::Relaxed);
        }
    }

    /// The words of bucket `at` and those behind it, to the end of its rank's part.
    #[inline]
    fn run_from(&self, at: u64) -> &[AtomicU64] {
        let (rank, word) = self.layout.locate(at);
        let end = self.layout.buckets_end();
        &self.parts[rank][word as usize..end as usize]
    }

    /// Uses so many buckets of each rank from now on, as far as this value is concerned: all who
    /// use the table agree on it, and move its elements, before any of them goes on.
    pub(crate) fn use_buckets(&mut self, buckets_per_rank: u64) -> Result<(), SetError> {
        self.layout = self.layout.using(buckets_per_rank)?;
        self.probes = MOST_PROBES.min(self.layout.buckets());
        Ok(())
    }

    /// The words of these buckets, in as many pieces as ranks have some of them.
    pub(crate) fn buckets(&self, range: Range<u64>) -> impl Iterator<Item = &[AtomicU64]> {
        let mut at = range.start;
        std::iter::from_fn(move || {
            let left = range.end.checked_sub(at).filter(|left| *left > 0)?;
            let run = self.run_from(at);
            let run = &run[..run.len().min(left as usize)];
            at += run.len() as u64;
            Some(run)
        })
    }

    /// The count of a rank: elements of its inserters, approximately.
    pub(crate) fn count(&self, rank: usize) -> &AtomicU64 {
        &self.parts[rank][COUNT]
    }

    /// Where the search for a hash begins.
    #[inline(always)]
    pub(crate) fn home(&self, hash: u64) -> HomeBucket<'_> {
        let at = layout::home(self.layout, hash);
        let run = self.run_from(at);
        HomeBucket { at, run }
    }

    /// Walks from a hash's home to the bucket for which `is_same` says yes, or to the first empty
    /// one, into which `new_bucket`'s word goes; nothing is inserted where that gives none. Returns
    /// the bucket's number, and the word in it.
    ///
    /// The first empty bucket of a walk only moves on, as buckets are never emptied: all who insert
    /// an element compete for the same bucket, so that exactly one of them inserts it.
    #[inline]
    pub(crate) fn find_or_put(
        &self,
        hash: u64,
        is_same: impl FnMut(u64) -> bool,
        new_bucket: impl FnMut() -> Option<u64>,
    ) -> Outcome<(u64, u64)> {
        self.find_or_put_from(self.home(hash), is_same, new_bucket)
    }

    /// [`Segments::find_or_put`], where the hash's home is known.
    #[inline(always)]
    pub(crate) fn find_or_put_from(
        &self,
        home: HomeBucket<'_>,
        mut is_same: impl FnMut(u64) -> bool,
        mut new_bucket: impl FnMut() -> Option<u64>,
    ) -> Outcome<(u64, u64)> {
        let HomeBucket { mut at, mut run } = home;
        let mut left = self.probes;
        while left > 0 {
            for bucket in run.iter().take(left as usize) {
                let mut seen = bucket.load(Ordering::Acquire);
                if seen == 0 {
                    let Some(word) = new_bucket() else {
                        return Outcome::Full;
                    };
                    match bucket.compare_exchange(0, word, Ordering::AcqRel, Ordering::Acquire) {
                        Ok(_) => return Outcome::Inserted((at, word)),
                        Err(now) => seen = now,
                    }
                }
                if is_same(seen) {
                    return Outcome::Found((at, seen));
                }
                at += 1;
                left -= 1;
            }
            if at == self.layout.buckets() {
                at = 0;
            }
            run = self.run_from(at);
        }
        Outcome::Full
    }

    /// Walks as [`Segments::find_or_put`], and inserts nothing.
    #[inline]
    pub(crate) fn find(
        &self,
        hash: u64,
        mut is_same: impl FnMut(u64) -> bool,
    ) -> Option<(u64, u64)> {
        let found = self.find_or_put(hash, &mut is_same, || None);
        found.place()
    }

    /// All buckets in use of one rank's part, in the order of their homes: for who holds the table
    /// alone.
    pub(crate) fn occupied(&self, rank: usize) -> impl Iterator<Item = u64> + '_ {
        let end = self.layout.buckets_end() as usize;
        let buckets = self.parts[rank][layout::HEADER as usize..end].iter();
        buckets
            .map(|bucket| bucket.load(Ordering::Acquire))
            .filter(|word| word & OCCUPIED != 0)
    }

    /// The element words of a rank's part.
    #[inline]
    pub(crate) fn elements(&self, rank: usize) -> &[AtomicU64] {
        let start = self.layout.elements_at() as usize;
        &self.parts[rank][start..start + self.layout.element_words() as usize]
    }

    /// The same of a rank that a word in memory names: empty if there is none.
    #[inline]
    pub(crate) fn elements_of(&self, rank: usize) -> &[AtomicU64] {
        if rank < self.parts.len() {
            self.elements(rank)
        } else {
            &[]
        }
    }

    /// Units of element space that were taken in a rank's part.
    pub(crate) fn taken(&self, rank: usize) -> &AtomicU64 {
        &self.parts[rank][TAKEN]
    }
}
