//! The table's cuckoo graph, as its writer may keep it: where each record could also be, and so
//! which insertions have a place, and which way leads to it, before anything is read (paper 004).
//!
//! With this, all of a search is done in local memory, for any number of hash functions and slots,
//! and it is exact: by Hall's theorem an insertion fails exactly if no vacant slot can be reached
//! from its buckets by going from records to their other buckets. Paper 004 keeps less, for each
//! subgraph of one-slot buckets whether it has room; that needs no more than four bytes a bucket,
//! but neither finds the way, nor tells absent keys, nor survives removals, and for buckets of
//! several slots it is no longer exact. What buckets a record is in tells nearly all keys apart: of
//! two random ones in a table of n buckets, it is the same with a probability of 2 / n^2 and less.
//!
//! Failures are searched for once. The buckets of a search that has come to no vacant slot are a
//! [closed set](ClosedSets), which is remembered until one of its records is removed.

use super::layout::{CandidateBuckets, CuckooLayout, CuckooSlot, MOST_WAYS};
use crate::Result;
use crate::closed_sets::ClosedSets;
use crate::slot::bad_option;

/// In place of a slot's first other bucket: no record is there.
const VACANT: u32 = u32::MAX;
/// In place of a slot's first other bucket: a record of which no more is known, and which stays.
const UNKNOWN: u32 = u32::MAX - 1;
/// The most buckets that are told apart.
const MOST_BUCKETS: u64 = UNKNOWN as u64;
/// Buckets of a search for which memory is kept.
const KEPT: usize = 1 << 14;

/// The other buckets of a record, in order; the one where it is stands for each that it has less
/// than the table has hash functions.
type Others = [u32; MOST_WAYS - 1];

/// Which buckets the records connect.
#[derive(Clone, Debug)]
pub(super) struct CuckooGraph {
    bucket_slots: usize,
    /// The length of `Others` in use: hash functions less one.
    alternatives: usize,
    /// By slot, the other buckets of its record.
    edges: Box<[u32]>,
    closed: ClosedSets,
    /// The buckets that the last search has come to.
    reached: Vec<GraphNode>,
}

/// A bucket that a search has come to, and from where: a number in `reached`, and a slot.
#[derive(Clone, Copy, Debug)]
struct GraphNode {
    bucket: u32,
    from: Option<(u32, u32)>,
}

impl CuckooGraph {
    /// That of an empty table.
    pub(super) fn new(layout: &CuckooLayout) -> Self {
        let alternatives = layout.ways as usize - 1;
        Self {
            bucket_slots: layout.bucket_slots as usize,
            alternatives,
            edges: vec![VACANT; layout.slots() as usize * alternatives].into(),
            closed: ClosedSets::new(layout.buckets as usize),
            reached: Vec::new(),
        }
    }

    /// Refuses tables that are too large.
    pub(super) fn check(layout: &CuckooLayout) -> Result<()> {
        if layout.buckets < MOST_BUCKETS && usize::try_from(layout.slots()).is_ok() {
            return Ok(());
        }
        let limit = format!("less than {MOST_BUCKETS} buckets with predetermination");
        Err(bad_option("buckets", layout.buckets, &limit))
    }

    /// Bytes that the graph of a table takes at most, but for the searches' own.
    pub(super) const fn bytes(layout: &CuckooLayout) -> u64 {
        let edges = layout.slots() * (layout.ways as u64 - 1) * size_of::<u32>() as u64;
        edges + layout.buckets * ClosedSets::bytes_per_bucket() as u64
    }

    /// Notes that a slot has a record with these buckets.
    pub(super) fn fill(&mut self, place: CuckooSlot, candidates: &CandidateBuckets) {
        let alternatives = others_of(candidates, place.bucket);
        let count = self.alternatives;
        self.edge_mut(place).copy_from_slice(&alternatives[..count]);
    }

    /// Notes that a slot has a record of which nothing is known.
    pub(super) fn fill_unknown(&mut self, place: CuckooSlot) {
        self.edge_mut(place).fill(UNKNOWN);
    }

    /// Notes that a slot has no record any more.
    pub(super) fn vacate(&mut self, place: CuckooSlot) {
        self.edge_mut(place).fill(VACANT);
        self.closed.open(place.bucket as u32);
    }

    /// Notes that a record has gone to another slot: of another of its buckets, or of the same. The
    /// slot that it leaves is vacant only if [`CuckooGraph::vacate`] says so, else it is to be
    /// filled next.
    pub(super) fn move_record(&mut self, from: CuckooSlot, to: CuckooSlot) {
        let mut candidates = CandidateBuckets::default();
        for other in self.edge(from) {
            candidates.add(u64::from(*other));
        }
        candidates.add(from.bucket);
        self.fill(to, &candidates);
    }

    /// Whether a key with these buckets may be in one of them. It is not, if not.
    pub(super) fn may_hold(&self, bucket: u64, candidates: &CandidateBuckets) -> bool {
        let alternatives = others_of(candidates, bucket);
        (0..self.bucket_slots).any(|slot| {
            let edge = self.edge(CuckooSlot { bucket, slot });
            edge[0] == UNKNOWN || *edge == alternatives[..self.alternatives]
        })
    }

    /// The way to a place for a key with these buckets: a slot of one of them, and from there the
    /// slots that its record and those behind it move to, of which the last is vacant. The shortest
    /// way; no two slots are of one bucket. `None` if there is none.
    pub(super) fn way(&mut self, candidates: &CandidateBuckets) -> Option<Vec<CuckooSlot>> {
        if let Some(place) = self.roomiest(candidates) {
            return Some(vec![place]);
        }
        let (vacant, end) = self.search(candidates)?;
        let (mut way, mut at) = (vec![vacant], end);
        while let Some((parent, slot)) = self.reached[at].from {
            at = parent as usize;
            way.push(CuckooSlot {
                bucket: u64::from(self.reached[at].bucket),
                slot: slot as usize,
            });
        }
        way.reverse();
        Some(way)
    }

    /// A vacant slot of the bucket that has the most; of several such of the first, as lookups one
    /// after the other find it soonest.
    fn roomiest(&self, candidates: &CandidateBuckets) -> Option<CuckooSlot> {
        let vacant = |bucket: u64| self.vacant_slots(bucket).count();
        let buckets = candidates.as_slice().iter().rev();
        let roomiest = buckets.copied().max_by_key(|bucket| vacant(*bucket))?;
        self.vacant_slots(roomiest).next()
    }

    fn vacant_slots(&self, bucket: u64) -> impl Iterator<Item = CuckooSlot> {
        let places = (0..self.bucket_slots).map(move |slot| CuckooSlot { bucket, slot });
        places.filter(|place| self.edge(*place)[0] == VACANT)
    }

    /// Searches breadth first from buckets that have no vacant slot. The first that is found, and
    /// which of `reached` its bucket is; that there is none is remembered.
    fn search(&mut self, candidates: &CandidateBuckets) -> Option<(CuckooSlot, usize)> {
        self.reached.clear();
        let search = self.closed.begin();
        // Buckets of closed sets that the search has gone around.
        let mut met = Vec::new();
        for bucket in candidates.as_slice() {
            self.reach(*bucket as u32, None, search, &mut met);
        }
        let mut at = 0;
        while let Some(&GraphNode { bucket, .. }) = self.reached.get(at) {
            let bucket = u64::from(bucket);
            if let Some(place) = self.vacant_slots(bucket).next() {
                return Some((place, at));
            }
            for slot in 0..self.bucket_slots {
                for other in 0..self.alternatives {
                    let other = self.edge(CuckooSlot { bucket, slot })[other];
                    if other < UNKNOWN {
                        self.reach(other, Some((at as u32, slot as u32)), search, &mut met);
                    }
                }
            }
            at += 1;
        }
        if !self.reached.is_empty() {
            self.closed.close(search, &met);
        }
        if self.reached.capacity() > KEPT {
            self.reached = Vec::new();
        }
        None
    }

    fn reach(&mut self, bucket: u32, from: Option<(u32, u32)>, search: u32, met: &mut Vec<u32>) {
        if self.closed.is_closed(bucket) {
            met.push(bucket);
        } else if self.closed.visit(bucket, search) {
            self.reached.push(GraphNode { bucket, from });
        }
    }

    fn edge(&self, place: CuckooSlot) -> &[u32] {
        let first = self.first_of(place);
        &self.edges[first..first + self.alternatives]
    }

    fn edge_mut(&mut self, place: CuckooSlot) -> &mut [u32] {
        let first = self.first_of(place);
        &mut self.edges[first..first + self.alternatives]
    }

    const fn first_of(&self, CuckooSlot { bucket, slot }: CuckooSlot) -> usize {
        (bucket as usize * self.bucket_slots + slot) * self.alternatives
    }
}

fn others_of(candidates: &CandidateBuckets, bucket: u64) -> Others {
    let mut alternatives = [bucket as u32; MOST_WAYS - 1];
    let elsewhere = candidates
        .as_slice()
        .iter()
        .filter(|other| **other != bucket);
    let mut count = 0;
    for (other, elsewhere) in alternatives.iter_mut().zip(elsewhere) {
        *other = *elsewhere as u32;
        count += 1;
    }
    alternatives[..count].sort_unstable();
    alternatives
}

#[cfg(test)]
#[path = "graph_tests.rs"]
mod tests;
