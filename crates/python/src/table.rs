//! A table, one key at a time.

use crate::batch::{Batch, Puts};
use crate::clients::TableClients;
use crate::codec::{Encoded, Form, RecordField};
use crate::failure::Failure;
use crate::iterator::Records;
use crate::options::seconds;
use crate::range::GivenRange;
use crate::store::RawStore;
use farslot::{ErrorKind, FieldSize, Table};
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyType};
use std::sync::Arc;
use std::time::Duration;

/// A table: `farslot.Table` has the manners of a mapping besides.
#[pyclass(subclass, frozen)]
pub(crate) struct RawTable {
    pub(crate) clients: Arc<TableClients>,
    pub(crate) key: RecordField,
    pub(crate) value: RecordField,
}

impl Drop for RawTable {
    fn drop(&mut self) {
        // Nobody is there to be told that it could not be done.
        let _ = self.clients.close();
    }
}

impl RawTable {
    /// Runs an operation without the GIL.
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&Table) -> farslot::Result<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| self.clients.with(call))
            .map_err(|failure| failure.raise(py))
    }

    fn batch(&self) -> Batch<'_> {
        Batch {
            clients: &self.clients,
            key: &self.key,
            value: &self.value,
        }
    }

    fn look_up<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = key.py();
        let bytes = self.key.encode(key)?;
        let found = self.run(py, |table| table.get(&bytes))?;
        found.map(|value| self.value.decode(py, &value)).transpose()
    }

    /// A key and a value.
    pub(crate) fn record(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<(Encoded, Encoded)> {
        Ok((self.key.encode(key)?, self.value.encode(value)?))
    }

    /// Removes a key, and returns the value that it had.
    fn take(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        self.clients.with(|table| {
            loop {
                let Some(value) = table.get(key)? else {
                    return Ok(None);
                };
                let removed = match table.compare_and_remove(key, &value) {
                    // This client is the only one that writes, or values do not change.
                    Err(error) if error.kind() == ErrorKind::Unsupported => table.remove(key),
                    removed => removed,
                };
                if removed? {
                    return Ok(Some(value));
                }
            }
        })
    }
}

/// How long a record shall live, if that is said.
fn time_to_live(ttl: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Duration>> {
    ttl.map(|ttl| seconds(ttl.py(), "ttl", ttl)).transpose()
}

/// The fixed size, and the most bytes.
const fn sizes(size: FieldSize) -> (Option<u32>, u32) {
    match size {
        FieldSize::Fixed(bytes) => (Some(bytes), bytes),
        FieldSize::UpTo(most) => (None, most),
    }
}

#[pymethods]
impl RawTable {
    #[new]
    fn new(
        store: &Bound<'_, RawStore>,
        name: &str,
        key: &Bound<'_, PyType>,
        value: &Bound<'_, PyType>,
    ) -> PyResult<Self> {
        let py = store.py();
        let store = &store.get().clients;
        let clients = py.detach(|| TableClients::open(store, name));
        let clients = clients.map_err(|failure| failure.raise(py))?;
        let (key_size, value_size) = clients.record().scheme.record_sizes();
        let fields = RecordField::new("key", key_size, key)
            .and_then(|key| Ok((key, RecordField::new("value", value_size, value)?)));
        match fields {
            Ok((key, value)) => Ok(Self {
                clients,
                key,
                value,
            }),
            Err(error) => {
                // It was never the program's.
                let _ = py.detach(|| clients.close());
                Err(error)
            }
        }
    }

    /// For the types of keys and values, in annotations.
    #[classmethod]
    fn __class_getitem__<'py>(
        class: &Bound<'py, PyType>,
        _types: &Bound<'py, PyAny>,
    ) -> Bound<'py, PyType> {
        class.clone()
    }

    #[getter]
    fn name(&self) -> &str {
        &self.clients.record().name
    }

    #[getter]
    fn scheme(&self) -> &'static str {
        self.clients.record().scheme.name()
    }

    #[getter]
    fn key_type<'py>(&self, py: Python<'py>) -> Bound<'py, PyType> {
        self.key.python_type(py)
    }

    #[getter]
    fn value_type<'py>(&self, py: Python<'py>) -> Bound<'py, PyType> {
        self.value.python_type(py)
    }

    #[getter]
    fn key_size(&self) -> Option<u32> {
        sizes(self.key.size).0
    }

    #[getter]
    fn max_key(&self) -> u32 {
        sizes(self.key.size).1
    }

    #[getter]
    fn value_size(&self) -> Option<u32> {
        sizes(self.value.size).0
    }

    #[getter]
    fn max_value(&self) -> u32 {
        sizes(self.value.size).1
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let found = self.look_up(key)?;
        found.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.put(key, value, None).map(drop)
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        match self.remove(key)? {
            true => Ok(()),
            false => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let bytes = self.key.encode(key)?;
        self.run(key.py(), |table| table.contains_key(&bytes))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let counted = self.run(py, |table| {
            table.flush()?;
            table.occupancy()
        })?;
        Ok(counted.entries.try_into()?)
    }

    #[pyo3(signature = (key, default=None, /))]
    fn get<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.look_up(key)?.or(default))
    }

    fn get_all<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let py = key.py();
        let bytes = self.key.encode(key)?;
        let values = self.run(py, |table| table.get_all(&bytes))?;
        let decoded = values.iter().map(|value| self.value.decode(py, value));
        decoded.collect()
    }

    #[pyo3(signature = (key, value, *, ttl=None))]
    fn put(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let (bytes, value) = self.record(key, value)?;
        let ttl = time_to_live(ttl)?;
        self.run(key.py(), |table| match ttl {
            None => table.put(&bytes, &value),
            Some(span) => table.put_for(&bytes, &value, span),
        })
    }

    fn time_to_live(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
        let bytes = self.key.encode(key)?;
        let found = self.run(key.py(), |table| table.get_with_time_to_live(&bytes))?;
        match found {
            Some((_, left)) => Ok(left.map(|left| left.as_secs_f64())),
            None => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    fn set_time_to_live(
        &self,
        key: &Bound<'_, PyAny>,
        ttl: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let bytes = self.key.encode(key)?;
        let ttl = time_to_live(ttl)?;
        self.run(key.py(), |table| table.set_time_to_live(&bytes, ttl))
    }

    fn replace(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (bytes, value) = self.record(key, value)?;
        self.run(key.py(), |table| table.update(&bytes, &value))
    }

    fn remove(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let bytes = self.key.encode(key)?;
        self.run(key.py(), |table| table.remove(&bytes))
    }

    fn find_or_put<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = key.py();
        let (bytes, value) = self.record(key, value)?;
        let found = self.run(py, |table| table.find_or_put(&bytes, &value))?;
        found.map(|value| self.value.decode(py, &value)).transpose()
    }

    fn compare_and_set(
        &self,
        key: &Bound<'_, PyAny>,
        expected: Option<&Bound<'_, PyAny>>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let (bytes, value) = self.record(key, value)?;
        let expected = expected.map(|expected| self.value.encode(expected));
        let expected = expected.transpose()?;
        self.run(key.py(), |table| {
            table.compare_and_set(&bytes, expected.as_deref(), &value)
        })
    }

    fn compare_and_remove(
        &self,
        key: &Bound<'_, PyAny>,
        expected: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let (bytes, expected) = self.record(key, expected)?;
        self.run(key.py(), |table| {
            table.compare_and_remove(&bytes, &expected)
        })
    }

    #[pyo3(signature = (key, by=1))]
    fn increment(&self, key: &Bound<'_, PyAny>, by: i64) -> PyResult<i64> {
        if matches!(self.value.form, Form::Integer(_)) {
            let message =
                "increment counts in decimal text: open the table with value=str or bytes";
            return Err(PyTypeError::new_err(message));
        }
        let bytes = self.key.encode(key)?;
        self.run(key.py(), |table| table.increment(&bytes, by))
    }

    fn _take<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = key.py();
        let bytes = self.key.encode(key)?;
        let taken = py.detach(|| self.take(&bytes));
        let taken = taken.map_err(|failure| failure.raise(py))?;
        taken.map(|value| self.value.decode(py, &value)).transpose()
    }

    fn _records(this: Py<Self>, part: &str, py: Python<'_>) -> PyResult<Records> {
        let table = this.get();
        let fields = (table.key, table.value);
        Records::new(
            this.clone_ref(py).into_any(),
            Arc::clone(&table.clients),
            fields,
            part,
        )
    }

    #[pyo3(signature = (start=None, stop=None, *, limit=None, reverse=false))]
    fn scan(
        this: Py<Self>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        limit: Option<u64>,
        reverse: bool,
        py: Python<'_>,
    ) -> PyResult<Records> {
        let table = this.get();
        let range = GivenRange::new(&table.key, start, stop, reverse)?;
        Ok(Records::of_range(
            this.clone_ref(py).into_any(),
            Arc::clone(&table.clients),
            (table.key, table.value),
            range.range(),
            limit,
        ))
    }

    #[pyo3(signature = (keys, *, dtype=None, out=None))]
    fn get_many<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        dtype: Option<Bound<'py, PyAny>>,
        out: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        self.batch().get(keys.py(), keys, dtype, out)
    }

    fn get_many_ragged<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let [data, offsets, found] = self.batch().get_ragged(keys.py(), keys)?;
        Ok((data, offsets, found))
    }

    #[pyo3(signature = (keys, values, *, ttl=None))]
    fn put_many<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        values: &Bound<'py, PyAny>,
        ttl: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let how = time_to_live(ttl)?.map_or(Puts::Stay, Puts::For);
        self.batch().put(keys.py(), keys, values, how)
    }

    fn replace_many<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        values: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.batch().put(keys.py(), keys, values, Puts::Replace)
    }

    #[pyo3(signature = (keys, values, *, dtype=None, out=None))]
    fn find_or_put_many<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        values: &Bound<'py, PyAny>,
        dtype: Option<Bound<'py, PyAny>>,
        out: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        self.batch()
            .find_or_put(keys.py(), keys, values, dtype, out)
    }

    fn remove_many<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.batch().remove(keys.py(), keys)
    }

    fn occupancy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counted = self.run(py, |table| {
            table.flush()?;
            table.occupancy()
        })?;
        [
            ("entries", counted.entries),
            ("used_slots", counted.used_slots),
            ("slots", counted.slots),
            ("heap_used", counted.heap_used),
            ("heap_dead", counted.heap_dead),
            ("heap_bytes", counted.heap_bytes),
            ("evicted", counted.evicted),
        ]
        .into_py_dict(py)
    }

    #[pyo3(signature = (*, force = false))]
    fn take_over(&self, py: Python<'_>, force: bool) -> PyResult<()> {
        self.run(py, |table| match force {
            true => table.force_take_over(),
            false => table.take_over(),
        })
    }

    fn resign(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, Table::resign)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.clients.close())
            .map_err(|failure| failure.raise(py))
    }
}
