//! Batches in which there are operations of several kinds, under way together.

use crate::client::{Client, found};
use crate::share::Share;
use crate::spread::met_another;
use crate::{Found, Result};
use farslot_fabric::both;
use farslot_index::{FindOrPut, Value, Write, Written};
use std::cell::RefCell;
use std::rc::Rc;

/// An operation of a batch that mixes them: see [`Table::run_many`](crate::Table::run_many).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation<'r> {
    /// [`Table::get`](crate::Table::get) of this key.
    Get(&'r [u8]),
    /// [`Table::put`](crate::Table::put) of this key and this value.
    Put(&'r [u8], &'r [u8]),
    /// [`Table::find_or_put`](crate::Table::find_or_put).
    FindOrPut(&'r [u8], &'r [u8]),
    /// [`Table::update`](crate::Table::update).
    Update(&'r [u8], &'r [u8]),
    /// [`Table::remove`](crate::Table::remove) of this key.
    Remove(&'r [u8]),
}

impl<'r> Operation<'r> {
    /// The key that it is about.
    #[must_use]
    pub const fn key(&self) -> &'r [u8] {
        match self {
            Self::Get(key)
            | Self::Put(key, _)
            | Self::FindOrPut(key, _)
            | Self::Update(key, _)
            | Self::Remove(key) => key,
        }
    }
}

/// What an [`Operation`] answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome<'v> {
    /// Of a get: the key's value, if the key is present.
    Value(Option<&'v [u8]>),
    /// Of a put: whether the key is new. Of an update or a removal: whether it was present.
    Changed(bool),
    /// Of a find-or-put.
    Found(Found),
}

/// An [`Outcome`] that holds its value.
pub(crate) enum Answer {
    Value(Option<Value>),
    Written(Written),
}

impl Answer {
    /// The same without the fabric's buffer, for who keeps many.
    pub(crate) fn owned(self) -> Self {
        let owned = |value: Value| Value::from(Rc::<[u8]>::from(&*value));
        match self {
            Self::Value(value) => Self::Value(value.map(owned)),
            Self::Written(Written::FoundOrPut(FindOrPut::Found(value))) => {
                Self::Written(Written::FoundOrPut(FindOrPut::Found(owned(value))))
            }
            other => other,
        }
    }

    /// Tells it.
    pub(crate) fn tell(self, done: impl FnOnce(Outcome<'_>)) {
        match self {
            Self::Value(value) => done(Outcome::Value(value.as_deref())),
            Self::Written(Written::Changed(changed)) => done(Outcome::Changed(changed)),
            Self::Written(Written::FoundOrPut(outcome)) => done(Outcome::Found(found(outcome))),
        }
    }
}

/// The gets and the writes of a batch.
#[derive(Default)]
struct Shares<'r> {
    gets: Share<&'r [u8]>,
    writes: Share<Write<'r>>,
}

impl<'r> Shares<'r> {
    fn of(operations: &[Operation<'r>], numbers: impl Iterator<Item = usize>) -> Self {
        let Self {
            mut gets,
            mut writes,
        } = Self::default();
        for number in numbers {
            match operations[number] {
                Operation::Get(key) => gets.push(number, key),
                Operation::Put(key, value) => writes.push(number, Write::Put(key, value)),
                Operation::FindOrPut(key, value) => {
                    writes.push(number, Write::FindOrPut(key, value));
                }
                Operation::Update(key, value) => writes.push(number, Write::Update(key, value)),
                Operation::Remove(key) => writes.push(number, Write::Remove(key)),
            }
        }
        Self { gets, writes }
    }
}

/// Runs the operations, the writes as one batch and the gets as another, both at once; `done` gets each answer with
/// the operation's number.
///
/// Neither of the two may wait for the other where a node came back empty: the one that meets it first takes the
/// partition's client away, and the other is told that the node restarted. What was told so is done again, the
/// writes and then the gets: of what it had done, nothing is left.
pub(crate) async fn run(
    client: &impl Client,
    operations: &[Operation<'_>],
    done: impl FnMut(usize, Result<Answer>),
) {
    let Shares { gets, writes } = Shares::of(operations, 0..operations.len());
    let (done, again) = (RefCell::new(done), RefCell::new(Vec::new()));
    let tell = |number: usize, answer: Result<Answer>| match answer {
        Err(error) if met_another(&error) => again.borrow_mut().push(number),
        // Nobody else borrows it while it is called: a callback that uses the table begins a batch of its own.
        answer => (done.borrow_mut())(number, answer),
    };
    // Writes take as many round trips as gets or more, so theirs begin first.
    both(
        client.write_many(&writes.items, |at, written: Result<Written>| {
            tell(writes.numbers[at], written.map(Answer::Written));
        }),
        client.get_many(&gets.items, |at, value: Result<Option<Value>>| {
            tell(gets.numbers[at], value.map(Answer::Value));
        }),
    )
    .await;
    let (mut done, again) = (done.into_inner(), again.into_inner());
    if again.is_empty() {
        return;
    }
    let Shares { gets, writes } = Shares::of(operations, again.into_iter());
    let wrote = |at: usize, written: Result<Written>| {
        done(writes.numbers[at], written.map(Answer::Written));
    };
    client.write_many(&writes.items, wrote).await;
    let got = |at: usize, value: Result<Option<Value>>| {
        done(gets.numbers[at], value.map(Answer::Value));
    };
    client.get_many(&gets.items, got).await;
}
