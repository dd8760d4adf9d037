//! Files with a delimiter between columns, quoted after RFC 4180. Fields hold any bytes.

use super::lines::{CheckedLines, RecordStarts};
use super::record::{BadLine, Columns, EXPIRES, Header, Record, moment};
use crate::bytes;
use csv::{ByteRecord, ReaderBuilder, WriterBuilder};
use farslot::Expiry;
use farslot_terminal::failure::{Failure, Result};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::rc::Rc;

/// What the columns of the files that [`CsvWriter`] writes are called.
const NAMES: [&str; 3] = ["key", "value", EXPIRES];

/// Reads records from delimited columns.
pub struct CsvReader<R> {
    rows: csv::Reader<CheckedLines<R>>,
    lines: Rc<RefCell<RecordStarts>>,
    /// Rows that were looked at to find out what the first one is, and that are records.
    pending: VecDeque<ByteRecord>,
    /// What failed behind them.
    failed: Option<io::Error>,
    /// What the first row was taken for, if there is one.
    header: Option<Header>,
    row: ByteRecord,
    delimiter: u8,
    /// Columns of the first row, and so of every row.
    width: usize,
    key: usize,
    value: Option<usize>,
    /// Whether the third column says when a record expires.
    expires: bool,
}

impl<R: Read> CsvReader<R> {
    /// A reader for these columns. Reads the first rows.
    ///
    /// # Errors
    /// If there are no such columns, the file cannot be read, or it cannot be decided whether its
    /// first line names the columns.
    pub fn new(input: R, delimiter: u8, columns: &Columns) -> Result<Self> {
        let (input, lines) = RecordStarts::of(input, delimiter);
        let mut rows = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .from_reader(input);
        let mut first = ByteRecord::new();
        let is_empty = !rows.read_byte_record(&mut first).map_err(read_failure)?;
        let (mut pending, mut failed) = (VecDeque::new(), None);
        let header = match columns.header {
            _ if is_empty => None,
            Some(true) => Some(Header::Sure),
            Some(false) => Some(Header::Record(String::new())),
            None if needs_names(columns) || is_ours(&first) => Some(Header::Sure),
            None => {
                let ahead = rows.byte_records().take(ROWS_COMPARED);
                for row in ahead {
                    match row {
                        Ok(row) => pending.push_back(row),
                        Err(error) => {
                            failed = Some(system(error));
                            break;
                        }
                    }
                }
                Some(taken_for(&first, &pending).ok_or_else(|| undecided(&first))?)
            }
        };
        let named = header.as_ref().is_none_or(Header::is_named);
        let names = named.then_some(&first);
        let width = first.len();
        let expires = named && columns.are_default() && is_ours(&first) && width == NAMES.len();
        let (key, value) = if is_empty {
            (0, None)
        } else if expires {
            (0, Some(1))
        } else {
            let value = columns.value.as_deref();
            (
                find(columns.key.as_deref().unwrap_or("1"), names, width)?,
                value.map(|column| find(column, names, width)).transpose()?,
            )
        };
        if !named {
            pending.push_front(first);
        }
        Ok(Self {
            rows,
            lines,
            pending,
            failed,
            header,
            row: ByteRecord::new(),
            delimiter,
            width,
            key,
            value,
            expires,
        })
    }

    /// What the first line was taken for, if there is one.
    pub const fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// The next record or bad line; nothing at the end.
    ///
    /// # Errors
    /// If the file cannot be read: also for quotes that are where they may not be, behind which
    /// nobody knows where records start.
    pub fn next(&mut self) -> io::Result<Option<std::result::Result<Record, BadLine>>> {
        match (self.pending.pop_front(), self.failed.take()) {
            (Some(row), failed) => (self.row, self.failed) = (row, failed),
            (None, Some(failed)) => return Err(failed),
            (None, None) if self.rows.read_byte_record(&mut self.row).map_err(system)? => {}
            (None, None) => return Ok(None),
        }
        let offset = self.row.position().map_or(0, csv::Position::byte);
        let line = self.lines.borrow_mut().line_at(offset);
        let record = self.record(line);
        Ok(Some(record.map_err(|reason| BadLine { line, reason })))
    }

    fn record(&self, line: u64) -> std::result::Result<Record, String> {
        if self.row.len() != self.width {
            return Err(format!(
                "{} where the first line has {}",
                farslot_terminal::output::counted(self.row.len() as u64, "column"),
                self.width
            ));
        }
        Ok(Record {
            line,
            key: self.row[self.key].to_vec(),
            value: match self.value {
                Some(column) => self.row[column].to_vec(),
                None => self.rest()?,
            },
            expires: match self.expires {
                true => moment(&String::from_utf8_lossy(&self.row[2]))?,
                false => None,
            },
        })
    }

    /// All columns but the key: as it is if there is one, as a row if there are more.
    fn rest(&self) -> std::result::Result<Vec<u8>, String> {
        let mut columns = (0..self.row.len()).filter(|column| *column != self.key);
        match self.row.len() {
            0 | 1 => Err("1 column; a key and a value are needed".into()),
            2 => Ok(columns
                .next()
                .map_or_else(Vec::new, |column| self.row[column].to_vec())),
            _ => {
                let mut writer = WriterBuilder::new()
                    .delimiter(self.delimiter)
                    .buffer_capacity(256)
                    .from_writer(Vec::new());
                let written = writer.write_record(columns.map(|column| &self.row[column]));
                written.map_err(|error| error.to_string())?;
                let mut row = writer.into_inner().map_err(|error| error.to_string())?;
                row.pop();
                Ok(row)
            }
        }
    }
}

fn needs_names(columns: &Columns) -> bool {
    [&columns.key, &columns.value]
        .into_iter()
        .flatten()
        .any(|column| column.parse::<usize>().is_err())
}

fn is_ours(first: &ByteRecord) -> bool {
    let names = NAMES.map(str::as_bytes);
    first.iter().eq(names) || first.iter().eq(names[..2].iter().copied())
}

/// Rows that the first one is compared with, to find out whether it names the columns.
const ROWS_COMPARED: usize = 8;

/// What a first row is taken for, and why; nothing where that cannot be decided. Names are
/// different words without digits. They are names for certain if one of them says so (`id`, `key`),
/// or if there are numbers only below one.
fn taken_for(first: &ByteRecord, next: &VecDeque<ByteRecord>) -> Option<Header> {
    if first.len() < 2 {
        return Some(Header::Record("it has one column".into()));
    }
    let names: Vec<String> = first
        .iter()
        .map(|cell| String::from_utf8_lossy(cell).trim().to_lowercase())
        .collect();
    let shown = |column: usize| format!("{:?}", bytes::shown(&first[column]));
    let is_word = |name: &String| {
        name.starts_with(|first: char| first.is_alphabetic() || first == '_')
            && name
                .chars()
                .all(|of| of.is_alphabetic() || "_- ".contains(of))
    };
    if let Some(column) = names.iter().position(|name| !is_word(name)) {
        let cell = shown(column);
        return Some(Header::Record(format!("{cell} is no word")));
    }
    if let Some(column) = (1..names.len()).find(|&of| names[..of].contains(&names[of])) {
        let cell = shown(column);
        return Some(Header::Record(format!("it has {cell} twice")));
    }
    let says_so = |name: &String| {
        ["key", "id", "uuid"].contains(&name.as_str())
            || name.ends_with("_id")
            || name.ends_with(" id")
    };
    if let Some(column) = names.iter().position(says_so) {
        return Some(Header::Guessed(format!("it has {}", shown(column))));
    }
    let is_number = |cell: &[u8]| {
        std::str::from_utf8(cell).is_ok_and(|text| text.trim().parse::<f64>().is_ok())
    };
    let above_numbers = |column: &usize| {
        let mut cells = next.iter().map(|row| row.get(*column));
        !next.is_empty() && cells.all(|cell| cell.is_some_and(is_number))
    };
    let column = (0..names.len()).find(above_numbers)?;
    let name = shown(column);
    Some(Header::Guessed(format!("below {name} are numbers only")))
}

fn undecided(first: &ByteRecord) -> Failure {
    let cells: Vec<_> = first.iter().map(bytes::shown).collect();
    Failure::Usage(format!(
        "the first line, {:?}, may name the columns or be a record: say --header or --no-header",
        cells.join(", ")
    ))
}

/// The index of a column, by its name if there are names, else by its number from 1.
fn find(column: &str, names: Option<&ByteRecord>, width: usize) -> Result<usize> {
    let named = names.and_then(|names| names.iter().position(|name| name == column.as_bytes()));
    if let Some(index) = named {
        return Ok(index);
    }
    match column.parse::<usize>() {
        Ok(number) if (1..=width).contains(&number) => Ok(number - 1),
        _ => {
            let known = names.map_or_else(String::new, |names| {
                let names: Vec<_> = names.iter().map(bytes::shown).collect();
                format!(": {}", names.join(", "))
            });
            Err(Failure::Usage(format!(
                "there is no column {column:?}; the file has {width}{known}"
            )))
        }
    }
}

fn read_failure(error: csv::Error) -> Failure {
    Failure::io("reading")(system(error))
}

/// What the system said: rows of any bytes and any number of columns fail in no other way.
fn system(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// Writes records in two columns, or in a third when they expire.
pub struct CsvWriter<W: Write> {
    rows: csv::Writer<W>,
    expires: bool,
}

impl<W: Write> CsvWriter<W> {
    /// A writer, which writes the names of the columns.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn new(output: W, delimiter: u8, expires: bool) -> io::Result<Self> {
        let mut rows = WriterBuilder::new()
            .delimiter(delimiter)
            .from_writer(output);
        let names = &NAMES[..if expires { 3 } else { 2 }];
        rows.write_record(names).map_err(system)?;
        Ok(Self { rows, expires })
    }

    /// Writes a record.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&mut self, key: &[u8], value: &[u8], expires: Option<Expiry>) -> io::Result<()> {
        if !self.expires {
            return self.rows.write_record([key, value]).map_err(system);
        }
        let moment = expires.map_or_else(String::new, |expires| expires.millis().to_string());
        let row = [key, value, moment.as_bytes()];
        self.rows.write_record(row).map_err(system)
    }

    /// Writes what is still held back.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(&mut self) -> io::Result<()> {
        self.rows.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, columns: &Columns) -> Vec<std::result::Result<(String, String), BadLine>> {
        let mut reader = CsvReader::new(text.as_bytes(), b',', columns).unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        std::iter::from_fn(|| reader.next().unwrap())
            .map(|row| row.map(|record| (text(record.key), text(record.value))))
            .collect()
    }

    fn columns(key: Option<&str>, value: Option<&str>, header: Option<bool>) -> Columns {
        Columns {
            key: key.map(Into::into),
            value: value.map(Into::into),
            header,
        }
    }

    fn pair(key: &str, value: &str) -> std::result::Result<(String, String), BadLine> {
        Ok((key.into(), value.into()))
    }

    #[test]
    fn a_header_is_found_or_said() {
        let default = Columns::default();
        assert_eq!(read("key,value\na,b\n", &default), [pair("a", "b")]);
        assert_eq!(read("a,1", &default), [pair("a", "1")]);
        assert_eq!(
            read("key,value\n", &columns(None, None, Some(false))),
            [pair("key", "value")]
        );
        assert_eq!(
            read("x,y\na,b\n", &columns(None, None, Some(true))),
            [pair("a", "b")]
        );
        assert_eq!(read("", &columns(Some("x"), None, None)), []);
    }

    #[test]
    fn a_first_line_is_taken_for_what_it_must_be_or_asked_for() {
        let taken = |text: &str| {
            let reader = CsvReader::new(text.as_bytes(), b',', &Columns::default());
            reader.map(|reader| reader.header().unwrap().clone())
        };
        assert_eq!(taken("key,value\n1,2\n").unwrap(), Header::Sure);
        for (text, why) in [
            ("id,name\n1,Ada\n2,Bo\n", "it has \"id\""),
            ("Key,Value\na,b\n", "it has \"Key\""),
            ("user_id,email\nx,y\n", "it has \"user_id\""),
            (
                "city,people\nBonn,330000\nRome,28\n",
                "below \"people\" are numbers only",
            ),
            ("ID,name", "it has \"ID\""),
        ] {
            assert_eq!(taken(text).unwrap(), Header::Guessed(why.into()), "{text}");
            let records = read(text, &Columns::default());
            assert_eq!(records.len(), text.lines().count() - 1, "{text}");
        }
        for (text, why) in [
            ("a,1\nb,2\n", "\"1\" is no word"),
            ("x,x\n1,2\n", "it has \"x\" twice"),
            ("id7,name\nx,y", "\"id7\" is no word"),
            ("a,\nb,c\n", "\"\" is no word"),
        ] {
            assert_eq!(taken(text).unwrap(), Header::Record(why.into()), "{text}");
            let records = read(text, &Columns::default());
            assert_eq!(records.len(), text.lines().count(), "{text}");
        }
        for text in ["ada,Ada Lovelace\nbo,Bo\n", "title,text", "ada,Bo"] {
            let asked = taken(text).unwrap_err();
            assert!(matches!(asked, Failure::Usage(_)), "{text}: {asked}");
            assert!(asked.to_string().contains("--no-header"), "{asked}");
        }
    }

    #[test]
    fn moments_are_read_where_this_program_has_written_them() {
        let read = |text: &str, columns: &Columns| {
            let mut reader = CsvReader::new(text.as_bytes(), b',', columns).unwrap();
            reader.next().unwrap().unwrap()
        };
        let text = |row: &str| format!("key,value,{EXPIRES}\n{row}\n");
        let default = Columns::default();
        let record = read(&text("a,b,1700000000000"), &default).unwrap();
        let moment = Some(Expiry::at_millis(1_700_000_000_000));
        assert_eq!((&*record.value, record.expires), (&b"b"[..], moment));
        assert_eq!(read(&text("a,b,"), &default).unwrap().expires, None);
        for wrong in ["soon", "0", "-1", "1.5"] {
            let bad = read(&text(&format!("a,b,{wrong}")), &default).unwrap_err();
            assert!(bad.reason.contains(EXPIRES), "{bad:?}");
        }
        // Else it is a column like any other.
        let value = |record: Record| (String::from_utf8(record.value).unwrap(), record.expires);
        let chosen = read(&text("a,b,7"), &columns(Some("value"), None, None));
        assert_eq!(value(chosen.unwrap()), ("a,7".into(), None));
        let other = read("key,value,then\na,b,7\n", &default);
        assert_eq!(value(other.unwrap()), ("b,7".into(), None));
    }

    #[test]
    fn columns_are_chosen_by_name_and_number() {
        let text = "id,city,zip\n1,\"Bonn, am Rhein\",53\n";
        assert_eq!(
            read(text, &columns(Some("zip"), Some("city"), None)),
            [pair("53", "Bonn, am Rhein")]
        );
        assert_eq!(
            read(text, &columns(Some("city"), None, None)),
            [pair("Bonn, am Rhein", "1,53")]
        );
        assert_eq!(
            read("1,\"a,b\",c\n", &columns(Some("3"), None, None)),
            [pair("c", "1,\"a,b\"")]
        );
        let missing = CsvReader::new(text.as_bytes(), b',', &columns(Some("town"), None, None));
        let message = missing.err().unwrap().to_string();
        assert!(
            message.contains("\"town\"") && message.contains("id, city, zip"),
            "{message}"
        );
    }

    #[test]
    fn bad_lines_are_named_and_the_rest_is_read() {
        for ends in ["\n", "\r\n"] {
            lines_are_named("a,1\nb\n\nc,2,3\n\"d\nd\",4\n\n\ne\nf,5\n", ends);
        }
        assert!(read("alone\n", &Columns::default())[0].is_err());
    }

    fn lines_are_named(text: &str, ends: &str) {
        let rows = read(&text.replace('\n', ends), &Columns::default());
        let bad = |line, columns: &str| {
            Err(BadLine {
                line,
                reason: format!("{columns} where the first line has 2"),
            })
        };
        let expected = [
            pair("a", "1"),
            bad(2, "1 column"),
            bad(4, "3 columns"),
            pair(&format!("d{ends}d"), "4"),
            bad(9, "1 column"),
            pair("f", "5"),
        ];
        assert_eq!(rows, expected);
    }
}
