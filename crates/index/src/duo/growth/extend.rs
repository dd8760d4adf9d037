//! Beginning a growth, and learning of those that others have begun.
//!
//! Invariant: the header counts an extent after its entry is there and before anything is in it. An owner that
//! does not know whether its last extent was counted has put nothing there, and sees when it next wants to grow.

use super::super::client::DuoTable;
use super::super::placement::{Placement, SlotNumber};
use super::GrowthMemory;
use super::entries::{Entry, entry_at, read_entries};
use super::step::Step;
use crate::Result;
use crate::slot::bad_option;
use farslot_fabric::{Endpoint, EndpointExt};
use std::collections::BTreeSet;

/// Words that say what is split, read at once.
const WORDS_A_READ: u64 = 4096;

impl<E: Endpoint> DuoTable<E> {
    /// Begins a growth. Called by the owner, who holds [`super::GROWTH_LOCK`], when nothing is left to be split.
    pub(super) async fn extend(&self, memory: &GrowthMemory, ratio: u64) -> Result<()> {
        let known = self.vault.growths() as u64;
        if self.counted().await? > known {
            // An earlier attempt has taken effect after all.
            return self.learn_extents(known + 1).await;
        }
        if memory.start.node != self.table.node {
            let limit = "the table's node";
            let node = memory.start.node.0;
            return Err(bad_option("node to grow on", node, limit));
        }
        let bytes = self.vault.extent_bytes(&self.layout, ratio)?;
        self.check_one_split(ratio)?;
        let at = match self.vault.spare.get() {
            Some((spare, at)) if spare == bytes => at,
            _ => memory.take(&*self.endpoint, bytes).await?,
        };
        self.vault.spare.set(Some((bytes, at)));
        let entry = Entry { ratio, at };
        self.count_extent(known, entry).await?;
        self.add_extent(entry)
    }

    /// How many buckets can be split at once by this ratio, so that their images leave most of the buffers to others.
    pub(super) fn most_at_once(&self, ratio: u64) -> u64 {
        let images = ratio.saturating_mul(self.layout.bucket_bytes() as u64);
        self.endpoint.core().limits.buffer_budget as u64 / 4 / images
    }

    /// Checks that two buckets can be split at once: a growth that has begun cannot be taken back.
    fn check_one_split(&self, ratio: u64) -> Result<()> {
        if self.most_at_once(ratio) < 2 {
            let most = self.endpoint.core().limits.buffer_budget / 4;
            let limit =
                format!("two buckets' images within a quarter of the buffers, {most} bytes");
            return Err(bad_option("growth ratio", ratio, limit));
        }
        Ok(())
    }

    /// Writes an extent's entry, and counts it.
    async fn count_extent(&self, number: u64, entry: Entry) -> Result<()> {
        let words = entry.words();
        let mut bytes = self.endpoint.core().buffers.take(size_of_val(&words))?;
        bytes.words_mut().copy_from_slice(&words);
        let count_at = self.layout.growths_at(self.table);
        let write = Step::Write(entry_at(self.table, number), bytes);
        self.run_steps(vec![write, Step::CountFrom(count_at, number)])
            .await
    }

    /// Has the extent from now on.
    fn add_extent(&self, entry: Entry) -> Result<()> {
        self.vault.add(&self.layout, entry)?;
        self.vault.spare.set(None);
        self.change_index(|index| index.grow(entry.ratio));
        self.counts.set_slots(self.slots());
        if let Some(stamps) = &self.stamps {
            stamps.grow_to(self.vault.buckets());
        }
        Ok(())
    }

    /// How many extents are counted.
    async fn counted(&self) -> Result<u64> {
        let count = self.endpoint.read(self.layout.growths_at(self.table), 8);
        Ok(count.await?.words()[0])
    }

    /// Learns of extents that were counted, up to so many. Of all but the last one, all is split.
    async fn learn_extents(&self, counted: u64) -> Result<()> {
        let known = self.vault.growths() as u64;
        let entries = read_entries(&*self.endpoint, self.table, known, counted).await?;
        for entry in entries {
            self.change_index(Placement::note_all_split);
            self.add_extent(entry)?;
        }
        Ok(())
    }

    /// Learns of all growths that there were, and what of the last one is split: for an index that is empty.
    pub(in super::super) async fn learn_growths(&self) -> Result<()> {
        self.learn_extents(self.counted().await?).await?;
        let words = self.unsplit().div_ceil(64);
        let mut next = 0;
        while next < words {
            let count = WORDS_A_READ.min(words - next);
            let (at, _) = self.vault.split_bit_at(64 * next);
            let bits = self.endpoint.read(at, 8 * count as usize).await?;
            self.change_index(|index| {
                for (word, bits) in (next..).zip(bits.words()) {
                    let split = (0..64).filter(|bit| bits >> bit & 1 != 0);
                    split.for_each(|bit| index.note_split(64 * word + bit));
                }
            });
            next += count;
        }
        Ok(())
    }

    /// Learns which of the buckets that these slots are in are split, where that is in doubt.
    pub(in super::super) async fn learn_splits(&self, slots: &[SlotNumber]) -> Result<()> {
        let origins: BTreeSet<u64> = {
            let index = self.index.borrow();
            let buckets = slots.iter().filter_map(|slot| index.bucket_of(*slot));
            buckets
                .filter_map(|bucket| index.to_split(bucket))
                .collect()
        };
        let mut read = None;
        for origin in origins {
            let (at, bit) = self.vault.split_bit_at(origin);
            let bits = match read {
                Some((of, bits)) if of == at => bits,
                _ => self.endpoint.read(at, 8).await?.words()[0],
            };
            read = Some((at, bits));
            if bits >> bit & 1 != 0 {
                self.change_index(|index| index.note_split(origin));
            }
        }
        Ok(())
    }
}
