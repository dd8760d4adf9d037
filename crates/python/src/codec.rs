//! Keys and values as Python objects: bytes, or as the program has asked for when it opened the
//! table.

use farslot::{ByteCount, FieldSize};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyUnicodeDecodeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyByteArray, PyBytes, PyInt, PyString, PyType};
use std::ops::Deref;

/// The most bytes of an integer.
const WORD: usize = size_of::<u64>();

/// What the keys or the values of a table are in Python.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// `bytes`.
    Bytes,
    /// `str`, in UTF-8.
    Text,
    /// `int`, unsigned and little-endian, of so many bytes.
    Integer(usize),
}

impl Form {
    /// The name of the Python type.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Text => "str",
            Self::Integer(_) => "int",
        }
    }
}

/// The keys or the values of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordField {
    /// `"key"` or `"value"`.
    pub(crate) name: &'static str,
    pub(crate) size: FieldSize,
    pub(crate) form: Form,
}

impl RecordField {
    /// Keys or values of this size, as the program asks for by a type.
    pub(crate) fn new(
        name: &'static str,
        size: FieldSize,
        asked: &Bound<'_, PyType>,
    ) -> PyResult<Self> {
        let py = asked.py();
        let form = if asked.is(py.get_type::<PyBytes>()) {
            Form::Bytes
        } else if asked.is(py.get_type::<PyString>()) {
            Form::Text
        } else if asked.is(py.get_type::<PyInt>()) {
            match size {
                FieldSize::Fixed(bytes @ 1..=8) => Form::Integer(bytes as usize),
                _ => {
                    return Err(PyValueError::new_err(format!(
                        "{name}=int needs a table with {name}_size from 1 to {WORD}: the {name}s of \
                         this one have {size}"
                    )));
                }
            }
        } else {
            let asked = asked.name()?;
            return Err(PyTypeError::new_err(format!(
                "{name} must be bytes, str or int, not {asked}"
            )));
        };
        Ok(Self { name, size, form })
    }

    /// The type that stands for the form.
    pub(crate) fn python_type<'py>(&self, py: Python<'py>) -> Bound<'py, PyType> {
        match self.form {
            Form::Bytes => py.get_type::<PyBytes>(),
            Form::Text => py.get_type::<PyString>(),
            Form::Integer(_) => py.get_type::<PyInt>(),
        }
    }

    /// The bytes of a Python object.
    pub(crate) fn encode(&self, given: &Bound<'_, PyAny>) -> PyResult<Encoded> {
        match self.form {
            Form::Bytes => self.encode_bytes(given),
            Form::Text => {
                let text = given.cast::<PyString>();
                let text = text.map_err(|_| self.refuse(given, "str"))?;
                Ok(Encoded::Text(text.clone().try_into()?))
            }
            Form::Integer(bytes) => self.encode_integer(given, bytes),
        }
    }

    #[inline]
    fn encode_bytes(&self, given: &Bound<'_, PyAny>) -> PyResult<Encoded> {
        if let Ok(bytes) = given.cast::<PyBytes>() {
            return Ok(Encoded::Bytes(bytes.clone().into()));
        }
        if let Ok(bytes) = given.cast::<PyByteArray>() {
            return Ok(Encoded::Bytes(bytes.clone().into()));
        }
        // Numbers of numpy have bytes, too.
        let buffer = PyUntypedBuffer::get(given).map_err(|_| self.refuse(given, "bytes"))?;
        let buffer = buffer.into_typed::<u8>();
        let buffer = buffer.map_err(|_| self.refuse(given, "bytes"))?;
        Ok(Encoded::Copied(buffer.to_vec(given.py())?))
    }

    fn encode_integer(&self, given: &Bound<'_, PyAny>, bytes: usize) -> PyResult<Encoded> {
        let py = given.py();
        let number = given.extract::<u64>().map_err(|error| {
            if error.is_instance_of::<PyTypeError>(py) {
                self.refuse(given, "int")
            } else {
                error
            }
        })?;
        if bytes < WORD && number >> (8 * bytes) != 0 {
            return Err(PyOverflowError::new_err(format!(
                "the {} {number} does not fit into the table's {}",
                self.name,
                ByteCount(bytes)
            )));
        }
        Ok(Encoded::Word(number.to_le_bytes(), bytes))
    }

    fn refuse(&self, given: &Bound<'_, PyAny>, wanted: &str) -> PyErr {
        let name = self.name;
        let given = given.get_type();
        let given = given
            .name()
            .map_or_else(|_| "that".into(), |name| name.to_string());
        let advice = match &*given {
            "str" | "int" => format!(": open the table with {name}={given} for that"),
            _ => String::new(),
        };
        PyTypeError::new_err(format!("a {name} is {wanted} here, not {given}{advice}"))
    }

    /// The Python object of these bytes.
    pub(crate) fn decode<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        match self.form {
            Form::Bytes => Ok(PyBytes::new(py, bytes).into_any()),
            Form::Text => match str::from_utf8(bytes) {
                Ok(text) => Ok(PyString::new(py, text).into_any()),
                Err(error) => Err(PyUnicodeDecodeError::new_utf8(py, bytes, error)?.into()),
            },
            Form::Integer(_) => {
                let mut word = [0; WORD];
                let len = bytes.len().min(WORD);
                word[..len].copy_from_slice(&bytes[..len]);
                Ok(u64::from_le_bytes(word).into_pyobject(py)?.into_any())
            }
        }
    }
}

/// The bytes of a Python object, which stay as they are while other threads run.
pub(crate) enum Encoded {
    Bytes(PyBackedBytes),
    Text(PyBackedStr),
    Word([u8; WORD], usize),
    Copied(Vec<u8>),
}

impl Deref for Encoded {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Text(text) => text.as_bytes(),
            Self::Word(word, len) => &word[..*len],
            Self::Copied(bytes) => bytes,
        }
    }
}
