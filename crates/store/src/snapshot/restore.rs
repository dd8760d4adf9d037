//! Restoring a table from its snapshot.
//!
//! The records go into a table of another name, of the same scheme, seeds included: a key has the
//! same partition and the same home as before, so that what was full has room. Where a key of a
//! very full table finds no place all the same, because keys come in another order, the table is
//! made anew with an eighth more room. The table gets its name when all records are in it.

use super::files::{open_alone, with_suffix};
use super::format::{Records, SnapshotHead};
use super::repartition::{self, enlarged, within};
use super::source::{RestoreOptions, Source, records_of};
use super::workers::ProgressMeter;
use super::{OnProgress, Parts, RESTORING, SnapshotError, SnapshotInfo};
use crate::catalog::record::Scheme;
use crate::seeds::draw_id;
use crate::sharded::{self, NewTable};
use crate::slot_map::SlotMap;
use crate::{ErrorKind, OnRestart, Result, Store, StoreError};
use farslot_fabric::FabricError;
use farslot_index::{IndexError, KeyRule};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// What the name of the file ends with that says how far a restore has come.
const MARKS: &str = "restoring";
/// How often a table is made larger, by an eighth each time.
pub(super) const MOST_ENLARGEMENTS: u32 = 8;

impl Store {
    /// Makes a table from its last snapshot in a directory, of the same scheme and sizes. On as
    /// many nodes as the table had, each key lies where it lay, and the partitions are filled side
    /// by side; on more, the table is sharded over all of them. The whole file is read and checked
    /// first. The table is there when all of its records are. What the snapshot lacks
    /// ([`SnapshotInfo::missing`]) is absent in the table, and can be put back from an older one
    /// ([`RestoreOptions::node`]).
    ///
    /// An attempt that was cut off has left a table `restoring-...`; the next attempt goes on with
    /// it, or begins it again if keys may have several records, the table is built whole or it is a
    /// queue.
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
        self.restore_with(table, directory, &RestoreOptions::default(), progress)
    }

    /// Makes a table, or one node's part of it, from a snapshot in a directory, with options.
    ///
    /// A node that came back empty gets its part from a snapshot of the whole table as well as from
    /// one that the node has written. What clients have put into the part since stays, and the
    /// records of the snapshot whose keys are absent go beside it.
    ///
    /// # Errors
    /// As [`Store::restore`]; [`SnapshotError::NoSuchNode`], [`SnapshotError::WhichPart`],
    /// [`SnapshotError::OtherPart`], [`SnapshotError::PartMissing`]; [`StoreError::TableExists`] of
    /// a part that was not lost.
    ///
    /// ```
    /// # use farslot::snapshots::RestoreOptions;
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # use std::ops::ControlFlow;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let directory = directory.path();
    /// # let go_on = |_| ControlFlow::Continue(());
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # store.table("stock")?.put(b"pears", b"7")?;
    /// # store.snapshot("stock", directory, &go_on)?;
    /// store.table("stock")?.remove(b"pears")?;
    /// store.snapshot("stock", directory, &go_on)?;
    /// store.drop_table("stock")?;
    /// let options = RestoreOptions {
    ///     older: 1,
    ///     ..RestoreOptions::default()
    /// };
    /// store.restore_with("stock", directory, &options, &go_on)?;
    /// assert_eq!(store.table("stock")?.get(b"pears")?.as_deref(), Some(&b"7"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn restore_with(
        &self,
        table: &str,
        directory: &Path,
        options: &RestoreOptions,
        progress: OnProgress<'_>,
    ) -> Result<SnapshotInfo> {
        let source = Source::find(directory, table, options)?;
        let restored = self.restore_from(&source, options, progress);
        restored.map_err(|error| error.of_table(&source.walk.head.table))
    }

    fn restore_from(
        &self,
        source: &Source,
        options: &RestoreOptions,
        progress: OnProgress<'_>,
    ) -> Result<SnapshotInfo> {
        let is_part = source.walk.head.part.is_some();
        let restored = match (is_part, &*options.node) {
            (true, _) | (false, [_, ..]) => self.restore_part(source, &options.node, progress)?,
            (false, []) => None,
        };
        match restored {
            Some(restored) => Ok(restored),
            None => self.restore_whole(source, options, progress),
        }
    }

    fn restore_whole(
        &self,
        source: &Source,
        options: &RestoreOptions,
        progress: OnProgress<'_>,
    ) -> Result<SnapshotInfo> {
        let head = &source.walk.head;
        let table = &*head.table;
        let name = format!("{RESTORING}{:016x}", head.id);
        if self.ends_naming(&name, table)? {
            let _ = std::fs::remove_file(with_suffix(&source.path, MARKS));
            return Ok(source.info());
        }
        let (partitions, nodes) = (head.schemes.len(), usize::from(self.node_count()));
        if partitions > nodes && !options.fewer_nodes {
            let path = source.path.display().to_string();
            return Err(SnapshotError::NodeCount {
                path,
                partitions,
                nodes,
            }
            .into());
        }
        let is_alike = partitions == nodes || head.schemes[0].is_on_one_node();
        let (slots, mut schemes) = match is_alike {
            true => (head.slots.clone(), head.schemes.clone()),
            false => repartition::over(nodes as u16, head, self.0.seeds.next())?,
        };
        schemes = self.fitting(schemes, source)?;
        for attempt in 0.. {
            let (parts, continues) = self.unfinished(&name, head, slots.as_ref(), &schemes)?;
            let marks = RestoreMarks::open(
                with_suffix(&source.path, MARKS),
                &parts,
                partitions,
                continues,
            );
            match self.fill(&name, source, &marks, progress) {
                Err(error) if is_full(&error) && attempt < MOST_ENLARGEMENTS => {
                    log::warn!("table {table:?} is made an eighth larger than it was: {error}");
                    schemes = schemes.iter().map(enlarged).collect::<Result<_>>()?;
                    self.drop_table(&name)?;
                }
                filled => {
                    filled?;
                    let current = self.parts(&name)?;
                    if current.is_none_or(|current| current.ids() != parts.ids()) {
                        let table = table.into();
                        return Err(SnapshotError::Replaced { table }.into());
                    }
                    let nodes = &self.0.sessions.nodes;
                    self.change(async |endpoint| {
                        sharded::mark_restored(endpoint, nodes, &name).await
                    })?;
                    self.rename(&name, table)?;
                    marks.remove();
                    break;
                }
            }
        }
        Ok(source.info())
    }

    /// These schemes; where the memory does not hold what a table had reserved to grow into, with
    /// half of what is free in place of that.
    pub(super) fn fitting(&self, schemes: Vec<Scheme>, source: &Source) -> Result<Vec<Scheme>> {
        /// Bytes of memory that a record takes beside its key and its value, at most.
        const BESIDE: u64 = 64;
        let free = self.largest_free()?;
        if schemes
            .iter()
            .all(|scheme| scheme.table_bytes() <= u128::from(free))
        {
            return Ok(schemes);
        }
        let blocks = source.walk.blocks.iter();
        let all: u64 = blocks.map(|block| block.frame.bytes).sum();
        let needed = (all + BESIDE * source.records()) / source.walk.head.schemes.len() as u64;
        let schemes = schemes.iter();
        schemes
            .map(|scheme| within(scheme, free / 2, needed))
            .collect()
    }

    /// The table that is to be filled, and whether it can be continued: else it is new.
    fn unfinished(
        &self,
        name: &str,
        head: &SnapshotHead,
        slots: Option<&SlotMap>,
        schemes: &[Scheme],
    ) -> Result<(Parts, bool)> {
        let gone = || SnapshotError::Replaced { table: name.into() };
        match self.parts(name) {
            Ok(None) => {}
            // Of records that are put again there are no more than before.
            Ok(Some(parts))
                if !head.built
                    && head.schemes[0].keys() == KeyRule::Unique
                    && head.schemes[0].kind().has_keys() =>
            {
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
        let origin = head.shard_origin();
        let on_restart = origin.map_or_else(OnRestart::default, |of| of.map.on_restart);
        // Spread otherwise, the records that are lost are of no partition; and one that is built
        // whole takes no other records.
        let without = match slots == head.slots.as_ref() && !head.built {
            true => &*head.missing,
            false => &[],
        };
        self.create_alike(name, slots, schemes, head.built, on_restart, without)?;
        let parts = self.parts(name)?.ok_or_else(gone)?;
        Ok((parts, false))
    }

    /// Makes a table of these schemes, seeds included, one for each node; built whole or not, and
    /// `without` the records of some partitions.
    pub(super) fn create_alike(
        &self,
        name: &str,
        slots: Option<&SlotMap>,
        schemes: &[Scheme],
        built: bool,
        on_restart: OnRestart,
        without: &[u16],
    ) -> Result<()> {
        match slots {
            Some(slots) => self.create_on_all(NewTable {
                name,
                creation: draw_id(),
                schemes: schemes.into(),
                // Should a node come back empty, its partition is not made anew.
                prebuilt: built,
                slots: slots.clone(),
                on_restart,
                without,
            }),
            None => self.create_on_one(name, schemes[0].clone()),
        }
        .map(drop)
    }

    fn fill(
        &self,
        name: &str,
        source: &Source,
        marks: &RestoreMarks,
        progress: OnProgress<'_>,
    ) -> Result<()> {
        if source.walk.head.built {
            let meter = ProgressMeter::new(0, source.records(), progress);
            return self.build_from(name, source, &meter);
        }
        let done = (0..).zip(&marks.done).map(|(partition, done)| {
            let done = done.load(Ordering::Relaxed) as usize;
            records_of(source.blocks_of(partition).take(done))
        });
        let meter = ProgressMeter::new(done.sum(), source.records(), progress);
        let schemes = &source.walk.head.schemes;
        let mut partitions = 0..schemes.len() as u32;
        let put = |partition| {
            let table = self.stored_table(name)?;
            let mut payload = Vec::new();
            let first = marks.done_of(partition);
            for (number, block) in (0..).zip(source.blocks_of(partition)).skip(first as usize) {
                source.read(block, &mut payload)?;
                table.put_back(&Source::records_in(&payload))?;
                marks.set(partition, number + 1);
                meter.add(block.frame.records)?;
            }
            table.close()
        };
        // Spread otherwise, the keys of one partition belong to several, each with one writer.
        let is_alike = schemes.len() == usize::from(self.node_count());
        match schemes[0].one_writer() && !is_alike {
            true => partitions.try_for_each(put),
            false => meter.all(partitions.collect(), put),
        }
    }

    fn build_from(&self, name: &str, source: &Source, meter: &ProgressMeter<'_>) -> Result<()> {
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

/// Whether a larger table would have had room.
pub(super) fn is_full(error: &StoreError) -> bool {
    let why = match error {
        StoreError::NoRoom(no_room) => &no_room.cause,
        StoreError::Index(why) => why,
        _ => return error.kind() == ErrorKind::Full,
    };
    matches!(why, IndexError::Full { .. } | IndexError::HeapFull { .. })
}

/// How many blocks of each of the snapshot's partitions are in the table, in memory and in a file:
/// the id of the table's first record, then a word for each partition. Each is written once the
/// block is in the table: at worst a block is put again. Without the file, for the directory may be
/// read-only, an attempt that is cut off begins again.
struct RestoreMarks {
    path: PathBuf,
    file: Option<File>,
    done: Vec<AtomicU64>,
}

impl RestoreMarks {
    fn open(path: PathBuf, parts: &Parts, count: usize, continues: bool) -> Self {
        let file = open_alone(&path).ok();
        let id = parts.records[0].id;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TableOptions;
    use crate::snapshot::snapshot_path;
    use farslot_fabric::NodeId;
    use std::ops::ControlFlow;

    #[test]
    fn a_restore_that_was_cut_off_as_its_parts_got_their_name_goes_on() {
        let store = Store::open("sim://cx5-edr?seed=7&memory=8MiB&nodes=3").unwrap();
        let directory = tempfile::tempdir().unwrap();
        let go_on = |_| ControlFlow::Continue(());
        let keys = || (0..60_u64).map(u64::to_le_bytes);
        store.create("t", &TableOptions::new(100)).unwrap();
        let table = store.table("t").unwrap();
        keys().for_each(|key| assert!(table.put(&key, b"value").unwrap()));
        table.close().unwrap();
        store.snapshot("t", directory.path(), &go_on).unwrap();
        let path = snapshot_path(directory.path(), "t");
        let file = std::fs::File::open(&path).unwrap();
        let head = crate::snapshot::walk::walk(&file, &path).unwrap().head;
        // A part has the name that it has until all are filled; the two others have the table's.
        let unfinished = format!("{RESTORING}{:016x}", head.id);
        let creation = head.shard_origin().unwrap().creation;
        let renamed = store.in_catalog(NodeId(1), async |catalog| {
            catalog.rename("t", &unfinished, Some(creation)).await
        });
        assert!(renamed.unwrap().is_some());
        store.restore("t", directory.path(), &go_on).unwrap();
        let table = store.table("t").unwrap();
        for key in keys() {
            assert_eq!(table.get(&key).unwrap().as_deref(), Some(&b"value"[..]));
        }
        assert_eq!(store.tables().unwrap().len(), 1);
    }
}
