//! The tables of a store, kept in the store's own memory: whoever can reach the memory can open its
//! tables by name, and nobody has to be asked.
//!
//! ```text
//! 0     the client that changes the catalog | the mark: bytes that were ever taken |
//!       a count, with every record that is published or replaced | the phase of the node |
//!       repairs
//! 4096  words of entry 0 | words of entry 1 | ...       32 bytes each: see `entry`
//!       record of entry 0 | record of entry 1 | ...     992 bytes each
//!       words of the segments: see `pool`
//!       tables
//! ```
//! A node has 256 entries if it lends less than 32 MiB, 4,096 from 256 MiB on, and in between one
//! for each 64 KiB, down to a power of two. So the catalog takes at most 1.6% of a node, or 292 KiB
//! of a small one. The number follows from the region's length, which every client knows, so no
//! word says it that could be damaged. Allocating entries as tables are made would save only pages
//! that were never touched, which take no memory anyway, and clients would have to follow pointers.
//!
//! **Finding a table.** The hash of a name selects a bucket of 64 entries. A new table takes a free
//! entry of its bucket, or the next free one behind it. A client that opens a table reads the
//! header and the words of the bucket side by side, then the record of the entry whose word has a
//! part of the hash: three READs in two round trips. If the bucket was full when the table was
//! made, the client reads the words of all entries besides, 512 of them by each READ. With 3,072
//! tables in 4,096 entries that is one table in a thousand; in a full catalog it is one in
//! fourteen. If the name is still not found, the client reads all records, so that a table is found
//! whatever the words of the hashes say. No search stops at an entry that is damaged, dropped or
//! free.
//!
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
mod clearing;
#[cfg(test)]
mod crowded_tests;
#[cfg(test)]
mod damage_tests;
mod entry;
#[cfg(test)]
mod finding_tests;
mod listing;
mod lock;
mod parsing;
mod phases;
pub(crate) mod pool;
mod reclaim;
pub(crate) mod record;
mod region;
mod repair;
mod reserve;
mod sizes;
mod space;
mod telling;
#[cfg(test)]
mod telling_tests;
mod zeros;

pub(crate) use change::{GRACE, NewPartition};
pub(crate) use entry::closed;
pub use listing::Listing;
pub use parsing::DamagedEntry;
pub(crate) use reclaim::ReclaimScope;
pub(crate) use record::RESTORING_PART;
pub use record::{
    MemoryUse, OnRestart, Partition, PartitionMap, PartitionNode, Scheme, TableRecord,
};
pub(crate) use region::{Catalog, LEASE, PHASE_AT, Phase, at};
pub use repair::Damage;
pub use sizes::{MOST_TABLES, most_tables};
pub(crate) use sizes::{catalog_bytes, check_size};
pub(crate) use telling::{LONGEST_TOLD, ReplacedIds, is_restoring, map_of, record_of, tables_from};

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
