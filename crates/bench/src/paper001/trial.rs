//! One client's operations on a table, one after the other, at several load factors: their latencies, and what its
//! endpoint counts.

use super::schemes::{Design, Opened};
use crate::simulated::{TABLE_AT, Zipf};
use crate::{BenchError, Result};
use farslot::fabric::counters::Snapshot;
use farslot::fabric::shm::{Node, RegionSpec, ShmEndpoint};
use farslot::fabric::sim::{NicProfile, World};
use farslot::fabric::{Endpoint, Executor, Limits, OperationCounters, Rights};
use farslot::index::hash::derive;
use farslot::index::{GET, Index, IndexError, PUT, REMOVE, UPDATE};
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
    /// Load factors, ascending, and what is done at each.
    pub(crate) stops: Vec<(f64, Vec<Task>)>,
    /// Operations of each task.
    pub(crate) operations: u32,
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
    /// With Zipf's distribution, in no order of age.
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
    /// Batches of verbs, one after the other.
    pub(crate) round_trips: f64,
    /// Verbs.
    pub(crate) accesses: f64,
    /// Bytes, in slots.
    pub(crate) items: f64,
}

/// What came of a trial.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// At each stop that was reached, what each of its tasks took.
    pub(crate) stops: Vec<Vec<Spent>>,
    /// How full the table was at the end: where it refused a key, if it did.
    pub(crate) load: f64,
    /// Bits of local memory for each key that is there.
    pub(crate) bits_per_key: f64,
}

/// Does a trial with tables of a design.
pub(crate) fn run<D: Design>(trial: &Trial, bed: &Bed) -> Result<Outcome> {
    let bytes = u64::try_from(D::table_bytes(trial)?).unwrap_or(u64::MAX);
    match bed {
        Bed::Memory => {
            let region = RegionSpec {
                len: bytes,
                rights: Rights::ALL,
            };
            let node = Node::embedded(&[region])?;
            let endpoint = Rc::new(ShmEndpoint::new(vec![node], Limits::default()));
            Running::<_, D>::new(trial, endpoint)?.run()
        }
        Bed::Simulated(profile) => {
            let world = World::new(trial.seed, profile.clone());
            world.add_node(&[(bytes, Rights::ALL)]);
            Running::<_, D>::new(trial, world.endpoint(Limits::default()))?.run()
        }
    }
}

/// A trial under way.
struct Running<'t, E: Endpoint, D: Design> {
    trial: &'t Trial,
    executor: Executor<E>,
    opened: Opened<D::Table<E>>,
    random: ChaCha8Rng,
    /// Keys that are there are those with numbers below.
    keys: u64,
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
            absent: 0,
        })
    }

    fn run(mut self) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        let trial = self.trial;
        for (load, tasks) in &trial.stops {
            if !self.fill(*load)? {
                break;
            }
            let spent: Result<Option<Vec<Spent>>> =
                tasks.iter().map(|task| self.task(task)).collect();
            match spent? {
                Some(spent) => outcome.stops.push(spent),
                None => break,
            }
        }
        outcome.load = self.load();
        let bits = 8.0 * D::local_bytes(&self.opened.table) as f64;
        outcome.bits_per_key = bits / self.keys.max(1) as f64;
        Ok(outcome)
    }

    fn load(&self) -> f64 {
        self.keys as f64 / self.opened.slots as f64
    }

    /// Puts keys until the table is that full; false if it refused one.
    fn fill(&mut self, load: f64) -> Result<bool> {
        while self.load() < load {
            if !self.one(Op::PutNew, 0)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Does a task; nothing if the table refused a key.
    fn task(&mut self, task: &Task) -> Result<Option<Spent>> {
        let zipf = match task.draw {
            Draw::Uniform => None,
            Draw::Zipf(skew) | Draw::Latest(skew) => Some(Zipf::new(
                u32::try_from(self.keys).unwrap_or(u32::MAX),
                skew,
            )),
        };
        let (mut latency, mut removed) = (0, 0);
        let before = self.counters();
        for _ in 0..self.trial.operations {
            let op = self.choose(&task.parts);
            let key = self.draw(task.draw, zipf.as_ref());
            let begun = self.executor.endpoint().now();
            if !self.one(op, key)? {
                return Ok(None);
            }
            latency += self.executor.endpoint().now() - begun;
            removed += u64::from(op == Op::Remove);
        }
        let spent = self.spent(latency, &before);
        for _ in 0..removed {
            if !self.one(Op::PutNew, 0)? {
                return Ok(None);
            }
        }
        Ok(Some(spent))
    }

    fn counters(&self) -> Snapshot {
        self.executor.endpoint().core().counters.snapshot()
    }

    fn spent(&self, latency: u64, before: &Snapshot) -> Spent {
        let (operations, counted) = (
            f64::from(self.trial.operations),
            self.counters().since(before),
        );
        let classes = [GET, PUT, UPDATE, REMOVE].map(|class| counted.operation(class));
        let sum = |of: fn(&OperationCounters) -> u64| {
            classes.iter().map(of).sum::<u64>() as f64 / operations
        };
        Spent {
            latency_ns: latency as f64 / operations,
            round_trips: sum(|class| class.round_trips),
            accesses: sum(|class| class.verbs),
            items: sum(|class| class.bytes) / self.opened.slot_bytes as f64,
        }
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
    fn draw(&mut self, draw: Draw, zipf: Option<&Zipf>) -> u64 {
        match (draw, zipf) {
            (Draw::Latest(_), Some(zipf)) => {
                self.keys - 1 - u64::from(zipf.draw(&mut self.random)) % self.keys
            }
            (_, Some(zipf)) => {
                // Whoever is asked for often is of any age.
                derive(u64::from(zipf.draw(&mut self.random)), self.trial.seed) % self.keys
            }
            (_, None) => self.random.random_range(0..self.keys.max(1)),
        }
    }

    /// Does one operation; false if the table is full.
    fn one(&mut self, op: Op, key: u64) -> Result<bool> {
        let asked = match op {
            Op::PutNew => self.keys,
            Op::Remove => self.keys - 1,
            Op::GetAbsent => {
                self.absent += 1;
                u64::MAX / 2 - self.absent
            }
            Op::PutOld | Op::Get | Op::Update => key,
        };
        let (key, value) = (self.bytes(asked), self.bytes(!asked));
        let (table, executor) = (&self.opened.table, &self.executor);
        let is_right = match op {
            Op::PutNew => match executor.block_on(table.put(&key, &value)) {
                Err(IndexError::Full { .. }) => return Ok(false),
                put => put?,
            },
            Op::PutOld => !executor.block_on(table.put(&key, &value))?,
            Op::Get => executor.block_on(table.get(&key))?.as_deref() == Some(&value[..]),
            Op::GetAbsent => executor.block_on(table.get(&key))?.is_none(),
            Op::Update => executor.block_on(table.update(&key, &value))?,
            Op::Remove => executor.block_on(table.remove(&key))?,
        };
        match op {
            Op::PutNew => self.keys += 1,
            Op::Remove => self.keys -= 1,
            _ => {}
        }
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
        let word = derive(number, self.trial.seed).to_le_bytes();
        let len = self.trial.field_bytes as usize;
        word.iter().copied().cycle().take(len).collect()
    }
}
