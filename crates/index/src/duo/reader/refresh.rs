//! Bringing a reader's copy of the index up to date.
//!
//! The counts of changes say what has to be read. Invariant: they are read before what they are
//! about, the bits that say what is split before the pages that are in use with them; and when they
//! are read once more and are the same, the copy is as the table was at that moment, as far as
//! answers go.

use super::client::DuoReader;
use super::copy::BitsWord;
use crate::client::{scan, side_by_side};
use crate::duo::bytes::{SlotNumber, read_entries};
use crate::{BATCH_WIDTH, Result, UPKEEP};
use farslot_fabric::{Endpoint, EndpointExt};

/// Words of bits that are read at once.
const WORDS_A_READ: u64 = 4096;
/// Segments that are read side by side: each is a READ of 64 KiB at a time, at most.
const SEGMENTS_AT_ONCE: usize = 8;
/// How often the counts are read because the table has grown meanwhile.
const MOST_PASSES: usize = 4;

impl<E: Endpoint> DuoReader<E> {
    /// Brings the copy of the index up to date. The counts of changes are read, then those segments
    /// that have changed; then the counts once more, so that in a table where little changes absent
    /// keys are known without asking.
    ///
    /// The first time, this reads the whole published index. Lookups go on meanwhile.
    ///
    /// # Errors
    /// [`IndexError::BadOption`](crate::IndexError::BadOption) for a table whose header is damaged;
    /// what the fabric says.
    pub async fn refresh(&self) -> Result<()> {
        self.endpoint.operation(UPKEEP, self.catch_up()).await
    }

    async fn catch_up(&self) -> Result<()> {
        let _alone = self.refreshing.take_alone(&[]).await;
        if self.read_changed().await? {
            self.read_counts().await?;
        }
        Ok(())
    }

    /// Reads the segments that have changed; whether there were any.
    async fn read_changed(&self) -> Result<bool> {
        let (counts, changed) = self.read_counts().await?;
        let reads = changed.iter().map(|segment| self.read_splits(*segment));
        side_by_side(SEGMENTS_AT_ONCE, reads, |_, ()| {}).await?;
        // Those of buckets that were found to be split belong to them.
        let all_changed = self.copy.borrow().changed(&counts);
        let reads = all_changed.into_iter().map(async |segment| {
            self.read_segment(segment).await?;
            let count = counts[segment as usize];
            self.copy.borrow_mut().has_read(segment, count);
            Ok(())
        });
        side_by_side(SEGMENTS_AT_ONCE, reads, |_, ()| {}).await?;
        Ok(!changed.is_empty())
    }

    /// Reads the counts, and then how often the table has grown; returns the counts, and which
    /// segments have changed since they were read last. In this order: a count that is of after a
    /// bucket was split is believed only by who knows of the growth that it was split in, or reads
    /// the bits that say so for the first time.
    async fn read_counts(&self) -> Result<(Vec<u64>, Vec<u64>)> {
        let (mut asked, mut counts) = (0, Vec::new());
        // In a table that goes on growing, what has come last is left for the next time.
        for _ in 0..MOST_PASSES {
            asked = self.endpoint.now();
            counts = self.read_all_counts().await?;
            if !self.learn_of_growth().await? {
                break;
            }
        }
        let changed = self.copy.borrow_mut().compare(&counts, asked);
        Ok((counts, changed))
    }

    /// Learns whether the table has grown more often than was known, and how.
    pub(super) async fn learn_of_growth(&self) -> Result<bool> {
        let known = self.copy.borrow().vault.growths();
        let counted = self.layout.growths_at(self.table);
        let counted = self.endpoint.read(counted, 8).await?.words()[0];
        self.learn_growths(counted).await?;
        Ok(self.copy.borrow().vault.growths() > known)
    }

    /// The counts of all segments that are known of.
    async fn read_all_counts(&self) -> Result<Vec<u64>> {
        let runs = self.copy.borrow().vault.counts();
        let reads = runs.iter().map(async |(at, words)| {
            let counts = self.endpoint.read(*at, 8 * *words as usize).await?;
            Ok(counts.words().to_vec())
        });
        let mut read = vec![Vec::new(); runs.len()];
        side_by_side(BATCH_WIDTH, reads, |number, counts| {
            read[number] = counts;
        })
        .await?;
        Ok(read.concat())
    }

    /// Learns of growths that were counted.
    pub(super) async fn learn_growths(&self, counted: u64) -> Result<()> {
        let known = self.copy.borrow().vault.growths() as u64;
        let entries = read_entries(&*self.endpoint, self.table, known, counted).await?;
        let mut copy = self.copy.borrow_mut();
        (known..)
            .zip(entries)
            .try_for_each(|(known, entry)| copy.grow(known, entry))
    }

    /// Reads which buckets of a segment are split, of those that are not known to be.
    async fn read_splits(&self, segment: u64) -> Result<()> {
        let words = {
            let copy = self.copy.borrow();
            let pages = copy.vault.segment_pages(&self.layout, segment);
            match SlotNumber(pages.start).in_stash() {
                None => copy.words_of_bits(pages),
                Some(_) => None,
            }
        };
        match words {
            Some((first, count)) => self.read_bits(first, count).await,
            None => Ok(()),
        }
    }

    /// Reads so many words of bits, from one on.
    pub(super) async fn read_bits(&self, first: BitsWord, words: u64) -> Result<()> {
        let mut next = 0;
        while next < words {
            let count = WORDS_A_READ.min(words - next);
            let from = first.plus(next);
            let bits = self.endpoint.read(from.at, 8 * count as usize).await?;
            self.copy.borrow_mut().take_bits(from, bits.words());
            next += count;
        }
        Ok(())
    }

    async fn read_segment(&self, segment: u64) -> Result<()> {
        let pages = self
            .copy
            .borrow()
            .vault
            .segment_pages(&self.layout, segment);
        let mut next = pages.start;
        while next < pages.end {
            let words = self.layout.page_shape(next).words() as usize;
            let piece = scan::piece(next, pages.end, words * 8);
            let from = self.copy.borrow().vault.page_at(&self.layout, next);
            let read = self.endpoint.read(from, piece as usize * words * 8).await?;
            self.copy.borrow_mut().take(next, read.words());
            next += piece;
        }
        Ok(())
    }
}
