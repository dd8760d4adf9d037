//! Lookups by the thread that asks, where the memory is mapped: a request to a worker takes many
//! times what they do.
//!
//! Each thread has a table of its own for that, as a worker has, and only looks keys up in it. Each
//! lookup first has the processor fetch the memory, and lets other tasks run meanwhile: so none has
//! a thread for itself, and the lookups of many tasks are fetched side by side. Then it is done to
//! its end, which waits for nobody in the tables that are used so.

use super::opener::Opener;
use crate::catalog::record::Scheme;
use crate::{Result, Table};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// Bytes of its process that a client of the table may take for every thread to have one: more is
/// an index of the table.
const MOST_CLIENT_BYTES: u64 = 1 << 20;
/// Threads that have a table of their own at the most.
const MOST_THREADS: usize = 64;
/// Lookups that go to workers after one could not be done here.
const PAUSE: u32 = 1_000;

thread_local! {
    /// The tables that this thread looks keys up in.
    static TABLES: RefCell<Vec<ThreadTable>> = const { RefCell::new(Vec::new()) };
}

/// The tables in which threads look a handle's keys up, each in its own.
pub(super) struct ThreadTables {
    opener: Arc<Opener>,
    /// Threads that have one.
    threads: AtomicUsize,
    is_closed: AtomicBool,
}

/// A thread's table.
struct ThreadTable {
    of: Weak<ThreadTables>,
    /// Nothing while lookups go to workers.
    table: Option<Table>,
    /// How many still do.
    pause: u32,
}

impl ThreadTables {
    /// Those of a table whose keys threads look up themselves; nothing where they cannot, or had
    /// better not: a client takes much memory, or has answers of its own, which another's writes do
    /// not change, or its lookups may wait for one another, as those of a store in a CuckooDuo
    /// table.
    pub(super) fn of(opener: &Arc<Opener>, table: &Table) -> Option<Arc<Self>> {
        let store = &opener.store;
        let suits = store.is_mapped()
            && !store.caches_answers()
            && !matches!(table.scheme(), Scheme::Duo(_))
            && table.client_bytes() <= MOST_CLIENT_BYTES;
        suits.then(|| {
            Arc::new(Self {
                opener: Arc::clone(opener),
                threads: AtomicUsize::new(0),
                is_closed: AtomicBool::new(false),
            })
        })
    }

    /// Has all lookups go to workers from now on.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    /// Has the processor fetch what a lookup looks at first; false if a worker is to be asked.
    pub(super) fn prefetch(self: &Arc<Self>, key: &[u8]) -> bool {
        let prefetched = self.with_own(|thread_table| {
            let table = thread_table.table(self)?;
            table.prefetch(key).then_some(())
        });
        prefetched.is_some()
    }

    /// Looks a key up in this thread's table; nothing if a worker is to be asked.
    pub(super) fn get(self: &Arc<Self>, key: &[u8]) -> Option<Result<Option<Vec<u8>>>> {
        self.with_own(|thread_table| thread_table.get(self, key))
    }

    fn with_own<T>(
        self: &Arc<Self>,
        does: impl FnOnce(&mut ThreadTable) -> Option<T>,
    ) -> Option<T> {
        if self.is_closed.load(Ordering::Acquire) {
            return None;
        }
        // While the thread ends there is none.
        let done = TABLES.try_with(|tables| {
            // Nothing that is called here looks a key up so; if it did, a worker would.
            let mut tables = tables.try_borrow_mut().ok()?;
            does(self.thread_table(&mut tables))
        });
        done.ok().flatten()
    }

    /// Opens a thread's table, if it may have one.
    fn open(&self) -> Option<Table> {
        if self.threads.fetch_add(1, Ordering::Relaxed) < MOST_THREADS
            && let Ok(table) = self.opener.open()
        {
            return Some(table);
        }
        self.threads.fetch_sub(1, Ordering::Relaxed);
        None
    }

    /// This thread's table among those that it has. Those of handles that are gone are closed.
    fn thread_table<'n>(self: &Arc<Self>, all: &'n mut Vec<ThreadTable>) -> &'n mut ThreadTable {
        let is_own = |table: &ThreadTable| std::ptr::eq(table.of.as_ptr(), Arc::as_ptr(self));
        let known = all.iter().position(is_own);
        let at = known.unwrap_or_else(|| {
            all.retain(|table| table.of.strong_count() > 0);
            all.push(ThreadTable {
                of: Arc::downgrade(self),
                table: None,
                pause: 0,
            });
            all.len() - 1
        });
        &mut all[at]
    }
}

impl ThreadTable {
    fn table(&mut self, all: &ThreadTables) -> Option<&Table> {
        if self.table.is_none() {
            if self.pause > 0 {
                self.pause -= 1;
                return None;
            }
            self.table = all.open();
            self.pause = PAUSE;
        }
        self.table.as_ref()
    }

    fn get(&mut self, all: &ThreadTables, key: &[u8]) -> Option<Result<Option<Vec<u8>>>> {
        let got = self.table(all)?.get(key);
        if got.is_err() {
            // A worker knows better what to do: another client has dropped the table, for instance.
            self.leave(all);
            return None;
        }
        Some(got)
    }

    fn leave(&mut self, all: &ThreadTables) {
        if self.table.take().is_some() {
            all.threads.fetch_sub(1, Ordering::Relaxed);
        }
        self.pause = PAUSE;
    }
}

impl Drop for ThreadTable {
    fn drop(&mut self) {
        if let Some(all) = self.of.upgrade() {
            self.leave(&all);
        }
    }
}
