//! Bringing a reader's copy of the index up to date.
//!
//! The counts of changes say what has to be read. Invariant: they are read before what they are about, the bits
//! that say what is split before the pages that are in use with them; and when they are read once more and are the
//! same, the copy is as the table was at that moment, as far as answers go.

use super::DuoReader;
use crate::client::{scan, side_by_side};
use crate::duo::growth::read_entries;
use crate::duo::published::SEGMENTS;
use crate::{BATCH_WIDTH, Result, UPKEEP};
use farslot_fabric::{Buffer, Endpoint, EndpointExt};
use std::ops::Range;

/// Words of bits that are read at once.
const WORDS_A_READ: u64 = 4096;

impl<E: Endpoint> DuoReader<E> {
    /// Brings the copy of the index up to date. The counts of changes are read, then those segments that have
    /// changed; then the counts once more, so that in a table where little changes absent keys are
    /// known without asking.
    ///
    /// The first time, this reads the whole published index. Lookups go on meanwhile.
    ///
    /// # Errors
    /// [`IndexError::BadOption`](crate::IndexError::BadOption) for a table whose header is damaged; what the fabric says.
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
        for segment in &changed {
            self.read_splits(*segment).await?;
        }
        // Those of buckets that were found to be split belong to them.
        let all_changed = self.copy.borrow().changed(&counts);
        for segment in all_changed {
            self.read_segment(segment).await?;
            let count = counts[segment as usize];
            self.copy.borrow_mut().has_read(segment, count);
        }
        Ok(!changed.is_empty())
    }

    /// Reads the counts; returns them, and which segments have changed since they were read last.
    async fn read_counts(&self) -> Result<(Vec<u64>, Vec<u64>)> {
        loop {
            let asked = self.endpoint.now();
            let counts = self.read_all_counts().await?;
            // Behind those of the table.
            let growths = counts[0].words()[SEGMENTS as usize];
            if growths as usize >= counts.len() {
                self.learn_growths(growths).await?;
                continue;
            }
            let counts = counts
                .iter()
                .flat_map(|counts| &counts.words()[..SEGMENTS as usize]);
            let counts: Vec<u64> = counts.copied().collect();
            let changed = self.copy.borrow_mut().compare(&counts, asked);
            return Ok((counts, changed));
        }
    }

    /// The counts of the table, with that of growths, and of each extent.
    async fn read_all_counts(&self) -> Result<Vec<Buffer>> {
        let first_of_each: Vec<_> = {
            let vault = &self.copy.borrow().vault;
            let extents = (0..vault.segments()).step_by(SEGMENTS as usize);
            extents.map(|segment| vault.count_at(segment)).collect()
        };
        let reads = first_of_each.iter().enumerate().map(async |(number, at)| {
            let words = SEGMENTS as usize + usize::from(number == 0);
            Ok(self.endpoint.read(*at, words * 8).await?)
        });
        let mut read: Vec<Option<Buffer>> = first_of_each.iter().map(|_| None).collect();
        side_by_side(BATCH_WIDTH, reads, |number, counts| {
            read[number] = Some(counts);
        })
        .await?;
        Ok(read.into_iter().flatten().collect())
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
            copy.words_of_bits(copy.vault.segment_pages(&self.layout, segment))
        };
        self.read_bits(words).await
    }

    /// Reads words of bits of the growth that is the last one known.
    pub(super) async fn read_bits(&self, words: Range<u64>) -> Result<()> {
        let growths = self.copy.borrow().vault.growths();
        let mut next = words.start;
        while next < words.end {
            let count = WORDS_A_READ.min(words.end - next);
            let (at, _) = self.copy.borrow().vault.split_bit_at(64 * next);
            let bits = self.endpoint.read(at, 8 * count as usize).await?;
            let mut copy = self.copy.borrow_mut();
            if copy.vault.growths() != growths {
                // A lookup has learned of another meanwhile, and that all of this one is over.
                return Ok(());
            }
            copy.take_bits(next, bits.words());
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
