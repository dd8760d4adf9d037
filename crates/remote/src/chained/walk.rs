//! The owner's way to a key: its bucket, then its chain.

use super::layout::{EXTRA, PRESSURE, Slot};
use super::owner::{Owner, Spot, Words};
use crate::sum::hash;
use farslot_rpc::Fault;

/// What a walk has met.
pub(super) struct Walk {
    /// The key's bucket.
    pub(super) bucket: u64,
    /// The key's slot and its words.
    pub(super) found: Option<(Spot, Words)>,
    /// An inline slot without a key.
    pub(super) vacant: Option<u64>,
}

impl Owner<'_> {
    /// Buckets beyond those to begin with.
    pub(super) fn extra(&self) -> Result<u64, Fault> {
        let extra = self.header(EXTRA)?;
        let most = u64::from(self.shape.most_buckets - self.shape.buckets);
        if extra > most {
            return Err(Fault::Damaged);
        }
        Ok(extra)
    }

    /// Looks for a key, and notes if a chain had to be walked for it.
    pub(super) fn walk(&mut self, key: &[u8]) -> Result<Walk, Fault> {
        let bucket = self.shape.bucket_of(hash(key), self.extra()?);
        let bucket = self.shape.bucket_at(bucket);
        let mut walk = Walk {
            bucket,
            found: None,
            vacant: None,
        };
        for slot in (0..self.shape.slots).rev() {
            let slot = self.shape.slot_at(bucket, slot);
            let words = self.words(slot)?;
            if Slot(&words).check() == 0 {
                walk.vacant = Some(slot);
            } else if Slot(&words).is_of(key) {
                walk.found = Some((Spot { slot, link: None }, words));
                return Ok(walk);
            }
        }
        if self.meta(bucket)?.first != 0 {
            let pressure = self.header(PRESSURE)?;
            self.set_header(PRESSURE, pressure.saturating_add(1))?;
            walk.found = self.walk_chain(bucket, key)?;
        }
        Ok(walk)
    }

    fn walk_chain(&self, bucket: u64, key: &[u8]) -> Result<Option<(Spot, Words)>, Fault> {
        for spot in self.chained(bucket)? {
            let words = self.words(spot.slot)?;
            if Slot(&words).is_of(key) {
                return Ok(Some((spot, words)));
            }
        }
        Ok(None)
    }

    /// The slots of a bucket's chain, the first one first.
    pub(super) fn chained(&self, bucket: u64) -> Result<Vec<Spot>, Fault> {
        let mut spots = Vec::new();
        let mut link = bucket + 8;
        loop {
            let entry = self.named_by(link)?;
            if entry == 0 {
                return Ok(spots);
            }
            if spots.len() >= self.shape.overflow as usize {
                // It bites its tail.
                return Err(Fault::Damaged);
            }
            let at = self.entry_at(entry)?;
            spots.push(Spot {
                slot: at + 8,
                link: Some((entry, link)),
            });
            link = at;
        }
    }
}
