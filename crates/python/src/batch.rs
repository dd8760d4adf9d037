//! Operations on many keys at once, by arrays.

use crate::clients::TableClients;
use crate::codec::RecordField;
use crate::failure::Failure;
use crate::input::{Input, pieces};
use crate::output::Output;
use farslot::{BatchError, ByteCount, Record, Table};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::Arc;
use std::time::Duration;

/// What a batch does with its records.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Puts {
    /// Puts them for ever.
    Stay,
    /// Puts them for so long.
    For(Duration),
    /// Replaces the values of keys that are there.
    Replace,
}

/// A table, and what its keys and values are in Python.
pub(crate) struct Batch<'t> {
    pub(crate) clients: &'t Arc<TableClients>,
    pub(crate) key: &'t RecordField,
    pub(crate) value: &'t RecordField,
}

/// The records of a batch that failed.
#[derive(Default)]
struct FailedRecords {
    /// The first of them in the batch.
    first: Option<(usize, Failure)>,
    /// 1 for each that failed; empty if none has.
    mask: Vec<u8>,
}

impl FailedRecords {
    fn note(&mut self, records: usize, number: usize, failure: Failure) {
        self.mask.resize(records, 0);
        self.mask[number] = 1;
        if self.first.as_ref().is_none_or(|(first, _)| number < *first) {
            self.first = Some((number, failure));
        }
    }

    /// Notes what failed of a piece, whose first record has this number.
    fn add(&mut self, records: usize, first: usize, piece: farslot::Result<(), BatchError>) {
        for (number, error) in piece.err().into_iter().flatten() {
            self.note(records, first + number, Failure::Store(error));
        }
    }

    /// Tells the program, if any has failed.
    fn check(self, py: Python<'_>) -> PyResult<()> {
        match self.first {
            None => Ok(()),
            Some((first, failure)) => Err(failure.of_batch(py, Some((first, &self.mask)))),
        }
    }
}

/// What becomes of the answers about a piece of a batch: values in rows, and which keys are there.
struct Answers<'b> {
    rows: &'b mut [u8],
    present: &'b mut [u8],
    width: usize,
    /// Whether the rows are strings of an `S` array, which zeros fill up.
    zero_padded: bool,
    failed: &'b mut FailedRecords,
    /// Records of the batch, and the number of the piece's first one.
    records: usize,
    first: usize,
}

impl Answers<'_> {
    /// About a record of the piece: the value that its key has, or had.
    fn take(&mut self, number: usize, value: Option<&[u8]>) {
        let Some(value) = value else { return };
        let row = number * self.width..(number + 1) * self.width;
        match write(&mut self.rows[row], value, self.zero_padded) {
            Ok(()) => self.present[number] = 1,
            Err(failure) => self.failed.note(self.records, self.first + number, failure),
        }
    }
}

/// A value, into its row.
#[inline]
fn write(row: &mut [u8], value: &[u8], zero_padded: bool) -> Result<(), Failure> {
    let (len, width) = (value.len(), row.len());
    if zero_padded && len <= width {
        if value.last() == Some(&0) {
            return Err(Failure::EndsInZero);
        }
        row[..len].copy_from_slice(value);
        row[len..].fill(0);
        return Ok(());
    }
    if len != width {
        return Err(Failure::Row { len, width });
    }
    // Words, mostly.
    if let (Ok(row), Ok(value)) = (<&mut [u8; 8]>::try_from(&mut *row), value.try_into()) {
        *row = value;
    } else {
        row.copy_from_slice(value);
    }
    Ok(())
}

fn same_number(keys: &Input, values: &Input) -> PyResult<usize> {
    let (keys, values) = (keys.len(), values.len());
    if keys == values {
        Ok(keys)
    } else {
        let message = format!("there are {keys} keys and {values} values");
        Err(PyValueError::new_err(message))
    }
}

impl Batch<'_> {
    /// Looks up keys, and fills the rows of those that are there.
    pub(crate) fn get<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        dtype: Option<Bound<'py, PyAny>>,
        out: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let keys = Input::of(keys, self.key)?;
        let values = Output::values(py, keys.len(), self.value, dtype, out)?;
        let found = Output::mask(py, keys.len())?;
        let (width, zero_padded) = (values.rows.width, values.rows.zero_padded);
        let (mut copy, mut rows, mut present) = (Vec::new(), Vec::new(), Vec::new());
        let mut failed = FailedRecords::default();
        for range in pieces(keys.len()) {
            py.check_signals()?;
            let piece = keys.load(py, &range, &mut copy);
            // Rows of absent keys stay as they are.
            values.rows.load(py, &range, &mut rows);
            present.clear();
            present.resize(range.len(), 0_u8);
            let look_up = |table: &Table| {
                let mut answers = Answers {
                    rows: &mut rows,
                    present: &mut present,
                    width,
                    zero_padded,
                    failed: &mut failed,
                    records: keys.len(),
                    first: range.start,
                };
                let got =
                    table.get_many(&piece.each(), |number, value| answers.take(number, value));
                failed.add(keys.len(), range.start, got);
                Ok(())
            };
            py.detach(|| self.clients.with(look_up))
                .map_err(|failure| failure.raise(py))?;
            values.rows.store(py, &range, &rows);
            found.rows.store(py, &range, &present);
        }
        failed.check(py)?;
        Ok((values.array, found.array))
    }

    /// Looks up keys whose values have any lengths: their bytes in the order of the keys, where
    /// each starts and the last ends, and which are there.
    pub(crate) fn get_ragged<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<[Bound<'py, PyAny>; 3]> {
        let keys = Input::of(keys, self.key)?;
        let found = Output::mask(py, keys.len())?;
        let (mut data, mut offsets) = (Vec::new(), Vec::with_capacity(keys.len() + 1));
        offsets.push(0_i64);
        let mut copy = Vec::new();
        let mut failed = FailedRecords::default();
        for range in pieces(keys.len()) {
            py.check_signals()?;
            let piece = keys.load(py, &range, &mut copy);
            // Values come in any order.
            let mut arrived = Vec::new();
            let mut places = vec![None; range.len()];
            let look_up = |table: &Table| {
                let got = table.get_many(&piece.each(), |number, value| {
                    if let Some(value) = value {
                        let start = arrived.len();
                        arrived.extend_from_slice(value);
                        places[number] = Some(start..arrived.len());
                    }
                });
                failed.add(keys.len(), range.start, got);
                for place in &places {
                    data.extend_from_slice(place.clone().map_or(&[], |place| &arrived[place]));
                    offsets.push(data.len() as i64);
                }
                Ok(())
            };
            py.detach(|| self.clients.with(look_up))
                .map_err(|failure| failure.raise(py))?;
            let present: Vec<u8> = places.iter().map(|place| place.is_some().into()).collect();
            found.rows.store(py, &range, &present);
        }
        failed.check(py)?;
        let data = Output::bytes(py, &data)?.array;
        let offsets = Output::integers(py, &offsets)?.array;
        Ok([data, offsets, found.array])
    }

    /// Finds or puts records: the values that the table has then, and which keys were there.
    pub(crate) fn find_or_put<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        values: &Bound<'py, PyAny>,
        dtype: Option<Bound<'py, PyAny>>,
        out: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let keys = Input::of(keys, self.key)?;
        let values = Input::of(values, self.value)?;
        let len = same_number(&keys, &values)?;
        let stored = Output::values(py, len, self.value, dtype, out)?;
        let found = Output::mask(py, len)?;
        let (width, zero_padded) = (stored.rows.width, stored.rows.zero_padded);
        if zero_padded && !values.fit_strings(width) {
            let most = ByteCount(width);
            let message = format!("some values have more than {most}, or end in a zero byte");
            return Err(PyValueError::new_err(message));
        }
        if len > 0 && !zero_padded && values.width() != Some(width) {
            let given = values
                .width()
                .map_or("different numbers of bytes".to_owned(), |width| {
                    ByteCount(width).to_string()
                });
            let message = format!("the values have {given}, a row of the result {width}");
            return Err(PyValueError::new_err(message));
        }
        let (mut key_copy, mut value_copy) = (Vec::new(), Vec::new());
        let (mut rows, mut present) = (Vec::new(), Vec::new());
        let mut failed = FailedRecords::default();
        for range in pieces(len) {
            py.check_signals()?;
            let key_piece = keys.load(py, &range, &mut key_copy);
            let value_piece = values.load(py, &range, &mut value_copy);
            present.clear();
            present.resize(range.len(), 0_u8);
            rows.clear();
            rows.resize(width * range.len(), 0);
            let put = |table: &Table| {
                let value_piece = value_piece.each();
                for (number, value) in value_piece.iter().enumerate() {
                    rows[number * width..][..value.len()].copy_from_slice(value);
                }
                let records: Vec<Record<'_>> =
                    key_piece.each().into_iter().zip(value_piece).collect();
                let mut answers = Answers {
                    rows: &mut rows,
                    present: &mut present,
                    width,
                    zero_padded,
                    failed: &mut failed,
                    records: len,
                    first: range.start,
                };
                let done = table.find_or_put_many(&records, |at, was| answers.take(at, was));
                failed.add(len, range.start, done);
                Ok(())
            };
            py.detach(|| self.clients.with(put))
                .map_err(|failure| failure.raise(py))?;
            stored.rows.store(py, &range, &rows);
            found.rows.store(py, &range, &present);
        }
        failed.check(py)?;
        Ok((stored.array, found.array))
    }

    /// Puts records, or replaces the values of keys that are there: for each, whether the key is
    /// new, or was there.
    pub(crate) fn put<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        values: &Bound<'py, PyAny>,
        how: Puts,
    ) -> PyResult<Bound<'py, PyAny>> {
        let keys = Input::of(keys, self.key)?;
        let values = Input::of(values, self.value)?;
        let len = same_number(&keys, &values)?;
        let changed = Output::mask(py, len)?;
        let (mut key_copy, mut value_copy) = (Vec::new(), Vec::new());
        let mut failed = FailedRecords::default();
        for range in pieces(len) {
            py.check_signals()?;
            let key_piece = keys.load(py, &range, &mut key_copy);
            let value_piece = values.load(py, &range, &mut value_copy);
            let mut answers = vec![0_u8; range.len()];
            let note = |number: usize, changed: bool| answers[number] = changed.into();
            let put = |table: &Table| {
                let records = key_piece.each().into_iter().zip(value_piece.each());
                let records: Vec<Record<'_>> = records.collect();
                let done = match how {
                    Puts::Stay => table.put_many(&records, note),
                    Puts::For(span) => table.put_many_for(&records, span, note),
                    Puts::Replace => table.update_many(&records, note),
                };
                failed.add(len, range.start, done);
                Ok(())
            };
            py.detach(|| self.clients.with(put))
                .map_err(|failure| failure.raise(py))?;
            changed.rows.store(py, &range, &answers);
        }
        failed.check(py)?;
        Ok(changed.array)
    }

    /// Removes keys: for each, whether it was there.
    pub(crate) fn remove<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let keys = Input::of(keys, self.key)?;
        let len = keys.len();
        let removed = Output::mask(py, len)?;
        let mut copy = Vec::new();
        let mut failed = FailedRecords::default();
        for range in pieces(len) {
            py.check_signals()?;
            let piece = keys.load(py, &range, &mut copy);
            let mut answers = vec![0_u8; range.len()];
            let remove = |table: &Table| {
                let done = table.remove_many(&piece.each(), |number, was_there| {
                    answers[number] = was_there.into();
                });
                failed.add(len, range.start, done);
                Ok(())
            };
            py.detach(|| self.clients.with(remove))
                .map_err(|failure| failure.raise(py))?;
            removed.rows.store(py, &range, &answers);
        }
        failed.check(py)?;
        Ok(removed.array)
    }
}
