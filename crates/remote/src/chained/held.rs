//! What an owner's own code does under locks, for transactions: the operations of a call, without
//! its bytes.

use super::layout::Slot;
use super::owner::Owner;
use super::request::{Answer, ChainedRequest, Operation, Outcome};
use super::structure::Table;
use super::witness::Observation;
use crate::Lock;
use crate::error::RefusalReason;
use farslot_fabric::OwnerMemory;
use farslot_rpc::Fault;

impl Table {
    /// Locks a key, present or absent, unless another lock is on it. Returns what the key has, and
    /// under which lock it is now.
    ///
    /// # Errors
    /// [`Fault::Refused`] if an absent key has no room, or a key or lock is none that the table can
    /// have.
    pub fn try_lock(
        &self,
        memory: &mut dyn OwnerMemory,
        key: &[u8],
        lock: Lock,
    ) -> Result<Observation, Fault> {
        let answer = self.perform(memory, Operation::Lock, key, lock, &[])?;
        let seen = self.observe_slot(answer.at, Slot(&answer.slot));
        seen.ok_or(Fault::Damaged)
    }

    /// What a key has now, and who holds it.
    ///
    /// # Errors
    /// [`Fault::Refused`] if the key is none that the table can have.
    pub fn look(&self, memory: &mut dyn OwnerMemory, key: &[u8]) -> Result<Observation, Fault> {
        const NONE: Lock = Lock { owner: 0, epoch: 0 };
        let answer = self.perform(memory, Operation::Get, key, NONE, &[])?;
        self.observe_answer(&answer).ok_or(Fault::Damaged)
    }

    /// What a key has now, and who holds it: as [`Table::look`], without what a transaction
    /// validates it by.
    ///
    /// # Errors
    /// As [`Table::look`].
    pub fn peek(
        &self,
        memory: &mut dyn OwnerMemory,
        key: &[u8],
    ) -> Result<(Option<Lock>, Option<Vec<u8>>), Fault> {
        let shape = self.shape();
        if key.len() > shape.key_bytes.into() {
            return Err(RefusalReason::Malformed.into());
        }
        let walk = Owner { shape, memory }.walk(key)?;
        let Some((_, words)) = walk.found else {
            return Ok((None, None));
        };
        let slot = Slot(&words);
        let value = match slot.is_reserved() {
            true => None,
            false => Some(slot.value(shape).ok_or(Fault::Damaged)?.to_vec()),
        };
        Ok((Lock::of_word(slot.lock()), value))
    }

    /// The lock of a key.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn lock_of(&self, memory: &mut dyn OwnerMemory, key: &[u8]) -> Result<Option<Lock>, Fault> {
        let shape = self.shape();
        let walk = Owner { shape, memory }.walk(key)?;
        let word = walk.found.map_or(0, |(_, words)| Slot(&words).lock());
        Ok(Lock::of_word(word))
    }

    /// Sets a key's value, or removes the key. Returns `false`, and does nothing, if a lock is on
    /// it.
    ///
    /// # Errors
    /// [`Fault::Refused`] if an absent key has no room, or a key or value is none that the table
    /// can have.
    pub fn change_unlocked(
        &self,
        memory: &mut dyn OwnerMemory,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<bool, Fault> {
        const NONE: Lock = Lock { owner: 0, epoch: 0 };
        let operation = match value {
            Some(_) => Operation::Put,
            None => Operation::Remove,
        };
        let answer = self.perform(memory, operation, key, NONE, value.unwrap_or(&[]))?;
        Ok(answer.outcome != Outcome::Locked)
    }

    /// Sets a locked key's value, or removes the key, and unlocks it. Returns `false`, and does
    /// nothing, if this lock is not on it.
    ///
    /// # Errors
    /// [`Fault::Refused`] if the value is longer than the table's.
    pub fn commit(
        &self,
        memory: &mut dyn OwnerMemory,
        key: &[u8],
        lock: Lock,
        value: Option<&[u8]>,
    ) -> Result<bool, Fault> {
        let operation = match value {
            Some(_) => Operation::Commit,
            None => Operation::CommitRemove,
        };
        let answer = self.perform(memory, operation, key, lock, value.unwrap_or(&[]))?;
        Ok(answer.outcome != Outcome::NotHeld)
    }

    /// Unlocks a key. Returns `false`, and does nothing, if this lock is not on it.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn unlock(
        &self,
        memory: &mut dyn OwnerMemory,
        key: &[u8],
        lock: Lock,
    ) -> Result<bool, Fault> {
        let answer = self.perform(memory, Operation::Unlock, key, lock, &[])?;
        Ok(answer.outcome != Outcome::NotHeld)
    }

    fn perform(
        &self,
        memory: &mut dyn OwnerMemory,
        operation: Operation,
        key: &[u8],
        lock: Lock,
        value: &[u8],
    ) -> Result<Answer<'static>, Fault> {
        let shape = self.shape();
        if key.len() > shape.key_bytes.into() || value.len() > shape.value_bytes.into() {
            return Err(RefusalReason::Malformed.into());
        }
        let request = ChainedRequest {
            operation,
            lock: lock.word(),
            key,
            value,
        };
        Owner { shape, memory }.execute(&request)
    }
}
