//! The entries by which everybody learns of growths.
//!
//! Invariant: an entry is whole and does not change any more from before it is counted.

use super::layout::{ENTRY_BYTES, EXTENT_ENTRIES_AT, MOST_EXTENTS};
use crate::Result;
use crate::slot::bad_option;
use farslot_fabric::{Endpoint, EndpointExt, RegionId, RemoteAddr};

/// By how much a table has grown once, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Entry {
    pub(in super::super) ratio: u64,
    pub(in super::super) at: RemoteAddr,
}

impl Entry {
    pub(in super::super) fn words(self) -> [u64; 3] {
        [self.ratio, u64::from(self.at.region.0), self.at.offset]
    }

    fn of(words: &[u64], table: RemoteAddr) -> Result<Self> {
        let [ratio, region, offset] = [0, 1, 2].map(|word| words[word]);
        let at = place_of(table, region, offset)?;
        Ok(Self { ratio, at })
    }
}

/// The place that an entry names.
fn place_of(table: RemoteAddr, region: u64, offset: u64) -> Result<RemoteAddr> {
    let damaged = |_| bad_option("region of an extent", region, "at most 65535");
    Ok(RemoteAddr {
        node: table.node,
        region: RegionId(u16::try_from(region).map_err(damaged)?),
        offset,
    })
}

/// Where an entry is.
pub(in super::super) fn entry_at(table: RemoteAddr, number: u64) -> RemoteAddr {
    table.plus(EXTENT_ENTRIES_AT + number * ENTRY_BYTES)
}

/// Reads the entries from one on, of as many as were counted.
///
/// # Errors
/// [`BadOption`](crate::IndexError::BadOption) for a header that is damaged; what the fabric says.
pub(in super::super) async fn read_entries<E: Endpoint>(
    endpoint: &E,
    table: RemoteAddr,
    first: u64,
    counted: u64,
) -> Result<Vec<Entry>> {
    if counted > u64::from(MOST_EXTENTS) {
        let limit = format!("{MOST_EXTENTS} at most");
        return Err(bad_option("growths", counted, limit));
    }
    let Some(new @ 1..) = counted.checked_sub(first) else {
        return Ok(Vec::new());
    };
    let bytes = (new * ENTRY_BYTES) as usize;
    let entries = endpoint.read(entry_at(table, first), bytes).await?;
    let entries = entries.words().chunks_exact(ENTRY_BYTES as usize / 8);
    entries.map(|words| Entry::of(words, table)).collect()
}
