//! The arrays that a batch fills.

use crate::codec::{Form, RecordField};
use crate::input::Rows;
use farslot::{ByteCount, FieldSize};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyTuple};

/// What arrays of the batch's own results are: not of the table's keys or values.
const OWN: RecordField = RecordField {
    name: "result",
    size: FieldSize::Fixed(0),
    form: Form::Bytes,
};

/// An array of numpy's that a batch fills.
pub(crate) struct Output<'py> {
    pub(crate) array: Bound<'py, PyAny>,
    pub(crate) rows: Rows,
}

impl<'py> Output<'py> {
    fn of(array: Bound<'py, PyAny>, field: &RecordField) -> PyResult<Self> {
        let rows = Rows::of(PyUntypedBuffer::get(&array)?, field)?;
        Ok(Self { array, rows })
    }

    fn zeros(
        py: Python<'py>,
        shape: impl IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error = PyErr>,
        dtype: impl IntoPyObject<'py>,
        field: &RecordField,
    ) -> PyResult<Self> {
        let options = [("dtype", dtype)].into_py_dict(py)?;
        let shape = (shape.into_pyobject(py)?,);
        Self::of(
            py.import("numpy")?
                .call_method("zeros", shape, Some(&options))?,
            field,
        )
    }

    /// A new one of truth values, all false.
    pub(crate) fn mask(py: Python<'py>, len: usize) -> PyResult<Self> {
        Self::zeros(py, (len,), "bool", &OWN)
    }

    /// A new one of bytes.
    pub(crate) fn bytes(py: Python<'py>, bytes: &[u8]) -> PyResult<Self> {
        let made = Self::zeros(py, (bytes.len(),), "uint8", &OWN)?;
        made.rows.store(py, &(0..bytes.len()), bytes);
        Ok(made)
    }

    /// A new one of signed integers.
    pub(crate) fn integers(py: Python<'py>, integers: &[i64]) -> PyResult<Self> {
        let made = Self::zeros(py, (integers.len(),), "int64", &OWN)?;
        let bytes: Vec<u8> = integers.iter().flat_map(|i| i.to_ne_bytes()).collect();
        made.rows.store(py, &(0..integers.len()), &bytes);
        Ok(made)
    }

    /// One for so many values: the program's own, or a new one of zeros.
    pub(crate) fn values(
        py: Python<'py>,
        len: usize,
        field: &RecordField,
        dtype: Option<Bound<'py, PyAny>>,
        out: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        let made = match (out, dtype) {
            (Some(_), Some(_)) => {
                return Err(PyTypeError::new_err("pass out or dtype, not both"));
            }
            (Some(out), None) => Self::of(out, field)?,
            (None, Some(dtype)) => Self::of_type(py, len, field, dtype)?,
            (None, None) => Self::by_size(py, len, field)?,
        };
        if made.rows.len != len {
            let rows = made.rows.len;
            let message = format!("out has {rows} rows, for {len} keys");
            return Err(PyValueError::new_err(message));
        }
        if made.rows.is_read_only() {
            return Err(PyValueError::new_err("out is read-only"));
        }
        if !made.rows.zero_padded && !field.size.admits(made.rows.width) {
            return Err(PyValueError::new_err(format!(
                "a row of the array has {}, the table's values have {}",
                ByteCount(made.rows.width),
                field.size
            )));
        }
        Ok(made)
    }

    fn of_type(
        py: Python<'py>,
        len: usize,
        field: &RecordField,
        dtype: Bound<'py, PyAny>,
    ) -> PyResult<Self> {
        let dtype = py.import("numpy")?.call_method1("dtype", (dtype,))?;
        let item: usize = dtype.getattr("itemsize")?.extract()?;
        match field.size {
            FieldSize::Fixed(bytes)
                if item > 0 && bytes as usize > item && (bytes as usize).is_multiple_of(item) =>
            {
                Self::zeros(py, (len, bytes as usize / item), dtype, field)
            }
            _ => Self::zeros(py, (len,), dtype, field),
        }
    }

    fn by_size(py: Python<'py>, len: usize, field: &RecordField) -> PyResult<Self> {
        match (field.form, field.size) {
            (Form::Integer(bytes @ (1 | 2 | 4 | 8)), _) => {
                Self::zeros(py, (len,), format!("<u{bytes}"), field)
            }
            (_, FieldSize::Fixed(bytes)) => Self::zeros(py, (len, bytes as usize), "uint8", field),
            (_, FieldSize::UpTo(most)) => Err(PyTypeError::new_err(format!(
                "the table's values have at most {}: say by dtype or out how many these have, or use \
                 get_many_ragged",
                ByteCount(most)
            ))),
        }
    }
}
