//! What of a store and its tables all threads of the process share, and the tables that each thread
//! has open.

use crate::failure::Failure;
use crate::under_way;
use farslot::{ErrorKind, KeyRange, Pair, Queue, Store, Table, TableRecord};
use pyo3::prelude::*;
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many forks this process is away from the one that loaded the module.
static FORKS: AtomicU64 = AtomicU64::new(0);
/// How often anything was closed: a thread that sees another number than before looks for what it
/// has open of that.
static CLOSINGS: AtomicU64 = AtomicU64::new(0);
/// The next table's number.
static NUMBER: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static OPEN: RefCell<ThreadClients> = RefCell::default();
}

/// What a thread has open.
#[derive(Default)]
struct ThreadClients {
    /// In the order of the tables' numbers.
    tables: Vec<(Arc<TableClients>, Rc<Table>)>,
    /// The closings that it knows of.
    closings: u64,
    /// Whether Python tells when the thread ends.
    is_watched: bool,
}

impl ThreadClients {
    fn find(&self, number: u64) -> Result<usize, usize> {
        self.tables
            .binary_search_by_key(&number, |(table, _)| table.number)
    }

    /// Takes out what was closed since it was last looked at.
    fn take_closed(&mut self) -> Vec<Rc<Table>> {
        let closings = CLOSINGS.load(Ordering::Acquire);
        if self.closings == closings {
            return Vec::new();
        }
        self.closings = closings;
        let closed = self.tables.extract_if(.., |(table, _)| table.is_closed());
        closed.map(|(_, table)| table).collect()
    }
}

/// A store, which all threads share.
pub(crate) struct StoreClients {
    /// Nothing when it was closed.
    store: Mutex<ManuallyDrop<Option<Store>>>,
    is_closed: AtomicBool,
    forks: u64,
}

impl Drop for StoreClients {
    fn drop(&mut self) {
        // Of a store that was opened before a fork, connections and threads are the parent's.
        if self.forks == FORKS.load(Ordering::Relaxed) {
            self.drop_store();
        }
    }
}

impl StoreClients {
    pub(crate) fn new(store: Store) -> Self {
        Self {
            store: Mutex::new(ManuallyDrop::new(Some(store))),
            is_closed: AtomicBool::new(false),
            forks: FORKS.load(Ordering::Relaxed),
        }
    }

    fn lock(&self) -> MutexGuard<'_, ManuallyDrop<Option<Store>>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store.
    pub(crate) fn get(&self) -> Result<Store, Failure> {
        if self.forks != FORKS.load(Ordering::Relaxed) {
            return Err(Failure::Forked);
        }
        let store = self.lock();
        store.as_ref().cloned().ok_or(Failure::Closed("store"))
    }

    /// Closes it with its tables: this thread's now, those of others when they next use any, or
    /// end.
    pub(crate) fn close(&self) -> Result<(), Failure> {
        if self.is_closed.swap(true, Ordering::AcqRel) || self.get().is_err() {
            return Ok(());
        }
        CLOSINGS.fetch_add(1, Ordering::AcqRel);
        let closed = close_closed();
        self.drop_store();
        closed
    }

    fn drop_store(&self) {
        let store = self.lock().take();
        if let Some(store) = store {
            store.close_transactions();
        }
    }

    /// Whether it was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }
}

/// A table, which every thread opens for itself.
pub(crate) struct TableClients {
    store: Arc<StoreClients>,
    number: u64,
    record: TableRecord,
    is_closed: AtomicBool,
}

impl TableClients {
    /// Opens a table, for this thread as well.
    pub(crate) fn open(store: &Arc<StoreClients>, name: &str) -> Result<Arc<Self>, Failure> {
        let table = store.get()?.table(name)?;
        let opened = Arc::new(Self {
            store: Arc::clone(store),
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            record: table.record().clone(),
            is_closed: AtomicBool::new(false),
        });
        opened.keep(Rc::new(table));
        Ok(opened)
    }

    /// What its catalog says of it.
    pub(crate) fn record(&self) -> &TableRecord {
        &self.record
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire) || self.store.is_closed()
    }

    /// Keeps the calling thread's table.
    fn keep(self: &Arc<Self>, table: Rc<Table>) {
        let is_first = OPEN.with(|open| {
            let mut open = open.borrow_mut();
            if let Err(place) = open.find(self.number) {
                open.tables.insert(place, (Arc::clone(self), table));
            }
            !std::mem::replace(&mut open.is_watched, true)
        });
        if is_first {
            // Without it, tables are closed a little later, when the system's thread ends.
            let _ = Python::attach(watch);
        }
    }

    /// Refuses a table that cannot be used any more.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.store.forks != FORKS.load(Ordering::Relaxed) {
            return Err(Failure::Forked);
        }
        if !self.is_closed() {
            return Ok(());
        }
        Err(Failure::Closed(match self.store.is_closed() {
            true => "store",
            false => "table",
        }))
    }

    /// Refuses one that is not of this store, too.
    pub(crate) fn check_of(&self, store: &Arc<StoreClients>) -> Result<(), Failure> {
        self.check()?;
        match Arc::ptr_eq(&self.store, store) {
            true => Ok(()),
            false => Err(Failure::OtherStore(self.record.name.clone())),
        }
    }

    /// The first `most` pairs of a range of an ordered table, at one moment.
    pub(crate) fn scan(&self, range: KeyRange<'_>, most: usize) -> Result<Vec<Pair>, Failure> {
        self.check()?;
        let scanned = self.store.get()?.transaction(|t| {
            if !t.is_table_of(&self.record)? {
                return Ok(None);
            }
            t.scan(&self.record.name, range, most).map(Some)
        });
        scanned?.ok_or_else(|| Failure::Replaced(self.record.name.clone()))
    }

    /// The calling thread's table.
    fn of_thread(self: &Arc<Self>) -> Result<Rc<Table>, Failure> {
        let (found, closed) = OPEN.with(|open| {
            let mut open = open.borrow_mut();
            let closed = open.take_closed();
            let found = open.find(self.number).ok();
            (found.map(|at| Rc::clone(&open.tables[at].1)), closed)
        });
        drop(closed);
        self.check()?;
        if let Some(table) = found {
            return Ok(table);
        }
        let name = &self.record.name;
        let table = self.store.get()?.table(name)?;
        if table.record().identity() != self.record.identity() {
            return Err(Failure::Replaced(name.clone()));
        }
        let table = Rc::new(table);
        self.keep(Rc::clone(&table));
        Ok(table)
    }

    /// Calls with the calling thread's table.
    pub(crate) fn with<T>(
        self: &Arc<Self>,
        call: impl FnOnce(&Table) -> farslot::Result<T>,
    ) -> Result<T, Failure> {
        Ok(call(&*self.of_thread()?)?)
    }

    /// Calls with the calling thread's queue, of a table that is one.
    pub(crate) fn with_queue<T>(
        self: &Arc<Self>,
        call: impl FnOnce(&Queue) -> farslot::Result<T>,
    ) -> Result<T, Failure> {
        Ok(call(&Queue::of(self.of_thread()?)?)?)
    }

    /// Closes it: this thread's now, those of others when they next use any table, or end.
    pub(crate) fn close(&self) -> Result<(), Failure> {
        if self.store.forks != FORKS.load(Ordering::Relaxed)
            || self.is_closed.swap(true, Ordering::AcqRel)
        {
            return Ok(());
        }
        CLOSINGS.fetch_add(1, Ordering::AcqRel);
        close_closed()
    }
}

/// Lets Python tell when the calling thread ends.
fn watch(py: Python<'_>) -> PyResult<()> {
    py.import("farslot._threads")?.call_method0("watch")?;
    Ok(())
}

/// Closes this thread's tables. Of one that is gone there is nothing to be closed.
fn close_all(tables: impl IntoIterator<Item = Rc<Table>>) -> Result<(), Failure> {
    let mut closed = Ok(());
    for table in tables {
        // One that an operation of this thread uses is closed when that ends.
        let ended = Rc::try_unwrap(table).map_or(Ok(()), Table::close);
        let failed = ended
            .err()
            .filter(|error| error.kind() != ErrorKind::TableGone);
        closed = closed.and(failed.map_or(Ok(()), |error| Err(Failure::Store(error))));
    }
    closed
}

/// Closes what this thread has open of what was closed.
fn close_closed() -> Result<(), Failure> {
    let closed = OPEN.try_with(|open| open.borrow_mut().take_closed());
    // Nothing is open in a thread that is ending.
    close_all(closed.unwrap_or_default())
}

/// Closes all tables that the calling thread has open.
#[pyfunction]
pub(crate) fn close_thread(py: Python<'_>) {
    py.detach(|| {
        let open = OPEN.with(|open| std::mem::take(&mut open.borrow_mut().tables));
        // The program ends: nobody is there to be told that it could not be done.
        let _ = close_all(open.into_iter().map(|(_, table)| table));
    });
}

/// To be called in a new process that was forked: nothing that the parent has opened is used in it,
/// or closed.
#[pyfunction]
pub(crate) fn after_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    OPEN.with(|open| std::mem::forget(std::mem::take(&mut *open.borrow_mut())));
    Store::forget_transactions();
    under_way::forget_all();
}
