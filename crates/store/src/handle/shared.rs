//! What all clones of a handle, and the futures that wait, share.

use super::in_place::ThreadTables;
use super::opener::Opener;
use super::queue::Queue;
use crate::FieldSize;
use std::sync::Arc;

/// Workers stay for as long as anybody has it.
pub(super) struct HandleInner {
    pub(super) queue: Arc<Queue>,
    pub(super) opener: Arc<Opener>,
    /// The sizes of the table's keys and values.
    pub(super) record_sizes: (FieldSize, FieldSize),
    /// Where threads look keys up themselves.
    pub(super) thread_tables: Option<Arc<ThreadTables>>,
}

impl HandleInner {
    /// Takes no more requests.
    pub(super) fn close(&self) {
        if let Some(tables) = &self.thread_tables {
            tables.close();
        }
        self.queue.close();
    }
}

impl Drop for HandleInner {
    fn drop(&mut self) {
        self.close();
    }
}
