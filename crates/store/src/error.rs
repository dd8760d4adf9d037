//! What can go wrong with a store or a table.

use farslot_fabric::FabricError;
use farslot_index::IndexError;

/// The result of anything that a store or a table does.
pub type Result<T> = std::result::Result<T, StoreError>;

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
    /// The store's memory does not hold another table of that size.
    #[error("the table needs {requested} bytes; of the store's {total}, {free} are free")]
    OutOfMemory {
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
    /// An entry of the catalog cannot be read.
    #[error("entry {entry} of the catalog is damaged: {reason}")]
    DamagedCatalog {
        /// The entry's number.
        entry: usize,
        /// What is wrong with it.
        reason: String,
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
    /// A fabric that cannot be served by a process.
    #[error(
        "{address:?} cannot be served: only shm://, tcp:// and verbs:// addresses of one node have an owner process"
    )]
    NotServable {
        /// The address as given.
        address: String,
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
    /// A verb, connection or registration failed.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// An operation on a table failed.
    #[error(transparent)]
    Index(IndexError),
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
    /// Whether the operation may have taken effect, or may still, although it failed.
    #[must_use]
    pub const fn may_have_taken_effect(&self) -> bool {
        match self {
            Self::Fabric(error) | Self::Node { error, .. } => error.may_have_taken_effect(),
            Self::Index(error) => error.may_have_taken_effect(),
            _ => false,
        }
    }
}
