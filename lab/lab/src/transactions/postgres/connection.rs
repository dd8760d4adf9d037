//! A client of PostgreSQL's protocol, version 3: as much of it as the workloads need, with
//! pipelining.

use super::failure::failure;
use crate::Result;
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// No answer takes so long; the load's indexes and constraints may take long.
const TIMEOUT: Duration = Duration::from_secs(300);
/// Longer messages are none of what was asked for.
const LONGEST_MESSAGE: usize = 1 << 24;

/// One thread's connection.
pub(super) struct Connection {
    address: SocketAddr,
    stream: BufReader<TcpStream>,
    unsent: Vec<u8>,
}

/// How a statement ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum StatementOutcome {
    /// The first column of the first row, if there is one and it is not null.
    Row(Option<Vec<u8>>),
    /// It failed, with this state (five letters) and message.
    Failed { state: String, message: String },
}

impl StatementOutcome {
    /// Whether another transaction was in the way.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::Failed { state, .. } if state == "40001" || state == "40P01")
    }
}

impl Connection {
    /// Connects as the superuser of a server that trusts this host.
    pub(super) fn open(address: SocketAddr) -> Result<Self> {
        let failed = |error: std::io::Error| failure(address, error.to_string());
        let stream =
            TcpStream::connect_timeout(&address, Duration::from_secs(20)).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
        stream.set_write_timeout(Some(TIMEOUT)).map_err(failed)?;
        let mut connection = Self {
            address,
            stream: BufReader::with_capacity(1 << 16, stream),
            unsent: Vec::new(),
        };
        let text = b"user\0postgres\0database\0postgres\0\0";
        let bytes = (8 + text.len() as u32).to_be_bytes();
        connection.unsent.extend_from_slice(&bytes);
        connection
            .unsent
            .extend_from_slice(&196_608_u32.to_be_bytes());
        connection.unsent.extend_from_slice(text);
        connection.flush()?;
        match connection.read_end()? {
            StatementOutcome::Row(_) => Ok(connection),
            StatementOutcome::Failed { message, .. } => Err(failure(address, message)),
        }
    }

    /// Puts a message whose body `fill` makes.
    fn message(&mut self, kind: u8, fill: impl FnOnce(&mut Vec<u8>)) {
        self.unsent.push(kind);
        let at = self.unsent.len();
        self.unsent.extend_from_slice(&[0; 4]);
        fill(&mut self.unsent);
        let bytes = ((self.unsent.len() - at) as u32).to_be_bytes();
        self.unsent[at..at + 4].copy_from_slice(&bytes);
    }

    /// Prepares a statement under a name.
    pub(super) fn prepare(&mut self, name: &str, statement: &str) -> Result<()> {
        self.message(b'P', |to| {
            put_text(to, name);
            put_text(to, statement);
            to.extend_from_slice(&[0, 0]);
        });
        self.message(b'S', |_| ());
        self.flush()?;
        self.expect_done()
    }

    /// Adds the execution of a prepared statement to what [`Self::flush`] sends: a transaction of
    /// its own. Its parameters are numbers, and behind them a text where there is one.
    pub(super) fn execute(&mut self, name: &str, numbers: &[i64], values: Option<&[u8]>) {
        self.message(b'B', |to| {
            put_text(to, "");
            put_text(to, name);
            to.extend_from_slice(&[0, 0]);
            let parameters = numbers.len() + usize::from(values.is_some());
            to.extend_from_slice(&(parameters as u16).to_be_bytes());
            let mut parameter = |text: &[u8]| {
                to.extend_from_slice(&(text.len() as u32).to_be_bytes());
                to.extend_from_slice(text);
            };
            for number in numbers {
                parameter(number.to_string().as_bytes());
            }
            values.into_iter().for_each(parameter);
            to.extend_from_slice(&[0, 0]);
        });
        self.message(b'E', |to| to.extend_from_slice(&[0; 5]));
        self.message(b'S', |_| ());
    }

    /// Runs statements, and waits for their end; returns the first column of the first row.
    pub(super) fn query(&mut self, statements: &str) -> Result<Option<Vec<u8>>> {
        self.message(b'Q', |to| put_text(to, statements));
        self.flush()?;
        match self.read_end()? {
            StatementOutcome::Row(row) => Ok(row),
            StatementOutcome::Failed { message, .. } => Err(failure(self.address, message)),
        }
    }

    /// Begins to copy rows into a table.
    pub(super) fn begin_copy(&mut self, table: &str) {
        self.message(b'Q', |to| put_text(to, &format!("COPY {table} FROM STDIN")));
    }

    /// Adds a row, as a line of COPY's text.
    pub(super) fn copy(&mut self, row: &str) -> Result<()> {
        self.message(b'd', |to| {
            to.extend_from_slice(row.as_bytes());
            to.push(b'\n');
        });
        if self.unsent.len() > 1 << 16 {
            self.flush()?;
        }
        Ok(())
    }

    /// Ends a copy.
    pub(super) fn end_copy(&mut self) -> Result<()> {
        self.message(b'c', |_| ());
        self.flush()?;
        self.expect_done()
    }

    fn expect_done(&mut self) -> Result<()> {
        match self.read_end()? {
            StatementOutcome::Row(_) => Ok(()),
            StatementOutcome::Failed { message, .. } => Err(failure(self.address, message)),
        }
    }

    /// Sends what was put.
    pub(super) fn flush(&mut self) -> Result<()> {
        let sent = self.stream.get_mut().write_all(&self.unsent);
        self.unsent.clear();
        sent.map_err(|error| failure(self.address, error.to_string()))
    }

    /// Reads up to where the server is ready for the next.
    pub(super) fn read_end(&mut self) -> Result<StatementOutcome> {
        let mut end = StatementOutcome::Row(None);
        let mut has_row = false;
        loop {
            let mut head = [0; 5];
            self.read(&mut head)?;
            let [kind, a, b, c, d] = head;
            let bytes = u32::from_be_bytes([a, b, c, d]) as usize;
            if !(4..LONGEST_MESSAGE).contains(&bytes) {
                let reason =
                    format!("a message of {bytes} bytes: at most {LONGEST_MESSAGE} are expected");
                return Err(failure(self.address, reason));
            }
            let mut body = vec![0; bytes - 4];
            self.read(&mut body)?;
            match kind {
                b'Z' => return Ok(end),
                b'D' if !has_row => {
                    has_row = true;
                    if matches!(end, StatementOutcome::Row(_)) {
                        end = StatementOutcome::Row(first_column(&body));
                    }
                }
                b'E' => end = failed(&body),
                // Trusted: 0. All else would want a password.
                b'R' if body != [0; 4] => {
                    let reason = "it wants a password: a server that trusts this host is needed";
                    return Err(failure(self.address, reason.into()));
                }
                _ => {}
            }
        }
    }

    fn read(&mut self, to: &mut [u8]) -> Result<()> {
        let read = self.stream.read_exact(to);
        read.map_err(|error| failure(self.address, error.to_string()))
    }
}

fn put_text(to: &mut Vec<u8>, text: &str) {
    to.extend_from_slice(text.as_bytes());
    to.push(0);
}

/// The first column of a row's message.
fn first_column(row: &[u8]) -> Option<Vec<u8>> {
    let rest = row.get(2..)?;
    let (bytes, rest) = rest.split_first_chunk()?;
    let bytes = usize::try_from(i32::from_be_bytes(*bytes)).ok()?;
    Some(rest.get(..bytes)?.to_vec())
}

/// What an error's message says.
fn failed(body: &[u8]) -> StatementOutcome {
    let field = |letter: u8| {
        let mut fields = body.split(|byte| *byte == 0);
        let field = fields.find(|field| field.first() == Some(&letter));
        String::from_utf8_lossy(field.unwrap_or_default().get(1..).unwrap_or_default()).into_owned()
    };
    StatementOutcome::Failed {
        state: field(b'C'),
        message: field(b'M'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_taken_apart() {
        let row = [
            &[0, 2][..],
            &3_i32.to_be_bytes(),
            b"123",
            &(-1_i32).to_be_bytes(),
        ]
        .concat();
        assert_eq!(first_column(&row), Some(b"123".to_vec()));
        let null = [&[0, 1][..], &(-1_i32).to_be_bytes()].concat();
        assert_eq!(first_column(&null), None);
        for cut in 0..9 {
            assert_eq!(first_column(&row[..cut]), None, "{cut}");
        }
        let end = failed(b"SERROR\0C40001\0Mnot now\0\0");
        assert!(end.is_conflict(), "{end:?}");
        assert!(!failed(b"C23505\0Mthere already\0\0").is_conflict());
        assert!(!failed(b"").is_conflict());
    }
}
