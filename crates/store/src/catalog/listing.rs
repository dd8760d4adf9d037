//! Reading the catalog: all tables that can be read, and the entries that cannot, by name.
//!
//! What an entry says was written by another client, or by something else. It is believed only if it describes a table
//! that lies in the region whole: all sizes that a client derives from it are bounded by the region then.

use super::entry::{ENTRY_BYTES, State, record_in, word_of};
use super::{CATALOG_BYTES, Catalog, MOST_TABLES, MapPlace, PAUSE, TableRecord, check_name};
use crate::slot_map::MOST_NODES;
use crate::{Result, StoreError};
use farslot_fabric::{Buffer, Endpoint, EndpointExt};

/// Entries that one READ fetches.
const ENTRIES_A_READ: usize = 8;
/// A record is visible with the word that publishes it, and a READ may be torn once. More than this, and it is damaged.
const MOST_READS: u32 = 8;
/// The most bytes of the map of a table over several nodes: more than the addresses of 256 nodes need.
pub(super) const MOST_MAP_BYTES: u64 = 1 << 20;

/// The tables of a store, and what cannot be read of its catalog.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    /// The tables, oldest first.
    pub tables: Vec<TableRecord>,
    /// The entries of the catalog that are damaged. The other tables can be used all the same.
    pub damaged: Vec<DamagedEntry>,
}

/// An entry of a catalog that cannot be read, or that describes no table that can be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedEntry {
    /// The node's address.
    pub address: String,
    /// The entry's number.
    pub entry: usize,
    /// The table's name, if that can still be read.
    pub name: Option<String>,
    /// What is wrong with it.
    pub reason: String,
}

impl DamagedEntry {
    /// As an error of whatever needs the entry.
    #[must_use]
    pub fn error(&self) -> StoreError {
        StoreError::DamagedCatalog {
            entry: self.entry,
            reason: self.reason.clone(),
        }
    }
}

impl std::fmt::Display for DamagedEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: entry {} of the catalog", self.address, self.entry)?;
        if let Some(name) = &self.name {
            write!(f, " (table {name:?})")?;
        }
        write!(f, " is damaged: {}", self.reason)
    }
}

impl Listing {
    /// The table of that name.
    ///
    /// # Errors
    /// [`StoreError::DamagedCatalog`] if its entry is damaged.
    pub(crate) fn find(&self, name: &str) -> Result<Option<&TableRecord>> {
        let found = self.tables.iter().find(|table| table.name == name);
        let mut damaged = self.damaged.iter();
        match damaged.find(|of| of.name.as_deref() == Some(name)) {
            Some(damaged) if found.is_none() => Err(damaged.error()),
            _ => Ok(found),
        }
    }
}

/// An entry as it was read.
pub(super) enum Entry {
    Empty,
    Claimed(u64),
    Table(TableRecord),
    Abandoned,
    Damaged(DamagedEntry),
}

impl<E: Endpoint> Catalog<'_, E> {
    /// All tables, oldest first, and the entries that are damaged.
    pub(crate) async fn listing(&self) -> Result<Listing> {
        let mut listing = Listing::default();
        for (_, entry) in self.entries().await? {
            match entry {
                Entry::Table(record) => listing.tables.push(record),
                Entry::Damaged(damaged) => listing.damaged.push(damaged),
                Entry::Empty | Entry::Claimed(_) | Entry::Abandoned => {}
            }
        }
        Ok(listing)
    }

    /// All entries up to the first that is empty.
    pub(super) async fn entries(&self) -> Result<Vec<(usize, Entry)>> {
        let mut all = Vec::new();
        for first in (0..MOST_TABLES).step_by(ENTRIES_A_READ) {
            let read = self
                .endpoint
                .read(self.entry_at(first), ENTRIES_A_READ * ENTRY_BYTES)
                .await?;
            for (number, bytes) in (first..).zip(read.chunks_exact(ENTRY_BYTES)) {
                match self.entry_of(number, bytes).await? {
                    Entry::Empty => return Ok(all),
                    entry => all.push((number, entry)),
                }
            }
        }
        Ok(all)
    }

    /// Reads one entry.
    pub(super) async fn entry(&self, number: usize) -> Result<Entry> {
        let bytes = self.read_entry(number).await?;
        self.entry_of(number, &bytes).await
    }

    async fn read_entry(&self, number: usize) -> Result<Buffer> {
        let at = self.entry_at(number);
        Ok(self.endpoint.read(at, ENTRY_BYTES).await?)
    }

    /// What the bytes of an entry say; reads them again if they may be torn.
    async fn entry_of(&self, number: usize, bytes: &[u8]) -> Result<Entry> {
        let mut reread;
        let mut bytes = bytes;
        for attempt in 1.. {
            let word = word_of(bytes);
            let Some((json, whole)) = record_in(bytes) else {
                return Ok(match State::decode(word) {
                    State::Empty => Entry::Empty,
                    State::Claimed => Entry::Claimed(word),
                    State::Abandoned => Entry::Abandoned,
                    State::Table { .. } | State::Damaged => {
                        let reason =
                            format!("its state word {word:#018x} is none that a client writes");
                        self.damaged(number, None, reason)
                    }
                });
            };
            if whole {
                return Ok(self.decoded(number, json));
            }
            if attempt == MOST_READS {
                return Ok(self.damaged(number, Some(json), "its checksum does not fit".into()));
            }
            self.endpoint.sleep(PAUSE / 100).await;
            reread = self.read_entry(number).await?;
            bytes = &reread;
        }
        unreachable!("the last attempt returns")
    }

    fn decoded(&self, number: usize, json: &[u8]) -> Entry {
        let record: TableRecord = match serde_json::from_slice(json) {
            Ok(record) => record,
            Err(error) => return self.damaged(number, Some(json), error.to_string()),
        };
        match self.check(&record) {
            Ok(()) => Entry::Table(record),
            Err(reason) => self.damaged(number, Some(json), reason),
        }
    }

    fn damaged(&self, entry: usize, json: Option<&[u8]>, reason: String) -> Entry {
        /// What is left of a record in which the rest cannot be read.
        #[derive(serde::Deserialize)]
        struct Named {
            name: String,
        }
        let named = json.and_then(|json| serde_json::from_slice::<Named>(json).ok());
        let named = named.map(|named| named.name);
        Entry::Damaged(DamagedEntry {
            address: String::new(),
            entry,
            name: named.filter(|name| check_name(name).is_ok()),
            reason,
        })
    }

    /// Refuses a record of a table that cannot be where it says.
    fn check(&self, record: &TableRecord) -> std::result::Result<(), String> {
        check_name(&record.name).map_err(|error| error.to_string())?;
        let scheme = record.scheme.check();
        scheme.map_err(|error| error.to_string())?;
        let (offset, region) = (u128::from(record.offset), u128::from(self.region_bytes));
        if record.offset < CATALOG_BYTES || !record.offset.is_multiple_of(8) {
            let least = CATALOG_BYTES;
            return Err(format!(
                "its table is at byte {offset}: no multiple of 8 from {least} on"
            ));
        }
        let bytes = record.scheme.table_bytes();
        if offset + bytes > region {
            return Err(format!(
                "its table of {bytes} bytes at {offset} passes the region's end at {region}"
            ));
        }
        match &record.partition {
            Some(partition) => self.check_map(partition.map, offset + bytes, partition.number),
            None => Ok(()),
        }
    }

    fn check_map(
        &self,
        map: MapPlace,
        end_of_table: u128,
        number: u16,
    ) -> std::result::Result<(), String> {
        if usize::from(number) >= MOST_NODES {
            return Err(format!("partition {number} of {MOST_NODES}"));
        }
        let (start, bytes) = (u128::from(map.offset), u128::from(map.bytes));
        let fits = start >= end_of_table
            && map.bytes <= MOST_MAP_BYTES
            && start + bytes <= u128::from(self.region_bytes);
        if fits {
            return Ok(());
        }
        Err(format!(
            "its map of {bytes} bytes at {start}: at most {MOST_MAP_BYTES}, from {end_of_table} to the region's end at {}",
            self.region_bytes
        ))
    }
}
