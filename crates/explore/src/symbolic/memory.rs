//! The memory of a symbolic exploration: what each rank lends, and a worker's way to all of it.

use super::cache::{Cache, ENTRY};
use super::crew::{self, Crew};
use super::explored::SymbolicOptions;
use super::nodes::{DiagramLimits, DiagramNodes, FEW, FEW_ENTRIES, PART_OF_CACHE};
use crate::error::{ExploreError, RankError};
use crate::mapped;
use crate::terms::Terms;
use farslot_fabric::shm::{MappedWords, Node, RegionSpec, available_memory};
use farslot_fabric::{RegionId, Rights};
use farslot_set::job::Job;
use farslot_set::{PairSet, Segments};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Regions of a rank: what its workers tell the others, nodes, operation cache.
const CREW: u16 = 0;
const NODES: u16 = 1;
const CACHE: u16 = 2;

/// The memory of all ranks, mapped in this process. It is reserved, and taken when it is used.
#[derive(Debug)]
pub struct SharedMemory {
    rank: usize,
    threads: usize,
    memory: u64,
    crew: Arc<[MappedWords]>,
    nodes: Segments,
    cache: Arc<[MappedWords]>,
}

/// How much of it each rank has.
#[derive(Debug, Clone, Copy)]
struct RankMemoryShape {
    ranks: u64,
    threads: usize,
    /// Bytes of all ranks.
    memory: u64,
}

impl RankMemoryShape {
    fn entries(self) -> u64 {
        let fitting = self.memory / self.ranks / PART_OF_CACHE / ENTRY;
        1 << fitting.max(FEW_ENTRIES).ilog2()
    }

    fn pairs(self) -> u64 {
        let left = (self.memory / self.ranks).saturating_sub(self.entries() * ENTRY);
        PairSet::most_pairs(self.ranks, left).max(FEW)
    }

    fn regions(self) -> Result<[RegionSpec; 3], ExploreError> {
        let nodes = PairSet::layout(self.ranks, self.pairs())?.region_bytes();
        let cache = self.entries() * ENTRY;
        Ok(
            [crew::region_bytes(self.threads), nodes, cache].map(|len| RegionSpec {
                len,
                rights: Rights::ALL,
            }),
        )
    }
}

/// Lends this rank's memory to the others of a job on the same machine, and gets theirs: all ranks
/// call this with as many threads, for an exploration of the same `terms`. They have the least
/// memory that any of them allows for all.
///
/// # Errors
/// [`ExploreError::Rank`], also where a rank has other terms or threads; [`ExploreError::Set`] for
/// more memory than the machine has.
pub fn share_memory(
    job: &mut Job,
    options: &SymbolicOptions,
    terms: Terms,
) -> Result<SharedMemory, ExploreError> {
    let (rank, ranks) = (job.rank() as usize, u64::from(job.ranks()));
    let threads = threads(options.threads);
    let terms = terms
        .and("way", "symbolic")
        .and("threads", threads.to_string());
    terms.agree(job)?;
    let offers = job.all_gather(bytemuck::bytes_of(&most_memory(options)));
    let mut shape = RankMemoryShape {
        ranks,
        threads,
        memory: u64::MAX,
    };
    for (rank, offer) in offers.map_err(RankError::Job)?.iter().enumerate() {
        let offer = bytemuck::try_pod_read_unaligned::<u64>(offer);
        let offer = offer.map_err(|_| RankError::malformed(rank, "an offer of another length"))?;
        shape.memory = shape.memory.min(offer);
    }
    let nodes = mapped::meet(job, &shape.regions()?)?;
    let memory = SharedMemory::over(&nodes, rank, shape)?;
    job.barrier().map_err(RankError::Job)?;
    Ok(memory)
}

fn threads(threads: NonZeroUsize) -> usize {
    threads.get().min(crew::MAX_THREADS)
}

/// What may be reserved, beside what others take meanwhile.
fn most_memory(options: &SymbolicOptions) -> u64 {
    options.memory.min(available_memory() / 16 * 15)
}

impl SharedMemory {
    /// The memory of one process alone.
    ///
    /// # Errors
    /// [`ExploreError::Set`] for more than the machine has.
    pub fn alone(options: &SymbolicOptions) -> Result<Self, ExploreError> {
        let shape = RankMemoryShape {
            ranks: 1,
            threads: threads(options.threads),
            memory: most_memory(options),
        };
        let node = Node::embedded(&shape.regions()?).map_err(farslot_set::SetError::from)?;
        Self::over(&[node], 0, shape)
    }

    fn over(nodes: &[Node], rank: usize, shape: RankMemoryShape) -> Result<Self, ExploreError> {
        let parts = |region: u16| -> Result<Vec<MappedWords>, ExploreError> {
            let words = nodes.iter().zip(0..).map(|(node, rank)| {
                let words = MappedWords::of(node, RegionId(region));
                Ok(words.map_err(|error| RankError::Fabric { rank, error })?)
            });
            words.collect()
        };
        let layout = PairSet::layout(shape.ranks, shape.pairs())?;
        Ok(Self {
            rank,
            threads: shape.threads,
            memory: shape.memory,
            crew: parts(CREW)?.into(),
            nodes: Segments::mapped(layout, rank, parts(NODES)?)?,
            cache: parts(CACHE)?.into(),
        })
    }

    /// This process's rank.
    pub(super) fn rank(&self) -> usize {
        self.rank
    }

    /// Threads of each process.
    pub(super) fn threads(&self) -> usize {
        self.threads
    }

    /// Bytes for nodes and cache of all ranks.
    pub(super) fn bytes(&self) -> u64 {
        self.memory
    }

    /// What a worker of this process knows of the others.
    pub(super) fn crew(&self, thread: usize) -> Result<Crew, ExploreError> {
        Crew::new(Arc::clone(&self.crew), self.rank, thread, self.threads)
    }

    /// A worker's way to all nodes.
    pub(super) fn nodes(
        &self,
        thread: usize,
        limits: DiagramLimits,
    ) -> Result<DiagramNodes, ExploreError> {
        let crew = self.crew(thread)?;
        let room = FEW.min(PairSet::over(self.nodes.clone(), 64)?.most_room());
        let table = PairSet::over(self.nodes.clone(), room)?;
        let cache = Cache::new(Arc::clone(&self.cache), FEW_ENTRIES, crew.is_alone());
        Ok(DiagramNodes::new(table, cache, crew, limits))
    }
}
