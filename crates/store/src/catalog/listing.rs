//! Reading the catalog: all tables that can be read, and the entries that cannot, by name.
//!
//! What an entry says was written by another client, or by something else. It is believed only if
//! it describes a table that lies in the region whole: all sizes that a client derives from it are
//! bounded by the region then.

use super::entry::{ENTRY_BYTES, State, closed, id_of, record_in, word_of};
use super::pool::{MOST_LISTED, pooled, segments_with, taken};
use super::record::{MapPlace, MemoryUse, PartitionMap, TableRecord};
use super::region::{
    CATALOG_BYTES, Catalog, HEADER_WORDS, MOST_TABLES, PAUSE, REPAIRS_AT, segment_bytes,
};
use super::space;
use crate::names::check_name;
use crate::slot_map::MOST_NODES;
use crate::{Result, StoreError};
use farslot_fabric::{Buffer, Endpoint, EndpointExt, both, window};
use std::collections::HashSet;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64;

/// Entries that one READ fetches.
const ENTRIES_A_READ: usize = 8;
/// Such READs that are under way at once, at most: a NIC holds back more than 16, and what waits
/// there may time out.
const BLOCKS_AT_ONCE: usize = 8;
/// A record is visible with the word that publishes it, and a READ may be torn once. More than
/// this, and it is damaged.
pub(super) const MOST_READS: u32 = 8;
/// The most bytes of the map of a table over several nodes: more than the addresses of 256 nodes
/// need.
pub(super) const MOST_MAP_BYTES: u64 = 1 << 20;

/// The tables of a store, and what cannot be read of its catalog.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    /// The tables, oldest first.
    pub tables: Vec<TableRecord>,
    /// The entries of the catalog that are damaged. The other tables can be used all the same.
    pub damaged: Vec<DamagedEntry>,
    /// Tables that are gone, whose memory has still to be made zeros.
    pub(crate) retired: Vec<TableRecord>,
    /// Tables that are being cleared: they are there, and nobody can open them.
    pub clearing: Vec<TableRecord>,
    /// How often damaged entries were cleared: parts of tables that were made before may be lost.
    pub(crate) repairs: u64,
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

impl CatalogSnapshot {
    fn listing(&self) -> Listing {
        let segment = segment_bytes(self.region_bytes);
        let records = self.tables().map(|(_, record)| TableRecord {
            of_pool: match record.tag {
                0 => 0,
                tag => segments_with(&self.segments, tag).count() as u64 * segment,
            },
            ..record.clone()
        });
        let (clearing, tables) = records.partition(|record| record.is_clearing);
        Listing {
            tables,
            damaged: self.damaged().cloned().collect(),
            retired: self.retired().cloned().collect(),
            clearing,
            repairs: self.header[(REPAIRS_AT / 8) as usize],
        }
    }
}

/// An entry as it was read, with its state word.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) number: usize,
    pub(super) word: u64,
    pub(super) is: Is,
}

/// What an entry is.
#[derive(Debug)]
pub(super) enum Is {
    Empty,
    Table(TableRecord),
    /// A table that is gone, whose memory has still to be made zeros.
    Retired(TableRecord),
    Damaged(DamagedEntry),
}

/// The catalog as it was read.
pub(super) struct CatalogSnapshot {
    /// The words of all segments of the region, where they were read.
    pub(super) segments: Vec<u64>,
    /// Bytes of the region.
    pub(super) region_bytes: u64,
    /// The words of the header.
    pub(super) header: [u64; HEADER_WORDS],
    /// All entries, or those up to the last that was ever used.
    pub(super) entries: Vec<Entry>,
    /// Whether others' tables are among them.
    pub(super) is_whole: bool,
}

impl CatalogSnapshot {
    /// The tables that there are.
    pub(super) fn tables(&self) -> impl Iterator<Item = (&Entry, &TableRecord)> {
        let replaced = self.replaced();
        self.entries
            .iter()
            .filter_map(move |entry| match &entry.is {
                Is::Table(record) if !replaced.contains(&record.id) => Some((entry, record)),
                _ => None,
            })
    }

    /// The ids of tables in whose place others have come.
    pub(super) fn replaced(&self) -> HashSet<u64> {
        let records = self.entries.iter().filter_map(|entry| match &entry.is {
            Is::Table(record) => record.replaces,
            _ => None,
        });
        records.collect()
    }

    /// What the tables have, those included that are gone and not yet zeros.
    pub(super) fn extents(&self) -> impl Iterator<Item = Range<u64>> {
        let in_pieces = self.records().map(TableRecord::extent);
        in_pieces.chain(taken(&self.segments, self.region_bytes))
    }

    /// The tables, those included that are gone and not yet zeros.
    pub(super) fn records(&self) -> impl Iterator<Item = &TableRecord> {
        self.entries.iter().filter_map(|entry| match &entry.is {
            Is::Table(record) | Is::Retired(record) => Some(record),
            Is::Empty | Is::Damaged(_) => None,
        })
    }

    /// The same with the words of all segments.
    pub(super) async fn with_pool<E: Endpoint>(mut self, of: &Catalog<'_, E>) -> Result<Self> {
        if self.is_whole {
            self.segments = of.pool().words().await?;
        }
        Ok(self)
    }

    pub(super) fn damaged(&self) -> impl Iterator<Item = &DamagedEntry> {
        self.entries.iter().filter_map(|entry| match &entry.is {
            Is::Damaged(damaged) => Some(damaged),
            _ => None,
        })
    }

    /// The tables that are gone and not yet zeros.
    pub(super) fn retired(&self) -> impl Iterator<Item = &TableRecord> {
        self.entries.iter().filter_map(|entry| match &entry.is {
            Is::Retired(record) => Some(record),
            _ => None,
        })
    }

    /// The bytes of the region that a new table may lie in: behind all that was ever taken where an
    /// entry is damaged or is not shown, for nobody knows which part of that is its table's.
    pub(super) fn usable(&self, region_bytes: u64) -> Range<u64> {
        let [_, mark, ..] = self.header;
        match self.damaged().next() {
            None if self.is_whole => CATALOG_BYTES..region_bytes,
            _ => CATALOG_BYTES.saturating_add(mark).min(region_bytes)..region_bytes,
        }
    }
}

impl<E: Endpoint> Catalog<'_, E> {
    /// All tables, oldest first, and the entries that are damaged.
    pub(crate) async fn listing(&self) -> Result<Listing> {
        Ok(self.snapshot(false).await?.listing())
    }

    /// The same, and how much memory the tables have taken.
    pub(crate) async fn listing_and_memory(&self) -> Result<(Listing, MemoryUse)> {
        let snapshot = self.snapshot(false).await?.with_pool(self).await?;
        let usable = snapshot.usable(self.region_bytes);
        let largest_free = space::largest(snapshot.extents(), usable.clone());
        let free = (usable.end - usable.start) - space::taken(snapshot.extents(), usable);
        let memory = MemoryUse {
            largest_free,
            total: self.total(),
            taken: self.total() - free,
        };
        Ok((snapshot.listing(), memory))
    }

    /// The table of that name, if there is one.
    pub(crate) async fn find(&self, name: &str) -> Result<Option<TableRecord>> {
        Ok(self.listing().await?.find(name)?.cloned())
    }

    /// Reads the entries: all, or those up to the last that was ever used.
    pub(super) async fn snapshot(&self, all: bool) -> Result<CatalogSnapshot> {
        if self.is_hidden() {
            return self.told().await;
        }
        let header = self.endpoint.read(self.at(0), HEADER_WORDS * 8);
        let (header, block) = both(header, self.read_block(0)).await;
        let header = header?;
        let header: [u64; HEADER_WORDS] = std::array::from_fn(|word| header.words()[word]);
        let [_, _, used, phase, _] = header;
        self.admit(phase, false)?;
        let mut snapshot = CatalogSnapshot {
            segments: Vec::new(),
            region_bytes: self.region_bytes,
            header,
            entries: Vec::new(),
            is_whole: true,
        };
        let mut block = block?;
        let mut others = match all {
            true => self.read_other_blocks().await?,
            false => Vec::new(),
        }
        .into_iter();
        for first in (0..MOST_TABLES).step_by(ENTRIES_A_READ) {
            if first > 0 {
                block = match others.next() {
                    Some(block) => block,
                    None => self.read_block(first).await?,
                };
            }
            let mut is_full = true;
            for (number, bytes) in (first..).zip(block.chunks_exact(ENTRY_BYTES)) {
                let entry = self.entry_of(number, bytes).await?;
                is_full &= !matches!(entry.is, Is::Empty);
                snapshot.entries.push(entry);
            }
            let next = (first + ENTRIES_A_READ) as u64;
            if !all && !is_full && next >= used {
                break;
            }
        }
        match all {
            true => snapshot.with_pool(self).await,
            false => Ok(snapshot),
        }
    }

    async fn read_block(&self, first: usize) -> Result<Buffer> {
        let bytes = ENTRIES_A_READ * ENTRY_BYTES;
        Ok(self.endpoint.read(self.entry_at(first), bytes).await?)
    }

    /// All blocks of entries but the first, several at once: one after the other they would take a
    /// slow link half a minute.
    async fn read_other_blocks(&self) -> Result<Vec<Buffer>> {
        let reads = (ENTRIES_A_READ..MOST_TABLES)
            .step_by(ENTRIES_A_READ)
            .map(|first| self.read_block(first));
        let mut blocks: Vec<_> = reads.clone().map(|_| None).collect();
        window(BLOCKS_AT_ONCE, reads, |at, block| blocks[at] = Some(block)).await;
        blocks.into_iter().flatten().collect()
    }

    /// Reads one entry.
    pub(super) async fn entry(&self, number: usize) -> Result<Entry> {
        let bytes = self.read_entry(number).await?;
        self.entry_of(number, &bytes).await
    }

    /// The map of the table that a partition belongs to.
    pub(crate) async fn map(&self, record: &TableRecord, place: MapPlace) -> Result<PartitionMap> {
        let damaged = |reason: String| StoreError::DamagedMap {
            name: record.name.clone(),
            reason,
        };
        if place.bytes > MOST_MAP_BYTES {
            return Err(damaged(too_long(place.bytes)));
        }
        // It was placed before the entry was published.
        let bytes = place.bytes as usize;
        let (read, told);
        let json: &[u8] = match self.is_hidden() {
            true => {
                told = self.told_map(record.id, bytes).await?;
                &told
            }
            false => {
                read = self.endpoint.read(self.at(place.offset), bytes).await?;
                &read
            }
        };
        if xxh3_64(json) != place.sum {
            return Err(damaged("its checksum does not fit".into()));
        }
        let map: PartitionMap =
            serde_json::from_slice(json).map_err(|error| damaged(error.to_string()))?;
        let (partitions, nodes) = (map.slots.partitions(), map.nodes.len());
        if usize::from(partitions) != nodes {
            return Err(damaged(format!("{partitions} partitions on {nodes} nodes")));
        }
        Ok(map)
    }

    async fn read_entry(&self, number: usize) -> Result<Buffer> {
        let at = self.entry_at(number);
        Ok(self.endpoint.read(at, ENTRY_BYTES).await?)
    }

    /// What the bytes of an entry say; reads them again if they may be torn.
    async fn entry_of(&self, number: usize, bytes: &[u8]) -> Result<Entry> {
        let mut reread;
        let mut bytes = bytes;
        for _ in 1..MOST_READS {
            match entry_in(number, bytes, self.region_bytes) {
                (entry, false) => return Ok(entry),
                (_, true) => {
                    self.endpoint.sleep(PAUSE / 100).await;
                    reread = self.read_entry(number).await?;
                    bytes = &reread;
                }
            }
        }
        Ok(entry_in(number, bytes, self.region_bytes).0)
    }
}

/// What the bytes of an entry say, in a region of so many, and whether they may be torn: then that
/// is what it is if they stay so.
pub(super) fn entry_in(number: usize, bytes: &[u8], region_bytes: u64) -> (Entry, bool) {
    let word = word_of(bytes);
    let (is, may_be_torn) = what_is_in(number, bytes, region_bytes);
    (Entry { number, word, is }, may_be_torn)
}

fn what_is_in(number: usize, bytes: &[u8], region_bytes: u64) -> (Is, bool) {
    let word = word_of(bytes);
    let state = State::decode(word);
    let Some((json, is_whole)) = record_in(bytes) else {
        let reason = || format!("its state word {word:#018x} is none that a client writes");
        return match state {
            State::Empty => (Is::Empty, false),
            State::Table { .. } | State::Damaged => (damaged(number, None, reason()), false),
        };
    };
    if !is_whole {
        let reason = "its checksum does not fit".into();
        return (damaged(number, Some(json), reason), true);
    }
    let (retired, restored, is_clearing) = match state {
        State::Table {
            retired,
            restored,
            clearing,
            ..
        } => (retired, restored, clearing),
        State::Empty | State::Damaged => (false, false, false),
    };
    let mut record: TableRecord = match serde_json::from_slice(json) {
        Ok(record) => record,
        Err(error) => return (damaged(number, Some(json), error.to_string()), false),
    };
    if let Some(partition) = &mut record.partition {
        partition.remade &= !restored;
    }
    if let Err(reason) = check(&record, region_bytes) {
        return (damaged(number, Some(json), reason), false);
    }
    let id = id_of(bytes);
    let is_closed = id == closed(record.id);
    // Of one that is being retired the id goes behind the word that says so.
    if !retired && id != record.id && !is_closed {
        let reason = format!("its id word is not the record's {:#x}", record.id);
        return (damaged(number, Some(json), reason), true);
    }
    let record = TableRecord {
        entry: number,
        restored,
        is_clearing,
        is_closed,
        ..record
    };
    match retired {
        true => (Is::Retired(record), false),
        false => (Is::Table(record), false),
    }
}

/// Refuses a record of a table that cannot be where it says.
fn check(record: &TableRecord, region_bytes: u64) -> std::result::Result<(), String> {
    check_name(&record.name).map_err(|error| error.to_string())?;
    if record.id == 0 {
        return Err("its id is 0".into());
    }
    let scheme = record.scheme.check();
    scheme.map_err(|error| error.to_string())?;
    let (offset, region) = (u128::from(record.offset), u128::from(region_bytes));
    if record.offset < CATALOG_BYTES || !record.offset.is_multiple_of(8) {
        let least = CATALOG_BYTES;
        return Err(format!(
            "its table is at byte {offset}: no multiple of 8 from {least} on"
        ));
    }
    if let Some(layout) = pooled(&record.scheme) {
        let segment = segment_bytes(region_bytes);
        let most = u128::from(MOST_LISTED) * u128::from(segment);
        let is_too_long = layout.address_bytes() > most;
        if layout.segment != segment || record.tag == 0 || is_too_long {
            let found = layout.segment;
            return Err(format!(
                "it is made of segments of {found} bytes, with the tag {:#x}, in a region of segments \
                 of {segment}",
                record.tag
            ));
        }
    }
    let bytes = record.scheme.table_bytes();
    if offset + bytes > region {
        return Err(format!(
            "its table of {bytes} bytes at {offset} passes the region's end at {region}"
        ));
    }
    match &record.partition {
        Some(partition) => {
            let (map, number) = (partition.map, partition.number);
            check_map(map, (offset + bytes)..region, number)
        }
        None => Ok(()),
    }
}

fn check_map(map: MapPlace, free: Range<u128>, number: u16) -> std::result::Result<(), String> {
    if usize::from(number) >= MOST_NODES {
        return Err(format!("partition {number} of {MOST_NODES}"));
    }
    let (start, bytes) = (u128::from(map.offset), u128::from(map.bytes));
    if start >= free.start && map.bytes <= MOST_MAP_BYTES && start + bytes <= free.end {
        return Ok(());
    }
    Err(format!(
        "its map of {bytes} bytes at {start}: at most {MOST_MAP_BYTES}, from {} to the region's end at {}",
        free.start, free.end
    ))
}

pub(super) fn too_long(bytes: u64) -> String {
    format!("its {bytes} bytes are over the limit of {MOST_MAP_BYTES}")
}

pub(super) fn damaged(entry: usize, json: Option<&[u8]>, reason: String) -> Is {
    /// What is left of a record in which the rest cannot be read.
    #[derive(serde::Deserialize)]
    struct RecordName {
        name: String,
    }
    let named = json.and_then(|json| serde_json::from_slice::<RecordName>(json).ok());
    let named = named.map(|named| named.name);
    Is::Damaged(DamagedEntry {
        address: String::new(),
        entry,
        name: named.filter(|name| check_name(name).is_ok()),
        reason,
    })
}
