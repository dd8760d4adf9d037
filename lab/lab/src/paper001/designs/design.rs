//! What every design that is compared can do.

use super::trial::TableTrial;
use crate::Result;
use farslot::fabric::{Endpoint, RemoteAddr};
use farslot::index::Index;
use std::rc::Rc;

/// A design, as a type.
pub(crate) trait TableDesign {
    /// Its tables.
    type Table<E: Endpoint>: Index;

    /// Bytes of remote memory.
    fn table_bytes(trial: &TableTrial) -> Result<u128>;

    /// A new table in memory of zeros. Nothing else is under way on the endpoint.
    fn create<E: Endpoint>(
        endpoint: Rc<E>,
        at: RemoteAddr,
        trial: &TableTrial,
    ) -> Result<SizedTable<Self::Table<E>>>;

    /// Bytes of local memory that tell where keys are; the stash is not counted.
    fn local_bytes<E: Endpoint>(table: &Self::Table<E>) -> u64;

    /// What insertions have moved so far.
    fn moved<E: Endpoint>(table: &Self::Table<E>) -> InsertionMoves;

    /// Forgets the answers that the client keeps: a task finds nothing of the one before.
    fn forget_answers<E: Endpoint>(_: &Self::Table<E>) {}
}

/// What insertions have moved.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InsertionMoves {
    /// Records that went to another slot.
    pub(crate) records: u64,
    /// Cells of MapEmbed that have got another number.
    pub(crate) cells: u64,
}

impl InsertionMoves {
    pub(crate) const fn records(records: u64) -> Self {
        Self { records, cells: 0 }
    }
}

/// A table with its sizes.
pub(crate) struct SizedTable<T> {
    pub(crate) table: T,
    /// Slots that count for the load factor.
    pub(crate) slots: u64,
    pub(crate) slot_bytes: usize,
}
