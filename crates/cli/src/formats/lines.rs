//! What a parser of delimited columns does not tell: which line a record starts on, and whether
//! quotes are where they may be. The parser takes a file that ends within quotes, and text behind a
//! closing quote, for what they are not: one quote too many can hide all lines behind it. So they
//! are errors here, as in Python's `csv` in strict mode. A quote within a field that does not begin
//! with one is a character like any other.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

/// Bytes of a line, or of a record over several lines, at most. The longest record that a table
/// holds has 2.5 MiB, and may take six times as many as JSON.
pub const LONGEST: u64 = 32 << 20;

/// The failure of a line that is longer than that.
fn too_long(line: u64) -> io::Error {
    wrong(format!(
        "line {line}: longer than the limit of {LONGEST} bytes"
    ))
}

/// Reads the next line, with its end, into an empty buffer. False at the end of the input.
///
/// # Errors
/// If it cannot be read, or is longer than [`LONGEST`].
pub fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>, number: u64) -> io::Result<bool> {
    let read = input.take(LONGEST + 1).read_until(b'\n', line)?;
    match line.len() as u64 > LONGEST {
        true => Err(too_long(number)),
        false => Ok(read > 0),
    }
}

fn wrong(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Where in a record the last byte stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    /// Between two records.
    Between,
    /// Behind a delimiter.
    FieldStart,
    Plain,
    Quoted,
    /// Behind a quote within quotes: it closes the field, or is the first of two.
    Quote,
}

/// The records of what was read, as far as nobody has asked for them yet.
pub struct RecordStarts {
    delimiter: u8,
    /// Offset of the first byte, and number of the line from 1.
    ahead: VecDeque<(u64, u64)>,
    offset: u64,
    line: u64,
    at: At,
    /// Whether the last byte was a carriage return, which a line feed belongs to.
    returned: bool,
    /// Offset of the record that is being read.
    start: u64,
    /// The lines on which it and its last quoted field start.
    start_line: u64,
    opened: u64,
}

impl RecordStarts {
    /// Reads through to `input` and notes where records start.
    pub fn of<R: Read>(input: R, delimiter: u8) -> (CheckedLines<R>, Rc<RefCell<Self>>) {
        let starts = Rc::new(RefCell::new(Self {
            delimiter,
            ahead: VecDeque::new(),
            offset: 0,
            line: 1,
            at: At::Between,
            returned: false,
            start: 0,
            start_line: 1,
            opened: 1,
        }));
        let checked = CheckedLines {
            input,
            starts: Rc::clone(&starts),
            failure: None,
        };
        (checked, starts)
    }

    /// The line of the first record that starts at this offset or behind it. The offsets asked for
    /// must not fall.
    pub fn line_at(&mut self, offset: u64) -> u64 {
        while self.ahead.front().is_some_and(|(start, _)| *start < offset) {
            self.ahead.pop_front();
        }
        self.ahead.front().map_or(self.line, |(_, line)| *line)
    }

    /// Takes bytes, up to the first that may not be where it is: how many, and why no more.
    fn note(&mut self, bytes: &[u8]) -> (usize, Option<io::Error>) {
        for (index, byte) in bytes.iter().enumerate() {
            if let Err(error) = self.note_byte(*byte) {
                return (index, Some(error));
            }
        }
        (bytes.len(), None)
    }

    fn note_byte(&mut self, byte: u8) -> io::Result<()> {
        let ends_line = byte == b'\n' || byte == b'\r';
        if self.at == At::Between && !ends_line {
            self.ahead.push_back((self.offset, self.line));
            (self.start, self.start_line) = (self.offset, self.line);
            self.at = At::FieldStart;
        }
        self.at = match (self.at, byte) {
            (At::Quoted, b'"') => At::Quote,
            (At::Quoted, _) => At::Quoted,
            (_, b'\n' | b'\r') => At::Between,
            (_, byte) if byte == self.delimiter => At::FieldStart,
            (At::FieldStart, b'"') => {
                self.opened = self.line;
                At::Quoted
            }
            (At::Quote, b'"') => At::Quoted,
            (At::Quote, byte) => return Err(self.stray(byte)),
            _ => At::Plain,
        };
        self.offset += 1;
        if ends_line && !(byte == b'\n' && self.returned) {
            self.line += 1;
        }
        self.returned = byte == b'\r';
        if self.at != At::Between && self.offset - self.start > LONGEST {
            return Err(too_long(self.start_line));
        }
        Ok(())
    }

    fn stray(&self, byte: u8) -> io::Error {
        wrong(format!(
            "line {}: the quote that opens a field here is closed in line {}, and behind it is {:?} \
             where {:?} or the end of the line must be",
            self.opened,
            self.line,
            char::from(byte),
            char::from(self.delimiter)
        ))
    }

    fn end(&self) -> io::Result<()> {
        match self.at {
            At::Quoted => Err(wrong(format!(
                "line {}: the quote that opens a field here is not closed before the file ends",
                self.opened
            ))),
            _ => Ok(()),
        }
    }
}

/// An input whose records are noted as they are read, and which fails at the first byte that is
/// wrong.
pub struct CheckedLines<R> {
    input: R,
    starts: Rc<RefCell<RecordStarts>>,
    /// What is wrong with the next byte.
    failure: Option<io::Error>,
}

impl<R: Read> Read for CheckedLines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let read = self.input.read(buffer)?;
        let mut starts = self.starts.borrow_mut();
        if read == 0 && !buffer.is_empty() {
            starts.end()?;
        }
        let (good, failure) = starts.note(&buffer[..read]);
        match failure {
            // The record of the wrong byte ends in no record: the parser comes back for the rest.
            Some(failure) if good > 0 => self.failure = Some(failure),
            Some(failure) => return Err(failure),
            None => {}
        }
        Ok(good)
    }
}
