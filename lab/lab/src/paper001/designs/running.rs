//! One client's operations on a table, at several load factors: their latencies one after the
//! other, how many a second with several under way, and what its endpoint counts.

use super::cached::WithCache;
use super::design::{InsertionMoves, SizedTable, TableDesign};
use super::trial::{
    Draw, Outcome, Spent, TableTrial, Task, TrialFabric, TrialOperation, memory_of, record_bytes,
    simulated_memory,
};
use super::zipf::YcsbZipf;
use crate::{LabError, Result};
use farslot::fabric::counters::CounterSnapshot;
use farslot::fabric::{Endpoint, Executor, Nanos, OperationCounters, window};
use farslot::index::hash::derive;
use farslot::index::{GET, Index, IndexError, IndexExt, PUT, REMOVE, UPDATE};
use farslot_bench::simulated::{TABLE_AT, Zipf};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::rc::Rc;

/// Does a trial with tables of a design.
pub(crate) fn run<D: TableDesign>(trial: &TableTrial, fabric: &TrialFabric) -> Result<Outcome> {
    match trial.client_bytes {
        None => run_on::<D>(trial, fabric),
        Some(_) => run_on::<WithCache<D>>(trial, fabric),
    }
}

fn run_on<D: TableDesign>(trial: &TableTrial, fabric: &TrialFabric) -> Result<Outcome> {
    let bytes = u64::try_from(D::table_bytes(trial)?).unwrap_or(u64::MAX);
    match fabric {
        TrialFabric::Memory => TrialRun::<_, D>::new(trial, memory_of(bytes)?)?.run(),
        TrialFabric::Simulated(profile) => {
            let endpoint = simulated_memory(bytes, profile, trial.seed);
            TrialRun::<_, D>::new(trial, endpoint)?.run()
        }
    }
}

/// A trial under way.
struct TrialRun<'t, E: Endpoint, D: TableDesign> {
    trial: &'t TableTrial,
    executor: Executor<E>,
    opened: SizedTable<D::Table<E>>,
    random: ChaCha8Rng,
    /// Keys that are there are those with numbers below.
    keys: u64,
    /// Keys with numbers below are asked for: those that surely are there.
    known: u64,
    /// Numbers that were asked for in vain.
    absent: u64,
}

impl<'t, E: Endpoint, D: TableDesign> TrialRun<'t, E, D> {
    fn new(trial: &'t TableTrial, endpoint: Rc<E>) -> Result<Self> {
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
            let put = self.next(TrialOperation::PutNew, 0);
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
            let put = self.next(TrialOperation::PutNew, 0);
            if !self.executor.block_on(self.serve(put))? {
                return Ok(None);
            }
        }
        Ok(Some(spent))
    }

    /// Does the operations of a task one after the other; returns their latencies' sum, twice.
    /// Nothing if the table refused a key.
    fn one_by_one(
        &mut self,
        parts: &[(TrialOperation, f64)],
        draw: &Drawing,
    ) -> Result<Option<(Nanos, Nanos)>> {
        let mut latency = 0;
        for _ in 0..self.trial.operations {
            self.known = self.keys;
            let operation = self.draw_operation(parts, draw);
            let begun = self.now();
            if !self.executor.block_on(self.serve(operation))? {
                return Ok(None);
            }
            latency += self.now() - begun;
        }
        Ok(Some((latency, latency)))
    }

    /// Does them with several under way; returns the sum of their latencies, and what they took
    /// together.
    fn side_by_side(
        &mut self,
        width: usize,
        parts: &[(TrialOperation, f64)],
        draw: &Drawing,
    ) -> Result<Option<(Nanos, Nanos)>> {
        self.known = self.keys;
        let operations = 0..self.trial.operations;
        let drawn: Vec<KeyedOperation> = operations
            .map(|_| self.draw_operation(parts, draw))
            .collect();
        let (this, mut outcome, mut latency) = (&*self, Ok(true), 0);
        let serve = |operation| async move {
            let begun = this.now();
            (this.serve(operation).await, this.now() - begun)
        };
        let done = |_, (served, took): (Result<bool>, Nanos)| {
            latency += took;
            // The first error stands.
            if matches!(outcome, Ok(true)) {
                outcome = served;
            }
        };
        let begun = this.now();
        let all = window(width, drawn.into_iter().map(serve), done);
        this.executor.block_on(all);
        let took = this.now() - begun;
        Ok(outcome?.then_some((latency, took)))
    }

    fn now(&self) -> Nanos {
        self.executor.endpoint().now()
    }

    fn counters(&self) -> CounterSnapshot {
        self.executor.endpoint().core().counters.snapshot()
    }

    fn spent(
        &self,
        latency: Nanos,
        took: Nanos,
        before: &(CounterSnapshot, InsertionMoves),
    ) -> Spent {
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

    fn draw_operation(
        &mut self,
        parts: &[(TrialOperation, f64)],
        draw: &Drawing,
    ) -> KeyedOperation {
        let op = self.choose(parts);
        let key = self.draw(draw);
        self.next(op, key)
    }

    fn choose(&mut self, parts: &[(TrialOperation, f64)]) -> TrialOperation {
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
    fn next(&mut self, op: TrialOperation, key: u64) -> KeyedOperation {
        let number = match op {
            TrialOperation::PutNew => {
                self.keys += 1;
                self.keys - 1
            }
            TrialOperation::Remove => {
                self.keys -= 1;
                self.keys
            }
            TrialOperation::GetAbsent => {
                self.absent += 1;
                u64::MAX / 2 - self.absent
            }
            TrialOperation::PutOld | TrialOperation::Get | TrialOperation::Update => key,
        };
        KeyedOperation { op, number }
    }

    /// Does one operation; false if the table is full.
    async fn serve(&self, KeyedOperation { op, number }: KeyedOperation) -> Result<bool> {
        let (key, value) = (self.bytes(number), self.bytes(!number));
        let table = &self.opened.table;
        let is_right = match op {
            TrialOperation::PutNew => match table.put(&key, &value).await {
                Err(IndexError::Full { .. }) => return Ok(false),
                put => put?,
            },
            TrialOperation::PutOld => !table.put(&key, &value).await?,
            TrialOperation::Get => table.get(&key).await?.as_deref() == Some(&value[..]),
            TrialOperation::GetAbsent => table.get(&key).await?.is_none(),
            TrialOperation::Update => table.update(&key, &value).await?,
            TrialOperation::Remove => table.remove(&key).await?,
        };
        if is_right {
            return Ok(true);
        }
        Err(LabError::wrong(1, self.keys + self.absent))
    }

    /// The bytes of a key or a value.
    fn bytes(&self, number: u64) -> Vec<u8> {
        record_bytes(number, self.trial.field_bytes, self.trial.seed)
    }
}

/// An operation, and the number of its key.
#[derive(Clone, Copy)]
struct KeyedOperation {
    op: TrialOperation,
    number: u64,
}

/// How keys are drawn.
enum Drawing {
    Uniform,
    /// Of the keys with numbers below.
    Ycsb(YcsbZipf, u64),
    Latest(Zipf),
}
