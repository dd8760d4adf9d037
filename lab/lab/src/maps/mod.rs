//! Farslot in a program's own memory, beside the concurrent maps that the program could have
//! instead: `dashmap`, `papaya` and, as a cache, `moka`.
//!
//! All have the same records, and copy the values that they find. Each is made anew for each
//! repetition, by turns with the others, and its records are put in by the threads that use it. The
//! others hash with foldhash, have no batches and no limit. What a record takes is by how much the
//! resident memory of the process grew, where the maps and Farslot's pages are counted alike.

mod farslot;
mod libraries;

use crate::{LabError, Progress, Result};
use ::farslot::TableOptions;
use ::farslot::health::give_back_freed;
use farslot_bench::{Answers, BenchError, BenchReport, BenchRow, Keys, median, process};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Bytes of a key.
const KEY_BYTES: usize = 16;
type Key = [u8; KEY_BYTES];

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Records of each map.
    pub(crate) records: u32,
    /// Bytes of a value, 8 at least.
    pub(crate) value_bytes: usize,
    /// Threads that share a map, each with a part of the records.
    pub(crate) threads: usize,
    /// Repetitions, of which the median counts.
    pub(crate) repetitions: usize,
    /// What keys and their order derive from.
    pub(crate) seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            records: 1_000_000,
            value_bytes: 100,
            threads: 1,
            repetitions: 5,
            seed: 0,
        }
    }
}

impl Options {
    fn check(&self) -> Result<()> {
        for (option, value, range) in [
            ("records", u64::from(self.records), 1..=1 << 28),
            ("value bytes", self.value_bytes as u64, 8..=1 << 16),
            ("threads", self.threads as u64, 1..=1_024),
            ("repetitions", self.repetitions as u64, 1..=1_000),
        ] {
            if !range.contains(&value) {
                let limit = format!("from {} to {}", range.start(), range.end());
                return Err(LabError::bad(option, value, limit));
            }
        }
        if self.threads as u64 > u64::from(self.records) {
            return Err(LabError::bad(
                "threads",
                self.threads as u64,
                "at most records",
            ));
        }
        Ok(())
    }

    /// The numbers of one thread's records, in an order that looks random.
    fn numbers_of(&self, thread: usize) -> Vec<u32> {
        let of = |thread| (u64::from(self.records) * thread as u64 / self.threads as u64) as u32;
        let part: Range<u32> = of(thread)..of(thread + 1);
        let mut numbers: Vec<u32> = part.collect();
        let mut random = ChaCha8Rng::seed_from_u64(self.seed ^ random_of(thread as u64));
        numbers.shuffle(&mut random);
        numbers
    }
}

fn random_of(thread: u64) -> u64 {
    ChaCha8Rng::seed_from_u64(thread).next_u64()
}

/// The records of a run, by their numbers.
#[derive(Clone, Copy)]
pub(crate) struct Records {
    keys: Keys,
    value_bytes: usize,
}

impl Records {
    pub(crate) fn key(&self, number: u32) -> Key {
        let mut key = [0; KEY_BYTES];
        key[..8].copy_from_slice(&self.keys.long(number.into()));
        key[8..].copy_from_slice(&u64::from(number).to_le_bytes());
        key
    }

    /// Writes the value of a record, of so many bytes as all have.
    pub(crate) fn write_value(&self, number: u32, value: &mut [u8]) {
        value[..8].copy_from_slice(&u64::from(number).to_le_bytes());
    }

    pub(crate) fn new_value(&self) -> Vec<u8> {
        vec![7; self.value_bytes]
    }

    pub(crate) fn is_value(&self, number: u32, value: &[u8]) -> bool {
        value.len() == self.value_bytes && value.starts_with(&u64::from(number).to_le_bytes())
    }
}

/// One thread's way to a map.
pub(crate) trait Client {
    /// Puts these records, one after the other; tells of each whether it has gone well.
    fn put_each(&mut self, records: &Records, numbers: &[u32], answers: &mut Answers);

    /// Gets these records, one after the other, each value as a copy.
    fn get_each(&mut self, records: &Records, numbers: &[u32], answers: &mut Answers);

    /// Puts these records in batches; false if there are none.
    fn put_many(&mut self, _: &Records, _: &[u32], _: &mut Answers) -> bool {
        false
    }

    /// Gets these records in batches; false if there are none.
    fn get_many(&mut self, _: &Records, _: &[u32], _: &mut Answers) -> bool {
        false
    }
}

/// A map that threads share.
pub(crate) trait SharedMap: Sync {
    /// One thread's way to it.
    ///
    /// # Errors
    /// What the map says.
    fn client(&self) -> Result<Box<dyn Client + '_>>;
}

/// Makes an empty map for so many records.
type MakeMap = fn(&Options) -> Result<Box<dyn SharedMap>>;

/// What is compared, by its name.
const MAPS: [(&str, MakeMap); 5] = [
    ("Farslot, default table", |options| {
        farslot::made(options, &TableOptions::default())
    }),
    ("Farslot, linear", |options| {
        farslot::made(options, &farslot::linear(options))
    }),
    ("dashmap", libraries::dashmap),
    ("papaya", libraries::papaya),
    ("moka", libraries::moka),
];

/// What each thread does with a map, in this order.
const PHASES: [&str; 5] = ["put, new keys", "put", "get", "put_many", "get_many"];

/// Measures all maps by turns.
///
/// # Errors
/// [`BadOption`](farslot_bench::BenchError::BadOption),
/// [`WrongAnswers`](farslot_bench::BenchError::WrongAnswers), or what a map
/// says.
pub(crate) fn run(options: &Options, progress: Progress<'_>) -> Result<BenchReport> {
    options.check()?;
    let mut rates: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
    let mut bytes = vec![Vec::new(); MAPS.len()];
    for repetition in 1..=options.repetitions {
        for (map, (name, make)) in MAPS.iter().enumerate() {
            let of = options.repetitions;
            progress(&format!("{name}, repetition {repetition} of {of}"));
            let measured = Measured::of(*make, options)?;
            for (phase, seconds) in measured.seconds.into_iter().enumerate() {
                if let Some(seconds) = seconds {
                    let rate = f64::from(options.records) / seconds;
                    rates.entry((map, phase)).or_default().push(rate);
                }
            }
            bytes[map].push(measured.bytes as f64 / f64::from(options.records));
        }
    }
    let threads = options.threads;
    let of_rate = |((map, phase), rates): ((usize, usize), Vec<f64>)| {
        let (name, _) = MAPS[map];
        let name = format!("{name}, {}, threads: {threads}", PHASES[phase]);
        BenchRow::new(name, median(rates), "records/s")
    };
    let mut rows: Vec<_> = rates.into_iter().map(of_rate).collect();
    rows.extend(MAPS.iter().zip(bytes).map(|((name, _), bytes)| {
        BenchRow::new(
            format!("{name}, resident memory"),
            median(bytes),
            "B/record",
        )
    }));
    Ok(BenchReport {
        bench: "maps",
        fabric: format!(
            "memory of this process; records of {KEY_BYTES} + {} B",
            options.value_bytes
        ),
        rows,
    })
}

/// One map's figures of one repetition.
struct Measured {
    /// Of each phase, until the last thread has done its part; nothing of what a map has not.
    seconds: [Option<f64>; PHASES.len()],
    /// By which the process grew when the records had been put.
    bytes: u64,
}

impl Measured {
    fn of(make: MakeMap, options: &Options) -> Result<Self> {
        let numbers: Vec<_> = (0..options.threads)
            .map(|thread| options.numbers_of(thread))
            .collect();
        // What the map before has left.
        give_back_freed(0);
        let before = resident();
        let map = make(options)?;
        let records = Records {
            keys: Keys::new(options.seed),
            value_bytes: options.value_bytes,
        };
        let (barrier, any_failed) = (Barrier::new(options.threads), AtomicBool::new(false));
        let work = |numbers: &[u32]| -> Result<ThreadMeasured> {
            let client = map.client();
            any_failed.fetch_or(client.is_err(), Ordering::Relaxed);
            barrier.wait();
            let mut client = client?;
            if any_failed.load(Ordering::Relaxed) {
                return Err(BenchError::RankFailed.into());
            }
            Ok(phases(&mut *client, &records, numbers, &barrier))
        };
        let work = &work;
        let threads = std::thread::scope(|scope| {
            let workers = numbers.iter();
            let workers: Vec<_> = workers
                .map(|numbers| scope.spawn(move || work(numbers)))
                .collect();
            let ends = workers.into_iter().map(|worker| {
                let end = worker.join();
                end.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            ends.collect::<Result<Vec<_>>>()
        })?;
        let mut measured = Self {
            seconds: [None; PHASES.len()],
            bytes: 0,
        };
        for thread in threads {
            thread.answers.check()?;
            for (all, one) in measured.seconds.iter_mut().zip(thread.seconds) {
                *all = (*all).into_iter().chain(one).reduce(f64::max);
            }
            measured.bytes = measured.bytes.max(thread.resident.saturating_sub(before));
        }
        Ok(measured)
    }
}

/// What one thread has measured.
struct ThreadMeasured {
    seconds: [Option<f64>; PHASES.len()],
    /// Of the process, when all had put their records.
    resident: u64,
    answers: Answers,
}

/// Goes through the [`PHASES`], beside the other threads.
fn phases(
    client: &mut dyn Client,
    records: &Records,
    numbers: &[u32],
    barrier: &Barrier,
) -> ThreadMeasured {
    let mut answers = Answers::default();
    let mut resident_then = 0;
    let seconds = std::array::from_fn(|phase| {
        barrier.wait();
        let since = Instant::now();
        let is_done = match phase {
            0 | 1 => {
                client.put_each(records, numbers, &mut answers);
                true
            }
            2 => {
                client.get_each(records, numbers, &mut answers);
                true
            }
            3 => client.put_many(records, numbers, &mut answers),
            _ => client.get_many(records, numbers, &mut answers),
        };
        barrier.wait();
        let seconds = since.elapsed().as_secs_f64();
        if phase == 0 {
            resident_then = resident();
        }
        is_done.then_some(seconds)
    });
    ThreadMeasured {
        seconds,
        resident: resident_then,
        answers,
    }
}

/// Bytes of this process that are in memory.
fn resident() -> u64 {
    process::memory_of(std::process::id(), "VmRSS:").unwrap_or(0)
}
