//! Requests: what a client asks the owner for.

use farslot_fabric::{ByteCount, Nanos};
use farslot_index::Operation;

/// The most operations of a call.
pub const MOST_OPERATIONS: usize = 1024;
/// The most bytes of a request of several operations, and of the room for its reply.
pub const MOST_BYTES: usize = 256 << 10;

/// The version of the format. Clients of another are told that their request makes no sense, and go
/// on with verbs if they may. Methods of 4 are those of tables that the owner writes itself and of
/// transactions.
const VERSION: u8 = 5;
/// Of a client's patience, in nanoseconds.
const MILLISECOND: Nanos = 1_000_000;
/// The longest time that a request says its client waits, in nanoseconds.
pub const LONGEST_PATIENCE: Nanos = u16::MAX as Nanos * MILLISECOND;
/// Bytes before the operations.
const HEAD: usize = 16;
/// Bytes of an operation before its key.
const ITEM: usize = 8;
/// Bytes of the length of what a replacement expects.
const LENGTH: usize = 4;
/// The longest key, in bytes.
const LONGEST_KEY: usize = (1 << 24) - 1;

/// What the owner is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Question {
    /// Execute the operations.
    Run = 0,
    /// Report what it has counted for its callers to the table.
    Flush = 1,
    /// Say what is opened to the caller. The only outcome is whether single keys are
    /// ([`Outcome::Changed`](farslot_index::Outcome)), rather than all of the table's bytes.
    Opened = 2,
    /// Say what there is to know of the tables that the caller may use, but for what their keys are
    /// hashed by. In place of a table's id stands the number of the first entry that is asked for,
    /// and above it a part of the hash of a name, or 0 for all tables.
    Tables = 3,
    /// Say how the keys of a table over several nodes are sharded.
    Map = 4,
    /// Have a table that is made of segments have memory for one of them: the key of the only
    /// operation is its number in the table's list. The only outcome is whether there is some
    /// ([`Outcome::Changed`](farslot_index::Outcome)).
    Provide = 5,
}

impl Question {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Run,
        Self::Flush,
        Self::Opened,
        Self::Tables,
        Self::Map,
        Self::Provide,
    ];

    /// Its number among all that an owner answers: the first two bytes of a request.
    #[must_use]
    pub const fn method(self) -> u16 {
        VERSION as u16 | (self as u16) << 8
    }
}

/// A request that makes no sense.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MalformedRequest {
    /// It ends too early.
    #[error("the request ends after {}, {least} are the least", ByteCount(*bytes))]
    Short {
        /// Bytes that there are.
        bytes: usize,
        /// Bytes that there must be.
        least: usize,
    },
    /// It goes on behind its last operation.
    #[error("after the request's last operation there are {} more", ByteCount(*bytes))]
    Long {
        /// Bytes that are too many.
        bytes: usize,
    },
    /// Another version.
    #[error("the request is of version {found}, {VERSION} is known")]
    Version {
        /// The version.
        found: u8,
    },
    /// A question that is none.
    #[error("there is no question {found}")]
    Question {
        /// Its number.
        found: u8,
    },
    /// An operation that is none.
    #[error("there is no operation {found}")]
    Operation {
        /// Its number.
        found: u8,
    },
    /// More operations than a call may have.
    #[error("{found} operations are over the limit of {limit}")]
    Count {
        /// How many it says that it has.
        found: u32,
        /// The most.
        limit: usize,
    },
    /// A replacement of a value that is longer than all that the operation has.
    #[error("what a replacement expects has {}, and {most} are there", ByteCount(*bytes as usize))]
    Expected {
        /// Bytes that it says.
        bytes: u32,
        /// Bytes of both values.
        most: usize,
    },
    /// A value where the operation has none.
    #[error("a {operation} has no value, and this one has {}", ByteCount(*bytes))]
    Value {
        /// The operation.
        operation: &'static str,
        /// Bytes of the value.
        bytes: u32,
    },
}

/// Bytes that an operation takes in a request; nothing of one that is too long for any.
#[must_use]
pub fn operation_bytes(operation: &Operation<'_>) -> Option<usize> {
    let (key, values) = (operation.key(), values_bytes(operation));
    let fits = key.len() <= LONGEST_KEY && u32::try_from(values).is_ok();
    fits.then_some(ITEM + key.len() + values)
}

/// What travels behind a key: what a replacement expects, and the value that any operation has, of
/// a removal of one value that value.
const fn values_of<'r>(operation: &Operation<'r>) -> (Option<&'r [u8]>, &'r [u8]) {
    match operation {
        Operation::Get(_) | Operation::GetAll(_) | Operation::Remove(_) => (None, &[]),
        Operation::Put(_, value)
        | Operation::FindOrPut(_, value)
        | Operation::Update(_, value)
        | Operation::RemoveIf(_, value) => (None, value),
        Operation::Replace(_, expected, value) => (Some(expected), value),
    }
}

/// Bytes behind the key of an operation.
fn values_bytes(operation: &Operation<'_>) -> usize {
    let (expected, value) = values_of(operation);
    expected.map_or(0, |expected| LENGTH + expected.len()) + value.len()
}

/// Fills a request.
#[derive(Debug)]
pub struct RequestWriter<'b> {
    left: &'b mut [u8],
}

impl<'b> RequestWriter<'b> {
    /// Bytes of a request whose operations take so many.
    #[must_use]
    pub const fn bytes(of_operations: usize) -> usize {
        HEAD + of_operations
    }

    /// Begins a request of so many operations, in a buffer of [`RequestWriter::bytes`]. The owner
    /// answers within its `patience`, of which whole milliseconds count, and no more than
    /// [`LONGEST_PATIENCE`].
    pub fn new(
        buffer: &'b mut [u8],
        question: Question,
        (table, patience): (u64, Nanos),
        operations: usize,
    ) -> Self {
        let (head, left) = buffer.split_at_mut(HEAD);
        let patience = patience.min(LONGEST_PATIENCE) / MILLISECOND;
        let first = u64::from(VERSION) | (question as u64) << 8 | patience << 16;
        let first = first | (operations as u64) << 32;
        head[..8].copy_from_slice(&first.to_le_bytes());
        head[8..].copy_from_slice(&table.to_le_bytes());
        Self { left }
    }

    /// Adds an operation.
    ///
    /// # Panics
    /// If there is no room for its [`operation_bytes`].
    pub fn put(&mut self, operation: &Operation<'_>) {
        let (key, values) = (operation.key(), values_bytes(operation));
        let number = number_of(operation);
        let head = u64::from(number) | (key.len() as u64) << 8 | (values as u64) << 32;
        self.put_bytes(&head.to_le_bytes());
        self.put_bytes(key);
        let (expected, value) = values_of(operation);
        if let Some(expected) = expected {
            self.put_bytes(&(expected.len() as u32).to_le_bytes());
            self.put_bytes(expected);
        }
        self.put_bytes(value);
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        let (place, left) = std::mem::take(&mut self.left).split_at_mut(bytes.len());
        place.copy_from_slice(bytes);
        self.left = left;
    }
}

const fn number_of(operation: &Operation<'_>) -> u8 {
    match operation {
        Operation::Get(_) => 0,
        Operation::GetAll(_) => 1,
        Operation::Put(..) => 2,
        Operation::FindOrPut(..) => 3,
        Operation::Update(..) => 4,
        Operation::Remove(_) => 5,
        Operation::Replace(..) => 6,
        Operation::RemoveIf(..) => 7,
    }
}

fn operation_of<'r>(
    number: u8,
    key: &'r [u8],
    value: &'r [u8],
) -> Result<Operation<'r>, MalformedRequest> {
    let operation = match number {
        0 => Operation::Get(key),
        1 => Operation::GetAll(key),
        2 => Operation::Put(key, value),
        3 => Operation::FindOrPut(key, value),
        4 => Operation::Update(key, value),
        5 => Operation::Remove(key),
        6 => {
            let (length, values) = value.split_first_chunk::<LENGTH>().unzip();
            let length = length.map_or(u32::MAX, |length| u32::from_le_bytes(*length));
            let values = values.unwrap_or_default();
            let expected = values.split_at_checked(length as usize);
            let (expected, value) = expected.ok_or(MalformedRequest::Expected {
                bytes: length,
                most: values.len(),
            })?;
            Operation::Replace(key, expected, value)
        }
        7 => Operation::RemoveIf(key, value),
        found => return Err(MalformedRequest::Operation { found }),
    };
    if values_bytes(&operation) < value.len() {
        return Err(MalformedRequest::Value {
            operation: operation.name(),
            bytes: value.len() as u32,
        });
    }
    Ok(operation)
}

/// A request as its receiver takes it apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request<'r> {
    /// What is to be done.
    pub question: Question,
    /// What the owner knows the table by (`CallOptions::id`).
    pub table: u64,
    /// How long the owner may take to answer, in nanoseconds: it ends its work on the call then.
    /// With 0 it has one turn.
    pub patience: Nanos,
    /// The operations; their numbers are their places.
    pub operations: Vec<Operation<'r>>,
}

impl<'r> Request<'r> {
    /// The request that these bytes are. Takes memory for no more operations than there are bytes
    /// for.
    ///
    /// # Errors
    /// [`MalformedRequest`].
    pub fn decode(bytes: &'r [u8]) -> Result<Self, MalformedRequest> {
        let (first, rest) = word(bytes)?;
        let (table, mut rest) = word(rest)?;
        if first as u8 != VERSION {
            let found = first as u8;
            return Err(MalformedRequest::Version { found });
        }
        let question = match (first >> 8) as u8 {
            0 => Question::Run,
            1 => Question::Flush,
            2 => Question::Opened,
            3 => Question::Tables,
            4 => Question::Map,
            5 => Question::Provide,
            found => return Err(MalformedRequest::Question { found }),
        };
        let found = (first >> 32) as u32;
        if found as usize > MOST_OPERATIONS {
            let limit = MOST_OPERATIONS;
            return Err(MalformedRequest::Count { found, limit });
        }
        let mut operations = Vec::with_capacity((found as usize).min(rest.len() / ITEM));
        for _ in 0..found {
            let (head, body) = word(rest)?;
            let key_bytes = (head >> 8 & LONGEST_KEY as u64) as usize;
            let (key, body) = part(body, key_bytes)?;
            let (value, body) = part(body, (head >> 32) as usize)?;
            operations.push(operation_of(head as u8, key, value)?);
            rest = body;
        }
        match rest.len() {
            0 => Ok(Self {
                question,
                table,
                patience: u64::from((first >> 16) as u16) * MILLISECOND,
                operations,
            }),
            bytes => Err(MalformedRequest::Long { bytes }),
        }
    }
}

fn word(bytes: &[u8]) -> Result<(u64, &[u8]), MalformedRequest> {
    match bytes.split_first_chunk() {
        Some((word, rest)) => Ok((u64::from_le_bytes(*word), rest)),
        None => Err(MalformedRequest::Short {
            bytes: bytes.len(),
            least: 8,
        }),
    }
}

fn part(bytes: &[u8], least: usize) -> Result<(&[u8], &[u8]), MalformedRequest> {
    bytes
        .split_at_checked(least)
        .ok_or(MalformedRequest::Short {
            bytes: bytes.len(),
            least,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(any::<u8>(), 0..most)
    }

    fn encoded(question: Question, table: (u64, Nanos), operations: &[Operation<'_>]) -> Vec<u8> {
        let bytes = operations
            .iter()
            .map(|operation| operation_bytes(operation).unwrap());
        let mut request = vec![0; RequestWriter::bytes(bytes.sum())];
        let mut writer = RequestWriter::new(&mut request, question, table, operations.len());
        operations
            .iter()
            .for_each(|operation| writer.put(operation));
        assert_eq!(writer.left.len(), 0);
        request
    }

    proptest! {
        #[test]
        fn requests_survive_and_no_bytes_panic(
            table: u64,
            waits: u16,
            question in 0..Question::ALL.len(),
            items in proptest::collection::vec(
                (0..8u8, bytes(20), bytes(40), bytes(40)),
                0..8,
            ),
            noise in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..4),
            cut: usize,
        ) {
            let operations: Vec<_> = items.iter().map(|(number, key, value, expected)| match number {
                0 => Operation::Get(key),
                1 => Operation::GetAll(key),
                2 => Operation::Put(key, value),
                3 => Operation::FindOrPut(key, value),
                4 => Operation::Update(key, value),
                5 => Operation::Remove(key),
                6 => Operation::Replace(key, expected, value),
                _ => Operation::RemoveIf(key, expected),
            }).collect();
            let question = Question::ALL[question];
            let patience = u64::from(waits) * MILLISECOND;
            let mut request = encoded(question, (table, patience + 999_999), &operations);
            let expected = Request { question, table, patience, operations };
            prop_assert_eq!(Request::decode(&request), Ok(expected));
            request.push(0);
            prop_assert_eq!(Request::decode(&request), Err(MalformedRequest::Long { bytes: 1 }));
            request.pop();
            let short = &request[..cut % request.len()];
            let is_short = matches!(Request::decode(short), Err(MalformedRequest::Short { .. }));
            prop_assert!(is_short);
            for (at, byte) in noise {
                let at = at % request.len();
                request[at] = byte;
            }
            let _ = Request::decode(&request);
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let key = [1u8; 8];
        let encoded_get = encoded(Question::Run, (7, 0), &[Operation::Get(&key)]);
        let changed = |at: usize, byte| {
            let mut bytes = encoded_get.clone();
            bytes[at] = byte;
            Request::decode(&bytes).unwrap_err()
        };
        assert_eq!(changed(0, 1), MalformedRequest::Version { found: 1 });
        assert_eq!(changed(1, 9), MalformedRequest::Question { found: 9 });
        let found = 1 | 255 << 16;
        let limit = MOST_OPERATIONS;
        assert_eq!(changed(6, 255), MalformedRequest::Count { found, limit });
        assert_eq!(changed(16, 8), MalformedRequest::Operation { found: 8 });
        // What a replacement expects is longer than all that it has.
        let replaced = Operation::Replace(&key, &[2; 3], &[3; 2]);
        let mut bytes = encoded(Question::Run, (7, 0), &[replaced]);
        assert_eq!(Request::decode(&bytes).unwrap().operations, [replaced]);
        bytes[32] = 6;
        let (bytes, most) = (Request::decode(&bytes), 5);
        assert_eq!(bytes, Err(MalformedRequest::Expected { bytes: 6, most }));
        // Of the key's bytes the last is now a value.
        let mut bytes = encoded_get.clone();
        (bytes[17], bytes[20]) = (7, 1);
        let operation = "get";
        let error = Request::decode(&bytes).unwrap_err();
        assert_eq!(
            error,
            MalformedRequest::Value {
                operation,
                bytes: 1
            }
        );
    }
}
