//! Opening a handle's table, and when to do it again.

use crate::sessions::TableView;
use crate::{ErrorKind, Result, Store, StoreError, Table};
use farslot_fabric::FabricError;
use std::sync::atomic::AtomicU64;

/// How the threads of a handle open its table, each for itself, and again when it is gone.
pub(super) struct Opener {
    pub(super) store: Store,
    pub(super) name: String,
    /// The incarnation of the node that has it, if one has it alone.
    seen: AtomicU64,
}

impl Opener {
    pub(super) fn new(store: &Store, table: &str) -> Self {
        Self {
            store: store.clone(),
            name: table.into(),
            seen: AtomicU64::new(0),
        }
    }

    pub(super) fn open(&self) -> Result<Table> {
        let seen = Some(&self.seen);
        self.store.open_table(&self.name, TableView::Living, seen)
    }

    /// Whether an operation failed because the table is to be opened again: another client has
    /// dropped, cleared or renamed it, or its only node has come back.
    pub(super) fn is_gone(&self, table: &Table, error: &StoreError) -> bool {
        let is_on_one = table.record().partition.is_none();
        match (error, error.kind()) {
            // What is mapped stays that of a process that has ended.
            (StoreError::Fabric(FabricError::NodeStopped { .. }), _) => {
                is_on_one && self.store.is_mapped()
            }
            (StoreError::Batch(batch), _) => {
                let mut failures = batch.failures().iter();
                failures.any(|(_, error)| self.is_gone(table, error))
            }
            (_, ErrorKind::NodeRestarted) => is_on_one,
            (_, kind) => kind == ErrorKind::TableGone,
        }
    }
}
