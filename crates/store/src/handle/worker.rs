//! A worker: a thread with a table of its own, which does what is in the queue, all of it at once.

use super::queue::Queue;
use super::request::{Ask, OwnedOperation, Request};
use crate::{ErrorKind, Operation, Outcome, Result, Store, StoreError, Table};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Requests that a worker takes at a time.
const BATCH: usize = 256;

/// A worker. Its table belongs to its thread.
pub(super) struct Worker {
    queue: Arc<Queue>,
    store: Store,
    name: String,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.queue.leave();
    }
}

impl Worker {
    /// One that has not begun. It is counted by the queue, and leaves it when it is dropped.
    pub(super) fn new(queue: Arc<Queue>, store: Store, name: String) -> Self {
        Self { queue, store, name }
    }

    /// Works until the queue is closed and empty.
    pub(super) fn run(self) {
        let mut table = None;
        while let Some(requests) = self.queue.take(BATCH) {
            let batch = Batch(requests);
            // A bug, or a caller's closure: this batch fails, and nothing else.
            let served = catch_unwind(AssertUnwindSafe(|| self.serve(&mut table, &batch)));
            if served.is_err() {
                log::error!("a worker of the handle of {:?} has panicked", self.name);
            }
        }
        if let Some(table) = table
            && let Err(error) = table.close()
        {
            log::warn!("a worker's table {:?} was not closed: {error}", self.name);
        }
    }

    /// Does a batch. The table stays unless it is to be opened again.
    fn serve(&self, kept: &mut Option<Table>, batch: &Batch) {
        let table = match kept.take().map_or_else(|| self.open(), Ok) {
            Ok(table) => table,
            Err(error) => return batch.fail(&error),
        };
        let (mut numbers, mut operations, mut calls) = (Vec::new(), Vec::new(), Vec::new());
        for (number, request) in batch.0.iter().enumerate() {
            match request.take() {
                Some(Ask::Operation(operation)) => {
                    numbers.push(number);
                    operations.push(operation);
                }
                Some(Ask::Call(call)) => calls.push((request, call)),
                None => {}
            }
        }
        let borrowed: Vec<Operation<'_>> = operations.iter().map(OwnedOperation::get).collect();
        let mut is_gone = false;
        table.run_many(&borrowed, |at, outcome| {
            let outcome = outcome.map(|outcome| outcome.map(|value| value.to_vec()));
            // Another client has dropped, emptied or renamed it.
            is_gone |= matches!(&outcome, Err(error) if error.kind() == ErrorKind::TableGone);
            batch.0[numbers[at]].finish(outcome);
        });
        // Behind the operations, which a closure that panics does not concern.
        for (request, call) in calls {
            call(&table);
            request.finish(Ok(Outcome::Changed(true)));
        }
        *kept = Some(table).filter(|_| !is_gone);
    }

    fn open(&self) -> Result<Table> {
        self.store.table(&self.name)
    }
}

/// Requests of a worker: none is left without an answer.
struct Batch(Vec<Arc<Request>>);

impl Batch {
    fn fail(&self, error: &StoreError) {
        self.0
            .iter()
            .for_each(|request| request.finish(Err(error.clone())));
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // Changes nothing of those that are done.
        self.fail(&StoreError::WorkerPanicked);
    }
}
