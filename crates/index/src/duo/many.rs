//! Many writes where the memory is mapped.
//!
//! Most puts are of new keys for which one of their buckets has room, and nobody is in the way: these
//! are [done at once](crate::insert_many), as `insert.rs` does them over verbs. All others are left to
//! that.

use super::bytes::{SlotNumber, bucket_entry, live_head};
use super::placement::{Candidates, Met};
use super::state::DuoTable;
use crate::insert_many::{InsertAtOnce, RUN};
use crate::{Operation, Result};
use farslot_fabric::{Endpoint, InPlace, Piece, Steps, Tally};
use smallvec::{SmallVec, smallvec};

/// Words of a slot whose new content needs no allocation.
const FEW_WORDS: usize = 32;

/// What a new key's insertion changes: the bytes of the region where these lie.
struct Places {
    slot: u64,
    /// The word of the published index that names the key, and the count of its segment.
    published: Option<(u64, u64)>,
}

impl<E: Endpoint> DuoTable<E> {
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
}

impl<E: Endpoint> InsertAtOnce for DuoTable<E> {
    fn hash_of(&self, key: &[u8]) -> u64 {
        self.layout.hash_of(key)
    }

    /// The index's buckets, then each key's slot, or the one that it would get.
    fn prefetch_writes(&self, hashes: &[u64]) {
        let mut all = [(Candidates::default(), Met::Full); RUN];
        let all = &mut all[..hashes.len()];
        let index = self.index.borrow();
        for ((of, _), hash) in all.iter_mut().zip(hashes) {
            *of = index.candidates(*hash);
            index.prefetch(of);
        }
        for (of, met) in all.iter_mut() {
            *met = index.met_by(of);
        }
        drop(index);
        let Some(view) = self.view_to_change() else {
            return;
        };
        let slots = all.iter().filter_map(|(_, met)| met.slot());
        let places = slots.clone().filter_map(|slot| self.places(view, slot));
        let places: SmallVec<[Places; RUN]> = places.collect();
        // In one burst: prefetches that stand close together wait less for each other.
        for slot in &places {
            view.prefetch(slot.slot, self.layout.slot_bytes());
        }
        for (word, _) in places.iter().filter_map(|slot| slot.published) {
            view.prefetch(word, 8);
        }
        if let Some(stamps) = &self.stamps {
            stamps.prefetch(slots.map(|slot| self.layout.page_of(slot).0));
        }
    }

    fn insert_at_once(&self, write: &Operation<'_>, hash: u64) -> Option<Result<bool>> {
        let (Operation::Put(key, value) | Operation::FindOrPut(key, value)) = *write else {
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
        let held = self.locks.try_take(&index.buckets_of(&of))?;
        let Met::Free(slot) = index.met_by(&of) else {
            return None;
        };
        if index.has_stashed(hash) || !self.is_settled() || index.unsplit() > 0 {
            return None;
        }
        drop(index);
        let places = self.places(view, slot)?;
        let entry = bucket_entry(of.primary, false, self.layout.fingerprint_bits);
        let mut body: SmallVec<[u64; FEW_WORDS]> = smallvec![0; self.layout.slot_bytes() / 8 - 1];
        let len = (self.layout).fill_body(bytemuck::cast_slice_mut(&mut body), key, value);
        let (mut tally, mut verbs, mut bytes) = (Tally::default(), 2, len as u64 + 8);
        if let Some((word_at, count_at)) = places.published {
            let word = self.word_for(slot, entry);
            view.write(word_at, 8, &[word]);
            view.fetch_add(count_at, 1);
            tally.write(8);
            tally.add();
            (verbs, bytes) = (verbs + 2, bytes + 16);
        }
        view.write(places.slot + 8, len, &body);
        let seen = view.compare_swap(places.slot, 0, live_head(hash));
        tally.write(len as u64);
        tally.swap();
        tally.operation_ended(Steps::begun(verbs, bytes));
        self.endpoint.core().counters.add(write.class(), &tally);
        if seen != 0 {
            drop(self.doubt(vec![slot]));
            return Some(Err(self.lost(slot)));
        }
        // Which counts the change, while the key's buckets are held.
        self.change_index(|index| index.enter_at(slot, &of));
        let enough = self.note_entry(1);
        drop(held);
        Some(Ok(enough))
    }

    async fn inserted(&self, is_report_due: bool) {
        self.tell_counts(is_report_due).await;
        self.grow_a_step().await;
    }
}
