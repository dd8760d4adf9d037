//! Taking a snapshot of a table.

use super::files::{own_part_path, snapshot_path};
use super::format::{DONE, MIDDLE, PartOf, Payload, ShardOrigin, SnapshotHead};
use super::partial::Partial;
use super::workers::ProgressMeter;
use super::{OnProgress, Parts, SnapshotError, SnapshotInfo, losses};
use crate::catalog::Catalog;
use crate::catalog::record::{PartitionNode, Scheme};
use crate::sharded::{self, LocatedTable};
use crate::{Cursor, Result, Store, StoreError, Table, TableRecord};
use farslot_fabric::{Endpoint, NodeId};
use farslot_index::{Cursor as Place, IndexError};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How snapshots are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotOptions {
    /// How many snapshots of a table are kept, the new one included; 0 is taken for 1. Those before
    /// the last are at [`older_snapshot`](crate::snapshot::older_snapshot).
    pub keep: u32,
    /// Whether a snapshot is written that lacks what a node had of the table, because the node came
    /// back empty. It says so ([`SnapshotInfo::missing`]), and the part stays lost until it is
    /// restored or its loss is accepted ([`Store::accept_loss`]).
    pub force: bool,
}

impl Default for SnapshotOptions {
    fn default() -> Self {
        Self {
            keep: 2,
            force: false,
        }
    }
}

/// A snapshot that is to be written.
struct SnapshotJob<'t> {
    table: &'t Table,
    parts: Parts,
    head: SnapshotHead,
    path: PathBuf,
}

impl Store {
    /// Writes a snapshot of a table into a directory. It takes the place of the last one there when
    /// it is whole; that one is kept, in place of the one before it. Others may read and write the
    /// table meanwhile; of a cuckoo or CuckooDuo table they may read, for this is its writer then:
    /// should another thread of this store move its records, the snapshot is given up. The
    /// partitions of a table over several nodes are read side by side; all of its nodes must be
    /// there, with what they had of it.
    ///
    /// A record that was acknowledged before this began and is not changed is in the snapshot, and
    /// each record in it was its key's value at some moment. An attempt that was cut off goes on
    /// where it ended, and began when the first one did; one of a cuckoo or CuckooDuo table begins
    /// again, with a warning in the log, if records have moved since.
    ///
    /// # Errors
    /// That there is no such table, or that another client is its writer; [`SnapshotError`], such
    /// as [`SnapshotError::Lost`] if a node came back empty since the last snapshot and its part
    /// was not restored; what the fabric says.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # use std::ops::ControlFlow;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let directory = directory.path();
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// store.table("stock")?.put(b"pears", b"7")?;
    /// let snapshot = store.snapshot("stock", directory, &|progress| {
    ///     println!("{} of {} records", progress.records, progress.of);
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert_eq!(snapshot.records, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn snapshot(
        &self,
        table: &str,
        directory: &Path,
        progress: OnProgress<'_>,
    ) -> Result<SnapshotInfo> {
        self.snapshot_with(table, directory, &SnapshotOptions::default(), progress)
    }

    /// Writes a snapshot of a table into a directory, with options.
    ///
    /// # Errors
    /// As [`Store::snapshot`].
    ///
    /// ```
    /// # use farslot::snapshots::{SnapshotOptions, older_snapshot};
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # use std::ops::ControlFlow;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let directory = directory.path();
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// let options = SnapshotOptions {
    ///     keep: 7,
    ///     ..SnapshotOptions::default()
    /// };
    /// let go_on = |_| ControlFlow::Continue(());
    /// store.snapshot_with("stock", directory, &options, &go_on)?;
    /// let last = store.snapshot_with("stock", directory, &options, &go_on)?;
    /// assert!(older_snapshot(&last.path, 1).exists());
    /// # Ok(())
    /// # }
    /// ```
    pub fn snapshot_with(
        &self,
        table: &str,
        directory: &Path,
        options: &SnapshotOptions,
        progress: OnProgress<'_>,
    ) -> Result<SnapshotInfo> {
        let path = snapshot_path(directory, table);
        let lost = self.nodes_without_their_part(table)?;
        // Before it is opened: that may make these parts anew.
        if !options.force && !lost.is_empty() {
            return Err(SnapshotError::Lost {
                table: table.into(),
                path: path.display().to_string(),
                nodes: lost.join(", "),
            }
            .into());
        }
        let open = self.table(table)?;
        let taken = settle(&open)
            .and_then(|built| self.snapshot_settled(&open, built, path, options, progress));
        let closed = open.close();
        taken.and_then(|taken| closed.map(|()| taken))
    }

    /// As [`Store::snapshot_with`], of a table in which nothing moves past a scan.
    fn snapshot_settled(
        &self,
        table: &Table,
        built: bool,
        path: PathBuf,
        options: &SnapshotOptions,
        progress: OnProgress<'_>,
    ) -> Result<SnapshotInfo> {
        let name = table.name();
        let replaced = || SnapshotError::Replaced { table: name.into() };
        let parts_of = |name| self.parts_with(name, options.force);
        let parts = parts_of(name)?.ok_or_else(replaced)?;
        let common = parts.records[0].partition.as_ref();
        let sharded = common
            .zip(parts.map.as_ref())
            .map(|(common, map)| ShardOrigin {
                creation: common.creation,
                prebuilt: common.prebuilt,
                map: map.clone(),
            });
        let head = SnapshotHead {
            sharded,
            ..head_of(name, &parts, built, moves_of(table, built)?)
        };
        if !head.sources.contains(&table.record().id) {
            return Err(replaced().into());
        }
        let job = SnapshotJob {
            table,
            parts,
            head,
            path,
        };
        let ids = || Ok(parts_of(name)?.map(|parts| parts.ids()));
        self.write(job, options, progress, || self.stored_table(name), ids)
    }

    /// The addresses of the nodes of a table that came back without their part of it.
    fn nodes_without_their_part(&self, name: &str) -> Result<Vec<String>> {
        let executor = self.executor()?;
        let nodes = &self.0.sessions.nodes;
        let finding = sharded::find(&**executor.endpoint(), nodes, name);
        let LocatedTable::Sharded(table) = executor.block_on(finding)? else {
            return Ok(Vec::new());
        };
        let mut lost = Vec::new();
        for (place, made) in table.places.iter().zip(&table.map.nodes) {
            if place.is_lost(made, executor.endpoint().node(place.node)?.incarnation) {
                lost.push(nodes.address(place.node).to_owned());
            }
        }
        Ok(lost)
    }

    /// Writes a snapshot of the part that the only node of this store has of a table over several,
    /// into a directory: what a node can do for itself, without the others. Its file is another
    /// than that of a snapshot of the whole table. Of any other table this is
    /// [`Store::snapshot_with`]. Restored on a node that takes the place of this one, it has its
    /// part of the table again, and clients of the table use it.
    ///
    /// # Errors
    /// As [`Store::snapshot`].
    pub fn snapshot_own_part(
        &self,
        record: &TableRecord,
        directory: &Path,
        options: &SnapshotOptions,
        progress: OnProgress<'_>,
    ) -> Result<SnapshotInfo> {
        let Some(partition) = &record.partition else {
            return self.snapshot_with(&record.name, directory, options, progress);
        };
        let executor = self.executor()?;
        let catalog = Catalog::new(&**executor.endpoint(), NodeId(0))?;
        let map = executor.block_on(catalog.map(record, partition.map))?;
        let node = PartitionNode {
            address: self.0.sessions.nodes.address(NodeId(0)).into(),
            incarnation: executor.endpoint().node(NodeId(0))?.incarnation,
            repairs: 0,
        };
        let parts = Parts {
            records: vec![record.clone()],
            missing: Vec::new(),
            nodes: vec![node],
            map: None,
        };
        let of = ShardOrigin {
            creation: partition.creation,
            prebuilt: partition.prebuilt,
            map,
        };
        let number = partition.number;
        let open = self.own_part(record)?;
        let take = |built| {
            let part = Some(PartOf { number, of });
            let moves = moves_of(&open, built)?;
            let job = SnapshotJob {
                table: &open,
                head: SnapshotHead {
                    part,
                    ..head_of(&record.name, &parts, built, moves)
                },
                parts,
                path: own_part_path(directory, &record.name, number),
            };
            let ids = || {
                let found =
                    self.in_catalog(NodeId(0), async |catalog| catalog.find(&record.name).await)?;
                Ok(found.map(|found| vec![found.id]))
            };
            self.write(job, options, progress, || self.own_part(record), ids)
        };
        let taken = settle(&open).and_then(take);
        let closed = open.close();
        taken.and_then(|taken| closed.map(|()| taken))
    }

    /// Writes the file, from tables that `reopen` opens, one for each thread. In the end the parts
    /// must be those of the beginning, by their `ids`.
    fn write(
        &self,
        job: SnapshotJob<'_>,
        options: &SnapshotOptions,
        progress: OnProgress<'_>,
        reopen: impl Fn() -> Result<Table> + Sync,
        ids: impl Fn() -> Result<Option<Vec<u64>>>,
    ) -> Result<SnapshotInfo> {
        let SnapshotJob {
            table,
            parts,
            head,
            path,
        } = job;
        let name = head.table.clone();
        let replaced = || SnapshotError::Replaced {
            table: name.clone(),
        };
        if !options.force {
            losses::check(&path, &head, &parts)?;
        }
        let partial = Partial::begin(&path, head)?;
        let all = match &*partial.head.missing {
            [] => table.occupancy()?.entries,
            // Nobody knows how many were lost.
            _ => 0,
        };
        let meter = ProgressMeter::new(partial.records(), all, progress);
        let left = (0..)
            .zip(&partial.places)
            .filter(|(_, place)| **place != DONE);
        meter.all(left.collect(), |(partition, place)| {
            if partial.head.missing.contains(&partition) {
                return Ok(partial.append(partition, DONE, &mut Payload::default())?);
            }
            let table = reopen()?;
            if !partial.head.sources.contains(&table.record().id) {
                return Err(replaced().into());
            }
            scan_part(
                &table,
                Cursor::of(partition, Place(*place)),
                &partial,
                &meter,
            )
        })?;
        let (head, records) = (partial.head.clone(), partial.records());
        if moves_of(table, head.built)? != head.moves {
            return Err(SnapshotError::Moved { table: name }.into());
        }
        // A node may have come back empty while its part was read.
        if ids()?.is_none_or(|ids| ids != head.sources) {
            return Err(replaced().into());
        }
        let bytes = partial.finish(options.keep)?;
        Ok(SnapshotInfo::new(&head, &path, records, bytes))
    }
}

/// What tells whether records have moved past a scan: nothing, where none do.
pub(super) fn moves_of(table: &Table, built: bool) -> Result<Vec<u64>> {
    match built || !table.scheme().one_writer() {
        true => Ok(Vec::new()),
        false => table.moves(),
    }
}

/// Sees to it that no record moves past a scan: becomes the writer of a table that admits one.
/// Returns whether the table was built whole, and never changes.
pub(super) fn settle(table: &Table) -> Result<bool> {
    if matches!(table.scheme(), Scheme::Sealed(_)) || table.is_sealed() {
        return Ok(true);
    }
    match table.start_writing() {
        Err(StoreError::Index(IndexError::Sealed { .. })) => Ok(true),
        Err(error) => Err(error),
        Ok(()) => Ok(table.is_sealed()),
    }
}

fn head_of(table: &str, parts: &Parts, built: bool, moves: Vec<u64>) -> SnapshotHead {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    SnapshotHead {
        id: rand::random(),
        table: table.into(),
        begun: now.map_or(0, |since| since.as_secs()),
        sources: parts.ids(),
        schemes: parts.schemes(),
        slots: parts.slots().cloned(),
        built,
        moves,
        part: None,
        sharded: None,
        nodes: parts.nodes.clone(),
        missing: parts.missing.clone(),
    }
}

/// Appends the records of a partition from a place on.
fn scan_part(
    table: &Table,
    from: Cursor,
    partial: &Partial,
    meter: &ProgressMeter<'_>,
) -> Result<()> {
    let partition = from.partition;
    let mut payload = Payload::default();
    let mut cursor = Some(from);
    while let Some(from) = cursor {
        let (mut seen, mut written) = (0, Ok(()));
        let next = table.scan(from, u64::MAX, |key, value| {
            if written.is_ok() {
                seen += 1;
                payload.push(key, value);
                if payload.is_long() {
                    written = partial.append(partition, MIDDLE, &mut payload);
                }
            }
        })?;
        written?;
        cursor = next.filter(|next| next.partition == partition);
        let place = cursor.map_or(DONE, |cursor| cursor.place.0);
        let counted = meter.add(seen);
        if place == DONE || payload.is_long() || counted.is_err() {
            partial.append(partition, place, &mut payload)?;
        }
        counted?;
    }
    Ok(())
}
