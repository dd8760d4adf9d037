//! A table in simulated memory, and how clients open it.

use super::memory::TABLE_AT;
use super::posted::TableAreas;
use crate::Result;
use farslot::bare::{BareTables, Leased};
use farslot::index::AnyIndex;
use farslot::layout::{CuckooLayout, Scheme};
use farslot::{LookupOrder, OpenOptions, ReadPolicy};
use std::rc::Rc;

/// What a client must know to open the table at [`TABLE_AT`]. All clients that a table or a clone
/// of it has opened belong to one process: a CuckooDuo table has one owner among them.
#[derive(Clone)]
pub struct SimulatedTable {
    /// Its layout.
    pub scheme: Scheme,
    clients: BareTables,
}

impl SimulatedTable {
    /// A table whose clients look up as those of a store that is opened by such options.
    #[must_use]
    pub fn new(scheme: Scheme, options: &OpenOptions) -> Self {
        let clients = BareTables::new(options);
        Self { scheme, clients }
    }

    /// A linear or sealed table, of which READs fetch what the policy says.
    #[must_use]
    pub fn by_policy(scheme: Scheme, policy: ReadPolicy) -> Self {
        let options = OpenOptions {
            read_policy: Some(policy),
            ..OpenOptions::default()
        };
        Self::new(scheme, &options)
    }

    /// A cuckoo table, whose buckets are read in that order.
    #[must_use]
    pub fn cuckoo(layout: CuckooLayout, order: LookupOrder) -> Self {
        let options = OpenOptions {
            lookup_order: order,
            ..OpenOptions::default()
        };
        Self::new(Scheme::Cuckoo(layout), &options)
    }

    /// Opens the table.
    ///
    /// # Errors
    /// What it says.
    pub async fn open(&self, endpoint: &Rc<Leased>) -> Result<AnyIndex> {
        Ok(self.clients.open(endpoint, TABLE_AT, &self.scheme).await?)
    }

    pub(super) fn areas(&self) -> TableAreas {
        TableAreas::of(&self.scheme)
    }
}
