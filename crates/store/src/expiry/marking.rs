//! A session with a table as it is stored, in which a record is made to live longer only while it
//! lives: by two swaps, as the head of this room says.
//!
//! Who finds a mark whose record has ended removes that record before it says that the key is
//! absent. A client that may only read cannot: it looks again until another has, and fails with
//! [`Contended`](crate::ErrorKind::Contended) at last.

use super::broken::{self, ExpiryBreach};
use super::ending::EndingIn;
use super::{Expiry, ExpiryClock};
use crate::session::{AnswerEach, Client, MOST_ATTEMPTS, OutcomeOfEach, Session, contended};
use crate::{Cursor, ErrorKind, Operation, Outcome, Result};
use farslot_fabric::Nanos;
use farslot_index::{Answers, Outcomes, Value};
use std::borrow::Cow;
use std::cell::Cell;
use std::num::NonZero;

/// A session in which no record lives on that has ended.
pub(crate) struct Marking {
    beneath: Box<dyn Session>,
    clock: ExpiryClock,
    /// For the sweeper.
    ending: EndingIn,
    /// Whether it may not remove what has ended, as it was told.
    may_only_look: Cell<bool>,
}

/// A replacement by a record that ends later.
struct Prolonging<'o> {
    key: &'o [u8],
    old: &'o [u8],
    new: &'o [u8],
    /// What the replaced record is once it is marked; nothing of one that has ended.
    marked: Option<Vec<u8>>,
}

impl Marking {
    /// Over the table's own session.
    pub(crate) fn new(beneath: Box<dyn Session>, clock: ExpiryClock, ending: EndingIn) -> Self {
        Self {
            beneath,
            clock,
            ending,
            may_only_look: Cell::new(false),
        }
    }

    fn now_millis(&self) -> u64 {
        self.clock.now(|| self.beneath.now())
    }

    /// Whether a record has ended by now.
    fn has_ended(&self, stored: &[u8]) -> bool {
        Expiry::living(stored, self.now_millis()).is_none()
    }

    /// What an operation is if it makes a record live longer.
    fn prolonging<'o>(&self, operation: &Operation<'o>) -> Option<Prolonging<'o>> {
        let Operation::Replace(key, old, new) = *operation else {
            return None;
        };
        let ((ends, _), (then, _)) = (Expiry::split(old)?, Expiry::split(new)?);
        if !then.outlives(ends) || broken::is(ExpiryBreach::NoMark) {
            return None;
        }
        let marked = (!self.has_ended(old)).then(|| match Expiry::is_marked(old) {
            true => old.to_vec(),
            false => Expiry::marked(old, self.mark()),
        });
        Some(Prolonging {
            key,
            old,
            new,
            marked,
        })
    }

    /// A mark that hardly any other is like.
    fn mark(&self) -> NonZero<u16> {
        let drawn = self.beneath.now().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
        NonZero::new(drawn as u16).unwrap_or(NonZero::<u16>::MAX)
    }

    /// Whether an outcome tells of a marked record that has ended; removes that record then, or
    /// finds that another was faster, or may not.
    fn cancels(&self, key: &[u8], outcome: &Outcome) -> Result<bool> {
        let ended = |found: &&Value| Expiry::is_marked(found) && self.has_ended(found);
        let Some(found) = found_in(outcome).iter().find(ended) else {
            return Ok(false);
        };
        if broken::is(ExpiryBreach::NoCancel) {
            return Ok(false);
        }
        if !self.may_only_look.get() {
            match self.beneath.run(Operation::RemoveIf(key, found)) {
                Err(error) if error.kind() == ErrorKind::AccessDenied => {
                    self.may_only_look.set(true);
                }
                outcome => drop(outcome?),
            }
        }
        if self.may_only_look.get() {
            std::thread::yield_now();
        }
        Ok(true)
    }

    /// Puts a record that does not end, as it is stored: no mark is in its way, and no sweeper has
    /// to know.
    pub(super) fn put_for_ever(&self, key: &[u8], stored: &[u8]) -> Result<Outcome> {
        self.beneath.run(Operation::Put(key, stored))
    }

    /// Runs an operation that does not make a record live longer, until no mark is in its way.
    fn settle(&self, operation: Operation<'_>, mut outcome: Outcome) -> Result<Outcome> {
        for _ in 0..MOST_ATTEMPTS {
            if !self.cancels(operation.key(), &outcome)? {
                return Ok(outcome);
            }
            outcome = self.beneath.run(operation)?;
        }
        Err(contended())
    }
}

/// The records that an outcome tells of.
fn found_in(outcome: &Outcome) -> &[Value] {
    match outcome {
        Outcome::Value(found) => found.as_slice(),
        Outcome::Values(found) => found,
        Outcome::Changed(_) => &[],
    }
}

fn has_mark(outcome: &Outcome) -> bool {
    found_in(outcome)
        .iter()
        .any(|found| Expiry::is_marked(found))
}

impl<'o> Prolonging<'o> {
    /// The first swap: it marks the record, or removes one that has ended. One that has a mark
    /// needs no other, which whoever gave it to us saw while it lived.
    fn first(&self) -> Operation<'_> {
        match &self.marked {
            None => Operation::RemoveIf(self.key, self.old),
            Some(marked) if marked == self.old => Operation::Replace(self.key, self.old, self.new),
            Some(marked) => Operation::Replace(self.key, self.old, marked),
        }
    }

    /// The second swap, after the first has changed something; nothing if what was replaced is all
    /// that there is to do, or has ended.
    fn second(&self, session: &Marking) -> Option<Operation<'_>> {
        let marked = self
            .marked
            .as_deref()
            .filter(|marked| *marked != self.old)?;
        let is_late = session.has_ended(marked) && !broken::is(ExpiryBreach::NoSecondLook);
        (!is_late).then_some(Operation::Replace(self.key, marked, self.new))
    }

    /// Whether the first swap, which has changed something, was all.
    fn is_done_at_once(&self) -> bool {
        self.marked.as_deref() == Some(self.old)
    }

    fn run(&self, session: &Marking) -> Result<Outcome> {
        if !session.beneath.run(self.first())?.is_changed() {
            return Ok(Outcome::Changed(false));
        }
        match self.second(session) {
            Some(second) => session.beneath.run(second),
            None => Ok(Outcome::Changed(self.is_done_at_once())),
        }
    }
}

impl Session for Marking {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        let found = self.beneath.get(key)?;
        match &found {
            Some(value) if Expiry::is_marked(value) => {
                let outcome = self.settle(Operation::Get(key), Outcome::Value(found))?;
                Ok(outcome.into_value())
            }
            _ => Ok(found),
        }
    }

    fn prefetch(&self, key: &[u8]) -> bool {
        self.beneath.prefetch(key)
    }

    fn run(&self, operation: Operation<'_>) -> Result<Outcome> {
        self.ending.note(&operation);
        match self.prolonging(&operation) {
            Some(prolonging) => prolonging.run(self),
            None => self.settle(operation, self.beneath.run(operation)?),
        }
    }

    fn get_many(&self, keys: &[&[u8]], done: AnswerEach<'_>) {
        let mut marked = Vec::new();
        self.beneath.get_many(keys, &mut |answers| match answers {
            Answers::Small(small) => {
                let mut any = false;
                small.each(|_, found| any |= found.is_some_and(Expiry::is_marked));
                if !any {
                    return done(Answers::Small(small));
                }
                small.each(|number, found| match found {
                    Some(found) if Expiry::is_marked(found) => marked.push(number),
                    found => done(Answers::One(number, Ok(found))),
                });
            }
            Answers::One(number, Ok(Some(found))) if Expiry::is_marked(found) => {
                marked.push(number);
            }
            Answers::One(..) => done(answers),
        });
        for number in marked {
            match self.get(keys[number]) {
                Ok(found) => done(Answers::One(number, Ok(found.as_deref()))),
                Err(error) => done(Answers::One(number, Err(Box::new(error)))),
            }
        }
    }

    fn run_many(
        &self,
        left: Option<&Cell<Nanos>>,
        operations: &[Operation<'_>],
        done: OutcomeOfEach<'_>,
    ) {
        let numbered = operations.iter().enumerate();
        let prolonging: Vec<_> = numbered
            .inspect(|(_, operation)| self.ending.note(operation))
            .filter_map(|(number, operation)| Some((number, self.prolonging(operation)?)))
            .collect();
        let of = |number: usize| {
            let at = prolonging.binary_search_by_key(&number, |(number, _)| *number);
            at.ok().map(|at| &prolonging[at].1)
        };
        let mut firsts = Cow::Borrowed(operations);
        for (number, prolonging) in &prolonging {
            firsts.to_mut()[*number] = prolonging.first();
        }
        let (mut marked, mut changed) = (Vec::new(), Vec::new());
        self.beneath.run_many(left, &firsts, &mut |outcomes| {
            if let Outcomes::Small(small) = &outcomes {
                let mut any = !prolonging.is_empty();
                small.each(|_, found| any |= found.is_some_and(Expiry::is_marked));
                if !any {
                    return done(outcomes);
                }
            }
            outcomes.each_of(&firsts, |number, outcome| match (outcome, of(number)) {
                (Ok(outcome), _) if has_mark(&outcome) => {
                    marked.push((number, outcome.detached()));
                }
                (Ok(outcome), Some(prolonging)) if outcome.is_changed() => {
                    changed.push((number, prolonging));
                }
                (outcome, _) => done(Outcomes::One(number, outcome)),
            });
        });
        for (number, outcome) in marked {
            done(Outcomes::One(
                number,
                self.settle(operations[number], outcome),
            ));
        }
        let (mut seconds, mut numbers) = (Vec::new(), Vec::new());
        for (number, prolonging) in changed {
            match prolonging.second(self) {
                Some(second) => {
                    seconds.push(second);
                    numbers.push(number);
                }
                None => {
                    let outcome = Outcome::Changed(prolonging.is_done_at_once());
                    done(Outcomes::One(number, Ok(outcome)));
                }
            }
        }
        if !seconds.is_empty() {
            self.beneath.run_many(left, &seconds, &mut |outcomes| {
                outcomes.each_of(&seconds, |at, outcome| {
                    done(Outcomes::One(numbers[at], outcome));
                });
            });
        }
    }

    fn scan(
        &self,
        cursor: Cursor,
        most: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        self.beneath.scan(cursor, most, visit)
    }

    fn client(&self) -> &dyn Client {
        self.beneath.client()
    }
}
