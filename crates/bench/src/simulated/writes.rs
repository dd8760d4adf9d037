//! Tables of any kind that are written in memory of this process, and what writes to them take
//! behind a simulated NIC.

use super::memory::TableMemory;
use super::records::Records;
use super::table::SimulatedTable;
use crate::Result;
use crate::answers::Answers;
use farslot::bare::Leased;
use farslot::fabric::sim::World;
use farslot::fabric::{AnyEndpoint, Endpoint, Executor, Limits, OperationClass};
use farslot::index::{Index, IndexExt, PUT, UPDATE, UPKEEP, WriterChange};
use std::ops::Range;

/// A table that records are put into, one after the other.
pub struct WrittenTable {
    /// How clients open it.
    pub table: SimulatedTable,
    /// The memory that it lies in.
    pub memory: TableMemory,
}

impl WrittenTable {
    /// An empty table.
    ///
    /// # Errors
    /// Where there is not so much memory.
    pub fn new(table: SimulatedTable) -> Result<Self> {
        let memory = TableMemory::new(table.scheme.table_bytes())?;
        Ok(Self { table, memory })
    }

    /// Does writes. Nobody is the writer afterwards.
    ///
    /// # Errors
    /// [`BenchError::WrongAnswers`](crate::BenchError::WrongAnswers), or what the table says.
    pub fn write(&self, records: &Records, writes: &Writes) -> Result<()> {
        let executor = self.memory.executor();
        let writer = executor.block_on(self.table.open(executor.endpoint()))?;
        executor.block_on(all(&*writer, records, writes))?;
        executor.block_on(writer.flush())?;
        Ok(executor.block_on(writer.change_writer(WriterChange::Resign))?)
    }
}

/// Writes, of records known by their numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Writes {
    /// Puts of records that are not there.
    Puts(Range<u32>),
    /// Updates of records that are there, to the value that they have.
    Updates(Vec<u32>),
}

impl Writes {
    const fn class(&self) -> OperationClass {
        match self {
            Self::Puts(_) => PUT,
            Self::Updates(_) => UPDATE,
        }
    }
}

/// What writes took, on average.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct WriteCost {
    /// Nanoseconds of virtual time, without what was upkeep: small tables count more often.
    pub latency_ns: f64,
    /// Batches of verbs, one after the other.
    pub round_trips: f64,
    /// Verbs.
    pub verbs: f64,
    /// Bytes of payload.
    pub bytes: f64,
}

impl WriteCost {
    /// Has one client do writes, one after the other, to the table at node 0 of an idle world. It
    /// is the writer already when the clock starts, where a table has one.
    ///
    /// # Errors
    /// [`BenchError::WrongAnswers`](crate::BenchError::WrongAnswers), or what the table says.
    pub fn one_by_one(
        table: &SimulatedTable,
        world: &World,
        records: &Records,
        writes: &Writes,
    ) -> Result<Self> {
        let endpoint = AnyEndpoint::Sim(world.endpoint(Limits::default()));
        let executor = Executor::new(Leased::new(endpoint));
        let writer = executor.block_on(table.open(executor.endpoint()))?;
        // Makes it the writer.
        let first = (records.key(0), records.value(0));
        executor.block_on(writer.put(&first.0, &first.1))?;
        let counted = || executor.endpoint().core().counters.snapshot();
        let (before, begun) = (counted(), executor.endpoint().now());
        let count = executor.block_on(all(&*writer, records, writes))?;
        let took = (executor.endpoint().now() - begun) as f64;
        let spent = counted().since(&before);
        let (of_writes, upkeep) = (spent.operation(writes.class()), spent.operation(UPKEEP));
        // It adds to counts, for which nothing else waits.
        let profile = world.profile();
        let one = profile.read_latency_ns + 8.0 * profile.latency_per_byte_ns + profile.atomic_ns;
        let each = |sum: u64| sum as f64 / count.max(1) as f64;
        Ok(Self {
            latency_ns: (took - upkeep.round_trips as f64 * one) / count.max(1) as f64,
            round_trips: each(of_writes.round_trips),
            verbs: each(of_writes.verbs),
            bytes: each(of_writes.bytes),
        })
    }
}

/// Does writes one after the other; returns how many.
async fn all(index: &dyn Index, records: &Records, writes: &Writes) -> Result<u64> {
    let mut answers = Answers::default();
    match writes {
        Writes::Puts(numbers) => {
            for record in numbers.clone() {
                let (key, value) = (records.key(record), records.value(record));
                answers.note(index.put(&key, &value).await);
            }
        }
        Writes::Updates(numbers) => {
            for record in numbers {
                let (key, value) = (records.key(*record), records.value(*record));
                answers.note(index.update(&key, &value).await);
            }
        }
    }
    let count = answers.count();
    answers.check()?;
    Ok(count)
}
