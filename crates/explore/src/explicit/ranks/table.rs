//! Paper 002's table over the memory of all ranks, in place of a set at each.
//!
//! A rank finds or inserts the successors of its states itself, wherever their buckets are. What it
//! has inserted is its part of the next level: every state is inserted once, so it is in one rank's
//! level, as where states travel to their owners.
//!
//! **Growth.** A level is expanded in *rounds*. At the end of a round the ranks tell each other how
//! many states there are, and in the next none inserts more than its share of the room that is
//! left. Where that is little, all of them move their part of the table into one four times as
//! large. Each size is in a region of its own, whose memory is taken when it is touched.

use crate::error::{ExploreError, RankError};
use farslot_fabric::shm::{MappedWords, Node};
use farslot_fabric::sim::SimNode;
use farslot_fabric::{AnyEndpoint, ByteCount, NodeId, RegionId, RemoteAddr};
use farslot_model::{NicModel, Objective};
use farslot_set::shared::{ChunkSizes, Part, Reach, SharedWordSet};
use farslot_set::{Layout, MAX_WORD, Outcome, SetError};
use std::fmt;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// Bits of the longest state that has a bucket of its own.
const STATE_BITS: usize = (u64::BITS - MAX_WORD.leading_zeros()) as usize;
/// Buckets of a rank in the smallest table.
const FEW: u64 = 1 << 10;
/// Each size has so many times the buckets of the one before, as a power of two.
const GROWTH_BITS: u32 = 2;
/// The most sizes: a node has no more regions.
const MOST_SIZES: u32 = 12;
/// How full a table becomes before the ranks move to the next one, and how full the largest, in
/// hundredths.
const CROWDED: u64 = 80;
const FULL: u64 = 95;
/// Find-or-puts of a rank that are under way at once.
const UNDER_WAY: usize = 64;
/// Of find-or-puts, how many find their state, as the sizes of READs are chosen for.
const HITS: f64 = 0.7;

/// The sizes of the table: the same on every rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableShape {
    ranks: u64,
    sizes: u32,
    /// Bytes that a rank may take.
    memory: u64,
}

impl TableShape {
    /// As large as fits into `memory` bytes of each rank.
    #[must_use]
    pub fn within(ranks: u32, memory: u64) -> Self {
        let sizes = (1..=MOST_SIZES).take_while(|sizes| bytes_of(*sizes) <= memory);
        Self {
            ranks: ranks.into(),
            sizes: sizes.last().unwrap_or(1),
            memory,
        }
    }

    /// What all ranks must have alike of it.
    pub(super) fn term(self) -> String {
        format!(
            "shared, of {} at most",
            ByteCount(bytes_of(self.sizes) as usize)
        )
    }

    fn layout(self, size: u32) -> Result<Layout, SetError> {
        Layout::new(self.ranks, buckets(size), 0)
    }

    /// Bytes of the regions of each rank behind that of the rings.
    ///
    /// # Errors
    /// [`SetError::OutOfRange`] for a number of ranks that no table can have.
    pub(super) fn regions(self) -> Result<Vec<u64>, SetError> {
        let sizes = 0..self.sizes;
        sizes
            .map(|size| Ok(self.layout(size)?.region_bytes()))
            .collect()
    }
}

/// Buckets of a rank.
const fn buckets(size: u32) -> u64 {
    FEW << (GROWTH_BITS * size)
}

/// Bytes of a rank's part of the smallest sizes, so many together.
fn bytes_of(sizes: u32) -> u64 {
    (0..sizes).map(|size| buckets(size) * 8).sum()
}

const fn region(size: u32) -> RegionId {
    RegionId(1 + size as u16)
}

/// How a rank's part of the table is reached.
pub enum PartMemory {
    /// It is mapped in this process.
    Mapped(Node),
    /// It is this rank's own, in the simulator.
    Simulated(SimNode),
    /// By verbs.
    Remote,
}

impl PartMemory {
    fn part(&self, rank: usize, size: u32) -> Result<Part, SetError> {
        Ok(match self {
            Self::Mapped(node) => Part::Mapped(MappedWords::of(node, region(size))?),
            Self::Simulated(node) => Part::Simulated(node.clone(), region(size)),
            Self::Remote => Part::Remote(RemoteAddr {
                node: NodeId(rank as u16),
                region: region(size),
                offset: 0,
            }),
        })
    }

    /// Makes a table of zeros of what an earlier exploration has left.
    fn clear(&self, size: u32) -> Result<(), SetError> {
        match self {
            Self::Mapped(node) => {
                for word in MappedWords::of(node, region(size))?.iter() {
                    if word.load(Ordering::Relaxed) != 0 {
                        word.store(0, Ordering::Relaxed);
                    }
                }
            }
            Self::Simulated(node) => {
                let words = node.with_region(region(size), |words| words.len() as u64);
                (0..words).for_each(|word| node.poke(region(size), word * 8, 0));
            }
            Self::Remote => {}
        }
        Ok(())
    }
}

/// The memory of the table, by rank.
pub struct SharedTableMemory {
    shape: TableShape,
    parts: Vec<PartMemory>,
    /// Sizes that an exploration has used.
    used: u32,
}

impl fmt::Debug for SharedTableMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedTableMemory({:?})", self.shape)
    }
}

impl SharedTableMemory {
    /// The memory of all ranks, in their order.
    #[must_use]
    pub fn new(shape: TableShape, parts: Vec<PartMemory>) -> Self {
        Self {
            shape,
            parts,
            used: 0,
        }
    }
}

/// The table as one rank has it.
pub(super) struct Table {
    endpoint: Rc<AnyEndpoint>,
    rank: usize,
    memory: SharedTableMemory,
    size: u32,
    set: SharedWordSet<AnyEndpoint>,
    chunks: ChunkSizes,
    /// States that the rank may still insert in this round.
    room: u64,
    /// States that had no bucket within reach.
    refused: Vec<u64>,
}

/// What the ranks do before the next round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RoundPreparation {
    Nothing,
    Growth,
}

impl Table {
    /// An empty table for states of so many bits. All ranks come to a barrier before any uses it.
    pub(super) fn new(
        endpoint: Rc<AnyEndpoint>,
        rank: usize,
        mut memory: SharedTableMemory,
        bits: usize,
    ) -> Result<Self, ExploreError> {
        if bits > STATE_BITS {
            let limit = STATE_BITS;
            return Err(RankError::NoBucket { bits, limit }.into());
        }
        for size in 0..memory.used {
            memory.parts[rank].clear(size)?;
        }
        memory.used = memory.used.max(1);
        let nic = match *endpoint {
            AnyEndpoint::Shm(_) => NicModel::shared_memory(),
            AnyEndpoint::Tcp(_) => NicModel::tcp_loopback(),
            _ => NicModel::connectx5_edr(),
        };
        let chunks = ChunkSizes::chosen(nic, Objective::Throughput, HITS)?;
        let set = set_of(&endpoint, rank, &memory, 0, &chunks)?;
        let mut table = Self {
            endpoint,
            rank,
            memory,
            size: 0,
            set,
            chunks,
            room: 0,
            refused: Vec::new(),
        };
        table.room = table.room_beside(0);
        Ok(table)
    }

    /// Its memory, for the next exploration.
    pub(super) fn into_memory(self) -> SharedTableMemory {
        self.memory
    }

    /// Bytes of this rank's part, those of earlier sizes among them.
    pub(super) fn bytes(&self) -> u64 {
        bytes_of(self.size + 1)
    }

    fn is_largest(&self) -> bool {
        self.size + 1 == self.memory.shape.sizes
    }

    /// What a rank may insert where there are so many states.
    fn room_beside(&self, states: u64) -> u64 {
        let full = if self.is_largest() { FULL } else { CROWDED };
        let all = self.set.reach().layout().buckets() / 100 * full;
        all.saturating_sub(states) / self.memory.shape.ranks
    }

    /// Whether the rank has come to the end of its room.
    pub(super) const fn is_crowded(&self) -> bool {
        self.room == 0
    }

    /// Whether the rank has states without a bucket.
    pub(super) const fn has_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Finds or inserts states; those that are new are told. It goes on until all have their
    /// outcome, also where the room ends.
    pub(super) async fn put(
        &mut self,
        states: &[u64],
        mut is_new: impl FnMut(u64),
    ) -> Result<(), ExploreError> {
        let (room, refused, mut failed) = (&mut self.room, &mut self.refused, Ok(()));
        let done = |at: usize, put: Result<Outcome, SetError>| match put {
            Ok(Outcome::Inserted(_)) => {
                *room = room.saturating_sub(1);
                is_new(states[at]);
            }
            Ok(Outcome::Found(_)) => {}
            Ok(Outcome::Full) => refused.push(states[at]),
            Err(error) => failed = Err(error),
        };
        self.set.find_or_put_all(states, UNDER_WAY, done).await;
        Ok(failed?)
    }

    /// Puts the states again that had no bucket.
    pub(super) async fn put_refused(
        &mut self,
        is_new: impl FnMut(u64),
    ) -> Result<(), ExploreError> {
        let refused = std::mem::take(&mut self.refused);
        self.put(&refused, is_new).await
    }

    /// Begins a round where all ranks have found so many states, and some of them have come to the
    /// end of their room, or have states without a bucket. All ranks are told the same, and so come
    /// to the same.
    pub(super) fn next_round(
        &mut self,
        states: u64,
        is_crowded: bool,
        has_refused: bool,
    ) -> Result<RoundPreparation, ExploreError> {
        self.room = self.room_beside(states);
        let buckets = self.set.reach().layout().buckets_per_rank();
        let outlook = RoundOutlook {
            room: self.room,
            least: if self.is_largest() { 1 } else { buckets / 16 },
            is_crowded,
            has_refused,
        };
        match (outlook.can_go_on(), self.is_largest()) {
            (true, _) => Ok(RoundPreparation::Nothing),
            (false, false) => Ok(RoundPreparation::Growth),
            (false, true) => Err(ExploreError::OutOfMemory {
                needed: bytes_of(self.size + 2),
                limit: self.memory.shape.memory,
                states,
            }),
        }
    }

    /// Moves this rank's part into the next size. No rank puts anything meanwhile; all come to a
    /// barrier before and after.
    pub(super) async fn grow(&mut self, states: u64) -> Result<(), ExploreError> {
        let size = self.size + 1;
        let larger = set_of(&self.endpoint, self.rank, &self.memory, size, &self.chunks)?;
        let moved = self.set.move_own_to(&larger, UNDER_WAY, |_| true);
        moved.await?;
        (self.set, self.size) = (larger, size);
        self.memory.used = self.memory.used.max(size + 1);
        self.room = self.room_beside(states);
        Ok(())
    }
}

/// What is known of a table behind a round.
struct RoundOutlook {
    /// What a rank may insert in the next round, and the least that is worth one.
    room: u64,
    least: u64,
    is_crowded: bool,
    has_refused: bool,
}

impl RoundOutlook {
    /// Whether there can be another round in the same table. A state that has no bucket there has
    /// none in the next round either.
    const fn can_go_on(&self) -> bool {
        !self.has_refused && (!self.is_crowded || self.room >= self.least)
    }
}

fn set_of(
    endpoint: &Rc<AnyEndpoint>,
    rank: usize,
    memory: &SharedTableMemory,
    size: u32,
    chunks: &ChunkSizes,
) -> Result<SharedWordSet<AnyEndpoint>, ExploreError> {
    let parts = memory.parts.iter().enumerate();
    let parts = parts.map(|(rank, part)| part.part(rank, size));
    let layout = memory.shape.layout(size)?;
    let parts = parts.collect::<Result<_, _>>()?;
    let reach = Reach::new(Rc::clone(endpoint), layout, rank, parts)?;
    Ok(SharedWordSet::new(reach, chunks.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_without_a_bucket_ends_the_rounds_in_a_table() {
        let behind = |room, is_crowded, has_refused| RoundOutlook {
            room,
            least: 4,
            is_crowded,
            has_refused,
        };
        assert!(behind(9, false, false).can_go_on());
        assert!(behind(0, false, false).can_go_on(), "nobody wants more");
        assert!(behind(4, true, false).can_go_on());
        assert!(!behind(3, true, false).can_go_on());
        // However much room there is: it would be refused again, for ever.
        assert!(!behind(9, false, true).can_go_on());
        assert!(!behind(9, true, true).can_go_on());
    }
}
