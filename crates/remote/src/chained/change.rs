//! What the owner does for each operation.

use super::layout::{Slot, fill_slot};
use super::owner::{Owner, SlotLocation, Words};
use super::request::{Answer, ChainedRequest, Operation, Outcome};
use super::walk::{KeyWalk, LONGEST_CHAIN};
use crate::error::RefusalReason;
use farslot_rpc::Fault;
use std::borrow::Cow;

/// Words of a slot that tell its lock and version.
const BRIEF: usize = 3;
/// Words of a bucket that tell that a key is absent.
const ABSENCE: usize = 2;
/// Buckets that are split for a key without room, at the most: others of the node wait meanwhile.
const MOST_SPLITS: u32 = 16;

impl Owner<'_> {
    /// Executes a request.
    pub(super) fn execute(
        &mut self,
        request: &ChainedRequest<'_>,
    ) -> Result<Answer<'static>, Fault> {
        let walk = self.walk(request.key)?;
        let (outcome, at) = match request.operation {
            Operation::Get => self.get(&walk),
            Operation::Put | Operation::Insert | Operation::Update | Operation::Remove => {
                self.change(request, &walk)?
            }
            Operation::Lock => self.lock(request, &walk)?,
            Operation::Commit | Operation::CommitRemove | Operation::Unlock => {
                self.release(request, &walk)?
            }
            Operation::Visit => return Err(RefusalReason::Malformed.into()),
        };
        let mut slot = Vec::new();
        if at == walk.bucket {
            slot.resize(ABSENCE, 0);
            self.memory.copy_out(at, &mut slot)?;
        } else if at != 0 {
            slot = self.words(at)?.into_vec();
            if !matches!(request.operation, Operation::Get | Operation::Lock) {
                slot.truncate(BRIEF);
            }
        }
        let answer = Answer {
            outcome,
            extra: self.extra()?,
            at,
            slot: Cow::Owned(slot),
        };
        // Last: where things are afterwards, the next reply says.
        self.split_if_due()?;
        Ok(answer)
    }

    fn get(&self, walk: &KeyWalk) -> (Outcome, u64) {
        match &walk.found {
            Some((spot, words)) if !Slot(words).is_reserved() => (Outcome::Present, spot.slot),
            Some((spot, _)) => (Outcome::Absent, spot.slot),
            None => (Outcome::Absent, walk.bucket),
        }
    }

    /// A change outside of transactions: none of what is locked.
    fn change(
        &mut self,
        request: &ChainedRequest<'_>,
        walk: &KeyWalk,
    ) -> Result<(Outcome, u64), Fault> {
        let Some((spot, words)) = &walk.found else {
            if matches!(request.operation, Operation::Put | Operation::Insert) {
                let at = self.insert(request, walk, Some(request.value))?;
                return Ok((Outcome::Absent, at));
            }
            return Ok((Outcome::Absent, 0));
        };
        if Slot(words).lock() != 0 {
            return Ok((Outcome::Locked, spot.slot));
        }
        match request.operation {
            Operation::Remove => {
                self.remove(*spot, walk.bucket)?;
                return Ok((Outcome::Present, 0));
            }
            Operation::Insert => {}
            _ => self.set_value(*spot, walk.bucket, words, request)?,
        }
        Ok((Outcome::Present, spot.slot))
    }

    fn lock(
        &mut self,
        request: &ChainedRequest<'_>,
        walk: &KeyWalk,
    ) -> Result<(Outcome, u64), Fault> {
        if request.lock == 0 {
            return Err(RefusalReason::Malformed.into());
        }
        let Some((spot, words)) = &walk.found else {
            let at = self.insert(request, walk, None)?;
            return Ok((Outcome::Absent, at));
        };
        let slot = Slot(words);
        if slot.lock() != 0 && slot.lock() != request.lock {
            return Ok((Outcome::Locked, spot.slot));
        }
        self.set_lock(*spot, walk.bucket, request.lock)?;
        let absent = slot.is_reserved();
        let outcome = if absent {
            Outcome::Absent
        } else {
            Outcome::Present
        };
        Ok((outcome, spot.slot))
    }

    /// Ends what a lock was for, if it is still on the key.
    fn release(
        &mut self,
        request: &ChainedRequest<'_>,
        walk: &KeyWalk,
    ) -> Result<(Outcome, u64), Fault> {
        let held = walk.found.as_ref();
        let held =
            held.filter(|(_, words)| request.lock != 0 && Slot(words).lock() == request.lock);
        let Some((spot, words)) = held else {
            return Ok((Outcome::NotHeld, 0));
        };
        let was_absent = Slot(words).is_reserved();
        let outcome = if was_absent {
            Outcome::Absent
        } else {
            Outcome::Present
        };
        match request.operation {
            Operation::Commit => {
                let mut words = words.clone();
                words[1] = 0;
                self.set_value(*spot, walk.bucket, &words, request)?;
                if was_absent {
                    self.add_keys(1)?;
                }
            }
            Operation::Unlock if !was_absent => self.set_lock(*spot, walk.bucket, 0)?,
            _ => {
                self.remove(*spot, walk.bucket)?;
                return Ok((outcome, 0));
            }
        }
        Ok((outcome, spot.slot))
    }

    /// Adds a slot for an absent key; returns where. One without a value is reserved, and locked.
    fn insert(
        &mut self,
        request: &ChainedRequest<'_>,
        walk: &KeyWalk,
        value: Option<&[u8]>,
    ) -> Result<u64, Fault> {
        let mut words = Words::from_elem(0, self.shape.slot_words());
        words[1] = if value.is_some() { 0 } else { request.lock };
        fill_slot(&mut words, self.shape, request.key, value);
        let mut place = (walk.bucket, walk.vacant, walk.chained);
        let mut splits = 0;
        let at = loop {
            let (bucket, vacant, chained) = place;
            if let Some(vacant) = vacant {
                break vacant;
            }
            let entry = match chained {
                ..LONGEST_CHAIN => self.take_entry(),
                LONGEST_CHAIN.. => Err(RefusalReason::Full.into()),
            };
            match entry {
                Ok(entry) => {
                    let at = self.entry_at(entry)? + 8;
                    self.chain(bucket, entry)?;
                    break at;
                }
                // Without room in chains, buckets that are split may give some back.
                Err(full) => {
                    if splits == MOST_SPLITS || !self.split()? {
                        return Err(full);
                    }
                    splits += 1;
                    let walk = self.walk(request.key)?;
                    place = (walk.bucket, walk.vacant, walk.chained);
                }
            }
        };
        words[2] = self.next_version()?;
        self.put_slot(at, &words)?;
        if value.is_some() {
            self.add_keys(1)?;
        }
        self.stamp(place.0)?;
        Ok(at)
    }

    fn set_value(
        &mut self,
        spot: SlotLocation,
        bucket: u64,
        words: &[u64],
        request: &ChainedRequest<'_>,
    ) -> Result<(), Fault> {
        let mut words = Words::from_slice(words);
        fill_slot(&mut words, self.shape, request.key, Some(request.value));
        words[2] = self.next_version()?;
        self.put_slot(spot.slot, &words)?;
        match spot.link {
            None => self.stamp(bucket),
            Some(_) => Ok(()),
        }
    }

    fn remove(&mut self, spot: SlotLocation, bucket: u64) -> Result<(), Fault> {
        let reserved = Slot(&self.words(spot.slot)?).is_reserved();
        match spot.link {
            None => {
                self.clear_slot(spot.slot)?;
                self.draw_in(bucket)?;
            }
            Some((entry, link)) => {
                self.unlink(entry, link)?;
                self.free(entry)?;
            }
        }
        if !reserved {
            self.add_keys(-1)?;
        }
        self.add_removal(bucket)?;
        self.stamp(bucket)
    }
}
