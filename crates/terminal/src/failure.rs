//! Why a command failed, what to try next, and the exit code that says so.

use farslot::admission::{Refusal, TlsFailure};
use farslot::health::{NoRoom, RoomLimit};
use farslot::snapshots::{SnapshotError, is_unfinished};
use farslot::{Address, BatchError, ErrorKind, FabricError, IndexError, StoreError};
use farslot_bench::BenchError;
use std::io;
use std::process::ExitCode;

/// The result of a command.
pub type Result<T> = std::result::Result<T, Failure>;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The command line asks for something that cannot be meant: exit code 2.
    #[error("{0}")]
    Usage(String),
    /// The store or the table could not do it.
    #[error("{error}")]
    Store {
        /// What the store said.
        error: Box<StoreError>,
        /// Where the store is.
        address: Option<Address>,
    },
    /// Another client is the writer of a table that admits one.
    #[error("client {writer} is the writer of {table:?}, which admits one at a time")]
    WriterBusy {
        /// The table.
        table: String,
        /// The writer's number.
        writer: u64,
        /// Where the store is.
        address: Option<Address>,
    },
    /// The writer that was to be taken over from is alive.
    #[error("process {pid} is the writer of {table:?} and is alive (stopped?)")]
    WriterAlive {
        /// The table.
        table: String,
        /// The writer's process.
        pid: u32,
        /// Where the store is.
        address: Option<Address>,
    },
    /// A file or a stream failed.
    #[error("{stream}: {error}")]
    Io {
        /// The file or the stream.
        stream: String,
        /// What the system said.
        error: io::Error,
    },
    /// Anything else that went wrong, in words.
    #[error("{0}")]
    Failed(String),
    /// The answer is negative and has been told already: exit code 1 and nothing more to say.
    #[error("")]
    Reported,
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store {
            error: error.into(),
            address: None,
        }
    }
}

/// That of the first operation which failed.
impl From<BatchError> for Failure {
    fn from(error: BatchError) -> Self {
        error.into_first().into()
    }
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        match error {
            error if error.is_usage() => Self::Usage(error.to_string()),
            BenchError::Store(error) => error.into(),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io {
            stream: "output".into(),
            error,
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        io::Error::from(error).into()
    }
}

impl Failure {
    /// The failure of reading or writing `stream`.
    pub fn io(stream: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let stream = stream.into();
        move |error| Self::Io { stream, error }
    }

    /// The same failure, knowing which store it was about.
    #[must_use]
    pub fn at(mut self, address: &Address) -> Self {
        if let Self::Store { address: known, .. }
        | Self::WriterBusy { address: known, .. }
        | Self::WriterAlive { address: known, .. } = &mut self
        {
            known.get_or_insert_with(|| address.clone());
        }
        self
    }

    /// Whether nobody reads the output any more (`| head`), which is no failure.
    #[must_use]
    pub fn is_closed_output(&self) -> bool {
        matches!(self, Self::Io { error, .. } if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Whether the grant does not allow what was asked for.
    #[must_use]
    pub fn is_refused_right(&self) -> bool {
        matches!(self, Self::Store { error, .. } if error.kind() == ErrorKind::AccessDenied)
    }

    /// 2 for usage, 1 for everything else.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Store { error, .. } if is_usage(error) => ExitCode::from(2),
            _ => ExitCode::FAILURE,
        }
    }

    /// What the user can do about it, where that is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let at = |address: &Option<Address>| {
            let address = address.as_ref();
            address.map_or_else(|| "ADDRESS".into(), ToString::to_string)
        };
        match self {
            Self::Store { error, address } => hint_for(error, &at(address)),
            Self::WriterBusy { table, address, .. } => Some(format!(
                "wait until it is done; if it was killed: farslot -a {} take-over {table}",
                at(address)
            )),
            Self::WriterAlive {
                table,
                pid,
                address,
            } => Some(format!(
                "wait until it is done, or end it: kill {pid}   (kill -9 {pid} if it is stopped)\n  \
                 or take over from it all the same, which may cost one record: \
                 farslot -a {} take-over --force {table}",
                at(address)
            )),
            _ => None,
        }
    }
}

/// Whether the store refuses what no store could do: options, names and addresses that cannot be
/// meant.
const fn is_usage(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::UnknownScheme { .. }
            | StoreError::BadAddress { .. }
            | StoreError::BadName { .. }
            | StoreError::BadGrant { .. }
            | StoreError::NotServable { .. }
            | StoreError::Index(IndexError::BadOption { .. })
    )
}

fn hint_for(error: &StoreError, at: &str) -> Option<String> {
    let hint = match error {
        StoreError::NoSuchTable { name, .. } => {
            format!(
                "make it: farslot -a {at} create {name} --capacity 100000   \
                 (farslot load makes it with --create)"
            )
        }
        StoreError::TableExists { name } if is_unfinished(name) => {
            format!(
                "it is what a restore that was stopped has left, or one that goes on: \
                 restore again, or farslot -a {at} drop {name}"
            )
        }
        StoreError::TableExists { .. } => {
            format!("use another name, or see what is there: farslot -a {at} stat")
        }
        StoreError::OutOfMemory { .. } => {
            "ask for less (--capacity, --max-key, --max-value, --heap, --reserve-bytes), or serve more: \
             farslot serve --memory"
                .into()
        }
        StoreError::Index(IndexError::BadOption {
            option: "heap bytes",
            ..
        }) => "ask for another heap (--heap), or for fewer or smaller records (--capacity, \
             --max-key, --max-value)"
            .into(),
        StoreError::Index(IndexError::KeyLength { .. } | IndexError::ValueLength { .. }) => {
            "a table's sizes are set when it is made: farslot create --max-key --max-value".into()
        }
        StoreError::Index(IndexError::Full { .. }) => {
            "dump it and load it into a larger one: farslot load --create=CAPACITY".into()
        }
        StoreError::NoRoom(no_room) => no_room_hint(no_room, at),
        StoreError::Index(IndexError::HeapFull { .. }) => format!(
            "see which tables have the memory: farslot -a {at} stat\n  \
             then remove records, drop a table, or serve more: farslot serve --memory\n  \
             a table of a capacity is dumped and loaded into a larger one (load --create=CAPACITY); \
             one made with --evict is never full"
        ),
        StoreError::Index(IndexError::Sealed { .. } | IndexError::NotEmpty { .. }) => {
            "dump it and load it into a new one: farslot load --create".into()
        }
        StoreError::Index(IndexError::OnlyGrows { .. }) => {
            "copy it to a table whose records change: farslot copy SET TABLE --scheme race".into()
        }
        StoreError::Index(IndexError::NotBuilt) => {
            "its builder may be at work yet; if it was killed, load the table under another name"
                .into()
        }
        StoreError::Index(IndexError::MultiKey { .. }) => {
            "such a table is built whole: farslot load --seal".into()
        }
        StoreError::Index(IndexError::WriterLost { .. }) => {
            "somebody took over from this client as if it had been killed: do it again".into()
        }
        StoreError::Node { address, error } => return fabric_hint(error, address),
        StoreError::MissingNodes { .. } => {
            "name all of them in one address: -a tcp://HOST:PORT,HOST:PORT,...".into()
        }
        StoreError::TableGone { name } => {
            format!("whoever dropped it did not come to an end: farslot -a {at} drop {name}")
        }
        StoreError::Snapshot(error) => return snapshot_hint(error, at),
        StoreError::Fabric(error) => return fabric_hint(error, at),
        _ => return None,
    };
    Some(hint)
}

/// What helps a table that has no room, by what it lacks.
fn no_room_hint(no_room: &NoRoom, at: &str) -> String {
    let NoRoom { table, scheme, .. } = no_room;
    match no_room.limit {
        RoomLimit::Table => format!(
            "remove records, or copy it to a larger table: \
             farslot -a {at} copy {table} NEW-TABLE --scheme {scheme} --capacity N\n  \
             or dump it and load it into one: farslot load --create=CAPACITY; \
             a table without a capacity grows, and one made with --evict is never full"
        ),
        RoomLimit::Heap => format!(
            "it was made with --heap: remove records, or dump it and load it into a table with \
             more: farslot -a {at} create NEW-TABLE --heap SIZE\n  \
             one made with --evict is never full"
        ),
        _ => format!(
            "see which tables have the memory: farslot -a {at} stat\n  \
             then remove records, drop a table, or serve more: farslot serve --memory; \
             one made with --evict is never full"
        ),
    }
}

fn snapshot_hint(error: &SnapshotError, at: &str) -> Option<String> {
    let hint = match error {
        SnapshotError::Lost { table, .. } => format!(
            "restore what is lost: farslot -a {at} restore DIRECTORY {table} --node HOST:PORT\n  \
             or write it without, and keep the last one as well (--keep): \
             farslot -a {at} snapshot DIRECTORY {table} --force"
        ),
        SnapshotError::PartMissing { .. } => {
            "take one that was written before the node lost it: --older 1".into()
        }
        SnapshotError::NodeCount { .. } => {
            "name all of its nodes in one address; or restore one node's part: --node HOST:PORT; \
             or have all of it on fewer nodes: --fewer-nodes"
                .into()
        }
        SnapshotError::WhichPart { .. } => {
            "say by which address the table's creator named the node: farslot restore --node HOST:PORT, \
             farslot serve --restore-as HOST:PORT"
                .into()
        }
        _ => return None,
    };
    Some(hint)
}

fn fabric_hint(error: &FabricError, at: &str) -> Option<String> {
    let hint = match error {
        FabricError::NoSuchRegion { name } => {
            format!("start it: farslot serve shm://{name} --memory 1GiB &")
        }
        FabricError::NameTaken { name, .. } => {
            format!("use what is served there (farslot -a shm://{name} stat), or another name")
        }
        FabricError::ConnectionRefused { address } => {
            let scheme = match at.split_once("://") {
                Some((scheme @ ("verbs" | "tcps"), _)) => scheme,
                _ => "tcp",
            };
            format!("start it: farslot serve {scheme}://{address} --memory 1GiB &")
        }
        FabricError::AddressInUse { .. } => {
            "use another port, or 0 for any that is free: farslot serve tcp://HOST:0".into()
        }
        FabricError::CannotListen { .. } => {
            "use an address of this machine (0.0.0.0: all that it has) and a port that you may serve at: \
             mostly 1024 and up"
                .into()
        }
        FabricError::Insecure { .. } => {
            "make a secret: head -c 32 /dev/urandom | base64 > secret; chmod 600 secret\n  \
             then serve and use it with --secret-file secret, or tell `farslot serve` --trust 10.0.0.0/8 \
             (your network) or --insecure"
                .into()
        }
        FabricError::Tls { address, failure } => match failure {
            TlsFailure::TlsNeeded => format!("use -a tcps://{address}"),
            TlsFailure::UnknownAuthority | TlsFailure::OtherFingerprint => {
                "see whether it is the right node; if so, name its authority with --tls-ca FILE, or the \
                 fingerprint that `farslot serve` printed with --tls-pin"
                    .into()
            }
            TlsFailure::OtherName => {
                "use a host that the certificate is for, or trust the certificate itself: --tls-pin".into()
            }
            TlsFailure::Expired => {
                "have the node use a new one: kill -HUP has --tls-cert read again".into()
            }
            TlsFailure::Refused { .. } => {
                "use a certificate of the authority that the node was given by --tls-client-ca".into()
            }
            _ => return None,
        },
        FabricError::NotAdmitted {
            reason: Refusal::CertificateNeeded,
            ..
        } => "show a certificate that opens it, --tls-cert FILE --tls-key FILE, and name the grant, --grant NAME"
            .into(),
        FabricError::NoTls => "build it with the cargo feature `tls`, which is on by default".into(),
        FabricError::NotAdmitted {
            reason: Refusal::SecretNeeded | Refusal::WrongSecret,
            ..
        } => "give the secret, --secret-file FILE or FARSLOT_SECRET, and the grant that it is of, --grant NAME; \
              a grant of tables begins when they are made"
            .into(),
        FabricError::NotAdmitted {
            reason: Refusal::NodeUnproved,
            ..
        } => "serve it with the same secret, or use it without --secret-file and FARSLOT_SECRET"
            .into(),
        FabricError::NotAdmitted {
            reason: Refusal::NoSuchGrant,
            ..
        } => "name one that it has, with --grant NAME, or leave that out; one of tables begins when they are made"
            .into(),
        FabricError::AccessDenied { .. } => {
            "the grant that this store was opened with does not allow it: see --grant".into()
        }
        FabricError::SecretTooShort { .. } => {
            "make one: head -c 32 /dev/urandom | base64 > secret; chmod 600 secret".into()
        }
        FabricError::NodeStopped { .. } if at.starts_with("tcp") => format!(
            "the process that served {at} has ended, and its memory with it, or the network is down"
        ),
        FabricError::NodeRestarted { .. } => format!(
            "restore what it had (farslot serve --restore, or farslot restore DIRECTORY --node {at}), or go on \
             without: farslot accept-loss TABLE"
        ),
        FabricError::NodeStopped { .. } => {
            format!("the process that served {at} has ended, and its memory with it")
        }
        FabricError::Memory { .. } => "ask for less: --memory SIZE".into(),
        _ => return None,
    };
    Some(hint)
}
