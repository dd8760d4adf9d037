//! The commands of a transaction that waits for EXEC.

use crate::commands::{DatabaseCommand, Request, Session};
use crate::databases::DATABASES;
use crate::failure::Failure;

/// Commands of a transaction.
const MOST_COMMANDS: usize = 1 << 16;
/// Bytes of their requests: as many as one request may have.
const MOST_BYTES: usize = 16 << 20;
/// Commands among them that visit a whole database: all other clients wait meanwhile.
const MOST_VISITS: usize = 32;

/// What a connection has asked for since MULTI.
#[derive(Debug)]
pub(crate) struct Queue {
    /// The requests as they came, one behind the other.
    requests: Vec<u8>,
    commands: usize,
    /// Whether one of them concerns several keys together or a whole database.
    has_whole: bool,
    /// How many of them visit a whole database.
    visits: usize,
    /// The database that the next command is for.
    pub(crate) database: u8,
    is_aborted: bool,
}

impl Queue {
    /// An empty one, of a connection that uses this database.
    pub(crate) const fn new(database: u8) -> Self {
        Self {
            requests: Vec::new(),
            commands: 0,
            has_whole: false,
            visits: 0,
            database,
            is_aborted: false,
        }
    }

    /// Bytes that it keeps.
    pub(crate) fn held(&self) -> usize {
        self.requests.capacity()
    }

    pub(crate) fn requests(&self) -> &[u8] {
        &self.requests
    }

    pub(crate) const fn commands(&self) -> usize {
        self.commands
    }

    pub(crate) const fn has_whole(&self) -> bool {
        self.has_whole
    }

    /// Whether EXEC does nothing, because a command was refused.
    pub(crate) const fn is_aborted(&self) -> bool {
        self.is_aborted
    }

    pub(crate) fn abort(&mut self) {
        self.is_aborted = true;
        self.requests = Vec::new();
    }

    /// Adds a command's bytes. What they ask for is known unless EXEC will refuse them.
    pub(crate) fn push(
        &mut self,
        bytes: &[u8],
        asked: Option<&Request<'_>>,
    ) -> Result<(), Failure> {
        if self.is_aborted {
            return Ok(());
        }
        let visits = match asked {
            Some(Request::Keyspace(DatabaseCommand::SetAbsent(_) | DatabaseCommand::Size))
            | None => 0,
            Some(Request::Keyspace(_)) => 1,
            Some(_) => 0,
        };
        let limits = [
            ("bytes", self.requests.len() + bytes.len(), MOST_BYTES),
            ("commands", self.commands + 1, MOST_COMMANDS),
            (
                "commands over a whole database",
                self.visits + visits,
                MOST_VISITS,
            ),
        ];
        for (quantity, would_be, limit) in limits {
            if would_be > limit {
                return Err(Failure::LongTransaction {
                    quantity,
                    would_be,
                    limit,
                });
            }
        }
        if let Some(Request::Session(Session::Select(number))) = asked
            && let Some(number) = u8::try_from(*number).ok().filter(|of| *of < DATABASES)
        {
            self.database = number;
        }
        self.requests.extend_from_slice(bytes);
        self.commands += 1;
        self.has_whole |= matches!(asked, Some(Request::Keyspace(_)));
        self.visits += visits;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_has_bounds() {
        let reply_to = |queue: &mut Queue, bytes: &[u8], asked: Option<&Request<'_>>| {
            queue.push(bytes, asked).unwrap_err().to_string()
        };
        let mut queue = Queue::new(0);
        queue.push(&vec![b'v'; MOST_BYTES], None).unwrap();
        let expected = "ERR the transaction would have 16777217 bytes, and the limit is 16777216";
        assert_eq!(reply_to(&mut queue, b"v", None), expected);
        let mut queue = Queue::new(0);
        let keys = Request::Keyspace(DatabaseCommand::Keys(b"*"));
        for _ in 0..MOST_VISITS {
            queue.push(b"KEYS *", Some(&keys)).unwrap();
        }
        let expected =
            "ERR the transaction would have 33 commands over a whole database, and the limit is 32";
        assert_eq!(reply_to(&mut queue, b"KEYS *", Some(&keys)), expected);
        for _ in MOST_VISITS..MOST_COMMANDS {
            queue.push(b"", None).unwrap();
        }
        let expected = "ERR the transaction would have 65537 commands, and the limit is 65536";
        assert_eq!(reply_to(&mut queue, b"", None), expected);
    }

    #[test]
    fn an_aborted_queue_keeps_nothing() {
        let mut queue = Queue::new(0);
        queue.push(&[0; 1_000], None).unwrap();
        assert!(queue.held() >= 1_000);
        queue.abort();
        queue.push(&[0; 1_000], None).unwrap();
        assert_eq!((queue.held(), queue.requests()), (0, &b""[..]));
    }

    #[test]
    fn commands_behind_select_are_for_its_database() {
        let mut queue = Queue::new(3);
        for (number, expected) in [(5, 5), (16, 5), (-1, 5), (0, 0)] {
            let select = Request::Session(Session::Select(number));
            queue.push(b"", Some(&select)).unwrap();
            assert_eq!(queue.database, expected);
        }
    }
}
