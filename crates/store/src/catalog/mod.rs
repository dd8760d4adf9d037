//! The tables of a store, kept in the store's own memory: whoever can reach the memory can open its
//! tables by name, and nobody has to be asked.
//!
//! ```text
//! 0     bytes of the region that are taken, counted from the catalog's end
//! 4096  entry 0 | entry 1 | ... | entry 255        1 KiB each
//! 260 Ki  tables
//!
//! entry   | state word | a table's record as JSON |
//! state   0                                          empty: no other word is
//!         | 1, 2 bits | creation, 62 bits |          claimed by that creation
//!         | 2, 2 bits | length, 30 | checksum, 32 |  a table
//!         | 3, 2 bits | 0 |                          abandoned, never used again
//! ```
//! A region of zeros is an empty catalog. Entries are filled in order, and each is decided (a table,
//! or abandoned) before anybody goes past it, so that no name is given twice. A claim becomes a table
//! by one compare-and-swap after its record was written; a claim whose creator seems dead is abandoned
//! by one, and a late record in it harms nobody. An entry that no client can have left is damaged: it is
//! named, and passed over, and the other tables open all the same.
//!
//! Each node of a store has a catalog of its own. A table over several nodes stands in each of theirs, with the part
//! of it that this node has and, behind that part, the map of the whole: see [`Partition`] and [`SpreadMap`].

#[cfg(test)]
mod damage_tests;
mod entry;
mod listing;
mod record;

use entry::{ABANDONED, ENTRY_BYTES, MOST_RECORD, State};
pub use listing::{DamagedEntry, Listing};
use listing::{Entry, MOST_MAP_BYTES};
pub(crate) use record::MapPlace;
pub use record::{MemoryUse, Partition, Scheme, SpreadMap, SpreadNode, TableRecord};

use crate::{Result, StoreError};
use farslot_fabric::{Endpoint, EndpointExt, Nanos, NodeId, RegionId, RemoteAddr};
use std::cell::Cell;
use std::collections::HashMap;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// The most tables of a store.
pub const MOST_TABLES: usize = 256;
const LONGEST_NAME: usize = 128;
const ENTRIES_AT: u64 = 4096;
/// The catalog's end: tables start behind it.
pub(crate) const CATALOG_BYTES: u64 = ENTRIES_AT + (MOST_TABLES * ENTRY_BYTES) as u64;
/// Tables start at multiples of this.
const TABLE_ALIGNMENT: u64 = 4096;
/// How long a creation may take before others take its client for dead.
const CREATION_PATIENCE: Nanos = 2_000_000_000;
const PAUSE: Nanos = 1_000_000;

/// How often a change of the catalog was tried: others may be faster time and again, and words that no client writes
/// may stand in its way for ever.
#[derive(Default)]
struct Attempts(Cell<u32>);

impl Attempts {
    /// Notes that another client was faster; waits, when that happens often.
    async fn lost_race<E: Endpoint>(&self, endpoint: &E) -> Result<()> {
        const AT_ONCE: u32 = 8;
        const MOST: u32 = 2000;
        let attempts = self.0.get() + 1;
        self.0.set(attempts);
        match attempts {
            ..AT_ONCE => Ok(()),
            AT_ONCE..MOST => {
                endpoint.sleep(PAUSE).await;
                Ok(())
            }
            _ => Err(StoreError::CatalogContended { attempts }),
        }
    }
}

/// The catalog of one node, as one thread sees it.
pub(crate) struct Catalog<'e, E> {
    endpoint: &'e E,
    node: NodeId,
    incarnation: u64,
    region_bytes: u64,
}

/// The partition of a table over several nodes that is to be made.
#[derive(Clone, Copy)]
pub(crate) struct NewPartition<'m> {
    pub(crate) creation: u64,
    pub(crate) number: u16,
    pub(crate) whole: bool,
    pub(crate) remade: bool,
    pub(crate) map: &'m SpreadMap,
}

impl<'e, E: Endpoint> Catalog<'e, E> {
    /// The catalog at the start of the node's first region.
    pub(crate) fn new(endpoint: &'e E, node: NodeId) -> Result<Self> {
        let info = endpoint.node(node)?;
        let region_bytes = info.regions.first().map_or(0, |region| region.len);
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
        })
    }

    fn at(&self, offset: u64) -> RemoteAddr {
        RemoteAddr {
            node: self.node,
            region: RegionId(0),
            offset,
        }
    }

    fn entry_at(&self, entry: usize) -> RemoteAddr {
        self.at(ENTRIES_AT + (entry * ENTRY_BYTES) as u64)
    }

    /// How much memory the tables have taken.
    pub(crate) async fn memory(&self) -> Result<MemoryUse> {
        let mark = self.endpoint.read(self.at(0), 8).await?.words()[0];
        Ok(MemoryUse {
            total: self.region_bytes - CATALOG_BYTES,
            taken: mark,
        })
    }

    /// The median time of so many READs of a word.
    pub(crate) async fn round_trip(&self, reads: usize) -> Result<Duration> {
        let mut times = Vec::with_capacity(reads);
        for _ in 0..reads {
            let since = self.endpoint.now();
            self.endpoint.read(self.at(0), 8).await?;
            times.push(self.endpoint.now().saturating_sub(since));
        }
        times.sort_unstable();
        Ok(Duration::from_nanos(
            times.get(reads / 2).copied().unwrap_or(0),
        ))
    }

    /// The table of that name, if there is one.
    pub(crate) async fn find(&self, name: &str) -> Result<Option<TableRecord>> {
        Ok(self.listing().await?.find(name)?.cloned())
    }

    /// The node that the catalog is of.
    pub(crate) const fn node(&self) -> NodeId {
        self.node
    }

    /// Makes a table: claims an entry, takes memory, and publishes.
    pub(crate) async fn create(
        &self,
        name: &str,
        scheme: Scheme,
        partition: Option<NewPartition<'_>>,
    ) -> Result<TableRecord> {
        check_name(name)?;
        let new = New::of(name, scheme, partition)?;
        self.check_room(new.bytes()).await?;
        let claim = State::claimed(rand::random());
        let entry = self.claim(name, claim).await?;
        let made = self.make(&new, entry, claim).await;
        if made.is_err() {
            // Nothing was published: nobody need wait for this entry.
            let _ = self
                .endpoint
                .compare_swap(self.entry_at(entry), claim, ABANDONED)
                .await;
        }
        made
    }

    async fn make(&self, new: &New<'_>, entry: usize, claim: u64) -> Result<TableRecord> {
        let offset = self.take_memory(new.bytes()).await?;
        let record = new.record(offset, self.incarnation);
        let json = serde_json::to_vec(&record).map_err(|error| damaged(entry, error))?;
        if json.len() > MOST_RECORD {
            return Err(StoreError::BadName {
                name: new.name.into(),
                reason: format!(
                    "its record of {} bytes is over the limit of {}",
                    json.len(),
                    MOST_RECORD
                ),
            });
        }
        if let Some(Partition { map, .. }) = record.partition {
            self.write(self.at(map.offset), &new.map).await?;
        }
        let state = State::table(&json);
        self.write(self.entry_at(entry).plus(8), &json).await?;
        let seen = self
            .endpoint
            .compare_swap(self.entry_at(entry), claim, state)
            .await?;
        if seen == claim {
            Ok(record)
        } else {
            Err(StoreError::CreationCancelled {
                name: new.name.into(),
            })
        }
    }

    async fn write(&self, to: RemoteAddr, bytes: &[u8]) -> Result<()> {
        let bytes = self.endpoint.core().buffers.copy_of(bytes)?;
        Ok(self.endpoint.write(to, bytes).await?)
    }

    /// The map of the table that a partition belongs to.
    pub(crate) async fn map(&self, record: &TableRecord, place: MapPlace) -> Result<SpreadMap> {
        let damaged = |reason: String| StoreError::DamagedMap {
            name: record.name.clone(),
            reason,
        };
        if place.bytes > MOST_MAP_BYTES {
            let bytes = place.bytes;
            return Err(damaged(format!(
                "its {bytes} bytes are over the limit of {MOST_MAP_BYTES}"
            )));
        }
        let bytes = place.bytes as usize;
        // It was placed before the entry was published.
        let json = self.endpoint.read(self.at(place.offset), bytes).await?;
        if xxh3_64(&json) != place.sum {
            return Err(damaged("its checksum does not fit".into()));
        }
        let map: SpreadMap =
            serde_json::from_slice(&json).map_err(|error| damaged(error.to_string()))?;
        let (partitions, nodes) = (map.slots.partitions(), map.nodes.len());
        if usize::from(partitions) != nodes {
            return Err(damaged(format!("{partitions} partitions on {nodes} nodes")));
        }
        Ok(map)
    }

    /// Claims the first empty entry, having seen that no table before it has the name. Damaged entries are passed
    /// over: whatever they were, nobody can open it.
    async fn claim(&self, name: &str, claim: u64) -> Result<usize> {
        // Claims of the dead are all waited for together.
        let now = self.endpoint.now();
        let claims = self.entries().await?.into_iter();
        let claims = claims.filter_map(|(entry, seen)| match seen {
            Entry::Claimed(word) => Some(((entry, word), now)),
            _ => None,
        });
        let claims: HashMap<_, _> = claims.collect();
        let attempts = Attempts::default();
        let mut entry = 0;
        while entry < MOST_TABLES {
            match self.entry(entry).await? {
                Entry::Empty => {
                    let at = self.entry_at(entry);
                    if self.endpoint.compare_swap(at, 0, claim).await? == 0 {
                        return Ok(entry);
                    }
                    attempts.lost_race(self.endpoint).await?;
                }
                Entry::Claimed(word) => {
                    let since = claims.get(&(entry, word)).copied();
                    self.wait_for_decision(entry, word, since).await?;
                    attempts.lost_race(self.endpoint).await?;
                }
                Entry::Abandoned => entry += 1,
                Entry::Table(table) if table.name == name => {
                    return Err(StoreError::TableExists { name: name.into() });
                }
                Entry::Damaged(damaged) if damaged.name.as_deref() == Some(name) => {
                    return Err(damaged.error());
                }
                Entry::Table(_) | Entry::Damaged(_) => entry += 1,
            }
        }
        Err(StoreError::TooManyTables { limit: MOST_TABLES })
    }

    /// Waits until an entry is no longer claimed by that creation, or abandons it.
    async fn wait_for_decision(
        &self,
        entry: usize,
        claim: u64,
        since: Option<Nanos>,
    ) -> Result<()> {
        let since = since.unwrap_or_else(|| self.endpoint.now());
        loop {
            let word = self.endpoint.read(self.entry_at(entry), 8).await?.words()[0];
            if word != claim {
                return Ok(());
            }
            if self.endpoint.now().saturating_sub(since) > CREATION_PATIENCE {
                self.endpoint
                    .compare_swap(self.entry_at(entry), claim, ABANDONED)
                    .await?;
                return Ok(());
            }
            self.endpoint.sleep(PAUSE).await;
        }
    }

    /// Takes memory for a table: zeros that nobody has used.
    async fn take_memory(&self, bytes: u128) -> Result<u64> {
        let mark_at = self.at(0);
        let mut mark = self.endpoint.read(mark_at, 8).await?.words()[0];
        let attempts = Attempts::default();
        loop {
            let end = self.end_of(mark, bytes)?;
            let seen = self.endpoint.compare_swap(mark_at, mark, end).await?;
            if seen == mark {
                return Ok(CATALOG_BYTES + mark);
            }
            attempts.lost_race(self.endpoint).await?;
            mark = seen;
        }
    }

    /// Refuses a table that the memory has no room for.
    pub(crate) async fn check_room(&self, bytes: u128) -> Result<()> {
        let mark = self.endpoint.read(self.at(0), 8).await?.words()[0];
        self.end_of(mark, bytes).map(|_| ())
    }

    fn end_of(&self, mark: u64, bytes: u128) -> Result<u64> {
        let total = self.region_bytes - CATALOG_BYTES;
        let end = (u128::from(mark) + bytes).next_multiple_of(u128::from(TABLE_ALIGNMENT));
        match u64::try_from(end) {
            Ok(end) if end <= total => Ok(end),
            _ => Err(StoreError::OutOfMemory {
                requested: bytes,
                free: total.saturating_sub(mark),
                total,
            }),
        }
    }
}

/// A table that is to be made.
struct New<'m> {
    name: &'m str,
    scheme: Scheme,
    partition: Option<NewPartition<'m>>,
    /// JSON of the map of a table over several nodes: it lies behind the partition.
    map: Vec<u8>,
}

impl<'m> New<'m> {
    fn of(name: &'m str, scheme: Scheme, partition: Option<NewPartition<'m>>) -> Result<Self> {
        let map = match partition {
            None => Vec::new(),
            Some(partition) => {
                let damaged = |reason| StoreError::DamagedMap {
                    name: name.into(),
                    reason,
                };
                let map = serde_json::to_vec(partition.map);
                let map = map.map_err(|error| damaged(error.to_string()))?;
                if map.len() as u64 > MOST_MAP_BYTES {
                    let bytes = map.len();
                    return Err(damaged(format!(
                        "its {bytes} bytes are over the limit of {MOST_MAP_BYTES}"
                    )));
                }
                map
            }
        };
        Ok(Self {
            name,
            scheme,
            partition,
            map,
        })
    }

    /// Bytes of the table without the map.
    fn table_bytes(&self) -> u128 {
        self.scheme.table_bytes().next_multiple_of(8)
    }

    fn bytes(&self) -> u128 {
        self.table_bytes() + self.map.len() as u128
    }

    /// The record of the table at an offset where all of its bytes fit.
    fn record(&self, offset: u64, incarnation: u64) -> TableRecord {
        let map = MapPlace {
            offset: offset + self.table_bytes() as u64,
            bytes: self.map.len() as u64,
            sum: xxh3_64(&self.map),
        };
        TableRecord {
            name: self.name.into(),
            offset,
            scheme: self.scheme.clone(),
            partition: self.partition.map(|partition| Partition {
                creation: partition.creation,
                number: partition.number,
                incarnation,
                whole: partition.whole,
                remade: partition.remade,
                map,
            }),
        }
    }
}

/// Where a table on a node lies.
pub(crate) fn table_at(node: NodeId, record: &TableRecord) -> RemoteAddr {
    RemoteAddr {
        node,
        region: RegionId(0),
        offset: record.offset,
    }
}

fn damaged(entry: usize, reason: impl ToString) -> StoreError {
    StoreError::DamagedCatalog {
        entry,
        reason: reason.to_string(),
    }
}

pub(crate) fn check_name(name: &str) -> Result<()> {
    let bad = |reason: String| {
        Err(StoreError::BadName {
            name: name.into(),
            reason,
        })
    };
    if name.is_empty() {
        return bad("it is empty".into());
    }
    if name.len() > LONGEST_NAME {
        return bad(format!(
            "its {} bytes are over the limit of {LONGEST_NAME}",
            name.len()
        ));
    }
    if name.chars().any(char::is_control) {
        return bad("it has control characters".into());
    }
    Ok(())
}
