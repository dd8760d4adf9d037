//! What takes part in transactions at a node: chained tables and ordered maps, as the owner's code
//! has them.

use farslot_fabric::OwnerMemory;
use farslot_remote::chained::{self, Table};
use farslot_remote::ordered::{Hold, Tree};
use farslot_remote::{Lock, ObjectId, serve_alone};
use farslot_rpc::{Fault, Server};
use std::sync::{Arc, Mutex};

/// A table or a map that a node serves in transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Structure {
    /// A bucket table: each key has a lock of its own.
    Chained(Table),
    /// An ordered map, which transactions may scan: the keys of a leaf share a lock.
    Ordered(Tree),
}

impl From<Table> for Structure {
    fn from(table: Table) -> Self {
        Self::Chained(table)
    }
}

impl From<Tree> for Structure {
    fn from(tree: Tree) -> Self {
        Self::Ordered(tree)
    }
}

/// What was found of a key.
pub(crate) struct Found {
    /// Who holds it.
    pub(crate) lock: Option<Lock>,
    pub(crate) value: Option<Vec<u8>>,
    /// Of the key in a table, where it is there; of the leaf in a map.
    pub(crate) version: Option<u64>,
    /// What names the lock: the key, or the low key of the leaf.
    pub(crate) held: Box<[u8]>,
    /// Nodes of a map that were promised with the lock.
    pub(crate) promised: u64,
}

impl Found {
    fn of_key(key: &[u8], seen: chained::Observation) -> Self {
        Self {
            lock: seen.lock,
            version: seen.item.as_ref().map(|item| item.version),
            value: seen.item.map(|item| item.value),
            held: key.into(),
            promised: 0,
        }
    }

    fn of_leaf(key: &[u8], Hold { leaf, promised }: Hold) -> Self {
        Self {
            lock: leaf.lock,
            value: leaf.get(key).map(Into::into),
            version: Some(leaf.version),
            held: leaf.low.into(),
            promised,
        }
    }
}

impl Structure {
    /// Has a server answer lookups, and changes outside of transactions.
    pub(crate) fn serve(&self, server: &mut Server, object: ObjectId, alone: Arc<Mutex<()>>) {
        match self {
            Self::Chained(table) => serve_alone(server, object, *table, alone),
            Self::Ordered(tree) => serve_alone(server, object, *tree, alone),
        }
    }

    /// Most bytes of a value.
    pub(crate) fn value_bytes(&self) -> u16 {
        match self {
            Self::Chained(table) => table.shape().value_bytes,
            Self::Ordered(tree) => tree.shape().value_bytes,
        }
    }

    /// Most bytes of a key.
    pub(crate) fn key_bytes(&self) -> u16 {
        match self {
            Self::Chained(table) => table.shape().key_bytes,
            Self::Ordered(tree) => tree.shape().key_bytes,
        }
    }

    pub(crate) fn look(&self, memory: &mut dyn OwnerMemory, key: &[u8]) -> Result<Found, Fault> {
        match self {
            Self::Chained(table) => Ok(Found::of_key(key, table.look(memory, key)?)),
            Self::Ordered(tree) => {
                let (leaf, promised) = (tree.look(memory, key)?, 0);
                Ok(Found::of_leaf(key, Hold { leaf, promised }))
            }
        }
    }

    /// Locks a key, unless another holds it.
    pub(crate) fn try_lock(
        &self,
        memory: &mut dyn OwnerMemory,
        key: &[u8],
        lock: Lock,
    ) -> Result<Found, Fault> {
        match self {
            Self::Chained(table) => Ok(Found::of_key(key, table.try_lock(memory, key, lock)?)),
            Self::Ordered(tree) => Ok(Found::of_leaf(key, tree.try_lock(memory, key, lock)?)),
        }
    }

    /// Changes a key that is held.
    pub(crate) fn change(
        &self,
        memory: &mut dyn OwnerMemory,
        key: &[u8],
        lock: Lock,
        value: Option<&[u8]>,
    ) -> Result<bool, Fault> {
        match self {
            Self::Chained(table) => table.commit(memory, key, lock, value),
            Self::Ordered(tree) => tree.change(memory, key, lock, value),
        }
    }

    /// Unlocks what a lock is named by.
    pub(crate) fn unlock(
        &self,
        memory: &mut dyn OwnerMemory,
        held: &[u8],
        lock: Lock,
        promised: u64,
    ) -> Result<(), Fault> {
        match self {
            Self::Chained(table) => table.unlock(memory, held, lock).map(drop),
            Self::Ordered(tree) => tree.unlock(memory, held, lock, promised),
        }
    }
}
