//! Looking files up, and paths that are none, and checking every answer.

use super::crew::{TABLE, bar, in_threads};
use super::walk::File;
use farslot::metrics::{GET, OperationCounters};
use farslot::{Store, Table};
use farslot_terminal::failure::Result;
use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use rand::RngExt;
use rand::rngs::ThreadRng;
use std::time::Instant;

/// Keys that are looked up side by side.
const BATCH: usize = 256;
/// Of so many lookups one is for a path that is not there.
const MISS_EVERY: u64 = 10;
/// Of so many lookups one more is timed on its own.
const TIME_EVERY: u64 = 10;

/// What lookups of one kind cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// How many there were.
    pub lookups: u64,
    /// READs that they took.
    pub reads: u64,
    /// Bytes that these fetched.
    pub bytes: u64,
}

impl Cost {
    /// READs a lookup.
    pub fn reads_each(&self) -> f64 {
        self.reads as f64 / self.lookups.max(1) as f64
    }

    /// Bytes a lookup.
    pub fn bytes_each(&self) -> f64 {
        self.bytes as f64 / self.lookups.max(1) as f64
    }

    fn add(&mut self, before: OperationCounters, after: OperationCounters) {
        self.lookups += after.count - before.count;
        self.reads += after.verbs - before.verbs;
        self.bytes += after.bytes - before.bytes;
    }

    fn plus(self, other: Self) -> Self {
        Self {
            lookups: self.lookups + other.lookups,
            reads: self.reads + other.reads,
            bytes: self.bytes + other.bytes,
        }
    }
}

/// How the looking up went.
pub struct Lookups {
    /// Those of files.
    pub hits: Cost,
    /// Those of paths that no file has.
    pub misses: Cost,
    /// Answers that were wrong.
    pub wrong: u64,
    /// How long the lookups side by side took.
    pub seconds: f64,
    /// Nanoseconds of lookups one after the other.
    pub latency: Histogram<u64>,
}

/// Looks up random files and paths that are none, side by side; then some more, one by one.
///
/// # Errors
/// The first that could not be answered.
pub fn look_up(store: &Store, files: &[File], lookups: u64, threads: usize) -> Result<Lookups> {
    let timed = lookups.div_ceil(TIME_EVERY);
    let bar = bar("looking up", lookups + timed);
    let share = |all: u64, thread: usize| {
        all * (thread as u64 + 1) / threads as u64 - all * thread as u64 / threads as u64
    };
    let client = || -> Result<_> { Ok(Client::new(store.table(TABLE)?, files, &bar)) };
    let (side_by_side, seconds) = in_threads(files, threads, |thread, _| {
        let mut client = client()?;
        client.side_by_side(share(lookups, thread))?;
        Ok(client.tally)
    })?;
    let (one_by_one, _) = in_threads(files, threads, |thread, _| {
        let mut client = client()?;
        client.one_by_one(share(timed, thread))?;
        Ok(client.tally)
    })?;
    bar.finish_and_clear();
    let mut all = LookupTally::new();
    for tally in side_by_side.into_iter().chain(one_by_one) {
        all.add(&tally);
    }
    Ok(Lookups {
        hits: all.hits,
        misses: all.misses,
        wrong: all.wrong,
        seconds,
        latency: all.latency,
    })
}

/// What one thread has counted of its lookups.
struct LookupTally {
    hits: Cost,
    misses: Cost,
    wrong: u64,
    latency: Histogram<u64>,
}

impl LookupTally {
    fn new() -> Self {
        let mut latency = Histogram::new(3).expect("3 digits are possible");
        latency.auto(true);
        Self {
            hits: Cost::default(),
            misses: Cost::default(),
            wrong: 0,
            latency,
        }
    }

    fn add(&mut self, other: &Self) {
        self.hits = self.hits.plus(other.hits);
        self.misses = self.misses.plus(other.misses);
        self.wrong += other.wrong;
        self.latency
            .add(&other.latency)
            .expect("a histogram that grows takes all");
    }
}

/// One thread that looks up.
struct Client<'a> {
    table: Table,
    files: &'a [File],
    bar: &'a ProgressBar,
    chance: ThreadRng,
    tally: LookupTally,
}

impl<'a> Client<'a> {
    fn new(table: Table, files: &'a [File], bar: &'a ProgressBar) -> Self {
        Self {
            table,
            files,
            bar,
            chance: rand::rng(),
            tally: LookupTally::new(),
        }
    }

    fn any_file(&mut self) -> &'a File {
        &self.files[self.chance.random_range(0..self.files.len())]
    }

    fn side_by_side(&mut self, lookups: u64) -> Result<()> {
        let mut left = lookups;
        for batch in 1.. {
            if left == 0 {
                break;
            }
            let size = left.min(BATCH as u64);
            let chosen: Vec<&File> = (0..size).map(|_| self.any_file()).collect();
            self.batch(&chosen, batch % MISS_EVERY == 0)?;
            self.bar.inc(size);
            left -= size;
        }
        Ok(())
    }

    /// Looks up these files, or paths much like theirs that are none.
    fn batch(&mut self, chosen: &[&'a File], miss: bool) -> Result<()> {
        let absent: Vec<Vec<u8>> = if miss {
            chosen.iter().map(|file| file.absent()).collect()
        } else {
            Vec::new()
        };
        let keys: Vec<&[u8]> = if miss {
            absent.iter().map(|path| &path[..]).collect()
        } else {
            chosen.iter().map(|file| &file.path[..]).collect()
        };
        let before = self.table.counters().operation(GET);
        let (mut answers, mut wrong) = (0, 0);
        self.table.get_many(&keys, |index, answer| {
            answers += 1;
            wrong += u64::from(!is_right(chosen[index], miss, answer));
        })?;
        // An answer that never came is as bad as a wrong one.
        self.tally.wrong += wrong + (keys.len() as u64 - answers);
        let after = self.table.counters().operation(GET);
        let cost = if miss {
            &mut self.tally.misses
        } else {
            &mut self.tally.hits
        };
        cost.add(before, after);
        Ok(())
    }

    fn one_by_one(&mut self, lookups: u64) -> Result<()> {
        for lookup in 1..=lookups {
            let file = self.any_file();
            let miss = lookup % MISS_EVERY == 0;
            let absent = miss.then(|| file.absent());
            let key = absent.as_deref().unwrap_or(&file.path);
            let since = Instant::now();
            let answer = self.table.get(key)?;
            self.tally
                .latency
                .saturating_record(since.elapsed().as_nanos() as u64);
            self.tally.wrong += u64::from(!is_right(file, miss, answer.as_deref()));
            if lookup % BATCH as u64 == 0 {
                self.bar.inc(BATCH as u64);
            }
        }
        Ok(())
    }
}

fn is_right(file: &File, miss: bool, answer: Option<&[u8]>) -> bool {
    let expected = (!miss).then(|| file.value());
    answer == expected.as_deref().map(str::as_bytes)
}
