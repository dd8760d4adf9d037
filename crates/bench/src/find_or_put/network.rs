//! The set of paper 002 in memory that processes lend each other over TCP: each owns a part of the
//! table, and reaches the others' by READs and compare-and-swap.

use super::mapped::{REGION, region};
use super::ranks::{JobRanks, Ranks};
use super::subject::{Answers, Limited, Subject};
use crate::{BenchError, Result};
use farslot::fabric::shm::{MappedWords, Node};
use farslot::fabric::tcp::{Agent, AgentOptions, ConnectOptions, TcpEndpoint};
use farslot::fabric::{Executor, NodeId, window};
use farslot::model::{NicModel, Objective};
use farslot_set::Layout;
use farslot_set::shared::{ChunkSizes, Part, Reach, SharedWordSet};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// Find-or-puts, or swaps, of a rank that are under way at once.
pub(super) const UNDER_WAY: usize = 64;
/// Of find-or-puts, how many find their element, as the chunks' sizes are chosen for.
const HITS: f64 = 0.5;

/// How many buckets a READ fetches over a network that costs so much.
pub(super) fn chunks(nic: NicModel) -> Result<ChunkSizes> {
    Ok(ChunkSizes::chosen(nic, Objective::Throughput, HITS)?)
}

/// A [`SharedWordSet`] over the memory of all processes of a job.
pub struct NetworkSet {
    /// Serves this process's part.
    _agent: Agent,
    lent: MappedWords,
    executor: Executor<TcpEndpoint>,
    set: SharedWordSet<TcpEndpoint>,
}

impl NetworkSet {
    /// The set over memory that each process of a job serves at a port of this host that is free.
    ///
    /// # Errors
    /// Slots that no table can have; what TCP or the job says.
    pub fn of_processes(ranks: &mut JobRanks<'_>, slots: u64) -> Result<Self> {
        let count = ranks.ranks() as u64;
        let layout = Layout::new(count, slots.div_ceil(count), 0)?;
        let node = Node::embedded(&[region(layout)])?;
        let agent = Agent::start(node.clone(), &AgentOptions::default())?;
        let addresses = ranks.gather_names(&agent.address().to_string())?;
        let endpoint = TcpEndpoint::connect(&addresses, &ConnectOptions::default())?;
        let endpoint = Rc::new(endpoint);
        let mapped = || Ok::<_, BenchError>(MappedWords::of(&node, REGION)?);
        let mut parts = Vec::new();
        for rank in 0..ranks.ranks() {
            parts.push(match rank == ranks.rank() {
                true => Part::Mapped(mapped()?),
                false => Part::of_node(NodeId(rank as u16)),
            });
        }
        let reach = Reach::new(Rc::clone(&endpoint), layout, ranks.rank(), parts)?;
        let set = SharedWordSet::new(reach, chunks(NicModel::tcp_loopback())?);
        // No part is used before all are reached.
        ranks.meet()?;
        Ok(Self {
            _agent: agent,
            lent: mapped()?,
            executor: Executor::new(endpoint),
            set,
        })
    }
}

impl Subject for NetworkSet {
    fn name(&self) -> &str {
        "set"
    }

    fn renew(&mut self, _rank: usize) -> Result<()> {
        for word in self.lent.iter() {
            word.store(0, Ordering::Relaxed);
        }
        // What it has learnt of the load is of the set before.
        self.set.chunks().forget();
        Ok(())
    }

    fn find_or_put_all(&mut self, words: &[u64]) -> Result<Answers> {
        self.executor.block_on(find_or_put_all(&self.set, words))
    }
}

/// What a set says of many words, so many of them under way at once.
pub(super) async fn find_or_put_all<E: farslot::fabric::Endpoint>(
    set: &SharedWordSet<E>,
    words: &[u64],
) -> Result<Answers> {
    let (mut answers, mut failed) = (Answers::default(), Ok(()));
    let done = |_, put| match put {
        Ok(put) => answers.note(&put),
        Err(error) => failed = Err(error),
    };
    set.find_or_put_all(words, UNDER_WAY, done).await;
    failed?;
    Ok(answers)
}

/// So many buckets of a table, at random.
pub(super) fn random_buckets(layout: Layout, count: usize, random: &mut ChaCha8Rng) -> Vec<u64> {
    let bucket = |_| random.random_range(0..layout.buckets());
    (0..count).map(bucket).collect()
}

/// Swaps nothing for nothing in each of these buckets, so many at once.
pub(super) async fn swap_all<E: farslot::fabric::Endpoint>(
    reach: &Reach<E>,
    buckets: &[u64],
) -> Result<()> {
    let mut failed = Ok(());
    let swaps = buckets.iter().map(|bucket| reach.touch(*bucket));
    window(UNDER_WAY, swaps, |_, swapped| {
        if let Err(error) = swapped {
            failed = Err(error);
        }
    })
    .await;
    Ok(failed?)
}

impl Limited for NetworkSet {
    fn memory(&self) -> &'static str {
        "the same memory"
    }

    fn swaps<'s>(
        &'s self,
        count: usize,
        random: &mut ChaCha8Rng,
    ) -> Box<dyn FnOnce() -> Result<()> + 's> {
        let buckets = random_buckets(self.set.reach().layout(), count, random);
        Box::new(move || {
            let swapping = swap_all(self.set.reach(), &buckets);
            self.executor.block_on(swapping)
        })
    }
}
