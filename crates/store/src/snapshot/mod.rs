//! Snapshots: a table in a file, and back, while others use it.
//!
//! **Promises.** A snapshot is consistent per key: a record that was acknowledged before it began,
//! and not changed since, is in it; and each record in it was its key's value at some moment
//! between its begin and its end. Nothing is promised about several keys: this is no moment of the
//! whole table. A key that was removed and put again meanwhile may be in it twice, with values that
//! it had at different moments; a restore keeps one of them.
//!
//! That is what a scan of a linear, a RACE or a sealed table gives beside any writers. In a cuckoo
//! or a CuckooDuo table an insertion may move a record past the scan. So the snapshot is such a
//! table's writer until it ends, and others are told [`WriterBusy`](crate::IndexError::WriterBusy);
//! if there is another writer, so is the snapshot. Such a table has a number that is another once a
//! record has moved ([`Index::moves`](farslot_index::Index::moves)). The file's head has it as it was
//! when the snapshot was begun: if it is another at the end, a thread of the same store, as the same
//! writer, has moved records, and there is no snapshot.
//!
//! **Files.** A file for each table, whose blocks have checksums, as has the whole (`format`). It is
//! written under another name, and replaces the one before when it is complete and on disk
//! (`partial`). A restore reads and checks all of it before it touches the store (`walk`).
//!
//! **What was cut off goes on.** A snapshot of the same table continues behind the last piece of
//! the scan that is whole; one of a table whose records have moved since begins again, and says so in
//! the log. A restore puts the
//! records into a table of another name, which is renamed when it is complete; how far it has come
//! stands in a small file beside the snapshot (`restore`).
//!
//! **Memory.** A block of 1 MiB for each partition that is worked on, some words for each block of
//! the file, and to restore a table that is built whole, all of its records.

mod copy;
mod error;
mod format;
mod part;
mod partial;
mod restore;
mod take;
mod walk;
mod workers;

pub use error::SnapshotError;
pub use workers::{OnProgress, SnapshotProgress};

use crate::catalog::TableRecord;
use crate::slot_map::SlotMap;
use crate::spread::{self, Found};
use crate::{Result, Store, StoreError};
use farslot_fabric::FabricError;
use format::Head;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use walk::{Bytes, failed};
use xxhash_rust::xxh3::xxh3_64;

/// What the names of tables begin with whose restore has not ended.
pub const RESTORING: &str = "restoring-";
/// And of those whose copying has not.
pub const COPYING: &str = "copying-";

/// Whether a name is that of a table whose restore or copying has not ended.
#[must_use]
pub fn is_unfinished(table: &str) -> bool {
    [RESTORING, COPYING]
        .iter()
        .any(|prefix| table.starts_with(prefix))
}

/// What the names of snapshots end with.
const EXTENSION: &str = "snapshot";
/// Bytes of a name before its extension: longer ones are cut, and told apart by a hash.
const LONGEST_STEM: usize = 180;

/// The snapshot of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The table's name.
    pub table: String,
    /// The file.
    pub path: PathBuf,
    /// How many records it has.
    pub records: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// When it was begun.
    pub begun: SystemTime,
    /// How many nodes the table was spread over.
    pub partitions: usize,
}

impl SnapshotInfo {
    fn new(head: &Head, path: &Path, records: u64, bytes: u64) -> Self {
        let begun = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(head.begun));
        Self {
            table: head.table.clone(),
            path: path.into(),
            records,
            bytes,
            begun: begun.unwrap_or(SystemTime::UNIX_EPOCH),
            partitions: head.schemes.len(),
        }
    }
}

/// The file of a table's snapshot in a directory.
#[must_use]
pub fn snapshot_path(directory: &Path, table: &str) -> PathBuf {
    let mut stem = String::new();
    for (at, byte) in table.bytes().enumerate() {
        match byte {
            b'.' if at == 0 => stem.push_str("%2e"),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => stem.push(byte.into()),
            _ => stem.push_str(&format!("%{byte:02x}")),
        }
    }
    if stem.len() > LONGEST_STEM {
        stem.truncate(LONGEST_STEM);
        stem.push_str(&format!("~{:016x}", xxh3_64(table.as_bytes())));
    }
    directory.join(format!("{stem}.{EXTENSION}"))
}

/// The snapshots in a directory, by the names of their tables. What they say of themselves is
/// checked when they are restored, or by [`check_snapshot`].
///
/// # Errors
/// [`SnapshotError`]: a directory that cannot be read, or a file of that name that is no snapshot.
///
/// ```
/// use farslot::{FieldSize, Store, TableOptions, snapshots};
/// use std::ops::ControlFlow;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let directory = directory.path();
/// let store = Store::embedded()?;
/// store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
/// store.table("stock")?.put(b"pears", b"7")?;
/// store.snapshot("stock", directory, &|_| ControlFlow::Continue(()))?;
/// assert_eq!(snapshots(directory)?[0].records, 1);
///
/// // In another process, after this one has ended:
/// let store = Store::embedded()?;
/// store.restore("stock", directory, &|_| ControlFlow::Continue(()))?;
/// assert_eq!(store.table("stock")?.get(b"pears")?.as_deref(), Some(&b"7"[..]));
/// # Ok(())
/// # }
/// ```
pub fn snapshots(directory: &Path) -> Result<Vec<SnapshotInfo>> {
    let entries = std::fs::read_dir(directory).map_err(|error| failed(directory, &error))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| failed(directory, &error))?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == EXTENSION)
        {
            let file = File::open(&path).map_err(|error| failed(&path, &error))?;
            let bytes = Bytes::of(&file, &path)?;
            let (head, ..) = walk::head(&bytes)?;
            let totals = walk::totals(&bytes)?;
            found.push(SnapshotInfo::new(
                &head,
                &path,
                totals.records,
                bytes.length,
            ));
        }
    }
    found.sort_by(|one, other| one.table.cmp(&other.table));
    Ok(found)
}

/// Reads a snapshot's file from its first byte to its last, and checks it.
///
/// # Errors
/// [`SnapshotError::Damaged`] says where; [`SnapshotError::File`].
pub fn check_snapshot(path: &Path) -> Result<SnapshotInfo> {
    let file = File::open(path).map_err(|error| failed(path, &error))?;
    let walk = walk::walk(&file, path)?;
    if let Some(damage) = walk.damage {
        return Err(damage.into());
    }
    let records = walk.blocks.iter().map(|block| block.frame.records).sum();
    let bytes = Bytes::of(&file, path)?.length;
    Ok(SnapshotInfo::new(&walk.head, path, records, bytes))
}

/// A file beside that of a snapshot.
fn beside(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

/// The directory that a file is in.
fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

impl From<SnapshotError> for StoreError {
    fn from(error: SnapshotError) -> Self {
        Self::Snapshot(error.into())
    }
}

/// The records of a table, by partition, and which of them a key belongs to if there are several.
struct Parts {
    records: Vec<TableRecord>,
    slots: Option<SlotMap>,
}

impl Parts {
    fn ids(&self) -> Vec<u64> {
        self.records.iter().map(|record| record.id).collect()
    }
}

impl Store {
    /// The table of that name, if there is one and all of its nodes have their part.
    fn parts(&self, name: &str) -> Result<Option<Parts>> {
        let executor = self.executor()?;
        let nodes = &self.0.sessions.nodes;
        let finding = spread::find(&**executor.endpoint(), nodes, name);
        let table = match executor.block_on(finding) {
            Err(StoreError::NoSuchTable { .. }) => return Ok(None),
            Ok(Found::Whole(_, record)) => {
                let records = vec![record];
                return Ok(Some(Parts {
                    records,
                    slots: None,
                }));
            }
            Ok(Found::Spread(table)) => table,
            Err(error) => return Err(error),
        };
        let records = table.places.into_iter().map(|place| {
            let lost = FabricError::NodeRestarted {
                node: place.node,
                expected: table.common.incarnation,
            };
            place.record.ok_or_else(|| StoreError::Node {
                address: nodes.address(place.node).into(),
                error: place.unreachable.unwrap_or(lost),
            })
        });
        Ok(Some(Parts {
            records: records.collect::<Result<_>>()?,
            slots: Some(table.map.slots),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_file_of_its_own() {
        let names = [
            "users",
            "a/b",
            "a%2fb",
            ".",
            "..",
            "gr\u{fc}n",
            &"\u{fc}".repeat(64),
        ];
        let paths = names.map(|name| snapshot_path(Path::new("d"), name));
        for (number, path) in paths.iter().enumerate() {
            assert_eq!(path.parent(), Some(Path::new("d")));
            assert!(path.file_name().unwrap().len() < 255);
            assert!(!paths[..number].contains(path), "{path:?}");
        }
        assert_eq!(paths[0], Path::new("d/users.snapshot"));
    }
}
