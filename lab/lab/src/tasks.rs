//! Lookups of many tasks through one [`Handle`], beside `get_many` of as many threads as the handle
//! has workers, in turns on the same table.
//!
//! Tasks run on tokio, and each has one lookup under way at a time. Threads collect batches of
//! [`BATCH`] keys. Both draw their keys while they are measured, and check every answer. In the
//! same run as many tasks only draw keys and let each other run between: what the runtime itself
//! takes, and any handle at least that where tasks wait. A task times one of [`TIMED`] lookups,
//! from its first poll until it has its answer.

use crate::{LabError, Progress, Result};
use farslot::{FieldSize, Handle, HandleOptions, Store, Table, TableOptions};
use farslot_bench::{Answers, BenchReport, BenchRow, Keys, median, threads};
use hdrhistogram::Histogram;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::hint::black_box;
use std::time::Instant;

/// Keys of a batch.
const BATCH: usize = 4096;
/// One of so many lookups of a task is timed.
const TIMED: u64 = 16;
/// The table's name.
const TABLE: &str = "tasks";

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Tasks.
    pub tasks: u64,
    /// Workers of the handle, threads of the runtime, and threads of `get_many`: of each so many.
    pub threads: usize,
    /// Records of 8 + 8 bytes, in a linear table that they fill to three quarters.
    pub records: u64,
    /// Lookups of a repetition, of tasks and of threads.
    pub lookups: u64,
    /// Repetitions, of which the median counts.
    pub repetitions: usize,
    /// What keys derive from.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tasks: 1_000,
            threads: 1,
            records: 1_000_000,
            lookups: 4_000_000,
            repetitions: 5,
            seed: 0,
        }
    }
}

impl Options {
    fn check(&self) -> Result<()> {
        LabError::check_ranges([
            ("tasks", self.tasks, 1..=1_000_000),
            ("threads", self.threads as u64, 1..=1_024),
            ("records", self.records, 1..=1 << 31),
            ("lookups", self.lookups, 1..=1 << 40),
            ("repetitions", self.repetitions as u64, 1..=1_000),
        ])
    }

    fn table(&self) -> TableOptions {
        TableOptions::new(self.records)
            .load_factor(0.75)
            .keys(FieldSize::Fixed(8))
            .values(FieldSize::Fixed(8))
    }
}

/// Bytes that the store must have.
///
/// # Errors
/// [`BadOption`](farslot_bench::BenchError::BadOption).
pub fn memory(options: &Options) -> Result<u64> {
    /// The largest catalog, and what a table is rounded up to.
    const BESIDES: u64 = 6 << 20;
    options.check()?;
    let bytes = options.table().scheme()?.table_bytes();
    Ok(u64::try_from(bytes)
        .unwrap_or(u64::MAX)
        .saturating_add(BESIDES))
}

/// Measures in a table of its own of a store that has [`memory`] bytes.
///
/// # Errors
/// [`BadOption`](farslot_bench::BenchError::BadOption),
/// [`WrongAnswers`](farslot_bench::BenchError::WrongAnswers), or what the store says.
pub fn run(
    store: &Store,
    fabric: &str,
    options: &Options,
    progress: Progress<'_>,
) -> Result<Vec<BenchRow>> {
    options.check()?;
    let records = Records {
        keys: Keys::new(options.seed),
        records: options.records,
    };
    progress(&format!("{fabric}: writing the records"));
    store.create(TABLE, &options.table())?;
    records.write(&store.table(TABLE)?)?;
    let handle = HandleOptions {
        workers: options.threads,
        ..HandleOptions::default()
    };
    let handle = Handle::open(store, TABLE, handle)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(options.threads)
        .build();
    let runtime = runtime.map_err(|error| farslot::StoreError::Thread {
        reason: error.to_string(),
    })?;
    let mut latency = histogram();
    let (mut of_tasks, mut of_threads, mut of_turns) = (Vec::new(), Vec::new(), Vec::new());
    for repetition in 1..=options.repetitions {
        let of = options.repetitions;
        progress(&format!("{fabric}: repetition {repetition} of {of}"));
        of_threads.push(batches(store, &records, options)?);
        let tasks = all_tasks(&handle, &records, options, &mut latency);
        of_tasks.push(runtime.block_on(tasks)?);
        of_turns.push(runtime.block_on(all_turns(&records, options))?);
    }
    runtime.block_on(handle.close());
    store.drop_table(TABLE)?;
    let Options { tasks, threads, .. } = options;
    let limit = median(of_threads);
    let quantile = |label, quantile| {
        let micros = latency.value_at_quantile(quantile) as f64 / 1e3;
        BenchRow::new(format!("{fabric}, {tasks} tasks, {label}"), micros, "µs")
    };
    Ok(vec![
        BenchRow::new(
            format!("{fabric}, get_many, threads: {threads}"),
            limit,
            "lookups/s",
        ),
        BenchRow::new(
            format!("{fabric}, {tasks} tasks, workers: {threads}"),
            median(of_tasks),
            "lookups/s",
        )
        .limited_by(limit),
        BenchRow::new(
            format!("{fabric}, {tasks} tasks that only take turns, threads: {threads}"),
            median(of_turns),
            "turns/s",
        )
        .limited_by(limit),
        quantile("p50", 0.5),
        quantile("p99", 0.99),
    ])
}

/// The rows of all fabrics.
#[must_use]
pub fn report(rows: Vec<BenchRow>, fabrics: &[&str]) -> BenchReport {
    BenchReport {
        bench: "tasks",
        fabric: format!("{}, to another process of this machine", fabrics.join(", ")),
        rows,
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("these bounds are in order")
}

/// The value of a key: its complement.
fn value_of(key: &[u8; 8]) -> [u8; 8] {
    (!u64::from_le_bytes(*key)).to_le_bytes()
}

#[derive(Clone, Copy)]
struct Records {
    keys: Keys,
    records: u64,
}

impl Records {
    fn write(&self, table: &Table) -> Result<()> {
        let mut answers = Answers::default();
        for first in (0..self.records).step_by(BATCH) {
            let numbers = first..self.records.min(first + BATCH as u64);
            let pairs = numbers.map(|number| self.keys.long(number));
            let pairs: Vec<_> = pairs.map(|key| (key, value_of(&key))).collect();
            let pairs: Vec<_> = pairs
                .iter()
                .map(|(key, value)| (&key[..], &value[..]))
                .collect();
            table.put_many(&pairs, |_, new| answers.see(new))?;
        }
        Ok(answers.check()?)
    }

    fn draw(&self, random: &mut ChaCha8Rng) -> [u8; 8] {
        self.keys.long(random.random_range(0..self.records))
    }
}

/// Looks up keys in batches on several threads; returns lookups/s of all together.
fn batches(store: &Store, records: &Records, options: &Options) -> Result<f64> {
    let count = options.lookups.div_ceil(options.threads as u64);
    let seed = std::sync::atomic::AtomicU64::new(options.seed);
    let since = Instant::now();
    threads::on_each(options.threads, || -> farslot_bench::Result<()> {
        let table = store.table(TABLE)?;
        let seed = seed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut answers = Answers::default();
        while answers.count() < count {
            let keys: Vec<_> = (0..BATCH).map(|_| records.draw(&mut random)).collect();
            let slices: Vec<_> = keys.iter().map(|key| &key[..]).collect();
            table.get_many(&slices, |number, found| {
                let expected = value_of(&keys[number]);
                answers.see(found == Some(&expected[..]));
            })?;
        }
        answers.check()
    })?;
    let rounded = count.next_multiple_of(BATCH as u64) * options.threads as u64;
    Ok(rounded as f64 / since.elapsed().as_secs_f64())
}

/// Looks up keys by tasks, one after the other each; returns lookups/s of all together.
async fn all_tasks(
    handle: &Handle,
    records: &Records,
    options: &Options,
    latency: &mut Histogram<u64>,
) -> Result<f64> {
    let count = options.lookups.div_ceil(options.tasks);
    let since = Instant::now();
    let tasks = (0..options.tasks).map(|task| {
        let random = ChaCha8Rng::seed_from_u64(options.seed ^ task);
        tokio::spawn(one_task(handle.clone(), *records, random, count))
    });
    let tasks: Vec<_> = tasks.collect();
    let mut times = Vec::new();
    for task in tasks {
        let ended = task
            .await
            .map_err(|_| farslot::StoreError::WorkerPanicked)?;
        times.push(ended?);
    }
    let rate = (count * options.tasks) as f64 / since.elapsed().as_secs_f64();
    for nanos in times.into_iter().flatten() {
        latency.saturating_record(nanos);
    }
    Ok(rate)
}

/// Lets tasks draw as many keys as [`all_tasks`], with a turn for the others behind each; returns
/// turns/s of all together.
async fn all_turns(records: &Records, options: &Options) -> Result<f64> {
    let count = options.lookups.div_ceil(options.tasks);
    let since = Instant::now();
    let tasks = (0..options.tasks).map(|task| {
        let (records, mut random) = (*records, ChaCha8Rng::seed_from_u64(options.seed ^ task));
        tokio::spawn(async move {
            for _ in 0..count {
                black_box(records.draw(&mut random));
                tokio::task::yield_now().await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        let ended = task.await;
        ended.map_err(|_| farslot::StoreError::WorkerPanicked)?;
    }
    Ok((count * options.tasks) as f64 / since.elapsed().as_secs_f64())
}

/// Looks up so many keys; returns nanoseconds of those that were timed.
async fn one_task(
    handle: Handle,
    records: Records,
    mut random: ChaCha8Rng,
    count: u64,
) -> Result<Vec<u64>> {
    let mut answers = Answers::default();
    let mut times = Vec::with_capacity(count.div_ceil(TIMED) as usize);
    for lookup in 0..count {
        let key = records.draw(&mut random);
        let since = (lookup % TIMED == 0).then(Instant::now);
        let found = handle.get(&key).await;
        if let Some(since) = since {
            times.push(since.elapsed().as_nanos() as u64);
        }
        answers.note(found.map(|value| value.as_deref() == Some(&value_of(&key)[..])));
    }
    answers.check()?;
    Ok(times)
}
