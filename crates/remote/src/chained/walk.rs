//! The owner's way to a key: its bucket, then its chain.

use super::layout::{EXTRA, PRESSURE, Slot};
use super::owner::{Owner, SlotLocation, Words};
use farslot_rpc::Fault;

/// No chain has more entries: whatever a call meets in one, others of the node wait meanwhile.
pub(super) const LONGEST_CHAIN: u32 = 256;

/// How far a chain was followed.
pub(super) struct ChainCursor {
    /// The word that names the entry to come.
    pub(super) link: u64,
    met: u32,
}

impl ChainCursor {
    /// The chain of a bucket, from its first entry on.
    pub(super) const fn of(bucket: u64) -> Self {
        Self {
            link: bucket + 8,
            met: 0,
        }
    }
}

/// What a walk to a key has met.
pub(super) struct KeyWalk {
    /// The key's bucket.
    pub(super) bucket: u64,
    /// The key's slot and its words.
    pub(super) found: Option<(SlotLocation, Words)>,
    /// An inline slot without a key.
    pub(super) vacant: Option<u64>,
    /// Entries of the bucket's chain, if the key was not found.
    pub(super) chained: u32,
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
    pub(super) fn walk(&mut self, key: &[u8]) -> Result<KeyWalk, Fault> {
        let bucket = self.shape.bucket_of(self.shape.hash(key), self.extra()?);
        let bucket = self.shape.bucket_at(bucket);
        let mut walk = KeyWalk {
            bucket,
            found: None,
            vacant: None,
            chained: 0,
        };
        for slot in (0..self.shape.slots).rev() {
            let slot = self.shape.slot_at(bucket, slot);
            let words = self.words(slot)?;
            if Slot(&words).check() == 0 {
                walk.vacant = Some(slot);
            } else if Slot(&words).is_of(key) {
                walk.found = Some((SlotLocation { slot, link: None }, words));
                return Ok(walk);
            }
        }
        if self.meta(bucket)?.first != 0 {
            let pressure = self.header(PRESSURE)?;
            self.set_header(PRESSURE, pressure.saturating_add(1))?;
            self.walk_chain(&mut walk, key)?;
        }
        Ok(walk)
    }

    fn walk_chain(&self, walk: &mut KeyWalk, key: &[u8]) -> Result<(), Fault> {
        let mut chain = ChainCursor::of(walk.bucket);
        while let Some(spot) = self.next_in(&mut chain)? {
            let words = self.words(spot.slot)?;
            if Slot(&words).is_of(key) {
                walk.found = Some((spot, words));
                return Ok(());
            }
        }
        walk.chained = chain.met;
        Ok(())
    }

    /// The next slot of a chain; nothing at its end. One that is too long, or bites its tail, was
    /// damaged.
    pub(super) fn next_in(&self, chain: &mut ChainCursor) -> Result<Option<SlotLocation>, Fault> {
        let entry = self.named_by(chain.link)?;
        if entry == 0 {
            return Ok(None);
        }
        if chain.met == LONGEST_CHAIN {
            return Err(Fault::Damaged);
        }
        let at = self.entry_at(entry)?;
        let link = std::mem::replace(&mut chain.link, at);
        chain.met += 1;
        Ok(Some(SlotLocation {
            slot: at + 8,
            link: Some((entry, link)),
        }))
    }
}
