//! Splitting buckets.
//!
//! Invariant: who splits a bucket holds it, and nothing is in doubt. First the new buckets are written, then the bit is
//! set that says so, then the bucket is written without what is not its own any more: one batch. What readers are told of
//! it is in between (`publish.rs`).

use super::super::client::{DuoTable, Key};
use super::super::extendible::StashSplit;
use super::super::layout::{hash_in, head_in};
use super::super::placement::SlotNumber;
use super::origins_of;
use super::publish::Of;
use super::step::Step;
use super::vault::Run;
use crate::Result;
use crate::client::locks::Held;
use crate::client::side_by_side;
use farslot_fabric::{Buffer, Endpoint, EndpointExt, both};
use std::collections::BTreeMap;

/// Bytes of a piece: operations on its buckets wait until they are split, which with so few takes hardly longer than the
/// round trips.
const PIECE: usize = 8 << 10;

/// The keys of a bucket: their slots and their hashes.
pub(super) type Keys = Vec<(SlotNumber, u64)>;

impl<E: Endpoint> DuoTable<E> {
    /// Holds a key's buckets as the owner, with nothing in doubt, and both split.
    pub(in super::super) async fn hold_split(&self, key: &Key<'_>) -> Result<Held<'_>> {
        loop {
            let held = self.hold(key).await?;
            let origins = origins_of(&self.index.borrow(), key.buckets.get());
            if origins.is_empty() {
                return Ok(held);
            }
            self.split(&origins).await?;
        }
    }

    /// As [`DuoTable::hold_split`], with nobody else holding anything.
    pub(in super::super) async fn hold_split_alone(&self, key: &Key<'_>) -> Result<Held<'_>> {
        let alone = self.hold_alone().await?;
        self.add_buckets(key, &alone);
        let origins = origins_of(&self.index.borrow(), key.buckets.get());
        if !origins.is_empty() {
            self.split(&origins).await?;
            self.add_buckets(key, &alone);
        }
        Ok(alone)
    }

    /// Splits the next buckets that are not split, of so many pieces side by side, of the growth that this bucket takes
    /// part in. Called by who holds its [`DuoTable::step_lock`]. May split none, if something has come to be in doubt, or others hold all of them.
    pub(in super::super) async fn split_pieces(
        &self,
        held: &Held<'_>,
        bucket: u64,
        pieces: usize,
    ) -> Result<()> {
        debug_assert!(self.locks.is_held(self.step_lock(bucket)));
        let each = (PIECE / self.layout.bucket_bytes()).clamp(1, 64);
        let ratio = match self.layout.extendible {
            true => 2,
            false => self.vault.ratio(),
        };
        let most = self.most_at_once(ratio).max(1);
        let most = (most as usize).min(pieces * each);
        // Those that others hold are left for later. Who waited for them, holding what others may wait for, could wait for
        // ever: the steps of several sub-tables are taken at once.
        let origins: Vec<u64> = {
            let index = self.index.borrow();
            let free = index.unsplit_beside(bucket);
            free.filter(|origin| held.try_add(*origin))
                .take(most)
                .collect()
        };
        if !self.is_settled() {
            return Ok(());
        }
        let splits = origins.chunks(each).map(|piece| self.split(piece));
        side_by_side(pieces, splits, |_, ()| {}).await
    }

    /// Splits buckets that are held and not split.
    async fn split(&self, origins: &[u64]) -> Result<()> {
        let runs = self.vault.runs_of(origins);
        let mut read = Vec::with_capacity(runs.len());
        let reads = runs.iter().map(async |run| {
            let at = self
                .vault
                .bucket_at(&self.layout, 2 * run.first + run.array);
            let len = run.buckets as usize * self.layout.bucket_bytes();
            Ok((*run, self.endpoint.read(at, len).await?))
        });
        let reading = side_by_side(runs.len().max(1), reads, |_, run| read.push(run));
        let (done, stash) = both(reading, self.split_of_stash(origins)).await;
        done?;
        self.split_runs(origins, &read, stash?).await
    }

    /// Splits buckets that were read.
    async fn split_runs(
        &self,
        origins: &[u64],
        read: &[(Run, Buffer)],
        stash: StashSplit,
    ) -> Result<()> {
        let (mut new, mut old, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        for (run, bytes) in read {
            let of_run = self.keys_in(*run, bytes);
            new.extend(self.new_buckets(*run, bytes, &of_run)?);
            old.extend(self.old_buckets(*run, bytes, &of_run)?);
            keys.extend(run.numbers().zip(of_run));
        }
        let of_new = self.publish_split(&keys, Of::New)?;
        let of_old = self.publish_split(&keys, Of::Old)?;
        let mut steps = of_new.pages;
        steps.extend(of_new.counts);
        steps.extend(new);
        steps.extend(stash.new);
        steps.extend(self.bits_of(origins));
        steps.extend(of_old.pages);
        steps.extend(old);
        steps.extend(stash.old);
        steps.extend(of_old.counts);
        let first = origins
            .first()
            .filter(|_| self.has_threads && self.stamps.is_none());
        if let Some((at, _)) = first.and_then(|first| self.split_bit(*first)) {
            // Nothing but an atomic: other threads use these buckets as soon as this one releases them.
            steps.push(Step::Add(at, 0));
        }
        let mut slots = self.slots_of(origins);
        slots.extend(stash.slots);
        let doubt = self.doubt(slots);
        self.run_steps(steps).await?;
        doubt.resolve();
        self.change_index(|index| {
            keys.iter()
                .for_each(|(origin, keys)| index.split(*origin, keys));
        });
        self.worked(|work| work.buckets_split += keys.len() as u64);
        Ok(())
    }

    /// The keys of each bucket of a run.
    fn keys_in(&self, run: Run, bytes: &Buffer) -> Vec<Keys> {
        let (slots, slot_bytes) = (
            u64::from(self.layout.bucket_slots),
            self.layout.slot_bytes(),
        );
        let buckets = bytes.chunks_exact(self.layout.bucket_bytes());
        let keys = |(bucket, bytes): (u64, &[u8])| {
            let slots = (bucket * slots..).map(SlotNumber);
            let heads = bytes.chunks_exact(slot_bytes).map(head_in);
            let live = slots.zip(heads).filter(|(_, head)| *head != 0);
            live.map(|(slot, head)| (slot, hash_in(head))).collect()
        };
        run.numbers().zip(buckets).map(keys).collect()
    }

    /// The buckets that a run's keys go on to, if they are others, each with what is its own.
    fn new_buckets(&self, run: Run, bytes: &Buffer, keys: &[Keys]) -> Result<Vec<Step>> {
        let first = 2 * run.first + run.array;
        let siblings: Vec<u64> = self.index.borrow().siblings(first).skip(1).collect();
        let new = siblings.into_iter().map(|sibling| {
            let at = self.vault.bucket_at(&self.layout, sibling);
            let image = self.image(bytes, keys, sibling - first)?;
            Ok(Step::Write(at, image))
        });
        new.collect()
    }

    /// The buckets of a run themselves, with what is still their own; nothing if that is all.
    fn old_buckets(&self, run: Run, bytes: &Buffer, keys: &[Keys]) -> Result<Option<Step>> {
        let all_stay = {
            let index = self.index.borrow();
            let stays =
                |(slot, hash): &(SlotNumber, u64)| index.slot_after_split(*slot, *hash) == *slot;
            keys.iter().flatten().all(stays)
        };
        if all_stay {
            return Ok(None);
        }
        let at = self
            .vault
            .bucket_at(&self.layout, 2 * run.first + run.array);
        let image = self.image(bytes, keys, 0)?;
        Ok(Some(Step::Write(at, image)))
    }

    /// A run's buckets, with only those keys alive that go on to the buckets so many numbers behind.
    fn image(&self, bytes: &Buffer, keys: &[Keys], behind: u64) -> Result<Buffer> {
        let mut image = self.endpoint.core().buffers.copy_of(bytes)?;
        let (slots, index) = (u64::from(self.layout.bucket_slots), self.index.borrow());
        let bucket_bytes = self.layout.bucket_bytes();
        for (bucket, keys) in keys.iter().enumerate() {
            for (slot, hash) in keys {
                let after = index.slot_after_split(*slot, *hash);
                if after.0 != slot.0 + behind * slots {
                    let place = (slot.0 % slots) as usize * self.layout.slot_bytes();
                    let at = bucket * bucket_bytes + place;
                    // All of it: a dead slot that readers may look at holds no whole record.
                    image[at..at + self.layout.slot_bytes()].fill(0);
                }
            }
        }
        Ok(image)
    }

    /// Sets the bits that say that these buckets are split.
    fn bits_of(&self, origins: &[u64]) -> impl Iterator<Item = Step> + use<E> {
        let mut words = BTreeMap::new();
        for origin in origins {
            let Some((at, bit)) = self.split_bit(*origin) else {
                continue;
            };
            words.entry(at.offset).or_insert((at, 0)).1 |= 1 << bit;
        }
        words.into_values().map(|(at, bits)| Step::Add(at, bits))
    }

    /// All slots of buckets that are split, and of those that they are split into.
    fn slots_of(&self, origins: &[u64]) -> Vec<SlotNumber> {
        let (slots, index) = (u64::from(self.layout.bucket_slots), self.index.borrow());
        let buckets = origins.iter().flat_map(|origin| index.siblings(*origin));
        let slots = buckets.flat_map(|bucket| bucket * slots..(bucket + 1) * slots);
        slots.map(SlotNumber).collect()
    }
}
