//! Restoring a table from its snapshot.
//!
//! The records go into a table of another name, of the same scheme, seeds included: a key has the
//! same partition and the same home as before, so that what was full has room. Where a key of a
//! very full table finds no place all the same, because keys come in another order, the table is
//! made anew with an eighth more room. The table gets its name when all records are in it.

use super::format::{Head, Records};
use super::partial::open_alone;
use super::walk::{Block, Bytes, Walk, failed, walk};
use super::workers::Meter;
use super::{OnProgress, Parts, RESTORING, SnapshotError, SnapshotInfo, beside, snapshot_path};
use crate::slot_map::SlotMap;
use crate::spread::NewTable;
use crate::{ErrorKind, KeyRule, Record, Result, Scheme, Store, StoreError, Table};
use farslot_fabric::FabricError;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// What the name of the file ends with that says how far a restore has come.
const MARKS: &str = "restoring";
/// How often a table is made larger, by an eighth each time.
pub(super) const MOST_ENLARGEMENTS: u32 = 8;

impl Store {
    /// Makes a table from its snapshot in a directory, of the same scheme and sizes. The store must
    /// have as many nodes as the table had; their partitions are filled side by side. The whole
    /// file is read and checked first. The table is there when all of its records are.
    ///
    /// An attempt that was cut off has left a table `restoring-...`; the next attempt goes on with
    /// it, or begins it again if keys may have several records or the table is built whole.
    ///
    /// # Errors
    /// [`StoreError::TableExists`]; [`SnapshotError`]: a file that is damaged, for instance;
    /// [`StoreError::OutOfMemory`]; what the fabric says.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # use std::ops::ControlFlow;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let directory = directory.path();
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # store.table("stock")?.put(b"pears", b"7")?;
    /// # store.snapshot("stock", directory, &|_| ControlFlow::Continue(()))?;
    /// store.drop_table("stock")?;
    /// store.restore("stock", directory, &|_| ControlFlow::Continue(()))?;
    /// assert_eq!(store.table("stock")?.get(b"pears")?.as_deref(), Some(&b"7"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn restore(
        &self,
        table: &str,
        directory: &Path,
        progress: OnProgress<'_>,
    ) -> Result<SnapshotInfo> {
        let source = Source::open(&snapshot_path(directory, table), table)?;
        let head = &source.walk.head;
        if let Some(part) = &head.part {
            let restored = self.restore_part(&source, part, progress);
            return restored.map_err(StoreError::in_doubt);
        }
        if self.parts(table)?.is_some() {
            let name = table.into();
            return Err(StoreError::TableExists { name });
        }
        let (partitions, nodes) = (head.schemes.len(), usize::from(self.node_count()));
        if partitions != nodes {
            let path = source.path.display().to_string();
            return Err(SnapshotError::NodeCount {
                path,
                partitions,
                nodes,
            }
            .into());
        }
        let name = format!("{RESTORING}{:016x}", head.id);
        let mut schemes = head.schemes.clone();
        for attempt in 0.. {
            let (parts, continues) = self.unfinished(&name, head, &schemes)?;
            let marks = Marks::open(beside(&source.path, MARKS), &parts, continues);
            match self.fill(&name, &source, &marks, progress) {
                Err(error) if is_full(&error) && attempt < MOST_ENLARGEMENTS => {
                    log::warn!("table {table:?} is made an eighth larger than it was: {error}");
                    schemes = schemes.iter().map(enlarged).collect::<Result<_>>()?;
                    self.drop_table(&name)?;
                }
                filled => {
                    filled?;
                    let there = self.parts(&name)?;
                    if there.is_none_or(|there| there.ids() != parts.ids()) {
                        let table = table.into();
                        return Err(SnapshotError::Replaced { table }.into());
                    }
                    self.rename(&name, table)?;
                    marks.remove();
                    break;
                }
            }
        }
        Ok(source.info())
    }

    /// The table that is to be filled, and whether it can be continued: else it is new.
    fn unfinished(&self, name: &str, head: &Head, schemes: &[Scheme]) -> Result<(Parts, bool)> {
        let gone = || SnapshotError::Replaced { table: name.into() };
        match self.parts(name) {
            Ok(None) => {}
            Ok(Some(parts)) if !head.built && head.schemes[0].keys() == KeyRule::Unique => {
                return Ok((parts, true));
            }
            // Of the second, a part is missing: it was cut off as it was made, or a node came back
            // empty.
            Ok(Some(_))
            | Err(StoreError::Node {
                error: FabricError::NodeRestarted { .. },
                ..
            }) => self.drop_table(name)?,
            Err(error) => return Err(error),
        }
        self.create_alike(name, head.slots.as_ref(), schemes, head.built)?;
        let parts = self.parts(name)?.ok_or_else(gone)?;
        Ok((parts, false))
    }

    /// Makes a table of these schemes, seeds included, one for each node; built whole or not.
    pub(super) fn create_alike(
        &self,
        name: &str,
        slots: Option<&SlotMap>,
        schemes: &[Scheme],
        built: bool,
    ) -> Result<()> {
        match slots {
            Some(slots) => self.create_on_all(NewTable {
                name,
                creation: rand::random(),
                schemes: schemes.into(),
                // Should a node come back empty, its partition is not made anew.
                whole: built,
                slots: slots.clone(),
            }),
            None => self.create_on_one(name, schemes[0].clone()),
        }
        .map(drop)
    }

    fn fill(
        &self,
        name: &str,
        source: &Source,
        marks: &Marks,
        progress: OnProgress<'_>,
    ) -> Result<()> {
        if source.walk.head.built {
            let meter = Meter::new(0, source.records(), progress);
            return self.build_from(name, source, &meter);
        }
        let done = (0..).zip(&marks.done).map(|(partition, done)| {
            let blocks = source
                .blocks_of(partition)
                .take(done.load(Ordering::Relaxed) as usize);
            blocks.map(|block| block.frame.records).sum::<u64>()
        });
        let meter = Meter::new(done.sum(), source.records(), progress);
        let partitions = 0..source.walk.head.schemes.len() as u32;
        meter.all(partitions.collect(), |partition| {
            let table = self.stored_table(name)?;
            let mut payload = Vec::new();
            let first = marks.done_of(partition);
            for (number, block) in (0..).zip(source.blocks_of(partition)).skip(first as usize) {
                source.read(block, &mut payload)?;
                put_all(&table, &payload)?;
                marks.set(partition, number + 1);
                meter.add(block.frame.records)?;
            }
            table.close()
        })
    }

    fn build_from(&self, name: &str, source: &Source, meter: &Meter<'_>) -> Result<()> {
        let mut payloads = Vec::with_capacity(source.walk.blocks.len());
        for block in &source.walk.blocks {
            let mut payload = Vec::new();
            source.read(block, &mut payload)?;
            payloads.push(payload);
            meter.add(block.frame.records)?;
        }
        let records = payloads
            .iter()
            .flat_map(|payload| Records(payload).flatten());
        let records: Vec<_> = records.collect();
        let table = self.stored_table(name)?;
        table.build(&records)?;
        table.close()
    }
}

/// Puts the records of a payload that has been checked.
fn put_all(table: &Table, payload: &[u8]) -> Result<()> {
    let records = Source::records_in(payload);
    let mut failure = None;
    table.put_many(&records, |_, put| {
        if let Err(error) = put {
            failure.get_or_insert(error);
        }
    });
    failure.map_or(Ok(()), Err)
}

/// Whether a larger table would have had room.
pub(super) fn is_full(error: &StoreError) -> bool {
    use farslot_index::IndexError::HeapFull;
    error.kind() == ErrorKind::Full || matches!(error, StoreError::Index(HeapFull { .. }))
}

/// The scheme of a table with an eighth more room.
pub(super) fn enlarged(scheme: &Scheme) -> Result<Scheme> {
    let more = |number: u64| number.saturating_add(number / 8).saturating_add(1);
    let heap = |bytes: u64| match bytes {
        0 => 0,
        bytes => more(bytes).saturating_add(64) / 64 * 64,
    };
    let mut scheme = scheme.clone();
    match &mut scheme {
        Scheme::Linear(layout) => {
            layout.slots = more(layout.slots);
            layout.longest_probe = layout.slots;
            layout.heap_bytes = heap(layout.heap_bytes);
        }
        Scheme::Cuckoo(layout) => {
            layout.buckets = more(layout.buckets);
            layout.heap_bytes = heap(layout.heap_bytes);
        }
        Scheme::Race(layout) => {
            layout.groups = more(layout.groups);
            layout.heap_bytes = heap(layout.heap_bytes);
        }
        Scheme::Duo(layout) => {
            layout.buckets = more(layout.buckets);
            layout.heap_bytes = heap(layout.heap_bytes);
            layout.reserve_bytes = heap(layout.reserve_bytes);
        }
        Scheme::Sealed(layout) => {
            layout.homes = more(layout.homes);
            layout.slots = more(layout.slots);
        }
    }
    scheme.check()?;
    Ok(scheme)
}

/// A snapshot's file that was checked.
pub(super) struct Source {
    pub(super) path: PathBuf,
    file: File,
    pub(super) walk: Walk,
}

impl Source {
    fn open(path: &Path, table: &str) -> Result<Self> {
        let file = File::open(path).map_err(|error| failed(path, &error))?;
        let mut walk = walk(&file, path)?;
        if let Some(damage) = walk.damage.take() {
            return Err(damage.into());
        }
        if walk.head.table != table {
            let bytes = Bytes::of(&file, path)?;
            let expected = format!("a snapshot of table {table:?}");
            return Err(bytes
                .damaged(0, expected, format!("one of {:?}", walk.head.table))
                .into());
        }
        let path = path.into();
        Ok(Self { path, file, walk })
    }

    pub(super) fn records(&self) -> u64 {
        self.walk
            .blocks
            .iter()
            .map(|block| block.frame.records)
            .sum()
    }

    pub(super) fn blocks_of(&self, partition: u32) -> impl Iterator<Item = &Block> {
        let blocks = self.walk.blocks.iter();
        blocks.filter(move |block| block.frame.partition == partition)
    }

    /// The records of a payload that has been checked.
    pub(super) fn records_in(payload: &[u8]) -> Vec<Record<'_>> {
        Records(payload).flatten().collect()
    }

    /// Reads a block, and checks it again: the file may have changed.
    pub(super) fn read(&self, block: &Block, payload: &mut Vec<u8>) -> Result<()> {
        let bytes = Bytes::of(&self.file, &self.path)?;
        Ok(bytes.payload(block, payload)?)
    }

    pub(super) fn info(&self) -> SnapshotInfo {
        let bytes = self.walk.blocks.last().map_or(0, Block::end);
        let bytes = bytes + super::format::FRAME_BYTES as u64;
        SnapshotInfo::new(&self.walk.head, &self.path, self.records(), bytes)
    }
}

/// How many blocks of each partition are in the table, in memory and in a file: the id of the
/// table's first record, then a word for each partition. Each is written once the block is in the
/// table: at worst a block is put again. Without the file, for the directory may be read-only, an
/// attempt that is cut off begins again.
struct Marks {
    path: PathBuf,
    file: Option<File>,
    done: Vec<AtomicU64>,
}

impl Marks {
    fn open(path: PathBuf, parts: &Parts, continues: bool) -> Self {
        let file = open_alone(&path).ok();
        let (id, count) = (parts.records[0].id, parts.records.len());
        let mut words = vec![0; count];
        if let Some(file) = &file
            && !(continues && read_marks(file, id, &mut words))
        {
            words.fill(0);
            let bytes = [&id.to_le_bytes()[..], &vec![0; count * 8]].concat();
            // What could not be written is not read.
            let _ = file.set_len(0).and_then(|()| file.write_all_at(&bytes, 0));
        }
        let done = words.into_iter().map(AtomicU64::new).collect();
        Self { path, file, done }
    }

    fn done_of(&self, partition: u32) -> u64 {
        let done = self.done.get(partition as usize);
        done.map_or(0, |done| done.load(Ordering::Relaxed))
    }

    fn set(&self, partition: u32, blocks: u64) {
        if let Some(done) = self.done.get(partition as usize) {
            done.store(blocks, Ordering::Relaxed);
        }
        if let Some(file) = &self.file {
            // Then less is known to be done.
            let _ = file.write_all_at(&blocks.to_le_bytes(), 8 + 8 * u64::from(partition));
        }
    }

    fn remove(self) {
        if self.file.is_some() {
            // What is left is of a table that is no more.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Reads the marks of the table with this id; whether there are any.
fn read_marks(file: &File, id: u64, words: &mut [u64]) -> bool {
    let mut bytes = vec![0; 8 + words.len() * 8];
    if file.read_exact_at(&mut bytes, 0).is_err() || bytes[..8] != id.to_le_bytes() {
        return false;
    }
    for (word, bytes) in words.iter_mut().zip(bytes[8..].chunks_exact(8)) {
        *word = bytes.try_into().map_or(0, u64::from_le_bytes);
    }
    true
}
