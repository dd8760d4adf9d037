//! The catalog's place in a node's memory, and its header.

use super::entry::ENTRY_BYTES;
use crate::{Result, StoreError};
use farslot_fabric::{
    Endpoint, EndpointExt, FabricError, Nanos, NodeId, RegionId, RemoteAddr, Rights,
};
use farslot_index::race::SMALLEST_SEGMENT;
use std::time::Duration;

/// The most tables of a store.
pub const MOST_TABLES: usize = 256;

/// Byte of the word of the client that changes the catalog.
pub(super) const LOCK_AT: u64 = 0;
/// Byte of the mark: bytes, counted from the catalog's end, up to which memory was ever taken.
pub(super) const MARK_AT: u64 = 8;
/// Byte of the phase in which the node is.
pub(crate) const PHASE_AT: u64 = 24;
/// Byte of the word that counts how often damaged entries were cleared: tables that were made
/// before may have lost their parts here.
pub(super) const REPAIRS_AT: u64 = 32;
/// Words of the header.
pub(super) const HEADER_WORDS: usize = 5;

const ENTRIES_AT: u64 = 4096;
/// The words of the segments that the region has.
pub(super) const SEGMENTS_AT: u64 = ENTRIES_AT + (MOST_TABLES * ENTRY_BYTES) as u64;
/// The most segments of a region.
pub(super) const MOST_SEGMENTS: u64 = 4096;
/// The catalog's end: tables start behind it.
pub(crate) const CATALOG_BYTES: u64 = SEGMENTS_AT + MOST_SEGMENTS * 8;
/// Tables start at multiples of this.
pub(super) const TABLE_ALIGNMENT: u64 = 4096;
/// How long a client may go on using a table without having seen that it is there. It counts from
/// when the client asked, so it is the longest round trip of a link over which tables can be used.
pub(crate) const LEASE: Nanos = 1_500_000_000;
/// What is waited between two looks at something that another client is about to do.
pub(super) const PAUSE: Nanos = 1_000_000;

/// Bytes of a segment of a region of so many bytes.
pub(crate) const fn segment_bytes(region_bytes: u64) -> u64 {
    let bytes = region_bytes.div_ceil(MOST_SEGMENTS).next_power_of_two();
    if bytes < SMALLEST_SEGMENT {
        return SMALLEST_SEGMENT;
    }
    bytes
}

/// What clients may do at a node. Whoever keeps it may do all of that at any time
/// ([`EndpointCore::for_keeper`](farslot_fabric::EndpointCore::for_keeper)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub(crate) enum Phase {
    /// Everything. So it is where the word is none of the others.
    Serving = 0,
    /// Nothing: its tables are made from snapshots, and no other may take their names or their
    /// room.
    Restoring = 1,
    /// Reading: its last snapshots are taken. Each table's id word says so too.
    Ending = 2,
}

impl Phase {
    /// Refuses what this phase does not let clients do.
    pub(super) const fn admit(word: u64, node: NodeId, changes: bool) -> Result<()> {
        const RESTORING: u64 = Phase::Restoring as u64;
        const ENDING: u64 = Phase::Ending as u64;
        match word {
            RESTORING => Err(StoreError::Fabric(FabricError::Restoring { node })),
            ENDING if changes => Err(StoreError::Fabric(FabricError::Ending { node })),
            _ => Ok(()),
        }
    }
}

/// The catalog of one node, as one thread sees it.
pub(crate) struct Catalog<'e, E> {
    pub(super) endpoint: &'e E,
    pub(super) node: NodeId,
    pub(super) incarnation: u64,
    pub(super) region_bytes: u64,
    may_read: bool,
}

impl<'e, E: Endpoint> Catalog<'e, E> {
    /// The catalog at the start of the node's first region.
    pub(crate) fn new(endpoint: &'e E, node: NodeId) -> Result<Self> {
        let info = endpoint.node(node)?;
        let region = info.regions.first();
        let region_bytes = region.map_or(0, |region| region.len);
        if region_bytes <= CATALOG_BYTES {
            return Err(StoreError::TooSmall {
                bytes: region_bytes,
                least: CATALOG_BYTES + 1,
            });
        }
        Ok(Self {
            endpoint,
            node,
            incarnation: info.incarnation,
            region_bytes,
            may_read: region.is_some_and(|region| region.rights.allow(Rights::READ)),
        })
    }

    /// The node that the catalog is of.
    pub(crate) const fn node(&self) -> NodeId {
        self.node
    }

    /// Refuses what a client may not do in the phase of the node.
    pub(super) fn admit(&self, phase: u64, changes: bool) -> Result<()> {
        match self.endpoint.core().for_keeper.get() {
            true => Ok(()),
            false => Phase::admit(phase, self.node, changes),
        }
    }

    pub(super) fn at(&self, offset: u64) -> RemoteAddr {
        at(self.node, offset)
    }

    pub(super) fn entry_at(&self, entry: usize) -> RemoteAddr {
        entry_at(self.node, entry)
    }

    /// Bytes for tables in all.
    pub(super) const fn total(&self) -> u64 {
        self.region_bytes - CATALOG_BYTES
    }

    /// Whether this client's grant does not open the catalog to it: it asks the owner by calls.
    pub(super) fn is_hidden(&self) -> bool {
        !self.may_read
    }

    /// The median time of so many READs of a word, or of calls for as little.
    pub(crate) async fn round_trip(&self, reads: usize) -> Result<Duration> {
        let mut times = Vec::with_capacity(reads);
        for _ in 0..reads {
            let since = self.endpoint.now();
            match self.is_hidden() {
                true => drop(self.told_from(MOST_TABLES).await?),
                false => drop(self.endpoint.read(self.at(LOCK_AT), 8).await?),
            }
            times.push(self.endpoint.now().saturating_sub(since));
        }
        times.sort_unstable();
        Ok(Duration::from_nanos(
            times.get(reads / 2).copied().unwrap_or(0),
        ))
    }
}

/// An address in a node's first region.
pub(crate) const fn at(node: NodeId, offset: u64) -> RemoteAddr {
    RemoteAddr {
        node,
        region: RegionId(0),
        offset,
    }
}

/// Where an entry of a node's catalog is.
pub(super) const fn entry_at(node: NodeId, entry: usize) -> RemoteAddr {
    at(node, ENTRIES_AT + (entry * ENTRY_BYTES) as u64)
}
