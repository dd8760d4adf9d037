//! Where the published index of a table is that has grown: with the buckets that it is about.

use super::layout::{DuoLayout, SEGMENTS, STASH_SEGMENT};
use super::numbers::SlotNumber;
use super::vault::{BucketExtent, VaultMap};
use farslot_fabric::RemoteAddr;
use std::ops::Range;

/// Counts that are read at once at most, if one extent has not got more.
const COUNTS_A_READ: u64 = 4096;

impl BucketExtent {
    /// The pages of its buckets.
    fn pages(&self) -> Range<u64> {
        2 * self.first..2 * (self.first + self.buckets)
    }

    /// Pages of a segment: of the last ones fewer. One segment is the stash's.
    fn segment_pages(&self) -> u64 {
        (2 * self.buckets).div_ceil(SEGMENTS - 1)
    }
}

impl VaultMap {
    /// The number of the extent that a bucket is in, and the extent.
    fn numbered(&self, bucket: u64) -> (u64, BucketExtent) {
        let extents = self.extents();
        let later = extents.iter().rposition(|extent| extent.first <= bucket);
        let number = later.expect("the first extent's first bucket is 0");
        (number as u64, extents[number])
    }

    /// Where a page is.
    pub(in super::super) fn page_at(&self, layout: &DuoLayout, page: u64) -> RemoteAddr {
        match SlotNumber(page).in_stash() {
            Some(stashed) => layout.stash_pages_at(self.table).plus(stashed * 8),
            None => {
                let (_, extent) = self.numbered(page / 2);
                let behind = page - extent.pages().start;
                extent.pages.plus(behind * layout.page_bytes())
            }
        }
    }

    /// The segment of a page. Those of an extent follow those of the extents before.
    pub(in super::super) fn segment_of(&self, page: u64) -> u64 {
        if SlotNumber(page).in_stash().is_some() {
            return STASH_SEGMENT;
        }
        let (number, extent) = self.numbered(page / 2);
        number * SEGMENTS + (page - extent.pages().start) / extent.segment_pages()
    }

    /// The pages of a segment: of one behind the last bucket none.
    pub(in super::super) fn segment_pages(&self, layout: &DuoLayout, segment: u64) -> Range<u64> {
        if segment == STASH_SEGMENT {
            return layout.stash_pages();
        }
        let (number, place) = (segment / SEGMENTS, segment % SEGMENTS);
        let extent = self.extent_numbered(number);
        let (pages, each) = (extent.pages(), extent.segment_pages());
        let first = (pages.start + place * each).min(pages.end);
        first..(first + each).min(pages.end)
    }

    /// Counts that there are: as many of each extent.
    pub(in super::super) fn segments(&self) -> u64 {
        self.extents().len() as u64 * SEGMENTS
    }

    /// Where the count of a segment is.
    pub(in super::super) fn count_at(&self, segment: u64) -> RemoteAddr {
        let extent = self.extent_numbered(segment / SEGMENTS);
        extent.counts.plus(segment % SEGMENTS * 8)
    }

    /// Where the counts of the segments are, of all extents, and how many words lie side by side
    /// there.
    pub(in super::super) fn counts(&self) -> Vec<(RemoteAddr, u64)> {
        counts_of(&self.extents())
    }

    /// Where the counts of the extents are whose buckets the last growth splits: all that were
    /// there before.
    pub(in super::super) fn counts_of_origins(&self) -> Vec<(RemoteAddr, u64)> {
        let extents = self.extents();
        counts_of(&extents[..extents.len() - 1])
    }

    /// All pages, as they lie side by side: the stash's first.
    pub(in super::super) fn page_runs(&self, layout: &DuoLayout) -> Vec<Range<u64>> {
        let extents = self.extents();
        let of_buckets = extents.iter().map(BucketExtent::pages);
        let of_stash = std::iter::once(layout.stash_pages());
        of_stash.chain(of_buckets).collect()
    }
}

/// The counts of the segments of these extents, as they lie side by side.
fn counts_of(extents: &[BucketExtent]) -> Vec<(RemoteAddr, u64)> {
    let mut runs: Vec<(RemoteAddr, u64)> = Vec::new();
    for extent in extents {
        match runs.last_mut() {
            Some((at, words))
                if at.plus(8 * *words) == extent.counts && *words + SEGMENTS <= COUNTS_A_READ =>
            {
                *words += SEGMENTS;
            }
            _ => runs.push((extent.counts, SEGMENTS)),
        }
    }
    runs
}
