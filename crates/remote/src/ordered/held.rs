//! What an owner's own code does under the locks of leaves, for transactions.

use super::layout::{LOCK, NEXT};
use super::leaf::{Leaf, LeafWord};
use super::owner::{Owner, Write};
use super::structure::Tree;
use crate::Lock;
use crate::error::RefusalReason;
use farslot_fabric::OwnerMemory;
use farslot_rpc::Fault;

/// A leaf as a transaction found it that wanted to hold it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hold {
    /// The leaf; its lock is who holds it now.
    pub leaf: Leaf,
    /// Nodes that were promised for a change of the key, to be given back with the lock.
    pub promised: u64,
}

/// The levels that a tree may grow by while a leaf is held, and is sure to have nodes for a change.
const GROWTH: u64 = 2;

impl Tree {
    /// The leaf of a key.
    ///
    /// # Errors
    /// [`Fault`]; so do all that follow.
    pub fn look(&self, memory: &mut dyn OwnerMemory, key: &[u8]) -> Result<Leaf, Fault> {
        self.check_key(key)?;
        let shape = self.shape();
        let way = Owner { shape, memory }.way_to(key, false)?;
        match way.into_iter().next_back() {
            None => Ok(self.no_leaf()),
            Some((number, node)) => {
                let at = shape.node_at(number).ok_or(Fault::Damaged)?;
                let word = node.encode(shape, at)[0];
                node.seen(LeafWord { at, word }).ok_or(Fault::Damaged)
            }
        }
    }

    /// Locks the leaf of a key, unless another lock is on it, and promises the nodes that one
    /// change of the key may need.
    ///
    /// # Errors
    /// [`Fault::Refused`] if there are too few nodes, or the key is none that the map can have.
    pub fn try_lock(
        &self,
        memory: &mut dyn OwnerMemory,
        key: &[u8],
        lock: Lock,
    ) -> Result<Hold, Fault> {
        self.check_key(key)?;
        if lock.word() == 0 {
            return Err(RefusalReason::Malformed.into());
        }
        let shape = self.shape();
        let mut owner = Owner { shape, memory };
        let mut way = owner.way_to(key, true)?;
        let (height, last) = (way.len() as u64, way.pop());
        let (number, mut node) = last.ok_or(Fault::Damaged)?;
        let mut promised = 0;
        if node.lock == 0 || node.lock == lock.word() {
            // All nodes on the way may be split, and a root be made.
            promised = height + GROWTH;
            if owner.unpromised()? < promised {
                return Err(RefusalReason::Full.into());
            }
            owner.promise(promised as i64)?;
            if node.lock == 0 {
                node.lock = lock.word();
                owner.store(number, &node)?;
            }
        }
        let at = shape.node_at(number).ok_or(Fault::Damaged)?;
        let word = node.encode(shape, at)[0];
        let leaf = node.seen(LeafWord { at, word }).ok_or(Fault::Damaged)?;
        Ok(Hold { leaf, promised })
    }

    /// Sets the value of a key whose leaf is held, or removes the key. The leaf stays locked, and
    /// so does what is split off it. Returns `false`, and does nothing, if this lock is not on it.
    ///
    /// # Errors
    /// [`Fault::Refused`] if the value is longer than the map's, or the tree has grown by so many
    /// levels since the leaf was locked that there are too few nodes: then nothing is changed.
    pub fn change(
        &self,
        memory: &mut dyn OwnerMemory,
        key: &[u8],
        lock: Lock,
        value: Option<&[u8]>,
    ) -> Result<bool, Fault> {
        if self.look(memory, key)?.lock != Some(lock) {
            return Ok(false);
        }
        let shape = self.shape();
        if value.is_some_and(|value| value.len() > shape.value_bytes.into()) {
            return Err(RefusalReason::Malformed.into());
        }
        let mut owner = Owner { shape, memory };
        match value {
            Some(value) => owner.write(Write::Put, key, value, lock.word())?,
            None => owner.remove(key, lock.word())?,
        };
        Ok(true)
    }

    /// Unlocks the leaf that begins with this key and what was split off it under the lock, and
    /// takes a promise of nodes back. All leaves that a transaction changes it has locked before
    /// its first change, so that no more were split off this one than it was promised.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn unlock(
        &self,
        memory: &mut dyn OwnerMemory,
        low: &[u8],
        lock: Lock,
        promised: u64,
    ) -> Result<(), Fault> {
        self.check_key(low)?;
        let shape = self.shape();
        let mut owner = Owner { shape, memory };
        owner.promise(-(promised as i64))?;
        let mut next = owner.way_to(low, false)?.last().map(|(number, _)| *number);
        // Those behind may be locked by the transaction as well, each with a promise of its own: so
        // some were perhaps unlocked before with the leaf in front of them.
        for _ in 0..=promised {
            let Some(number) = next else {
                return Ok(());
            };
            let at = shape.node_at(number).ok_or(Fault::Damaged)?;
            if owner.memory.load(at + LOCK)? == lock.word() {
                let mut node = owner.load(number)?;
                node.lock = 0;
                owner.store(number, &node)?;
            }
            let behind = owner.memory.load(at + NEXT)?;
            next = (behind != 0).then_some(behind);
        }
        Ok(())
    }

    fn check_key(&self, key: &[u8]) -> Result<(), Fault> {
        if key.len() > self.shape().key_bytes.into() {
            return Err(RefusalReason::Malformed.into());
        }
        Ok(())
    }
}
