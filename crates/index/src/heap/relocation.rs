//! Moving records of a heap from block to block, for a cleaner that empties blocks.
//!
//! A relocation is an ordinary write with a condition: it changes the key's slot only if that names
//! exactly one block. It reads no record, for the cleaner knows that the block holds the key's.
//! Whether a slot names the block is seen when the slot is looked at, and the swap expects what was
//! seen: so a relocation undoes no other write, and every other write may come before or after it.
//!
//! That a block is named by no slot does not mean that it is free: a client may be about to name
//! it.

use super::client::Heap;
use super::layout::{BlockRef, record_bytes};
use super::runs::Purpose;
use crate::{IndexError, Operation, Result, SchemeClient};
use farslot_fabric::Endpoint;
use std::pin::Pin;

/// The most writes that are taken for puts of new keys, without a look, behind others.
const MOST_TAKEN_FOR_NEW: usize = 255;

/// How often a write has room made that others are faster to take.
const MOST_CLEANED: u32 = 64;

/// What is to become of a record, if its key's slot names exactly this block.
#[derive(Clone, Copy, Debug)]
pub struct Relocation<'r> {
    /// The key of the record that the block holds.
    pub key: &'r [u8],
    /// Its value, which is written to another block; nothing if the record is to be removed.
    pub value: Option<&'r [u8]>,
    /// The block.
    pub block: BlockRef,
}

/// Tables that keep records in a heap.
#[allow(
    async_fn_in_trait,
    reason = "used by one thread, over one endpoint: never Send"
)]
#[allow(private_bounds, reason = "only tables of this crate name blocks")]
pub trait Relocate: SchemeClient + Sized {
    /// That heap, of a table that has one.
    fn heap_of_records(&self) -> Option<&Heap<Self::Endpoint>>;

    /// Moves records to other blocks, or removes them. `done` gets their numbers, in the order in
    /// which they end, each with whether its key's slot named the block.
    async fn relocate(
        &self,
        relocations: &[Relocation<'_>],
        done: &mut dyn FnMut(usize, Result<bool>),
    );

    /// Makes room in the heap for a record of so many bytes, which it has refused; true if it may
    /// be there now.
    async fn make_room(&self, refused: usize) -> Result<bool> {
        match self.heap_of_records() {
            Some(heap) => heap.clean(self, refused).await,
            None => Ok(false),
        }
    }

    /// Has room made for a write that has found the heap full, and had room made so often before.
    ///
    /// # Errors
    /// That it was full, if there is none or others were faster to take it too often;
    /// [`IndexError::TurnOver`].
    async fn make_room_again(&self, cleaned: &mut u32, full: IndexError) -> Result<()> {
        *cleaned += 1;
        let full = Err(full);
        match *cleaned <= MOST_CLEANED && self.has_room_again(&full).await? {
            true => Ok(()),
            false => full,
        }
    }

    /// Whether an operation that has ended so can be tried again: the heap was full, and may have
    /// room now.
    ///
    /// # Errors
    /// [`IndexError::TurnOver`], where the turn of an operation's call was over before there was.
    async fn has_room_again<T>(&self, outcome: &Result<T>) -> Result<bool> {
        let Err(IndexError::HeapFull { record_bytes, .. }) = outcome else {
            return Ok(false);
        };
        let making: Pin<Box<dyn Future<Output = _> + '_>> = Box::pin(self.make_room(*record_bytes));
        match making.await {
            Err(over @ IndexError::TurnOver { .. }) => Err(over),
            // What the operation says is that the heap is full, whatever has become of this.
            made => Ok(made.unwrap_or(false)),
        }
    }
}

/// What a table's writes are asked for.
#[derive(Clone, Copy)]
pub(crate) struct TableWrite<'k> {
    pub(crate) operation: Operation<'k>,
    /// Only the record in this block is changed, by an update or a removal.
    pub(crate) only_in: Option<BlockRef>,
}

impl<E: Endpoint> Heap<E> {
    /// How many writes are to be done together of which this is the first: where they need blocks,
    /// as many as this client's runs have room for.
    pub(crate) fn most_at_once(&self, first: TableWrite<'_>) -> usize {
        if !first.replaces_any() {
            return usize::MAX;
        }
        let (key, value) = first.operation.record();
        let bytes = record_bytes(key.len(), value.len());
        let purpose = self.purpose(Purpose::Write);
        self.runs.borrow().blocks_for(bytes, purpose)
    }

    /// Whether writes of which this is the first, so many, probably replace records that are there:
    /// who puts one new key mostly puts others.
    pub(crate) fn replaces_some(&self, first: TableWrite<'_>, writes: usize) -> bool {
        let (left, last) = self.taken_for_new.get();
        self.taken_for_new.set((left.saturating_sub(writes), last));
        left == 0 && first.replaces_any()
    }

    /// Notes whether a write has replaced a record.
    pub(crate) fn note_replaced(&self, is_replaced: bool) {
        let (_, last) = self.taken_for_new.get();
        let more = if is_replaced {
            0
        } else {
            (2 * last + 1).min(MOST_TAKEN_FOR_NEW)
        };
        self.taken_for_new.set((more, more));
    }
}

impl TableWrite<'_> {
    /// Whether it replaces the record of its key, whichever that is, if there is one.
    #[inline(always)]
    pub(crate) const fn replaces_any(&self) -> bool {
        let replaces = matches!(self.operation, Operation::Put(..) | Operation::Update(..));
        replaces && self.only_in.is_none()
    }
}

impl<'k> From<Operation<'k>> for TableWrite<'k> {
    #[inline(always)]
    fn from(operation: Operation<'k>) -> Self {
        let only_in = None;
        Self { operation, only_in }
    }
}

/// A lookup.
impl<'k> From<&'k [u8]> for TableWrite<'k> {
    #[inline(always)]
    fn from(key: &'k [u8]) -> Self {
        Operation::Get(key).into()
    }
}

impl<'k> From<Relocation<'k>> for TableWrite<'k> {
    #[inline]
    fn from(Relocation { key, value, block }: Relocation<'k>) -> Self {
        Self {
            operation: match value {
                Some(value) => Operation::Update(key, value),
                None => Operation::Remove(key),
            },
            only_in: Some(block),
        }
    }
}
