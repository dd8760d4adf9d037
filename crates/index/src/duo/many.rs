//! Many writes where the memory is mapped, one after the other, some at a time, for which what they
//! probably change is fetched together.
//!
//! Most are of new keys for which one of their buckets has room, or of keys that are there, and
//! nobody is in the way: these are done at once, without waiting, with the words and in the order
//! of `insert.rs`, `update.rs` and `remove.rs`, and booked as these book them. All others are left
//! to those.

use super::bytes::{SLOT_HEADER, SlotNumber, bucket_entry, head_in, live_head};
use super::placement::{Candidates, Met};
use super::state::DuoTable;
use crate::client::end_turns;
use crate::client::locks::Held;
use crate::{Index, Operation, Outcomes, REMOVE, Result, Value};
use farslot_fabric::{Endpoint, InPlace, OperationClass, Piece, Steps, Tally};
use smallvec::{SmallVec, smallvec};

/// Writes whose memory is fetched together.
const RUN: usize = 16;
/// Words of a slot whose new content needs no allocation.
const FEW_WORDS: usize = 32;

/// What a new key's insertion changes: the bytes of the region where these lie.
struct Places {
    slot: u64,
    /// The word of the published index that names the key, and the count of its segment.
    published: Option<(u64, u64)>,
}

impl<E: Endpoint> DuoTable<E> {
    /// Where all is that an insertion into a slot of the arrays changes; nothing if not all of it
    /// is in memory.
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

impl<E: Endpoint> DuoTable<E> {
    /// Inserts a new key into a free slot; its buckets are held.
    fn insert_new(
        &self,
        view: InPlace<'_>,
        (slot, of, head): (SlotNumber, Candidates, u64),
        write: &Operation<'_>,
        held: Held<'_>,
        reports: &mut bool,
    ) -> Option<Result<Option<Value>>> {
        let (key, value) = (write.key(), write.value()?);
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
            // The word behind the head publishes the record.
            view.write(places.slot, 8, &[head]);
            view.write(places.slot + 16, len - 8, &body[1..]);
            tally.write(8);
            tally.write(len as u64 - 8);
            (verbs, bytes) = (verbs + 3, bytes + 16);
        } else {
            view.write(places.slot + 8, len, &body);
            tally.write(len as u64);
        }
        let (at, to) = match places.published {
            Some(_) => (places.slot + 8, body[0]),
            None => (places.slot, head),
        };
        let seen = view.compare_swap(at, 0, to);
        tally.swap();
        tally.operation_ended(Steps::begun(verbs, bytes));
        self.endpoint.core().counters.add(write.class(), &tally);
        if seen != 0 {
            drop(self.doubt(vec![slot]));
            return Some(Err(self.lost(slot)));
        }
        // Which counts the change, while the key's buckets are held.
        self.change_index(|index| index.enter_at(slot, &of));
        let is_report_due = self.note_entry(1);
        drop(held);
        *reports |= is_report_due;
        Some(Ok(None))
    }

    /// Finds or replaces the record of a key whose buckets are held, in the only slot that may be
    /// its own.
    fn write_there(
        &self,
        view: InPlace<'_>,
        slot: SlotNumber,
        write: &Operation<'_>,
        head: u64,
    ) -> Option<Result<Option<Value>>> {
        let (key, value) = (write.key(), write.value()?);
        let len = self.layout.slot_bytes();
        let start = view.offset_of(Piece {
            from: self.slot_at(slot),
            len,
        })?;
        let mut words: SmallVec<[u64; FEW_WORDS]> = smallvec![0; len / 8];
        view.copy_out(start, len, &mut words);
        view.acquire();
        let bytes = bytemuck::cast_slice(&words);
        let record = self.layout.record_in(bytes)?;
        if head_in(bytes) != head || record.key != key {
            return None;
        }
        let (pool, read) = (&self.endpoint.core().buffers, Steps::begun(1, len as u64));
        if let Operation::FindOrPut(..) = write {
            let found = Value::copied(record.value, pool).ok()?;
            let mut tally = Tally::default();
            tally.operation_ended(read);
            self.endpoint.core().counters.add(write.class(), &tally);
            return Some(Ok(Some(found)));
        }
        let journal = self.journal.try_take()?;
        let batch = self.replacing((slot, journal), head, (key, value)).ok();
        let replaced = batch.and_then(|batch| self.run_at_once(batch, write.class(), read));
        let Some(replaced) = replaced else {
            self.journal.give_back(journal);
            return None;
        };
        if replaced.is_ok() {
            self.journal.give_back(journal);
        }
        Some(replaced.map(|()| Some(Value::of_word(0, 0))))
    }
}

impl<E: Endpoint> DuoTable<E> {
    /// Removes a key whose buckets are held from the only slot that may be its own.
    fn remove_there(
        &self,
        view: InPlace<'_>,
        slot: SlotNumber,
        head: u64,
        reports: &mut bool,
    ) -> Option<Result<Option<Value>>> {
        let (from, len) = (self.slot_at(slot), SLOT_HEADER);
        let at = view.offset_of(Piece { from, len })?;
        let [seen, second] = [0, 1].map(view.words(at));
        if seen != head {
            return None;
        }
        let read = match self.layout.published {
            true => Steps::begun(1, len as u64),
            false => Steps::default(),
        };
        let mut batch = self.batch();
        self.take_out(&mut batch, slot, (head, second));
        let removed = self.run_at_once(batch, REMOVE, read)?;
        Some(removed.map(|()| {
            self.change_index(|index| index.vacate(slot));
            *reports |= self.note_entry(-1);
            Some(Value::of_word(0, 0))
        }))
    }

    /// Books an operation that the index alone has answered: the key is absent.
    fn is_absent(&self, class: OperationClass) -> Option<Result<Option<Value>>> {
        let mut tally = Tally::default();
        tally.operation_ended(Steps::default());
        self.endpoint.core().counters.add(class, &tally);
        Some(Ok(None))
    }
}

impl<E: Endpoint> DuoTable<E> {
    /// Does writes one after the other.
    pub(super) async fn write_in_turn(
        &self,
        writes: &[Operation<'_>],
        mut done: impl FnMut(Outcomes<'_>),
    ) {
        let mut reports = false;
        for (run, writes) in writes.chunks(RUN).enumerate() {
            let mut hashes = [0; RUN];
            for (hash, write) in hashes.iter_mut().zip(writes) {
                *hash = self.layout.hash_of(write.key());
            }
            self.prefetch_writes(&hashes[..writes.len()]);
            for ((number, write), hash) in (run * RUN..).zip(writes).zip(hashes) {
                let outcome = match self.write_at_once(write, hash, &mut reports) {
                    Some(Ok(was)) => {
                        self.tell_counts(std::mem::take(&mut reports)).await;
                        self.after(write, hash, was.is_some()).await;
                        Ok(write.outcome(was))
                    }
                    Some(Err(error)) => Err(error),
                    None => Index::run(self, *write).await,
                };
                done(Outcomes::One(number, outcome));
            }
            end_turns(self.endpoint.core(), writes.len()).await;
        }
    }

    /// Has the index's buckets fetched, then each key's slot, or the one that it would get.
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

    /// Does a write whose key has this hash; returns the value that the key had, as far as that
    /// matters to the write, if it was there. Nothing if it is not a write that can be done at
    /// once, or has to wait for something, and then nothing has changed.
    fn write_at_once(
        &self,
        write: &Operation<'_>,
        hash: u64,
        reports: &mut bool,
    ) -> Option<Result<Option<Value>>> {
        let inserts = match write {
            Operation::Put(..) | Operation::FindOrPut(..) => true,
            Operation::Update(..) | Operation::Remove(_) => false,
            _ => return None,
        };
        let (shape, value) = (self.layout.shape(), write.value());
        shape.check_key(write.key()).ok()?;
        value
            .map_or(Ok(()), |value| shape.check_value(value))
            .ok()?;
        if self.heap.is_some() {
            return None;
        }
        let view = self.view_to_change()?;
        let index = self.index.borrow();
        let of = index.candidates(hash);
        let held = self.locks.try_take(&index.buckets_of(&of))?;
        if index.has_stashed(hash) || !self.is_settled() || index.unsplit() > 0 {
            return None;
        }
        let met = index.met_by(&of);
        let is_only = || index.matches_of(hash, &of).nth(1).is_none();
        match met {
            Met::Free(_) | Met::Full if !inserts => self.is_absent(write.class()),
            Met::Free(slot) => {
                drop(index);
                self.insert_new(view, (slot, of, live_head(hash)), write, held, reports)
            }
            Met::Match(slot) if is_only() => {
                drop(index);
                match value {
                    Some(_) => self.write_there(view, slot, write, live_head(hash)),
                    None => self.remove_there(view, slot, live_head(hash), reports),
                }
            }
            Met::Match(_) | Met::Full => None,
        }
    }

    /// Does what is left to do behind a write that was done at once.
    async fn after(&self, write: &Operation<'_>, hash: u64, was_there: bool) {
        match write {
            Operation::Put(..) | Operation::FindOrPut(..) if !was_there => {
                self.grow_a_step().await;
            }
            Operation::Remove(_) if was_there => {
                let buckets = {
                    let index = self.index.borrow();
                    index.buckets_of(&index.candidates(hash))
                };
                for bucket in buckets {
                    self.bring_back(bucket).await;
                }
            }
            _ => {}
        }
    }
}
