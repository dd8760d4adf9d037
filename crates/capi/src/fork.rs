//! Processes that are forked: what was opened before has its threads and connections in the parent.

use crate::error::{Failure, FsKind};
use farslot::Store;
use std::ffi::c_int;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many forks this process is away from the one that first opened a store.
static FORKS: AtomicU64 = AtomicU64::new(0);

type ForkHandler = Option<unsafe extern "C" fn()>;

// SAFETY: as POSIX declares it.
unsafe extern "C" {
    fn pthread_atfork(prepare: ForkHandler, parent: ForkHandler, child: ForkHandler) -> c_int;
}

unsafe extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    // Of what the thread has from its parent nothing is used, or closed.
    Store::forget_transactions();
}

/// Something that only the process that has opened it can use.
#[derive(Debug)]
pub(crate) struct OfProcess<T> {
    of: T,
    forks: u64,
}

impl<T> OfProcess<T> {
    pub(crate) fn new(of: T) -> Self {
        static WATCHED: Once = Once::new();
        WATCHED.call_once(|| {
            // SAFETY: the handler stays where it is, and only counts and forgets. Should there be
            // no memory for it, forks go unnoticed.
            unsafe { pthread_atfork(None, None, Some(in_child)) };
        });
        let forks = FORKS.load(Ordering::Relaxed);
        Self { of, forks }
    }

    fn is_own(&self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed)
    }

    /// It, in the process that has opened it.
    pub(crate) fn get(&self) -> Result<&T, Failure> {
        match self.is_own() {
            true => Ok(&self.of),
            false => Err(Failure::new(
                FsKind::FS_KIND_CLOSED,
                "it was opened before a fork: open it again in the new process",
            )),
        }
    }

    /// Ends it. In a process that was forked it stays the parent's.
    pub(crate) fn end(self, end: impl FnOnce(T)) {
        match self.is_own() {
            true => end(self.of),
            false => std::mem::forget(self.of),
        }
    }
}
