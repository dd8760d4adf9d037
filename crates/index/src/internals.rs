//! What `farslot-local`, the laboratory and the tests borrow. Not part of the interface: it may
//! change in any version.

pub use crate::client::locks;
pub use crate::closed_sets::ClosedSets;
pub use crate::heap::{Relocate, Relocation};

use crate::Result;
use crate::heap::{BlockRef, Record};

/// The records out of band that are whole in the heap's pages, with their blocks: those that slots
/// name, and others that died.
pub async fn records_in_pages(table: &impl Relocate) -> Result<Vec<(BlockRef, Record)>> {
    match table.heap_of_records() {
        Some(heap) => heap.records().await,
        None => Ok(Vec::new()),
    }
}

/// How often pages of the table's heap were used again, once they were free.
pub async fn pages_reused(table: &impl Relocate) -> Result<u64> {
    match table.heap_of_records() {
        Some(heap) => heap.pages_reused().await,
        None => Ok(0),
    }
}
