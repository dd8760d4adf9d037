//! Spans of operations, by the crate `tracing` and with the attributes that OpenTelemetry has for
//! databases. A span that nobody subscribes to costs one look at a flag. Numbers are signed: others
//! become text there.

use crate::session::{AnswerEach, Client, OperationGuard, OutcomeOfEach, Session, SessionRequest};
use crate::{Cursor, Operation, Outcome, Result, StoreError};
use farslot_fabric::counters::CounterSnapshot;
use farslot_fabric::{Endpoint, Nanos};
use farslot_index::{Answers, Outcomes, Value};
use std::borrow::Borrow;
use std::cell::{Cell, RefCell};
use tracing::Span;
use tracing::field::Empty;
use tracing::span::EnteredSpan;

/// A session, and the table whose name its spans have.
pub(crate) struct Traced {
    session: Box<dyn Session>,
    table: String,
    /// The span that is under way, for what is told of it by others.
    current: RefCell<Option<Span>>,
}

/// An operation under way.
struct OperationSpan<'t> {
    traced: &'t Traced,
    span: EnteredSpan,
    /// The span in which this one began.
    outer: Option<Span>,
    before: CounterSnapshot,
}

impl Traced {
    pub(crate) fn new(session: Box<dyn Session>, table: &str) -> Self {
        Self {
            session,
            table: table.to_owned(),
            current: RefCell::default(),
        }
    }

    fn counters(&self) -> CounterSnapshot {
        let endpoint = self.session.client().endpoint();
        endpoint.core().counters.snapshot()
    }

    /// Begins the span of so many operations, the first of that name; nothing if nobody wants it.
    fn begin(&self, operation: &'static str, operations: usize) -> Option<OperationSpan<'_>> {
        let table = &*self.table;
        let span = tracing::debug_span!(
            target: "farslot",
            "operation",
            otel.name = format!("{operation} {table}"),
            otel.kind = "client",
            otel.status_code = Empty,
            db.system.name = "farslot",
            db.collection.name = table,
            db.operation.name = operation,
            db.operation.batch.size = Empty,
            "error.type" = Empty,
            farslot.outcome = Empty,
            farslot.errors = Empty,
            farslot.round_trips = Empty,
        );
        if span.is_disabled() {
            return None;
        }
        if operations != 1 {
            span.record("db.operation.batch.size", operations as i64);
        }
        let outer = self.current.replace(Some(span.clone()));
        Some(OperationSpan {
            traced: self,
            span: span.entered(),
            outer,
            before: self.counters(),
        })
    }

    /// Does something of one operation.
    fn one<T>(
        &self,
        operation: &Operation<'_>,
        does: impl FnOnce(&dyn Session) -> Result<T>,
        outcome: impl FnOnce(&T) -> &'static str,
    ) -> Result<T> {
        let open = self.begin(operation.name(), 1);
        let result = does(&*self.session);
        if let Some(open) = &open {
            match &result {
                Ok(done) => drop(open.span.record("farslot.outcome", outcome(done))),
                Err(error) => note_failure(&open.span, error),
            }
        }
        result
    }
}

impl Drop for OperationSpan<'_> {
    fn drop(&mut self) {
        let counters = self.traced.counters().since(&self.before);
        let round_trips = counters.operations.iter().map(|of| of.round_trips);
        let round_trips: u64 = round_trips.sum();
        self.span.record("farslot.round_trips", round_trips as i64);
        self.traced.current.replace(self.outer.take());
    }
}

impl OperationGuard for OperationSpan<'_> {}

fn note_failure(span: &Span, error: &StoreError) {
    span.record("error.type", error.kind().name());
    span.record("otel.status_code", "ERROR");
}

/// Counts the failures of a batch, whose span has the kind of the first.
struct Failures<'o>(Option<&'o Span>, Cell<i64>);

impl<'o> Failures<'o> {
    fn of(open: &'o Option<OperationSpan<'o>>) -> Self {
        Self(open.as_ref().map(|open| &*open.span), Cell::new(0))
    }

    fn look<T>(&self, answers: &Answers<'_, std::result::Result<T, impl Borrow<StoreError>>>) {
        if let (Some(span), Answers::One(_, Err(error))) = (self.0, answers) {
            if self.1.get() == 0 {
                note_failure(span, error.borrow());
            }
            self.1.set(self.1.get() + 1);
        }
    }
}

impl Drop for Failures<'_> {
    fn drop(&mut self) {
        if let Some(span) = self.0.filter(|_| self.1.get() > 0) {
            span.record("farslot.errors", self.1.get());
        }
    }
}

const fn found(is_found: bool) -> &'static str {
    if is_found { "found" } else { "absent" }
}

/// What an operation has come to, in a word.
fn word(operation: &Operation<'_>, outcome: &Outcome) -> &'static str {
    match (operation, outcome) {
        (_, Outcome::Value(value)) => found(value.is_some()),
        (_, Outcome::Values(values)) => found(!values.is_empty()),
        (Operation::Put(..), Outcome::Changed(true)) => "new",
        (_, Outcome::Changed(true)) => "changed",
        (Operation::Put(..), Outcome::Changed(false)) => "replaced",
        (_, Outcome::Changed(false)) => "unchanged",
    }
}

impl Session for Traced {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        let get = |session: &dyn Session| session.get(key);
        self.one(&Operation::Get(key), get, |value| found(value.is_some()))
    }

    fn prefetch(&self, key: &[u8]) -> bool {
        self.session.prefetch(key)
    }

    fn run(&self, operation: Operation<'_>) -> Result<Outcome> {
        let run = |session: &dyn Session| session.run(operation);
        self.one(&operation, run, |outcome| word(&operation, outcome))
    }

    fn get_many(&self, keys: &[&[u8]], done: AnswerEach<'_>) {
        let open = self.begin("get", keys.len());
        let failures = Failures::of(&open);
        self.session.get_many(keys, &mut |answers| {
            failures.look(&answers);
            done(answers);
        });
    }

    fn run_many(
        &self,
        left: Option<&Cell<Nanos>>,
        operations: &[Operation<'_>],
        done: OutcomeOfEach<'_>,
    ) {
        let first = operations.first().map_or("get", Operation::name);
        let open = self.begin(first, operations.len());
        let failures = Failures::of(&open);
        let mut done = |outcomes: Outcomes<'_, StoreError>| {
            failures.look(&outcomes);
            done(outcomes);
        };
        self.session.run_many(left, operations, &mut done);
    }

    fn scan(
        &self,
        cursor: Cursor,
        most: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        let open = self.begin("scan", 1);
        let result = self.session.scan(cursor, most, visit);
        if let (Some(open), Err(error)) = (&open, &result) {
            note_failure(&open.span, error);
        }
        result
    }

    fn client(&self) -> &dyn Client {
        self.session.client()
    }

    fn now(&self) -> Nanos {
        self.session.now()
    }

    fn begun(&self, asked: &SessionRequest<'_>) -> Option<Box<dyn OperationGuard + '_>> {
        let (name, operations) = match asked {
            SessionRequest::One(operation) => (operation.name(), 1),
            SessionRequest::Puts(puts) => ("put", *puts),
            SessionRequest::Admin => ("upkeep", 1),
        };
        let open = self.begin(name, operations)?;
        Some(Box::new(open))
    }

    fn did(&self, asked: SessionRequest<'_>, since: Nanos) {
        self.session.did(asked, since);
    }

    fn failed(&self, error: &StoreError) {
        if let Some(span) = &*self.current.borrow() {
            note_failure(span, error);
        }
        self.session.failed(error);
    }

    fn beneath(&self) -> Option<&dyn Session> {
        self.session.beneath()
    }
}

/// The span of a call's turn at the owner of the memory, which ends with what it returns.
pub(crate) fn turn(table: &str, operations: &[Operation<'_>], grant: Option<&str>) -> EnteredSpan {
    let first = operations.first().map_or("call", Operation::name);
    let span = tracing::debug_span!(
        target: "farslot",
        "turn",
        otel.name = format!("{first} {table}"),
        otel.kind = "server",
        db.system.name = "farslot",
        db.collection.name = table,
        db.operation.name = first,
        db.operation.batch.size = operations.len() as i64,
        farslot.grant = grant,
        farslot.later = Empty,
    );
    span.entered()
}
