//! A queue.

use crate::clients::TableClients;
use crate::codec::{Encoded, RecordField};
use crate::failure::Failure;
use crate::store::RawStore;
use farslot::Queue;
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::sync::Arc;

/// A queue: `farslot.Queue` has the manners of Python's besides.
#[pyclass(subclass, frozen)]
pub(crate) struct RawQueue {
    clients: Arc<TableClients>,
    value: RecordField,
}

impl Drop for RawQueue {
    fn drop(&mut self) {
        // Nobody is there to be told that it could not be done.
        let _ = self.clients.close();
    }
}

impl RawQueue {
    /// Runs an operation without the GIL.
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&Queue) -> farslot::Result<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| self.clients.with_queue(call))
            .map_err(|failure| failure.raise(py))
    }

    fn decode<'py>(
        &self,
        py: Python<'py>,
        items: Vec<Vec<u8>>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let items = items.iter().map(|item| self.value.decode(py, item));
        items.collect()
    }
}

#[pymethods]
impl RawQueue {
    #[new]
    fn new(store: &Bound<'_, RawStore>, name: &str, value: &Bound<'_, PyType>) -> PyResult<Self> {
        let py = store.py();
        let store = &store.get().clients;
        let opened = py.detach(|| -> Result<_, Failure> {
            let clients = TableClients::open(store, name)?;
            let checked = clients.with_queue(|_| Ok(()));
            Ok((clients, checked))
        });
        let (clients, checked) = opened.map_err(|failure| failure.raise(py))?;
        let field = match checked {
            Ok(()) => RecordField::new("value", clients.record().scheme.record_sizes().1, value),
            Err(failure) => Err(failure.raise(py)),
        };
        match field {
            Ok(value) => Ok(Self { clients, value }),
            Err(error) => {
                // It was never the program's.
                let _ = py.detach(|| clients.close());
                Err(error)
            }
        }
    }

    /// For the type of items, in annotations.
    #[classmethod]
    fn __class_getitem__<'py>(
        class: &Bound<'py, PyType>,
        _type: &Bound<'py, PyAny>,
    ) -> Bound<'py, PyType> {
        class.clone()
    }

    #[getter]
    fn name(&self) -> &str {
        &self.clients.record().name
    }

    #[getter]
    fn value_type<'py>(&self, py: Python<'py>) -> Bound<'py, PyType> {
        self.value.python_type(py)
    }

    fn push(&self, item: &Bound<'_, PyAny>) -> PyResult<u64> {
        let bytes = self.value.encode(item)?;
        self.run(item.py(), |queue| queue.push(&bytes))
    }

    fn push_all(&self, items: &Bound<'_, PyAny>) -> PyResult<u64> {
        let py = items.py();
        let items = items.try_iter()?.map(|item| self.value.encode(&item?));
        let items: Vec<Encoded> = items.collect::<PyResult<_>>()?;
        self.run(py, |queue| {
            let items: Vec<_> = items.iter().map(|item| &**item).collect();
            queue.push_all(&items)
        })
    }

    fn pop<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let item = self.run(py, Queue::pop)?;
        item.map(|item| self.value.decode(py, &item)).transpose()
    }

    fn pop_many<'py>(&self, most: u32, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let items = self.run(py, |queue| queue.pop_many(most))?;
        self.decode(py, items)
    }

    fn front<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let item = self.run(py, Queue::front)?;
        item.map(|item| self.value.decode(py, &item)).transpose()
    }

    fn _items<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let items = self.run(py, |queue| {
            let mut items = Vec::new();
            queue.for_each(|item| items.push(item.to_vec()))?;
            Ok(items)
        })?;
        self.decode(py, items)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let length = self.run(py, Queue::len)?;
        Ok(usize::try_from(length).unwrap_or(usize::MAX))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.clients.close())
            .map_err(|failure| failure.raise(py))
    }
}
