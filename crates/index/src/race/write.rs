//! Putting a record under a key, finding or putting, replacing a value and removing a key.
//!
//! All of them look at the key's slots first, and at the records of those with its tag. A slot of
//! the key's own has its word swapped: for that of another record, or of an empty slot, which then
//! is there for whichever key comes next. That swap expects the word that named the record which
//! was seen, so that no other value is replaced or removed. If it is lost, the write begins again.
//!
//! How a new key is put, `insert.rs` says.

use super::client::{Key, RaceTable};
use super::directory::Leaf;
use super::search::{Found, Learnt};
use super::seen::{Placed, Seen};
use super::word::{State, Word};
use crate::heap::{BlockRef, Held, NamedBlocks, Record, encode};
use crate::{Operation, Outcome, Result};
use farslot_fabric::{Change, Endpoint, EndpointExt, both};

/// A write under way.
pub(super) struct Write<'w> {
    pub(super) operation: Operation<'w>,
    pub(super) key: Key<'w>,
    /// Where its record is, from when that is written until a live slot names it.
    pub(super) block: Option<Held>,
    pub(super) learnt: Learnt,
    pub(super) rivals: Rivals,
}

/// What an insertion knows of others that are not decided.
#[derive(Default)]
pub(super) struct Rivals {
    /// Those that it has met, and given the time to become live or to give way.
    pub(super) met: Vec<Placed>,
    /// Whether to give them that time before it begins again.
    pub(super) wait: bool,
}

impl<'w> Write<'w> {
    fn of(operation: Operation<'w>, key: Key<'w>) -> Self {
        Self {
            operation,
            key,
            block: None,
            learnt: Learnt::default(),
            rivals: Rivals::default(),
        }
    }

    /// Whether nothing is to be changed where this record is there.
    fn decided_by(&self, record: &Record) -> bool {
        match self.operation {
            Operation::FindOrPut(..) => true,
            Operation::Replace(_, expected, _) | Operation::RemoveIf(_, expected) => {
                record.value() != expected
            }
            _ => false,
        }
    }
}

impl<E: Endpoint> RaceTable<E> {
    /// Does an operation that is no lookup, and beside it carries over some slots of a split that
    /// this client has begun. What becomes of these is no concern of the write's: others can carry
    /// them over too.
    pub(super) async fn write(&self, operation: Operation<'_>) -> Result<Outcome> {
        if self.to_finish.borrow().is_empty() {
            return self.write_alone(operation).await;
        }
        // Boxed, for it is rare: every write would be as large.
        let both = both(self.write_alone(operation), self.go_on_splitting());
        Box::pin(both).await.0
    }

    async fn write_alone(&self, operation: Operation<'_>) -> Result<Outcome> {
        if let Some(value) = operation.value() {
            self.layout.shape().check_value(value)?;
        }
        loop {
            let key = self.checked_key(operation.key())?;
            let mut write = Write::of(operation, key);
            let outcome = self.try_to_write(&mut write).await;
            let outcome = self.settle(write.block, outcome).await;
            if !self.has_room_again(&outcome).await {
                return outcome;
            }
        }
    }

    async fn try_to_write(&self, write: &mut Write<'_>) -> Result<Outcome> {
        let mut seen = self.look_first(write).await?;
        loop {
            let found = self.search(&write.key, &seen.marked, &mut write.learnt);
            match found.await? {
                Found::Present(_, record) if write.decided_by(&record) => {
                    let is_found = matches!(write.operation, Operation::FindOrPut(..));
                    return Ok(write
                        .operation
                        .outcome(is_found.then(|| record.into_value())));
                }
                Found::Present(own, record) => {
                    if self.replace(write, seen.leaf, own).await? {
                        return Ok(write.operation.outcome(Some(record.into_value())));
                    }
                    self.lost_race(&write.learnt, seen.leaf, own.0).await?;
                }
                Found::Absent => {
                    let inserts = matches!(
                        write.operation,
                        Operation::Put(..) | Operation::FindOrPut(..)
                    );
                    if !inserts || self.insert(write, &seen).await? {
                        return Ok(write.operation.outcome(None));
                    }
                }
                Found::Unclear { slot } => {
                    self.was_unclear(&write.learnt, seen.leaf, slot).await?;
                }
            }
            seen = self.current(&write.key, &write.learnt.attempts).await?;
        }
    }

    /// Looks at the key's slots, and with that writes the record, of operations that need it in any
    /// case.
    async fn look_first(&self, write: &mut Write<'_>) -> Result<Seen> {
        let mut change = Change::default();
        if let Operation::Put(..) | Operation::Update(..) | Operation::Replace(..) = write.operation
        {
            self.add_record(write, &mut change).await?;
        }
        // If the WRITE fails, it may come yet: the block is not used again.
        let held = write.block.take();
        let (key, attempts) = (&write.key, &write.learnt.attempts);
        let looking = self.change_and_look_at(change, self.leaf_of(key), key);
        let (_, looked) = looking.await?;
        write.block = held;
        match looked? {
            Ok(seen) => Ok(seen),
            Err(view) => {
                // Boxed, for it is rare: every write would be as large.
                Box::pin(async {
                    self.make_current(view, key, attempts).await?;
                    self.current(key, attempts).await
                })
                .await
            }
        }
    }

    /// Replaces the word of the key's own slot, by that of an empty one if the key is removed;
    /// false if another was faster.
    async fn replace(
        &self,
        write: &mut Write<'_>,
        leaf: Leaf,
        (slot, seen): Placed,
    ) -> Result<bool> {
        let removes = write.operation.value().is_none();
        let new = match removes {
            true => Word::empty(seen.depth()),
            false => {
                let block = self.written(write).await?;
                Word::begun(seen.depth(), seen.tag(), block).in_state(State::Live)
            }
        };
        let since = self.heap.epoch();
        let is_replaced = self.swap(leaf.subtable, slot, seen, new).await? == seen;
        if is_replaced {
            write.block = None;
            self.heap.free_since(seen.block(), since).await;
            if removes {
                self.entries_changed(-1).await;
            }
        }
        Ok(is_replaced)
    }

    /// The block that the write's record is in, which is still this client's once it is written.
    async fn written(&self, write: &mut Write<'_>) -> Result<BlockRef> {
        loop {
            let mut change = Change::default();
            let block = self.add_record(write, &mut change).await?;
            let Some((to, record)) = change.write else {
                return Ok(block);
            };
            // If this fails, the WRITE may come yet: the block is not used again.
            let held = write.block.take();
            self.endpoint.write(to, record).await?;
            write.block = held;
        }
    }

    /// The block of the write's record. If it is not written yet, or in a block that is no longer
    /// this client's, its WRITE is added to a change.
    pub(super) async fn add_record(
        &self,
        write: &mut Write<'_>,
        change: &mut Change,
    ) -> Result<BlockRef> {
        if let Some(held) = write.block {
            if self.heap.still_holds(held).await? {
                return Ok(held.block);
            }
            write.block = None;
        }
        let (key, value) = (write.key.bytes, write.operation.value().unwrap_or_default());
        let mut record = encode(&self.endpoint.core().buffers, key, value)?;
        let block = self.heap.assign(&mut record).await?;
        write.block = Some(self.heap.held(block));
        change.write = Some((self.heap.at(block.granule), record));
        Ok(block)
    }

    /// Ends a write: gives back its block if no slot has come to name it. If that is in doubt, the
    /// block is left to a sweep.
    async fn settle<T>(&self, block: Option<Held>, outcome: Result<T>) -> Result<T> {
        let in_doubt = matches!(&outcome, Err(error) if error.may_have_taken_effect());
        if let (Some(held), false) = (block, in_doubt) {
            self.heap.give_up(held).await;
        }
        outcome
    }
}
