//! What errors come down to.

use crate::snapshot::error::SnapshotError;
use farslot_fabric::FabricError;
use farslot_index::IndexError;

/// What a [`StoreError`](crate::StoreError) comes down to, for who decides by it what to do next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No slot is left for a new key. The table goes on serving.
    Full,
    /// No memory is left: for a record, for a table to grow, or for a table in the store.
    OutOfMemory,
    /// A key or a value that the table does not hold, mostly of another size.
    DoesNotFit,
    /// Another client is the table's only writer, or has become it.
    WriterBusy,
    /// The table never changes again.
    Sealed,
    /// The table is to be built whole, and has not been.
    NotBuilt,
    /// The scheme of the table cannot do that.
    Unsupported,
    /// There is no such table.
    NoSuchTable,
    /// The table was dropped, cleared or renamed by another client. What there is now can be
    /// opened.
    TableGone,
    /// There is a table of that name.
    TableExists,
    /// An address, a name or an option that cannot be used.
    BadInput,
    /// A node cannot be reached.
    NodeDown,
    /// A node did not answer in time: what was asked of it may have taken effect.
    TimedOut,
    /// A node came back empty.
    NodeRestarted,
    /// The secret or the grant does not allow it.
    AccessDenied,
    /// Others were faster, time and again.
    Contended,
    /// Too much is under way: later there may be room.
    Busy,
    /// What was used was closed by its program.
    Closed,
    /// What is in the memory is not what clients leave there.
    Damaged,
    /// Anything else; the error says what.
    Other,
}

impl ErrorKind {
    /// All of them, in their order.
    pub const ALL: [Self; 20] = [
        Self::Full,
        Self::OutOfMemory,
        Self::DoesNotFit,
        Self::WriterBusy,
        Self::Sealed,
        Self::NotBuilt,
        Self::Unsupported,
        Self::NoSuchTable,
        Self::TableGone,
        Self::TableExists,
        Self::BadInput,
        Self::NodeDown,
        Self::TimedOut,
        Self::NodeRestarted,
        Self::AccessDenied,
        Self::Contended,
        Self::Busy,
        Self::Closed,
        Self::Damaged,
        Self::Other,
    ];

    /// The name that counters have for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::OutOfMemory => "out_of_memory",
            Self::DoesNotFit => "does_not_fit",
            Self::WriterBusy => "writer_busy",
            Self::Sealed => "sealed",
            Self::NotBuilt => "not_built",
            Self::Unsupported => "unsupported",
            Self::NoSuchTable => "no_such_table",
            Self::TableGone => "table_gone",
            Self::TableExists => "table_exists",
            Self::BadInput => "bad_input",
            Self::NodeDown => "node_down",
            Self::TimedOut => "timed_out",
            Self::NodeRestarted => "node_restarted",
            Self::AccessDenied => "access_denied",
            Self::Contended => "contended",
            Self::Busy => "busy",
            Self::Closed => "closed",
            Self::Damaged => "damaged",
            Self::Other => "other",
        }
    }

    pub(crate) const fn of_fabric(error: &FabricError) -> Self {
        match error {
            FabricError::TimedOut { .. }
            | FabricError::ConnectTimedOut { .. }
            | FabricError::SlowLink { .. } => Self::TimedOut,
            outage if outage.is_outage() => Self::NodeDown,
            FabricError::NodeRestarted { .. } => Self::NodeRestarted,
            FabricError::Reclaimed { .. } => Self::TableGone,
            FabricError::Deposed { .. } => Self::WriterBusy,
            FabricError::AccessDenied { .. }
            | FabricError::KeyRefused { .. }
            | FabricError::WrongKey { .. }
            | FabricError::GrantRevoked { .. }
            | FabricError::WrongUser { .. }
            | FabricError::Tls { .. }
            | FabricError::NotAdmitted { .. } => Self::AccessDenied,
            FabricError::Memory { .. } | FabricError::BuffersExhausted { .. } => Self::OutOfMemory,
            FabricError::BadName { .. }
            | FabricError::NameTaken { .. }
            | FabricError::SecretTooShort { .. }
            | FabricError::Insecure { .. }
            | FabricError::BadTls { .. }
            | FabricError::Unresolvable { .. } => Self::BadInput,
            FabricError::NoSuchRegion { .. } => Self::NodeDown,
            FabricError::NotFarslot { .. }
            | FabricError::FormatVersion { .. }
            | FabricError::DamagedHeader { .. }
            | FabricError::Protocol { .. } => Self::Damaged,
            _ => Self::Other,
        }
    }

    pub(crate) const fn of_index(error: &IndexError) -> Self {
        match error {
            IndexError::Full { .. } => Self::Full,
            IndexError::HeapFull { .. } | IndexError::OutOfMemory { .. } => Self::OutOfMemory,
            IndexError::EmptyKey
            | IndexError::KeyLength { .. }
            | IndexError::ValueLength { .. }
            | IndexError::SixtyThreeBits { .. }
            | IndexError::ReservedPattern { .. } => Self::DoesNotFit,
            IndexError::WriterBusy { .. }
            | IndexError::WriterAlive { .. }
            | IndexError::WriterLost { .. } => Self::WriterBusy,
            IndexError::Sealed { .. } => Self::Sealed,
            IndexError::NotBuilt => Self::NotBuilt,
            IndexError::MultiKey { .. }
            | IndexError::NotBuildable { .. }
            | IndexError::OnlyGrows { .. }
            | IndexError::NoKeys { .. }
            | IndexError::NoQueue { .. }
            | IndexError::NotAtomic { .. } => Self::Unsupported,
            IndexError::BadOption { .. } | IndexError::DuplicateKey { .. } => Self::BadInput,
            IndexError::SingleKeys { .. } => Self::AccessDenied,
            IndexError::AtOwner { .. } => Self::Unsupported,
            // A writer may have been stopped there: no reader can tell that from damage.
            IndexError::Contended { .. }
            | IndexError::Unreadable { .. }
            | IndexError::TurnOver { .. } => Self::Contended,
            IndexError::BadDirectory { .. }
            | IndexError::BadElement { .. }
            | IndexError::BadFunction { .. } => Self::Damaged,
            IndexError::Fabric(error) => Self::of_fabric(error),
            _ => Self::Other,
        }
    }

    pub(crate) const fn of_snapshot(error: &SnapshotError) -> Self {
        match error {
            SnapshotError::File { .. } => Self::Other,
            SnapshotError::Damaged { .. } => Self::Damaged,
            SnapshotError::Version { .. }
            | SnapshotError::NodeCount { .. }
            | SnapshotError::OnePart { .. }
            | SnapshotError::NoSuchNode { .. }
            | SnapshotError::WhichPart { .. }
            | SnapshotError::OtherPart { .. }
            | SnapshotError::PartMissing { .. } => Self::BadInput,
            SnapshotError::Lost { .. } => Self::NodeRestarted,
            SnapshotError::Untrusted { .. } => Self::AccessDenied,
            SnapshotError::InUse { .. } => Self::Busy,
            SnapshotError::Stopped => Self::Closed,
            SnapshotError::Moved { .. } => Self::WriterBusy,
            SnapshotError::Replaced { .. } => Self::TableGone,
        }
    }
}
