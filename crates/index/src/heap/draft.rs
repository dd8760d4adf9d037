//! The record of a write, from the block that is found for it until a slot names that.
//!
//! A block is this client's until then, by the heap's rules of epochs.

use super::allocator::Heap;
use super::layout::{NewRecord, record_bytes};
use super::mark::Held;
use super::sweep::NamedBlocks;
use crate::{IndexError, Result};
use farslot_fabric::{Endpoint, EndpointExt};

/// The record of a write, in a block that no slot names yet.
#[derive(Clone, Copy, Default)]
pub(crate) enum Draft {
    #[default]
    None,
    /// It is to be written with the next change.
    Unwritten(Held),
    Written(Held),
}

impl Draft {
    /// The block of this record, if this client has one and may use it. Whether it may is asked
    /// where it `may_use` none for certain: a look at the clock costs as much as a swap.
    #[inline]
    pub(crate) fn hold<E: Endpoint>(
        &mut self,
        heap: &Heap<E>,
        record: (&[u8], &[u8]),
        may_use: bool,
    ) -> Option<Held> {
        if !may_use && heap.is_look_due() {
            return None;
        }
        if let Self::Unwritten(held) | Self::Written(held) = *self
            && heap.holds(held)
        {
            return Some(held);
        }
        // What is written to a node that is down fails, and a block that a failed WRITE was for is
        // not used again: who tries on and on would use up the heap.
        if !may_use
            && heap
                .endpoint
                .check_not_down(heap.place.header.node)
                .is_err()
        {
            return None;
        }
        let held = heap.allocate_own(bytes_of(record))?;
        *self = Self::Unwritten(held);
        Some(held)
    }

    /// Gets a block for this record, of those that others have too. A heap that is
    /// full may have room again once it was swept.
    ///
    /// # Errors
    /// [`HeapFull`](IndexError::HeapFull), or what the fabric says.
    pub(crate) async fn get_block<E: Endpoint>(
        &mut self,
        heap: &Heap<E>,
        record: (&[u8], &[u8]),
        table: &impl NamedBlocks,
    ) -> Result<()> {
        loop {
            let taken = self.take_block(heap, record).await;
            if !table.has_room_again(&taken).await {
                return taken;
            }
        }
    }

    /// The same of a table whose caller looks for room himself, if there is none.
    ///
    /// # Errors
    /// [`HeapFull`](IndexError::HeapFull), or what the fabric says.
    pub(crate) async fn take_block<E: Endpoint>(
        &mut self,
        heap: &Heap<E>,
        record: (&[u8], &[u8]),
    ) -> Result<()> {
        if let Self::Unwritten(held) | Self::Written(held) = *self {
            if heap.still_holds(held).await? {
                return Ok(());
            }
            *self = Self::None;
        }
        let block = heap.allocate(bytes_of(record)).await?;
        *self = Self::Unwritten(heap.held(block));
        Ok(())
    }

    /// The record, if it is to be written.
    #[inline]
    pub(crate) fn unwritten<'k, E: Endpoint>(
        self,
        heap: &Heap<E>,
        record: (&'k [u8], &'k [u8]),
    ) -> Option<NewRecord<'k>> {
        match self {
            Self::Unwritten(held) => Some(heap.new_record(held.block, record)),
            Self::None | Self::Written(_) => None,
        }
    }

    /// Notes that the record is written, if it was to be.
    #[inline]
    pub(crate) fn is_written(&mut self) {
        if let Self::Unwritten(held) = *self {
            *self = Self::Written(held);
        }
    }

    /// Keeps the block, which no slot has come to name; returns whether this client keeps too many
    /// now, and is to [give](Heap::give_surplus) some.
    #[inline]
    pub(crate) fn keep<E: Endpoint>(&mut self, heap: &Heap<E>) -> bool {
        match std::mem::take(self) {
            Self::Unwritten(held) | Self::Written(held) => heap.keep_held(held),
            Self::None => false,
        }
    }

    /// Gives the block back behind an error, unless that is in doubt: its WRITE may come yet, or a
    /// slot name it, and then it is left to a sweep.
    pub(crate) async fn give_up<E: Endpoint>(self, heap: &Heap<E>, error: &IndexError) {
        if let Self::Unwritten(held) | Self::Written(held) = self
            && !error.may_have_taken_effect()
        {
            heap.give_up(held).await;
        }
    }
}

const fn bytes_of((key, value): (&[u8], &[u8])) -> usize {
    record_bytes(key.len(), value.len())
}
