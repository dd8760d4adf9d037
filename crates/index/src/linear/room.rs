//! Making room in the heap.

use super::client::LinearTable;
use crate::heap::{Heap, Relocate, Relocation};
use crate::{Result, step};
use farslot_fabric::Endpoint;

impl<E: Endpoint> Relocate for LinearTable<E> {
    fn heap_of_records(&self) -> Option<&Heap<E>> {
        self.heap.as_ref()
    }

    async fn relocate(
        &self,
        relocations: &[Relocation<'_>],
        done: &mut dyn FnMut(usize, Result<bool>),
    ) {
        step::relocate(|| self.writes(), relocations, done).await;
    }
}
