//! One thread reads, several put. The records of one key go to one thread, in the file's order, so
//! that the last of them stays.

use super::bad_lines::BadLines;
use crate::formats::{BadLine, Reader, Record};
use crate::shape::SchemeShape;
use crate::visit::is_missing;
use farslot::{Expiry, IndexError, Store, StoreError, Table};
use farslot_terminal::context::start_writing;
use farslot_terminal::failure::{Failure, Result};
use std::collections::{BTreeMap, HashSet};
use std::io::BufRead;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

/// Records that go to a thread at once.
const BATCH: usize = 256;
/// Batches that wait for a thread.
const WAITING: usize = 4;

/// What was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Records that were put.
    pub records: u64,
    /// Those whose key was new.
    pub new: u64,
    /// Whether the table can never change again.
    pub sealed: bool,
    /// Records that were not put because they have expired.
    pub expired: u64,
    /// Records that were not put because their nodes do not answer, by the nodes' addresses.
    pub unreached: BTreeMap<String, u64>,
}

/// Loads records into a table.
pub struct Loader<'a> {
    store: &'a Store,
    table: &'a Table,
    threads: usize,
    bad: &'a BadLines,
    partial: bool,
    ttl: Option<Duration>,
    stop: AtomicBool,
}

type Worker<'scope> = (
    SyncSender<Vec<Record>>,
    ScopedJoinHandle<'scope, (LoadReport, Result<()>)>,
);

impl<'a> Loader<'a> {
    /// A loader for a table, which every thread opens for itself.
    pub fn new(store: &'a Store, table: &'a Table, threads: usize, bad: &'a BadLines) -> Self {
        Self {
            store,
            table,
            threads,
            bad,
            partial: false,
            ttl: None,
            stop: AtomicBool::new(false),
        }
    }

    /// The same, which counts the records of nodes that do not answer in place of failing.
    pub fn of_nodes_that_answer(self) -> Self {
        Self {
            partial: true,
            ..self
        }
    }

    /// The same, whose records live for so long, if that is said.
    pub fn with_time_to_live(self, ttl: Option<Duration>) -> Self {
        Self { ttl, ..self }
    }

    /// Puts all records of a file.
    ///
    /// # Errors
    /// The first failure that is not of a line alone; it says how many records were put all the
    /// same.
    pub fn load<R: BufRead>(&mut self, reader: &mut Reader<R>) -> Result<LoadReport> {
        let name = self.table.name();
        let ordered = !SchemeShape::of(self.table.scheme()).multi_key;
        let mode = LoadMode {
            bad: self.bad,
            ordered,
            partial: self.partial,
            ttl: self.ttl,
        };
        let (store, stop) = (self.store, &self.stop);
        thread::scope(|scope| {
            let mut workers: Vec<Worker<'_>> = Vec::new();
            for _ in 0..self.threads.max(1) {
                let (sender, batches) = sync_channel(WAITING);
                let work = move || {
                    let mut loaded = LoadReport::default();
                    let done = mode.batches(store, name, &batches, &mut loaded);
                    if done.is_err() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    (loaded, done)
                };
                workers.push((sender, scope.spawn(work)));
            }
            let read = self.distribute(reader, &workers);
            collect(workers, read)
        })
    }

    fn distribute<R: BufRead>(&self, reader: &mut Reader<R>, workers: &[Worker<'_>]) -> Result<()> {
        let mut batches: Vec<Vec<Record>> = vec![Vec::new(); workers.len()];
        let read = self.read_into(reader, workers, &mut batches);
        // What was read is put, but for what stands behind a line that ends it all.
        for (batch, (sender, _)) in batches.into_iter().zip(workers) {
            // A worker that is gone tells why when it is joined.
            let _ = sender.send(batch);
        }
        read
    }

    fn read_into<R: BufRead>(
        &self,
        reader: &mut Reader<R>,
        workers: &[Worker<'_>],
        batches: &mut [Vec<Record>],
    ) -> Result<()> {
        while let Some(line) = reader.next().map_err(Failure::io("reading"))? {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let record = match line {
                Ok(record) => record,
                Err(line) => {
                    self.bad.add(line);
                    continue;
                }
            };
            // A line before it may be met as bad later, by the thread that puts it.
            if !self.bad.admits(record.line) {
                break;
            }
            let worker = xxhash_rust::xxh3::xxh3_64(&record.key) as usize % workers.len();
            let batch = &mut batches[worker];
            batch.push(record);
            if batch.len() == BATCH && workers[worker].0.send(std::mem::take(batch)).is_err() {
                break;
            }
        }
        Ok(())
    }
}

fn collect(workers: Vec<Worker<'_>>, read: Result<()>) -> Result<LoadReport> {
    let mut all = LoadReport::default();
    let mut outcome = read;
    for (sender, thread) in workers {
        drop(sender);
        let (loaded, done) = match thread.join() {
            Ok(joined) => joined,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        all.records += loaded.records;
        all.new += loaded.new;
        all.expired += loaded.expired;
        for (node, records) in loaded.unreached {
            *all.unreached.entry(node).or_default() += records;
        }
        outcome = outcome.and(done);
    }
    let records = all.records;
    outcome.map(|()| all).inspect_err(|_| {
        farslot_terminal::output::note(format_args!(
            "{} had been put before the failure",
            farslot_terminal::output::counted(records, "record")
        ));
    })
}

/// How a thread puts.
#[derive(Clone, Copy)]
struct LoadMode<'a> {
    bad: &'a BadLines,
    /// Whether the order of a key's records counts.
    ordered: bool,
    /// Whether records of nodes that do not answer are counted and left out.
    partial: bool,
    /// How long records live, if not for ever.
    ttl: Option<Duration>,
}

impl LoadMode<'_> {
    fn batches(
        self,
        store: &Store,
        table: &str,
        batches: &Receiver<Vec<Record>>,
        loaded: &mut LoadReport,
    ) -> Result<()> {
        let table = store.table(table)?;
        start_writing(&table)?;
        for batch in batches {
            for run in runs(&batch, self.ordered) {
                self.run(&table, run, loaded)?;
            }
        }
        Ok(table.close()?)
    }

    fn run(self, table: &Table, run: &[Record], loaded: &mut LoadReport) -> Result<()> {
        let (now, is_expiring) = (Expiry::now(), table.scheme().is_expiring());
        let mut run: Vec<&Record> = run
            .iter()
            .filter(|record| self.bad.admits(record.line))
            .collect();
        let mut some_expire = false;
        run.retain(|record| match record.expires {
            None => true,
            Some(_) if !is_expiring => {
                self.bad.add(no_moment(record.line));
                false
            }
            Some(expiry) => {
                some_expire = true;
                loaded.expired += u64::from(expiry.is_past(now));
                !expiry.is_past(now)
            }
        });
        let pairs: Vec<(&[u8], &[u8])> = run
            .iter()
            .map(|record| (&record.key[..], &record.value[..]))
            .collect();
        let done = |_, is_new| {
            loaded.records += 1;
            loaded.new += u64::from(is_new);
        };
        let default_expiry = self
            .ttl
            .map_or(Expiry::NEVER, |ttl| Expiry::after(ttl, now));
        let put = match self.ttl {
            _ if some_expire => {
                let expiries = run
                    .iter()
                    .map(|record| record.expires.unwrap_or(default_expiry));
                let records: Vec<_> = pairs.iter().copied().zip(expiries).collect();
                table.put_many_until(&records, done)
            }
            Some(ttl) => table.put_many_for(&pairs, ttl, done),
            None => table.put_many(&pairs, done),
        };
        let mut failed = Ok(());
        for (index, error) in put.err().into_iter().flatten() {
            match error {
                error if is_of_the_record(&error) => self.bad.add(BadLine {
                    line: run[index].line,
                    reason: error.to_string(),
                }),
                StoreError::Node { address, error } if self.partial && is_missing(&error) => {
                    *loaded.unreached.entry(address).or_default() += 1;
                }
                error => failed = failed.and(Err(error.into())),
            }
        }
        failed
    }
}

/// Cuts a batch so that no key stands twice in a piece, if the order of a key's records counts.
fn runs(batch: &[Record], ordered: bool) -> Vec<&[Record]> {
    let mut keys = HashSet::new();
    let mut runs = Vec::new();
    let mut start = 0;
    for (index, record) in batch.iter().enumerate() {
        if ordered && !keys.insert(&record.key) {
            runs.push(&batch[start..index]);
            start = index;
            keys.clear();
            keys.insert(&record.key);
        }
    }
    runs.push(&batch[start..]);
    runs
}

/// The line of a record that expires, and that is to be in a table whose records do not.
pub(super) fn no_moment(line: u64) -> BadLine {
    BadLine {
        line,
        reason: "it expires, and the records of this table cannot: make it with --expiring".into(),
    }
}

/// Whether the record alone is to blame: the next may well fit.
const fn is_of_the_record(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Index(
            IndexError::EmptyKey
                | IndexError::KeyLength { .. }
                | IndexError::ValueLength { .. }
                | IndexError::SixtyThreeBits { .. }
                | IndexError::ReservedPattern { .. }
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_stands_twice_in_a_run() {
        let batch: Vec<Record> = [1, 2, 1, 1, 3, 2]
            .map(|key| Record {
                key: vec![key],
                ..Record::default()
            })
            .into();
        let keys = |runs: Vec<&[Record]>| -> Vec<Vec<u8>> {
            let keys = |run: &[Record]| run.iter().map(|record| record.key[0]).collect();
            runs.into_iter().map(keys).collect()
        };
        assert_eq!(
            keys(runs(&batch, true)),
            [vec![1, 2], vec![1], vec![1, 3, 2]]
        );
        assert_eq!(keys(runs(&batch, false)), [vec![1, 2, 1, 1, 3, 2]]);
    }
}
