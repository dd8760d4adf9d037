//! A session whose operations are counted and timed: each once, whatever it takes to do it.

use crate::client_metrics::{ClientMetrics, SlowOperations, TableCounters};
use crate::session::{AnswerEach, Client, OutcomeOfEach, Session, SessionRequest};
use crate::{Cursor, Operation, Outcome, Result, StoreError};
use farslot_fabric::counters::CounterSnapshot;
use farslot_fabric::{Endpoint, Nanos};
use farslot_index::{Answers, GET, PUT, Value};
use std::borrow::Borrow;
use std::cell::Cell;
use std::sync::Arc;

/// How long what an endpoint counts may wait to be added.
const ADD_EVERY: Nanos = 100_000_000;

/// A session, and where it is counted.
pub(crate) struct MeasuredSession {
    session: Box<dyn Session>,
    table: String,
    counted: Arc<TableCounters>,
    slow: Arc<SlowOperations>,
    /// What was added of the endpoint's counters, and when.
    added: Cell<CounterSnapshot>,
    added_at: Cell<Nanos>,
}

impl MeasuredSession {
    /// A session with a table of that name.
    pub(crate) fn new(session: Box<dyn Session>, table: &str, metrics: &ClientMetrics) -> Self {
        let counted = metrics.of_table(table);
        counted.opened();
        let added_at = Cell::new(session.now());
        Self {
            session,
            table: table.to_owned(),
            counted,
            slow: metrics.slow_log(),
            added: Cell::default(),
            added_at,
        }
    }

    fn add_counters(&self) {
        let endpoint = self.session.client().endpoint();
        let counters = endpoint.core().counters.snapshot();
        let before = self.added.replace(counters);
        self.counted.add(&counters.since(&before));
    }

    /// Does something, and returns what comes of it and how long it took.
    fn timed<T>(&self, does: impl FnOnce(&dyn Session) -> T) -> (T, Nanos) {
        let since = self.session.now();
        let done = does(&*self.session);
        (done, self.passed(since))
    }

    /// How long it is since then. Adds the counters now and then.
    fn passed(&self, since: Nanos) -> Nanos {
        let now = self.session.now();
        if now.saturating_sub(self.added_at.get()) >= ADD_EVERY {
            self.added_at.set(now);
            self.add_counters();
        }
        now.saturating_sub(since)
    }

    fn checked<T>(&self, result: Result<T>) -> Result<T> {
        result.inspect_err(|error| self.counted.failed(error.kind()))
    }

    fn note_failure<T>(
        &self,
        answers: &Answers<'_, std::result::Result<T, impl Borrow<StoreError>>>,
    ) {
        if let Answers::One(_, Err(error)) = answers {
            self.counted.failed(error.borrow().kind());
        }
    }

    fn one<T>(
        &self,
        operation: &Operation<'_>,
        does: impl FnOnce(&dyn Session) -> Result<T>,
    ) -> Result<T> {
        let (result, took) = self.timed(does);
        self.counted.ran(operation, took);
        let error = result.as_ref().err().map(StoreError::kind);
        self.slow.note(&self.table, (operation, 1), took, error);
        self.checked(result)
    }

    fn batch(&self, operations: &[Operation<'_>], does: impl FnOnce(&dyn Session)) {
        let ((), took) = self.timed(does);
        self.counted.ran_batch(took);
        if let Some(first) = operations.first() {
            let all = (first, operations.len());
            self.slow.note(&self.table, all, took, None);
        }
        self.counted
            .batched(operations.iter().map(Operation::class));
    }

    /// Something else, which is not timed.
    fn other<T>(&self, does: impl FnOnce(&dyn Session) -> Result<T>) -> Result<T> {
        let (result, _) = self.timed(does);
        self.checked(result)
    }
}

impl Drop for MeasuredSession {
    fn drop(&mut self) {
        self.add_counters();
        self.counted.closed();
    }
}

impl Session for MeasuredSession {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.one(&Operation::Get(key), |session| session.get(key))
    }

    fn prefetch(&self, key: &[u8]) -> bool {
        self.session.prefetch(key)
    }

    fn run(&self, operation: Operation<'_>) -> Result<Outcome> {
        self.one(&operation, |session| session.run(operation))
    }

    fn get_many(&self, keys: &[&[u8]], done: AnswerEach<'_>) {
        let ((), took) = self.timed(|session| {
            session.get_many(keys, &mut |answers| {
                self.note_failure(&answers);
                done(answers);
            });
        });
        self.counted.ran_batch(took);
        if let Some(first) = keys.first() {
            let all = (&Operation::Get(first), keys.len());
            self.slow.note(&self.table, all, took, None);
        }
        self.counted.batched(keys.iter().map(|_| GET));
    }

    fn run_many(
        &self,
        left: Option<&Cell<Nanos>>,
        operations: &[Operation<'_>],
        done: OutcomeOfEach<'_>,
    ) {
        self.batch(operations, |session| {
            session.run_many(left, operations, &mut |outcomes| {
                self.note_failure(&outcomes);
                done(outcomes);
            });
        });
    }

    fn scan(
        &self,
        cursor: Cursor,
        most: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        self.other(|session| session.scan(cursor, most, visit))
    }

    fn client(&self) -> &dyn Client {
        self.session.client()
    }

    fn did(&self, asked: SessionRequest<'_>, since: Nanos) {
        match asked {
            SessionRequest::One(operation) => {
                let took = self.passed(since);
                self.counted.ran(&operation, took);
                self.slow.note(&self.table, (&operation, 1), took, None);
            }
            SessionRequest::Puts(puts) => {
                let took = self.passed(since);
                self.counted.ran_batch(took);
                let first = Operation::Put(&[], &[]);
                self.slow.note(&self.table, (&first, puts), took, None);
                self.counted.batched((0..puts).map(|_| PUT));
            }
            SessionRequest::Admin => drop(self.passed(since)),
        }
    }

    fn failed(&self, error: &StoreError) {
        self.counted.failed(error.kind());
    }

    fn beneath(&self) -> Option<&dyn Session> {
        self.session.beneath()
    }
}
