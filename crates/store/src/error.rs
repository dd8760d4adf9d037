//! What can go wrong with a store or a table.

use crate::ErrorKind;
use crate::no_room::NoRoom;
use crate::snapshot::error::SnapshotError;
use farslot_fabric::{ByteCount, FabricError, InWords, Nanos};
use farslot_index::{FieldSize, IndexError, SchemeKind};
use std::fmt;

/// The result of anything that a store or a table does.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Why a store or a table could not do what it was asked. Each names the value and the limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// An address that begins with no scheme that is known.
    #[error("the address {address:?} has the unknown scheme {scheme:?}; known are {known}")]
    UnknownScheme {
        /// The address as given.
        address: String,
        /// What stood before `://`.
        scheme: String,
        /// The schemes that are known.
        known: &'static str,
    },
    /// An address whose rest cannot be understood.
    #[error("the address {address:?} is not usable: {reason}")]
    BadAddress {
        /// The address as given.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A table name that cannot be used.
    #[error("the table name {name:?} is not usable: {reason}")]
    BadName {
        /// The name as given.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A grant that cannot be given: its name cannot be used, or no key of a table begins so.
    #[error("the grant {name:?} cannot be given: {reason}")]
    BadGrant {
        /// Its name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There is a table of that name.
    #[error("there is a table {name:?} already")]
    TableExists {
        /// The name.
        name: String,
    },
    /// There is no table of that name.
    #[error("there is no table {name:?}; the store has {tables}")]
    NoSuchTable {
        /// The name.
        name: String,
        /// The tables that there are.
        tables: String,
    },
    /// The catalog is full.
    #[error("the store has {limit} tables and takes no more")]
    TooManyTables {
        /// The most tables of a store.
        limit: usize,
    },
    /// A table has no room for a record. It goes on serving.
    #[error("{0}")]
    NoRoom(Box<NoRoom>),
    /// The store's memory does not hold another table of that size.
    #[error("table {table:?} needs {requested} bytes; of the store's {total}, {free} are free")]
    OutOfMemory {
        /// The table.
        table: String,
        /// Bytes that the table needs.
        requested: u128,
        /// Bytes that are not taken by tables.
        free: u64,
        /// Bytes of the store.
        total: u64,
    },
    /// The store's memory is too small for its catalog.
    #[error("a store needs at least {least} bytes of memory, not {bytes}")]
    TooSmall {
        /// Bytes that it was to have.
        bytes: u64,
        /// The least that it can have.
        least: u64,
    },
    /// Memory whose server was killed while it restored the tables.
    #[error("the server of this memory was killed while it restored the tables: not all are there")]
    HalfRestored,
    /// An entry of the catalog cannot be read.
    #[error("entry {entry} of the catalog is damaged: {reason}")]
    DamagedCatalog {
        /// The entry's number.
        entry: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// Others changed the catalog at every attempt, or words that no client writes stand in the
    /// way.
    #[error("the catalog was changed by others at each of {attempts} attempts")]
    CatalogContended {
        /// How often it was tried.
        attempts: u32,
    },
    /// Another client clears the table, or has died in that, and this one may not end it.
    #[error("the table {name:?} is being cleared, and was not open again within {}: try again", InWords(*.waited))]
    BeingCleared {
        /// The table.
        name: String,
        /// How long it was waited for, in nanoseconds.
        waited: Nanos,
    },
    /// Another client took this one for dead, and ended its change of the catalog.
    #[error(
        "the change of the catalog took so long that another client ended it: look at what there is, and try again"
    )]
    ChangeCancelled,
    /// The table was made without room for the moments at which records expire.
    #[error(
        "the records of table {name:?} have no time to live: make it expiring (TableOptions::expiring, --expiring)"
    )]
    NotExpiring {
        /// The table.
        name: String,
    },
    /// The table is being dropped, or parts of it are gone, or another has its name.
    #[error("the table {name:?} was dropped, or is being dropped: no part of it is made anew")]
    TableGone {
        /// The table.
        name: String,
    },
    /// Opening the table would take more of this process's memory than
    /// [`OpenOptions::client_memory`](crate::OpenOptions::client_memory) allows.
    #[error(
        "table {name:?} may take {needed} bytes of this process's memory, over the limit of {limit} (client_memory)"
    )]
    ClientMemory {
        /// The table.
        name: String,
        /// Bytes that its client may come to need.
        needed: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// Another client took the creation for dead and cancelled it.
    #[error("the creation of table {name:?} took so long that another client cancelled it")]
    CreationCancelled {
        /// The table's name.
        name: String,
    },
    /// A table whose scheme is written record by record was to be built whole.
    #[error("a {scheme} table cannot be built whole: it is written record by record")]
    NotBuildable {
        /// The table's scheme.
        scheme: &'static str,
    },
    /// Other transactions were in the way of one, each time that it was run. Nothing was changed.
    #[error("the transaction cannot be committed: {reason}")]
    Conflict {
        /// What was in the way the last time.
        reason: String,
    },
    /// What a transaction changes or locks at a node whose memory is kept is more than that can do
    /// at once. Nothing was changed: several smaller ones may do it.
    #[error(
        "what the transaction does at one node takes {} of its journal, over the limit of {}",
        ByteCount(*bytes), ByteCount(*limit)
    )]
    TransactionTooLarge {
        /// Bytes of the node's journal that it takes, as far as was counted.
        bytes: usize,
        /// Most bytes.
        limit: usize,
    },
    /// A table whose scheme takes no part in transactions was named in one.
    #[error(
        "table {name:?} is {scheme}, which takes no part in transactions{}",
        way_out(name, scheme)
    )]
    NotTransactional {
        /// The table.
        name: String,
        /// Its scheme.
        scheme: &'static str,
    },
    /// A table whose keys are in no order was scanned by a range of them.
    #[error(
        "table {name:?} has no order: only ordered tables are scanned by ranges of keys; \
         farslot copy {name} NAME --scheme ordered makes a copy that is one"
    )]
    NotOrdered {
        /// The table.
        name: String,
    },
    /// A table of another scheme was named where a queue is needed.
    #[error(
        "table {name:?} is {scheme}, which has keys and no items to push or pop: only tables of the scheme \
         queue have these"
    )]
    NoQueue {
        /// The table.
        name: String,
        /// Its scheme.
        scheme: &'static str,
    },
    /// A queue has no room for what was pushed. Nothing of it was, and the queue goes on serving.
    #[error("the queue {name:?} is full: it has room for {limit} items")]
    FullQueue {
        /// The queue.
        name: String,
        /// Most items, as it was made for.
        limit: u64,
    },
    /// A fabric that cannot be served by a process.
    #[error(
        "{address:?} cannot be served: only shm://, tcp://, tcps:// and verbs:// addresses of one node have an owner process"
    )]
    NotServable {
        /// The address as given.
        address: String,
    },
    /// A value that is to be counted up and is no number, or none that is in range.
    #[error(
        "the value {value:?} cannot be counted up by {by}: it must be a whole number of 64 bits, before and after"
    )]
    NoNumber {
        /// The value, as text.
        value: String,
        /// By how much.
        by: i64,
    },
    /// A number that was counted up does not fit into the table's values as text.
    #[error(
        "the number {number} takes {} as text, and the table's values have {allowed}: increment keeps \
         numbers as text of up to 20 bytes",
        ByteCount(number.to_string().len())
    )]
    LongNumber {
        /// The sum.
        number: i64,
        /// The size of the table's values.
        allowed: FieldSize,
    },
    /// A key or a value whose bytes are none of the type that a [`Typed`](crate::Typed) table has.
    #[error("a {field} of {} is no {name}: {reason}", ByteCount(*bytes))]
    OtherType {
        /// Key or value.
        field: &'static str,
        /// How long it is.
        bytes: usize,
        /// The type.
        name: &'static str,
        /// What does not fit.
        reason: String,
    },
    /// One of several nodes failed. What the others have is not touched by it.
    #[error("{address}: {error}")]
    Node {
        /// The node's address.
        address: String,
        /// Why it failed.
        error: FabricError,
    },
    /// A table over several nodes, of which the store's address does not name all.
    #[error(
        "the address names no node for {missing} of table {name:?}: name all of its nodes, as its creator did"
    )]
    MissingNodes {
        /// The table.
        name: String,
        /// The partitions without a node, and where they were made.
        missing: String,
    },
    /// Tables of one name that have nothing to do with each other, on different nodes.
    #[error("{one} and {other} each have a table {name:?}, and these are not parts of one")]
    ConflictingTables {
        /// The name.
        name: String,
        /// The address of a node that has one.
        one: String,
        /// The address of a node that has another.
        other: String,
    },
    /// The map of a table over several nodes cannot be read.
    #[error("the map of table {name:?} is damaged: {reason}")]
    DamagedMap {
        /// The table.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The handle was closed, by whichever clone of it.
    #[error("the handle is closed, and takes no more operations")]
    HandleClosed,
    /// So many operations wait for a handle's workers that there is no room for another.
    #[error("the handle's queue has no room for another operation now")]
    QueueFull,
    /// A worker of a handle panicked, with the operation or before it.
    #[error("a worker of the handle panicked: the operation may have taken effect or not")]
    WorkerPanicked,
    /// A thread of a handle could not be started.
    #[error("a thread cannot be started: {reason}")]
    Thread {
        /// What the system says.
        reason: String,
    },
    /// Operations of a batch failed. It comes down to what the first of them does.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// A snapshot could not be taken or restored.
    #[error(transparent)]
    Snapshot(Box<SnapshotError>),
    /// A verb, connection or registration failed.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// An operation on a table failed.
    #[error(transparent)]
    Index(IndexError),
}

/// Some operations of a batch failed: each of the others is done, and its outcome was told.
///
/// ```
/// # use farslot::{ErrorKind, FieldSize, Store, TableOptions};
/// # fn main() -> Result<(), farslot::StoreError> {
/// # let store = Store::embedded()?;
/// # store.create("codes", &TableOptions::new(8).values(FieldSize::Fixed(4)))?;
/// # let codes = store.table("codes")?;
/// let records: [(&[u8], &[u8]); 3] = [(b"fr", b"0033"), (b"de", b"+49"), (b"pl", b"0048")];
/// let failed = codes.put_many(&records, |_, new| assert!(new)).unwrap_err();
/// for (number, error) in failed.failures() {
///     assert_eq!((*number, error.kind()), (1, ErrorKind::DoesNotFit));
/// }
/// assert!(codes.contains_key(b"fr")? && codes.contains_key(b"pl")?);
/// # Ok(())
/// # }
/// ```
///
/// `?` makes it a [`StoreError::Batch`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchError {
    operations: usize,
    /// In the order of their numbers; one at least.
    failures: Vec<(usize, StoreError)>,
}

impl BatchError {
    /// One of so many operations, of which these failed: one at least, in the order of the numbers.
    pub(crate) const fn of(operations: usize, failures: Vec<(usize, StoreError)>) -> Self {
        Self {
            operations,
            failures,
        }
    }

    /// How many operations the batch had.
    #[must_use]
    pub const fn operations(&self) -> usize {
        self.operations
    }

    /// The number in the batch of each operation that failed, and why it did, in the order of these
    /// numbers. There is one at least.
    #[must_use]
    pub const fn failures(&self) -> &[(usize, StoreError)] {
        self.failures.as_slice()
    }

    /// Why the first that failed did.
    #[must_use]
    pub const fn first(&self) -> &StoreError {
        &self.failures()[0].1
    }

    /// The same, where which of the batch it was means nothing to whoever is told.
    #[must_use]
    pub fn into_first(mut self) -> StoreError {
        self.failures.swap_remove(0).1
    }
}

/// The failures, in the order of their numbers.
impl IntoIterator for BatchError {
    type Item = (usize, StoreError);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.failures.into_iter()
    }
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (failed, all) = (self.failures.len(), self.operations);
        let (number, error) = &self.failures[0];
        write!(
            f,
            "{failed} of {all} operations failed, the first of them number {number}: {error}"
        )
    }
}

impl std::error::Error for BatchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(self.first())
    }
}

impl From<IndexError> for StoreError {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::Fabric(error) => Self::Fabric(error),
            IndexError::NotBuildable { scheme } => Self::NotBuildable { scheme },
            error => Self::Index(error),
        }
    }
}

impl StoreError {
    /// What it comes down to, whichever layer has said it.
    ///
    /// ```
    /// use farslot::{ErrorKind, FieldSize, Store, TableOptions};
    ///
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let store = Store::embedded()?;
    /// store.create("codes", &TableOptions::new(8).values(FieldSize::Fixed(4)))?;
    /// let codes = store.table("codes")?;
    /// match codes.put(b"de", b"+49") {
    ///     Err(error) if error.kind() == ErrorKind::DoesNotFit => {
    ///         println!("4 bytes, please: {error}");
    ///     }
    ///     Err(error) => return Err(error),
    ///     Ok(new) => assert!(new),
    /// }
    /// # assert_eq!(codes.get(b"de")?, None);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::UnknownScheme { .. }
            | Self::BadAddress { .. }
            | Self::BadName { .. }
            | Self::BadGrant { .. }
            | Self::TooSmall { .. }
            | Self::NotServable { .. }
            | Self::MissingNodes { .. }
            | Self::ConflictingTables { .. } => ErrorKind::BadInput,
            Self::TableExists { .. } => ErrorKind::TableExists,
            Self::NoSuchTable { .. } => ErrorKind::NoSuchTable,
            Self::TooManyTables { .. } | Self::OutOfMemory { .. } | Self::ClientMemory { .. } => {
                ErrorKind::OutOfMemory
            }
            Self::DamagedCatalog { .. } | Self::DamagedMap { .. } | Self::HalfRestored => {
                ErrorKind::Damaged
            }
            Self::CreationCancelled { .. }
            | Self::CatalogContended { .. }
            | Self::BeingCleared { .. }
            | Self::Conflict { .. }
            | Self::ChangeCancelled => ErrorKind::Contended,
            Self::TableGone { .. } => ErrorKind::TableGone,
            Self::NotBuildable { .. }
            | Self::NotTransactional { .. }
            | Self::NotOrdered { .. }
            | Self::NoQueue { .. }
            | Self::NotExpiring { .. } => ErrorKind::Unsupported,
            Self::NoNumber { .. }
            | Self::LongNumber { .. }
            | Self::OtherType { .. }
            | Self::TransactionTooLarge { .. } => ErrorKind::DoesNotFit,
            Self::FullQueue { .. } => ErrorKind::Full,
            Self::HandleClosed => ErrorKind::Closed,
            Self::QueueFull => ErrorKind::Busy,
            Self::Batch(error) => error.first().kind(),
            Self::Snapshot(error) => ErrorKind::of_snapshot(error),
            Self::WorkerPanicked | Self::Thread { .. } => ErrorKind::Other,
            Self::Node { error, .. } | Self::Fabric(error) => ErrorKind::of_fabric(error),
            Self::Index(error) => ErrorKind::of_index(error),
            Self::NoRoom(error) => ErrorKind::of_index(&error.cause),
        }
    }

    /// The fabric's error, where the fabric is what failed: under a table, at a node of several, or
    /// without either. `None` of a batch, whose operations may have failed in several ways.
    ///
    /// ```
    /// # use farslot::{FabricError, Store};
    /// let failed = Store::open("shm://nowhere").err().unwrap();
    /// assert!(matches!(failed.fabric(), Some(FabricError::NoSuchRegion { .. })));
    /// ```
    #[must_use]
    pub const fn fabric(&self) -> Option<&FabricError> {
        match self {
            Self::Fabric(error)
            | Self::Index(IndexError::Fabric(error))
            | Self::Node { error, .. } => Some(error),
            _ => None,
        }
    }

    /// Whether the operation may have taken effect, or may still, although it failed. Of a batch,
    /// whether any of it has, or may have: what did not fail has.
    #[must_use]
    pub fn may_have_taken_effect(&self) -> bool {
        match self {
            Self::Batch(error) => {
                let failures = error.failures();
                let may_have = |(_, error): &(usize, Self)| error.may_have_taken_effect();
                failures.len() < error.operations() || failures.iter().any(may_have)
            }
            Self::Fabric(error) | Self::Node { error, .. } => error.may_have_taken_effect(),
            Self::Index(error) => error.may_have_taken_effect(),
            Self::WorkerPanicked => true,
            _ => false,
        }
    }

    /// The same error of something of which other parts may have been sent.
    pub(crate) fn in_doubt(self) -> Self {
        match self {
            Self::Fabric(error) => Self::Fabric(error.in_doubt()),
            Self::Index(IndexError::Fabric(error)) => IndexError::Fabric(error.in_doubt()).into(),
            Self::Node { address, error } => Self::Node {
                address,
                error: error.in_doubt(),
            },
            error => error,
        }
    }

    /// The same error of a table that has another name until it is whole.
    pub(crate) fn of_table(mut self, name: &str) -> Self {
        match &mut self {
            Self::OutOfMemory { table, .. } => *table = name.into(),
            Self::NoRoom(refusal) => refusal.table = name.into(),
            _ => {}
        }
        self
    }
}

/// What there is for transactions in place of a table that takes no part.
fn way_out(name: &str, scheme: &str) -> String {
    if scheme == SchemeKind::Queue.name() {
        return ": its items have no keys that could be locked".into();
    }
    format!("; farslot copy {name} NAME --scheme chained makes a copy that does")
}

/// The error of an option that no table can have.
pub(crate) fn bad_option(
    option: &'static str,
    value: impl ToString,
    limit: impl Into<String>,
) -> StoreError {
    let (value, limit) = (value.to_string(), limit.into());
    IndexError::BadOption {
        option,
        value,
        limit,
    }
    .into()
}
