//! What an index answers when it cannot do what it was asked.

use farslot_fabric::{ByteCount, FabricError};

/// The result of an operation on an index.
pub type Result<T> = std::result::Result<T, IndexError>;

/// Why an operation failed. Unless [`IndexError::may_have_taken_effect`] says otherwise, the table
/// is as if the operation had never been asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// A key of no bytes.
    #[error("a key must have at least 1 byte")]
    EmptyKey,
    /// A key of a length that the table does not hold.
    #[error("a key of {} does not fit: the table's keys have {allowed}", ByteCount(*len))]
    KeyLength {
        /// Bytes of the key.
        len: usize,
        /// The declared size.
        allowed: FieldSize,
    },
    /// A value of a length that the table does not hold.
    #[error("a value of {} does not fit: the table's values have {allowed}", ByteCount(*len))]
    ValueLength {
        /// Bytes of the value.
        len: usize,
        /// The declared size.
        allowed: FieldSize,
    },
    /// A record of 64 bits for slots that hold 63.
    #[error("the record {record:#018x} has its top bit set; a word slot holds 63 bits")]
    SixtyThreeBits {
        /// Key and value as one little-endian word.
        record: u64,
    },
    /// The one pattern, drawn at random for each table, that stands for "nothing here".
    #[error("the {field} {bits:#018x} is this table's mark for an empty slot and cannot be stored")]
    ReservedPattern {
        /// `"key"` or `"value"`.
        field: &'static str,
        /// The pattern.
        bits: u64,
    },
    /// No slot is left for a new key. The table goes on serving.
    #[error("the table is full: no slot for the key, {probed} of its {slots} slots were looked at")]
    Full {
        /// Slots that were looked at; 0 where it was known without.
        probed: u64,
        /// Slots of the table.
        slots: u64,
    },
    /// No memory is left for a record out of band. The table goes on serving.
    #[error("the table's heap of {heap_bytes} bytes has no room for a record of {record_bytes}")]
    HeapFull {
        /// Bytes that the record needs.
        record_bytes: usize,
        /// Bytes of the heap.
        heap_bytes: u64,
    },
    /// No memory is left for a table to grow. It goes on serving.
    #[error("the table cannot grow: {requested} bytes are wanted, {free} are free")]
    OutOfMemory {
        /// Bytes that the growth needs.
        requested: u64,
        /// Bytes that are left.
        free: u64,
    },
    /// An operation that needs unique keys, on a table that was declared to hold several records of
    /// a key.
    #[error("{operation} needs unique keys, but the table was declared multi-key")]
    MultiKey {
        /// The operation.
        operation: &'static str,
    },
    /// Another client is the table's writer.
    #[error("client {writer} is the table's writer; only one may be")]
    WriterBusy {
        /// The writer's mark.
        writer: u64,
    },
    /// The writer that was to be taken over from is a process of this machine that has not ended.
    /// It may be stopped.
    #[error(
        "process {pid}, client {writer}, is the table's writer and is alive (stopped?): \
         only force takes over from it"
    )]
    WriterAlive {
        /// The writer's mark.
        writer: u64,
        /// The process.
        pid: u32,
    },
    /// Another client has become the writer meanwhile. What this one was about to do may have been
    /// done in part.
    #[error("another client has become the table's writer and has changed slot {slot}")]
    WriterLost {
        /// The slot that was not as this writer had left it.
        slot: u64,
    },
    /// A write to a table that never changes again.
    #[error("{operation} is not possible: the table is sealed")]
    Sealed {
        /// The operation.
        operation: &'static str,
    },
    /// A replacement or a removal, of a set.
    #[error(
        "{operation} is not possible: elements of a set stay as they were put; linear, cuckoo, duo, \
         race, chained and ordered tables replace and remove"
    )]
    OnlyGrows {
        /// The operation.
        operation: &'static str,
    },
    /// A table whose scheme is written record by record was to be built whole.
    #[error("a {scheme} table cannot be built whole: it is written record by record")]
    NotBuildable {
        /// The scheme.
        scheme: &'static str,
    },
    /// A replacement of one value by another in a scheme that does not do it in one step.
    #[error(
        "a {scheme} table cannot replace a value in one step: linear, race, chained and ordered tables can"
    )]
    NotAtomic {
        /// The scheme.
        scheme: &'static str,
    },
    /// An operation on a key, of a queue.
    #[error(
        "{operation} is not possible: a queue has no keys (push and pop); tables of all other schemes have"
    )]
    NoKeys {
        /// The operation.
        operation: &'static str,
    },
    /// A push or a pop, of a table that is no queue.
    #[error("a {scheme} table has no items to push or pop: only a table of the scheme queue has")]
    NoQueue {
        /// The scheme.
        scheme: &'static str,
    },
    /// A table to be built whole that has not been, or whose builder has not finished.
    #[error("the table has not been built")]
    NotBuilt,
    /// Two records of one key, for a table of unique keys.
    #[error("record {record} has the key of record {first}, but the table's keys are unique")]
    DuplicateKey {
        /// The later record's number, from 0.
        record: u64,
        /// The earlier one's.
        first: u64,
    },
    /// A table to be built whole that has something in it.
    #[error("only an empty table can be built: {slots} slots are in use")]
    NotEmpty {
        /// Slots in use.
        slots: u64,
    },
    /// Options that no table can have.
    #[error("{option} = {value} is not possible: {limit}")]
    BadOption {
        /// The option.
        option: &'static str,
        /// What was asked for.
        value: String,
        /// What is possible.
        limit: String,
    },
    /// A published record stayed unreadable: its checksum never fitted. A client that was stopped
    /// while it wrote leaves that until it goes on, and so does damage.
    #[error(
        "the record at slot {slot} did not become readable in {attempts} attempts: a client may have stopped while it wrote there"
    )]
    Unreadable {
        /// The slot.
        slot: u64,
        /// How often it was read.
        attempts: u32,
    },
    /// A table's directory that is not as its clients leave it.
    #[error("entry {entry} of the table's directory is {word:#018x}, which no client writes there")]
    BadDirectory {
        /// The entry.
        entry: u64,
        /// Its word.
        word: u64,
    },
    /// A bucket of a set, or the length of an element or a value in it, that is not as its clients
    /// leave it.
    #[error("the set has the word {word:#018x}, which no client writes there")]
    BadElement {
        /// The word.
        word: u64,
    },
    /// A sealed table's perfect hash function that is not as its builder leaves it.
    #[error("the table's perfect hash function is damaged: {reason}")]
    BadFunction {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Other writers changed the slot at every attempt.
    #[error("slot {slot} was changed by others at each of {attempts} attempts")]
    Contended {
        /// The slot.
        slot: u64,
        /// How often it was tried.
        attempts: u32,
    },
    /// An operation that names no key, or that no call carries, under a grant that opens single
    /// keys to calls.
    #[error(
        "{operation} is not possible: the grant opens single keys of the table, to calls alone"
    )]
    SingleKeys {
        /// The operation.
        operation: &'static str,
    },
    /// The owner of the memory has not done an operation that only it can do.
    #[error("the table's node did not do it: {reason}")]
    AtOwner {
        /// Why not.
        reason: String,
        /// Whether it may have been done all the same.
        in_doubt: bool,
    },
    /// The owner of the memory has ended its work on an operation that it was called for. It would
    /// have had to wait for other clients, or to work, for longer than this client waits.
    #[error("the table's node did not end the operation in the time that its client waits")]
    TurnOver {
        /// Whether part of it is done.
        in_doubt: bool,
    },
    /// The fabric failed.
    #[error(transparent)]
    Fabric(#[from] FabricError),
}

impl IndexError {
    /// Whether the operation may have taken effect, or may still, although it failed.
    #[must_use]
    pub const fn may_have_taken_effect(&self) -> bool {
        match self {
            Self::Fabric(error) => error.may_have_taken_effect(),
            Self::WriterLost { .. } => true,
            Self::TurnOver { in_doubt } | Self::AtOwner { in_doubt, .. } => *in_doubt,
            _ => false,
        }
    }
}

/// How many bytes a key or a value has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize, serde::Deserialize)]
pub enum FieldSize {
    /// Always that many.
    Fixed(u32),
    /// At most that many.
    UpTo(u32),
}

impl FieldSize {
    /// The most bytes that fit.
    #[must_use]
    pub const fn most(self) -> usize {
        match self {
            Self::Fixed(bytes) | Self::UpTo(bytes) => bytes as usize,
        }
    }

    /// The least number of bytes.
    #[must_use]
    pub const fn least(self) -> usize {
        match self {
            Self::Fixed(bytes) => bytes as usize,
            Self::UpTo(_) => 0,
        }
    }

    /// Whether `len` bytes fit.
    #[inline]
    #[must_use]
    pub const fn admits(self, len: usize) -> bool {
        match self {
            Self::Fixed(bytes) => len == bytes as usize,
            Self::UpTo(bytes) => len <= bytes as usize,
        }
    }

    /// Refuses a key that does not fit, and one without bytes.
    ///
    /// # Errors
    /// [`IndexError::EmptyKey`] and [`IndexError::KeyLength`].
    #[inline]
    pub const fn check_key(self, key: &[u8]) -> Result<()> {
        if !key.is_empty() && self.admits(key.len()) {
            return Ok(());
        }
        Err(self.why_no_key(key))
    }

    #[cold]
    const fn why_no_key(self, key: &[u8]) -> IndexError {
        match key.len() {
            0 => IndexError::EmptyKey,
            len => IndexError::KeyLength { len, allowed: self },
        }
    }

    /// Refuses a value that does not fit.
    ///
    /// # Errors
    /// [`IndexError::ValueLength`].
    #[inline]
    pub const fn check_value(self, value: &[u8]) -> Result<()> {
        if self.admits(value.len()) {
            return Ok(());
        }
        Err(IndexError::ValueLength {
            len: value.len(),
            allowed: self,
        })
    }
}

impl std::fmt::Display for FieldSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fixed(bytes) => write!(f, "exactly {}", ByteCount(*bytes)),
            Self::UpTo(bytes) => write!(f, "at most {}", ByteCount(*bytes)),
        }
    }
}

/// The error for an option that no table can have.
pub(crate) fn bad_option(
    option: &'static str,
    value: impl ToString,
    limit: impl Into<String>,
) -> IndexError {
    IndexError::BadOption {
        option,
        value: value.to_string(),
        limit: limit.into(),
    }
}
