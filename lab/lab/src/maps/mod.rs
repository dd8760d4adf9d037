//! Farslot in a program's own memory, beside the concurrent maps that the program could have
//! instead: `dashmap`, `papaya` and, as a cache, `moka`.
//!
//! All have the same records, and copy the values that they find. Each is made anew for each
//! repetition, by turns with the others, and its records are put in by the threads that share it.
//! The others hash with foldhash, have no batches and no limit. What a record takes is by how much
//! the resident memory of the process grew, where the maps and Farslot's pages are counted alike.

mod farslot;
mod libraries;
mod shared;

use crate::{Progress, Result};
use ::farslot::TableOptions;
use ::farslot::health::give_back_freed;
use farslot_bench::{Answers, BenchError, BenchReport, BenchRow, Keys, median, process};
pub(crate) use shared::Options;
use shared::{Client, KEY_BYTES, Records, SharedMap};
use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

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
            let measured = MapFigures::of(*make, options)?;
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
struct MapFigures {
    /// Of each phase, until the last thread has done its part; nothing of what a map has not.
    seconds: [Option<f64>; PHASES.len()],
    /// By which the process grew when the records had been put.
    bytes: u64,
}

impl MapFigures {
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
        let work = |numbers: &[u32]| -> Result<ThreadFigures> {
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
struct ThreadFigures {
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
) -> ThreadFigures {
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
    ThreadFigures {
        seconds,
        resident: resident_then,
        answers,
    }
}

/// Bytes of this process that are in memory.
fn resident() -> u64 {
    process::memory_of(std::process::id(), "VmRSS:").unwrap_or(0)
}
