//! Keys or values of a batch: the rows of an array, or a sequence of objects.

use crate::codec::{Form, RecordField};
use farslot::FieldSize;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyString};
use std::ops::Range;

/// Records that a batch takes at a time: between them other Python threads may run, and Ctrl-C is
/// seen.
const PIECE: usize = 1 << 16;

/// The pieces of a batch of so many records.
pub(crate) fn pieces(records: usize) -> impl Iterator<Item = Range<usize>> {
    (0..records)
        .step_by(PIECE)
        .map(move |start| start..records.min(start + PIECE))
}

/// The memory of an array, row by row.
pub(crate) struct Rows {
    buffer: PyUntypedBuffer,
    pub(crate) len: usize,
    /// Bytes of a row.
    pub(crate) width: usize,
    /// Whether rows are strings of an `S` array for a field of any lengths: zero bytes at a row's
    /// end only fill it up, as they do for numpy.
    pub(crate) zero_padded: bool,
}

/// What the items of an array are, by the last letter of a buffer's format.
fn items_of(format: &[u8]) -> &'static str {
    match format {
        [.., b'Z', _] => "complex numbers",
        [.., b'b' | b'h' | b'i' | b'l' | b'q' | b'n'] => "signed integers",
        [.., b'B' | b'x'] => "bytes",
        [.., b'H' | b'I' | b'L' | b'Q' | b'N'] => "unsigned integers",
        [.., b'e' | b'f' | b'd' | b'g'] => "floating-point numbers",
        [.., b'?'] => "booleans",
        [.., b's' | b'c'] => "strings",
        _ => "records",
    }
}

/// Whether a buffer's format has numbers in an order of bytes that is not this machine's. Names of
/// fields stand between colons, and may have any letters.
fn is_swapped(format: &[u8]) -> bool {
    let names = format.split(|byte| *byte == b':');
    let mut parts = names.step_by(2);
    parts.any(|part| part.iter().any(|byte| matches!(byte, b'>' | b'!')))
}

impl Rows {
    /// Those of an array, whose first dimension counts them, for the keys or values of a table.
    ///
    /// # Errors
    ///
    /// A `TypeError` if the array's items are no keys or values of this field, or are in another
    /// order of bytes: they would be stored as other keys than the same numbers one by one.
    pub(crate) fn of(buffer: PyUntypedBuffer, field: &RecordField) -> PyResult<Self> {
        let format = buffer.format().to_bytes();
        if matches!(format, [.., b'O' | b'w' | b'u']) {
            let message = "an array of Python objects or of text has no bytes to store";
            return Err(PyTypeError::new_err(message));
        }
        let Some((len, row)) = buffer.shape().split_first() else {
            return Err(PyTypeError::new_err("an array of no dimension has no rows"));
        };
        let len = *len;
        if is_swapped(format) {
            let message = "the array's numbers are big-endian, the table's little-endian: pass \
                           array.astype(array.dtype.newbyteorder(\"<\")), or array.view(\"V8\") \
                           to store their bytes as they are";
            return Err(PyTypeError::new_err(message));
        }
        let items = items_of(format);
        let fits = match field.form {
            Form::Bytes => true,
            Form::Text => matches!(items, "bytes" | "strings"),
            Form::Integer(_) if row.is_empty() => {
                matches!(items, "bytes" | "signed integers" | "unsigned integers")
            }
            Form::Integer(_) => items == "bytes",
        };
        if !fits {
            let (name, form) = (field.name, field.form.name());
            let message = format!("{name}s are {form} here, not an array of {items}");
            return Err(PyTypeError::new_err(message));
        }
        let zero_padded =
            items == "strings" && row.is_empty() && matches!(field.size, FieldSize::UpTo(_));
        let width = row.iter().product::<usize>() * buffer.item_size();
        if !buffer.is_c_contiguous() {
            let message = "the array is not contiguous: pass numpy.ascontiguousarray of it";
            return Err(PyTypeError::new_err(message));
        }
        Ok(Self {
            buffer,
            len,
            width,
            zero_padded,
        })
    }

    /// Where these rows are, and their bytes.
    fn place(&self, rows: &Range<usize>) -> (*mut u8, usize) {
        assert!(rows.start <= rows.end && rows.end <= self.len, "{rows:?}");
        let start = self.buffer.buf_ptr().cast::<u8>();
        let place = start.wrapping_add(rows.start * self.width);
        (place, rows.len() * self.width)
    }

    /// Copies rows out of the array, in place of what `bytes` has.
    pub(crate) fn load(&self, _attached: Python<'_>, rows: &Range<usize>, bytes: &mut Vec<u8>) {
        let (from, len) = self.place(rows);
        bytes.clear();
        bytes.reserve(len);
        // SAFETY: the rows lie in the array's memory, which is contiguous and stays for as long as
        // the buffer is held; there is room for `len` bytes, and the two do not overlap. Python
        // code cannot write to the array meanwhile, as this thread is attached.
        unsafe {
            from.copy_to_nonoverlapping(bytes.as_mut_ptr(), len);
            bytes.set_len(len);
        }
    }

    /// Refuses signed little-endian numbers below zero, as of single ones: the table's are
    /// unsigned.
    fn refuse_negative(&self, py: Python<'_>, field: &RecordField) -> PyResult<()> {
        let mut copy = Vec::new();
        for range in pieces(self.len) {
            self.load(py, &range, &mut copy);
            let mut numbers = copy.chunks_exact(self.width);
            if let Some(number) = numbers.position(|number| number[self.width - 1] >= 0x80) {
                let (name, record) = (field.name, range.start + number);
                let message =
                    format!("{name} {record} of the array is negative: {name}s are unsigned");
                return Err(PyOverflowError::new_err(message));
            }
        }
        Ok(())
    }

    /// Copies rows into the array, which can be written to.
    pub(crate) fn store(&self, _attached: Python<'_>, rows: &Range<usize>, bytes: &[u8]) {
        let (to, len) = self.place(rows);
        assert!(!self.buffer.readonly() && bytes.len() == len, "{rows:?}");
        // SAFETY: as above, and the array is not read-only.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), len) }
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.buffer.readonly()
    }
}

/// The keys or the values of a batch.
pub(crate) enum Input {
    /// An array's.
    Array(Rows),
    /// Of any lengths.
    Listed {
        bytes: Vec<u8>,
        /// Where each starts, and where the last ends.
        bounds: Vec<usize>,
    },
}

impl Input {
    /// What a program has passed as a table's keys or values.
    pub(crate) fn of(given: &Bound<'_, PyAny>, field: &RecordField) -> PyResult<Self> {
        let is_one = given.is_instance_of::<PyBytes>()
            || given.is_instance_of::<PyByteArray>()
            || given.is_instance_of::<PyString>();
        if is_one {
            let (name, kind) = (field.name, given.get_type());
            return Err(PyTypeError::new_err(format!(
                "{name}s are an array, or a sequence of {name}s, not one {}",
                kind.name()?
            )));
        }
        let contiguous = |array: &Bound<'_, PyAny>| {
            let numpy = array.py().import("numpy")?;
            PyUntypedBuffer::get(&numpy.call_method1("ascontiguousarray", (array,))?)
        };
        match PyUntypedBuffer::get(given) {
            Ok(buffer) if buffer.is_c_contiguous() => Self::of_array(given.py(), buffer, field),
            Ok(_) => Self::of_array(given.py(), contiguous(given)?, field),
            // An array of no dimension, or of a type that buffers have no form for, as dates.
            Err(error) if given.hasattr("__array_interface__")? => {
                Err(PyTypeError::new_err(format!(
                    "the array has no rows of bytes: {}",
                    error.value(given.py())
                )))
            }
            Err(_) => Self::of_sequence(given, field),
        }
    }

    fn of_array(py: Python<'_>, buffer: PyUntypedBuffer, field: &RecordField) -> PyResult<Self> {
        let is_signed = items_of(buffer.format().to_bytes()) == "signed integers";
        let rows = Rows::of(buffer, field)?;
        if is_signed && matches!(field.form, Form::Integer(_)) {
            rows.refuse_negative(py, field)?;
        }
        Ok(Self::Array(rows))
    }

    fn of_sequence(given: &Bound<'_, PyAny>, field: &RecordField) -> PyResult<Self> {
        let (mut bytes, mut bounds) = (Vec::new(), vec![0]);
        for item in given.try_iter()? {
            bytes.extend_from_slice(&field.encode(&item?)?);
            bounds.push(bytes.len());
        }
        Ok(Self::Listed { bytes, bounds })
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Array(rows) => rows.len,
            Self::Listed { bounds, .. } => bounds.len() - 1,
        }
    }

    /// The bytes of every one, if all have the same number.
    pub(crate) fn width(&self) -> Option<usize> {
        match self {
            Self::Array(rows) => (!rows.zero_padded).then_some(rows.width),
            Self::Listed { bounds, .. } => {
                let mut widths = bounds.windows(2).map(|pair| pair[1] - pair[0]);
                let first = widths.next()?;
                widths.all(|width| width == first).then_some(first)
            }
        }
    }

    /// Whether all are strings that rows of an `S` array with this many bytes can have.
    pub(crate) fn fit_strings(&self, width: usize) -> bool {
        match self {
            Self::Array(rows) => rows.zero_padded && rows.width <= width,
            Self::Listed { bytes, bounds } => bounds.windows(2).all(|pair| {
                let string = &bytes[pair[0]..pair[1]];
                string.len() <= width && string.last() != Some(&0)
            }),
        }
    }

    /// A piece of them: of an array a copy.
    pub(crate) fn load<'s>(
        &'s self,
        py: Python<'_>,
        range: &Range<usize>,
        copy: &'s mut Vec<u8>,
    ) -> Piece<'s> {
        match self {
            Self::Array(rows) => {
                rows.load(py, range, copy);
                Piece {
                    bytes: copy,
                    bounds: match rows.zero_padded {
                        true => Bounds::ZeroPadded(rows.width, range.len()),
                        false => Bounds::Every(rows.width, range.len()),
                    },
                }
            }
            Self::Listed { bytes, bounds } => Piece {
                bytes,
                bounds: Bounds::At(&bounds[range.start..=range.end]),
            },
        }
    }
}

/// The keys or values of a piece of a batch.
pub(crate) struct Piece<'s> {
    bytes: &'s [u8],
    bounds: Bounds<'s>,
}

enum Bounds<'s> {
    /// So many bytes each, and how many there are.
    Every(usize, usize),
    /// The bytes of each row, of which zeros at its end only fill it up, and how many there are.
    ZeroPadded(usize, usize),
    At(&'s [usize]),
}

impl<'s> Piece<'s> {
    /// Each of them.
    pub(crate) fn each(&self) -> Vec<&'s [u8]> {
        let bytes = self.bytes;
        match self.bounds {
            Bounds::Every(0, count) | Bounds::ZeroPadded(0, count) => vec![&[]; count],
            Bounds::Every(width, _) => bytes.chunks_exact(width).collect(),
            Bounds::ZeroPadded(width, _) => {
                bytes.chunks_exact(width).map(without_padding).collect()
            }
            Bounds::At(bounds) => bounds
                .windows(2)
                .map(|pair| &bytes[pair[0]..pair[1]])
                .collect(),
        }
    }
}

/// A row of an `S` array without the zeros that fill it up.
fn without_padding(row: &[u8]) -> &[u8] {
    let last = row.iter().rposition(|byte| *byte != 0);
    &row[..last.map_or(0, |last| last + 1)]
}
