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

use crate::{Result, StoreError};
use farslot_fabric::{Endpoint, EndpointExt, Nanos, NodeId, RegionId, RemoteAddr};
use farslot_index::KeyRule;
use farslot_index::cuckoo::CuckooLayout;
use farslot_index::linear::LinearLayout;
use farslot_index::sealed::SealedLayout;
use serde::{Deserialize, Serialize};
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

/// How a table is organised: its scheme, with all that a client must know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Scheme {
    /// Open addressing with linear probing: any number of writers.
    Linear(LinearLayout),
    /// Buckets of which each key has a few: one writer at a time.
    Cuckoo(CuckooLayout),
    /// Linear probing, built whole and never written again.
    Sealed(SealedLayout),
}

impl Scheme {
    /// Bytes of remote memory that the table takes.
    #[must_use]
    pub fn table_bytes(&self) -> u128 {
        match self {
            Self::Linear(layout) => layout.table_bytes(),
            Self::Cuckoo(layout) => layout.table_bytes(),
            Self::Sealed(layout) => layout.table_bytes(),
        }
    }

    /// The scheme's name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Linear(_) => "linear",
            Self::Cuckoo(_) => "cuckoo",
            Self::Sealed(_) => "sealed",
        }
    }

    /// How many records a key may have.
    #[must_use]
    pub const fn keys(&self) -> KeyRule {
        match self {
            Self::Linear(layout) => layout.keys,
            Self::Cuckoo(layout) => layout.keys,
            Self::Sealed(layout) => layout.keys,
        }
    }

    /// Whether a table can be [built](crate::Table::build) whole.
    #[must_use]
    pub const fn buildable(&self) -> bool {
        matches!(self, Self::Cuckoo(_) | Self::Sealed(_))
    }

    /// Whether the table admits one writer at a time.
    #[must_use]
    pub const fn one_writer(&self) -> bool {
        matches!(self, Self::Cuckoo(_))
    }
}

/// A table as the catalog knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableRecord {
    /// Its name.
    pub name: String,
    /// Its first byte in the region.
    pub offset: u64,
    /// How it is organised.
    pub scheme: Scheme,
}

/// How much of a store's memory its tables have taken. It is never given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// Bytes for tables in all.
    pub total: u64,
    /// Bytes that tables have taken.
    pub taken: u64,
}

impl MemoryUse {
    /// Bytes that are left for tables.
    #[must_use]
    pub const fn free(&self) -> u64 {
        self.total.saturating_sub(self.taken)
    }
}

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

/// The catalog of one region, as one thread sees it.
pub(crate) struct Catalog<'e, E> {
    endpoint: &'e E,
    region_bytes: u64,
}

impl<'e, E: Endpoint> Catalog<'e, E> {
    /// The catalog at the start of the endpoint's first region.
    pub(crate) fn new(endpoint: &'e E) -> Result<Self> {
        let node = endpoint.node(NodeId(0))?;
        let region_bytes = node.regions.first().map_or(0, |region| region.len);
        if region_bytes <= CATALOG_BYTES {
            return Err(StoreError::TooSmall {
                bytes: region_bytes,
                least: CATALOG_BYTES + 1,
            });
        }
        Ok(Self {
            endpoint,
            region_bytes,
        })
    }

    /// All tables, oldest first.
    pub(crate) async fn tables(&self) -> Result<Vec<TableRecord>> {
        let mut tables = Vec::new();
        for first in (0..MOST_TABLES).step_by(ENTRIES_A_READ) {
            let entries = self
                .endpoint
                .read(entry_at(first), ENTRIES_A_READ * ENTRY_BYTES)
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
        let mark = self.endpoint.read(at(0), 8).await?.words()[0];
        Ok(MemoryUse {
            total: self.region_bytes - CATALOG_BYTES,
            taken: mark,
        })
    }

    /// The table of that name.
    pub(crate) async fn find(&self, name: &str) -> Result<TableRecord> {
        let mut tables = self.tables().await?;
        match tables.iter().position(|table| table.name == name) {
            Some(index) => Ok(tables.swap_remove(index)),
            None => Err(StoreError::NoSuchTable {
                name: name.into(),
                tables: if tables.is_empty() {
                    "none".into()
                } else {
                    let names: Vec<_> = tables.into_iter().map(|table| table.name).collect();
                    names.join(", ")
                },
            }),
        }
    }

    /// Makes a table: claims an entry, takes memory, and publishes.
    pub(crate) async fn create(&self, name: &str, scheme: Scheme) -> Result<TableRecord> {
        check_name(name)?;
        self.check_room(scheme.table_bytes()).await?;
        let claim = State::claimed(rand::random());
        let entry = self.claim(name, claim).await?;
        let made = self.make(name, scheme, entry, claim).await;
        if made.is_err() {
            // Nothing was published: nobody need wait for this entry.
            let _ = self
                .endpoint
                .compare_swap(entry_at(entry), claim, ABANDONED)
                .await;
        }
        made
    }

    async fn make(
        &self,
        name: &str,
        scheme: Scheme,
        entry: usize,
        claim: u64,
    ) -> Result<TableRecord> {
        let offset = self.take_memory(scheme.table_bytes()).await?;
        let record = TableRecord {
            name: name.into(),
            offset,
            scheme,
        };
        let json = serde_json::to_vec(&record).map_err(|error| damaged(entry, error))?;
        if json.len() > ENTRY_BYTES - 8 {
            return Err(StoreError::BadName {
                name: name.into(),
                reason: format!(
                    "its record of {} bytes is over the limit of {}",
                    json.len(),
                    ENTRY_BYTES - 8
                ),
            });
        }
        let state = State::table(&json);
        let bytes = self.endpoint.core().buffers.copy_of(&json)?;
        self.endpoint.write(entry_at(entry).plus(8), bytes).await?;
        let seen = self
            .endpoint
            .compare_swap(entry_at(entry), claim, state)
            .await?;
        if seen == claim {
            Ok(record)
        } else {
            Err(StoreError::CreationCancelled { name: name.into() })
        }
    }

    /// Claims the first empty entry, having seen that no table before it has the name.
    async fn claim(&self, name: &str, claim: u64) -> Result<usize> {
        let mut entry = 0;
        while entry < MOST_TABLES {
            let bytes = self.endpoint.read(entry_at(entry), ENTRY_BYTES).await?;
            let word = word_of(&bytes);
            match State::decode(word) {
                State::Empty => {
                    if self
                        .endpoint
                        .compare_swap(entry_at(entry), 0, claim)
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
            let word = self.endpoint.read(entry_at(entry), 8).await?.words()[0];
            if word != claim {
                return Ok(());
            }
            if self.endpoint.now().saturating_sub(since) > CREATION_PATIENCE {
                self.endpoint
                    .compare_swap(entry_at(entry), claim, ABANDONED)
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
            table = decode_table(&self.endpoint.read(entry_at(entry), ENTRY_BYTES).await?);
        }
        Err(damaged(entry, "its checksum does not fit"))
    }

    /// Takes memory for a table: zeros that nobody has used.
    async fn take_memory(&self, bytes: u128) -> Result<u64> {
        let mark_at = at(0);
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

    async fn check_room(&self, bytes: u128) -> Result<()> {
        let mark = self.endpoint.read(at(0), 8).await?.words()[0];
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

fn at(offset: u64) -> RemoteAddr {
    RemoteAddr {
        node: NodeId(0),
        region: RegionId(0),
        offset,
    }
}

/// Where a table lies.
pub(crate) fn table_at(record: &TableRecord) -> RemoteAddr {
    at(record.offset)
}

fn entry_at(entry: usize) -> RemoteAddr {
    at(ENTRIES_AT + (entry * ENTRY_BYTES) as u64)
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

fn check_name(name: &str) -> Result<()> {
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
