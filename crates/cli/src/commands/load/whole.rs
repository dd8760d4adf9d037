//! Reading all records into memory, for tables that are built whole.

use super::bad_lines::BadLines;
use super::workers::strict;
use crate::failure::{Failure, Result};
use crate::formats::{BadLine, Reader, Record};
use crate::output;
use crate::shape::Shape;
use farslot::Scheme;
use farslot::fabric::shm::available_memory;
use farslot::index::IndexError;
use std::io::BufRead;

/// Memory that a record takes here and while the table is built, beside its bytes.
const OVERHEAD: u64 = 192;

/// All records of a file.
#[derive(Debug, Default)]
pub struct Whole {
    /// In the file's order.
    pub records: Vec<Record>,
    /// Memory that they take, about.
    pub bytes: u64,
}

impl Whole {
    /// Their keys and values.
    pub fn borrowed(&self) -> Vec<(&[u8], &[u8])> {
        let records = self.records.iter();
        records
            .map(|record| (&record.key[..], &record.value[..]))
            .collect()
    }
}

/// Refuses a table that is written record by record.
///
/// # Errors
/// A usage failure that names the scheme.
pub fn check_scheme(scheme: &Scheme) -> Result<()> {
    if scheme.buildable() {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "--seal builds a table whole, which a {} table cannot be: load it without --seal, or make it \
         with --scheme cuckoo",
        scheme.name()
    )))
}

/// Memory that records may take: some is left for the table, which may be of this machine too.
pub fn most_memory() -> u64 {
    available_memory() / 2
}

/// The failure of records that take more memory than there is.
pub fn short_of_memory(bytes: u64, most: u64) -> Failure {
    Failure::Failed(format!(
        "the records take {} of memory and more, and a table that is built whole needs all of them \
         there; the limit is {}, half of what is free",
        output::sized(bytes),
        output::sized(most)
    ))
}

/// Reads all records that fit into a table of this shape; the others are bad lines.
///
/// # Errors
/// Of the file; a bad line where one is too many; records that take more than `most` bytes.
pub fn read<R: BufRead>(
    reader: &mut Reader<R>,
    shape: &Shape,
    bad: &BadLines,
    most: u64,
) -> Result<Whole> {
    let mut whole = Whole::default();
    while let Some(line) = reader.next().map_err(Failure::io("reading"))? {
        match line.and_then(|record| fitting(record, shape)) {
            Ok(record) => {
                whole.bytes += (record.key.len() + record.value.len()) as u64 + OVERHEAD;
                whole.records.push(record);
            }
            Err(line) => bad.add(line).map_err(strict)?,
        }
        if whole.bytes > most {
            return Err(short_of_memory(whole.bytes, most));
        }
    }
    Ok(whole)
}

fn fitting(record: Record, shape: &Shape) -> std::result::Result<Record, BadLine> {
    let misfit = if record.key.is_empty() {
        IndexError::EmptyKey
    } else if !shape.key.admits(record.key.len()) {
        IndexError::KeyLength {
            len: record.key.len(),
            allowed: shape.key,
        }
    } else if !shape.value.admits(record.value.len()) {
        IndexError::ValueLength {
            len: record.value.len(),
            allowed: shape.value,
        }
    } else {
        return Ok(record);
    };
    Err(BadLine {
        line: record.line,
        reason: misfit.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::{Columns, Format};

    fn read_lines(input: &str, most: u64) -> Result<(Whole, u64)> {
        let options = farslot::TableOptions::new(10).keys(farslot::FieldSize::UpTo(3));
        let shape = Shape::of(&options.scheme()?);
        let bad = BadLines::new(false, 0);
        let columns = Columns {
            key: None,
            value: None,
            header: Some(false),
        };
        let mut reader = Reader::new(Format::Csv, input.as_bytes(), &columns)?;
        let whole = read(&mut reader, &shape, &bad, most)?;
        Ok((whole, bad.count()))
    }

    #[test]
    fn records_that_do_not_fit_are_bad_lines() {
        let (whole, bad) = read_lines("a,1\nlong,2\n,3\nb,4\n", 10_000).unwrap();
        assert_eq!(whole.borrowed(), [(&b"a"[..], &b"1"[..]), (b"b", b"4")]);
        assert_eq!(bad, 2);
    }

    #[test]
    fn more_than_the_memory_is_refused() {
        let three = 3 * (OVERHEAD + 2);
        assert!(read_lines("a,1\nb,2\nc,3\n", three).is_ok());
        let short = read_lines("a,1\nb,2\nc,3\n", three - 1).unwrap_err();
        assert!(short.to_string().contains("needs all of them"), "{short}");
    }
}
