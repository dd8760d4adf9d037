//! Where the published index of a table is that has grown: with the buckets that it is about.

use super::super::layout::DuoLayout;
use super::super::placement::SlotNumber;
use super::vault::{Extent, Vault};
use farslot_fabric::RemoteAddr;
use std::ops::Range;

/// Counts that are read at once at most, if one extent has not got more.
const COUNTS_A_READ: u64 = 4096;

impl Extent {
    /// The pages of its buckets.
    fn pages(&self) -> Range<u64> {
        2 * self.first..2 * (self.first + self.buckets)
    }

    /// Pages of a segment, of so many that there are, one of which is the stash's: of the last ones fewer.
    fn segment_pages(&self, segments: u64) -> u64 {
        (2 * self.buckets).div_ceil(segments - 1)
    }
}

impl Vault {
    /// The number of the extent that a bucket is in, and the extent.
    fn numbered(&self, bucket: u64) -> (u64, Extent) {
        let extents = self.extents();
        let later = extents.iter().rposition(|extent| extent.first <= bucket);
        let number = later.expect("the first extent's first bucket is 0");
        (number as u64, extents[number])
    }

    /// Where a page is.
    pub(in super::super) fn page_at(&self, layout: &DuoLayout, page: u64) -> RemoteAddr {
        match SlotNumber(page).in_stash() {
            Some(stashed) => {
                let (part, place) = layout.stash_place(stashed);
                self.extent_numbered(part).stash_pages.plus(place * 8)
            }
            None => {
                let (_, extent) = self.numbered(page / 2);
                let behind = page - extent.pages().start;
                extent.pages.plus(behind * layout.page_bytes())
            }
        }
    }

    /// The segment of a page. Those of an extent follow those of the extents before.
    pub(in super::super) fn segment_of(&self, layout: &DuoLayout, page: u64) -> u64 {
        if let Some(stashed) = SlotNumber(page).in_stash() {
            return Self::stash_segment(layout, layout.stash_place(stashed).0);
        }
        let (number, extent) = self.numbered(page / 2);
        let each = extent.segment_pages(layout.segments());
        number * layout.segments() + (page - extent.pages().start) / each
    }

    /// The segment of the stash, or of a sub-table's.
    pub(in super::super) const fn stash_segment(layout: &DuoLayout, subtable: u64) -> u64 {
        (subtable + 1) * layout.segments() - 1
    }

    /// The pages of a segment: of one behind the last bucket none.
    pub(in super::super) fn segment_pages(&self, layout: &DuoLayout, segment: u64) -> Range<u64> {
        let (number, place) = (segment / layout.segments(), segment % layout.segments());
        let has_stash = number == 0 || layout.extendible;
        if has_stash && segment == Self::stash_segment(layout, number) {
            return layout.stash_pages(number);
        }
        let extent = self.extent_numbered(number);
        let (pages, each) = (extent.pages(), extent.segment_pages(layout.segments()));
        let first = (pages.start + place * each).min(pages.end);
        first..(first + each).min(pages.end)
    }

    /// Counts that there are: as many of each extent.
    pub(in super::super) fn segments(&self, layout: &DuoLayout) -> u64 {
        self.extents().len() as u64 * layout.segments()
    }

    /// Where the count of a segment is.
    pub(in super::super) fn count_at(&self, layout: &DuoLayout, segment: u64) -> RemoteAddr {
        let extent = self.extent_numbered(segment / layout.segments());
        extent.counts.plus(segment % layout.segments() * 8)
    }

    /// Where the counts of the segments are, of all extents, and how many words lie side by side there.
    pub(in super::super) fn counts(&self, layout: &DuoLayout) -> Vec<(RemoteAddr, u64)> {
        counts_of(&self.extents(), layout.segments())
    }

    /// Where the counts of the extents are whose buckets the last growth splits: all that were there before. Of sub-tables,
    /// any but the last one may have been split last.
    pub(super) fn counts_of_origins(&self, layout: &DuoLayout) -> Vec<(RemoteAddr, u64)> {
        let extents = self.extents();
        counts_of(&extents[..extents.len() - 1], layout.segments())
    }

    /// All pages, as they lie side by side: the stash's first.
    pub(in super::super) fn page_runs(&self, layout: &DuoLayout) -> Vec<Range<u64>> {
        let extents = self.extents();
        let of_buckets = extents.iter().map(Extent::pages);
        let stashes = match layout.extendible {
            true => extents.len() as u64,
            false => 1,
        };
        let of_stash = (0..stashes).map(|number| layout.stash_pages(number));
        of_stash.chain(of_buckets).collect()
    }
}

/// Counts of so many segments of each of these extents, as they lie side by side.
fn counts_of(extents: &[Extent], each: u64) -> Vec<(RemoteAddr, u64)> {
    let mut runs: Vec<(RemoteAddr, u64)> = Vec::new();
    for extent in extents {
        match runs.last_mut() {
            Some((at, words))
                if at.plus(8 * *words) == extent.counts && *words + each <= COUNTS_A_READ =>
            {
                *words += each;
            }
            _ => runs.push((extent.counts, each)),
        }
    }
    runs
}
