//! Buckets as a plan has read them, and as it would leave them: nothing is written before a plan is
//! whole.

use super::client::BaselineTable;
use super::homes::{BucketWindow, Homes};
use super::slots::{Record, Slot, SlotFormat, SlotWrite, is_free};
use super::waiting::side_by_side;
use farslot::fabric::{Buffer, Endpoint};
use farslot::index::Result;
use std::collections::HashMap;
use std::rc::Rc;

/// A bucket's slots.
struct Bucket {
    /// Whether each held anything when it was read, also what does not belong there any more.
    was_used: Vec<bool>,
    /// The records that were in it.
    before: Vec<Option<Rc<Record>>>,
    /// The records that the plan puts there.
    after: Vec<Option<Rc<Record>>>,
}

/// The buckets that a plan has looked at.
pub struct BucketBoard<'t, E, P> {
    table: &'t BaselineTable<E, P>,
    buckets: HashMap<u64, Bucket>,
}

impl<'t, E: Endpoint, P: Homes> BucketBoard<'t, E, P> {
    pub(super) fn new(table: &'t BaselineTable<E, P>) -> Self {
        Self {
            table,
            buckets: HashMap::new(),
        }
    }

    /// Reads those of some buckets that it does not know yet, in one batch, and those that must be
    /// cleaned together with them.
    ///
    /// # Errors
    /// What the fabric says, or [`Unreadable`](farslot::index::IndexError::Unreadable).
    pub async fn read(&mut self, buckets: &[u64]) -> Result<()> {
        let twins = buckets
            .iter()
            .filter_map(|bucket| self.table.placing.unclean_with(*bucket));
        let mut wanted: Vec<u64> = buckets.iter().copied().chain(twins).collect();
        wanted.retain(|bucket| !self.buckets.contains_key(bucket));
        wanted.sort_unstable();
        wanted.dedup();
        let table = self.table;
        let reads = wanted
            .iter()
            .map(|bucket| table.read_window(BucketWindow::of(*bucket)));
        let mut met = Vec::new();
        side_by_side(wanted.len().max(1), reads, |number, bytes| {
            met.push((wanted[number], bytes));
        })
        .await?;
        for (bucket, bytes) in met {
            self.note(BucketWindow::of(bucket), &bytes);
        }
        Ok(())
    }

    /// Reads a window in one piece, whether it knows its buckets or not.
    ///
    /// # Errors
    /// As [`BucketBoard::read`].
    pub async fn read_again(&mut self, window: BucketWindow) -> Result<()> {
        let bytes = self.table.read_window(window).await?;
        self.note(window, &bytes);
        Ok(())
    }

    /// Notes a window that was read whole; what it knows of a bucket already stands.
    pub(super) fn note(&mut self, window: BucketWindow, bytes: &Buffer) {
        let layout = self.table.layout();
        let pieces = bytes.chunks_exact(layout.bucket_bytes());
        for (bucket, bytes) in window.buckets().zip(pieces) {
            let slots = || bytes.chunks_exact(layout.slot_bytes());
            self.buckets.entry(bucket).or_insert_with(|| {
                let before: Vec<_> = slots()
                    .map(|slot| self.table.record_at(bucket, slot))
                    .collect();
                Bucket {
                    was_used: slots().map(|slot| !is_free(slot)).collect(),
                    after: before.clone(),
                    before,
                }
            });
        }
    }

    /// Puts a record into a free slot of a bucket that was read; false if there is none.
    pub fn place(&mut self, bucket: u64, record: &Rc<Record>) -> bool {
        let slots = self
            .buckets
            .get_mut(&bucket)
            .map(|bucket| &mut bucket.after);
        let free = slots.and_then(|slots| slots.iter_mut().find(|slot| slot.is_none()));
        free.map(|slot| *slot = Some(Rc::clone(record))).is_some()
    }

    /// Puts a record into a slot of a bucket that was read, and gives the one that was there.
    pub fn replace(&mut self, bucket: u64, slot: usize, record: Rc<Record>) -> Option<Rc<Record>> {
        let slots = self
            .buckets
            .get_mut(&bucket)
            .map(|bucket| &mut bucket.after);
        slots.and_then(|slots| slots.get_mut(slot)?.replace(record))
    }

    /// Takes the records that are `wanted` out of a bucket that was read.
    pub fn take(&mut self, bucket: u64, wanted: impl Fn(&Record) -> bool) -> Vec<Rc<Record>> {
        let slots = self
            .buckets
            .get_mut(&bucket)
            .map(|bucket| &mut bucket.after);
        let taken = slots
            .into_iter()
            .flatten()
            .filter_map(|slot| slot.take_if(|record| wanted(record)));
        taken.collect()
    }

    /// The free slots of a bucket that was read.
    #[must_use]
    pub fn free(&self, bucket: u64) -> usize {
        let slots = self.buckets.get(&bucket).map(|bucket| &bucket.after);
        slots.map_or(0, |slots| {
            slots.iter().filter(|slot| slot.is_none()).count()
        })
    }

    /// The buckets that it knows.
    pub(super) fn known(&self) -> impl Iterator<Item = u64> + use<'_, E, P> {
        self.buckets.keys().copied()
    }

    /// What is to be written: the records that go elsewhere, then what makes slots free, and the
    /// newcomer last, if there is one.
    pub(super) fn changes(&self, newcomer: Option<&Rc<Record>>) -> PlanChanges {
        let mut changes = PlanChanges::default();
        let mut cleared = Vec::new();
        let is_newcomer = |record: &Rc<Record>| newcomer.is_some_and(|new| Rc::ptr_eq(new, record));
        let bucket_slots = u64::from(self.table.layout().bucket_slots);
        let mut last = None;
        for (number, bucket) in &self.buckets {
            for (at, record) in bucket.after.iter().enumerate() {
                let slot = number * bucket_slots + at as u64;
                let same = match (&bucket.before[at], record) {
                    (Some(before), Some(after)) => Rc::ptr_eq(before, after),
                    (_, None) => !bucket.was_used[at],
                    (None, Some(_)) => false,
                };
                if same {
                    continue;
                }
                match record {
                    None => cleared.push(SlotWrite {
                        slot,
                        bytes: SlotFormat::free(),
                    }),
                    Some(record) => {
                        let bytes = Rc::clone(&record.bytes);
                        let write = SlotWrite { slot, bytes };
                        if is_newcomer(record) {
                            last = Some(write);
                        } else {
                            changes.moved += 1;
                            changes.writes.push(write);
                        }
                    }
                }
            }
        }
        // The same order in every run.
        changes.writes.sort_unstable_by_key(|write| write.slot);
        cleared.sort_unstable_by_key(|write| write.slot);
        changes.writes.extend(cleared);
        changes.writes.extend(last);
        changes
    }
}

/// What a plan comes to.
#[derive(Default)]
pub(super) struct PlanChanges {
    pub(super) writes: Vec<SlotWrite>,
    /// How many of them put a record of the table elsewhere.
    pub(super) moved: u64,
}

impl<E: Endpoint, P: Homes> BaselineTable<E, P> {
    /// The record of a slot that was read whole, unless it is a copy that does not belong there any
    /// more.
    pub(super) fn record_at(&self, bucket: u64, slot: &[u8]) -> Option<Rc<Record>> {
        let Slot::Record(record) = self.layout().format.decode(slot) else {
            return None;
        };
        let hash = self.layout().hasher.hash(record.key);
        self.placing.belongs(hash, bucket).then(|| {
            let len = (record.value_at + record.value.len()).next_multiple_of(8);
            Rc::new(Record {
                hash,
                bytes: slot[..len].into(),
            })
        })
    }
}
