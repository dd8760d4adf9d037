//! Making, dropping and renaming tables.
//!
//! **Making** a table finds a place that no table has, writes the record into an empty entry, the
//! next from the bucket of its name on, and publishes it by one compare-and-swap.
//!
//! **Dropping** takes three steps. The table is *retired*: its entry says so, and its id word
//! becomes 0, so that nobody opens it any more and clients that have it open notice when they next
//! look (their lease). Then the one who drops it waits, for as long as a client may go on without a
//! look and a verb may still be under way. Then all that may have been written is made zeros, and
//! the entry is empty. A table whose client died half way is finished by whoever needs the room.
//!
//! **Renaming** marks the old entry as one in whose place another may have come: clients that find
//! it by its name's hash read all the others from then on. It then publishes the record under the
//! new name, in another entry, which says whose place it takes; the old entry is hidden from then
//! on, and cleared. It is done or not done at any moment, whoever dies when. A mark that is left
//! goes with the next change.

use super::entry::{EntryWords, ID_AT, MOST_RECORD, State, home_of};
use super::listing::CatalogSnapshot;
use super::lock::{Change, LONGEST_VERB};
use super::parsing::{Entry, Is, MOST_MAP_BYTES, too_long};
use super::pool::{self, draw_tag, segments_with};
use super::record::{MapPlace, Partition, PartitionMap, Scheme, TableRecord, pooled};
use super::region::{Catalog, LEASE, MARK_AT, PUBLISHED, PUBLISHED_AT};
use super::sizes::{catalog_bytes, most_tables};
use super::space;
use crate::names::check_name;
use crate::seeds::draw_id;
use crate::{Result, StoreError};
use farslot_fabric::{Endpoint, EndpointExt, Nanos};
use xxhash_rust::xxh3::xxh3_64;

/// The partition of a table over several nodes that is to be made.
#[derive(Clone, Copy)]
pub(crate) struct NewPartition<'m> {
    pub(crate) creation: u64,
    pub(crate) number: u16,
    pub(crate) prebuilt: bool,
    pub(crate) remade: bool,
    pub(crate) map: &'m PartitionMap,
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
    fn of(
        name: &'m str,
        scheme: Scheme,
        partition: Option<NewPartition<'m>>,
        region_bytes: u64,
    ) -> Result<Self> {
        let damaged = |reason| StoreError::DamagedMap {
            name: name.into(),
            reason,
        };
        let map = match partition {
            None => Vec::new(),
            Some(partition) => {
                serde_json::to_vec(partition.map).map_err(|error| damaged(error.to_string()))?
            }
        };
        if map.len() as u64 > MOST_MAP_BYTES {
            return Err(damaged(too_long(map.len() as u64)));
        }
        Ok(Self {
            name,
            scheme: scheme.in_region(region_bytes),
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
            id: draw_id(),
            partition: self.partition.map(|partition| Partition {
                creation: partition.creation,
                number: partition.number,
                incarnation,
                prebuilt: partition.prebuilt,
                remade: partition.remade,
                on_restart: partition.map.on_restart,
                map,
            }),
            ..TableRecord::new(self.name, offset, self.scheme.clone())
        }
    }

    /// Whether a table is of the same name, or the same partition under another.
    fn is_there(&self, record: &TableRecord) -> bool {
        record.name == self.name || self.is_same_partition(record)
    }

    fn is_same_partition(&self, record: &TableRecord) -> bool {
        match (self.partition, &record.partition) {
            (Some(new), Some(part)) => (new.creation, new.number) == (part.creation, part.number),
            _ => false,
        }
    }
}

/// How long a client may still use a table that was retired: for a lease without having looked, and
/// with a verb under way.
pub(crate) const GRACE: Nanos = LEASE + LONGEST_VERB;

impl<E: Endpoint> Catalog<'_, E> {
    /// Makes a table.
    pub(crate) async fn create(
        &self,
        name: &str,
        scheme: Scheme,
        partition: Option<NewPartition<'_>>,
    ) -> Result<TableRecord> {
        check_name(name)?;
        let new = New::of(name, scheme, partition, self.region_bytes)?;
        match self.make(&new).await {
            Err(error) if is_short(&error) && self.reclaim_left().await? => self.make(&new).await,
            made => made,
        }
    }

    /// A place for so many bytes that none of these extents has.
    pub(super) fn place(
        &self,
        table: &str,
        extents: impl IntoIterator<Item = std::ops::Range<u64>>,
        snapshot: &CatalogSnapshot,
        requested: u128,
    ) -> Result<u64> {
        let usable = snapshot.usable();
        let placed = space::place(extents, usable, requested);
        placed.map_err(|free| StoreError::OutOfMemory {
            table: table.into(),
            requested,
            free,
            total: self.total(),
        })
    }

    async fn make(&self, new: &New<'_>) -> Result<TableRecord> {
        self.changing(async |change| {
            let snapshot = change.settled().await?;
            if let Some(damaged) = snapshot
                .damaged()
                .find(|of| of.name.as_deref() == Some(new.name))
            {
                return Err(damaged.error());
            }
            let mut tables = snapshot.tables();
            if let Some((_, record)) = tables.find(|(_, record)| new.is_there(record)) {
                return Err(table_exists(&record.name));
            }
            if snapshot
                .retired()
                .any(|record| new.is_same_partition(record) && !record.is_part_being_restored())
            {
                return Err(StoreError::TableGone {
                    name: new.name.into(),
                });
            }
            change.publish(new, &snapshot).await
        })
        .await
    }

    /// Changes the catalog.
    pub(super) async fn changing<T>(
        &self,
        work: impl AsyncFn(&Change<'_, '_, E>) -> Result<T>,
    ) -> Result<T> {
        // While others may change it too: of what is known then, a change reads the words alone. If
        // that fails, the change says why.
        if !self.is_hidden() {
            let _ = self.snapshot().await;
        }
        let change = self.begin().await?;
        let done = work(&change).await;
        // If this fails, what was done is done, and others wait a while.
        let _ = change.end().await;
        done
    }

    /// Waits until nobody uses the tables any more that are gone, and frees their memory; false if
    /// there are none.
    pub(super) async fn reclaim_left(&self) -> Result<bool> {
        let snapshot = self.snapshot().await?;
        let left: Vec<_> = snapshot.retired().cloned().collect();
        if left.is_empty() {
            return Ok(false);
        }
        self.endpoint.sleep(GRACE).await;
        for record in left {
            self.reclaim(&record).await?;
        }
        Ok(true)
    }

    /// Retires a table: from now on nobody opens it. Nothing if there is none of that name, or it
    /// is not of that creation.
    pub(crate) async fn retire(
        &self,
        name: &str,
        creation: Option<u64>,
    ) -> Result<Option<TableRecord>> {
        self.changing(async |change| {
            let snapshot = change.settled().await?;
            let Some((entry, record)) = named(&snapshot, name, creation)? else {
                return Ok(None);
            };
            change.retire(entry, record).await?;
            Ok(Some(record.clone()))
        })
        .await
    }

    /// Frees the memory of a table that was retired so long ago that nobody uses it any more.
    pub(crate) async fn reclaim(&self, record: &TableRecord) -> Result<()> {
        self.changing(async |change| change.reclaim(record).await)
            .await
    }

    /// Gives a table another name; nothing if there is none of the old, or it is not of that
    /// creation.
    pub(crate) async fn rename(
        &self,
        name: &str,
        to: &str,
        creation: Option<u64>,
    ) -> Result<Option<TableRecord>> {
        check_name(to)?;
        self.changing(async |change| {
            let snapshot = change.settled().await?;
            let Some((entry, record)) = named(&snapshot, name, creation)? else {
                return Ok(None);
            };
            let is_taken = snapshot.tables().any(|(_, other)| other.name == to)
                || snapshot
                    .damaged()
                    .any(|other| other.name.as_deref() == Some(to));
            if is_taken {
                return Err(table_exists(to));
            }
            let renamed = TableRecord {
                name: to.into(),
                ..record.clone()
            };
            Ok(Some(change.succeed(entry, renamed, &snapshot).await?))
        })
        .await
    }

    /// Notes that the records of a table have come from a snapshot: what its node had lost of it is
    /// back. Clients go on with the table; false if there is none of that name and creation.
    pub(crate) async fn mark_restored(&self, name: &str, creation: Option<u64>) -> Result<bool> {
        self.changing(async |change| {
            let snapshot = change.settled().await?;
            let Some((entry, _)) = named(&snapshot, name, creation)? else {
                return Ok(false);
            };
            let at = self.entry_at(entry.number);
            let marked = State::restored(entry.words.state);
            if entry.words.state != marked {
                change.must_swap(at, entry.words.state, marked).await?;
            }
            Ok(true)
        })
        .await
    }
}

/// The table of that name and creation.
pub(super) fn named<'s>(
    snapshot: &'s CatalogSnapshot,
    name: &str,
    creation: Option<u64>,
) -> Result<Option<(&'s Entry, &'s TableRecord)>> {
    let found = snapshot.tables().find(|(_, record)| record.name == name);
    if found.is_none()
        && let Some(damaged) = snapshot
            .damaged()
            .find(|of| of.name.as_deref() == Some(name))
    {
        return Err(damaged.error());
    }
    let of = |record: &TableRecord| record.partition.as_ref().map(|part| part.creation);
    Ok(found.filter(|(_, record)| of(record) == creation))
}

/// The empty entry that is next to the bucket of a name, or in it.
fn empty_entry(snapshot: &CatalogSnapshot, name: &str) -> Result<usize> {
    let limit = most_tables(snapshot.region_bytes);
    let home = home_of(name, limit);
    let empty = snapshot
        .entries
        .iter()
        .filter(|entry| matches!(entry.is, Is::Empty));
    let numbers = empty.map(|entry| entry.number);
    let next = numbers.min_by_key(|number| (number + limit - home) % limit);
    next.ok_or(StoreError::TooManyTables { limit })
}

fn table_exists(name: &str) -> StoreError {
    StoreError::TableExists { name: name.into() }
}

/// Whether there is no room, which there may be when what is gone is reclaimed.
pub(super) const fn is_short(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::OutOfMemory { .. } | StoreError::TooManyTables { .. }
    )
}

impl<E: Endpoint> Change<'_, '_, E> {
    /// The catalog, with every table out of the way in whose place another has come.
    pub(super) async fn settled(&self) -> Result<CatalogSnapshot> {
        let snapshot = self.catalog.snapshot_with_pool().await?;
        let [.., phase, _] = snapshot.header;
        self.catalog.admit(phase, true)?;
        let snapshot = match self.free_what_nobody_has(&snapshot).await? {
            true => self.catalog.snapshot_with_pool().await?,
            false => snapshot,
        };
        let replaced = snapshot.replaced();
        let (mut changed, mut replaces_any) = (false, false);
        for entry in &snapshot.entries {
            let Is::Table(record) = &entry.is else {
                continue;
            };
            if !replaced.contains(&record.id) {
                changed |= self.has_stayed(entry).await?;
                continue;
            }
            if !replaces_any {
                self.count_replaced(&snapshot).await?;
                replaces_any = true;
            }
            let mut extents = snapshot.tables().map(|(_, other)| other.extent());
            match extents.any(|extent| extent == record.extent()) {
                // Its memory is the other's, under another name.
                true => self.forget(entry, record).await?,
                false => self.retire(entry, record).await?,
            }
        }
        match changed || replaces_any {
            true => self.catalog.snapshot_with_pool().await,
            false => Ok(snapshot),
        }
    }

    /// Counts up before records go in whose places others have come. Who has read the place of such
    /// another before it was there, and then reads the old one's when it is gone, began to read
    /// before this count, and sees it behind that.
    pub(super) async fn count_replaced(&self, snapshot: &CatalogSnapshot) -> Result<()> {
        let count = snapshot.header[PUBLISHED].wrapping_add(1).to_le_bytes();
        self.write(self.catalog.at(PUBLISHED_AT), &count).await
    }

    /// Takes the mark away that another record may have come in the place of this one; whether it
    /// was there.
    async fn has_stayed(&self, entry: &Entry) -> Result<bool> {
        let (at, word) = (self.catalog.entry_at(entry.number), entry.words.state);
        let stayed = State::stayed(word);
        Ok(word != stayed && self.swap(at, word, stayed).await?)
    }

    /// Gives back the segments that no table has, as far as all tables are known; whether there
    /// were any.
    pub(super) async fn free_what_nobody_has(&self, snapshot: &CatalogSnapshot) -> Result<bool> {
        if !snapshot.is_whole || snapshot.damaged().next().is_some() {
            return Ok(false);
        }
        let records = || snapshot.records();
        let extents: Vec<_> = records().map(TableRecord::extent).collect();
        let tags: Vec<_> = records().map(|record| record.tag).collect();
        self.free_unowned(&snapshot.segments, &extents, &tags).await
    }

    /// Makes a table where there is room for it.
    async fn publish(&self, new: &New<'_>, snapshot: &CatalogSnapshot) -> Result<TableRecord> {
        let catalog = self.catalog;
        let entry = empty_entry(snapshot, new.name)?;
        let offset = self.place(new, snapshot).await?;
        let mut record = TableRecord {
            entry,
            published: snapshot.header[PUBLISHED] as u32,
            catalog_end: catalog_bytes(catalog.region_bytes),
            ..new.record(offset, catalog.incarnation)
        };
        if let Some(Partition { map, .. }) = record.partition {
            self.write(catalog.at(map.offset), &new.map).await?;
        }
        if pooled(&record.scheme).is_none() {
            self.put_record(&record, snapshot).await?;
            return Ok(record);
        }
        // Should this client die before it is open, whoever opens it ends that.
        (record.tag, record.is_clearing) = (draw_tag(&snapshot.segments), true);
        self.put_record(&record, snapshot).await?;
        let entry = catalog.entry(entry).await?;
        if !self.attach_first(&record).await? {
            self.retire(&entry, &record).await?;
            // Nobody has had it open.
            self.free_all(&record).await?;
            self.make_zeros(&record, record.extent()).await?;
            let retired = State::retired(entry.words.state);
            self.swap(catalog.entry_at(record.entry), retired, 0)
                .await?;
            return Err(self.no_segments(&record).await?);
        }
        let opened = State::opened(entry.words.state);
        self.must_swap(catalog.entry_at(record.entry), entry.words.state, opened)
            .await?;
        record.is_clearing = false;
        Ok(record)
    }

    /// Finds a place for a table that no other has, and that none takes before it is published.
    async fn place(&self, new: &New<'_>, snapshot: &CatalogSnapshot) -> Result<u64> {
        let catalog = self.catalog;
        let mut extents: Vec<_> = snapshot.extents().collect();
        loop {
            let offset = catalog.place(new.name, extents.iter().cloned(), snapshot, new.bytes())?;
            let extent = offset..offset + new.bytes() as u64;
            if self.keep_out(&extent).await? {
                return Ok(offset);
            }
            // Tables have taken segments there meanwhile.
            let words = catalog.pool().words().await?;
            extents.extend(pool::taken(&words, catalog.region_bytes));
        }
    }

    /// Publishes another record of the table of an entry, in whose place it comes.
    pub(super) async fn succeed(
        &self,
        old: &Entry,
        new: TableRecord,
        snapshot: &CatalogSnapshot,
    ) -> Result<TableRecord> {
        let new = TableRecord {
            id: draw_id(),
            replaces: Some(new.id),
            entry: empty_entry(snapshot, &new.name)?,
            ..new
        };
        let (at, word) = (self.catalog.entry_at(old.number), old.words.state);
        self.must_swap(at, word, State::moving(word)).await?;
        self.put_record(&new, snapshot).await?;
        self.settled().await?;
        Ok(new)
    }

    /// Writes a record into its entry, which is empty, and publishes it.
    async fn put_record(&self, record: &TableRecord, snapshot: &CatalogSnapshot) -> Result<()> {
        let catalog = self.catalog;
        let json = serde_json::to_vec(record).map_err(|error| StoreError::DamagedCatalog {
            entry: record.entry,
            reason: error.to_string(),
        })?;
        if json.len() > MOST_RECORD {
            return Err(StoreError::BadName {
                name: record.name.clone(),
                reason: format!(
                    "its record of {} bytes is over the limit of {MOST_RECORD}",
                    json.len()
                ),
            });
        }
        let at = catalog.entry_at(record.entry);
        self.write(catalog.record_at(record.entry), &json).await?;
        let words = EntryWords {
            id: record.id,
            place: EntryWords::place_of(&record.name, record.published),
            ..EntryWords::default()
        };
        // The first is the one that publishes it.
        let words: Vec<_> = words.bytes().skip(ID_AT as usize).collect();
        self.write(at.plus(ID_AT), &words).await?;
        // The mark falls by repairs alone.
        let [_, mark, published, ..] = snapshot.header;
        let mark = mark.max(record.extent().end - record.catalog_end);
        let header = [mark, published.wrapping_add(1)].map(u64::to_le_bytes);
        self.write(catalog.at(MARK_AT), header.as_flattened())
            .await?;
        let mut word = State::table(&json);
        if record.restored {
            word = State::restored(word);
        }
        if record.is_clearing {
            word = State::clearing(word);
        }
        self.must_swap(at, 0, word).await
    }

    /// Says that a table is gone, and takes it away from all that have it open.
    async fn retire(&self, entry: &Entry, record: &TableRecord) -> Result<()> {
        let (at, word) = (self.catalog.entry_at(entry.number), entry.words.state);
        self.must_swap(at, word, State::retired(word)).await?;
        self.swap(at.plus(ID_AT), record.id, 0).await?;
        Ok(())
    }

    /// Empties the entry of a table whose memory has another entry. Should this client die before
    /// it is empty, whoever reclaims it sees that the memory is another's.
    pub(super) async fn forget(&self, entry: &Entry, record: &TableRecord) -> Result<()> {
        self.retire(entry, record).await?;
        let at = self.catalog.entry_at(entry.number);
        self.must_swap(at, State::retired(entry.words.state), 0)
            .await
    }

    /// Makes the memory of a retired table zeros, and its entry empty, if that has not been done.
    pub(super) async fn reclaim(&self, record: &TableRecord) -> Result<()> {
        let entry = self.catalog.entry(record.entry).await?;
        let Is::Retired(retired) = &entry.is else {
            return Ok(());
        };
        if retired.id != record.id {
            return Ok(());
        }
        let at = self.catalog.entry_at(record.entry);
        // Its client may have died before it took the table away.
        if self.swap(at.plus(ID_AT), record.id, 0).await? {
            self.wait(GRACE).await?;
        }
        let (mine, all) = (record.extent(), self.catalog.snapshot().await?);
        let mut others = all.tables().map(|(_, other)| other.extent());
        if !others.any(|other| other.start < mine.end && mine.start < other.end) {
            self.free_all(record).await?;
            self.make_zeros(record, record.extent()).await?;
        }
        self.must_swap(at, entry.words.state, 0).await?;
        let snapshot = self.catalog.snapshot_with_pool().await?;
        self.free_what_nobody_has(&snapshot).await.map(drop)
    }

    /// Gives back all segments that a table has.
    async fn free_all(&self, record: &TableRecord) -> Result<()> {
        if record.tag == 0 {
            return Ok(());
        }
        let words = self.catalog.pool().words().await?;
        self.free(segments_with(&words, record.tag)).await.map(drop)
    }

    /// Waits, and shows meanwhile that this client is alive.
    pub(super) async fn wait(&self, span: Nanos) -> Result<()> {
        const PIECE: Nanos = 50_000_000;
        let since = self.catalog.endpoint.now();
        while self.catalog.endpoint.now().saturating_sub(since) < span {
            self.catalog.endpoint.sleep(PIECE.min(span)).await;
            self.show().await?;
        }
        Ok(())
    }
}
