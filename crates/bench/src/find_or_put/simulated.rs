//! The set of paper 002 over simulated machines, each of which has one process that owns a part of
//! the table: rates in virtual time.

use super::draw::{self, InsertSpan, Mix};
use super::measure::{RunSamples, counted, expect};
use super::network::{chunks, find_or_put_all, random_buckets, swap_all};
use super::options::Options;
use super::subject::Answers;
use crate::{BenchRow, Progress, Result};
use farslot::fabric::sim::{
    ClientId, NicProfile, NodeConfig, RunEnd, SimEndpoint, Simulation, World,
};
use farslot::fabric::{Limits, Nanos, RegionId, Rights};
use farslot::read_cost;
use farslot_set::Layout;
use farslot_set::shared::{Part, Reach, SharedWordSet};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::rc::Rc;

/// Measures the set over so many machines behind such NICs. Repetitions differ in what the
/// simulator draws.
///
/// # Errors
/// [`BenchError::BadOption`](crate::BenchError::BadOption);
/// [`BenchError::WrongAnswers`](crate::BenchError::WrongAnswers); what the set says.
pub fn measure_simulated(
    options: &Options,
    machines: u64,
    profile: &NicProfile,
    progress: Progress<'_>,
) -> Result<Vec<BenchRow>> {
    options.check()?;
    let mut samples = RunSamples::new(options, vec!["set".into()]);
    for repetition in 0..options.repetitions {
        for (of_mix, mix) in options.mixes.iter().enumerate() {
            let of = options.repetitions;
            progress(&format!("repetition {} of {of}, {mix}", repetition + 1));
            let seed = options.seed.wrapping_add(repetition as u64);
            let mut set = SimulatedSet::new(options.slots, machines, profile, seed)?;
            for (of_load, load) in options.loads.iter().enumerate() {
                let span = InsertSpan::up_to(*load, options.slots);
                let (rate, full) = set.measure(options.seed, *mix, span)?;
                samples.add(of_mix, of_load, 0, rate);
                samples.refused(of_mix, of_load, 0, full);
                let ranks = set.ranks.len() as u64;
                let swaps = mix.operations(span.inserts).div_ceil(ranks);
                samples.add(of_mix, of_load, 1, set.swap(swaps as usize)?);
            }
        }
    }
    let machines = counted(machines as usize, "machine");
    Ok(samples.rows(options, &machines, "the same memory"))
}

struct RankClient {
    client: ClientId,
    set: Rc<SharedWordSet<SimEndpoint>>,
    random: ChaCha8Rng,
}

/// A set over simulated machines, as it fills.
struct SimulatedSet {
    world: World,
    simulation: Simulation,
    ranks: Vec<RankClient>,
    /// Elements in it.
    present: u64,
}

impl SimulatedSet {
    fn new(slots: u64, machines: u64, profile: &NicProfile, seed: u64) -> Result<Self> {
        let layout = Layout::new(machines, slots.div_ceil(machines), 0)?;
        let world = World::new(seed, profile.clone());
        let region = [(layout.region_bytes(), Rights::ALL)];
        let nodes: Vec<_> = (0..machines)
            .map(|_| {
                let host = Some(world.add_host());
                world.add_node_with(&NodeConfig {
                    host,
                    ..NodeConfig::new(&region)
                })
            })
            .collect();
        let mut simulation = Simulation::new(world.clone());
        let mut ranks = Vec::new();
        for (rank, home) in nodes.iter().enumerate() {
            let client = simulation.add_client(world.host_of(*home), Limits::default());
            let parts = nodes.iter().map(|node| match node == home {
                true => Part::Simulated(world.node_handle(*node), RegionId(0)),
                false => Part::of_node(*node),
            });
            let endpoint = Rc::clone(simulation.endpoint(client));
            let reach = Reach::new(endpoint, layout, rank, parts.collect())?;
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            random.set_stream(rank as u64);
            ranks.push(RankClient {
                client,
                set: Rc::new(SharedWordSet::new(reach, chunks(read_cost(profile))?)),
                random,
            });
        }
        Ok(Self {
            world,
            simulation,
            ranks,
            present: 0,
        })
    }

    /// Has every rank do something at once; returns what came of it, and how long it took.
    fn together<T: 'static, F: Future<Output = Result<T>> + 'static>(
        &mut self,
        mut work: impl FnMut(usize, &mut RankClient) -> F,
    ) -> Result<(Vec<T>, Nanos)> {
        let start = self.world.now();
        let mut tasks = Vec::new();
        for (number, rank) in self.ranks.iter_mut().enumerate() {
            let work = work(number, rank);
            tasks.push(
                self.simulation
                    .spawn(rank.client, async move |_| work.await),
            );
        }
        match self.simulation.run() {
            RunEnd::Done => {}
            end => unreachable!("nothing can wait for ever, or for a time limit: {end:?}"),
        }
        let took = self.world.now() - start;
        let ended = tasks.into_iter().map(|task| {
            task.try_take()
                .unwrap_or_else(|| unreachable!("its run has ended"))
        });
        Ok((ended.collect::<Result<_>>()?, took))
    }

    /// Fills the set up to where the measurement begins, then does the find-or-puts of all ranks;
    /// returns how many a second there were, and how often the set had no bucket.
    fn measure(&mut self, seed: u64, mix: Mix, span: InsertSpan) -> Result<(f64, u64)> {
        let ranks = self.ranks.len() as u64;
        let before = self.present..span.first;
        let (filled, _) = self.together(|number, rank| {
            let share = draw::share(before.clone(), (number as u64, ranks));
            let words: Vec<u64> = share.map(|number| draw::element(seed, number)).collect();
            let new = words.len() as u64;
            asked(Rc::clone(&rank.set), words, new)
        })?;
        let (asked, took) = self.together(|number, rank| {
            let place = (number as u64, ranks);
            let (words, new) = span.draw(mix, seed, place, &mut rank.random);
            asked(Rc::clone(&rank.set), words, new)
        })?;
        self.present = span.first + span.inserts;
        let operations: u64 = asked.iter().map(|(words, _)| *words).sum();
        let all = filled.iter().chain(&asked);
        let full = all.map(|(_, answers)| answers.full).sum();
        Ok((rate(operations, took), full))
    }

    /// Swaps random buckets, so many a rank; returns how many a second there were.
    fn swap(&mut self, each: usize) -> Result<f64> {
        let (_, took) = self.together(|_, rank| {
            let buckets = random_buckets(rank.set.reach().layout(), each, &mut rank.random);
            let set = Rc::clone(&rank.set);
            async move { swap_all(set.reach(), &buckets).await }
        })?;
        Ok(rate((each * self.ranks.len()) as u64, took))
    }
}

/// How many find-or-puts there were, and what a set has said of them, if so many may be new.
async fn asked(
    set: Rc<SharedWordSet<SimEndpoint>>,
    words: Vec<u64>,
    new: u64,
) -> Result<(u64, Answers)> {
    let answers = find_or_put_all(&set, &words).await?;
    expect(answers, new)?;
    Ok((words.len() as u64, answers))
}

fn rate(operations: u64, took: Nanos) -> f64 {
    1e9 * operations as f64 / took.max(1) as f64
}
