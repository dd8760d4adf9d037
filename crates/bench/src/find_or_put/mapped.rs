//! The set of paper 002 in memory that all ranks have mapped, and what that mapping gives.

use super::ranks::{JobRanks, Ranks};
use super::subject::{Answers, Limited, Subject};
use crate::Result;
use farslot::fabric::shm::{self, MappedWords, Node, RegionSpec};
use farslot::fabric::{RegionId, Rights, prefetch};
use farslot_set::{Layout, Segments, WordSet};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Swaps whose words are asked for before the first of them: as many as find-or-puts have.
const AHEAD: usize = 16;
pub(super) const REGION: RegionId = RegionId(0);

/// A [`WordSet`] in the memory of all ranks.
pub struct MappedSet {
    /// The ranks' memory, by rank.
    nodes: Vec<Node>,
    words: Vec<MappedWords>,
    set: WordSet,
}

impl MappedSet {
    /// The set over memory that each process of a job lends, which all of them have mapped.
    ///
    /// # Errors
    /// Slots that no table can have; what shared memory or the job says.
    pub fn of_processes(ranks: &mut JobRanks<'_>, slots: u64) -> Result<Self> {
        static SETS: AtomicU32 = AtomicU32::new(0);
        let set = SETS.fetch_add(1, Ordering::Relaxed);
        let layout = Layout::new(
            ranks.ranks() as u64,
            slots.div_ceil(ranks.ranks() as u64),
            0,
        )?;
        let name = format!("find-or-put-{}-{set}", std::process::id());
        let node = Node::serve(&name, &[region(layout)])?;
        let rank = ranks.rank();
        let mut nodes = Vec::new();
        for (of, name) in ranks.gather_names(&name)?.iter().enumerate() {
            nodes.push(match of == rank {
                true => node.clone(),
                false => shm::attach(name, Rights::ALL)?,
            });
        }
        // Whoever is here has mapped all: names may go.
        ranks.meet()?;
        Self::over(layout, rank, nodes)
    }

    /// Memory for a set that the threads of this process share.
    ///
    /// # Errors
    /// Slots that no table can have, or more memory than there is.
    pub fn memory_of_threads(slots: u64) -> Result<Node> {
        Ok(Node::embedded(&[region(Layout::new(1, slots, 0)?)])?)
    }

    /// A thread's handle of the set in such memory.
    ///
    /// # Errors
    /// As [`MappedSet::memory_of_threads`].
    pub fn of_threads(memory: &Node, slots: u64) -> Result<Self> {
        Self::over(Layout::new(1, slots, 0)?, 0, vec![memory.clone()])
    }

    fn over(layout: Layout, rank: usize, nodes: Vec<Node>) -> Result<Self> {
        let map = || -> Result<Vec<MappedWords>> {
            let words = nodes.iter().map(|node| MappedWords::of(node, REGION));
            Ok(words.collect::<std::result::Result<_, _>>()?)
        };
        let set = WordSet::over(Segments::mapped(layout, rank, map()?)?);
        let words = map()?;
        Ok(Self { nodes, words, set })
    }

    /// Bytes of a page of the memory.
    #[must_use]
    pub fn page_bytes(&self) -> u64 {
        self.nodes[0].info().page_bytes
    }

    /// So many buckets of the whole table, at random.
    fn random_buckets(&self, count: usize, random: &mut ChaCha8Rng) -> Vec<&AtomicU64> {
        let layout = self.set.segments().layout();
        let each = layout.buckets_per_rank();
        // Behind a header, as the layout has it.
        let header = (layout.region_bytes() / 8 - each) as usize;
        let bucket = |_| {
            let bucket = random.random_range(0..layout.buckets());
            &self.words[(bucket / each) as usize][header + (bucket % each) as usize]
        };
        (0..count).map(bucket).collect()
    }
}

pub(super) fn region(layout: Layout) -> RegionSpec {
    RegionSpec {
        len: layout.region_bytes(),
        rights: Rights::ALL,
    }
}

impl Subject for MappedSet {
    fn name(&self) -> &str {
        "set"
    }

    fn renew(&mut self, rank: usize) -> Result<()> {
        // Zeros are an empty set. Ranks without memory of their own have none to clear.
        for word in self
            .words
            .get(rank)
            .into_iter()
            .flat_map(|words| words.iter())
        {
            word.store(0, Ordering::Relaxed);
        }
        Ok(())
    }

    fn find_or_put_all(&mut self, words: &[u64]) -> Result<Answers> {
        let mut answers = Answers::default();
        self.set
            .find_or_put_all(words, |_, put| answers.note(&put))?;
        Ok(answers)
    }
}

impl Limited for MappedSet {
    fn memory(&self) -> &'static str {
        "the mapping"
    }

    fn swaps<'s>(
        &'s self,
        count: usize,
        random: &mut ChaCha8Rng,
    ) -> Box<dyn FnOnce() -> Result<()> + 's> {
        let buckets = self.random_buckets(count, random);
        Box::new(move || {
            std::hint::black_box(swap_all(&buckets));
            Ok(())
        })
    }
}

/// Swaps nothing for nothing in each of these words, which changes none; returns how many were 0.
///
/// The loop has no calls and no generic code, so that it is the same in every build that optimizes.
fn swap_all(words: &[&AtomicU64]) -> u64 {
    let mut zeros = 0;
    for (at, word) in words.iter().enumerate() {
        if let Some(later) = words.get(at + AHEAD) {
            prefetch(*later);
        }
        let swapped = word.compare_exchange(0, 0, Ordering::AcqRel, Ordering::Acquire);
        zeros += u64::from(swapped.is_ok());
    }
    zeros
}
