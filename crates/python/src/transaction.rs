//! Transactions: the blocks of `with store.transaction()`, and the bodies of `Store.transact`.
//!
//! A [`farslot::Transaction`] belongs to the thread that began it, and stays there
//! ([`under_way`](crate::under_way)). What Python has of it is its number. Another thread can give
//! it up, and nothing else.

use crate::clients::StoreClients;
use crate::codec::Encoded;
use crate::failure::Failure;
use crate::range::GivenRange;
use crate::store::RawStore;
use crate::table::RawTable;
use crate::under_way::ActiveTransaction;
use farslot::Pair;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use std::sync::Arc;

/// A transaction on a store.
#[pyclass(frozen)]
pub(crate) struct Transaction {
    store: Arc<StoreClients>,
    under_way: ActiveTransaction,
    /// Whether it is one of [`transact`], which begins and ends it.
    is_lent: bool,
}

impl Transaction {
    /// Refuses to begin or end one that is lent to a body.
    fn check_own(&self) -> PyResult<()> {
        match self.is_lent {
            true => Err(PyValueError::new_err(
                "transact begins and ends the transaction of its body: return, raise, or call \
                 abort()",
            )),
            false => Ok(()),
        }
    }

    /// Does something with the transaction, without the GIL.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut farslot::Transaction) -> Result<T, Failure> + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| self.under_way.with(work));
        done.map_err(|failure| failure.raise(py))
    }

    /// Does something with one of its tables.
    fn step<T: Send>(
        &self,
        table: &Bound<'_, RawTable>,
        work: impl FnOnce(&mut farslot::Transaction, &str) -> farslot::Result<T> + Send,
    ) -> PyResult<T> {
        let clients = &table.get().clients;
        self.with(table.py(), |transaction| {
            clients.check_of(&self.store)?;
            let record = clients.record();
            if !transaction.is_table_of(record)? {
                return Err(Failure::Replaced(record.name.clone()));
            }
            Ok(work(transaction, &record.name)?)
        })
    }
}

#[pymethods]
impl Transaction {
    /// One that has not begun.
    #[new]
    fn new(store: &Bound<'_, RawStore>) -> Self {
        Self {
            store: Arc::clone(&store.get().clients),
            under_way: ActiveTransaction::default(),
            is_lent: false,
        }
    }

    fn __enter__(this: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let transaction = this.get();
        transaction.check_own()?;
        if transaction.under_way.is_any() {
            return Err(PyValueError::new_err(
                "the transaction is under way already",
            ));
        }
        let py = this.py();
        let begin = || Ok(transaction.store.get()?.begin()?);
        let begun = py.detach(|| transaction.under_way.begin(begin));
        begun.map_err(|failure| failure.raise(py))?;
        Ok(this)
    }

    #[pyo3(signature = (kind, error, traceback, /))]
    fn __exit__(
        &self,
        kind: Option<&Bound<'_, PyAny>>,
        error: Option<&Bound<'_, PyAny>>,
        traceback: Option<&Bound<'_, PyAny>>,
        py: Python<'_>,
    ) -> PyResult<()> {
        let _ = (error, traceback);
        self.check_own()?;
        if kind.is_some() {
            py.detach(|| match self.under_way.take() {
                Ok(mut transaction) => transaction.abort(),
                Err(_) => self.under_way.give_up(),
            });
            // The block's own error goes on.
            return Ok(());
        }
        let ended = py.detach(|| Ok(self.under_way.take()?.commit()?));
        ended.map_err(|failure: Failure| failure.raise(py))
    }

    #[pyo3(signature = (table, key, default=None))]
    fn get<'py>(
        &self,
        table: &Bound<'py, RawTable>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let typed = table.get();
        let key = typed.key.encode(key)?;
        let found = self.step(table, |t, name| t.get(name, &key))?;
        match found {
            Some(value) => typed.value.decode(table.py(), &value).map(Some),
            None => Ok(default),
        }
    }

    fn get_many<'py>(
        &self,
        table: &Bound<'py, RawTable>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
        let typed = table.get();
        let keys = keys.try_iter()?.map(|key| typed.key.encode(&key?));
        let keys: Vec<Encoded> = keys.collect::<PyResult<_>>()?;
        let found = self.step(table, |t, name| {
            let keys: Vec<_> = keys.iter().map(|key| (name, &**key)).collect();
            t.get_many(&keys)
        })?;
        let values = found.into_iter().map(|value| {
            let value = value.map(|value| typed.value.decode(table.py(), &value));
            value.transpose()
        });
        values.collect()
    }

    fn put(
        &self,
        table: &Bound<'_, RawTable>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (key, value) = table.get().record(key, value)?;
        self.step(table, |t, name| t.put(name, &key, &value))
    }

    fn insert(
        &self,
        table: &Bound<'_, RawTable>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let (key, value) = table.get().record(key, value)?;
        self.step(table, |t, name| t.insert(name, &key, &value))
    }

    fn remove(&self, table: &Bound<'_, RawTable>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = table.get().key.encode(key)?;
        self.step(table, |t, name| t.remove(name, &key))
    }

    #[pyo3(signature = (table, start=None, stop=None, *, limit=None, reverse=false))]
    fn scan<'py>(
        &self,
        table: &Bound<'py, RawTable>,
        start: Option<&Bound<'py, PyAny>>,
        stop: Option<&Bound<'py, PyAny>>,
        limit: Option<usize>,
        reverse: bool,
    ) -> PyResult<Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
        let (py, typed) = (table.py(), table.get());
        let given = GivenRange::new(&typed.key, start, stop, reverse)?;
        let most = limit.unwrap_or(usize::MAX);
        let found = self.step(table, |t, name| t.scan(name, given.range(), most))?;
        let pairs = found.iter().map(|(key, value): &Pair| {
            Ok((typed.key.decode(py, key)?, typed.value.decode(py, value)?))
        });
        pairs.collect()
    }

    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |transaction| {
            transaction.abort();
            Ok(())
        })
    }
}

/// Runs a body as a transaction until it is committed; what it returns.
#[pyfunction]
pub(crate) fn transact(store: &Bound<'_, RawStore>, body: Py<PyAny>) -> PyResult<Py<PyAny>> {
    let (py, store) = (store.py(), &store.get().clients);
    // What the last run of the body has raised, and whether it is to be run no more.
    let (mut raised, mut stops) = (None, false);
    let end = py.detach(|| -> Result<Option<Py<PyAny>>, Failure> {
        let opened = store.get()?;
        let end = opened.transaction(|t| {
            let mut is_lost = false;
            if !stops {
                raised = None;
                // The body has it meanwhile. What is here instead is aborted already: a process
                // that the body forks has nothing else to end, and nothing to send for that.
                let mut none = opened.begin()?;
                none.abort();
                let returned = Python::attach(|py| -> PyResult<Py<PyAny>> {
                    let lent = Transaction {
                        store: Arc::clone(store),
                        under_way: ActiveTransaction::default(),
                        is_lent: true,
                    };
                    let lent = Bound::new(py, lent)?;
                    let under_way = &lent.get().under_way;
                    let begun = under_way.begin(|| Ok(std::mem::replace(t, none)));
                    begun.map_err(|failure| failure.raise(py))?;
                    let returned = body.call1(py, (&lent,));
                    let taken = under_way.take().map(|transaction| *t = transaction);
                    is_lost = taken.is_err();
                    let returned = returned?;
                    let why = |lost| store.get().err().unwrap_or(lost);
                    taken.map_err(|lost| why(lost).raise(py))?;
                    Ok(returned)
                });
                match returned {
                    Ok(returned) => return Ok(Some(returned)),
                    Err(error) => {
                        stops = Python::attach(|py| !error.is_instance_of::<PyException>(py));
                        raised = Some(error);
                    }
                }
            }
            if !is_lost {
                t.abort();
            }
            Ok(None)
        });
        Ok(end?)
    });
    match (end, raised) {
        (Ok(Some(returned)), _) => Ok(returned),
        (_, Some(raised)) => Err(raised),
        (Err(failure), None) => Err(failure.raise(py)),
        (Ok(None), None) => Err(Failure::NoTransaction.raise(py)),
    }
}
