//! The six workloads of YCSB's core (Cooper et al., *Benchmarking cloud serving systems with YCSB*,
//! SoCC 2010), as batches of operations.

use farslot_bench::simulated::Zipf;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// The skew of YCSB's requests.
pub const SKEW: f64 = 0.99;
/// Records of a scan: from 1 to so many, each length as probable as any.
pub const LONGEST_SCAN: u64 = 100;

/// A workload of YCSB's core.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// Half reads, half updates.
    A,
    /// 95 % reads, 5 % updates.
    B,
    /// Reads only.
    C,
    /// 95 % reads of the latest records, 5 % inserts.
    D,
    /// 95 % scans of short ranges, 5 % inserts.
    E,
    /// Half reads, half reads of a record that is then written.
    F,
}

impl Workload {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::A, Self::B, Self::C, Self::D, Self::E, Self::F];

    /// What its operations are.
    #[must_use]
    pub const fn mix(self) -> OperationMix {
        let none = OperationMix {
            update: 0.0,
            insert: 0.0,
            scan: 0.0,
            read_modify_write: 0.0,
        };
        match self {
            Self::A => OperationMix {
                update: 0.5,
                ..none
            },
            Self::B => OperationMix {
                update: 0.05,
                ..none
            },
            Self::C => none,
            Self::D => OperationMix {
                insert: 0.05,
                ..none
            },
            Self::E => OperationMix {
                insert: 0.05,
                scan: 0.95,
                ..none
            },
            Self::F => OperationMix {
                read_modify_write: 0.5,
                ..none
            },
        }
    }

    /// Whether it inserts records.
    #[must_use]
    pub const fn inserts(self) -> bool {
        self.mix().insert > 0.0
    }

    /// Whether reads are of the records that were inserted last, and not of any.
    const fn reads_latest(self) -> bool {
        matches!(self, Self::D)
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::A => "a",
            Self::B => "b",
            Self::C => "c",
            Self::D => "d",
            Self::E => "e",
            Self::F => "f",
        })
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL
            .into_iter()
            .find(|workload| workload.to_string() == text);
        named.ok_or_else(|| format!("{text:?} is no workload: there are a, b, c, d, e and f"))
    }
}

/// Parts of the operations, from 0 to 1; the rest are reads.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OperationMix {
    /// A record's value is replaced.
    pub update: f64,
    /// A record is added.
    pub insert: f64,
    /// Consecutive records are read.
    pub scan: f64,
    /// A record is read, and then its value replaced.
    pub read_modify_write: f64,
}

/// Operations that are under way together, as the numbers of their records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Operations in it.
    pub operations: u64,
    /// Records that are read: by reads, by scans, and by read-modify-writes.
    pub reads: Vec<u64>,
    /// Records whose value is replaced.
    pub updates: Vec<u64>,
    /// Records that are added.
    pub inserts: Vec<u64>,
    /// Records whose value is replaced once they have been read.
    pub rewrites: Vec<u64>,
}

impl Batch {
    fn clear(&mut self) {
        self.operations = 0;
        for records in [
            &mut self.reads,
            &mut self.updates,
            &mut self.inserts,
            &mut self.rewrites,
        ] {
            records.clear();
        }
    }

    /// Records under way at once.
    fn records(&self) -> usize {
        self.reads.len() + self.updates.len() + self.inserts.len()
    }
}

/// What one client thread does, batch by batch. It reads only what it knows to be there: the
/// records that were loaded and those that it has inserted in earlier batches.
#[derive(Clone, Debug)]
pub struct Generator {
    workload: Workload,
    /// Of the loaded records, by rank.
    popularity: Zipf,
    loaded: u64,
    inserted: u64,
    thread: u64,
    threads: u64,
    random: ChaCha8Rng,
}

impl Generator {
    /// That of thread number `thread` of so many, where as many records are loaded as `popularity`
    /// has ranks.
    pub fn new(workload: Workload, popularity: Zipf, thread: u64, threads: u64, seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(thread);
        Self {
            workload,
            loaded: u64::from(popularity.count()),
            popularity,
            inserted: 0,
            thread,
            threads,
            random,
        }
    }

    /// How many records this thread has inserted.
    pub const fn inserted(&self) -> u64 {
        self.inserted
    }

    /// Draws the next batch: as many operations as reach `width` records, at least one.
    pub fn fill(&mut self, width: usize, batch: &mut Batch) {
        batch.clear();
        let known = self.loaded + self.inserted;
        let mix = self.workload.mix();
        while batch.records() < width {
            batch.operations += 1;
            let drawn: f64 = self.random.random();
            let mut up_to = 0.0;
            let mut is = |part: f64| {
                up_to += part;
                drawn < up_to
            };
            if is(mix.update) {
                let record = self.any();
                batch.updates.push(record);
            } else if is(mix.insert) {
                batch.inserts.push(self.number(self.loaded + self.inserted));
                self.inserted += 1;
            } else if is(mix.scan) {
                let first = self.any();
                let length = self.random.random_range(1..=LONGEST_SCAN);
                let end = known.min(first + length);
                batch
                    .reads
                    .extend((first..end).map(|place| self.number(place)));
            } else {
                let record = self.read(known);
                batch.reads.push(record);
                if is(mix.read_modify_write) {
                    batch.rewrites.push(record);
                }
            }
        }
    }

    /// The record that a read is of.
    fn read(&mut self, known: u64) -> u64 {
        if !self.workload.reads_latest() {
            return self.any();
        }
        let age = u64::from(self.popularity.draw(&mut self.random));
        self.number(known - 1 - age)
    }

    /// A loaded record. Which of them are popular does not go by their numbers: ranks are scattered
    /// by a hash, and may meet, as in YCSB.
    fn any(&mut self) -> u64 {
        scatter(self.popularity.draw(&mut self.random).into()) % self.loaded
    }

    /// The number of the record at a place of this thread's order: the loaded ones, then its own.
    const fn number(&self, place: u64) -> u64 {
        match place.checked_sub(self.loaded) {
            None => place,
            Some(own) => self.loaded + own * self.threads + self.thread,
        }
    }
}

/// YCSB's hash of ranks: FNV-1a over the eight bytes.
pub(crate) fn scatter(rank: u64) -> u64 {
    rank.to_le_bytes()
        .into_iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
}
