//! The native half of the Python package `farslot`: stores, tables and servers, and batches from
//! and to numpy arrays. What users see is in `python/farslot`.
//!
//! A [`farslot::Table`] belongs to one thread; a Python object to all. So a Python table is the
//! table's name, and every thread that uses it opens a [`farslot::Table`] of its own, which stays
//! in the thread's local storage ([`clients`]). An operation neither copies its key nor wakes
//! another thread, as it would with a [`farslot::Handle`], and threads do not wait for one another:
//! the GIL is released while an operation runs.
//!
//! Batches take pieces of an array into memory of their own under the GIL, look these up without
//! it, and copy the answers back under it. So no array is read or written while other threads of
//! the program may change it, at the price of about a nanosecond a record.

mod batch;
mod clients;
mod codec;
mod failure;
mod input;
mod iterator;
mod options;
mod output;
mod queue;
mod range;
mod server;
mod store;
mod table;
mod transaction;
mod under_way;

/// The module `farslot._native`.
#[pyo3::pymodule(name = "_native")]
mod native {
    #[pymodule_export]
    use crate::clients::{after_fork, close_thread};
    #[pymodule_export]
    use crate::iterator::Records;
    #[pymodule_export]
    use crate::queue::RawQueue;
    #[pymodule_export]
    use crate::server::RawServer;
    #[pymodule_export]
    use crate::store::RawStore;
    #[pymodule_export]
    use crate::table::RawTable;
    #[pymodule_export]
    use crate::transaction::{Transaction, transact};
}
