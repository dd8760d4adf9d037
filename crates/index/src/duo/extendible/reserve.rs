//! Sub-tables in memory of the table's own, behind it ([`most_capacity`](super::super::DuoOptions::most_capacity)).
//!
//! ```text
//! chunks of the list, as many as are needed | sub-tables, one for each split, by their numbers
//! ```
//! Where a sub-table lies follows from the number of its split: so nothing has to be taken, and an owner that dies
//! leaves nothing taken. What no split that is counted names has not been touched, or is the next one's and has not been used.
//!
//! Sub-tables are split until all have the same depth, and not further: so there is memory for each one's splits, however fast
//! others fill up, and the table can be as full as its sub-tables.

use super::super::growth::Vault;
use super::super::layout::DuoLayout;
use super::entries::{chunk_bytes, chunk_of};
use farslot_fabric::RemoteAddr;

/// Sub-tables start at multiples of this.
const ALIGNMENT: u64 = 64;

/// Bytes from one sub-table to the next.
pub(super) const fn bytes_of_each(layout: &DuoLayout) -> u64 {
    Vault::subtable_bytes(layout).next_multiple_of(ALIGNMENT)
}

/// Bytes of the chunks that a list of so many splits has.
fn list_bytes(layout: &DuoLayout, splits: u64) -> u64 {
    let chunks = splits.checked_sub(1).map_or(0, |last| chunk_of(last).0 + 1);
    bytes_of_chunks(layout, chunks).next_multiple_of(ALIGNMENT)
}

/// Bytes of the first chunks of a list.
fn bytes_of_chunks(layout: &DuoLayout, chunks: u64) -> u64 {
    (0..chunks).map(|chunk| chunk_bytes(layout, chunk)).sum()
}

/// Bytes of the memory behind a table whose sub-tables get so deep; nothing if there are no such sizes.
pub(in super::super) fn reserve_bytes(layout: &DuoLayout, depth: u32) -> Option<u64> {
    let splits = (1_u64 << depth) - 1;
    let subtables = bytes_of_each(layout).checked_mul(splits)?;
    subtables.checked_add(list_bytes(layout, splits))
}

/// Where a table has its sub-tables, and how many.
#[derive(Clone, Copy)]
pub(super) struct Reserve<'l> {
    layout: &'l DuoLayout,
    start: RemoteAddr,
    /// How deep sub-tables get.
    pub(super) depth: u32,
}

impl<'l> Reserve<'l> {
    pub(super) fn of(layout: &'l DuoLayout, table: RemoteAddr) -> Self {
        Self {
            layout,
            start: layout.reserve_at(table),
            depth: (layout.most_slots() / layout.slots()).ilog2(),
        }
    }

    /// Where the chunk of this number is.
    pub(super) fn chunk_at(self, chunk: u64) -> RemoteAddr {
        self.start.plus(bytes_of_chunks(self.layout, chunk))
    }

    /// Where the sub-table of a split is, if there is one.
    pub(super) fn subtable_at(self, split: u64) -> Option<RemoteAddr> {
        let splits = (1_u64 << self.depth) - 1;
        let before = list_bytes(self.layout, splits) + split * bytes_of_each(self.layout);
        (split < splits).then(|| self.start.plus(before))
    }
}
