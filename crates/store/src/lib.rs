//! Far-memory hash tables: open a store by its address, and its tables by their names.
//!
//! ```
//! use farslot::{FieldSize, Store, TableOptions};
//!
//! # fn main() -> Result<(), farslot::StoreError> {
//! let store = Store::embedded()?;
//! let options = TableOptions::new(1_000).values(FieldSize::UpTo(100));
//! store.create("colours", &options)?;
//!
//! // A table belongs to one thread; every thread opens its own.
//! let colours = store.table("colours")?;
//! colours.put(b"sky", b"blue")?;
//! assert_eq!(colours.get(b"sky")?.as_deref(), Some(&b"blue"[..]));
//! assert_eq!(colours.get(b"night")?, None);
//! # Ok(())
//! # }
//! ```
//!
//! The address decides where the memory is; nothing else changes:
//!
//! | address | memory |
//! |---|---|
//! | `embedded` | of this process |
//! | `shm://NAME` | of a process on this host, served under that name |
//! | `tcp://HOST:PORT` | of a process on any host, served at that address |
//! | `tcps://HOST:PORT` | the same, under TLS: [`OpenOptions::tls`], and the feature `tls` |
//! | `tcp://HOST:PORT,HOST:PORT,...` | of several processes: tables are sharded over all of them |
//! | `sim://PROFILE?seed=N` | behind a simulated NIC (a profile's name or file), in virtual time |
//!
//! The feature `tracing` makes operations spans of the crate `tracing`, for OpenTelemetry for
//! example.
//! The feature `unstable` opens the layers below (`fabric`, `index`, `model`) for programs that
//! measure or extend them. What it opens may change in any version.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod address;
mod asking;
#[cfg(feature = "unstable")]
pub mod bare;
mod cache;
#[cfg(not(feature = "unstable"))]
mod calls;
#[cfg(feature = "unstable")]
pub mod calls;
mod catalog;
mod client_metrics;
mod clients;
mod coalesce;
mod cursor;
mod deduplicate;
mod duo;
mod error;
mod error_kind;
mod expiry;
mod fabrics;
mod failed_operations;
mod handle;
mod lease;
mod measured;
mod names;
mod no_room;
mod nodes;
mod open_options;
mod options;
mod owned;
mod pooled;
mod profile;
mod queue;
mod recent_log;
mod repair;
mod seeds;
mod server;
mod session;
mod sessions;
mod set;
mod shapes;
mod sharded;
mod slot_map;
mod snapshot;
mod store;
mod table;
#[cfg(feature = "tracing")]
mod traced;
mod transactions;
#[cfg(test)]
mod turns;
mod typed;

pub use address::Address;
pub use cache::Cache;
pub use catalog::TableRecord;
pub use catalog::{Listing, MOST_TABLES, MemoryUse, OnRestart, Partition};
pub use cursor::Cursor;
pub use error::{BatchError, Result, StoreError};
pub use error_kind::ErrorKind;
pub use expiry::{Expiry, Sweeper};
#[cfg(feature = "unstable")]
pub use farslot_fabric as fabric;
pub use farslot_fabric::{ByteCount, FabricError, Limits, Nanos, Rights, VerbKind};
#[cfg(feature = "unstable")]
pub use farslot_index as index;
pub use farslot_index::cuckoo::LookupOrder;
pub use farslot_index::heap::Evicting;
pub use farslot_index::linear::ReadPolicy;
pub use farslot_index::{
    FieldSize, IndexError, Occupancy, Operation, Outcome, Record, SchemeKind, SlotKind, Survey,
    Value,
};
#[cfg(feature = "unstable")]
pub use farslot_model as model;
pub use farslot_remote::ordered::{KeyRange, Pair};
pub use handle::{Closing, Handle, HandleOptions, Running};
pub use names::is_visible;
pub use open_options::{Access, OpenOptions, RECORD_LOCATIONS};
pub use options::TableOptions;
#[cfg(feature = "unstable")]
pub use profile::{NicProfileError, nic_profile, read_cost};
pub use queue::Queue;
pub use server::{Server, ServerOptions};
pub use store::Store;
pub use table::{Entries, Table};
pub use transactions::Transaction;
pub use typed::{Typed, TypedEntries};

pub mod admission {
    //! Who may use a store's memory, and how that is proved: secrets, grants, TLS.

    pub use crate::names::check_grant_name;
    pub use crate::server::grants::TableGrant;
    pub use crate::server::{DEFAULT_GRANT, READ_ONLY};
    pub use farslot_fabric::net::BACKLOG;
    pub use farslot_fabric::tcp::{
        Audit, AuditEvent, AuditKind, Clients, Fingerprint, Network, Rate, Refusal, Secret,
        TlsClient, TlsFailure, TlsServer, Trust, utc_time,
    };
}

pub mod health {
    //! What there is of nodes, of tables and of memory, and what is damaged.

    pub use crate::catalog::{Damage, DamagedEntry};
    pub use crate::no_room::{MemoryLeft, NoRoom, RoomLimit};
    pub use crate::nodes::{NodeReport, PartitionReport};
    pub use farslot_fabric::give_back_freed;
    pub use farslot_fabric::shm::available_memory;
    pub use farslot_index::BucketCounts;
    pub use farslot_index::cuckoo::Survey as CuckooSurvey;
    pub use farslot_index::duo::Survey as DuoSurvey;
    pub use farslot_index::linear::Survey as LinearSurvey;
    pub use farslot_index::race::Survey as RaceSurvey;
}

pub mod keeper {
    //! Memory of nodes that outlives their processes, because another process keeps it open: see
    //! [`Server::memory_to_keep`](crate::Server::memory_to_keep).

    pub use farslot_fabric::keep::{Keeper, Place, Taken, serve};
    pub use farslot_fabric::shm::NodeMemory;
}

pub mod layout {
    //! How tables lie in memory: what [`TableOptions`](crate::TableOptions) asks for, and
    //! [`TableRecord`](crate::TableRecord) says of one.

    pub use crate::catalog::most_tables;
    pub use crate::catalog::{PartitionMap, PartitionNode, Scheme};
    pub use crate::options::{HashKind, TableSpec};
    pub use crate::owned::{ChainedLayout, OrderedLayout, QueueLayout};
    pub use crate::set::SetLayout;
    pub use crate::shapes::{CuckooShape, DuoShape, RaceShape};
    pub use crate::slot_map::{HASH_SLOTS, MOST_NODES, SlotMap};
    pub use farslot_fabric::RemoteAddr;
    pub use farslot_index::cuckoo::CuckooLayout;
    pub use farslot_index::duo::DuoLayout;
    pub use farslot_index::heap::{LARGEST_RECORD, record_block_bytes, record_bytes};
    pub use farslot_index::linear::LinearLayout;
    pub use farslot_index::race::RaceLayout;
    pub use farslot_index::sealed::{SealedForm, SealedLayout};
    pub use farslot_index::{Hasher, KeyRule};
}

pub mod metrics {
    //! What clients and nodes count.

    pub use crate::calls::owner::later::LongCall;
    pub use crate::client_metrics::{
        ClientMetrics, LATENCY_BOUNDS, Latencies, SlowOperation, TableMetrics,
    };
    pub use crate::recent_log::RecentLog;
    pub use farslot_fabric::OperationClass;
    pub use farslot_fabric::counters::{CounterSnapshot, OperationCounters};
    pub use farslot_fabric::tcp::{AgentCounters, VerbFailure};
    pub use farslot_index::CacheCounts;
    pub use farslot_index::{
        FIND_OR_PUT, GET, GET_ALL, OPERATIONS, PUT, REMOVE, SCAN, UPDATE, UPKEEP,
    };
}

pub mod snapshots {
    //! Files of tables: see [`Store::snapshot`](crate::Store::snapshot).

    pub use crate::snapshot::{
        COPYING, OnProgress, RESTORING, RestoreOptions, SnapshotError, SnapshotInfo,
        SnapshotOptions, SnapshotProgress, check_snapshot, is_unfinished, list_snapshots,
        older_snapshot, remove_snapshots, snapshot_path,
    };
}

use farslot_index::WriterChange;
