//! Taking a snapshot of a table.

use super::format::{DONE, Head, MIDDLE, PartOf, Payload};
use super::partial::Partial;
use super::workers::Meter;
use super::{OnProgress, Parts, SnapshotError, SnapshotInfo, snapshot_path};
use crate::catalog::Catalog;
use crate::{Cursor, Result, Scheme, Store, StoreError, Table, TableRecord};
use farslot_fabric::NodeId;
use farslot_index::{Cursor as Place, IndexError};
use std::path::Path;
use std::time::SystemTime;

impl Store {
    /// Writes a snapshot of a table into a directory, in place of the last one there. Others may
    /// read and write the table meanwhile; of a cuckoo or CuckooDuo table they may read, for this is
    /// its writer then: should another thread of this store move its records, the snapshot is given
    /// up. The partitions of a table over several nodes are read side by side; all of its nodes must
    /// be there.
    ///
    /// A record that was acknowledged before this began and is not changed is in the snapshot, and
    /// each record in it was its key's value at some moment. An attempt that was cut off goes on
    /// where it ended, and began when the first one did; one of a cuckoo or CuckooDuo table begins
    /// again, with a warning in the log, if records have moved since.
    ///
    /// # Errors
    /// That there is no such table, or that another client is its writer; [`SnapshotError`]; what
    /// the fabric says.
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
        let open = self.table(table)?;
        let built = settle(&open)?;
        let taken = self.snapshot_settled(&open, built, directory, progress);
        let closed = open.close();
        taken.and_then(|taken| closed.map(|()| taken))
    }

    /// As [`Store::snapshot`], of a table in which nothing moves past a scan.
    fn snapshot_settled(
        &self,
        table: &Table,
        built: bool,
        directory: &Path,
        progress: OnProgress<'_>,
    ) -> Result<SnapshotInfo> {
        let name = table.name();
        let replaced = || SnapshotError::Replaced { table: name.into() };
        let parts = self.parts(name)?.ok_or_else(replaced)?;
        let moves = moves_of(table, built)?;
        let head = head_of(name, parts, built, moves);
        if !head.sources.contains(&table.record().id) {
            return Err(replaced().into());
        }
        self.write(table, head, directory, progress, || self.stored_table(name))
    }

    /// Writes a snapshot of the part that the only node of this store has of a table over several,
    /// into a directory, in place of the last one there: what a node can do for itself, without
    /// the others. Of any other table it is [`Store::snapshot`]. Restored on a node that takes the
    /// place of this one, it has its part of the table again, and clients of the table use it.
    ///
    /// # Errors
    /// As [`Store::snapshot`].
    pub fn snapshot_own_part(
        &self,
        record: &TableRecord,
        directory: &Path,
        progress: OnProgress<'_>,
    ) -> Result<SnapshotInfo> {
        let Some(partition) = &record.partition else {
            return self.snapshot(&record.name, directory, progress);
        };
        let executor = self.executor()?;
        let map = executor.block_on(async {
            let catalog = Catalog::new(&**executor.endpoint(), NodeId(0))?;
            catalog.map(record, partition.map).await
        })?;
        let open = self.own_part(record)?;
        let built = settle(&open)?;
        let parts = Parts {
            records: vec![record.clone()],
            slots: None,
        };
        let part = PartOf {
            creation: partition.creation,
            number: partition.number,
            whole: partition.whole,
            map,
        };
        let head = Head {
            part: Some(part),
            ..head_of(&record.name, parts, built, moves_of(&open, built)?)
        };
        let taken = self.write(&open, head, directory, progress, || self.own_part(record));
        let closed = open.close();
        taken.and_then(|taken| closed.map(|()| taken))
    }

    /// Writes the file of that head, from tables that `reopen` opens, one for each thread.
    fn write(
        &self,
        table: &Table,
        head: Head,
        directory: &Path,
        progress: OnProgress<'_>,
        reopen: impl Fn() -> Result<Table> + Sync,
    ) -> Result<SnapshotInfo> {
        let name = head.table.clone();
        let replaced = || SnapshotError::Replaced {
            table: name.clone(),
        };
        let path = snapshot_path(directory, &name);
        let partial = Partial::begin(&path, head)?;
        let meter = Meter::new(partial.records(), table.occupancy()?.entries, progress);
        let left = (0..)
            .zip(&partial.places)
            .filter(|(_, place)| **place != DONE);
        meter.all(left.collect(), |(partition, place)| {
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
        let bytes = partial.finish()?;
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

fn head_of(table: &str, parts: Parts, built: bool, moves: Vec<u64>) -> Head {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Head {
        id: rand::random(),
        table: table.into(),
        begun: now.map_or(0, |since| since.as_secs()),
        sources: parts.ids(),
        schemes: parts
            .records
            .into_iter()
            .map(|record| record.scheme)
            .collect(),
        slots: parts.slots,
        built,
        moves,
        part: None,
    }
}

/// Appends the records of a partition from a place on.
fn scan_part(table: &Table, from: Cursor, partial: &Partial, meter: &Meter<'_>) -> Result<()> {
    let partition = from.partition;
    let mut payload = Payload::default();
    let mut cursor = Some(from);
    while let Some(from) = cursor {
        let (mut seen, mut written) = (0, Ok(()));
        let next = table.scan(from, |key, value| {
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
