//! Where a slot's record is: in the slot, or in a heap.
//!
//! A slot of a table with a heap names a block in the word behind its head. The record there is
//! written whole before any slot names it, and never changes while one does; it says itself which
//! use of the block it is of. So a record is replaced by swapping that word, without the journal,
//! and moved by copying it.

use super::bytes::{DuoLayout, SlotNumber, head_in, is_dead, second_in};
use super::state::DuoTable;
use crate::client::{MOST_READS, pause};
use crate::heap::{BlockRef, Heap, RecordView};
use crate::step::ReadPieces;
use crate::{IndexError, Result};
use farslot_fabric::{Buffer, Endpoint, EndpointExt, Piece, RemoteAddr};
use std::ops::{Deref, Range};
use std::sync::atomic::Ordering;

/// A slot as it was read, its record with it: a head, and then what [`DuoLayout::record_in`]
/// understands.
pub(super) struct SlotRead {
    bytes: Buffer,
    /// The word behind the head, as it is in the slot.
    pub(super) second: u64,
}

impl SlotRead {
    /// One with the bytes of the slot alone.
    pub(super) fn in_place(bytes: Buffer) -> Self {
        let second = second_in(&bytes);
        Self { bytes, second }
    }

    pub(super) fn into_bytes(self) -> Buffer {
        self.bytes
    }
}

impl Deref for SlotRead {
    type Target = Buffer;

    fn deref(&self) -> &Buffer {
        &self.bytes
    }
}

/// A slot that may be a key's, as the steps of a lookup read it: the slot, then the block that it
/// names.
#[derive(Default)]
pub(super) struct SlotToMeet {
    at: Option<RemoteAddr>,
    /// While that is read.
    block: Option<BlockRef>,
}

/// What a slot turned out to be.
pub(super) enum SlotReading {
    /// The key's: where the value is, in what was read last.
    Key(Range<usize>),
    /// The key's, by its head: the block that it names is to be read.
    Named,
    Other,
    Dead,
    /// The key's, but not whole.
    Torn,
}

impl SlotToMeet {
    pub(super) const fn new(at: RemoteAddr) -> Self {
        let at = Some(at);
        Self { at, block: None }
    }

    /// What is to be read next.
    #[inline]
    pub(super) fn piece<E: Endpoint>(&self, layout: &DuoLayout, heap: Option<&Heap<E>>) -> Piece {
        match (self.block, heap) {
            (Some(block), Some(heap)) => heap.piece(block),
            _ => Piece {
                from: self.at.expect("a lookup that reads has a slot"),
                len: layout.slot_bytes(),
            },
        }
    }

    /// Looks at what was read, for the key with these bytes and this head.
    #[inline]
    pub(super) fn look<E: Endpoint>(
        &mut self,
        layout: &DuoLayout,
        heap: Option<&Heap<E>>,
        (key, head): (&[u8], u64),
        read: &mut impl ReadPieces,
    ) -> SlotReading {
        let is_key = |of: &[u8], value: Range<usize>| match of == key {
            true => SlotReading::Key(value),
            false => SlotReading::Other,
        };
        match (self.block.take(), heap) {
            (Some(block), Some(heap)) => {
                let record = read.bytes(0, 0..heap.piece(block).len);
                let record = RecordView::decode(record, block);
                record.map_or(SlotReading::Torn, |record| {
                    is_key(record.key, record.value_range())
                })
            }
            (_, heap) => match read.word(0, 0) {
                0 => SlotReading::Dead,
                other if other != head => SlotReading::Other,
                _ => {
                    let slot = read.bytes(0, 0..layout.slot_bytes());
                    let met = if heap.is_some() {
                        self.block = layout.block_of(second_in(slot));
                        self.block.map(|_| SlotReading::Named)
                    } else {
                        let record = layout.record_in(slot);
                        record.map(|record| is_key(record.key, record.value_range()))
                    };
                    met.unwrap_or_else(|| match is_dead(slot) {
                        true => SlotReading::Dead,
                        false => SlotReading::Torn,
                    })
                }
            },
        }
    }
}

/// The slot of these bytes, with the record that it names, if it is live. If that has been replaced
/// meanwhile, the slot is not whole.
pub(super) async fn with_record<E: Endpoint>(
    layout: &DuoLayout,
    heap: &Heap<E>,
    slot: Buffer,
) -> Result<SlotRead> {
    let (head, reference) = (head_in(&slot), slot.words()[1]);
    let block = layout.block_of(reference).filter(|_| head != 0);
    let record = match block {
        Some(block) => heap.read(block).await?,
        None => None,
    };
    Ok(match record {
        Some(record) => {
            let mut bytes = record.into_buffer();
            bytes.words_mut()[0] = head;
            let second = reference;
            SlotRead { bytes, second }
        }
        None => SlotRead::in_place(slot),
    })
}

impl<E: Endpoint> DuoTable<E> {
    /// Reads a slot and its record.
    pub(super) async fn read_slot(&self, slot: SlotNumber) -> Result<SlotRead> {
        self.read_slot_at(self.slot_at(slot)).await
    }

    /// Reads the slot that lies there, and its record.
    pub(super) async fn read_slot_at(&self, at: RemoteAddr) -> Result<SlotRead> {
        let bytes = self.endpoint.read(at, self.layout.slot_bytes()).await?;
        self.resolved(bytes).await
    }

    /// Reads a slot without a record that it names.
    pub(super) async fn read_bare(&self, slot: SlotNumber) -> Result<Buffer> {
        let at = self.slot_at(slot);
        Ok(self.endpoint.read(at, self.layout.slot_bytes()).await?)
    }

    /// Reads a slot that is live and is to be moved: its record only if that goes with it.
    pub(super) async fn read_to_move(&self, slot: SlotNumber) -> Result<SlotRead> {
        if self.heap.is_none() {
            return self.read_whole(slot).await;
        }
        let bytes = self.read_bare(slot).await?;
        Ok(SlotRead::in_place(bytes))
    }

    /// Reads a slot that is live and that nobody writes.
    pub(super) async fn read_whole(&self, slot: SlotNumber) -> Result<SlotRead> {
        for attempt in 0..MOST_READS {
            let bytes = self.read_slot(slot).await?;
            if head_in(&bytes) == 0 || self.layout.record_in(&bytes).is_some() {
                return Ok(bytes);
            }
            pause(&*self.endpoint, attempt).await?;
        }
        Err(self.unreadable(slot))
    }

    /// The error for a slot that is not as the index has it: another client has become the owner.
    pub(super) fn lost(&self, SlotNumber(slot): SlotNumber) -> IndexError {
        self.owns.store(false, Ordering::Release);
        self.forget_heap();
        IndexError::WriterLost { slot }
    }

    pub(super) fn unreadable(&self, SlotNumber(slot): SlotNumber) -> IndexError {
        IndexError::Unreadable {
            slot,
            attempts: MOST_READS,
        }
    }

    /// A slot that was read, with its record.
    pub(super) async fn resolved(&self, slot: Buffer) -> Result<SlotRead> {
        match &self.heap {
            Some(heap) => with_record(&self.layout, heap, slot).await,
            None => Ok(SlotRead::in_place(slot)),
        }
    }

    /// A slot of a piece that was read, with its record.
    pub(super) async fn resolved_of(&self, slot: &[u8]) -> Result<SlotRead> {
        let slot = self.endpoint.core().buffers.copy_of(slot)?;
        self.resolved(slot).await
    }
}
