//! Many writes where the memory is mapped.
//!
//! They are done one after the other, some at a time: of all of these the index's buckets are fetched
//! first, then what these name. Most puts are of new keys for which one of their buckets has room, and
//! nobody is in the way: these are done at once, as `insert.rs` does them over verbs. All others are
//! left to that.

use super::bytes::{SlotNumber, bucket_entry, live_head};
use super::state::DuoTable;
use crate::client::let_others_run;
use crate::{Index, Operation, Outcome, Result};
use farslot_fabric::{Endpoint, InPlace, Piece, Steps, Tally};

/// Writes whose slots are fetched together.
const RUN: usize = 16;

/// What a new key's insertion changes: the bytes of the region where these lie.
struct Places {
    slot: u64,
    /// The word of the published index that names the key, and the count of its segment.
    published: Option<(u64, u64)>,
}

impl<E: Endpoint> DuoTable<E> {
    /// Does writes one after the other.
    pub(super) async fn write_in_turn(
        &self,
        writes: &[Operation<'_>],
        mut done: impl FnMut(usize, Result<Outcome>),
    ) {
        let mut body = vec![0; self.layout.slot_bytes() / 8 - 1];
        for (run, writes) in writes.chunks(RUN).enumerate() {
            let mut hashes = [0; RUN];
            for (hash, write) in hashes.iter_mut().zip(writes) {
                *hash = self.layout.hash_of(write.key());
                let index = self.index.borrow();
                index.prefetch(&index.candidates(*hash));
            }
            for hash in &hashes[..writes.len()] {
                self.prefetch_slot(*hash);
            }
            for ((number, write), hash) in (run * RUN..).zip(writes).zip(hashes) {
                let outcome = match self.insert_at_once(write, hash, &mut body) {
                    Some(inserted) => self.inserted(write, inserted).await,
                    None => Index::run(self, *write).await,
                };
                done(number, outcome);
            }
            let mut turns = 0..writes.len().div_ceil(8);
            if turns.any(|_| self.endpoint.core().is_turn_over()) {
                let_others_run().await;
            }
        }
    }

    /// Has fetched the slot that the write of a key with this hash probably changes: the key's, or the
    /// one that it would get.
    fn prefetch_slot(&self, hash: u64) {
        let index = self.index.borrow();
        let of = index.candidates(hash);
        let there = index.first_in_arrays(&of);
        let there = there.map(|(bucket, slot)| index.slot(bucket, slot));
        let Some(slot) = there.or_else(|| index.room_in(&index.buckets_of(&of))) else {
            return;
        };
        drop(index);
        let Some(view) = self.view_to_change() else {
            return;
        };
        if let Some(places) = self.places(view, slot) {
            view.prefetch(places.slot, self.layout.slot_bytes());
            if let Some((word, _)) = places.published {
                view.prefetch(word, 8);
            }
        }
        if let Some(stamps) = &self.stamps {
            stamps.prefetch(self.layout.page_of(slot).0);
        }
    }

    /// Where all is that an insertion into a slot of the arrays changes; nothing if not all of it is in
    /// memory.
    fn places(&self, view: InPlace<'_>, slot: SlotNumber) -> Option<Places> {
        let offset = |from, len| view.offset_of(Piece { from, len });
        let published = match &self.stamps {
            None => None,
            Some(_) => {
                let (page, number) = self.layout.page_of(slot);
                let word = self.layout.page_shape(page).word_of(number);
                let page_at = self.vault.page_at(&self.layout, page);
                let count_at = self.vault.count_at(self.vault.segment_of(page));
                Some((
                    offset(page_at.plus(u64::from(word) * 8), 8)?,
                    offset(count_at, 8)?,
                ))
            }
        };
        Some(Places {
            slot: offset(self.slot_at(slot), self.layout.slot_bytes())?,
            published,
        })
    }

    /// Inserts a key that is new, into a slot of one of its buckets that is free; returns whether there
    /// is enough to tell. Nothing if the write is another one, or has to wait for something, and then
    /// nothing has changed.
    fn insert_at_once(
        &self,
        write: &Operation<'_>,
        hash: u64,
        body: &mut [u64],
    ) -> Option<Result<bool>> {
        let (Operation::Put(key, value) | Operation::FindOrPut(key, value)) = write else {
            return None;
        };
        let shape = self.layout.shape();
        let is_fit = shape.check_key(key).is_ok() && shape.check_value(value).is_ok();
        if !is_fit || self.heap.is_some() {
            return None;
        }
        let view = self.view_to_change()?;
        let index = self.index.borrow();
        let of = index.candidates(hash);
        let [first, second] = index.buckets_of(&of);
        let held = self.locks.try_take(&[first, second])?;
        let is_new = index.matches_of(hash, &of).next().is_none();
        if !is_new || !self.is_settled() || index.unsplit() > 0 {
            return None;
        }
        // Of equally roomy ones the first.
        let slot = index.room_in(&[second, first])?;
        drop(index);
        let places = self.places(view, slot)?;
        let entry = bucket_entry(of.primary, false, self.layout.fingerprint_bits);
        let len = (self.layout).fill_body(bytemuck::cast_slice_mut(body), key, value);
        let (mut tally, mut verbs, mut bytes) = (Tally::default(), 2, len as u64 + 8);
        if let Some((word_at, count_at)) = places.published {
            let word = self.word_for(slot, entry);
            view.write(word_at, 8, &[word]);
            view.fetch_add(count_at, 1);
            tally.write(8);
            tally.add();
            (verbs, bytes) = (verbs + 2, bytes + 16);
        }
        view.write(places.slot + 8, len, body);
        let seen = view.compare_swap(places.slot, 0, live_head(hash));
        tally.write(len as u64);
        tally.swap();
        tally.operation_ended(Steps::begun(verbs, bytes));
        self.endpoint.core().counters.add(write.class(), &tally);
        if seen != 0 {
            drop(self.doubt(vec![slot]));
            return Some(Err(self.lost(slot)));
        }
        self.note_change();
        self.change_index(|index| index.assign(slot, hash));
        let enough = self.note_entry(1);
        drop(held);
        Some(Ok(enough))
    }

    /// What is left to do when a key was inserted at once, and the write's outcome.
    async fn inserted(&self, write: &Operation<'_>, enough: Result<bool>) -> Result<Outcome> {
        self.tell_counts(enough?).await;
        self.grow_a_step().await;
        Ok(match write {
            Operation::FindOrPut(..) => Outcome::Value(None),
            _ => Outcome::Changed(true),
        })
    }
}
