//! One client's operations on a table, at several load factors: their latencies one after the other, how many a second
//! with several under way, and what its endpoint counts.

use super::cached::WithCache;
use super::published::FURTHER_VERB_US;
use super::schemes::{Design, Moved, Opened};
use super::zipf::YcsbZipf;
use crate::simulated::{TABLE_AT, Zipf};
use crate::{BenchError, Result};
use farslot::fabric::counters::Snapshot;
use farslot::fabric::shm::{Node, RegionSpec, ShmEndpoint};
use farslot::fabric::sim::{NicProfile, SimEndpoint, World};
use farslot::fabric::{Endpoint, Executor, Limits, Nanos, OperationCounters, Rights, window};
use farslot::index::hash::derive;
use farslot::index::{GET, Index, IndexExt, IndexError, PUT, REMOVE, UPDATE};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::rc::Rc;

/// A table, and what is done with it.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    /// Slots, at least.
    pub(crate) slots: u64,
    /// Slots of a bucket.
    pub(crate) bucket_slots: u32,
    /// Bits of a fingerprint, where there are any.
    pub(crate) fingerprint_bits: u32,
    /// Bytes of a key, and of a value.
    pub(crate) field_bytes: u32,
    /// Slots of the published table that it stands for: a stash for a part of the keys is by this part of the slots.
    pub(crate) stands_for: u64,
    /// Load factors, ascending, and what is done at each.
    pub(crate) stops: Vec<(f64, Vec<Task>)>,
    /// Operations of each task.
    pub(crate) operations: u32,
    /// Operations under way at once in a task; 1 for latencies.
    pub(crate) width: usize,
    /// Bytes of the client's memory that what the table keeps there and a cache of answers share; none for no cache.
    pub(crate) client_bytes: Option<u64>,
    pub(crate) seed: u64,
}

/// Where a table lies.
#[derive(Clone, Debug)]
pub(crate) enum Bed {
    /// In memory of this process: for what is counted.
    Memory,
    /// Behind a simulated NIC: for latencies.
    Simulated(NicProfile),
}

/// An operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    PutNew,
    PutOld,
    Get,
    GetAbsent,
    Update,
    /// Of the newest key. They are put again when the task is done.
    Remove,
}

/// Which of the keys that are there is asked for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Draw {
    /// Each as likely.
    Uniform,
    /// With Zipf's distribution, in no order of age: as YCSB draws them.
    Zipf(f64),
    /// With Zipf's distribution, the newest first.
    Latest(f64),
}

/// Operations of several kinds, mixed.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// The kinds, with the part that each is of all.
    pub(crate) parts: Vec<(Op, f64)>,
    pub(crate) draw: Draw,
}

impl Task {
    /// Operations of one kind, on any keys.
    pub(crate) fn only(op: Op) -> Self {
        Self {
            parts: vec![(op, 1.0)],
            draw: Draw::Uniform,
        }
    }
}

/// What a task's operations took, on average.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    /// Nanoseconds of the fabric's time.
    pub(crate) latency_ns: f64,
    /// Operations in a second of the fabric's time, with as many under way as the trial says.
    pub(crate) per_second: f64,
    /// Batches of verbs, one after the other.
    pub(crate) round_trips: f64,
    /// Verbs.
    pub(crate) accesses: f64,
    /// Bytes, in slots.
    pub(crate) items: f64,
    /// Records of the table that were written to another slot.
    pub(crate) moved: f64,
    /// Cells of MapEmbed that have got another number.
    pub(crate) cells: f64,
}

impl Spent {
    /// Microseconds of the fabric's time.
    pub(crate) fn us(&self) -> f64 {
        self.latency_ns / 1e3
    }

    /// The same where a batch's verbs beside the first take what they do on the paper's testbed.
    pub(crate) fn testbed_us(&self) -> f64 {
        self.us() + FURTHER_VERB_US * (self.accesses - self.round_trips).max(0.0)
    }
}

/// What came of a trial.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// At each stop that was reached, what each of its tasks took.
    pub(crate) stops: Vec<Vec<Spent>>,
    /// How full the table was at the last stop: where it refused a key, if it did.
    pub(crate) load: f64,
    /// Bits of local memory for each key that was there then.
    pub(crate) bits_per_key: f64,
}

impl Outcome {
    /// What a task of a stop took on average; nothing if the table was full before.
    pub(crate) fn spent(&self, stop: usize, task: usize) -> Option<Spent> {
        self.stops.get(stop)?.get(task).copied()
    }
}

/// Does a trial with tables of a design.
pub(crate) fn run<D: Design>(trial: &Trial, bed: &Bed) -> Result<Outcome> {
    match trial.client_bytes {
        None => run_on::<D>(trial, bed),
        Some(_) => run_on::<WithCache<D>>(trial, bed),
    }
}

fn run_on<D: Design>(trial: &Trial, bed: &Bed) -> Result<Outcome> {
    let bytes = u64::try_from(D::table_bytes(trial)?).unwrap_or(u64::MAX);
    match bed {
        Bed::Memory => Running::<_, D>::new(trial, memory_of(bytes)?)?.run(),
        Bed::Simulated(profile) => {
            let endpoint = simulated_memory(bytes, profile, trial.seed);
            Running::<_, D>::new(trial, endpoint)?.run()
        }
    }
}

/// An endpoint to so many bytes of this process's memory.
pub(crate) fn memory_of(bytes: u64) -> Result<Rc<ShmEndpoint>> {
    let region = RegionSpec {
        len: bytes,
        rights: Rights::ALL,
    };
    let node = Node::embedded(&[region])?;
    Ok(Rc::new(ShmEndpoint::new(vec![node], Limits::default())))
}

/// An endpoint to so many bytes behind a simulated NIC.
pub(crate) fn simulated_memory(bytes: u64, profile: &NicProfile, seed: u64) -> Rc<SimEndpoint> {
    let world = World::new(seed, profile.clone());
    world.add_node(&[(bytes, Rights::ALL)]);
    world.endpoint(Limits::default())
}

/// A trial under way.
struct Running<'t, E: Endpoint, D: Design> {
    trial: &'t Trial,
    executor: Executor<E>,
    opened: Opened<D::Table<E>>,
    random: ChaCha8Rng,
    /// Keys that are there are those with numbers below.
    keys: u64,
    /// Keys with numbers below are asked for: those that surely are there.
    known: u64,
    /// Numbers that were asked for in vain.
    absent: u64,
}

impl<'t, E: Endpoint, D: Design> Running<'t, E, D> {
    fn new(trial: &'t Trial, endpoint: Rc<E>) -> Result<Self> {
        Ok(Self {
            opened: D::create(Rc::clone(&endpoint), TABLE_AT, trial)?,
            executor: Executor::new(endpoint),
            random: ChaCha8Rng::seed_from_u64(trial.seed),
            trial,
            keys: 0,
            known: 0,
            absent: 0,
        })
    }

    fn run(mut self) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        let trial = self.trial;
        for (load, tasks) in &trial.stops {
            let filled = self.fill(*load)?;
            outcome.load = self.load();
            let bits = 8.0 * D::local_bytes(&self.opened.table) as f64;
            outcome.bits_per_key = bits / self.keys.max(1) as f64;
            if !filled {
                break;
            }
            let spent: Result<Option<Vec<Spent>>> =
                tasks.iter().map(|task| self.task(task)).collect();
            match spent? {
                Some(spent) => outcome.stops.push(spent),
                None => break,
            }
        }
        Ok(outcome)
    }

    fn load(&self) -> f64 {
        self.keys as f64 / self.opened.slots as f64
    }

    /// Puts keys until the table is that full; false if it refused one.
    fn fill(&mut self, load: f64) -> Result<bool> {
        while self.load() < load {
            let put = self.next(Op::PutNew, 0);
            if !self.executor.block_on(self.serve(put))? {
                self.keys -= 1;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Does a task; nothing if the table refused a key.
    fn task(&mut self, task: &Task) -> Result<Option<Spent>> {
        let keys = u32::try_from(self.keys).unwrap_or(u32::MAX);
        let draw = match task.draw {
            Draw::Uniform => Drawing::Uniform,
            Draw::Zipf(skew) => Drawing::Ycsb(YcsbZipf::new(skew), self.keys.max(1)),
            Draw::Latest(skew) => Drawing::Latest(Zipf::new(keys, skew)),
        };
        D::forget_answers(&self.opened.table);
        let before = (self.counters(), D::moved(&self.opened.table));
        let Some((latency, took)) = (match self.trial.width {
            1 => self.one_by_one(&task.parts, &draw)?,
            width => self.side_by_side(width, &task.parts, &draw)?,
        }) else {
            return Ok(None);
        };
        let spent = self.spent(latency, took, &before);
        // What was removed comes back.
        while self.keys < u64::from(keys) {
            let put = self.next(Op::PutNew, 0);
            if !self.executor.block_on(self.serve(put))? {
                return Ok(None);
            }
        }
        Ok(Some(spent))
    }

    /// Does the operations of a task one after the other; returns their latencies' sum, twice. Nothing if the table refused
    /// a key.
    fn one_by_one(
        &mut self,
        parts: &[(Op, f64)],
        draw: &Drawing,
    ) -> Result<Option<(Nanos, Nanos)>> {
        let mut latency = 0;
        for _ in 0..self.trial.operations {
            self.known = self.keys;
            let asked = self.draw_operation(parts, draw);
            let begun = self.now();
            if !self.executor.block_on(self.serve(asked))? {
                return Ok(None);
            }
            latency += self.now() - begun;
        }
        Ok(Some((latency, latency)))
    }

    /// Does them with several under way; returns the sum of their latencies, and what they took together.
    fn side_by_side(
        &mut self,
        width: usize,
        parts: &[(Op, f64)],
        draw: &Drawing,
    ) -> Result<Option<(Nanos, Nanos)>> {
        self.known = self.keys;
        let operations = 0..self.trial.operations;
        let asked: Vec<Asked> = operations
            .map(|_| self.draw_operation(parts, draw))
            .collect();
        let (this, mut outcome, mut latency) = (&*self, Ok(true), 0);
        let serve = |asked| async move {
            let begun = this.now();
            (this.serve(asked).await, this.now() - begun)
        };
        let done = |_, (served, took): (Result<bool>, Nanos)| {
            latency += took;
            // The first error stands.
            if matches!(outcome, Ok(true)) {
                outcome = served;
            }
        };
        let begun = this.now();
        let all = window(width, asked.into_iter().map(serve), done);
        this.executor.block_on(all);
        let took = this.now() - begun;
        Ok(outcome?.then_some((latency, took)))
    }

    fn now(&self) -> Nanos {
        self.executor.endpoint().now()
    }

    fn counters(&self) -> Snapshot {
        self.executor.endpoint().core().counters.snapshot()
    }

    fn spent(&self, latency: Nanos, took: Nanos, before: &(Snapshot, Moved)) -> Spent {
        let (operations, counted) = (
            f64::from(self.trial.operations),
            self.counters().since(&before.0),
        );
        let moved = D::moved(&self.opened.table);
        let classes = [GET, PUT, UPDATE, REMOVE].map(|class| counted.operation(class));
        let sum = |of: fn(&OperationCounters) -> u64| {
            classes.iter().map(of).sum::<u64>() as f64 / operations
        };
        Spent {
            latency_ns: latency as f64 / operations,
            per_second: operations / (took.max(1) as f64 / 1e9),
            round_trips: sum(|class| class.round_trips),
            accesses: sum(|class| class.verbs),
            items: sum(|class| class.bytes) / self.opened.slot_bytes as f64,
            moved: (moved.records - before.1.records) as f64 / operations,
            cells: (moved.cells - before.1.cells) as f64 / operations,
        }
    }

    fn draw_operation(&mut self, parts: &[(Op, f64)], draw: &Drawing) -> Asked {
        let op = self.choose(parts);
        let key = self.draw(draw);
        self.next(op, key)
    }

    fn choose(&mut self, parts: &[(Op, f64)]) -> Op {
        let mut at: f64 = self.random.random_range(0.0..1.0);
        for (op, part) in parts {
            if at < *part {
                return *op;
            }
            at -= part;
        }
        parts[parts.len() - 1].0
    }

    /// The number of a key that is there.
    fn draw(&mut self, draw: &Drawing) -> u64 {
        let (known, random) = (self.known.max(1), &mut self.random);
        match draw {
            Drawing::Latest(zipf) => known - 1 - u64::from(zipf.draw(random)) % known,
            // Whoever is asked for often is of any age, and stays so while others come.
            Drawing::Ycsb(zipf, keys) => derive(zipf.draw(random), self.trial.seed) % keys,
            Drawing::Uniform => random.random_range(0..known),
        }
    }

    /// The next operation, as if those before it were done: which key it asks for.
    fn next(&mut self, op: Op, key: u64) -> Asked {
        let number = match op {
            Op::PutNew => {
                self.keys += 1;
                self.keys - 1
            }
            Op::Remove => {
                self.keys -= 1;
                self.keys
            }
            Op::GetAbsent => {
                self.absent += 1;
                u64::MAX / 2 - self.absent
            }
            Op::PutOld | Op::Get | Op::Update => key,
        };
        Asked { op, number }
    }

    /// Does one operation; false if the table is full.
    async fn serve(&self, Asked { op, number }: Asked) -> Result<bool> {
        let (key, value) = (self.bytes(number), self.bytes(!number));
        let table = &self.opened.table;
        let is_right = match op {
            Op::PutNew => match table.put(&key, &value).await {
                Err(IndexError::Full { .. }) => return Ok(false),
                put => put?,
            },
            Op::PutOld => !table.put(&key, &value).await?,
            Op::Get => table.get(&key).await?.as_deref() == Some(&value[..]),
            Op::GetAbsent => table.get(&key).await?.is_none(),
            Op::Update => table.update(&key, &value).await?,
            Op::Remove => table.remove(&key).await?,
        };
        if is_right {
            return Ok(true);
        }
        Err(BenchError::WrongAnswers {
            wrong: 1,
            operations: self.keys + self.absent,
        })
    }

    /// The bytes of a key or a value.
    fn bytes(&self, number: u64) -> Vec<u8> {
        record_bytes(number, self.trial.field_bytes, self.trial.seed)
    }
}

/// An operation, and the number of its key.
#[derive(Clone, Copy)]
struct Asked {
    op: Op,
    number: u64,
}

/// How keys are drawn.
enum Drawing {
    Uniform,
    /// Of the keys with numbers below.
    Ycsb(YcsbZipf, u64),
    Latest(Zipf),
}

/// So many bytes of a key or a value that has this number.
pub(crate) fn record_bytes(number: u64, bytes: u32, seed: u64) -> Vec<u8> {
    let word = derive(number, seed).to_le_bytes();
    word.iter().copied().cycle().take(bytes as usize).collect()
}
