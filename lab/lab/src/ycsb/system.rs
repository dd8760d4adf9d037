//! What all systems have in common: records go in, and are asked for in batches.

use super::record::{KEY_BYTES, Key};
use crate::Result;
use farslot::index::{GET, PUT, UPDATE};
use farslot::{FieldSize, Operation, Outcome, Store, Table, TableOptions};
use std::any::Any;

/// What a client asks for at once.
#[derive(Default)]
pub(super) struct Request {
    /// Keys to read.
    pub reads: Vec<Key>,
    /// Whether these are of scans.
    pub is_scan: bool,
    /// Keys to write: so many [`Request::updates`], then inserts.
    pub writes: Vec<Key>,
    /// How many of the writes replace a value that is there.
    pub updates: usize,
    /// The values to write, one after the other.
    pub values: Vec<u8>,
}

impl Request {
    pub(super) fn clear(&mut self) {
        self.reads.clear();
        self.writes.clear();
        self.updates = 0;
        self.values.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.writes.is_empty()
    }

    /// The records to write.
    pub(super) fn records(&self) -> impl Iterator<Item = (&Key, &[u8])> {
        let bytes = self.values.len() / self.writes.len().max(1);
        self.writes.iter().zip(self.values.chunks(bytes.max(1)))
    }
}

/// Is told the value that each read found, by the read's number.
pub(super) type Answer<'a> = &'a mut dyn FnMut(usize, Option<&[u8]>);

/// One thread's connection to a system.
pub(super) trait Client {
    /// Does all that is asked for, as much of it side by side as the system can; returns when all
    /// is done. Of the writes, `false` says that an update found no value, or that an insert found
    /// one.
    ///
    /// # Errors
    /// That anything could not be done.
    fn ask(&mut self, request: &Request, answer: Answer<'_>) -> Result<bool>;

    /// Round trips so far, where the client counts them.
    fn round_trips(&self) -> Option<RoundTrips> {
        None
    }
}

/// Records read or written, and the round trips that they took, each its own longest chain.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct RoundTrips {
    pub records: u64,
    pub round_trips: u64,
    /// How many of the records were read from the client's cache, by no round trip.
    pub cache_hits: u64,
}

/// A system under measurement, as it is served.
pub(super) trait WorkloadSystem: Sync {
    /// Its name in the report.
    fn name(&self) -> &'static str;

    /// Its version.
    fn version(&self) -> &str;

    /// Its process, where it has one on this machine.
    fn process(&self) -> Option<u32>;

    /// Whether what is read is what was written.
    fn stores(&self) -> bool {
        true
    }

    /// A connection, for the calling thread.
    ///
    /// # Errors
    /// That there is none to be had.
    fn connect(&self) -> Result<Box<dyn Client>>;
}

/// A store, and what keeps it served.
pub struct ServedStore {
    /// The store.
    pub store: Store,
    /// The process that serves it, unless that is this one or on another machine.
    pub process: Option<u32>,
    /// Ends the process when it is dropped.
    pub guard: Box<dyn Any + Send + Sync>,
}

/// A table of Farslot.
pub(super) struct FarslotTable {
    served: ServedStore,
    table: String,
}

impl FarslotTable {
    /// Makes the table in a store.
    pub(super) fn new(served: ServedStore, table: String, options: &TableOptions) -> Result<Self> {
        served.store.create(&table, options)?;
        Ok(Self { served, table })
    }

    /// A table for so many records.
    pub(super) fn options(records: u64, value_bytes: usize) -> TableOptions {
        TableOptions::new(records)
            .keys(FieldSize::Fixed(KEY_BYTES as u32))
            .values(FieldSize::Fixed(value_bytes as u32))
    }
}

impl WorkloadSystem for FarslotTable {
    fn name(&self) -> &'static str {
        "farslot"
    }

    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    fn process(&self) -> Option<u32> {
        self.served.process
    }

    fn connect(&self) -> Result<Box<dyn Client>> {
        Ok(Box::new(self.served.store.table(&self.table)?))
    }
}

impl Client for Table {
    fn ask(&mut self, request: &Request, answer: Answer<'_>) -> Result<bool> {
        let gets = request.reads.iter().map(|key| Operation::Get(key));
        let writes = request.records().enumerate();
        let writes = writes.map(|(number, (key, value))| {
            if number < request.updates {
                Operation::Update(key, value)
            } else {
                Operation::Put(key, value)
            }
        });
        let operations: Vec<Operation<'_>> = gets.chain(writes).collect();
        let mut are_written = true;
        self.run_many(&operations, |number, outcome| match outcome {
            Outcome::Value(value) => answer(number, value.as_deref()),
            // An update that finds its key, or a put of a new one.
            Outcome::Changed(true) => {}
            Outcome::Changed(false) | Outcome::Values(_) => are_written = false,
        })?;
        Ok(are_written)
    }

    fn round_trips(&self) -> Option<RoundTrips> {
        let counters = self.counters();
        let classes = [GET, PUT, UPDATE].map(|class| counters.operation(class));
        let sum = |of: fn(&farslot::fabric::counters::OperationCounters) -> u64| {
            classes.iter().map(of).sum()
        };
        let cache_hits = self.cache_counts().hits;
        Some(RoundTrips {
            records: sum(|class| class.count) + cache_hits,
            round_trips: sum(|class| class.round_trips),
            cache_hits,
        })
    }
}
