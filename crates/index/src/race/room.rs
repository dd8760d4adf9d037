//! Making room in the heap.

use super::client::RaceTable;
use crate::heap::{Heap, Relocate, Relocation};
use crate::{Result, step};
use farslot_fabric::Endpoint;

impl<E: Endpoint> Relocate for RaceTable<E> {
    fn heap_of_records(&self) -> Option<&Heap<E>> {
        Some(&self.heap)
    }

    async fn relocate(
        &self,
        relocations: &[Relocation<'_>],
        done: &mut dyn FnMut(usize, Result<bool>),
    ) {
        step::relocate(|| self.writes(), relocations, done).await;
    }
}
