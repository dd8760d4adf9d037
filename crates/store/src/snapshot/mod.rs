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
//! record has moved ([`Admin::Moves`](farslot_index::Admin::Moves)). The file's head has it as it
//! was when the snapshot was begun: if it is another at the end, a thread of the same store, as the
//! same writer, has moved records, and there is no snapshot.
//!
//! **Files.** A file for each table, whose blocks have checksums, as has the whole (`format`). It
//! is written under another name, and takes the place of the one before, which is kept, when it is
//! complete and on disk (`partial`, `files`). One that lacks what a node had of the table, because
//! the node came back empty, does not take that place (`losses`), unless it is forced: then it says
//! which parts it lacks. A restore reads and checks all of
//! a file before it touches the store (`walk`).
//!
//! **What was cut off goes on.** A snapshot of the same table continues behind the last piece of
//! the scan that is whole; one of a table whose records have moved since begins again, and says so
//! in the log. A restore puts the records into a table of another name, which is renamed when it is
//! complete; how far it has come stands in a small file beside the snapshot (`restore`).
//!
//! **Memory.** A block of 1 MiB for each partition that is worked on, some words for each block of
//! the file, and to restore a table that is built whole, all of its records.

mod copy;
pub(crate) mod error;
mod files;
mod format;
mod losses;
mod part;
mod partial;
mod repartition;
mod restore;
mod source;
mod take;
mod walk;
mod workers;

pub use error::SnapshotError;
pub use files::{older_snapshot, remove_snapshots, snapshot_path};
pub use source::RestoreOptions;
pub use take::SnapshotOptions;
pub use workers::{OnProgress, SnapshotProgress};

use crate::catalog::TableRecord;
use crate::catalog::record::{PartitionMap, PartitionNode, Scheme};
use crate::sharded::{self, LocatedTable};
use crate::slot_map::SlotMap;
use crate::{OnRestart, Result, Store, StoreError};
use farslot_fabric::{Endpoint, FabricError, NodeId};
use files::{is_named_as_older, open_to_read};
use format::SnapshotHead;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use walk::{Bytes, failed};

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
    /// How many nodes the table was sharded over, of which this has the parts.
    pub partitions: usize,
    /// Which part of a table over several nodes it is, if a node has written its own.
    pub part: Option<u16>,
    /// The addresses of the nodes whose parts it lacks: they had lost them when it was begun, and
    /// it was forced ([`SnapshotOptions::force`]).
    pub missing: Vec<String>,
}

impl SnapshotInfo {
    fn new(head: &SnapshotHead, path: &Path, records: u64, bytes: u64) -> Self {
        let begun = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(head.begun));
        let address_of = |number: &u16| head.nodes[usize::from(*number)].address.clone();
        Self {
            table: head.table.clone(),
            path: path.into(),
            records,
            bytes,
            begun: begun.unwrap_or(SystemTime::UNIX_EPOCH),
            partitions: head.schemes.len(),
            part: head.part.as_ref().map(|part| part.number),
            missing: head.missing.iter().map(address_of).collect(),
        }
    }
}

/// The snapshots in a directory that were written so many snapshots before the last, by the names
/// of their tables: 0 for the last. What they say of themselves is checked when they are restored,
/// or by [`check_snapshot`].
///
/// # Errors
/// [`SnapshotError`]: a directory that cannot be read, or a file of that name that is no snapshot.
///
/// ```
/// use farslot::snapshots::list_snapshots;
/// use farslot::{FieldSize, Store, TableOptions};
/// use std::ops::ControlFlow;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let directory = directory.path();
/// let store = Store::embedded()?;
/// store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
/// store.table("stock")?.put(b"pears", b"7")?;
/// store.snapshot("stock", directory, &|_| ControlFlow::Continue(()))?;
/// assert_eq!(list_snapshots(directory, 0)?[0].records, 1);
///
/// // In another process, after this one has ended:
/// let store = Store::embedded()?;
/// store.restore("stock", directory, &|_| ControlFlow::Continue(()))?;
/// assert_eq!(store.table("stock")?.get(b"pears")?.as_deref(), Some(&b"7"[..]));
/// # Ok(())
/// # }
/// ```
pub fn list_snapshots(directory: &Path, older: u32) -> Result<Vec<SnapshotInfo>> {
    let entries = std::fs::read_dir(directory).map_err(|error| failed(directory, &error))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| failed(directory, &error))?.path();
        if is_named_as_older(&path, older) {
            let file = open_to_read(&path)?;
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
    let file = open_to_read(path)?;
    let walk = walk::walk(&file, path)?;
    if let Some(damage) = walk.damage {
        return Err(damage.into());
    }
    let records = walk.blocks.iter().map(|block| block.frame.records).sum();
    let bytes = Bytes::of(&file, path)?.length;
    Ok(SnapshotInfo::new(&walk.head, path, records, bytes))
}

impl From<SnapshotError> for StoreError {
    fn from(error: SnapshotError) -> Self {
        Self::Snapshot(error.into())
    }
}

/// The records of a table, by partition, and where they are.
struct Parts {
    /// In place of one that is lost, another's with the id 0.
    records: Vec<TableRecord>,
    /// Those that are lost, by number.
    missing: Vec<u16>,
    /// The nodes as they are now.
    nodes: Vec<PartitionNode>,
    /// How the table is sharded, if there are several.
    map: Option<PartitionMap>,
}

impl Parts {
    fn ids(&self) -> Vec<u64> {
        self.records.iter().map(|record| record.id).collect()
    }

    fn schemes(&self) -> Vec<Scheme> {
        let records = self.records.iter();
        records.map(|record| record.scheme.clone()).collect()
    }

    fn slots(&self) -> Option<&SlotMap> {
        self.map.as_ref().map(|map| &map.slots)
    }

    fn on_restart(&self) -> OnRestart {
        let map = self.map.as_ref();
        map.map_or_else(OnRestart::default, |map| map.on_restart)
    }
}

impl Store {
    /// Ends what a restore or a copy has left that was cut off as its parts, all of them filled,
    /// got the table's name one by one; false if there is no table of that name.
    ///
    /// # Errors
    /// [`StoreError::TableExists`] if all of it is there; or that a part of it is lost.
    fn ends_naming(&self, unfinished: &str, table: &str) -> Result<bool> {
        match self.parts(table) {
            Ok(None) => Ok(false),
            Ok(Some(_)) => Err(StoreError::TableExists { name: table.into() }),
            Err(lost) => {
                self.rename(unfinished, table).map_err(|_| lost)?;
                Ok(true)
            }
        }
    }

    /// The table of that name, if there is one and all of its nodes have their part.
    fn parts(&self, name: &str) -> Result<Option<Parts>> {
        self.parts_with(name, false)
    }

    /// The same, though parts of it may be lost, if it is `forced`.
    fn parts_with(&self, name: &str, forced: bool) -> Result<Option<Parts>> {
        let executor = self.executor()?;
        let nodes = &self.0.sessions.nodes;
        let finding = sharded::find(&**executor.endpoint(), nodes, name);
        let node_of = |node: NodeId| -> Result<PartitionNode> {
            Ok(PartitionNode {
                address: nodes.address(node).into(),
                incarnation: executor.endpoint().node(node)?.incarnation,
                repairs: 0,
            })
        };
        let table = match executor.block_on(finding) {
            Err(StoreError::NoSuchTable { .. }) => return Ok(None),
            Ok(LocatedTable::Whole(node, record)) => {
                return Ok(Some(Parts {
                    records: vec![record],
                    missing: Vec::new(),
                    nodes: vec![node_of(node)?],
                    map: None,
                }));
            }
            Ok(LocatedTable::Sharded(table)) => table,
            Err(error) => return Err(error),
        };
        let mut parts = Parts {
            records: Vec::new(),
            missing: Vec::new(),
            nodes: Vec::new(),
            map: None,
        };
        for ((number, place), was) in (0..).zip(table.places).zip(&table.map.nodes) {
            let now = node_of(place.node)?;
            if forced && place.is_lost(was, now.incarnation) {
                let sample = table.sample.clone();
                parts.records.push(TableRecord { id: 0, ..sample });
                parts.missing.push(number);
                parts.nodes.push(now);
                continue;
            }
            let lost = FabricError::NodeRestarted {
                node: place.node,
                expected: was.incarnation,
            };
            parts
                .records
                .push(place.record.ok_or_else(|| StoreError::Node {
                    address: nodes.address(place.node).into(),
                    error: place.unreachable.unwrap_or(lost),
                })?);
            parts.nodes.push(now);
        }
        parts.map = Some(table.map);
        Ok(Some(parts))
    }
}
