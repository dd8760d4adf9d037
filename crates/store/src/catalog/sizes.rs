//! How large the parts of a catalog are, and how large segments are, by the bytes of the region.

use super::entry::{MOST_RECORD, WORDS_BYTES};
use crate::{Result, StoreError};
use farslot_index::race::SMALLEST_SEGMENT;

/// The most tables of a node of 256 MiB or more.
pub const MOST_TABLES: usize = 4096;
/// The most tables of the smallest node.
const FEWEST_TABLES: usize = 256;
/// Bytes of a larger region that it has an entry for.
const BYTES_AN_ENTRY: u64 = 64 << 10;
/// The words of the entries.
pub(super) const WORDS_AT: u64 = 4096;
/// The most segments of a region.
pub(super) const MOST_SEGMENTS: u64 = 4096;
/// The most segments of a table's addresses: more than any region has, for slots and records have
/// addresses apart.
pub(super) const MOST_LISTED: u64 = 3 * MOST_SEGMENTS;

/// The most tables of a node that lends `region_bytes`: 256 below 32 MiB, 4,096 from 256 MiB on,
/// and in between one for each 64 KiB, down to a power of two.
///
/// ```
/// assert_eq!(farslot::layout::most_tables(1 << 20), 256);
/// assert_eq!(farslot::layout::most_tables(100 << 20), 1024);
/// assert_eq!(farslot::layout::most_tables(1 << 40), farslot::MOST_TABLES);
/// ```
#[must_use]
pub const fn most_tables(region_bytes: u64) -> usize {
    let most = region_bytes / BYTES_AN_ENTRY;
    if most >= MOST_TABLES as u64 {
        MOST_TABLES
    } else if most <= FEWEST_TABLES as u64 {
        FEWEST_TABLES
    } else {
        1 << most.ilog2()
    }
}

/// Byte of the records in a region of so many bytes, behind the words of the entries.
pub(super) const fn records_at(region_bytes: u64) -> u64 {
    WORDS_AT + (most_tables(region_bytes) * WORDS_BYTES) as u64
}

/// Byte of the words of the segments that a region of so many bytes has.
pub(super) const fn segments_at(region_bytes: u64) -> u64 {
    records_at(region_bytes) + (most_tables(region_bytes) * MOST_RECORD) as u64
}

/// The catalog's end in a region of so many bytes: tables start behind it.
pub(crate) const fn catalog_bytes(region_bytes: u64) -> u64 {
    segments_at(region_bytes) + MOST_SEGMENTS * 8
}

/// Refuses a region that has no room for tables behind the catalog.
///
/// # Errors
/// [`StoreError::TooSmall`] says how many bytes it needs.
pub(crate) fn check_size(region_bytes: u64) -> Result<()> {
    // A region that is no larger than its catalog has the smallest.
    let catalog = catalog_bytes(region_bytes);
    match region_bytes > catalog {
        true => Ok(()),
        false => Err(StoreError::TooSmall {
            bytes: region_bytes,
            least: catalog + 1,
        }),
    }
}

/// Bytes of a segment of a region of so many bytes.
pub(crate) const fn segment_bytes(region_bytes: u64) -> u64 {
    let bytes = region_bytes.div_ceil(MOST_SEGMENTS).next_power_of_two();
    if bytes < SMALLEST_SEGMENT {
        return SMALLEST_SEGMENT;
    }
    bytes
}
