//! Iteration over a table, a piece at a time.

use crate::clients::TableClients;
use crate::codec::RecordField;
use crate::failure::Failure;
use farslot::{Cursor, KeyRange};
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

/// Pairs of a range that are read in one transaction.
const RANGE_PIECE: u64 = 1_000;

/// A piece of a table.
#[derive(Clone)]
enum Piece {
    /// From a place on.
    At(Cursor),
    /// What is left of a range, of which there are to be so many pairs.
    Range {
        from: Vec<u8>,
        to: Option<Vec<u8>>,
        is_reversed: bool,
        left: u64,
    },
}

/// An iterator over a table.
#[pyclass]
pub(crate) struct Records {
    /// The table's object, which closes it when nothing refers to it.
    _table: Py<PyAny>,
    clients: Arc<TableClients>,
    key: RecordField,
    value: RecordField,
    part: Part,
    /// What the next piece is; nothing at the end.
    next: Option<Piece>,
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
        (key, value): (RecordField, RecordField),
        part: &str,
    ) -> PyResult<Self> {
        let part = match part {
            "keys" => Part::Keys,
            "values" => Part::Values,
            "items" => Part::Items,
            _ => return Err(PyValueError::new_err("keys, values or items")),
        };
        let all = Piece::At(Cursor::default());
        Ok(Self::starting_with(all, table, clients, (key, value), part))
    }

    /// Over keys and values of a range.
    pub(crate) fn of_range(
        table: Py<PyAny>,
        clients: Arc<TableClients>,
        fields: (RecordField, RecordField),
        range: KeyRange<'_>,
        limit: Option<u64>,
    ) -> Self {
        let range = Piece::Range {
            from: range.from.to_vec(),
            to: range.to.map(<[u8]>::to_vec),
            is_reversed: range.is_reversed,
            left: limit.unwrap_or(u64::MAX),
        };
        Self::starting_with(range, table, clients, fields, Part::Items)
    }

    fn starting_with(
        piece: Piece,
        table: Py<PyAny>,
        clients: Arc<TableClients>,
        (key, value): (RecordField, RecordField),
        part: Part,
    ) -> Self {
        Self {
            _table: table,
            clients,
            key,
            value,
            part,
            next: Some(piece),
            bytes: Vec::new(),
            lengths: Vec::new().into_iter(),
            at: 0,
        }
    }

    /// Visits a piece.
    fn visit(&mut self, py: Python<'_>, piece: Piece) -> PyResult<()> {
        let clients = &self.clients;
        let (mut bytes, mut lengths) = (std::mem::take(&mut self.bytes), Vec::new());
        bytes.clear();
        let mut visit = |key: &[u8], value: &[u8]| {
            bytes.extend_from_slice(key);
            bytes.extend_from_slice(value);
            lengths.push((key.len(), value.len()));
        };
        let next = py.detach(|| match piece {
            Piece::At(from) => {
                let next = clients.with(|table| table.scan(from, u64::MAX, visit))?;
                Ok(next.map(Piece::At))
            }
            Piece::Range {
                from,
                to,
                is_reversed,
                left,
            } => {
                let most = left.min(RANGE_PIECE);
                let range = KeyRange {
                    from: &from,
                    to: to.as_deref(),
                    is_reversed,
                };
                let pairs = clients.scan(range, most as usize)?;
                pairs.iter().for_each(|(key, value)| visit(key, value));
                let (found, last) = (pairs.len() as u64, pairs.into_iter().next_back());
                let Some((last, _)) = last.filter(|_| found == most && left > most) else {
                    return Ok(None);
                };
                let (from, to) = range.rest(last);
                Ok(Some(Piece::Range {
                    from,
                    to,
                    is_reversed,
                    left: left - found,
                }))
            }
        });
        self.next = next.map_err(|failure: Failure| failure.raise(py))?;
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
            let Some(piece) = self.next.clone() else {
                return Ok(None);
            };
            py.check_signals()?;
            self.visit(py, piece)?;
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
