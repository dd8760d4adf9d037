//! The catalog's place in a node's memory, and its header.

use super::entry::{MOST_RECORD, WORDS_BYTES};
use super::parsing::Entry;
use super::sizes::{WORDS_AT, catalog_bytes, check_size, most_tables, records_at};
use crate::{Result, StoreError};
use farslot_fabric::{
    Endpoint, EndpointExt, FabricError, Nanos, NodeId, RegionId, RemoteAddr, Rights,
};
use std::cell::RefCell;
use std::time::Duration;

/// Byte of the word of the client that changes the catalog.
pub(super) const LOCK_AT: u64 = 0;
/// Byte of the mark: bytes, counted from the catalog's end, up to which memory was ever taken.
pub(super) const MARK_AT: u64 = 8;
/// Byte of the phase in which the node is.
pub(crate) const PHASE_AT: u64 = 24;
/// Byte of the word that counts how often damaged entries were cleared: tables that were made
/// before may have lost their parts here.
pub(super) const REPAIRS_AT: u64 = 32;
/// Word of the header that is counted up before a record is published, so that each has a number of
/// its own, and again before a record goes in whose place another has come: whoever has seen
/// neither sees another count.
pub(super) const PUBLISHED: usize = 2;
/// Byte of that word.
pub(super) const PUBLISHED_AT: u64 = 8 * PUBLISHED as u64;
/// Words of the header.
pub(super) const HEADER_WORDS: usize = 5;

/// Tables start at multiples of this.
pub(super) const TABLE_ALIGNMENT: u64 = 4096;
/// How long a client may go on using a table without having seen that it is there. It counts from
/// when the client asked, so it is the longest round trip of a link over which tables can be used.
pub(crate) const LEASE: Nanos = 1_500_000_000;
/// What is waited between two looks at something that another client is about to do.
pub(super) const PAUSE: Nanos = 1_000_000;

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
    /// The entries as they were read last: a record whose words are the same is not read again.
    pub(super) known: RefCell<Vec<Entry>>,
}

impl<'e, E: Endpoint> Catalog<'e, E> {
    /// The catalog at the start of the node's first region.
    pub(crate) fn new(endpoint: &'e E, node: NodeId) -> Result<Self> {
        let info = endpoint.node(node)?;
        let region = info.regions.first();
        let region_bytes = region.map_or(0, |region| region.len);
        check_size(region_bytes)?;
        Ok(Self {
            endpoint,
            node,
            incarnation: info.incarnation,
            region_bytes,
            may_read: region.is_some_and(|region| region.rights.allow(Rights::READ)),
            known: RefCell::default(),
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

    /// The most tables that it holds.
    pub(super) const fn most_tables(&self) -> usize {
        most_tables(self.region_bytes)
    }

    /// Where the record of an entry is.
    pub(super) fn record_at(&self, entry: usize) -> RemoteAddr {
        record_at(self.node, entry, self.region_bytes)
    }

    /// Bytes for tables in all.
    pub(super) const fn total(&self) -> u64 {
        self.region_bytes - catalog_bytes(self.region_bytes)
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
                true => drop(self.told_from(self.most_tables(), None).await?),
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

/// Where the words of an entry of a node's catalog are.
pub(super) const fn entry_at(node: NodeId, entry: usize) -> RemoteAddr {
    at(node, WORDS_AT + (entry * WORDS_BYTES) as u64)
}

/// Where the record of an entry is, in a region of so many bytes.
pub(super) const fn record_at(node: NodeId, entry: usize, region_bytes: u64) -> RemoteAddr {
    at(
        node,
        records_at(region_bytes) + (entry * MOST_RECORD) as u64,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catalog_takes_little_of_every_region() {
        const MIB: u64 = 1 << 20;
        for (bytes, tables) in [
            (0, 256),
            (MIB, 256),
            (32 * MIB - 1, 256),
            (32 * MIB, 512),
            (256 * MIB - 1, 2048),
            (256 * MIB, 4096),
            (u64::MAX, 4096),
        ] {
            assert_eq!(most_tables(bytes), tables, "{bytes}");
            let catalog = catalog_bytes(bytes);
            assert!(catalog.is_multiple_of(TABLE_ALIGNMENT), "{bytes}");
            let least = catalog_bytes(0);
            assert!(catalog <= least || catalog <= bytes / 50, "{bytes}");
        }
        let least = catalog_bytes(0) + 1;
        assert!(check_size(least).is_ok() && check_size(least - 1).is_err());
    }
}
