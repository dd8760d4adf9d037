//! What clients say of their transactions, line by line, and the history that it is.
//!
//! ```text
//! b NUMBER START OP..   before the commit: nothing of the transaction can be seen by others yet
//! e NUMBER c|a|u END    after it: committed, aborted, or in doubt
//! OP  = a:TABLE:KEY:VALUE | r:TABLE:KEY:VALUE,.. | s:TABLE:KEY:VALUE,..
//! ```

use farslot_check::serial::{Commit, ListOp, Transaction};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// A table's number, and a key's.
pub type Key = (u16, u32);

/// Everything that was said.
#[derive(Default)]
pub struct Log {
    history: Vec<Transaction<Key>>,
}

impl Log {
    /// Adds what one client said until it was killed. A line that it did not end it had not acted
    /// upon.
    pub fn add(&mut self, said: &[u8]) {
        let said = String::from_utf8_lossy(said);
        let mut places = BTreeMap::new();
        let lines = said
            .split_inclusive('\n')
            .filter_map(|line| line.strip_suffix('\n'));
        for line in lines {
            let mut words = line.split(' ');
            let kind = words.next().expect("a kind");
            let number = words.next().expect("a number").to_owned();
            match kind {
                "b" => {
                    places.insert(number, self.history.len());
                    self.history.push(Transaction {
                        start: words.next().expect("a time").parse().expect("a time"),
                        ops: words.map(read_op).collect(),
                        commit: Commit::Unknown,
                    });
                }
                "e" => {
                    let at = places[&number];
                    let how = words.next().expect("an end");
                    let end = words.next().expect("a time").parse().expect("a time");
                    self.history[at].commit = match how {
                        "c" => Commit::Committed { end },
                        "a" => Commit::Aborted,
                        _ => Commit::Unknown,
                    };
                }
                other => panic!("{other:?} in {line:?}"),
            }
        }
    }

    /// Adds a committed transaction.
    pub fn push(&mut self, start: u64, ops: Vec<ListOp<Key>>, end: u64) {
        let commit = Commit::Committed { end };
        self.history.push(Transaction { start, ops, commit });
    }

    /// All keys that were read or written.
    pub fn keys(&self) -> BTreeSet<Key> {
        let ops = self.history.iter().flat_map(|transaction| &transaction.ops);
        ops.map(|op| *op.key()).collect()
    }

    /// The history, and how many of its transactions ended unknown.
    pub fn history(self) -> (Vec<Transaction<Key>>, usize) {
        let unknown = self
            .history
            .iter()
            .filter(|one| one.commit == Commit::Unknown)
            .count();
        (self.history, unknown)
    }
}

fn read_op(word: &str) -> ListOp<Key> {
    let parts: Vec<&str> = word.split(':').collect();
    let [kind, table, key, values] = *parts else {
        panic!("{word:?} is no operation");
    };
    let key = (table.parse().expect("a table"), key.parse().expect("a key"));
    let values = values.split(',').filter(|value| !value.is_empty());
    let values: Vec<u64> = values
        .map(|value| value.parse().expect("a value"))
        .collect();
    match kind {
        "a" => ListOp::Append(key, values[0]),
        "r" => ListOp::Read(key, values),
        _ => ListOp::Scanned(key, values),
    }
}

/// The line before a commit.
pub fn begin_line(number: u64, start: u64, ops: &[ListOp<Key>]) -> String {
    let mut line = format!("b {number} {start}");
    for op in ops {
        let (kind, (table, key), values) = match op {
            ListOp::Append(key, value) => ('a', key, &[*value][..]),
            ListOp::Read(key, values) => ('r', key, &values[..]),
            ListOp::Scanned(key, values) => ('s', key, &values[..]),
        };
        let values: Vec<String> = values.iter().map(u64::to_string).collect();
        write!(line, " {kind}:{table}:{key}:{}", values.join(",")).expect("room in a string");
    }
    line.push('\n');
    line
}
