//! Reading the catalog: all tables that can be read, and the entries that cannot, by name.

use super::entry::{BUCKET, EntryWords, MOST_RECORD, WORDS_BYTES, home_of};
use super::parsing::{DamagedEntry, Entry, Is, MOST_MAP_BYTES, entry_in, too_long};
use super::pool::{segments_with, taken};
use super::record::{MapPlace, MemoryUse, PartitionMap, TableRecord};
use super::region::{Catalog, HEADER_WORDS, PAUSE, PUBLISHED, REPAIRS_AT};
use super::sizes::{catalog_bytes, segment_bytes};
use super::space;
use crate::{Result, StoreError};
use farslot_fabric::{Buffer, Endpoint, EndpointExt, both, window};
use std::collections::HashSet;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64;

/// Entries whose words one READ fetches.
const WORDS_A_READ: usize = 512;
/// Entries whose records one READ fetches.
const RECORDS_A_READ: usize = 16;
/// Such READs that are under way at once, at most: a NIC holds back more than 16, and what waits
/// there may time out.
const READS_AT_ONCE: usize = 8;
/// A record is visible with the word that publishes it, and a READ may be torn once. More than
/// this, and it is damaged.
pub(super) const MOST_READS: u32 = 8;

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

impl Listing {
    /// What is listed for the sake of one table that was found.
    fn of_one(table: TableRecord, header: &[u64; HEADER_WORDS]) -> Self {
        Self {
            tables: vec![table],
            repairs: repairs_in(header),
            ..Self::default()
        }
    }
}

const fn repairs_in(header: &[u64; HEADER_WORDS]) -> u64 {
    header[(REPAIRS_AT / 8) as usize]
}

impl CatalogSnapshot {
    pub(super) fn listing(&self) -> Listing {
        let segment = segment_bytes(self.region_bytes);
        let mut records: Vec<_> = self.tables().map(|(_, record)| record.clone()).collect();
        for record in records.iter_mut().filter(|record| record.tag != 0) {
            record.of_pool = segments_with(&self.segments, record.tag).count() as u64 * segment;
        }
        records.sort_by_key(|record| record.published);
        let (clearing, tables) = records.into_iter().partition(|record| record.is_clearing);
        Listing {
            tables,
            damaged: self.damaged().cloned().collect(),
            retired: self.retired().cloned().collect(),
            clearing,
            repairs: repairs_in(&self.header),
        }
    }
}

/// The catalog as it was read.
pub(super) struct CatalogSnapshot {
    /// The words of all segments of the region, where they were read.
    pub(super) segments: Vec<u64>,
    /// Bytes of the region.
    pub(super) region_bytes: u64,
    /// The words of the header.
    pub(super) header: [u64; HEADER_WORDS],
    /// All entries; of a catalog that was told of, those that were.
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
    async fn with_pool<E: Endpoint>(mut self, of: &Catalog<'_, E>) -> Result<Self> {
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
    pub(super) fn usable(&self) -> Range<u64> {
        let start = match self.damaged().next() {
            None if self.is_whole => catalog_bytes(self.region_bytes),
            _ => self.marked(),
        };
        start..self.region_bytes
    }

    /// The byte up to which memory was ever taken, by the header.
    pub(super) fn marked(&self) -> u64 {
        let [_, mark, ..] = self.header;
        let marked = catalog_bytes(self.region_bytes).saturating_add(mark);
        marked.min(self.region_bytes)
    }
}

impl<E: Endpoint> Catalog<'_, E> {
    /// All tables, oldest first, and the entries that are damaged.
    pub(crate) async fn listing(&self) -> Result<Listing> {
        Ok(self.steady_snapshot().await?.listing())
    }

    /// The same, and how much memory the tables have taken.
    pub(crate) async fn listing_and_memory(&self) -> Result<(Listing, MemoryUse)> {
        let snapshot = self.steady_snapshot().await?.with_pool(self).await?;
        let usable = snapshot.usable();
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
        Ok(self.listing_for(name).await?.find(name)?.cloned())
    }

    /// What there is to know for the sake of the table of that name: it alone if it can be opened,
    /// else all tables and damaged entries. A table in the bucket of its name takes three READs, of
    /// which two are posted at once.
    pub(crate) async fn listing_for(&self, name: &str) -> Result<Listing> {
        if self.is_hidden() {
            let told = self.told(Some(name)).await?;
            let mut entries = told.entries.iter();
            return match entries.find_map(|entry| entry.open_table(name)) {
                Some(table) => Ok(Listing::of_one(table.clone(), &told.header)),
                None => self.listing().await,
            };
        }
        let home = home_of(name, self.most_tables());
        let bucket = self.read_words(home..home + BUCKET);
        let (header, bucket) = both(self.read_header(), bucket).await;
        let header = header?;
        if let Some(table) = self.find_among(home, &bucket?, name).await? {
            return Ok(Listing::of_one(table, &header));
        }
        // Its bucket was full, or it is not there, or not as it should be.
        let words = self.read_all_words().await?;
        match self.find_among(0, &words, name).await? {
            Some(table) => Ok(Listing::of_one(table, &header)),
            None => Ok(self.steady_snapshot_of(header, words).await?.listing()),
        }
    }

    /// What a client reads that does not hold the catalog's lock.
    async fn steady_snapshot(&self) -> Result<CatalogSnapshot> {
        if self.is_hidden() {
            return self.told(None).await;
        }
        let header = self.read_header().await?;
        let words = self.read_all_words().await?;
        self.steady_snapshot_of(header, words).await
    }

    /// The same by the words of all entries, which were read after the header. Where records were
    /// replaced meanwhile, one that has come in the place of another may be missed beside that;
    /// where damaged entries were cleared, one may be missed that the header's count of repairs
    /// says nothing of: then all is read again. No client writes so fast that this takes more than
    /// a few times.
    pub(super) async fn steady_snapshot_of(
        &self,
        mut header: [u64; HEADER_WORDS],
        mut words: Vec<u64>,
    ) -> Result<CatalogSnapshot> {
        let mut reads = 1;
        loop {
            let snapshot = self.snapshot_of(header, &words).await?;
            // Behind the records, for an entry may be read again with one of these.
            let now = self.read_header().await?;
            let is_steady =
                now[PUBLISHED] == header[PUBLISHED] && repairs_in(&now) == repairs_in(&header);
            if is_steady || reads == MOST_READS {
                return Ok(snapshot);
            }
            (header, words) = (now, self.read_all_words().await?);
            reads += 1;
        }
    }

    /// The table of that name that can be opened, by the words of the entries from `first` on.
    async fn find_among(
        &self,
        first: usize,
        words: &[u64],
        name: &str,
    ) -> Result<Option<TableRecord>> {
        let may_be = (first..).zip(EntryWords::all(words));
        let may_be = may_be.filter(|(_, words)| words.may_be(name));
        let reads = may_be.map(|(number, words)| async move {
            let record = self.endpoint.read(self.record_at(number), MOST_RECORD);
            self.entry_of(number, words, &record.await?).await
        });
        let mut found = Ok(None);
        window(READS_AT_ONCE, reads, |_, entry| match entry {
            Ok(entry) => {
                if let (Ok(found @ None), Some(table)) = (&mut found, entry.open_table(name)) {
                    *found = Some(table.clone());
                }
            }
            Err(error) => found = Err(error),
        })
        .await;
        found
    }

    /// Reads all entries: whole while this client holds the catalog's lock.
    pub(super) async fn snapshot(&self) -> Result<CatalogSnapshot> {
        if self.is_hidden() {
            return self.told(None).await;
        }
        let (header, words) = both(self.read_header(), self.read_all_words()).await;
        self.snapshot_of(header?, &words?).await
    }

    /// The same with the words of all segments.
    pub(super) async fn snapshot_with_pool(&self) -> Result<CatalogSnapshot> {
        self.snapshot().await?.with_pool(self).await
    }

    /// Reads the entries that are not empty by the words of all, but for those that are known.
    async fn snapshot_of(
        &self,
        header: [u64; HEADER_WORDS],
        words: &[u64],
    ) -> Result<CatalogSnapshot> {
        let known = self.known.take();
        let mut entries: Vec<_> = (0..)
            .zip(EntryWords::all(words))
            .map(|(number, words)| Entry::known(number, words, known.get(number)))
            .collect();
        let blocks = entries.chunks_mut(RECORDS_A_READ);
        let reads = blocks.map(|block| self.read_block(block));
        let mut read = Ok(());
        window(READS_AT_ONCE, reads, |_, block| {
            if read.is_ok() {
                read = block;
            }
        })
        .await;
        read?;
        self.known.replace(entries.clone());
        Ok(CatalogSnapshot {
            segments: Vec::new(),
            region_bytes: self.region_bytes,
            header,
            entries,
            is_whole: true,
        })
    }

    /// The words of the header, of a node whose catalog may be read.
    pub(super) async fn read_header(&self) -> Result<[u64; HEADER_WORDS]> {
        let read = self.endpoint.read(self.at(0), HEADER_WORDS * 8).await?;
        let header: [u64; HEADER_WORDS] = std::array::from_fn(|word| read.words()[word]);
        let [.., phase, _] = header;
        self.admit(phase, false)?;
        Ok(header)
    }

    async fn read_words(&self, entries: Range<usize>) -> Result<Vec<u64>> {
        let (at, bytes) = (self.entry_at(entries.start), entries.len() * WORDS_BYTES);
        Ok(self.endpoint.read(at, bytes).await?.words().to_vec())
    }

    /// The words of all entries, several READs at once: one after the other they would take a slow
    /// link seconds.
    pub(super) async fn read_all_words(&self) -> Result<Vec<u64>> {
        let all = self.most_tables();
        let firsts = (0..all).step_by(WORDS_A_READ);
        let reads = firsts.map(|first| self.read_words(first..all.min(first + WORDS_A_READ)));
        let mut blocks: Vec<_> = reads.clone().map(|_| Ok(Vec::new())).collect();
        window(READS_AT_ONCE, reads, |at, block| blocks[at] = block).await;
        let blocks: Result<Vec<_>> = blocks.into_iter().collect();
        Ok(blocks?.concat())
    }

    /// Has entries that lie one behind the other say what their records do, where these have still
    /// to be read.
    async fn read_block(&self, block: &mut [Entry]) -> Result<()> {
        let (Some(first), Some(last)) = (
            block.iter().position(Entry::is_unread),
            block.iter().rposition(Entry::is_unread),
        ) else {
            return Ok(());
        };
        let block = &mut block[first..=last];
        let at = self.record_at(block[0].number);
        let records = self.endpoint.read(at, block.len() * MOST_RECORD).await?;
        for (entry, record) in block.iter_mut().zip(records.chunks_exact(MOST_RECORD)) {
            if entry.is_unread() {
                *entry = self.entry_of(entry.number, entry.words, record).await?;
            }
        }
        Ok(())
    }

    /// Reads one entry.
    pub(super) async fn entry(&self, number: usize) -> Result<Entry> {
        let (words, record) = self.read_entry(number).await?;
        self.entry_of(number, words, &record).await
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

    async fn read_entry(&self, number: usize) -> Result<(EntryWords, Buffer)> {
        let words = self.read_words(number..number + 1);
        let record = self.endpoint.read(self.record_at(number), MOST_RECORD);
        let (words, record) = both(words, record).await;
        let words = EntryWords::all(&words?).next().unwrap_or_default();
        Ok((words, record?))
    }

    /// What the words and the record of an entry say; reads them again if they may be torn.
    async fn entry_of(&self, number: usize, words: EntryWords, record: &[u8]) -> Result<Entry> {
        let mut read = entry_in(number, words, record, self.region_bytes);
        for _ in 1..MOST_READS {
            if let (entry, false) = read {
                return Ok(entry);
            }
            self.endpoint.sleep(PAUSE / 100).await;
            let (words, record) = self.read_entry(number).await?;
            read = entry_in(number, words, &record, self.region_bytes);
        }
        Ok(read.0)
    }
}
