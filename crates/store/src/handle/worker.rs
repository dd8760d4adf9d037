//! A worker: a thread with a table of its own, which does what is in the queue, a batch at a time.

use super::batch::{Desk, RequestBatch};
use super::opener::Opener;
use super::queue::Queue;
use crate::{Cursor, Operation, Outcome, Result, StoreError, Table};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A worker. Its table belongs to its thread.
pub(super) struct Worker {
    queue: Arc<Queue>,
    opener: Arc<Opener>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.queue.leave();
    }
}

impl Worker {
    /// One that has not begun. It is counted by the queue, and leaves it when it is dropped.
    pub(super) fn new(queue: Arc<Queue>, opener: Arc<Opener>) -> Self {
        Self { queue, opener }
    }

    /// Works until the queue is closed and empty.
    pub(super) fn run(self) {
        let mut table = None;
        let mut desk = Desk::default();
        while let Some(batch) = self.queue.take(&mut desk) {
            // A bug, or a caller's closure: what is left of this batch fails, and nothing else.
            let served = catch_unwind(AssertUnwindSafe(|| {
                self.serve(&mut table, batch, &mut desk);
            }));
            if served.is_err() {
                log::error!(
                    "a worker of the handle of {:?} has panicked",
                    self.opener.name
                );
            }
            self.queue.finish(batch, &mut desk);
        }
        if let Some(table) = table
            && let Err(error) = table.close()
        {
            log::warn!(
                "a worker's table {:?} was not closed: {error}",
                self.opener.name
            );
        }
    }

    /// Does a batch. The table stays unless it is to be opened again.
    fn serve(&self, kept: &mut Option<Table>, batch: usize, desk: &mut Desk) {
        let Desk {
            requests, answers, ..
        } = desk;
        answers.begin(requests.len());
        let table = match kept.take().map_or_else(|| self.opener.open(), Ok) {
            Ok(table) => table,
            Err(error) => {
                return (0..requests.len())
                    .for_each(|number| answers.keep(number, Err(error.clone())));
            }
        };
        let mut is_gone = false;
        let mut look = |error: &StoreError| is_gone |= self.opener.is_gone(&table, error);
        if let Some(call) = requests.take_call() {
            let _ = call(&table).inspect_err(look);
            answers.keep(0, Ok(Outcome::Changed(true)));
        } else if table.next_partition(Cursor::default()).is_some() {
            // What one node does not answer shall not keep the answers of others back.
            answers.begin(0);
            self.queue.begin_telling(batch);
            run(&table, requests, |number, outcome| {
                let _ = outcome.as_ref().inspect_err(|error| look(error));
                let outcome = outcome.map(|outcome| outcome.map(|value| value.to_vec()));
                self.queue.tell(batch, number, outcome);
            });
        } else if requests.are_gets() {
            let (numbers, keys): (Vec<_>, Vec<_>) = requests
                .operations()
                .map(|(number, get)| (number, get.key()))
                .unzip();
            let got = table.get_many(&keys, |at, value| answers.keep_value(numbers[at], value));
            for (at, error) in got.err().into_iter().flatten() {
                look(&error);
                answers.keep(numbers[at], Err(error));
            }
        } else {
            run(&table, requests, |number, outcome| match outcome {
                Ok(Outcome::Value(value)) => answers.keep_value(number, value.as_deref()),
                outcome => {
                    let _ = outcome.as_ref().inspect_err(|error| look(error));
                    let outcome = outcome.map(|outcome| outcome.map(|value| value.to_vec()));
                    answers.keep(number, outcome);
                }
            });
        }
        *kept = Some(table).filter(|_| !is_gone);
    }
}

/// Runs all operations of a batch.
fn run(table: &Table, requests: &RequestBatch, mut done: impl FnMut(usize, Result<Outcome>)) {
    let (numbers, operations): (Vec<usize>, Vec<Operation<'_>>) = requests.operations().unzip();
    if !operations.is_empty() {
        table.run_each(&operations, |at, outcome| done(numbers[at], outcome));
    }
    let (numbers, puts): (Vec<usize>, Vec<_>) = requests.puts_for().unzip();
    if !puts.is_empty() {
        table.put_each_for(puts.into_iter(), |at, put| {
            done(numbers[at], put.map(Outcome::Changed));
        });
    }
}
