//! The tables of a store, kept in the store's own memory: whoever can reach the memory can open its
//! tables by name, and nobody has to be asked.
//!
//! ```text
//! 0     bytes of the region that are taken, counted from the catalog's end
//! 4096  entry 0 | entry 1 | ... | entry 255        1 KiB each
//! 260 Ki  tables
//!
//! entry   | state word | a table's record as JSON |
//! state   0                                          empty
//!         | 1, 2 bits | creation, 62 bits |          claimed by that creation
//!         | 2, 2 bits | length, 30 | checksum, 32 |  a table
//!         | 3, 2 bits | 0 |                          abandoned, never used again
//! ```
//! A region of zeros is an empty catalog. Entries are filled in order, and each is decided (a table,
//! or abandoned) before anybody goes past it, so that no name is given twice. A claim becomes a table
//! by one compare-and-swap after its record was written; a claim whose creator seems dead is abandoned
//! by one, and a late record in it harms nobody.
//!
//! Each node of a store has a catalog of its own. A table over several nodes stands in each of theirs, with the part
//! of it that this node has and, behind that part, the map of the whole: see [`Partition`] and [`SpreadMap`].

mod record;

pub(crate) use record::MapPlace;
pub use record::{MemoryUse, Partition, Scheme, SpreadMap, SpreadNode, TableRecord};

use crate::{Result, StoreError};
use farslot_fabric::{Endpoint, EndpointExt, Nanos, NodeId, RegionId, RemoteAddr};
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// The most tables of a store.
pub const MOST_TABLES: usize = 256;
const LONGEST_NAME: usize = 128;
const ENTRIES_AT: u64 = 4096;
const ENTRY_BYTES: usize = 1024;
/// The catalog's end: tables start behind it.
pub(crate) const CATALOG_BYTES: u64 = ENTRIES_AT + (MOST_TABLES * ENTRY_BYTES) as u64;
/// Tables start at multiples of this.
const TABLE_ALIGNMENT: u64 = 4096;
/// Entries that one READ fetches.
const ENTRIES_A_READ: usize = 8;
/// How long a creation may take before others take its client for dead.
const CREATION_PATIENCE: Nanos = 2_000_000_000;
const PAUSE: Nanos = 1_000_000;

/// A state word, taken apart.
enum State {
    Empty,
    Claimed,
    Table { len: usize, sum: u32 },
    Abandoned,
}

const ABANDONED: u64 = 3 << 62;

impl State {
    fn decode(word: u64) -> Self {
        match word >> 62 {
            0 => Self::Empty,
            1 => Self::Claimed,
            2 => Self::Table {
                len: (word >> 32 & ((1 << 30) - 1)) as usize,
                sum: word as u32,
            },
            _ => Self::Abandoned,
        }
    }

    const fn claimed(creation: u64) -> u64 {
        1 << 62 | creation >> 2
    }

    fn table(record: &[u8]) -> u64 {
        2 << 62 | (record.len() as u64) << 32 | xxh3_64(record) & 0xffff_ffff
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

    /// All tables, oldest first.
    pub(crate) async fn tables(&self) -> Result<Vec<TableRecord>> {
        let mut tables = Vec::new();
        for first in (0..MOST_TABLES).step_by(ENTRIES_A_READ) {
            let entries = self
                .endpoint
                .read(self.entry_at(first), ENTRIES_A_READ * ENTRY_BYTES)
                .await?;
            for (index, bytes) in entries.chunks_exact(ENTRY_BYTES).enumerate() {
                match State::decode(word_of(bytes)) {
                    State::Empty => return Ok(tables),
                    State::Claimed | State::Abandoned => {}
                    State::Table { .. } => tables.push(self.table_of(first + index, bytes).await?),
                }
            }
        }
        Ok(tables)
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
        let tables = self.tables().await?;
        Ok(tables.into_iter().find(|table| table.name == name))
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
        if json.len() > ENTRY_BYTES - 8 {
            return Err(StoreError::BadName {
                name: new.name.into(),
                reason: format!(
                    "its record of {} bytes is over the limit of {}",
                    json.len(),
                    ENTRY_BYTES - 8
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
        let bytes = usize::try_from(place.bytes).map_err(|error| damaged(error.to_string()))?;
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

    /// Claims the first empty entry, having seen that no table before it has the name.
    async fn claim(&self, name: &str, claim: u64) -> Result<usize> {
        let mut entry = 0;
        while entry < MOST_TABLES {
            let bytes = self
                .endpoint
                .read(self.entry_at(entry), ENTRY_BYTES)
                .await?;
            let word = word_of(&bytes);
            match State::decode(word) {
                State::Empty => {
                    if self
                        .endpoint
                        .compare_swap(self.entry_at(entry), 0, claim)
                        .await?
                        == 0
                    {
                        return Ok(entry);
                    }
                }
                State::Claimed => self.wait_for_decision(entry, word).await?,
                State::Abandoned => entry += 1,
                State::Table { .. } => {
                    if self.table_of(entry, &bytes).await?.name == name {
                        return Err(StoreError::TableExists { name: name.into() });
                    }
                    entry += 1;
                }
            }
        }
        Err(StoreError::TooManyTables { limit: MOST_TABLES })
    }

    /// Waits until an entry is no longer claimed by that creation, or abandons it.
    async fn wait_for_decision(&self, entry: usize, claim: u64) -> Result<()> {
        let since = self.endpoint.now();
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

    /// The table of an entry that was read; reads it again while its record is not yet visible.
    async fn table_of(&self, entry: usize, bytes: &[u8]) -> Result<TableRecord> {
        const MOST_READS: u32 = 100;
        let mut table = decode_table(bytes);
        for _ in 0..MOST_READS {
            match table {
                Some(record) => {
                    return serde_json::from_slice(&record).map_err(|error| damaged(entry, error));
                }
                None => self.endpoint.sleep(PAUSE / 100).await,
            }
            table = decode_table(
                &self
                    .endpoint
                    .read(self.entry_at(entry), ENTRY_BYTES)
                    .await?,
            );
        }
        Err(damaged(entry, "its checksum does not fit"))
    }

    /// Takes memory for a table: zeros that nobody has used.
    async fn take_memory(&self, bytes: u128) -> Result<u64> {
        let mark_at = self.at(0);
        let mut mark = self.endpoint.read(mark_at, 8).await?.words()[0];
        loop {
            let end = self.end_of(mark, bytes)?;
            let seen = self.endpoint.compare_swap(mark_at, mark, end).await?;
            if seen == mark {
                return Ok(CATALOG_BYTES + mark);
            }
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
                serde_json::to_vec(partition.map).map_err(|error| StoreError::DamagedMap {
                    name: name.into(),
                    reason: error.to_string(),
                })?
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

fn word_of(bytes: &[u8]) -> u64 {
    bytes
        .first_chunk()
        .map_or(0, |word| u64::from_le_bytes(*word))
}

/// The JSON of an entry that holds a table, if it is whole.
fn decode_table(bytes: &[u8]) -> Option<Vec<u8>> {
    let State::Table { len, sum } = State::decode(word_of(bytes)) else {
        return None;
    };
    let json = bytes.get(8..8 + len)?;
    (xxh3_64(json) as u32 == sum).then(|| json.to_vec())
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
