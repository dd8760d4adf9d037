//! Making room in the heap, of which each thread of the owner has runs of its own.

use super::state::DuoTable;
use crate::heap::{Heap, Relocate, Relocation};
use crate::{Result, step};
use farslot_fabric::Endpoint;
use std::sync::atomic::Ordering;

impl<E: Endpoint> Relocate for DuoTable<E> {
    fn heap_of_records(&self) -> Option<&Heap<E>> {
        self.current_heap()
    }

    async fn relocate(
        &self,
        relocations: &[Relocation<'_>],
        done: &mut dyn FnMut(usize, Result<bool>),
    ) {
        step::relocate(|| self.writes(), relocations, done).await;
    }
}

impl<E: Endpoint> DuoTable<E> {
    /// The heap: without what this thread had of it, once another owner may have that.
    pub(super) fn current_heap(&self) -> Option<&Heap<E>> {
        let heap = self.heap.as_ref()?;
        let now = self.heaps_lost.load(Ordering::Acquire);
        if self.heaps_lost_seen.replace(now) != now {
            heap.forget_all();
        }
        Some(heap)
    }

    /// Gives back what this thread holds of the heap. Called by who holds something, or is alone.
    pub(super) async fn flush_heap(&self) -> Result<()> {
        match self.current_heap() {
            Some(heap) => heap.flush().await,
            None => Ok(()),
        }
    }
}
