//! Replies: what the owner has done.

use farslot_fabric::Buffer;
use farslot_index::{FieldSize, IndexError, Operation, Outcome, Value};
use std::rc::Rc;

/// Bytes before the outcomes.
const HEAD: usize = 8;
/// Bytes of an outcome before its own.
const ITEM: usize = 8;

/// What became of a request as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Status {
    /// Outcomes follow.
    Done = 0,
    /// It makes no sense to the owner. Nothing was done, nor with those that follow.
    Malformed = 1,
    /// There is no table at that place.
    NoTable = 2,
    /// The caller may not do all of it.
    Denied = 3,
    /// The owner executes no operations of the table's scheme, or could not open it.
    NotServed = 4,
}

/// What became of an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answered {
    /// It is done.
    Done(Outcome),
    /// The owner leaves it to the client, and has changed nothing.
    Left,
    /// The owner has not come to it in the time that its client waits, and has changed nothing.
    Unfinished,
    /// It may have taken effect or not, and does not any more.
    InDoubt,
    /// The owner has not done it, and its client cannot do it by itself
    /// ([`ReplyWriter::of_keys`]).
    Refused(RefusalCause),
}

impl Answered {
    /// Whether it can be an answer to an operation.
    pub(crate) fn fits(&self, operation: &Operation<'_>) -> bool {
        match self {
            Self::Left | Self::Unfinished | Self::InDoubt | Self::Refused(_) => true,
            Self::Done(outcome) => matches!(
                (operation, outcome),
                (
                    Operation::Get(_) | Operation::FindOrPut(..),
                    Outcome::Value(_)
                ) | (Operation::GetAll(_), Outcome::Values(_))
                    | (
                        Operation::Put(..)
                            | Operation::Update(..)
                            | Operation::Replace(..)
                            | Operation::Remove(_)
                            | Operation::RemoveIf(..),
                        Outcome::Changed(_)
                    )
            ),
        }
    }
}

/// Why an owner refuses an operation to a client that cannot do it by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RefusalCause {
    /// The caller's grant does not open this key to this operation.
    Key,
    /// The reply has no room for the values.
    NoRoom,
    /// The owner ends, and takes no writes any more.
    Ending,
    /// It failed.
    Failed(IndexError),
    /// It failed, as this text says.
    Said(String),
}

const LEFT: u8 = 0;
const IN_DOUBT: u8 = 1;
const ABSENT: u8 = 2;
const VALUE: u8 = 3;
const VALUES: u8 = 4;
const UNCHANGED: u8 = 5;
const CHANGED: u8 = 6;
const KEY_REFUSED: u8 = 7;
const NO_ROOM: u8 = 8;
const FAILED: u8 = 9;
const FULL: u8 = 10;
const HEAP_FULL: u8 = 11;
const OUT_OF_MEMORY: u8 = 12;
const KEY_LENGTH: u8 = 13;
const VALUE_LENGTH: u8 = 14;
const ENDING: u8 = 15;
const UNFINISHED: u8 = 16;
/// The most bytes of a text that says why an operation failed.
const LONGEST_TEXT: usize = 200;

/// Fills a reply.
#[derive(Debug)]
pub struct ReplyWriter<'b> {
    room: &'b mut [u8],
    written: WrittenReply,
}

/// How far a reply is filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrittenReply {
    /// Bytes.
    at: usize,
    count: u32,
    /// Operations without an outcome so far, for each of which there is room to say so.
    left: usize,
    /// What is said of an outcome that there is no room for.
    too_long: u8,
}

impl<'b> ReplyWriter<'b> {
    /// Bytes of a reply to so many operations whose values take so many.
    #[must_use]
    pub const fn bytes(operations: usize, of_values: usize) -> usize {
        HEAD + operations * ITEM + of_values
    }

    /// Begins a reply to so many operations; nothing where there is no room to say what became of
    /// each.
    pub fn new(room: &'b mut [u8], operations: usize) -> Option<Self> {
        (room.len() >= Self::bytes(operations, 0)).then_some(Self {
            room,
            written: WrittenReply {
                at: HEAD,
                count: 0,
                left: operations,
                too_long: LEFT,
            },
        })
    }

    /// The same for a client that may use single keys by calls alone: nothing is left to it.
    #[must_use]
    pub fn of_keys(mut self) -> Self {
        self.written.too_long = NO_ROOM;
        self
    }

    /// Goes on with a reply that is filled so far. Of the room there is as much as before, and its
    /// first [bytes](WrittenReply::bytes) are what was written.
    pub fn resume(room: &'b mut [u8], written: WrittenReply) -> Self {
        Self { room, written }
    }

    /// How far it is filled.
    #[must_use]
    pub const fn written(&self) -> WrittenReply {
        self.written
    }

    /// Adds what became of an operation, once of each. An outcome that there is no room for is one
    /// of a lookup, or of a find-or-put that has put nothing: it is left to the client.
    pub fn put(&mut self, number: usize, answered: &Answered) {
        self.written.left = self.written.left.saturating_sub(1);
        match answered {
            Answered::Left => self.item(number, LEFT, &[]),
            Answered::Unfinished => self.item(number, UNFINISHED, &[]),
            Answered::InDoubt => self.item(number, IN_DOUBT, &[]),
            Answered::Done(Outcome::Changed(false)) => self.item(number, UNCHANGED, &[]),
            Answered::Done(Outcome::Changed(true)) => self.item(number, CHANGED, &[]),
            Answered::Done(Outcome::Value(value)) => self.value(number, value.as_deref()),
            Answered::Done(Outcome::Values(values)) => self.values(number, values),
            Answered::Refused(RefusalCause::Key) => self.item(number, KEY_REFUSED, &[]),
            Answered::Refused(RefusalCause::NoRoom) => self.item(number, NO_ROOM, &[]),
            Answered::Refused(RefusalCause::Ending) => self.item(number, ENDING, &[]),
            Answered::Refused(RefusalCause::Said(text)) => self.text(number, text),
            Answered::Refused(RefusalCause::Failed(error)) => match numbers_of(error) {
                Some((kind, numbers)) => {
                    let bytes = numbers.map(u64::to_le_bytes).concat();
                    // Without them, it has less to say.
                    let bytes = if self.has_room(bytes.len()) {
                        &*bytes
                    } else {
                        &[]
                    };
                    self.item(number, kind, bytes);
                }
                None => self.text(number, &error.to_string()),
            },
        }
    }

    /// Adds what a get or a find-or-put has come to, as [`ReplyWriter::put`] does.
    #[inline]
    pub fn put_value(&mut self, number: usize, value: Option<&[u8]>) {
        self.written.left = self.written.left.saturating_sub(1);
        self.value(number, value);
    }

    #[inline(always)]
    fn value(&mut self, number: usize, value: Option<&[u8]>) {
        match value {
            None => self.item(number, ABSENT, &[]),
            Some(value) if self.has_room(value.len()) => self.item(number, VALUE, value),
            Some(_) => self.item(number, self.written.too_long, &[]),
        }
    }

    fn text(&mut self, number: usize, text: &str) {
        let mut end = text.len().min(LONGEST_TEXT);
        while !(text.is_char_boundary(end) && self.has_room(end)) && end > 0 {
            end -= 1;
        }
        self.item(number, FAILED, &text.as_bytes()[..end]);
    }

    fn values(&mut self, number: usize, values: &[Value]) {
        let lengths = values.iter().map(|value| value.len());
        let bytes = 4 + 4 * values.len() + lengths.sum::<usize>();
        if !self.has_room(bytes) {
            return self.item(number, self.written.too_long, &[]);
        }
        self.head(number, VALUES, bytes);
        self.bytes_of(&(values.len() as u32).to_le_bytes());
        for value in values {
            self.bytes_of(&(value.len() as u32).to_le_bytes());
        }
        for value in values {
            self.bytes_of(value);
        }
    }

    /// Whether an outcome of so many bytes leaves room for those that follow.
    fn has_room(&self, bytes: usize) -> bool {
        let taken = self.written.at + (1 + self.written.left) * ITEM;
        bytes <= self.room.len().saturating_sub(taken) && u32::try_from(bytes).is_ok()
    }

    #[inline]
    fn item(&mut self, number: usize, kind: u8, bytes: &[u8]) {
        self.head(number, kind, bytes.len());
        self.bytes_of(bytes);
    }

    fn head(&mut self, number: usize, kind: u8, bytes: usize) {
        let head = u64::from(kind) | (number as u64 & 0xff_ffff) << 8 | (bytes as u64) << 32;
        self.bytes_of(&head.to_le_bytes());
        self.written.count += 1;
    }

    #[inline]
    fn bytes_of(&mut self, bytes: &[u8]) {
        let end = self.written.at + bytes.len();
        let room = &mut self.room[self.written.at..end];
        // Most are words: copied without a call.
        match (room.as_chunks_mut().0, bytes.as_chunks::<8>()) {
            ([word], ([bytes], [])) => *word = *bytes,
            _ => room.copy_from_slice(bytes),
        }
        self.written.at = end;
    }

    /// Ends the reply; returns its bytes.
    #[must_use]
    pub fn finish(self) -> usize {
        let head = Status::Done as u64 | u64::from(self.written.count) << 32;
        self.room[..HEAD].copy_from_slice(&head.to_le_bytes());
        self.written.at
    }
}

impl WrittenReply {
    /// Bytes that are filled.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.at
    }
}

/// Errors that are told by their numbers.
const fn numbers_of(error: &IndexError) -> Option<(u8, [u64; 2])> {
    Some(match *error {
        IndexError::Full { probed, slots } => (FULL, [probed, slots]),
        IndexError::HeapFull {
            record_bytes,
            heap_bytes,
        } => (HEAP_FULL, [record_bytes as u64, heap_bytes]),
        IndexError::OutOfMemory { requested, free } => (OUT_OF_MEMORY, [requested, free]),
        IndexError::KeyLength { len, allowed } => (KEY_LENGTH, [len as u64, number_of(allowed)]),
        IndexError::ValueLength { len, allowed } => {
            (VALUE_LENGTH, [len as u64, number_of(allowed)])
        }
        _ => return None,
    })
}

/// The bit that says that a size is fixed.
const FIXED: u64 = 1 << 32;

const fn number_of(size: FieldSize) -> u64 {
    match size {
        FieldSize::Fixed(bytes) => FIXED | bytes as u64,
        FieldSize::UpTo(bytes) => bytes as u64,
    }
}

const fn size_of(number: u64) -> FieldSize {
    match number & FIXED {
        0 => FieldSize::UpTo(number as u32),
        _ => FieldSize::Fixed(number as u32),
    }
}

/// Why an operation was refused; nothing for what is no such answer.
fn why_of(kind: u8, bytes: &[u8]) -> Option<RefusalCause> {
    let (numbers, _) = bytes.as_chunks::<8>();
    let number = |at| numbers.get(at).map_or(0, |word| u64::from_le_bytes(*word));
    let (a, b) = (number(0), number(1));
    let len = usize::try_from(a).unwrap_or(usize::MAX);
    let allowed = size_of(b);
    Some(match kind {
        KEY_REFUSED => RefusalCause::Key,
        NO_ROOM => RefusalCause::NoRoom,
        ENDING => RefusalCause::Ending,
        FULL => RefusalCause::Failed(IndexError::Full {
            probed: a,
            slots: b,
        }),
        HEAP_FULL => RefusalCause::Failed(IndexError::HeapFull {
            record_bytes: len,
            heap_bytes: b,
        }),
        KEY_LENGTH => RefusalCause::Failed(IndexError::KeyLength { len, allowed }),
        VALUE_LENGTH => RefusalCause::Failed(IndexError::ValueLength { len, allowed }),
        OUT_OF_MEMORY => RefusalCause::Failed(IndexError::OutOfMemory {
            requested: a,
            free: b,
        }),
        // Another's text may be anything, and is to be shown to people.
        FAILED => {
            let text = String::from_utf8_lossy(bytes);
            let shown = text.chars().filter(|sign| !sign.is_control());
            RefusalCause::Said(shown.take(LONGEST_TEXT).collect())
        }
        _ => return None,
    })
}

impl Status {
    /// Makes a reply of it alone; returns its bytes.
    #[must_use]
    pub fn put(self, room: &mut [u8]) -> usize {
        match room.first_chunk_mut::<HEAD>() {
            Some(head) => {
                *head = (self as u64).to_le_bytes();
                HEAD
            }
            // Nobody can read less.
            None => 0,
        }
    }
}

/// The status of a reply, and how many outcomes it says that it has; nothing if it is none.
#[must_use]
pub fn status_of(reply: &[u8]) -> Option<(Status, u32)> {
    let head = u64::from_le_bytes(*reply.first_chunk()?);
    let status = match head as u8 {
        0 => Status::Done,
        1 => Status::Malformed,
        2 => Status::NoTable,
        3 => Status::Denied,
        4 => Status::NotServed,
        _ => return None,
    };
    Some((status, (head >> 32) as u32))
}

/// Why there is nothing in a reply of this status, in words; or in one that is none.
pub(super) const fn reason_of(status: Option<Status>) -> &'static str {
    match status {
        Some(Status::Denied) => "the caller may not ask for it",
        Some(Status::NoTable) => "the table is not there any more",
        Some(Status::NotServed) => "it executes no operations of the table",
        Some(Status::Malformed) => "it does not know such a request",
        Some(Status::Done) | None => "its answer makes no sense",
    }
}

/// Gives what became of each operation that a reply tells of, with its number and the bytes that it
/// took. Of what makes no sense it tells nothing.
pub fn outcomes(reply: Buffer, mut each: impl FnMut(usize, Answered, usize)) {
    let Some((Status::Done, count)) = status_of(&reply) else {
        return;
    };
    let reply = Rc::new(reply);
    let mut at = HEAD;
    for _ in 0..count {
        let Some(head) = reply[at.min(reply.len())..].first_chunk() else {
            return;
        };
        let head = u64::from_le_bytes(*head);
        let start = at + ITEM;
        let end = start + (head >> 32) as usize;
        if end > reply.len() {
            return;
        }
        at = end;
        let value = |from: usize, to: usize| Value::of_reply(&reply, from..to);
        let answered = match head as u8 {
            LEFT => Answered::Left,
            UNFINISHED => Answered::Unfinished,
            IN_DOUBT => Answered::InDoubt,
            ABSENT => Answered::Done(Outcome::Value(None)),
            VALUE => Answered::Done(Outcome::Value(Some(value(start, end)))),
            VALUES => match values(&reply[start..end], |from, to| {
                value(start + from, start + to)
            }) {
                Some(values) => Answered::Done(Outcome::Values(values)),
                None => return,
            },
            UNCHANGED => Answered::Done(Outcome::Changed(false)),
            CHANGED => Answered::Done(Outcome::Changed(true)),
            kind => match why_of(kind, &reply[start..end]) {
                Some(why) => Answered::Refused(why),
                None => return,
            },
        };
        each(
            (head >> 8 & 0xff_ffff) as usize,
            answered,
            end - start + ITEM,
        );
    }
}

/// The values of a get-all, each made of where it lies; nothing if they are none.
fn values(bytes: &[u8], value: impl Fn(usize, usize) -> Value) -> Option<Vec<Value>> {
    let (count, rest) = bytes.split_first_chunk()?;
    let count = u32::from_le_bytes(*count) as usize;
    let lengths = rest.get(..count.checked_mul(4)?)?;
    let mut at = 4 + lengths.len();
    let mut all = Vec::with_capacity(count);
    for length in lengths.as_chunks::<4>().0 {
        let end = at + u32::from_le_bytes(*length) as usize;
        if end > bytes.len() {
            return None;
        }
        all.push(value(at, end));
        at = end;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use farslot_fabric::BufferPool;
    use proptest::prelude::*;

    fn answered() -> impl Strategy<Value = Answered> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..40);
        let value = move || bytes().prop_map(|bytes| Value::from(&bytes[..]));
        prop_oneof![
            Just(Answered::Left),
            Just(Answered::Unfinished),
            Just(Answered::InDoubt),
            any::<bool>().prop_map(|changed| Answered::Done(Outcome::Changed(changed))),
            proptest::option::of(value()).prop_map(|value| Answered::Done(Outcome::Value(value))),
            proptest::collection::vec(value(), 0..4)
                .prop_map(|values| Answered::Done(Outcome::Values(values))),
            why().prop_map(Answered::Refused),
        ]
    }

    fn why() -> impl Strategy<Value = RefusalCause> {
        prop_oneof![
            Just(RefusalCause::Key),
            Just(RefusalCause::NoRoom),
            Just(RefusalCause::Ending),
            "[ -~]{0,40}".prop_map(RefusalCause::Said),
            any::<(u64, u64)>().prop_map(|(probed, slots)| {
                RefusalCause::Failed(IndexError::Full { probed, slots })
            }),
            any::<(usize, u64)>().prop_map(|(record_bytes, heap_bytes)| {
                RefusalCause::Failed(IndexError::HeapFull {
                    record_bytes,
                    heap_bytes,
                })
            }),
            any::<(u64, u64)>().prop_map(|(requested, free)| {
                RefusalCause::Failed(IndexError::OutOfMemory { requested, free })
            }),
            any::<(usize, bool, u32)>().prop_map(|(len, is_fixed, bytes)| {
                let allowed = match is_fixed {
                    true => FieldSize::Fixed(bytes),
                    false => FieldSize::UpTo(bytes),
                };
                RefusalCause::Failed(IndexError::ValueLength { len, allowed })
            }),
        ]
    }

    fn decoded(bytes: &[u8]) -> Vec<(usize, Answered)> {
        let pool = BufferPool::new(1 << 20, 1 << 20);
        let mut all = Vec::new();
        outcomes(pool.copy_of(bytes).unwrap(), |number, answered, _| {
            all.push((number, answered))
        });
        all
    }

    proptest! {
        #[test]
        fn replies_survive_and_no_bytes_panic(
            all in proptest::collection::vec(answered(), 0..9),
            room in 0..400_usize,
            noise in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..4),
            cut: usize,
            of_keys: bool,
        ) {
            let mut bytes = vec![0xee; room];
            let writer = ReplyWriter::new(&mut bytes, all.len());
            prop_assert_eq!(writer.is_some(), room >= ReplyWriter::bytes(all.len(), 0));
            let Some(mut writer) = writer else { return Ok(()) };
            if of_keys {
                writer = writer.of_keys();
            }
            all.iter().enumerate().rev().for_each(|(number, answered)| writer.put(number, answered));
            let end = writer.finish();
            prop_assert_eq!(status_of(&bytes), Some((Status::Done, all.len() as u32)));
            let mut got = decoded(&bytes[..end]);
            got.sort_by_key(|(number, _)| *number);
            prop_assert_eq!(got.len(), all.len());
            for ((number, got), (expected, sent)) in got.iter().zip(all.iter().enumerate()) {
                prop_assert_eq!(*number, expected);
                let is_value = matches!(sent, Answered::Done(Outcome::Value(Some(_)) | Outcome::Values(_)));
                let too_long = if of_keys { Answered::Refused(RefusalCause::NoRoom) } else { Answered::Left };
                let said_less = matches!(
                    (got, sent),
                    (Answered::Refused(RefusalCause::Failed(_)), Answered::Refused(RefusalCause::Failed(_)))
                        | (Answered::Refused(RefusalCause::Said(_)), Answered::Refused(RefusalCause::Said(_)))
                );
                prop_assert!(
                    got == sent || room < 400 && (is_value && *got == too_long || said_less),
                    "{got:?} {sent:?}"
                );
            }
            for (at, byte) in noise {
                bytes[at % end] = byte;
            }
            decoded(&bytes[..cut % (end + 1)]);
        }
    }

    #[test]
    fn a_status_alone_has_no_outcomes() {
        for status in [
            Status::Malformed,
            Status::NoTable,
            Status::Denied,
            Status::NotServed,
        ] {
            let mut room = [0xff; 20];
            let bytes = status.put(&mut room);
            assert_eq!(status_of(&room[..bytes]), Some((status, 0)));
            assert_eq!(decoded(&room[..bytes]), []);
            assert_eq!(status.put(&mut room[..7]), 0);
        }
        assert_eq!(status_of(&[]), None);
    }
}
