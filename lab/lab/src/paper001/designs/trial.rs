//! What is done with a table in a trial, where it lies, and what comes of it.

use super::published::FURTHER_VERB_US;
use crate::Result;
use farslot::fabric::shm::{Node, RegionSpec, ShmEndpoint};
use farslot::fabric::sim::{NicProfile, SimEndpoint, World};
use farslot::fabric::{Limits, Rights};
use farslot::index::hash::derive;
use std::rc::Rc;

/// A table, and what is done with it.
#[derive(Clone, Debug)]
pub(crate) struct TableTrial {
    /// Slots, at least.
    pub(crate) slots: u64,
    /// Slots of a bucket.
    pub(crate) bucket_slots: u32,
    /// Bits of a fingerprint, where there are any.
    pub(crate) fingerprint_bits: u32,
    /// Bytes of a key, and of a value.
    pub(crate) field_bytes: u32,
    /// Slots of the published table that it stands for: a stash for a part of the keys is by this
    /// part of the slots.
    pub(crate) stands_for: u64,
    /// Load factors, ascending, and what is done at each.
    pub(crate) stops: Vec<(f64, Vec<Task>)>,
    /// Operations of each task.
    pub(crate) operations: u32,
    /// Operations under way at once in a task; 1 for latencies.
    pub(crate) width: usize,
    /// Bytes of the client's memory that what the table keeps there and a cache of answers share;
    /// none for no cache.
    pub(crate) client_bytes: Option<u64>,
    pub(crate) seed: u64,
}

/// Where a table lies.
#[derive(Clone, Debug)]
pub(crate) enum TrialFabric {
    /// In memory of this process: for what is counted.
    Memory,
    /// Behind a simulated NIC: for latencies.
    Simulated(Box<NicProfile>),
}

/// An operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TrialOperation {
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
    pub(crate) parts: Vec<(TrialOperation, f64)>,
    pub(crate) draw: Draw,
}

impl Task {
    /// Operations of one kind, on any keys.
    pub(crate) fn only(op: TrialOperation) -> Self {
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

/// So many bytes of a key or a value that has this number.
pub(crate) fn record_bytes(number: u64, bytes: u32, seed: u64) -> Vec<u8> {
    let word = derive(number, seed).to_le_bytes();
    word.iter().copied().cycle().take(bytes as usize).collect()
}
