//! Growing by one bucket: the next one in turn is split, as in linear hashing.
//!
//! Until both stamps are made anew, at the end, a READ of either bucket tells only of keys that it
//! finds: nothing is proved absent by a bucket that is between two contents.

use super::layout::{EXTRA, Meta, PRESSURE, Slot};
use super::owner::{Owner, SlotLocation};
use super::walk::ChainCursor;
use farslot_rpc::Fault;

impl Owner<'_> {
    /// Splits a bucket if chains were walked often enough since the last time.
    pub(super) fn split_if_due(&mut self) -> Result<(), Fault> {
        let after = u64::from(self.shape.split_after);
        if after == 0 || self.header(PRESSURE)? < after {
            return Ok(());
        }
        self.set_header(PRESSURE, 0)?;
        self.split()?;
        Ok(())
    }

    /// Splits the next bucket; false if there is no room for another.
    pub(super) fn split(&mut self) -> Result<bool, Fault> {
        let (first, extra) = (u64::from(self.shape.buckets), self.extra()?);
        let buckets = first + extra;
        if buckets >= self.shape.most_buckets.into() {
            return Ok(false);
        }
        let old = buckets - (first << (buckets / first).ilog2());
        let depth = self.meta(self.shape.bucket_at(old))?.depth;
        let depth = depth.checked_add(1).ok_or(Fault::Damaged)?;
        self.part(old, buckets, depth)?;
        self.set_header(EXTRA, extra + 1)?;
        Ok(true)
    }

    /// Moves those keys of bucket `old` that belong to bucket `new` by the next bit of their
    /// hashes.
    fn part(&mut self, old: u64, new: u64, depth: u8) -> Result<(), Fault> {
        let (from, to) = (self.shape.bucket_at(old), self.shape.bucket_at(new));
        // No more than the new bucket has room for can be inline in the old one: what is left is
        // chained, and is chained again where it is.
        let mut room = 0..self.shape.slots;
        for slot in 0..self.shape.slots {
            let slot = self.shape.slot_at(from, slot);
            if self.belongs(slot, new, depth)?
                && let Some(vacant) = room.next()
            {
                self.move_slot(slot, self.shape.slot_at(to, vacant))?;
            }
        }
        let meta = Meta {
            depth,
            removals: 0,
            first: 0,
        };
        self.memory.store(to + 8, meta.word())?;
        let mut chain = ChainCursor::of(from);
        while let Some(spot) = self.next_in(&mut chain)? {
            let Some((entry, link)) = spot.link else {
                continue;
            };
            if !self.belongs(spot.slot, new, depth)? {
                continue;
            }
            self.unlink(entry, link)?;
            // Which names the entry behind it now.
            chain.link = link;
            match room.next() {
                Some(vacant) => {
                    self.move_slot(spot.slot, self.shape.slot_at(to, vacant))?;
                    self.free(entry)?;
                }
                None => self.chain(to, entry)?,
            }
        }
        self.stamp(to)?;
        let meta = self.meta(from)?;
        self.memory.store(from + 8, Meta { depth, ..meta }.word())?;
        self.draw_in(from)?;
        self.stamp(from)
    }

    fn belongs(&self, slot: u64, bucket: u64, depth: u8) -> Result<bool, Fault> {
        let words = self.words(slot)?;
        if Slot(&words).check() == 0 {
            return Ok(false);
        }
        let key = Slot(&words).key().ok_or(Fault::Damaged)?;
        Ok(self.shape.is_for(bucket, depth, self.shape.hash(key)))
    }

    /// Moves slots of a bucket's chain into its vacant ones. The stamp is not made anew.
    pub(super) fn draw_in(&mut self, bucket: u64) -> Result<(), Fault> {
        for slot in 0..self.shape.slots {
            let vacant = self.shape.slot_at(bucket, slot);
            if self.memory.load(vacant)? != 0 {
                continue;
            }
            let Some(SlotLocation {
                slot,
                link: Some((entry, link)),
            }) = self.next_in(&mut ChainCursor::of(bucket))?
            else {
                return Ok(());
            };
            self.unlink(entry, link)?;
            self.move_slot(slot, vacant)?;
            self.free(entry)?;
        }
        Ok(())
    }
}
