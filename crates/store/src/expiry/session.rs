//! A session with a table whose records may have a time to live, over the session with the table as
//! it is stored.
//!
//! An operation that needs to know whether a record has expired first looks at it, and then writes
//! by an operation that expects all of its bytes: where another client was faster, it looks again.
//! Most need not look. A put writes whatever there is; a replacement, and a removal of one value,
//! are first tried as if the record does not expire.

use super::broken::{self, ExpiryBreach};
use super::{Expiry, ExpiryClock, Marking};
use crate::session::{AnswerEach, Client, MOST_ATTEMPTS, OutcomeOfEach, Session, contended};
use crate::{Cursor, FieldSize, Operation, Outcome, Result};
use farslot_fabric::Nanos;
use farslot_index::{Answers, Outcomes, Value};
use std::cell::Cell;

/// A session in which records that have expired are absent.
pub(crate) struct Expiring {
    stored: Marking,
    /// The size of values without the moment.
    value: FieldSize,
    clock: ExpiryClock,
    /// For the values of operations: taken while they run.
    buffer: Cell<Vec<u8>>,
}

/// The largest buffer that is kept.
const KEPT_BYTES: usize = 256 << 10;

/// What is known of a key's record.
enum RecordState {
    /// Nothing yet.
    Unknown,
    /// It is to be looked at.
    Look,
    /// It was there, with these bytes, and had not expired.
    Living(Vec<u8>),
    /// It was there, with these bytes, and had expired.
    Dead(Vec<u8>),
}

/// What follows an answer of the table as it is stored.
enum RoundStep {
    Done(Outcome),
    Again(RecordState),
}

/// An operation that has not ended.
#[derive(Clone, Copy)]
struct PendingOperation<'r> {
    number: usize,
    operation: Operation<'r>,
    state: &'r RecordState,
}

impl Expiring {
    /// Over the table as it is stored, whose values have that size without the moment.
    pub(crate) fn new(stored: Marking, value: FieldSize, clock: ExpiryClock) -> Self {
        Self {
            stored,
            value,
            clock,
            buffer: Cell::default(),
        }
    }

    fn now_millis(&self) -> u64 {
        self.clock.now(|| self.stored.now())
    }

    /// Refuses a value that does not fit, with the size that the user has asked for.
    fn check(&self, operation: &Operation<'_>) -> Result<()> {
        let Some(value) = operation.value() else {
            return Ok(());
        };
        Ok(self.value.check_value(value)?)
    }

    /// Puts a record that does not end: whatever was there, and whatever time it is.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<Outcome> {
        let mut stored = self.buffer.take();
        stored.clear();
        stored.extend_from_slice(&Expiry::NEVER.to_bytes());
        stored.extend_from_slice(value);
        let outcome = self.stored.put_for_ever(key, &stored);
        self.keep(stored);
        outcome
    }

    /// Runs an operation until it ends, with a buffer for the values of each attempt.
    fn run_alone(&self, operation: Operation<'_>, buffer: &mut Vec<u8>) -> Result<Outcome> {
        let mut state = RecordState::Unknown;
        for _ in 0..MOST_ATTEMPTS {
            let one = PendingOperation {
                number: 0,
                operation,
                state: &state,
            };
            let now = self.now_millis();
            let mut stored = stored_values(buffer, &[one]);
            let outcome = self.stored.run(one.ask(|value| stored.take(value)))?;
            let now = broken::late_clock(now, || self.now_millis());
            match one.next(outcome, now) {
                RoundStep::Done(outcome) => return Ok(outcome),
                RoundStep::Again(next) => state = next,
            }
        }
        Err(contended())
    }

    /// Runs a round, a batch of the table as it is stored; returns the numbers of the operations
    /// that need another.
    fn round(
        &self,
        left: Option<&Cell<Nanos>>,
        pending: &[PendingOperation<'_>],
        done: OutcomeOfEach<'_>,
    ) -> Vec<(usize, RecordState)> {
        let mut buffer = self.buffer.take();
        let mut stored = stored_values(&mut buffer, pending);
        let asked = pending.iter();
        let asked: Vec<_> = asked
            .map(|one| one.ask(|value| stored.take(value)))
            .collect();
        let numbered = (0..).zip(pending);
        let are_puts = numbered.fold(true, |are, (number, one)| {
            are && one.number == number && matches!(one.operation, Operation::Put(..))
        });
        let now = self.now_millis();
        let mut again = Vec::new();
        self.stored.run_many(left, &asked, &mut |outcomes| {
            // What puts have come to needs no other look.
            if are_puts && matches!(outcomes, Outcomes::Small(_)) {
                return done(outcomes);
            }
            outcomes.each_of(&asked, |at, outcome| {
                let number = pending[at].number;
                match outcome.map(|outcome| pending[at].next(outcome, now)) {
                    Ok(RoundStep::Done(outcome)) => done(Outcomes::One(number, Ok(outcome))),
                    Ok(RoundStep::Again(state)) => again.push((number, state)),
                    Err(error) => done(Outcomes::One(number, Err(error))),
                }
            });
        });
        drop(asked);
        self.keep(buffer);
        again
    }

    /// Keeps a buffer for the next operation.
    fn keep(&self, buffer: Vec<u8>) {
        if buffer.capacity() <= KEPT_BYTES {
            self.buffer.set(buffer);
        }
    }
}

/// Values as they are stored, one behind the other, in the order in which they are asked for.
struct StoredValues<'b>(&'b [u8]);

impl<'b> StoredValues<'b> {
    fn take(&mut self, (_, value): (Expiry, &[u8])) -> &'b [u8] {
        let (stored, rest) = self.0.split_at(Expiry::BYTES + value.len());
        self.0 = rest;
        stored
    }
}

/// Writes the values that operations are asked for with to a buffer.
fn stored_values<'b>(
    buffer: &'b mut Vec<u8>,
    pending: &[PendingOperation<'_>],
) -> StoredValues<'b> {
    buffer.clear();
    for one in pending {
        one.ask(|(expiry, value)| {
            buffer.extend_from_slice(&expiry.to_bytes());
            buffer.extend_from_slice(value);
            &[]
        });
    }
    StoredValues(buffer)
}

impl PendingOperation<'_> {
    /// What the table as it is stored is asked for in this round, with values as they are `stored`:
    /// each with its moment.
    #[inline]
    fn ask<'b>(&self, mut stored: impl FnMut((Expiry, &[u8])) -> &'b [u8]) -> Operation<'b>
    where
        Self: 'b,
    {
        let key = self.operation.key();
        let mut stored = |expiry: Expiry, value: &[u8]| stored((expiry, value));
        match (self.operation, self.state) {
            (Operation::GetAll(_), _) => Operation::GetAll(key),
            (Operation::Put(_, value), _) => Operation::Put(key, stored(Expiry::NEVER, value)),
            (Operation::FindOrPut(..), RecordState::Dead(current)) => {
                Operation::RemoveIf(key, current)
            }
            (Operation::FindOrPut(_, value), _) => {
                Operation::FindOrPut(key, stored(Expiry::NEVER, value))
            }
            (Operation::Replace(_, expected, value), RecordState::Unknown) => {
                let expected = stored(Expiry::NEVER, expected);
                Operation::Replace(key, expected, stored(Expiry::NEVER, value))
            }
            (Operation::RemoveIf(_, expected), RecordState::Unknown) => {
                Operation::RemoveIf(key, stored(Expiry::NEVER, expected))
            }
            // It keeps its expiry.
            (
                Operation::Update(_, value) | Operation::Replace(_, _, value),
                RecordState::Living(current),
            ) => {
                let expiry = Expiry::split(current).map_or(Expiry::NEVER, |(expiry, _)| expiry);
                Operation::Replace(key, current, stored(expiry, value))
            }
            (Operation::Remove(_) | Operation::RemoveIf(..), RecordState::Living(current)) => {
                Operation::RemoveIf(key, current)
            }
            _ => Operation::Get(key),
        }
    }

    /// What an answer to that means.
    fn next(&self, outcome: Outcome, now: u64) -> RoundStep {
        use Operation::{FindOrPut, Get, GetAll, Put, Remove, RemoveIf, Replace, Update};
        match (&self.operation, self.state, outcome) {
            (Get(_), _, Outcome::Value(found)) => {
                RoundStep::Done(Outcome::Value(found.and_then(|found| living(found, now))))
            }
            (GetAll(_), _, Outcome::Values(found)) => {
                let found = found.into_iter().filter_map(|found| living(found, now));
                RoundStep::Done(Outcome::Values(found.collect()))
            }
            (Put(..), _, outcome) => RoundStep::Done(outcome),
            (FindOrPut(..), _, Outcome::Value(None)) => RoundStep::Done(Outcome::Value(None)),
            (FindOrPut(..), _, Outcome::Value(Some(current))) => {
                match Expiry::living(&current, now) {
                    Some(_) => RoundStep::Done(Outcome::Value(living(current, now))),
                    None => RoundStep::Again(RecordState::Dead(current.to_vec())),
                }
            }
            // That one is gone, or another is there.
            (FindOrPut(..), RecordState::Dead(_), _) => RoundStep::Again(RecordState::Unknown),
            // A look has found this.
            (Update(..) | Remove(_) | Replace(..) | RemoveIf(..), _, Outcome::Value(found)) => {
                let living = found.as_deref().and_then(|current| {
                    let (_, value) = Expiry::living(current, now)?;
                    self.may_change(value).then(|| current.to_vec())
                });
                match living {
                    Some(current) => RoundStep::Again(RecordState::Living(current)),
                    None => RoundStep::Done(Outcome::Changed(false)),
                }
            }
            (_, _, outcome) => match outcome.is_changed() {
                true => RoundStep::Done(Outcome::Changed(true)),
                // It is another, or its moment is another.
                false => RoundStep::Again(RecordState::Look),
            },
        }
    }

    /// Whether a value is one that the operation replaces or removes.
    fn may_change(&self, value: &[u8]) -> bool {
        match self.operation {
            Operation::Replace(_, expected, _) | Operation::RemoveIf(_, expected) => {
                expected == value
            }
            _ => true,
        }
    }
}

/// A value without its moment, unless it is past.
fn living(stored: Value, now: u64) -> Option<Value> {
    Expiry::living(&stored, now)?;
    Some(stored.without_first(Expiry::BYTES))
}

impl Session for Expiring {
    /// Of a record that lives, the clock is read once, after it; of one that does not expire, not
    /// at all. Where it has ended, it may have done so since this began: what is there now is
    /// compared with the clock as it was before.
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        let Some(found) = self.stored.get(key)? else {
            return Ok(None);
        };
        if let Some((Expiry::NEVER, _)) = Expiry::split(&found) {
            return Ok(Some(found.without_first(Expiry::BYTES)));
        }
        let now = self.now_millis();
        match living(found, now) {
            None if !broken::is(ExpiryBreach::LateClock) => {
                let found = self.stored.get(key)?;
                Ok(found.and_then(|found| living(found, now)))
            }
            living => Ok(living),
        }
    }

    fn prefetch(&self, key: &[u8]) -> bool {
        self.stored.prefetch(key)
    }

    fn run(&self, operation: Operation<'_>) -> Result<Outcome> {
        if let Operation::Get(key) = operation {
            return Ok(Outcome::Value(self.get(key)?));
        }
        self.check(&operation)?;
        if let Operation::Put(key, value) = operation {
            return self.put(key, value);
        }
        let mut buffer = self.buffer.take();
        let outcome = self.run_alone(operation, &mut buffer);
        self.keep(buffer);
        outcome
    }

    fn get_many(&self, keys: &[&[u8]], done: AnswerEach<'_>) {
        let now = self.now_millis();
        fn living(stored: Option<&[u8]>, now: u64) -> Option<&[u8]> {
            Expiry::living(stored?, now).map(|(_, value)| value)
        }
        self.stored.get_many(keys, &mut |answers| match answers {
            Answers::Small(small) => small.each(|number, found| {
                done(Answers::One(number, Ok(living(found, now))));
            }),
            Answers::One(number, outcome) => {
                done(Answers::One(
                    number,
                    outcome.map(|found| living(found, now)),
                ));
            }
        });
    }

    fn run_many(
        &self,
        left: Option<&Cell<Nanos>>,
        operations: &[Operation<'_>],
        done: OutcomeOfEach<'_>,
    ) {
        let mut pending = Vec::with_capacity(operations.len());
        for (number, operation) in operations.iter().enumerate() {
            match self.check(operation) {
                Ok(()) => pending.push(PendingOperation {
                    number,
                    operation: *operation,
                    state: &RecordState::Unknown,
                }),
                Err(error) => done(Outcomes::One(number, Err(error))),
            }
        }
        let mut again = self.round(left, &pending, done);
        for _ in 1..MOST_ATTEMPTS {
            if again.is_empty() {
                return;
            }
            let pending: Vec<_> = again
                .iter()
                .map(|(number, state)| PendingOperation {
                    number: *number,
                    operation: operations[*number],
                    state,
                })
                .collect();
            again = self.round(left, &pending, done);
        }
        for (number, _) in again {
            done(Outcomes::One(number, Err(contended())));
        }
    }

    fn scan(
        &self,
        cursor: Cursor,
        most: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        let now = self.now_millis();
        self.stored.scan(cursor, most, &mut |key, stored| {
            if let Some((_, value)) = Expiry::living(stored, now) {
                visit(key, value);
            }
        })
    }

    fn client(&self) -> &dyn Client {
        self.stored.client()
    }

    fn beneath(&self) -> Option<&dyn Session> {
        Some(&self.stored)
    }
}
