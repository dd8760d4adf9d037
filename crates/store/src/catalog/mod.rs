//! The tables of a store, kept in the store's own memory: whoever can reach the memory can open its
//! tables by name, and nobody has to be asked.
//!
//! ```text
//! 0     the client that changes the catalog | the mark: bytes that were ever taken |
//!       entries that were ever used | the phase of the node | repairs
//! 4096  entry 0 | entry 1 | ... | entry 255        1 KiB each: see `entry`
//! 260 Ki  tables
//! ```
//! A region of zeros is an empty catalog. Which memory is taken, the entries say: a table's record
//! has its place. Whoever changes the catalog does so alone (`lock`), in steps of which each leaves
//! it whole; whoever reads it waits for nobody. What stands in it was written by another client, or
//! by something else: an entry that no client can have left is named, and passed over, and the
//! other tables open all the same (`listing`). Such entries can be cleared (`repair`).
//!
//! A client whose grant opens single keys may read none of it. Its node's owner tells it, by calls,
//! of the tables whose keys are open to it (`telling`).
//!
//! Each node of a store has a catalog of its own. A table over several nodes stands in each of
//! theirs, with the part of it that this node has and, behind that part, the map of the whole: see
//! [`Partition`] and [`PartitionMap`].

mod change;
#[cfg(test)]
mod damage_tests;
mod entry;
mod listing;
mod lock;
pub(crate) mod pool;
mod reclaim;
pub(crate) mod record;
mod region;
mod repair;
mod space;
mod telling;
#[cfg(test)]
mod telling_tests;
mod zeros;

pub(crate) use change::{GRACE, NewPartition};
pub(crate) use entry::closed;
pub use listing::{DamagedEntry, Listing};
pub(crate) use reclaim::ReclaimScope;
pub(crate) use record::RESTORING_PART;
pub use record::{
    MemoryUse, OnRestart, Partition, PartitionMap, PartitionNode, Scheme, TableRecord,
};
pub use region::MOST_TABLES;
pub(crate) use region::at;
pub(crate) use region::{CATALOG_BYTES, Catalog, LEASE, PHASE_AT, Phase};
pub use repair::Damage;
pub(crate) use telling::{LONGEST_TOLD, is_restoring, map_of, record_of, renamed, tables_from};

use farslot_fabric::{NodeId, RemoteAddr};

/// Where a table on a node lies: by the addresses of its own region, if it is made of segments.
pub(crate) fn table_at(node: NodeId, record: &TableRecord) -> RemoteAddr {
    match pool::segments_of(node, record) {
        Some(segments) => RemoteAddr {
            region: segments.region,
            offset: 0,
            ..segments.list
        },
        None => at(node, record.offset),
    }
}

/// Where the word is that is the record's id for as long as the memory is the table's.
pub(crate) fn id_at(node: NodeId, record: &TableRecord) -> RemoteAddr {
    region::entry_at(node, record.entry).plus(entry::ID_AT)
}
