//! Threads that work on the partitions of a table side by side, and how far they have come.

use super::SnapshotError;
use crate::{Result, StoreError};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// The most threads: partitions beyond these wait.
const MOST_THREADS: usize = 16;

/// How far a snapshot or a restore has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotProgress {
    /// Records that are done, those of an attempt that was cut off included.
    pub records: u64,
    /// How many there are: of a snapshot, as the table's clients have counted them.
    pub of: u64,
}

/// Is called at intervals, by any thread. On `Break` the work stops with
/// [`SnapshotError::Stopped`], and the next attempt continues there.
pub type OnProgress<'f> = &'f (dyn Fn(SnapshotProgress) -> ControlFlow<()> + Sync);

/// How far all threads have come together.
pub(super) struct ProgressMeter<'f> {
    records: AtomicU64,
    of: u64,
    report: OnProgress<'f>,
    stopped: AtomicBool,
}

impl<'f> ProgressMeter<'f> {
    /// For so many records, of which some are done.
    pub(super) fn new(done: u64, of: u64, report: OnProgress<'f>) -> Self {
        Self {
            records: AtomicU64::new(done),
            of,
            report,
            stopped: AtomicBool::new(false),
        }
    }

    /// How many records are done.
    pub(super) fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// Counts records that are done.
    ///
    /// # Errors
    /// [`SnapshotError::Stopped`] if the caller has had enough, or another thread has failed.
    pub(super) fn add(&self, records: u64) -> Result<()> {
        let done = self.records.fetch_add(records, Ordering::Relaxed) + records;
        let progress = SnapshotProgress {
            records: done,
            of: self.of.max(done),
        };
        if (self.report)(progress).is_break() {
            self.stopped.store(true, Ordering::Relaxed);
        }
        match self.stopped.load(Ordering::Relaxed) {
            true => Err(SnapshotError::Stopped.into()),
            false => Ok(()),
        }
    }

    /// Does the jobs side by side. After a failure no other begins, and the others end soon.
    ///
    /// # Errors
    /// The first failure.
    pub(super) fn all<J: Send>(
        &self,
        jobs: Vec<J>,
        work: impl Fn(J) -> Result<()> + Sync,
    ) -> Result<()> {
        if jobs.len() <= 1 {
            return jobs.into_iter().try_for_each(work);
        }
        let threads = jobs.len().min(MOST_THREADS);
        let jobs = Mutex::new(jobs.into_iter());
        let failure = Mutex::new(None);
        let fail = |error: StoreError| {
            self.stopped.store(true, Ordering::Relaxed);
            let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(error);
        };
        let run = || {
            while !self.stopped.load(Ordering::Relaxed) {
                let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some(job) = job else { return };
                if let Err(error) = work(job) {
                    fail(error);
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..threads {
                if let Err(error) = thread::Builder::new().spawn_scoped(scope, run) {
                    let reason = error.to_string();
                    fail(StoreError::Thread { reason });
                }
            }
        });
        let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        failure.map_or(Ok(()), Err)
    }
}
