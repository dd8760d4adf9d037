//! What a node serves, as the owner's code has it: chained tables and ordered maps, which take part
//! in transactions, and queues, which do not.

use farslot_fabric::{Caller, OwnerMemory, Rights};
use farslot_remote::chained::{self, Table};
use farslot_remote::ordered::{Hold, Tree};
use farslot_remote::queue::Queue;
use farslot_remote::{Lock, NO_OBJECT, ObjectId, Objects, RemoteStructure};
use farslot_rpc::{Fault, Request};
use std::sync::Arc;

/// A table or a map that a node serves in transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Structure {
    /// A bucket table: each key has a lock of its own.
    Chained(Table),
    /// An ordered map, which transactions may scan: the keys of a leaf share a lock.
    Ordered(Tree),
}

/// What a node has under a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// What takes part in transactions.
    Keyed(Structure),
    /// A queue, which takes part in none: its items have no keys that could be locked.
    Queue(Queue),
}

impl Kept {
    /// What takes part in transactions.
    #[must_use]
    pub const fn keyed(self) -> Option<Structure> {
        match self {
            Self::Keyed(structure) => Some(structure),
            Self::Queue(_) => None,
        }
    }
}

/// Who asks a node for one of its tables, and for what.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// The node's memory.
    pub memory: &'a dyn OwnerMemory,
    /// The client that asks.
    pub caller: &'a dyn Caller,
    /// The rights to the table's bytes that it needs for what it asks.
    pub needed: Rights,
    /// Whether it is to end a transaction that holds something of the table: then one is found as
    /// well that was renamed meanwhile, or takes no more changes.
    pub ends: bool,
}

/// The tables, maps and queues of a node.
pub trait Tables: Send + Sync + 'static {
    /// One of them, by its number; nothing if it is not there, or not any more. A table that was
    /// dropped never comes back under its number.
    ///
    /// # Errors
    /// [`Fault`], if it is not for the client that asks.
    fn find(&self, object: ObjectId, asked: Asked<'_>) -> Result<Option<Kept>, Fault>;
}

/// Tables that are there for all, for as long as the node is.
impl Tables for Vec<(ObjectId, Structure)> {
    fn find(&self, object: ObjectId, _: Asked<'_>) -> Result<Option<Kept>, Fault> {
        let mut tables = self.iter();
        let found = tables.find(|(id, _)| *id == object);
        Ok(found.map(|(_, table)| Kept::Keyed(*table)))
    }
}

/// What of a node's tables is asked for without a transaction: lookups, and changes of what nobody
/// holds.
pub(crate) struct WithoutTransactions(pub(crate) Arc<dyn Tables>);

impl Objects for WithoutTransactions {
    fn answer(
        &self,
        object: ObjectId,
        request: Request<'_>,
        reply: &mut [u8],
    ) -> Result<usize, Fault> {
        let Request {
            body,
            memory,
            caller,
            ..
        } = request;
        let find = |memory: &dyn OwnerMemory, needed| {
            let asked = Asked {
                memory,
                caller,
                needed,
                ends: false,
            };
            let found = self.0.find(object, asked)?;
            found.ok_or(Fault::Refused(NO_OBJECT))
        };
        let kept = find(memory, Rights::READ)?;
        let is_lookup = match kept {
            Kept::Keyed(Structure::Chained(_)) => Table::is_lookup(body),
            Kept::Keyed(Structure::Ordered(_)) => Tree::is_lookup(body),
            Kept::Queue(_) => Queue::is_lookup(body),
        };
        if !is_lookup {
            find(memory, CHANGES)?;
        }
        match kept {
            Kept::Keyed(Structure::Chained(table)) => table.rpc_handler(body, memory, reply),
            Kept::Keyed(Structure::Ordered(tree)) => tree.rpc_handler(body, memory, reply),
            Kept::Queue(queue) => queue.rpc_handler(body, memory, reply),
        }
    }
}

/// What a change of a table needs.
pub(crate) const CHANGES: Rights = Rights::READ.and(Rights::WRITE).and(Rights::ATOMIC);

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
pub(crate) struct KeyState {
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

impl KeyState {
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

    pub(crate) fn look(&self, memory: &mut dyn OwnerMemory, key: &[u8]) -> Result<KeyState, Fault> {
        match self {
            Self::Chained(table) => Ok(KeyState::of_key(key, table.look(memory, key)?)),
            Self::Ordered(tree) => {
                let (leaf, promised) = (tree.look(memory, key)?, 0);
                Ok(KeyState::of_leaf(key, Hold { leaf, promised }))
            }
        }
    }

    /// Locks a key, unless another holds it.
    pub(crate) fn try_lock(
        &self,
        memory: &mut dyn OwnerMemory,
        key: &[u8],
        lock: Lock,
    ) -> Result<KeyState, Fault> {
        match self {
            Self::Chained(table) => Ok(KeyState::of_key(key, table.try_lock(memory, key, lock)?)),
            Self::Ordered(tree) => Ok(KeyState::of_leaf(key, tree.try_lock(memory, key, lock)?)),
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
