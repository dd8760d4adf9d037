//! What the tables of a program do: counted by their endpoints anyway, timed where somebody asks.

use crate::ErrorKind;
use crate::recent_log::RecentLog;
use farslot_fabric::Nanos;
use farslot_fabric::OperationClass;
use farslot_fabric::counters::CounterSnapshot;
use farslot_index::{OPERATIONS, Operation, SCAN, UPKEEP};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Counters and latencies of all tables that are opened with them
/// ([`OpenOptions::metrics`](crate::OpenOptions::metrics)), by the tables' names. Clones share
/// them, among stores and threads too.
///
/// An operation costs two looks at the clock and two atomic additions more. Counters of verbs and
/// bytes are those of the tables' endpoints, added up ten times a second and when a table is
/// closed. The last operations that took long are remembered
/// ([`ClientMetrics::slow_operations`]).
///
/// ```
/// use farslot::metrics::ClientMetrics;
/// use farslot::{OpenOptions, Store, TableOptions};
///
/// # fn main() -> Result<(), farslot::StoreError> {
/// let metrics = ClientMetrics::default();
/// let options = OpenOptions {
///     metrics: Some(metrics.clone()),
///     ..OpenOptions::default()
/// };
/// let store = Store::embedded_with(64 << 20, options)?;
/// store.create("stock", &TableOptions::default())?;
/// let stock = store.table("stock")?;
/// stock.put(b"pears", b"7")?;
/// stock.close()?;
/// let of_stock = &metrics.tables()[0];
/// assert_eq!(of_stock.table, "stock");
/// assert_eq!(of_stock.latency("put").unwrap().count(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct ClientMetrics(Arc<AllMetrics>);

#[derive(Default)]
struct AllMetrics {
    tables: Mutex<BTreeMap<String, Arc<TableCounters>>>,
    slow: Arc<SlowOperations>,
}

impl fmt::Debug for ClientMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientMetrics(..)")
    }
}

/// The same are those that are shared.
impl PartialEq for ClientMetrics {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// What the tables of one name have done.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TableMetrics {
    /// Their name.
    pub table: String,
    /// How many are open now.
    pub open: u64,
    /// What their endpoints have counted, by class of operation in the order of
    /// [`TableMetrics::OPERATIONS`]; how many operations there were is as they were asked for. (One
    /// that has to look first whether a record has expired looks by verbs of a get.)
    pub counters: CounterSnapshot,
    /// Operations that failed, by kind of error.
    pub errors: [u64; ErrorKind::ALL.len()],
    /// How long operations have taken that were asked for one by one, by class.
    pub latencies: [Latencies; CLASSES],
    /// How long batches have taken.
    pub batches: Latencies,
}

const CLASSES: usize = OPERATIONS.len();
/// A kind is the place of its counter.
const _: () = assert!(ErrorKind::ALL.len() == ErrorKind::Other as usize + 1);

impl TableMetrics {
    /// The names of all classes of operations.
    pub const OPERATIONS: [&'static str; CLASSES] = {
        let mut names = [""; CLASSES];
        let mut class = 0;
        while class < CLASSES {
            names[class] = OPERATIONS[class].1;
            class += 1;
        }
        names
    };

    /// The latencies of one class, by its name.
    #[must_use]
    pub fn latency(&self, operation: &str) -> Option<&Latencies> {
        let class = Self::OPERATIONS.iter().position(|name| *name == operation);
        class.map(|class| &self.latencies[class])
    }
}

/// Upper bounds of the classes of latencies, in nanoseconds.
pub const LATENCY_BOUNDS: [Nanos; 23] = {
    let mut bounds = [0; 23];
    let mut at = 0;
    let mut decade: Nanos = 100;
    while at + 2 < bounds.len() {
        bounds[at] = decade;
        bounds[at + 1] = decade / 2 * 5;
        bounds[at + 2] = decade * 5;
        decade *= 10;
        at += 3;
    }
    bounds[at] = decade;
    bounds[at + 1] = decade * 10;
    bounds
};

/// How often something has taken how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Latencies {
    /// How often it took at most the bound of that number in [`LATENCY_BOUNDS`], and longer than
    /// the bound before; the last is of what took longer than all bounds.
    pub counts: [u64; LATENCY_BOUNDS.len() + 1],
    /// Nanoseconds in all.
    pub sum: u64,
}

impl Latencies {
    /// How often in all.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[derive(Default)]
struct Histogram {
    counts: [AtomicU64; LATENCY_BOUNDS.len() + 1],
    sum: AtomicU64,
}

impl Histogram {
    fn add(&self, took: Nanos) {
        let class = LATENCY_BOUNDS.partition_point(|bound| *bound < took);
        self.counts[class].fetch_add(1, Relaxed);
        self.sum.fetch_add(took, Relaxed);
    }

    fn get(&self) -> Latencies {
        Latencies {
            counts: std::array::from_fn(|class| self.counts[class].load(Relaxed)),
            sum: self.sum.load(Relaxed),
        }
    }
}

/// What is counted of the tables of one name.
#[derive(Default)]
pub(crate) struct TableCounters {
    open: AtomicU64,
    counters: Mutex<CounterSnapshot>,
    errors: [AtomicU64; ErrorKind::ALL.len()],
    latencies: [Histogram; CLASSES],
    batches: Histogram,
    /// Operations of batches, by class.
    batched: [AtomicU64; CLASSES],
}

impl ClientMetrics {
    /// What the tables have done, by their names.
    #[must_use]
    pub fn tables(&self) -> Vec<TableMetrics> {
        let all = self.0.by_name();
        let of_table = |(name, counted): (&String, &Arc<TableCounters>)| counted.get(name);
        all.iter().map(of_table).collect()
    }

    /// Where tables of that name are counted.
    pub(crate) fn of_table(&self, name: &str) -> Arc<TableCounters> {
        Arc::clone(self.0.by_name().entry(name.to_owned()).or_default())
    }

    /// The last operations that took long, the latest first: at most 128.
    #[must_use]
    pub fn slow_operations(&self) -> Vec<SlowOperation> {
        self.0.slow.last.map(SlowOperation::clone)
    }

    /// Remembers operations that take so long or longer, from now on: by default 10 ms.
    pub fn set_slower_than(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.slow.slower_than.store(nanos, Relaxed);
    }

    pub(crate) fn slow_log(&self) -> Arc<SlowOperations> {
        Arc::clone(&self.0.slow)
    }
}

impl AllMetrics {
    fn by_name(&self) -> MutexGuard<'_, BTreeMap<String, Arc<TableCounters>>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An operation, or a batch of them, that took long.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SlowOperation {
    /// When it had ended.
    pub at: SystemTime,
    /// How long it took, by the clock of the table's endpoint.
    pub took: Duration,
    /// The table's name.
    pub table: String,
    /// What it was, by a name of [`TableMetrics::OPERATIONS`]; of a batch its first operation.
    pub operation: &'static str,
    /// How many operations there were: 1 if it was no batch.
    pub operations: usize,
    /// The key, or the first of a batch, or 128 bytes of it.
    pub key: Vec<u8>,
    /// What an operation failed with that was no batch.
    pub error: Option<ErrorKind>,
}

/// Bytes of a key that are remembered.
const KEY: usize = 128;

/// The last operations that took long.
pub(crate) struct SlowOperations {
    slower_than: AtomicU64,
    last: RecentLog<SlowOperation>,
}

impl Default for SlowOperations {
    fn default() -> Self {
        Self {
            slower_than: AtomicU64::new(10_000_000),
            last: RecentLog::default(),
        }
    }
}

impl SlowOperations {
    /// Remembers operations, if they took long.
    pub(crate) fn note(
        &self,
        table: &str,
        (first, operations): (&Operation<'_>, usize),
        took: Nanos,
        error: Option<ErrorKind>,
    ) {
        if took < self.slower_than.load(Relaxed) {
            return;
        }
        let key = first.key();
        self.last.add(|_| SlowOperation {
            at: SystemTime::now(),
            took: Duration::from_nanos(took),
            table: table.to_owned(),
            operation: first.name(),
            operations,
            key: key[..key.len().min(KEY)].to_vec(),
            error,
        });
    }
}

impl TableCounters {
    pub(crate) fn opened(&self) {
        self.open.fetch_add(1, Relaxed);
    }

    pub(crate) fn closed(&self) {
        self.open.fetch_sub(1, Relaxed);
    }

    pub(crate) fn ran(&self, operation: &Operation<'_>, took: Nanos) {
        self.latencies[usize::from(operation.class().0)].add(took);
    }

    pub(crate) fn ran_batch(&self, took: Nanos) {
        self.batches.add(took);
    }

    /// Counts the operations of a batch, of these classes.
    pub(crate) fn batched(&self, classes: impl Iterator<Item = OperationClass>) {
        let mut counts = [0; CLASSES];
        classes.for_each(|class| counts[usize::from(class.0)] += 1);
        for (all, count) in self
            .batched
            .iter()
            .zip(counts)
            .filter(|(_, count)| *count > 0)
        {
            all.fetch_add(count, Relaxed);
        }
    }

    pub(crate) fn failed(&self, kind: ErrorKind) {
        self.errors[kind as usize].fetch_add(1, Relaxed);
    }

    /// Adds what an endpoint has counted.
    pub(crate) fn add(&self, more: &CounterSnapshot) {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        *counters = counters.plus(more);
    }

    fn get(&self, name: &str) -> TableMetrics {
        let latencies: [Latencies; CLASSES] =
            std::array::from_fn(|class| self.latencies[class].get());
        let mut counters = *self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        for (class, (of, _)) in OPERATIONS.iter().enumerate() {
            // These nobody has timed.
            if ![SCAN, UPKEEP].contains(of) {
                let batched = self.batched[class].load(Relaxed);
                counters.operations[class].count = latencies[class].count() + batched;
            }
        }
        TableMetrics {
            table: name.to_owned(),
            open: self.open.load(Relaxed),
            counters,
            errors: std::array::from_fn(|kind| self.errors[kind].load(Relaxed)),
            latencies,
            batches: self.batches.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_has_its_class() {
        assert!(LATENCY_BOUNDS.is_sorted_by(|one, next| one < next));
        assert_eq!(
            (LATENCY_BOUNDS[1], LATENCY_BOUNDS[22]),
            (250, 10_000_000_000)
        );
        let histogram = Histogram::default();
        for took in [0, 100, 101, Nanos::MAX] {
            histogram.add(took);
        }
        let counts = histogram.get().counts;
        assert_eq!((counts[0], counts[1], counts[23]), (2, 1, 1));
        assert_eq!(histogram.get().count(), 4);
    }
}
