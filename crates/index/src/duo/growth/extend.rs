//! Beginning a growth, and learning of those that others have begun.
//!
//! Invariant: the header counts an extent after its entry is there and before anything is in it. An
//! owner that does not know whether its last extent was counted has put nothing there, and sees
//! when it next wants to grow.

use crate::duo::bytes::{
    ENTRY_BYTES, EXTENT_ENTRIES_AT, Entry, MOST_EXTENTS, MOST_RATIO, RESERVE_ALIGNMENT, SlotNumber,
    entry_at, read_entries,
};
use crate::duo::changes::{Batch, Change};
use crate::duo::placement::Placement;
use crate::duo::state::{DuoTable, ExtentSource, GrowthMemory};
use crate::slot::bad_option;
use crate::{IndexError, Result};
use farslot_fabric::{Endpoint, EndpointExt, RemoteAddr, both};
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// Words that say what is split, read at once.
const WORDS_A_READ: u64 = 4096;

impl<E: Endpoint> DuoTable<E> {
    /// Begins a growth. Called by the owner, alone at it, when nothing is left to be split.
    pub(super) async fn extend(&self, place: &ExtentSource, ratio: u64) -> Result<()> {
        let known = self.vault.growths() as u64;
        self.vault.set_touched(false);
        if self.counted().await? > known {
            // An earlier attempt has taken effect after all.
            return self.learn_extents(known + 1).await;
        }
        let bytes = self.vault.extent_bytes(&self.layout, ratio)?;
        self.check_one_split(ratio)?;
        let at = self.memory_for(bytes, place).await?;
        let entry = Entry { ratio, at };
        self.count_extent(known, entry).await?;
        self.add_extent(entry)
    }

    /// Where an extent of so many bytes is to be: zeros that nobody else has.
    async fn memory_for(&self, bytes: u64, place: &ExtentSource) -> Result<RemoteAddr> {
        let memory = match place {
            ExtentSource::Reserve => return self.memory_in_reserve(bytes),
            ExtentSource::Memory(memory) => memory,
        };
        self.check_node(memory)?;
        let at = match self.vault.spare() {
            Some((spare, at)) if spare == bytes => at,
            _ => memory.take(&*self.endpoint, bytes).await?,
        };
        self.vault.set_spare(Some((bytes, at)));
        Ok(at)
    }

    /// The place behind the extents that there are, in the memory that the table grows into by
    /// itself.
    fn memory_in_reserve(&self, bytes: u64) -> Result<RemoteAddr> {
        let (start, all) = (
            self.layout.reserve_at(self.table),
            self.layout.reserve_bytes,
        );
        let used = self.vault.used_of(start, all, &self.layout);
        let used = used.next_multiple_of(RESERVE_ALIGNMENT);
        let free = all.saturating_sub(used);
        if bytes > free {
            let requested = bytes;
            return Err(IndexError::OutOfMemory { requested, free });
        }
        Ok(start.plus(used))
    }

    /// Refuses memory that is not on the table's node.
    fn check_node(&self, memory: &GrowthMemory) -> Result<()> {
        if memory.start.node == self.table.node {
            return Ok(());
        }
        let limit = "the table's node";
        Err(bad_option("node to grow on", memory.start.node.0, limit))
    }

    /// How many buckets can be split at once by this ratio, so that their images leave most of the
    /// buffers to others.
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
        let write = Change::Write(entry_at(self.table, number), bytes);
        let count = Change::Swap {
            at: count_at,
            from: number,
            to: number + 1,
            slot: SlotNumber(0),
        };
        // If that fails, another thread must not write another entry before it is known to be over:
        // something is in doubt then, although no slot is.
        self.run(Batch {
            changes: SmallVec::from_iter([write, count]),
            ..Batch::default()
        })
        .await
    }

    /// Has the extent from now on.
    fn add_extent(&self, entry: Entry) -> Result<()> {
        self.vault.add(&self.layout, entry)?;
        self.vault.set_spare(None);
        // Before other threads split anything.
        if let Some(versions) = &self.versions {
            versions.grow_to(self.vault.buckets());
        }
        self.change_index(|index| index.grow(entry.ratio));
        self.counts.set_slots(self.slots());
        Ok(())
    }

    /// How many extents are counted.
    async fn counted(&self) -> Result<u64> {
        let count = self.endpoint.read(self.layout.growths_at(self.table), 8);
        Ok(count.await?.words()[0])
    }

    /// Slots of both arrays as the header has them, whoever is the owner.
    pub(in super::super) async fn slots_counted(&self) -> Result<u64> {
        let entries = u64::from(MOST_EXTENTS) * ENTRY_BYTES;
        let entries = self
            .endpoint
            .read(self.table.plus(EXTENT_ENTRIES_AT), entries as usize);
        let (counted, entries) = both(self.counted(), entries).await;
        let (counted, entries) = (counted?, entries?);
        let ratios = entries.words().iter().step_by(ENTRY_BYTES as usize / 8);
        let counted = ratios.take(counted.min(u64::from(MOST_EXTENTS)) as usize);
        // An entry that is not visible yet is that of a growth which has just begun.
        let slots = counted.fold(self.layout.slots(), |slots, ratio| {
            slots.saturating_mul((*ratio).clamp(1, MOST_RATIO))
        });
        Ok(slots)
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

    /// Learns of all growths that there were, and what of the last one is split: for an index that
    /// is empty.
    pub(in super::super) async fn learn_growths(&self) -> Result<()> {
        self.learn_extents(self.counted().await?).await?;
        self.learn_bits(self.unsplit()).await
    }

    /// Learns which of so many buckets are split, all that the last growth splits and none of which
    /// is known to be.
    async fn learn_bits(&self, buckets: u64) -> Result<()> {
        let Some((start, _)) = self.split_bit(0) else {
            return Ok(());
        };
        let (mut next, words) = (0, buckets.div_ceil(64));
        while next < words {
            let count = WORDS_A_READ.min(words - next);
            let bits = self.endpoint.read(start.plus(8 * next), 8 * count as usize);
            let bits = bits.await?;
            self.change_index(|index| {
                for (word, bits) in (next..).zip(bits.words()) {
                    let split = (0..64).filter(|bit| bits >> bit & 1 != 0);
                    let split = split.map(|bit| 64 * word + bit);
                    let split = split.filter(|bit| *bit < buckets);
                    split.for_each(|bit| index.note_split(bit));
                }
            });
            next += count;
        }
        Ok(())
    }

    /// The word that has the bit of a bucket which is to be split, and the bit's number.
    pub(super) fn split_bit(&self, origin: u64) -> Option<(RemoteAddr, u64)> {
        let newest = self.index.borrow().newest_sibling(origin)?;
        Some(self.vault.split_bit_of(newest, origin))
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
            let Some((at, bit)) = self.split_bit(origin) else {
                continue;
            };
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
