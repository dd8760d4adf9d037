//! The stamps of the published index's pages.

use crate::duo::bytes::{DuoLayout, PerPage};
use farslot_fabric::prefetch;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How often each page has changed: the stamp of the word of it that was written last. Who holds a
/// page's bucket changes it.
pub(in super::super) struct Stamps(Mutex<PerPage>);

impl Stamps {
    pub(in super::super) fn new(layout: &DuoLayout) -> Self {
        Self(Mutex::new(PerPage::new(layout.buckets, layout.stash)))
    }

    fn lock(&self) -> MutexGuard<'_, PerPage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has stamps for so many buckets of each array.
    pub(in super::super) fn grow_to(&self, buckets: u64) {
        self.lock().grow_to(buckets);
    }

    /// Bytes of memory.
    pub(in super::super) fn bytes(&self) -> usize {
        self.lock().bytes()
    }

    /// Has that of a page fetched, for a change soon.
    pub(in super::super) fn prefetch(&self, page: u64) {
        prefetch(self.lock().of(page));
    }

    pub(in super::super) fn next(&self, page: u64) -> u32 {
        let mut stamps = self.lock();
        let stamp = stamps.of(page);
        *stamp = stamp.wrapping_add(1);
        *stamp
    }

    pub(in super::super) fn set(&self, page: u64, stamp: u32) {
        *self.lock().of(page) = stamp;
    }
}
