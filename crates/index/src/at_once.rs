//! Writing records out of band where the memory is mapped, without waiting: for the schemes whose
//! writes are not said in [steps](crate::step) yet.
//!
//! The words that are read, written and swapped are those of a scheme's protocol over verbs, in the
//! same order, and so is what is booked. Blocks come of what this client holds, and go back to it,
//! by the heap's rules of epochs. Whatever is rare is left to that protocol, with nothing changed; a
//! client without a block at hand, or with a look at the heap's epoch due, for instance.

use crate::heap::{BlockRef, Heap, Held, RecordView, bytes_by_lengths, record_bytes};
use farslot_fabric::{Endpoint, InPlace};

/// How often a write begins again because another was faster.
pub(crate) const MOST_TRIES: u32 = 8;
/// Bytes of a record that are prefetched: processors go on by themselves behind these.
pub(crate) const LIKELY: usize = 256;
/// Words of the longest buffer that a client keeps from one batch to the next: one client of many
/// tables shall not keep the longest record of each.
const KEPT: usize = 1 << 10;

/// What the writes of a batch share.
#[derive(Default)]
pub(crate) struct Work {
    /// Whether there is enough to report, and to give to all.
    pub(crate) reports: bool,
    surplus: bool,
    /// Whether this client has to look at the heap's epoch before it uses a block. Asked once for
    /// the writes between two waits, which take microseconds: a look at the clock costs as much as
    /// a swap.
    is_look_due: bool,
    /// The record that is there, and the one that is to be.
    there: Vec<u64>,
    draft: Vec<u64>,
}

impl Work {
    /// That of a batch; to be [ended](Work::end).
    pub(crate) fn of<E: Endpoint>(heap: Option<&Heap<E>>) -> Self {
        let [there, draft] = heap.map(|heap| heap.room.take()).unwrap_or_default();
        Self {
            there,
            draft,
            ..Self::default()
        }
    }

    /// Leaves what it has to the next batch.
    pub(crate) fn end<E: Endpoint>(self, heap: Option<&Heap<E>>) {
        let is_small = |room: &Vec<u64>| room.capacity() <= KEPT;
        if let Some(heap) = heap {
            heap.room.set(
                [self.there, self.draft]
                    .map(|room| if is_small(&room) { room } else { Vec::new() }),
            );
        }
    }

    /// Finds out whether blocks of the heap may be used: to be called behind each wait.
    pub(crate) fn look<E: Endpoint>(&mut self, heap: &Heap<E>) {
        self.is_look_due = heap.is_look_due();
    }

    /// Gives to all what this client keeps too much of: before it keeps more, so that no client
    /// ever holds more than it may.
    pub(crate) async fn give_surplus<E: Endpoint>(&mut self, heap: &Heap<E>) {
        if std::mem::take(&mut self.surplus) {
            heap.give_surplus().await;
            self.look(heap);
        }
    }

    /// Writes a record into a block that this client has; returns that, and the record's bytes.
    pub(crate) fn write_record<E: Endpoint>(
        &mut self,
        view: InPlace<'_>,
        heap: &Heap<E>,
        (key, value): (&[u8], &[u8]),
    ) -> Option<(Held, usize)> {
        let len = record_bytes(key.len(), value.len());
        let own = || heap.allocate_own(len);
        let held = (!self.is_look_due).then(own).flatten()?;
        let record = heap.new_record(held.block, (key, value));
        // A block that is not in the memory is lost: nobody can use it.
        let at = view.offset_of(record.piece())?;
        let draft = room(&mut self.draft, len);
        record.encode_in(draft);
        view.write(at, len, draft);
        Some((held, len))
    }

    /// The record in a block; nothing if it is not whole. Its READ is for the caller to book.
    pub(crate) fn record<E: Endpoint>(
        &mut self,
        view: InPlace<'_>,
        heap: &Heap<E>,
        block: BlockRef,
    ) -> Option<RecordView<'_>> {
        let piece = heap.piece(block);
        let at = view.offset_of(piece)?;
        let bytes = bytes_by_lengths(view.words(at)(1), piece.len);
        let there = room(&mut self.there, bytes);
        view.copy_out(at, bytes, there);
        RecordView::decode(&bytemuck::cast_slice(there)[..bytes], block)
    }

    /// Keeps a block that no slot names, or none any more: it was allocated, or freed, behind the
    /// last wait.
    pub(crate) fn keep<E: Endpoint>(&mut self, heap: &Heap<E>, block: BlockRef) {
        self.surplus |= heap.keep_since(block, heap.epoch());
    }
}

/// The first words of these that so many bytes need.
fn room(words: &mut Vec<u64>, bytes: usize) -> &mut [u64] {
    let needed = bytes.div_ceil(8);
    if words.len() < needed {
        words.resize(needed, 0);
    }
    &mut words[..needed]
}
