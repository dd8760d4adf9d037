//! The pool of a node: its memory in segments, of which tables that grow take one after the other.
//!
//! ```text
//! behind the entries | a word a segment |
//! segment word | 1 | lost, 1 | drawn, 15 bits | table's tag, 31 bits | number in its list, 16 |
//!              0 of one that is free and zeros, 1 of one that has parts of other tables
//!              with the number 65535 of one that is kept for its table: see `reserve`
//! ```
//! A table takes a segment by a swap of its word, and then has its list name it by another; of two
//! clients who do that for the same addresses one gives its segment back. Nobody holds the
//! catalog's lock for that. Segments come back under the lock alone: of a table that was dropped or
//! cleared, of clients that died between the two swaps, and of tables that do not need theirs while
//! another does ([`Reclaiming`](super::reclaim)).
//!
//! Tables that lie in one piece take the segments that they lie in; the pool's are taken from the
//! region's end.

use super::lock::Change;
use super::record::{TableRecord, pooled};
use super::region::{Catalog, LEASE, at};
use super::sizes::{catalog_bytes, segment_bytes, segments_at};
use crate::Result;
use crate::no_room::MemoryLeft;
use farslot_fabric::tcp::TaggedBlocks;
use farslot_fabric::{
    Endpoint, EndpointExt, Nanos, NodeId, OwnerMemory, RegionId, RemoteAddr, Rights, Segments,
    window,
};
use std::cell::Cell;
use std::collections::HashSet;
use std::ops::Range;

/// The regions of tables that are made of segments, by the numbers of their entries.
pub(crate) const FIRST_REGION: u16 = 1 << 15;

/// The word of a segment that has parts of tables that lie in one piece.
const IN_PIECES: u64 = 1;
const OF_TABLE: u64 = 1 << 63;
const NUMBER_BITS: u32 = 16;
const TAG_BITS: u32 = 31;
const TAG: u64 = ((1 << TAG_BITS) - 1) << NUMBER_BITS;
/// Of one that no list was seen to name, and that is freed unless one does in the end.
pub(super) const LOST: u64 = 1 << 62;
/// What tells claims of the same segment for the same number apart.
const DRAWN: u64 = ((1 << 15) - 1) << (NUMBER_BITS + TAG_BITS);

/// The number in the word of a segment that is kept for a table: in no list.
const KEPT: u64 = (1 << NUMBER_BITS) - 1;

/// Words that a look for a free segment reads at a time.
const LOOK_AT: u64 = 512;
/// Such READs under way at a time, and swaps of words.
const READS_AT_ONCE: usize = 8;
pub(super) const WIDTH: usize = 64;
/// How often a look for one begins anew, where others are faster.
pub(super) const ATTEMPTS: usize = 64;

/// The segments of a region of so many bytes that tables may have, by their numbers.
fn segments_of_region(region_bytes: u64) -> Range<u64> {
    let segment = segment_bytes(region_bytes);
    catalog_bytes(region_bytes).div_ceil(segment)..region_bytes / segment
}

/// A word of a segment that a table has.
const fn word_of(tag: u64, number: u64) -> u64 {
    OF_TABLE | tag << NUMBER_BITS & TAG | number & ((1 << NUMBER_BITS) - 1)
}

/// The word of a segment that is kept for a table.
pub(super) const fn kept_for(tag: u64) -> u64 {
    word_of(tag, KEPT)
}

/// The number in the word of a segment.
pub(super) const fn number_in(word: u64) -> u64 {
    word & ((1 << NUMBER_BITS) - 1)
}

/// Whether a segment with this word is kept for the table that has it.
pub(super) const fn is_kept(word: u64) -> bool {
    word & (OF_TABLE | LOST | DRAWN) == OF_TABLE && number_in(word) == KEPT
}

/// The segments that are a table's at least, in whole ones of so many bytes.
pub(super) fn reserve_of(record: &TableRecord) -> u64 {
    let layout = pooled(&record.scheme);
    layout.map_or(0, |layout| layout.reserve.div_ceil(layout.segment))
}

/// How many segments a table has beyond its reserve, by the words of all.
pub(super) fn beyond_reserve(words: &[u64], record: &TableRecord) -> u64 {
    let all = segments_with(words, record.tag).count() as u64;
    all.saturating_sub(reserve_of(record))
}

/// The tag of the table that has the segment with this word.
const fn tag_of(word: u64) -> Option<u64> {
    match word & OF_TABLE {
        0 => None,
        _ => Some((word & TAG) >> NUMBER_BITS),
    }
}

/// What a grant opens of the pool of a region of so many bytes that opens this table.
pub(crate) fn blocks_of(record: &TableRecord, region_bytes: u64, rights: Rights) -> TaggedBlocks {
    TaggedBlocks {
        region: RegionId(0),
        words_at: segments_at(region_bytes),
        block: segment_bytes(region_bytes),
        mask: OF_TABLE | TAG,
        tag: word_of(record.tag, 0),
        rights,
    }
}

/// The bytes of the region that are a table's if any are: of one that is made of segments its
/// first.
///
/// # Errors
/// What the memory says.
pub(crate) fn own_bytes(
    record: &TableRecord,
    memory: &dyn OwnerMemory,
) -> farslot_fabric::Result<Range<u64>> {
    let Some(segments) = segments_of(NodeId(0), record) else {
        return Ok(record.extent());
    };
    let first = segments.start_of(memory.load(segments.list.offset)?);
    let none = u64::MAX..u64::MAX;
    Ok(first.map_or(none, |first| first..first.saturating_add(segments.bytes())))
}

/// A tag for a new table, that no segment with these words has.
pub(super) fn draw_tag(words: &[u64]) -> u64 {
    loop {
        let tag = rand::random::<u64>() & ((1 << TAG_BITS) - 1);
        if tag != 0 && segments_with(words, tag).next().is_none() {
            return tag;
        }
    }
}

/// The memory of a table on a node, if it is made of segments.
pub(crate) fn segments_of(node: NodeId, record: &TableRecord) -> Option<Segments> {
    let layout = pooled(&record.scheme)?;
    Some(Segments {
        region: RegionId(FIRST_REGION | record.entry as u16),
        len: u64::try_from(layout.address_bytes()).ok()?,
        list: at(node, record.offset),
        shift: layout.segment.trailing_zeros(),
        least: record.catalog_end,
    })
}

/// How many segments are kept for a table, and how many others it has, by the words of all.
#[cfg(test)]
pub(crate) fn segments_of_table(words: &[u64], record: &TableRecord) -> (u64, u64) {
    let own = segments_with(words, record.tag).map(|(_, word)| is_kept(word));
    own.fold((0, 0), |(kept, others), is_kept| match is_kept {
        true => (kept + 1, others),
        false => (kept, others + 1),
    })
}

/// Whose a segment becomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Claim {
    pub(crate) tag: u64,
    /// Whether segments are kept for the table.
    pub(crate) reserves: bool,
}

impl Claim {
    pub(crate) fn of(record: &TableRecord) -> Self {
        Self {
            tag: record.tag,
            reserves: reserve_of(record) > 0,
        }
    }
}

/// What became of a segment that a table was to have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AttachOutcome {
    /// The table has one, by this client or another.
    Done,
    NoneFree,
    /// The table was seen too long ago: it may be gone.
    Late,
}

/// A node's pool, as who takes segments of it sees it.
pub(crate) struct Pool<'e, E> {
    pub(super) endpoint: &'e E,
    pub(super) node: NodeId,
    pub(super) region_bytes: u64,
}

impl<E: Endpoint> Pool<'_, E> {
    pub(super) fn segments(&self) -> Range<u64> {
        segments_of_region(self.region_bytes)
    }

    pub(super) fn word_at(&self, segment: u64) -> RemoteAddr {
        at(self.node, segments_at(self.region_bytes) + segment * 8)
    }

    /// The segments that are free, by the words of all, from the region's end on.
    pub(super) fn free_from_end(&self, words: &[u64]) -> impl Iterator<Item = u64> {
        let all = self.segments().rev();
        all.filter(|segment| words.get(*segment as usize) == Some(&0))
    }

    /// The words of all segments of the region.
    pub(crate) async fn words(&self) -> farslot_fabric::Result<Vec<u64>> {
        let end = self.segments().end;
        let firsts = (0..end).step_by(LOOK_AT as usize);
        let mut blocks: Vec<_> = firsts.clone().map(|_| Ok(Vec::new())).collect();
        let reads = firsts.map(|first| {
            let bytes = (end - first).min(LOOK_AT) as usize * 8;
            self.endpoint.read(self.word_at(first), bytes)
        });
        window(READS_AT_ONCE, reads, |at, read| {
            blocks[at] = read.map(|read| read.words().to_vec());
        })
        .await;
        let blocks: farslot_fabric::Result<Vec<_>> = blocks.into_iter().collect();
        blocks.map(|blocks| blocks.concat())
    }

    /// Has a table that was seen to be there at `since` have memory for the segment of that number.
    /// A look for a free one goes on downwards from `from`.
    ///
    /// # Errors
    /// What the fabric says.
    pub(crate) async fn attach(
        &self,
        table: &Segments,
        (claim, number): (Claim, u64),
        since: Nanos,
        from: &Cell<u64>,
    ) -> farslot_fabric::Result<AttachOutcome> {
        let word = word_of(claim.tag, number) | rand::random::<u64>() & DRAWN;
        let kept = kept_for(claim.tag);
        let mut taken = None;
        if claim.reserves {
            taken = self.take_kept(kept, word).await?;
        }
        if taken.is_none() {
            taken = self.take(word, from).await?;
        }
        let Some(segment) = taken else {
            return Ok(AttachOutcome::NoneFree);
        };
        // Later the list may be another table's, and others may have taken the segment back: who
        // needs it finds that it is lost.
        if self.endpoint.now().saturating_sub(since) >= LEASE {
            return Ok(AttachOutcome::Late);
        }
        let list = table.word_at(number);
        if self.endpoint.compare_swap(list, 0, segment).await? != 0 {
            // Another client was faster: nobody has used it. One that was free is kept too, for
            // others may have freed one beyond the reserve since.
            let at = self.word_at(segment);
            let unused = if claim.reserves { kept } else { 0 };
            self.endpoint.compare_swap(at, word, unused).await?;
        }
        Ok(AttachOutcome::Done)
    }

    /// Takes a segment that is kept for a table.
    async fn take_kept(&self, kept: u64, word: u64) -> farslot_fabric::Result<Option<u64>> {
        for (segment, seen) in (0..).zip(self.words().await?) {
            let at = self.word_at(segment);
            if seen == kept && self.endpoint.compare_swap(at, kept, word).await? == kept {
                return Ok(Some(segment));
            }
        }
        Ok(None)
    }

    /// Takes a free segment.
    async fn take(&self, word: u64, from: &Cell<u64>) -> farslot_fabric::Result<Option<u64>> {
        let all = self.segments();
        if all.is_empty() {
            return Ok(None);
        }
        let mut end = from.get();
        if !(all.start + 1..=all.end).contains(&end) {
            end = all.end;
        }
        let mut left = all.end - all.start;
        let mut lost = 0;
        while left > 0 && lost < ATTEMPTS {
            let first = end.saturating_sub(LOOK_AT.min(left)).max(all.start);
            let bytes = (end - first) as usize * 8;
            let read = self.endpoint.read(self.word_at(first), bytes).await?;
            let free = read.words().iter().rposition(|word| *word == 0);
            let Some(free) = free else {
                left -= (end - first).min(left);
                end = if first == all.start { all.end } else { first };
                continue;
            };
            let segment = first + free as u64;
            let at = self.word_at(segment);
            if self.endpoint.compare_swap(at, 0, word).await? == 0 {
                from.set(segment);
                return Ok(Some(segment));
            }
            lost += 1;
            left -= (end - segment).min(left);
            end = if segment == all.start {
                all.end
            } else {
                segment
            };
        }
        Ok(None)
    }
}

/// The pieces of a region that tables have by segments, by the words of all.
pub(super) fn taken(words: &[u64], region_bytes: u64) -> impl Iterator<Item = Range<u64>> {
    let segment = segment_bytes(region_bytes);
    let of_tables = (0..)
        .zip(words)
        .filter(|(_, word)| tag_of(**word).is_some());
    of_tables.map(move |(number, _)| number * segment..(number + 1) * segment)
}

/// The segments that a table has, by the words of all: their numbers and words.
pub(super) fn segments_with(words: &[u64], tag: u64) -> impl Iterator<Item = (u64, u64)> {
    let all = (0..).zip(words.iter().copied());
    all.filter(move |(_, word)| tag_of(*word) == Some(tag))
}

impl<E: Endpoint> Catalog<'_, E> {
    /// The node's pool.
    pub(crate) const fn pool(&self) -> Pool<'_, E> {
        Pool {
            endpoint: self.endpoint,
            node: self.node,
            region_bytes: self.region_bytes,
        }
    }

    /// What there is of the memory, and what of it the table with this tag has in segments.
    ///
    /// # Errors
    /// What the fabric says.
    pub(crate) async fn memory_left(&self, tag: Option<u64>) -> Result<MemoryLeft> {
        let pool = self.pool();
        let words = pool.words().await?;
        let segment = segment_bytes(self.region_bytes);
        let own = tag.map_or(0, |tag| segments_with(&words, tag).count());
        let free = pool.free_from_end(&words).count();
        Ok(MemoryLeft {
            table: own as u64 * segment,
            total: self.total(),
            free: free as u64 * segment,
        })
    }
}

impl<E: Endpoint> Change<'_, '_, E> {
    /// Gives back segments with these words: they are nobody's first, then made zeros. Whether
    /// there were any.
    pub(super) async fn free(&self, segments: impl Iterator<Item = (u64, u64)>) -> Result<bool> {
        let pool = self.catalog.pool();
        let bytes = segment_bytes(self.catalog.region_bytes);
        let mut is_any = false;
        for (segment, word) in segments {
            let at = pool.word_at(segment);
            let nobodys = word & !TAG;
            if word != nobodys && !self.swap(at, word, nobodys).await? {
                continue;
            }
            self.make_zeros_of(segment * bytes..(segment + 1) * bytes)
                .await?;
            is_any |= self.swap(at, nobodys, 0).await?;
        }
        Ok(is_any)
    }

    /// Marks a segment with this word as lost; what its word is then, or nothing if it was another.
    pub(super) async fn mark_lost(
        &self,
        (segment, word): (u64, u64),
    ) -> Result<Option<(u64, u64)>> {
        let marked = word | LOST;
        let at = self.catalog.pool().word_at(segment);
        let is_marked = word == marked || self.swap(at, word, marked).await?;
        Ok(is_marked.then_some((segment, marked)))
    }

    /// Takes the mark away from a segment that a list names.
    pub(super) async fn is_found(&self, (segment, word): (u64, u64)) -> Result<()> {
        let at = self.catalog.pool().word_at(segment);
        self.swap(at, word, word & !LOST).await.map(drop)
    }

    /// Has no table of the pool have any of these bytes, which lie in one piece; false if one has
    /// some.
    pub(super) async fn keep_out(&self, bytes: &Range<u64>) -> Result<bool> {
        let pool = self.catalog.pool();
        let segment = segment_bytes(self.catalog.region_bytes);
        let all = pool.segments();
        let first = (bytes.start / segment).max(all.start);
        let end = bytes.end.div_ceil(segment).min(all.end);
        self.show().await?;
        let swaps = (first..end).map(|number| {
            let at = pool.word_at(number);
            self.catalog.endpoint.compare_swap(at, 0, IN_PIECES)
        });
        let mut are_free = Ok(true);
        window(WIDTH, swaps, |_, seen| match seen {
            Ok(0 | IN_PIECES) => {}
            Ok(_) => are_free = are_free.clone().map(|_| false),
            Err(error) => are_free = Err(error),
        })
        .await;
        Ok(are_free?)
    }

    /// Gives back the segments that nobody has any more: no table in one piece a part of, or a
    /// table that is there any. These are `extents`, and the tables' `tags`.
    pub(super) async fn free_unowned(
        &self,
        words: &[u64],
        extents: &[Range<u64>],
        tags: &[u64],
    ) -> Result<bool> {
        let pool = self.catalog.pool();
        let segment = segment_bytes(self.catalog.region_bytes);
        // By their starts, each with the furthest end of those up to it.
        let mut ends: Vec<_> = extents.iter().map(|of| (of.start, of.end)).collect();
        ends.sort_unstable();
        let mut furthest = 0;
        for (_, end) in &mut ends {
            furthest = furthest.max(*end);
            *end = furthest;
        }
        let is_taken = |number: u64| {
            let range = number * segment..(number + 1) * segment;
            let before = &ends[..ends.partition_point(|(start, _)| *start < range.end)];
            before.last().is_some_and(|(_, end)| range.start < *end)
        };
        let tags: HashSet<_> = tags.iter().copied().collect();
        let mut is_any = false;
        for (number, word) in (0..).zip(words.iter().copied()) {
            if word == IN_PIECES && !is_taken(number) {
                is_any |= self.swap(pool.word_at(number), IN_PIECES, 0).await?;
            }
        }
        let unowned = (0..).zip(words.iter().copied());
        let unowned = unowned
            .filter(|(_, word)| tag_of(*word).is_some_and(|tag| tag == 0 || !tags.contains(&tag)));
        Ok(self.free(unowned).await? | is_any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::sizes::MOST_SEGMENTS;
    use farslot_index::race::SMALLEST_SEGMENT;

    #[test]
    fn every_region_has_segments_of_which_its_words_can_tell() {
        for bytes in [
            1 << 20,
            8 << 20,
            (8 << 20) + 4096,
            256 << 20,
            5 << 30,
            1 << 40,
        ] {
            let (segment, all) = (segment_bytes(bytes), segments_of_region(bytes));
            assert!(segment.is_power_of_two() && segment >= SMALLEST_SEGMENT);
            assert!(
                all.end <= MOST_SEGMENTS && all.end * segment <= bytes,
                "{bytes}"
            );
            assert!(all.start * segment >= catalog_bytes(bytes));
        }
        let word = word_of(draw_tag(&[]), 4095) | DRAWN;
        assert_eq!(
            tag_of(word).map(|tag| word_of(tag, 4095) | DRAWN),
            Some(word)
        );
        assert_eq!([0, IN_PIECES].map(tag_of), [None, None]);
    }
}
