//! Records in files: CSV, TSV and NDJSON. Whatever bytes keys and values have, what was written is
//! read back.

mod csv;
mod lines;
mod mark;
mod ndjson;
mod record;
#[cfg(test)]
mod round_trip_tests;
#[cfg(test)]
mod small_files_tests;

pub use self::csv::{CsvReader, CsvWriter};
pub use lines::{LONGEST, read_line};
pub use mark::unmarked;
pub use ndjson::{NdjsonReader, NdjsonWriter};
pub use record::{BadLine, Columns, Header, Record};

use farslot::Expiry;
use farslot_terminal::failure::{Failure, Result};
use mark::Unmarked;
use std::io::{self, BufRead, Write};
use std::path::Path;

/// How records are written in a file.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Comma-separated, quoted where needed
    Csv,
    /// Tab-separated, quoted where needed
    Tsv,
    /// A JSON object on each line
    Ndjson,
}

impl Format {
    /// The format that a file's name tells.
    ///
    /// # Errors
    /// A usage failure if it tells none.
    pub fn of_path(path: &Path) -> Result<Self> {
        let extension = path.extension().and_then(|extension| extension.to_str());
        match extension.map(str::to_ascii_lowercase).as_deref() {
            Some("csv") => Ok(Self::Csv),
            Some("tsv" | "tab") => Ok(Self::Tsv),
            Some("ndjson" | "jsonl" | "json") => Ok(Self::Ndjson),
            _ => Err(Failure::Usage(format!(
                "{} does not tell its format by its name: say --format csv, tsv or ndjson",
                path.display()
            ))),
        }
    }

    const fn delimiter(self) -> u8 {
        match self {
            Self::Tsv => b'\t',
            Self::Csv | Self::Ndjson => b',',
        }
    }
}

/// Reads the records of a file.
pub enum Reader<R> {
    /// CSV and TSV.
    Delimited(CsvReader<Unmarked<R>>),
    /// NDJSON.
    Ndjson(NdjsonReader<Unmarked<R>>),
}

impl<R: BufRead> Reader<R> {
    /// A reader of a format. The mark of UTF-8 at the file's start is passed over.
    ///
    /// # Errors
    /// If the file does not have the columns, has the mark of another encoding, or cannot be read.
    pub fn new(format: Format, input: R, columns: &Columns) -> Result<Self> {
        let input = unmarked(input)?;
        Ok(match format {
            Format::Csv | Format::Tsv => {
                Self::Delimited(CsvReader::new(input, format.delimiter(), columns)?)
            }
            Format::Ndjson => Self::Ndjson(NdjsonReader::new(input, columns)),
        })
    }

    /// What the first line was taken for, in formats where it may name the columns and if there is
    /// one.
    pub fn header(&self) -> Option<&Header> {
        match self {
            Self::Delimited(reader) => reader.header(),
            Self::Ndjson(_) => None,
        }
    }

    /// The next record or bad line; nothing at the end.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn next(&mut self) -> io::Result<Option<std::result::Result<Record, BadLine>>> {
        match self {
            Self::Delimited(reader) => reader.next(),
            Self::Ndjson(reader) => reader.next(),
        }
    }
}

/// Writes records to a file.
pub enum Writer<W: Write> {
    /// CSV and TSV.
    Delimited(Box<CsvWriter<W>>),
    /// NDJSON.
    Ndjson(NdjsonWriter<W>),
}

impl<W: Write> Writer<W> {
    /// A writer of a format, which says when records expire, if `expires`. Files with columns begin
    /// with a line that names them.
    ///
    /// # Errors
    /// If that line cannot be written.
    pub fn new(format: Format, output: W, expires: bool) -> io::Result<Self> {
        Ok(match format {
            Format::Csv | Format::Tsv => {
                let writer = CsvWriter::new(output, format.delimiter(), expires)?;
                Self::Delimited(Box::new(writer))
            }
            Format::Ndjson => Self::Ndjson(NdjsonWriter::new(output, expires)),
        })
    }

    /// Writes a record, and when it expires, if it does and that is wanted.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&mut self, key: &[u8], value: &[u8], expires: Option<Expiry>) -> io::Result<()> {
        match self {
            Self::Delimited(writer) => writer.write(key, value, expires),
            Self::Ndjson(writer) => writer.write(key, value, expires),
        }
    }

    /// Writes what is still held back.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Delimited(writer) => writer.finish(),
            Self::Ndjson(writer) => writer.finish(),
        }
    }
}
