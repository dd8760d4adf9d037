//! A store: its tables by their names.

use crate::clients::StoreClients;
use crate::codec::RecordField;
use crate::failure::{Failure, raise};
use crate::input::Input;
use crate::options::{open_options, table_options};
use farslot::{Record, Store};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyType};
use std::sync::Arc;

/// A store.
#[pyclass(subclass, frozen)]
pub(crate) struct RawStore {
    pub(crate) clients: Arc<StoreClients>,
    address: String,
}

impl RawStore {
    /// Does something with the store, without the GIL.
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&Store) -> farslot::Result<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| Ok(call(&self.clients.get()?)?))
            .map_err(|failure: Failure| failure.raise(py))
    }
}

#[pymethods]
impl RawStore {
    #[new]
    #[pyo3(signature = (address, **options))]
    fn new(address: &str, options: Option<&Bound<'_, PyDict>>, py: Python<'_>) -> PyResult<Self> {
        let options = open_options(py, options)?;
        let opened = py.detach(|| Store::open_with(address, options));
        let store = opened.map_err(|error| raise(py, error))?;
        Ok(Self {
            clients: Arc::new(StoreClients::new(store)),
            address: address.to_owned(),
        })
    }

    #[getter]
    fn address(&self) -> &str {
        &self.address
    }

    #[pyo3(signature = (name, **options))]
    fn _create(
        &self,
        name: &str,
        options: Option<&Bound<'_, PyDict>>,
        py: Python<'_>,
    ) -> PyResult<()> {
        let options = table_options(py, options, false)?;
        self.run(py, |store| store.create(name, &options).map(drop))
    }

    #[pyo3(signature = (name, key, value, keys, values, **options))]
    #[allow(clippy::too_many_arguments, reason = "of a method that Python calls")]
    fn _build(
        &self,
        name: &str,
        key: &Bound<'_, PyType>,
        value: &Bound<'_, PyType>,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<u64> {
        let py = keys.py();
        let options = table_options(py, options, true)?;
        let sizes = options.scheme().map_err(|error| raise(py, error))?;
        let (key_size, value_size) = sizes.record_sizes();
        let key = RecordField::new("key", key_size, key)?;
        let value = RecordField::new("value", value_size, value)?;
        let (keys, values) = (Input::of(keys, &key)?, Input::of(values, &value)?);
        if keys.len() != values.len() {
            let (keys, values) = (keys.len(), values.len());
            let message = format!("there are {keys} keys and {values} values");
            return Err(PyValueError::new_err(message));
        }
        let all = 0..keys.len();
        let (mut key_copy, mut value_copy) = (Vec::new(), Vec::new());
        let keys = keys.load(py, &all, &mut key_copy);
        let values = values.load(py, &all, &mut value_copy);
        self.run(py, |store| {
            let records: Vec<Record<'_>> = keys.each().into_iter().zip(values.each()).collect();
            store.build(name, &options, &records)
        })
    }

    fn drop(&self, name: &str, py: Python<'_>) -> PyResult<()> {
        self.run(py, |store| store.drop_table(name))
    }

    fn rename(&self, name: &str, to: &str, py: Python<'_>) -> PyResult<()> {
        self.run(py, |store| store.rename(name, to))
    }

    fn clear(&self, name: &str, py: Python<'_>) -> PyResult<()> {
        self.run(py, |store| store.clear(name))
    }

    fn accept_loss(&self, name: &str, py: Python<'_>) -> PyResult<Vec<String>> {
        self.run(py, |store| store.accept_loss(name))
    }

    fn tables(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let tables = self.run(py, Store::tables)?;
        Ok(tables.into_iter().map(|table| table.name).collect())
    }

    fn memory<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let memory = self.run(py, Store::memory)?;
        [
            ("total", memory.total),
            ("taken", memory.taken),
            ("largest_free", memory.largest_free),
        ]
        .into_py_dict(py)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.clients.close())
            .map_err(|failure| failure.raise(py))
    }
}
