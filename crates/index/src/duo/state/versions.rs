//! The versions of the published index's pages.

use crate::duo::bytes::{DuoLayout, PerPage};
use farslot_fabric::prefetch;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How often each page has changed: the version of the word of it that was written last. Who holds
/// a page's bucket changes it.
pub(in super::super) struct PageVersions(Mutex<PerPage>);

impl PageVersions {
    pub(in super::super) fn new(layout: &DuoLayout) -> Self {
        Self(Mutex::new(PerPage::new(layout.buckets, layout.stash)))
    }

    fn lock(&self) -> MutexGuard<'_, PerPage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has versions for so many buckets of each array.
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
        let mut versions = self.lock();
        let version = versions.of(page);
        *version = version.wrapping_add(1);
        *version
    }

    pub(in super::super) fn set(&self, page: u64, version: u32) {
        *self.lock().of(page) = version;
    }
}
