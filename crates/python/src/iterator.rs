//! Iteration over a table, a piece at a time.

use crate::clients::TableClients;
use crate::codec::Field;
use farslot::Cursor;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::Arc;

/// What an iterator yields of each record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Keys,
    Values,
    Items,
}

/// An iterator over a table.
#[pyclass]
pub(crate) struct Records {
    /// The table's object, which closes it when nothing refers to it.
    _table: Py<PyAny>,
    clients: Arc<TableClients>,
    key: Field,
    value: Field,
    part: Part,
    /// Where the next piece starts; nothing at the end.
    next: Option<Cursor>,
    /// The piece that was visited last.
    bytes: Vec<u8>,
    /// Bytes of the key and of the value of each of its records.
    lengths: std::vec::IntoIter<(usize, usize)>,
    /// Bytes of it that were yielded.
    at: usize,
}

impl Records {
    /// Over a table with such keys and values, which its object keeps open.
    pub(crate) fn new(
        table: Py<PyAny>,
        clients: Arc<TableClients>,
        (key, value): (Field, Field),
        part: &str,
    ) -> PyResult<Self> {
        let part = match part {
            "keys" => Part::Keys,
            "values" => Part::Values,
            "items" => Part::Items,
            _ => return Err(PyValueError::new_err("keys, values or items")),
        };
        Ok(Self {
            _table: table,
            clients,
            key,
            value,
            part,
            next: Some(Cursor::default()),
            bytes: Vec::new(),
            lengths: Vec::new().into_iter(),
            at: 0,
        })
    }

    /// Visits the next piece.
    fn visit(&mut self, py: Python<'_>, from: Cursor) -> PyResult<()> {
        let clients = &self.clients;
        let (mut bytes, mut lengths) = (std::mem::take(&mut self.bytes), Vec::new());
        bytes.clear();
        let visit = |key: &[u8], value: &[u8]| {
            bytes.extend_from_slice(key);
            bytes.extend_from_slice(value);
            lengths.push((key.len(), value.len()));
        };
        let next = py.detach(|| clients.with(|table| table.scan(from, u64::MAX, visit)));
        self.next = next.map_err(|failure| failure.raise(py))?;
        (self.bytes, self.lengths, self.at) = (bytes, lengths.into_iter(), 0);
        Ok(())
    }
}

#[pymethods]
impl Records {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let (key, value) = loop {
            if let Some(lengths) = self.lengths.next() {
                break lengths;
            }
            let Some(from) = self.next else {
                return Ok(None);
            };
            py.check_signals()?;
            self.visit(py, from)?;
        };
        let record = &self.bytes[self.at..self.at + key + value];
        self.at += key + value;
        let (key, value) = record.split_at(key);
        let yielded = match self.part {
            Part::Keys => self.key.decode(py, key)?,
            Part::Values => self.value.decode(py, value)?,
            Part::Items => (self.key.decode(py, key)?, self.value.decode(py, value)?)
                .into_pyobject(py)?
                .into_any(),
        };
        Ok(Some(yielded.unbind()))
    }
}
