//! Paper 004, figures 7 to 13: how many operations a second the in-process tables do, timed.
//!
//! Times are those of the processor for the one thread that works, so that what else runs on the
//! machine counts less; and designs take turns, so that it counts for all of them. Rates are of
//! this machine; what is to be compared with the paper's are the ratios.

mod insertions;
pub(crate) mod keys;
mod lookups;
mod mixed;

pub(crate) use insertions::{FIG7, FIG8, FIG9};
pub(crate) use lookups::{FIG10, FIG11, FIG12};
pub(crate) use mixed::FIG13;

use crate::scale::Scale;
use crate::{LabError, ReproRow, Result};
use farslot_bench::median;
use farslot_local::{
    BucketizedCuckoo, CuckooWithStash, LocalTable, OptimisticCuckoo, SmartCuckooMap, Words,
};
use foldhash::fast::FixedState;
use rustix::time::{ClockId, clock_gettime};
use std::hash::Hash;
use std::time::Duration;

/// As many keys a slot as every design needs on its way to the highest occupancy: 1.217 by theory
/// for one-slot buckets, more where walks are given up.
const KEYS_PER_SLOT: f64 = 1.3;

/// The occupancy at which the paper compares tables, where keys without a place were dropped.
const DROPPING: f64 = 0.9;
/// The load of one-slot buckets that loses nothing.
const LOSSLESS: f64 = farslot_local::smart_cuckoo::MAX_LOAD;
/// As many entries in half of the slots: four-slot buckets hold them all.
const LOSSLESS_OF_FOUR: f64 = 2.0 * LOSSLESS;

/// A table of the paper's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LocalDesign {
    Smart,
    WithStash,
    Bucketized,
    Optimistic,
}

impl LocalDesign {
    const ALL: [Self; 4] = [
        Self::Smart,
        Self::WithStash,
        Self::Bucketized,
        Self::Optimistic,
    ];
    /// What SmartCuckoo is compared with.
    const OTHERS: [Self; 3] = [Self::WithStash, Self::Optimistic, Self::Bucketized];

    const fn name(self) -> &'static str {
        match self {
            Self::Smart => "SmartCuckoo",
            Self::WithStash => "CHS",
            Self::Bucketized => "BCHT",
            Self::Optimistic => "libcuckoo-like",
        }
    }

    /// Whether its buckets have one slot.
    const fn is_one_slot(self) -> bool {
        matches!(self, Self::Smart | Self::WithStash)
    }
}

/// What is done to a table; compiled for each design.
trait Job<K, V> {
    /// What it gives.
    type Output;

    /// Does it.
    fn on(&self, table: impl LocalTable<K, V>) -> Self::Output;
}

/// Does a job on an empty table of a design, which has at least so many slots and no stash.
fn on_empty<K, V, J>(design: LocalDesign, slots: usize, job: &J) -> Result<J::Output>
where
    K: Words + Eq + Hash,
    V: Words,
    J: Job<K, V>,
{
    let hashing = FixedState::default();
    Ok(match design {
        LocalDesign::Smart => {
            let map = SmartCuckooMap::<K, V, _>::with_slots_and_hasher(slots, hashing);
            let mut map =
                map.map_err(|error| LabError::bad("slots", slots as u64, error.to_string()))?;
            map.set_stash_limit(0);
            job.on(map)
        }
        LocalDesign::WithStash => job.on(CuckooWithStash::<K, V, _>::with_slots(slots, 0, hashing)),
        LocalDesign::Bucketized => {
            job.on(BucketizedCuckoo::<K, V, _>::with_slots(slots, 0, hashing))
        }
        LocalDesign::Optimistic => job.on(OptimisticCuckoo::<K, V, _>::with_slots_and_hasher(
            slots, hashing,
        )),
    })
}

/// Does a job on all designs, one after the other, as often as the scale says; which of them is
/// first changes. Returns what it gave by design and round.
fn in_turns<T>(
    scale: &Scale,
    mut job: impl FnMut(LocalDesign) -> Result<T>,
) -> Result<[Vec<T>; LocalDesign::ALL.len()]> {
    // What a process does first is slower: memory is new to it, and the processor's clock low.
    for design in LocalDesign::ALL {
        job(design)?;
    }
    let mut all = [const { Vec::new() }; LocalDesign::ALL.len()];
    for round in 0..scale.tables as usize {
        for turn in 0..LocalDesign::ALL.len() {
            let number = (round + turn) % LocalDesign::ALL.len();
            all[number].push(job(LocalDesign::ALL[number])?);
        }
    }
    Ok(all)
}

/// Operations and the time that they took.
#[derive(Clone, Copy, Debug, Default)]
struct TimedOperations {
    operations: u64,
    time: Duration,
}

impl TimedOperations {
    /// That of `work`, which says how many operations it did: by the processor's time for this
    /// thread.
    fn of(work: impl FnOnce() -> u64) -> Self {
        let start = thread_time();
        let operations = work();
        let time = thread_time().saturating_sub(start);
        Self { operations, time }
    }

    fn and(self, other: Self) -> Self {
        Self {
            operations: self.operations + other.operations,
            time: self.time + other.time,
        }
    }

    /// Millions of operations a second. A time below the clock's resolution is taken for that.
    fn millions(self) -> f64 {
        self.operations as f64 / self.time.max(Duration::from_nanos(1)).as_secs_f64() / 1e6
    }
}

fn thread_time() -> Duration {
    // Not negative, but for a thread that has been running for 500 years.
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// SmartCuckoo's rate divided by another design's, round by round, and the middle one of that.
fn advantage(paces: &[Vec<TimedOperations>; LocalDesign::ALL.len()], over: LocalDesign) -> f64 {
    let [smart, other] = [LocalDesign::Smart, over].map(|design| &paces[design as usize]);
    let rounds = smart.iter().zip(other);
    median(rounds.map(|(smart, other)| smart.millions() / other.millions()))
}

/// The rates of all designs, and SmartCuckoo's divided by the others', as cells named after
/// `label`; `paper` are the ratios over [`LocalDesign::OTHERS`].
fn rows_of(
    label: &str,
    paces: &[Vec<TimedOperations>; LocalDesign::ALL.len()],
    paper: [Option<f64>; 3],
) -> Vec<ReproRow> {
    let rates = LocalDesign::ALL.into_iter().map(|design| {
        let rounds = paces[design as usize].iter();
        let cell = format!("{label}: million/s, {}", design.name());
        ReproRow::new(cell, None, median(rounds.map(|pace| pace.millions())))
    });
    let ratios = LocalDesign::OTHERS
        .into_iter()
        .zip(paper)
        .map(|(over, paper)| {
            let cell = format!("{label}: SmartCuckoo / {}", over.name());
            ReproRow::new(cell, paper, advantage(paces, over))
        });
    rates.chain(ratios).collect()
}
