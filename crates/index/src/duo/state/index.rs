//! The owner's index, shared by its threads.

use crate::duo::bytes::DuoLayout;
use crate::duo::placement::{Placement, Shape};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// The dimensions of the index of a table, before it has grown.
pub(in super::super) const fn index_shape(layout: &DuoLayout) -> Shape {
    Shape {
        buckets: layout.buckets,
        bucket_slots: layout.bucket_slots,
        fingerprint_bits: layout.fingerprint_bits,
        longest_path: layout.longest_path,
        stash: layout.stash,
        backups: true,
    }
}

/// The index, for threads to look at side by side and to change one at a time.
pub(in super::super) struct SharedIndex(RwLock<Placement>);

impl SharedIndex {
    pub(super) const fn new(index: Placement) -> Self {
        Self(RwLock::new(index))
    }

    /// A look at it, for a moment: changes wait meanwhile. To be had once at a time by a thread,
    /// which could wait for a change that waits for it, and never while a verb runs.
    #[inline]
    pub(in super::super) fn borrow(&self) -> RwLockReadGuard<'_, Placement> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change<R>(&self, change: impl FnOnce(&mut Placement) -> R) -> R {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}
