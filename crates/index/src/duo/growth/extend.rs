//! Beginning a growth, and learning of those that others have begun.
//!
//! Invariant: the header counts an extent after its entry is there and before anything is in it. An owner that
//! does not know whether its last extent was counted has put nothing there, and sees when it next wants to grow.

use super::super::client::DuoTable;
use super::super::layout::{DuoLayout, EXTENT_ENTRIES_AT, EXTENTS_AT};
use super::super::placement::SlotNumber;
use super::step::Step;
use super::{GrowthMemory, MOST_RATIO, Place, Vault, check_ratio};
use crate::slot::{bad_option, slots_for};
use crate::{IndexError, Result};
use farslot_fabric::{Endpoint, EndpointExt, RegionId, RemoteAddr};
use std::collections::BTreeSet;

/// How often a table can grow: as many entries as the header has room for.
pub(in super::super) const MOST_EXTENTS: u32 = 34;
pub(in super::super) const ENTRY_BYTES: u64 = 24;
/// Extents in memory of the table's own start at multiples of this.
const RESERVE_ALIGNMENT: u64 = 64;
/// Words that say what is split, read at once.
const WORDS_A_READ: u64 = 4096;

/// Bytes of the memory behind a table that doubles so often; nothing if there are no such sizes.
pub(in super::super) fn reserve_bytes(layout: &DuoLayout, growths: u32) -> Option<u64> {
    let mut all: u64 = 0;
    for growth in 0..growths {
        let before = layout.buckets.checked_mul(1 << growth)?;
        let bytes = Vault::extent_bytes(layout, before, 2)?;
        all = all.checked_add(bytes.checked_next_multiple_of(RESERVE_ALIGNMENT)?)?;
    }
    Some(all)
}

impl<E: Endpoint> DuoTable<E> {
    /// Begins a growth. Called by the owner, who holds [`super::GROWTH_LOCK`], when nothing is left to be split.
    pub(super) async fn extend(&self, place: &Place, ratio: u64) -> Result<()> {
        let known = self.vault.growths() as u64;
        if self.counted().await? > known {
            // An earlier attempt has taken effect after all.
            return self.learn_extent(known).await;
        }
        let bytes = self.extent_bytes(ratio)?;
        self.check_one_split(ratio)?;
        let at = self.memory_for(bytes, place).await?;
        self.count_extent(known, ratio, at).await?;
        self.add_extent(ratio, at);
        Ok(())
    }

    /// Where an extent of so many bytes is to be: zeros that nobody else has.
    async fn memory_for(&self, bytes: u64, place: &Place) -> Result<RemoteAddr> {
        let memory = match place {
            Place::Reserve => return self.memory_in_reserve(bytes),
            Place::Memory(memory) => memory,
        };
        self.check_node(memory)?;
        let at = match self.vault.spare() {
            Some((spare, at)) if spare == bytes => at,
            _ => memory.take(&*self.endpoint, bytes).await?,
        };
        self.vault.set_spare(Some((bytes, at)));
        Ok(at)
    }

    /// The place behind the extents that there are, in the memory that the table grows into by itself.
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
    pub(in super::super) fn check_node(&self, memory: &GrowthMemory) -> Result<()> {
        if memory.start.node == self.table.node {
            return Ok(());
        }
        let limit = "the table's node";
        Err(bad_option("node to grow on", memory.start.node.0, limit))
    }

    /// Checks that the images of two buckets that are split at once leave most of the buffers to others: a growth that
    /// has begun cannot be taken back.
    pub(in super::super) fn check_one_split(&self, ratio: u64) -> Result<()> {
        let images = ratio.saturating_mul(2 * self.layout.bucket_bytes() as u64);
        let most = self.endpoint.core().limits.buffer_budget as u64 / 4;
        if images > most {
            let limit =
                format!("two buckets' images within a quarter of the buffers, {most} bytes");
            return Err(bad_option("growth ratio", ratio, limit));
        }
        Ok(())
    }

    /// Bytes of the extent by which the table grows.
    fn extent_bytes(&self, ratio: u64) -> Result<u64> {
        let growths = self.vault.growths() as u64;
        if growths >= u64::from(MOST_EXTENTS) {
            let limit = format!("{MOST_EXTENTS} at most");
            return Err(bad_option("growths", growths + 1, limit));
        }
        slots_for(self.slots().saturating_mul(ratio), 1.0)?;
        let bytes = Vault::extent_bytes(&self.layout, self.vault.buckets(), ratio);
        bytes.ok_or_else(|| bad_option("growth ratio", ratio, "a table of less than 2^64 bytes"))
    }

    /// Writes an extent's entry, and counts it.
    async fn count_extent(&self, number: u64, ratio: u64, at: RemoteAddr) -> Result<()> {
        let mut entry = self.endpoint.core().buffers.take(ENTRY_BYTES as usize)?;
        let words = [ratio, u64::from(at.region.0), at.offset];
        entry.words_mut().copy_from_slice(&words);
        let count_at = self.table.plus(EXTENTS_AT);
        let write = Step::Write(self.entry_at(number), entry);
        // If that fails, another thread must not write another entry before it is known to be over.
        let doubt = self.doubt(Vec::new());
        self.run_steps(vec![write, Step::Count(count_at, number, number + 1)])
            .await?;
        doubt.resolve();
        Ok(())
    }

    /// Has the extent from now on.
    fn add_extent(&self, ratio: u64, at: RemoteAddr) {
        self.vault.set_spare(None);
        self.vault.add(ratio, at);
        self.change_index(|index| index.grow(ratio));
        self.counts.set_slots(self.slots());
    }

    /// Where an entry of the header is.
    pub(in super::super) fn entry_at(&self, number: u64) -> RemoteAddr {
        self.table.plus(EXTENT_ENTRIES_AT + number * ENTRY_BYTES)
    }

    /// How many extents the header counts.
    pub(in super::super) async fn counted(&self) -> Result<u64> {
        let count = self.endpoint.read(self.table.plus(EXTENTS_AT), 8).await?;
        Ok(count.words()[0])
    }

    /// Slots of both arrays as the header has them, whoever is the owner.
    pub(in super::super) async fn slots_counted(&self) -> Result<u64> {
        let entries = u64::from(MOST_EXTENTS) * ENTRY_BYTES;
        let bytes = EXTENT_ENTRIES_AT - EXTENTS_AT + entries;
        let at = self.table.plus(EXTENTS_AT);
        let header = self.endpoint.read(at, bytes as usize).await?;
        if self.layout.extendible {
            let subtables = header.words()[0].saturating_add(1);
            return Ok(self.layout.slots().saturating_mul(subtables));
        }
        let (counts, entries) = header
            .words()
            .split_at((EXTENT_ENTRIES_AT - EXTENTS_AT) as usize / 8);
        let ratios = entries.iter().step_by(ENTRY_BYTES as usize / 8);
        let counted = ratios.take(counts[0].min(u64::from(MOST_EXTENTS)) as usize);
        // An entry that is not visible yet is that of a growth which has just begun.
        let slots = counted.fold(self.layout.slots(), |slots, ratio| {
            slots.saturating_mul((*ratio).clamp(1, MOST_RATIO))
        });
        Ok(slots)
    }

    async fn learn_extent(&self, number: u64) -> Result<()> {
        let entry = self
            .endpoint
            .read(self.entry_at(number), ENTRY_BYTES as usize);
        let entry = entry.await?;
        let [ratio, region, offset] = [0, 1, 2].map(|word| entry.words()[word]);
        check_ratio(ratio)?;
        self.extent_bytes(ratio)?;
        let at = self.place_of(region, offset)?;
        self.add_extent(ratio, at);
        Ok(())
    }

    /// The place that an entry names.
    pub(in super::super) fn place_of(&self, region: u64, offset: u64) -> Result<RemoteAddr> {
        let damaged = |_| bad_option("region of an extent", region, "at most 65535");
        Ok(RemoteAddr {
            node: self.table.node,
            region: RegionId(u16::try_from(region).map_err(damaged)?),
            offset,
        })
    }

    /// Learns of all growths that there were, and what of the last one is split: for an index that is empty.
    pub(in super::super) async fn learn_growths(&self) -> Result<()> {
        if self.layout.extendible {
            return self.learn_subtables().await;
        }
        let counted = self.counted().await?;
        for number in 0..counted {
            // All before the last one are over.
            let over: Vec<u64> = self.index.borrow().unsplit_from(0).collect();
            self.change_index(|index| over.iter().for_each(|origin| index.note_split(*origin)));
            self.learn_extent(number).await?;
        }
        self.learn_bits(0, self.unsplit()).await
    }

    /// Learns which of so many buckets are split, none of which is known to be, from the first one of a growth on.
    pub(in super::super) async fn learn_bits(&self, first: u64, buckets: u64) -> Result<()> {
        let Some((start, _)) = self.split_bit(first) else {
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
                    split.for_each(|bit| index.note_split(first + bit));
                }
            });
            next += count;
        }
        Ok(())
    }

    /// The word that has the bit of a bucket which is to be split, and the bit's number.
    pub(super) fn split_bit(&self, origin: u64) -> Option<(RemoteAddr, u64)> {
        let (newest, bit) = self.index.borrow().split_bit(origin)?;
        Some(self.vault.split_bit_at(newest, bit))
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

// The header has room for all entries.
const _: () = assert!(EXTENT_ENTRIES_AT + MOST_EXTENTS as u64 * ENTRY_BYTES <= 4096);
