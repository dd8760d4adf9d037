//! Splitting buckets.
//!
//! Invariant: who splits a bucket holds it, and nothing is in doubt. First the new buckets are
//! written, then the bit is set that says so, then the bucket is written without what is not its
//! own any more: one batch. What readers are told of it is in between (`publish.rs`).

use super::publish::{Keys, SplitHalf};
use crate::Result;
use crate::client::locks::Held;
use crate::client::side_by_side;
use crate::duo::bytes::{BucketRun, SlotNumber, hash_in, head_in};
use crate::duo::changes::{Batch, Change};
use crate::duo::state::{DuoTable, Key};
use farslot_fabric::{Buffer, Endpoint, EndpointExt, both};
use std::cell::Cell;
use std::collections::BTreeMap;

/// Bytes of a piece: operations on its buckets wait until they are split, which with so few takes
/// hardly longer than the round trips.
const PIECE: usize = 8 << 10;
/// Bytes that pieces side by side may come to, what is written included: enough for the network to
/// be busy all the time, and so few that a piece is done within some round trips.
const PIECES: u64 = 256 << 10;
/// Pieces that a sweep splits side by side, so that one is read while others are written: at least,
/// and at most.
const SWEPT_AT_ONCE: (u64, u64) = (2, 6);

impl<E: Endpoint> DuoTable<E> {
    /// Holds a key's buckets as the owner, with nothing in doubt, and both split.
    pub(in super::super) async fn hold_split(&self, key: &Key<'_>) -> Result<Held<'_>> {
        loop {
            let held = self.hold(key).await?;
            let origins = self.index.borrow().to_split_of(key.buckets.get());
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
        let origins = self.index.borrow().to_split_of(key.buckets.get());
        if !origins.is_empty() {
            self.split(&origins).await?;
            self.add_buckets(key, &alone);
        }
        Ok(alone)
    }

    /// Splits all buckets that are left, so many pieces side by side. Waits for those that others
    /// hold. If a piece fails, no other is begun.
    pub(in super::super) async fn split_rest(&self, width: usize) -> Result<()> {
        let width =
            width.min((self.most_at_once(self.vault.ratio()) / self.buckets_in_piece()) as usize);
        let (width, failed) = (width.max(1), Cell::new(false));
        let sweeping = (0..width).map(async |_| {
            let swept = self.split_piece_after_piece(&failed).await;
            failed.set(failed.get() || swept.is_err());
            swept
        });
        side_by_side(width, sweeping, |_, ()| {}).await
    }

    async fn split_piece_after_piece(&self, failed: &Cell<bool>) -> Result<()> {
        while !failed.get()
            && let Some(bucket) = self.next_to_split()
        {
            // Who waits, holds nothing.
            let held = self.locks.take(&[bucket]).await;
            if self.is_settled() {
                self.split_piece(&held, bucket).await?;
            } else {
                drop(held);
                drop(self.hold_alone().await?);
            }
        }
        Ok(())
    }

    /// A bucket that is to be split and is not: one that nobody holds, if there is one.
    fn next_to_split(&self) -> Option<u64> {
        let index = self.index.borrow();
        let free = index
            .unsplit_from(0)
            .find(|bucket| !self.locks.is_held(*bucket));
        free.or_else(|| index.unsplit_from(0).next())
    }

    /// Splits a piece: buckets from this one on that are not split. Those that others hold are left
    /// for later: who waited for them, holding some, could wait for ever. May split none, if
    /// something has come to be in doubt.
    pub(in super::super) async fn split_piece(&self, held: &Held<'_>, bucket: u64) -> Result<()> {
        let most = self.most_at_once(self.vault.ratio());
        let most = self.buckets_in_piece().min(most).max(1) as usize;
        let origins: Vec<u64> = {
            let index = self.index.borrow();
            let free = index.unsplit_from(bucket);
            free.filter(|origin| held.try_add(*origin))
                .take(most)
                .collect()
        };
        if origins.is_empty() || !self.is_settled() {
            return Ok(());
        }
        self.split(&origins).await
    }

    /// Buckets of a piece.
    fn buckets_in_piece(&self) -> u64 {
        (PIECE / self.layout.bucket_bytes()).clamp(1, 64) as u64
    }

    /// Pieces that a sweep has under way.
    pub(super) fn pieces_at_once(&self) -> usize {
        let (ratio, buckets) = (self.vault.ratio(), self.buckets_in_piece());
        let bytes = (buckets * self.layout.bucket_bytes() as u64).saturating_mul(ratio);
        let (least, most) = SWEPT_AT_ONCE;
        (PIECES / bytes).clamp(least, most) as usize
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
        self.at_once(reading).await?;
        self.split_runs(origins, &read).await
    }

    /// Splits buckets that were read.
    async fn split_runs(&self, origins: &[u64], read: &[(BucketRun, Buffer)]) -> Result<()> {
        self.before_moving().await?;
        let (mut new, mut old, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        for (run, bytes) in read {
            let of_run = self.keys_in(*run, bytes);
            let goings = self.goings_of(*run, &of_run);
            new.extend(self.new_buckets(*run, bytes, &goings)?);
            old.extend(self.old_buckets(*run, bytes, &goings)?);
            keys.extend(run.numbers().zip(of_run));
        }
        let of_new = self.publish_split(&keys, SplitHalf::New)?;
        let of_old = self.publish_split(&keys, SplitHalf::Old)?;
        let mut steps = of_new.pages;
        steps.extend(of_new.counts);
        steps.extend(new);
        steps.extend(self.bits_of(origins));
        steps.extend(of_old.counts);
        steps.extend(of_old.pages);
        steps.extend(old);
        let is_shared = self.has_threads || self.versions.is_some();
        let first = origins.first().filter(|_| is_shared);
        if let Some((at, _)) = first.and_then(|first| self.split_bit(*first)) {
            // Nothing but an atomic, for all of this to be visible: other threads use these buckets
            // as soon as this one releases them, and readers must not meet what was.
            steps.push(Change::Add(at, 0));
        }
        let batch = Batch {
            changes: steps.into(),
            slots: self.slots_of(origins).into(),
            ..Batch::default()
        };
        self.at_once(self.run(batch)).await?;
        self.change_index(|index| {
            keys.iter()
                .for_each(|(origin, keys)| index.split(*origin, keys));
        });
        self.worked(|work| work.buckets_split += keys.len() as u64);
        Ok(())
    }

    /// Sends off what this posts at once, as a batch by itself: pieces that are split side by side
    /// would wait for each other's verbs if these were one batch, which completes as one.
    async fn at_once<T>(&self, posting: impl Future<Output = T>) -> T {
        let (outcome, ()) = both(posting, async { self.endpoint.ring_doorbell() }).await;
        outcome
    }

    /// The keys of each bucket of a run.
    fn keys_in(&self, run: BucketRun, bytes: &Buffer) -> Vec<Keys> {
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

    /// Sets the bits that say that these buckets are split.
    fn bits_of(&self, origins: &[u64]) -> impl Iterator<Item = Change> + use<E> {
        let mut words = BTreeMap::new();
        for origin in origins {
            let Some((at, bit)) = self.split_bit(*origin) else {
                continue;
            };
            words.entry(at.offset).or_insert((at, 0)).1 |= 1 << bit;
        }
        words.into_values().map(|(at, bits)| Change::Add(at, bits))
    }

    /// All slots of buckets that are split, and of those that they are split into.
    fn slots_of(&self, origins: &[u64]) -> Vec<SlotNumber> {
        let (slots, index) = (u64::from(self.layout.bucket_slots), self.index.borrow());
        let buckets = origins.iter().flat_map(|origin| index.siblings(*origin));
        let slots = buckets.flat_map(|bucket| bucket * slots..(bucket + 1) * slots);
        slots.map(SlotNumber).collect()
    }
}
