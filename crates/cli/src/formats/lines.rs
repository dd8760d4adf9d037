//! Which line a record starts on, for a parser that passes over empty lines without telling.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::rc::Rc;

/// The lines that have something in them, of what was read and not asked for yet.
#[derive(Default)]
pub struct LineStarts {
    /// Offset of the first byte, and number from 1.
    ahead: VecDeque<(u64, u64)>,
    offset: u64,
    line: u64,
    /// Whether nothing of the current line has been met.
    at_start: bool,
}

impl LineStarts {
    /// Reads through to `input` and notes where lines start.
    pub fn of<R: Read>(input: R) -> (NotingLines<R>, Rc<RefCell<Self>>) {
        let starts = Rc::new(RefCell::new(Self {
            line: 1,
            at_start: true,
            ..Self::default()
        }));
        let noting = NotingLines {
            input,
            starts: Rc::clone(&starts),
        };
        (noting, starts)
    }

    /// The number of the first line with something in it that starts at this offset or behind it.
    /// The offsets asked for must not fall.
    pub fn line_at(&mut self, offset: u64) -> u64 {
        while self.ahead.front().is_some_and(|(start, _)| *start < offset) {
            self.ahead.pop_front();
        }
        self.ahead.front().map_or(self.line, |(_, line)| *line)
    }

    fn note(&mut self, bytes: &[u8]) {
        for (offset, byte) in (self.offset..).zip(bytes) {
            match byte {
                b'\n' => {
                    self.line += 1;
                    self.at_start = true;
                }
                b'\r' => {}
                _ if self.at_start => {
                    self.ahead.push_back((offset, self.line));
                    self.at_start = false;
                }
                _ => {}
            }
        }
        self.offset += bytes.len() as u64;
    }
}

/// An input whose lines are noted as they are read.
pub struct NotingLines<R> {
    input: R,
    starts: Rc<RefCell<LineStarts>>,
}

impl<R: Read> Read for NotingLines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.starts.borrow_mut().note(&buffer[..read]);
        Ok(read)
    }
}
