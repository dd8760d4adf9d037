//! The nodes of a store: what they are called, and what has become of them.

use crate::{MemoryUse, Result, StoreError};
use farslot_fabric::{FabricError, NodeId};
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A node of a store, as [`Store::nodes`](crate::Store::nodes) has found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// Its address.
    pub address: String,
    /// Why it could not be asked; nothing if it answered.
    pub error: Option<FabricError>,
    /// Drawn anew at every start of the node; 0 if it was never reached.
    pub incarnation: u64,
    /// Whether it came back empty since the store was opened.
    pub restarted: bool,
    /// The median time that a READ of 8 bytes took, if it answered.
    pub round_trip: Option<Duration>,
    /// Its memory, if it answered.
    pub memory: Option<MemoryUse>,
    /// Tables, or parts of some, that are in its memory, if it answered.
    pub tables: Option<u64>,
    /// How often this store has taken it for what it was after it came back empty.
    pub adopted: u64,
    /// Names of the tables over several nodes of which it has lost its part: other nodes have
    /// theirs, and nobody has restored it or [accepted the loss](crate::Store::accept_loss).
    pub lost: Vec<String>,
}

/// The part of a table that a node has.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionReport {
    /// Its number.
    pub number: u16,
    /// The node's address.
    pub address: String,
    /// How many of the table's [hash slots](crate::slot_map::HASH_SLOTS) fall to it.
    pub hash_slots: u16,
    /// Bytes of the node's memory that it takes; 0 if the node was never reached.
    pub table_bytes: u64,
    /// What it holds, or why that cannot be told.
    pub occupancy: Result<crate::Occupancy>,
}

/// What the threads of a store know of its nodes together.
pub(crate) struct StoreNodes {
    addresses: Vec<String>,
    histories: Vec<Mutex<NodeHistory>>,
}

#[derive(Default)]
struct NodeHistory {
    /// What it was when it was first reached; 0 before.
    first: u64,
    /// What it was when it came back empty and was taken for that.
    adopted: HashSet<u64>,
    is_down: bool,
}

impl StoreNodes {
    pub(crate) fn new(addresses: Vec<String>) -> Self {
        Self {
            histories: addresses.iter().map(|_| Mutex::default()).collect(),
            addresses,
        }
    }

    pub(crate) fn addresses(&self) -> &[String] {
        &self.addresses
    }

    pub(crate) fn address(&self, node: NodeId) -> &str {
        let address = self.addresses.get(usize::from(node.0));
        address.map_or("an unknown node", String::as_str)
    }

    /// Says which node a failure is of, where there are several.
    pub(crate) fn named(&self, node: NodeId, error: StoreError) -> StoreError {
        match error {
            StoreError::Fabric(error) if self.addresses.len() > 1 => StoreError::Node {
                address: self.address(node).into(),
                error,
            },
            other => other,
        }
    }

    fn history(&self, node: NodeId) -> Option<MutexGuard<'_, NodeHistory>> {
        let history = self.histories.get(usize::from(node.0))?;
        Some(history.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes that a node answers, and what it is.
    pub(crate) fn is_up(&self, node: NodeId, incarnation: u64) {
        let Some(mut history) = self.history(node) else {
            return;
        };
        history.is_down = false;
        if history.first == 0 {
            history.first = incarnation;
        }
    }

    /// Whether a node is another than it was when it was first reached.
    pub(crate) fn is_another(&self, node: NodeId, incarnation: u64) -> bool {
        let first = self.history(node).map_or(0, |history| history.first);
        first != 0 && incarnation != 0 && first != incarnation
    }

    /// Notes that a node does not answer; warns if that is new.
    pub(crate) fn is_down(&self, node: NodeId, error: &FabricError) {
        let Some(mut history) = self.history(node) else {
            return;
        };
        // One that restores its tables has begun as it should.
        let level = match error {
            FabricError::Restoring { .. } => log::Level::Info,
            _ => log::Level::Warn,
        };
        if !std::mem::replace(&mut history.is_down, true) {
            let address = self.address(node);
            log::log!(level, "{address} does not serve its keys: {error}");
        }
    }

    /// Notes that a node which came back empty was taken for what it is; warns once for each time
    /// that it did.
    pub(crate) fn adopted(&self, node: NodeId, incarnation: u64) {
        let Some(mut history) = self.history(node) else {
            return;
        };
        if history.adopted.insert(incarnation) {
            log::warn!(
                "{} came back empty: what it had of tables over several nodes is gone",
                self.address(node)
            );
        }
    }

    /// How often a node was taken for what it was after it came back empty.
    pub(crate) fn times_adopted(&self, node: NodeId) -> u64 {
        self.history(node)
            .map_or(0, |history| history.adopted.len() as u64)
    }
}
