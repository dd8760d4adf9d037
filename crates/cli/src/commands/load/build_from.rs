//! Reading all records into memory, for a table that is built from all of them at once.

use super::bad_lines::BadLines;
use super::measure::Measure;
use super::source::{Args, Source};
use super::workers::{LoadReport, no_moment};
use crate::commands::table_args::TableArgs;
use crate::formats::{BadLine, Reader, Record};
use crate::shape::SchemeShape;
use farslot::health::available_memory;
use farslot::layout::Scheme;
use farslot::{FieldSize, IndexError, Store, StoreError, Table, TableOptions};
use farslot_terminal::context::start_writing;
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::output;
use std::io::BufRead;

/// Memory that a record takes here and while the table is built, beside its bytes.
const OVERHEAD: u64 = 192;

/// All records of a file.
#[derive(Debug, Default)]
struct FileRecords {
    /// In the file's order.
    records: Vec<Record>,
    /// Memory that they take, about.
    bytes: u64,
}

impl FileRecords {
    /// Their keys and values.
    fn borrowed(&self) -> Vec<(&[u8], &[u8])> {
        let records = self.records.iter();
        records
            .map(|record| (&record.key[..], &record.value[..]))
            .collect()
    }

    fn loaded(&self, new: u64) -> LoadReport {
        LoadReport {
            records: self.records.len() as u64,
            new,
            sealed: true,
            ..LoadReport::default()
        }
    }

    /// A table that holds just these, in all that `shape` does not say.
    fn options(&self, shape: &TableArgs) -> Result<TableOptions> {
        let mut measure = Measure::default();
        for record in &self.records {
            measure.add(record.key.len(), record.value.len());
        }
        let lengths = |of: fn(&Record) -> usize| size(self.records.iter().map(of));
        let spec = shape.spec(Some(measure.records.max(1)));
        let mut options = shape.options(spec.capacity)?;
        if spec.key().is_none() {
            options = options.keys(lengths(|record| record.key.len()));
        }
        if spec.value().is_none() {
            options = options.values(lengths(|record| record.value.len()));
        }
        // A sealed table takes what its records need.
        if spec.heap.is_none() && spec.scheme().has_heap() {
            options = options.heap_bytes(measure.heap_bytes());
        }
        Ok(options)
    }
}

/// The size that fields of these lengths have.
fn size(lengths: impl Iterator<Item = usize>) -> FieldSize {
    let (shortest, longest) = lengths.fold((usize::MAX, 0), |(shortest, longest), length| {
        (shortest.min(length), longest.max(length))
    });
    let most = u32::try_from(longest.max(1)).unwrap_or(u32::MAX);
    if shortest == longest && longest > 0 {
        FieldSize::Fixed(most)
    } else {
        FieldSize::UpTo(most)
    }
}

/// What fits into a table.
#[derive(Clone, Copy, Debug)]
struct RecordLimits {
    key: FieldSize,
    value: FieldSize,
}

impl RecordLimits {
    /// Those of a table that is there.
    fn of(table: &Table) -> Self {
        let SchemeShape { key, value, .. } = SchemeShape::of(table.scheme());
        Self { key, value }
    }

    /// Those that were asked for; without, the records decide.
    fn asked(shape: &TableArgs) -> Self {
        let (any, spec) = (FieldSize::UpTo(u32::MAX), shape.spec(None));
        Self {
            key: spec.key().unwrap_or(any),
            value: spec.value().unwrap_or(any),
        }
    }
}

/// Refuses options of a new table that cannot be built.
///
/// # Errors
/// A usage failure that names the option.
pub fn check(shape: &TableArgs, capacity: Option<u64>) -> Result<()> {
    // For any capacity: the records decide it.
    if !shape.options(Some(1))?.buildable() {
        return Err(not_buildable(shape.scheme().name()));
    }
    match capacity {
        None => Ok(()),
        Some(capacity) => Err(Failure::Usage(format!(
            "--create={capacity} is for tables that are written: one that never changes is made for \
             the records that it is built from"
        ))),
    }
}

/// Makes a table of all records of a file.
///
/// # Errors
/// Too little memory; what the file or the store says.
pub fn make(args: &Args, source: &Source<'_>, store: &Store, bad: &BadLines) -> Result<LoadReport> {
    if store.tables()?.iter().any(|table| table.name == args.table) {
        let name = args.table.clone();
        return Err(StoreError::TableExists { name }.into());
    }
    let all = read_source(source, RecordLimits::asked(&args.shape), bad)?;
    let options = all.options(&args.shape)?;
    let new = store.build(&args.table, &options, &all.borrowed())?;
    let table = store.table(&args.table)?;
    output::note(format_args!(
        "created {}: {}",
        args.table,
        SchemeShape::of(table.scheme()).summary()
    ));
    Ok(all.loaded(new))
}

/// Builds an empty table that is there.
///
/// # Errors
/// A usage failure for a table that is written record by record; as [`make`].
pub fn build(source: &Source<'_>, table: Table, bad: &BadLines) -> Result<LoadReport> {
    check_scheme(table.scheme())?;
    if table.scheme().one_writer() {
        // Before anything is read.
        start_writing(&table)?;
    }
    let all = read_source(source, RecordLimits::of(&table), bad)?;
    let new = table.build(&all.borrowed())?;
    table.close()?;
    Ok(all.loaded(new))
}

/// Refuses a table that is written record by record.
fn check_scheme(scheme: &Scheme) -> Result<()> {
    if scheme.buildable() {
        return Ok(());
    }
    Err(not_buildable(scheme.name()))
}

fn not_buildable(scheme: &str) -> Failure {
    Failure::Usage(format!(
        "--seal builds a table whole, which a {scheme} table cannot be: load it without --seal, or \
         make it with --scheme sealed or cuckoo"
    ))
}

fn read_source(source: &Source<'_>, limits: RecordLimits, bad: &BadLines) -> Result<FileRecords> {
    // Some is left for the table, which may be of this machine too.
    let most = available_memory() / 2;
    let bytes = source.bytes()?;
    if bytes > most {
        return Err(short_of_memory(bytes, most));
    }
    let all = source.read_with("reading", |reader| read(reader, limits, bad, most))?;
    if let Some(failure) = bad.failure() {
        // Of a part of its records it is not to be made.
        bad.note();
        return Err(failure);
    }
    output::note(format_args!(
        "read {} into {} of memory; building",
        output::counted(all.records.len() as u64, "record"),
        output::sized(all.bytes)
    ));
    Ok(all)
}

/// The failure of records that take more memory than there is.
fn short_of_memory(bytes: u64, most: u64) -> Failure {
    Failure::Failed(format!(
        "the records take {} of memory and more, and a table that is built whole needs all of them \
         there; the limit is {}, half of what is free",
        output::sized(bytes),
        output::sized(most)
    ))
}

/// Reads all records that fit; the others are bad lines.
///
/// # Errors
/// Of the file; records that take more than `most` bytes.
fn read<R: BufRead>(
    reader: &mut Reader<R>,
    limits: RecordLimits,
    bad: &BadLines,
    most: u64,
) -> Result<FileRecords> {
    let mut all = FileRecords::default();
    while let Some(line) = reader.next().map_err(Failure::io("reading"))? {
        match line.and_then(|record| fitting(record, limits)) {
            Ok(record) => {
                all.bytes += (record.key.len() + record.value.len()) as u64 + OVERHEAD;
                all.records.push(record);
            }
            Err(line) => {
                let number = line.line;
                bad.add(line);
                if !bad.admits(number) {
                    break;
                }
            }
        }
        if all.bytes > most {
            return Err(short_of_memory(all.bytes, most));
        }
    }
    Ok(all)
}

fn fitting(record: Record, limits: RecordLimits) -> std::result::Result<Record, BadLine> {
    let misfit = if record.key.is_empty() {
        IndexError::EmptyKey
    } else if !limits.key.admits(record.key.len()) {
        IndexError::KeyLength {
            len: record.key.len(),
            allowed: limits.key,
        }
    } else if !limits.value.admits(record.value.len()) {
        IndexError::ValueLength {
            len: record.value.len(),
            allowed: limits.value,
        }
    } else if record.expires.is_some() {
        return Err(no_moment(record.line));
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

    fn read_lines(input: &str, most: u64) -> Result<(FileRecords, u64)> {
        let limits = RecordLimits {
            key: FieldSize::UpTo(3),
            value: FieldSize::UpTo(9),
        };
        let bad = BadLines::new(false, 9, 0);
        let columns = Columns {
            key: None,
            value: None,
            header: Some(false),
        };
        let mut reader = Reader::new(Format::Csv, input.as_bytes(), &columns)?;
        let all = read(&mut reader, limits, &bad, most)?;
        Ok((all, bad.count()))
    }

    #[test]
    fn records_that_do_not_fit_are_bad_lines() {
        let (all, bad) = read_lines("a,1\nlong,2\n,3\nb,4\n", 10_000).unwrap();
        assert_eq!(all.borrowed(), [(&b"a"[..], &b"1"[..]), (b"b", b"4")]);
        assert_eq!(bad, 2);
    }

    #[test]
    fn lengths_that_are_all_the_same_are_fixed() {
        assert_eq!(size([8, 8].into_iter()), FieldSize::Fixed(8));
        assert_eq!(size([7, 8].into_iter()), FieldSize::UpTo(8));
        assert_eq!(size([0, 0].into_iter()), FieldSize::UpTo(1));
        assert_eq!(size([].into_iter()), FieldSize::UpTo(1));
    }

    #[test]
    fn more_than_the_memory_is_refused() {
        let three = 3 * (OVERHEAD + 2);
        assert!(read_lines("a,1\nb,2\nc,3\n", three).is_ok());
        let short = read_lines("a,1\nb,2\nc,3\n", three - 1).unwrap_err();
        assert!(short.to_string().contains("needs all of them"), "{short}");
    }
}
