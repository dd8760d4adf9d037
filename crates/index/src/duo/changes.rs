//! Changes of a table's bytes and words, in an order: what of them takes effect is their first
//! part, wherever the owner or the fabric stops.
//!
//! They are verbs that are posted together. Where the memory is mapped they are done in it, one
//! after the other, and counted alike.

use super::bytes::SlotNumber;
use super::state::DuoTable;
use crate::step::view_to_write;
use crate::{IndexError, Result};
use farslot_fabric::{
    Buffer, Endpoint, EndpointExt, InPlace, Piece, RemoteAddr, Steps, Tally, all_in_order,
};
use smallvec::SmallVec;
use std::cell::Cell;

/// A change.
pub(super) enum Change {
    Write(RemoteAddr, Buffer),
    /// Writes the [record](Batch::record) of the batch, from this word on.
    WriteRecord(RemoteAddr, usize),
    WriteWord(RemoteAddr, u64),
    /// Adds to a word to which others add at the same time: to a count, or bits that are not set.
    Add(RemoteAddr, u64),
    /// Changes a word that nobody else changes, from what it is. If it is not, the table has
    /// another owner, who has changed that slot.
    Swap {
        at: RemoteAddr,
        from: u64,
        to: u64,
        slot: SlotNumber,
    },
}

/// Changes, in the order in which they take effect.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) changes: SmallVec<[Change; 6]>,
    /// The slots that are in doubt unless all of it is known to have taken effect.
    pub(super) slots: SmallVec<[SlotNumber; 4]>,
    /// A new record that is written once or more, in words, and how many bytes it has.
    pub(super) record: SmallVec<[u64; 32]>,
    pub(super) record_len: usize,
    /// Whether it is one swap of a word that may be another one, of a slot of another key.
    pub(super) is_attempt: bool,
}

impl Batch {
    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.changes.clear();
        self.slots.clear();
        self.is_attempt = false;
    }

    /// Takes words for a record of so many bytes.
    pub(super) fn record_of(&mut self, len: usize) -> &mut [u64] {
        self.record_len = len;
        self.record.resize(len.div_ceil(8), 0);
        &mut self.record
    }

    /// Where a change is made, and how many bytes it changes.
    #[inline(always)]
    fn piece(&self, change: &Change) -> Piece {
        let (from, len) = match change {
            Change::Write(at, bytes) => (*at, bytes.len()),
            Change::WriteRecord(at, first) => (*at, self.record_len - first * 8),
            Change::WriteWord(at, _) | Change::Add(at, _) | Change::Swap { at, .. } => (*at, 8),
        };
        Piece { from, len }
    }
}

impl<E: Endpoint> DuoTable<E> {
    /// The table's memory, where it is mapped and may be changed.
    pub(super) fn view_to_change(&self) -> Option<InPlace<'_>> {
        view_to_write(&*self.endpoint, self.table)
    }

    /// Makes changes. Unless all of them are known to have taken effect, also if this is dropped
    /// half way, their slots are in doubt.
    ///
    /// # Errors
    /// What the fabric says of the first that failed, or that the table has another owner.
    pub(super) async fn run(&self, mut batch: Batch) -> Result<()> {
        let mut tally = Tally::default();
        let view = self.view_to_change();
        let unlike = match view.and_then(|view| self.make(view, &batch, &mut tally)) {
            Some((unlike, verbs, bytes)) => {
                let counters = &self.endpoint.core().counters;
                counters.done_in_place(tally, Steps::begun(verbs, bytes));
                unlike
            }
            None => {
                self.take_buffers(&mut batch)?;
                self.post(&mut batch).await?
            }
        };
        unlike.map_or(Ok(()), |slot| Err(self.lost(slot)))
    }

    /// Has what is written in buffers: before anything is posted, so that nothing is in doubt if
    /// there are none.
    pub(super) fn take_buffers(&self, batch: &mut Batch) -> Result<()> {
        let pool = &self.endpoint.core().buffers;
        let record = &bytemuck::cast_slice(&batch.record)[..batch.record_len];
        for change in &mut batch.changes {
            *change = match change {
                Change::WriteRecord(at, first) => {
                    Change::Write(*at, pool.copy_of(&record[*first * 8..])?)
                }
                Change::WriteWord(at, word) => {
                    Change::Write(*at, pool.copy_of(&word.to_le_bytes())?)
                }
                _ => continue,
            };
        }
        Ok(())
    }

    /// Makes changes by verbs, for which there are [buffers](Self::take_buffers); returns the slot
    /// at which a word was not what it is changed from. Nothing is posted behind that once it is
    /// known, but what had left with it is made.
    ///
    /// # Errors
    /// What the fabric says of the first that failed.
    pub(super) async fn post(&self, batch: &mut Batch) -> Result<Option<SlotNumber>> {
        let (changes, unlike) = (std::mem::take(&mut batch.changes), Cell::new(None));
        let doubt = self.doubt(batch.slots.to_vec());
        let posts = changes.into_iter().map(|one| self.post_one(one, &unlike));
        match (all_in_order(posts.collect()).await, unlike.get()) {
            (Err(error), None) => return Err(error),
            (_, Some(_)) if !batch.is_attempt => {}
            _ => doubt.resolve(),
        }
        self.note_change();
        Ok(unlike.get())
    }

    async fn post_one(&self, change: Change, unlike: &Cell<Option<SlotNumber>>) -> Result<()> {
        match change {
            Change::Write(at, bytes) => self.endpoint.write(at, bytes).await?,
            Change::WriteRecord(..) | Change::WriteWord(..) => {
                unreachable!("what is written is in buffers")
            }
            Change::Add(at, addend) => _ = self.endpoint.fetch_add(at, addend).await?,
            Change::Swap { at, from, to, slot } => {
                if self.endpoint.compare_swap(at, from, to).await? != from {
                    unlike.set(Some(slot));
                    return Err(IndexError::WriterLost { slot: slot.0 });
                }
            }
        }
        Ok(())
    }

    /// Makes changes in memory, as [`DuoTable::post`] does, if that has all of them; returns
    /// besides what is to be counted: verbs that leave together, and their bytes.
    pub(super) fn make(
        &self,
        view: InPlace<'_>,
        batch: &Batch,
        tally: &mut Tally,
    ) -> Option<(Option<SlotNumber>, u32, u64)> {
        let is_mapped = |change: &Change| view.offset_of(batch.piece(change)).is_some();
        if !batch.changes.iter().all(is_mapped) {
            return None;
        }
        let (mut unlike, mut verbs, mut all) = (None, 0, 0);
        for change in &batch.changes {
            let Piece { from, len } = batch.piece(change);
            let (at, bytes) = (from.offset, len as u64);
            (verbs, all) = (verbs + 1, all + bytes);
            let mut write = |words: &[u64]| {
                view.write(at, len, words);
                tally.write(bytes);
            };
            match change {
                Change::Write(_, from) => write(from.words()),
                Change::WriteRecord(_, first) => write(&batch.record[*first..]),
                Change::WriteWord(_, word) => write(&[*word]),
                Change::Add(_, addend) => {
                    view.fetch_add(at, *addend);
                    tally.add();
                }
                Change::Swap { from, to, slot, .. } => {
                    tally.swap();
                    if view.compare_swap(at, *from, *to) != *from {
                        unlike = Some(*slot);
                        break;
                    }
                }
            }
        }
        match unlike {
            Some(_) if !batch.is_attempt => drop(self.doubt(batch.slots.to_vec())),
            _ => self.note_change(),
        }
        Some((unlike, verbs, all))
    }
}
