//! The record of a write, from the block that is found for it until a slot names that.
//!
//! A block is this client's until then, by the heap's rules of claims.

use super::client::Heap;
use super::layout::{BlockRef, NewRecord, record_bytes};
use super::relocation::Relocate;
use super::runs::Purpose;
use crate::{IndexError, Result};
use farslot_fabric::Endpoint;

/// The record of a write, in a block that no slot names yet.
#[derive(Clone, Copy, Default)]
pub(crate) enum Draft {
    #[default]
    None,
    /// It is to be written with the next change.
    Unwritten(BlockRef),
    Written(BlockRef),
}

impl Draft {
    /// The block of this record, if this client has one and may use it. Whether it may is asked
    /// where it `may_use` none for certain: a look at the clock costs as much as a swap.
    #[inline]
    pub(crate) fn hold<E: Endpoint>(
        &mut self,
        heap: &Heap<E>,
        record: (&[u8], &[u8]),
        (may_use, purpose): (bool, Purpose),
    ) -> Option<BlockRef> {
        if !may_use && heap.is_claim_due() {
            return None;
        }
        if let Self::Unwritten(block) | Self::Written(block) = *self
            && heap.holds(block)
        {
            return Some(block);
        }
        // What is written to a node that is down fails, and a block that a failed WRITE was for is
        // not used again: who tries on and on would use up the heap.
        if !may_use && heap.check_not_down().is_err() {
            return None;
        }
        let block = heap.allocate_own(bytes_of(record), purpose, heap.end_of(record.1))?;
        *self = Self::Unwritten(block);
        Some(block)
    }

    /// Gets a block for this record, of a run that is opened for it perhaps. A heap that is full
    /// may have room again once it was cleaned.
    ///
    /// # Errors
    /// [`HeapFull`](IndexError::HeapFull), or what the fabric says.
    pub(crate) async fn get_block<E: Endpoint>(
        &mut self,
        heap: &Heap<E>,
        record: (&[u8], &[u8]),
        purpose: Purpose,
        table: &impl Relocate,
    ) -> Result<()> {
        let mut cleaned = 0;
        loop {
            match self.take_block(heap, record, purpose).await {
                Err(full @ IndexError::HeapFull { .. }) if purpose != Purpose::Move => {
                    table.make_room_again(&mut cleaned, full).await?;
                }
                taken => return taken,
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
        purpose: Purpose,
    ) -> Result<()> {
        if let Self::Unwritten(block) | Self::Written(block) = *self {
            if heap.still_holds(block).await? {
                return Ok(());
            }
            *self = Self::None;
        }
        let block = heap
            .allocate(bytes_of(record), purpose, heap.end_of(record.1))
            .await?;
        *self = Self::Unwritten(block);
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
            Self::Unwritten(block) => Some(heap.new_record(block, record)),
            Self::None | Self::Written(_) => None,
        }
    }

    /// Notes that the record is written, if it was to be.
    #[inline]
    pub(crate) fn is_written(&mut self) {
        if let Self::Unwritten(block) = *self {
            *self = Self::Written(block);
        }
    }

    /// Notes that a slot names the block now, if there is one.
    #[inline]
    pub(crate) fn is_named<E: Endpoint>(&mut self, heap: &Heap<E>) {
        if let Self::Unwritten(block) | Self::Written(block) = std::mem::take(self) {
            heap.is_named(block);
        }
    }

    /// Gives the block back, which no slot has come to name.
    #[inline]
    pub(crate) fn take_back<E: Endpoint>(&mut self, heap: &Heap<E>) {
        match std::mem::take(self) {
            Self::None => {}
            Self::Unwritten(block) => heap.take_back(block),
            Self::Written(block) => heap.bury(block),
        }
    }

    /// Gives the block back behind an error, unless that is in doubt: its WRITE may come yet, or a
    /// slot name it, and then it stays until its run is cleaned.
    pub(crate) fn give_up<E: Endpoint>(mut self, heap: &Heap<E>, error: &IndexError) {
        if !error.may_have_taken_effect() {
            self.take_back(heap);
        }
    }
}

const fn bytes_of((key, value): (&[u8], &[u8])) -> usize {
    record_bytes(key.len(), value.len())
}
