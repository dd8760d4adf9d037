//! The list of splits as everybody finds it: see the module's page.
//!
//! Invariant: an entry is whole, and does not change any more, from before it is counted; and so is the place of the chunk
//! that it is in. So who has read the count reads them then.

use super::super::growth::{ENTRY_BYTES, MOST_EXTENTS, Vault, entry_at, place_of};
use super::super::layout::DuoLayout;
use super::super::placement::Placement;
use crate::Result;
use crate::client::side_by_side;
use crate::slot::bad_option;
use farslot_fabric::{Endpoint, EndpointExt, RemoteAddr};

/// Entries of the first chunk.
const FIRST_CHUNK: u64 = 128;
/// Entries read at once.
const ENTRIES_A_READ: u64 = 1024;
/// READs of entries under way: a list is seldom longer.
const READS_AT_ONCE: usize = 16;

/// A split of a sub-table that was counted, or is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Split {
    /// The sub-table that is split.
    pub(in super::super) from: u64,
    /// Where the new one is.
    pub(in super::super) at: RemoteAddr,
    /// Where the counts of changes of its published index are.
    pub(in super::super) counts: RemoteAddr,
}

impl Split {
    /// Has the sub-table from now on. The split that the other one has taken part in must be known to be over.
    ///
    /// # Errors
    /// [`BadOption`](crate::IndexError::BadOption) for a list that is damaged: the sub-table is none that can be split.
    pub(in super::super) fn add(
        self,
        layout: &DuoLayout,
        index: &mut Placement,
        vault: &Vault,
    ) -> Result<()> {
        if !index.can_be_split(self.from) {
            let limit = "one that there is and that can be split";
            return Err(bad_option("sub-table of a split", self.from, limit));
        }
        vault.add_subtable(layout, self.at, self.counts);
        index.split_subtable(self.from);
        Ok(())
    }
}

/// The chunk of an entry, and its place in that.
pub(super) const fn chunk_of(number: u64) -> (u64, u64) {
    let chunk = (number / FIRST_CHUNK + 1).ilog2() as u64;
    (chunk, number - FIRST_CHUNK * ((1 << chunk) - 1))
}

/// Entries of a chunk.
const fn entries_of(chunk: u64) -> u64 {
    FIRST_CHUNK << chunk
}

/// Bytes of a chunk: the entries, and the counts of as many sub-tables.
pub(super) const fn chunk_bytes(layout: &DuoLayout, chunk: u64) -> u64 {
    entries_of(chunk) * (ENTRY_BYTES + counts_bytes(layout))
}

/// Bytes of the counts of a sub-table.
const fn counts_bytes(layout: &DuoLayout) -> u64 {
    match layout.published {
        true => layout.segments() * 8,
        false => 0,
    }
}

/// Where an entry of a chunk is.
pub(super) const fn entry_of(chunk_at: RemoteAddr, place: u64) -> RemoteAddr {
    chunk_at.plus(place * ENTRY_BYTES)
}

/// Where the counts are of the sub-table that an entry of a chunk is about.
pub(super) const fn counts_of(
    layout: &DuoLayout,
    chunk: u64,
    chunk_at: RemoteAddr,
    place: u64,
) -> RemoteAddr {
    let entries = entries_of(chunk) * ENTRY_BYTES;
    chunk_at.plus(entries + place * counts_bytes(layout))
}

/// Entries of one chunk that are read at once.
#[derive(Clone, Copy)]
struct Run {
    chunk: u64,
    /// The first one's place.
    place: u64,
    entries: u64,
}

/// Some of the entries from one on, up to another, as runs that are read side by side.
fn runs_of(mut first: u64, end: u64) -> Vec<Run> {
    let mut runs = Vec::new();
    while first < end && runs.len() < READS_AT_ONCE {
        let (chunk, place) = chunk_of(first);
        let entries = (entries_of(chunk) - place).min(end - first);
        let entries = entries.min(ENTRIES_A_READ);
        runs.push(Run {
            chunk,
            place,
            entries,
        });
        first += entries;
    }
    runs
}

/// Reads splits from one on, of as many as were counted: all, or as many as are read at once. `chunks` are the places of the
/// list's chunks, as far as they are known; those that are not are read and added.
///
/// # Errors
/// [`BadOption`](crate::IndexError::BadOption) for a header or a list that is damaged; what the fabric says.
pub(in super::super) async fn read_splits<E: Endpoint>(
    endpoint: &E,
    table: RemoteAddr,
    layout: &DuoLayout,
    chunks: &mut Vec<RemoteAddr>,
    (first, counted): (u64, u64),
) -> Result<Vec<Split>> {
    let runs = runs_of(first, counted);
    let Some(last) = runs.last() else {
        return Ok(Vec::new());
    };
    read_chunks(endpoint, table, chunks, last.chunk).await?;
    let reads = runs.iter().map(async |run| {
        let from = entry_of(chunks[run.chunk as usize], run.place);
        let bytes = run.entries * ENTRY_BYTES;
        Ok(endpoint.read(from, bytes as usize).await?)
    });
    let mut read = Vec::with_capacity(runs.len());
    side_by_side(READS_AT_ONCE, reads, |number, entries| {
        read.push((number, entries));
    })
    .await?;
    read.sort_unstable_by_key(|(number, _)| *number);
    let mut splits = Vec::new();
    for (number, entries) in read {
        let run = runs[number];
        let chunk_at = chunks[run.chunk as usize];
        for (place, words) in (run.place..).zip(entries.words().chunks_exact(3)) {
            splits.push(Split {
                from: words[0],
                at: place_of(table, words[1], words[2])?,
                counts: counts_of(layout, run.chunk, chunk_at, place),
            });
        }
    }
    Ok(splits)
}

/// Reads where the chunks of the list are, up to this one, that are not known.
async fn read_chunks<E: Endpoint>(
    endpoint: &E,
    table: RemoteAddr,
    chunks: &mut Vec<RemoteAddr>,
    last: u64,
) -> Result<()> {
    if last >= u64::from(MOST_EXTENTS) {
        let limit = format!("{MOST_EXTENTS} chunks of a list at most");
        return Err(bad_option("splits", format!("chunk {last}"), limit));
    }
    let known = chunks.len() as u64;
    let Some(missing @ 1..) = (last + 1).checked_sub(known) else {
        return Ok(());
    };
    let bytes = missing * ENTRY_BYTES;
    let entries = endpoint.read(entry_at(table, known), bytes as usize);
    let entries = entries.await?;
    let places = entries.words().chunks_exact(ENTRY_BYTES as usize / 8);
    let places = places.map(|words| place_of(table, words[1], words[2]));
    chunks.extend(places.collect::<Result<Vec<_>>>()?);
    Ok(())
}

// An entry is three words.
const _: () = assert!(ENTRY_BYTES == 24);

#[cfg(test)]
mod tests {
    use super::*;

    /// Every split has an entry of its own, in the order of their numbers.
    #[test]
    fn entries_follow_one_another_through_chunks() {
        let (mut chunk, mut place) = (0, 0);
        for number in 0..10_000 {
            assert_eq!(chunk_of(number), (chunk, place));
            place += 1;
            if place == entries_of(chunk) {
                (chunk, place) = (chunk + 1, 0);
            }
        }
        for (first, end) in [(0, 0), (0, 1), (100, 300), (5, 40_000), (383, 384)] {
            let (mut next, mut rounds) = (first, 0);
            while next < end {
                let runs = runs_of(next, end);
                for run in runs {
                    assert_eq!(chunk_of(next), (run.chunk, run.place));
                    assert!(run.entries > 0 && run.place + run.entries <= entries_of(run.chunk));
                    next += run.entries;
                }
                rounds += 1;
            }
            assert_eq!(next, end);
            assert!(rounds <= 3, "{rounds}");
        }
    }
}
