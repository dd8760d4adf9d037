//! Batches in which there are operations of several kinds, under way together.

use crate::client::{Client, found};
use crate::share::Share;
use crate::{Found, Result};
use farslot_fabric::both;
use farslot_index::{Value, Write, Written};
use std::cell::RefCell;

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
    /// Tells it.
    pub(crate) fn tell(self, done: impl FnOnce(Outcome<'_>)) {
        match self {
            Self::Value(value) => done(Outcome::Value(value.as_deref())),
            Self::Written(Written::Changed(changed)) => done(Outcome::Changed(changed)),
            Self::Written(Written::FoundOrPut(outcome)) => done(Outcome::Found(found(outcome))),
        }
    }
}

/// Runs the operations, the writes as one batch and the gets as another, both at once; `done` gets each answer with
/// the operation's number.
pub(crate) async fn run(
    client: &impl Client,
    operations: &[Operation<'_>],
    done: impl FnMut(usize, Result<Answer>),
) {
    let (mut gets, mut writes) = (Share::default(), Share::default());
    for (number, operation) in operations.iter().enumerate() {
        match *operation {
            Operation::Get(key) => gets.push(number, key),
            Operation::Put(key, value) => writes.push(number, Write::Put(key, value)),
            Operation::FindOrPut(key, value) => writes.push(number, Write::FindOrPut(key, value)),
            Operation::Update(key, value) => writes.push(number, Write::Update(key, value)),
            Operation::Remove(key) => writes.push(number, Write::Remove(key)),
        }
    }
    // Nobody else borrows it while it is called: a callback that uses the table begins a batch of its own.
    let done = RefCell::new(done);
    let got = |at: usize, value: Result<Option<Value>>| {
        (done.borrow_mut())(gets.numbers[at], value.map(Answer::Value));
    };
    let wrote = |at: usize, written: Result<Written>| {
        (done.borrow_mut())(writes.numbers[at], written.map(Answer::Written));
    };
    // Writes take as many round trips as gets or more, so theirs begin first.
    both(
        client.write_many(&writes.items, wrote),
        client.get_many(&gets.items, got),
    )
    .await;
}
