//! The file that a table is restored from.

use super::files::{is_named_as_older, older_snapshot, open_to_read, snapshot_path};
use super::format::{PartOf, Records, SnapshotHead};
use super::walk::{self, Block, Bytes, SnapshotWalk, failed, walk};
use super::{SnapshotError, SnapshotInfo};
use crate::catalog::record::PartitionNode;
use crate::{Record, Result, StoreError};
use std::fs::File;
use std::path::{Path, PathBuf};

/// What is restored, and to which nodes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RestoreOptions {
    /// From which snapshot: 0 for the last, 1 for the one before it.
    pub older: u32,
    /// The addresses of the one node that gets back its part of a table over several nodes: one of
    /// the store's nodes, or the store's only node, by the addresses that the table's creator may
    /// have named it by. If there are none, all of the table is restored.
    pub node: Vec<String>,
    /// Whether a table is restored, whole, to fewer nodes than it was sharded over.
    pub fewer_nodes: bool,
}

/// A snapshot's file that was checked.
pub(super) struct Source {
    pub(super) path: PathBuf,
    file: File,
    pub(super) walk: SnapshotWalk,
}

impl Source {
    /// Finds the file of a table's snapshot, reads and checks it.
    pub(super) fn find(directory: &Path, table: &str, options: &RestoreOptions) -> Result<Self> {
        let latest = older_snapshot(&snapshot_path(directory, table), options.older);
        let of_nodes = own_parts(directory, table, options.older)?;
        let latest_head = head_of(&latest);
        let ours = match own_part(&of_nodes, &options.node) {
            None if !of_nodes.is_empty() && latest_head.is_err() => {
                return Err(which_of(&of_nodes, &options.node));
            }
            ours => ours,
        };
        let path = match (latest_head, ours) {
            // A node's own is later than the snapshot that the node was started from.
            (Ok(head), Some((_, part))) if head.begun > part.begun && !lacks(&head, part) => latest,
            (Ok(_), Some(_)) if options.node.is_empty() => latest,
            (_, Some((path, _))) => path.clone(),
            (_, None) => latest,
        };
        Self::open(&path, table)
    }

    fn open(path: &Path, table: &str) -> Result<Self> {
        let file = open_to_read(path)?;
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

    /// Which part a node had, of which these are the addresses, as far as the file says. Nothing if
    /// the table was on one node.
    pub(super) fn part_of(&self, addresses: &[String]) -> Result<Option<PartOf>> {
        let head = &self.walk.head;
        if let Some(part) = &head.part {
            return Ok(Some(part.clone()));
        }
        let Some(sharded) = &head.sharded else {
            return match head.slots {
                None => Ok(None),
                // The head says nothing of the nodes: an older version of this program wrote it.
                Some(_) => Err(self.which_part("nodes that it does not name".into(), addresses)),
            };
        };
        let nodes = &sharded.map.nodes;
        let number = nodes
            .iter()
            .position(|node| names(addresses, &node.address));
        let all = || {
            let all: Vec<_> = nodes.iter().map(|node| node.address.as_str()).collect();
            all.join(", ")
        };
        let number = number.ok_or_else(|| self.which_part(all(), addresses))?;
        Ok(Some(PartOf {
            number: number as u16,
            of: sharded.clone(),
        }))
    }

    fn which_part(&self, nodes: String, addresses: &[String]) -> StoreError {
        SnapshotError::WhichPart {
            path: self.path.display().to_string(),
            nodes,
            node: addresses.join(" or "),
        }
        .into()
    }

    pub(super) fn records(&self) -> u64 {
        records_of(self.walk.blocks.iter())
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

/// The error where none of these parts is that of the node that has these addresses.
fn which_of(parts: &[(PathBuf, SnapshotHead)], addresses: &[String]) -> StoreError {
    let part_of = |head: &SnapshotHead| head.part.as_ref().map_or(0, |part| part.number);
    let (path, head) = &parts[0];
    let path = path.display().to_string();
    if addresses.is_empty() {
        let number = part_of(head);
        return SnapshotError::OnePart { path, number }.into();
    }
    let nodes = parts.iter().filter_map(|(_, head)| {
        let part = head.part.as_ref()?;
        let node = part.of.map.nodes.get(usize::from(part.number))?;
        Some(node.address.as_str())
    });
    SnapshotError::WhichPart {
        path,
        nodes: nodes.collect::<Vec<_>>().join(", "),
        node: addresses.join(" or "),
    }
    .into()
}

/// How many records these blocks have.
pub(super) fn records_of<'b>(blocks: impl Iterator<Item = &'b Block>) -> u64 {
    blocks.map(|block| block.frame.records).sum()
}

/// Whether an address is among these, over whatever protocol.
pub(super) fn names(addresses: &[String], address: &str) -> bool {
    let place = |address: &str| {
        let place = address.split_once("://");
        place.map_or(address, |(_, place)| place).to_owned()
    };
    addresses.iter().any(|of| place(of) == place(address))
}

/// Of the parts in a directory, the one that the node had which has these addresses. The last that
/// was begun, if there are several: another table may have had the name before, of which the node
/// had another part. An only one of a table none of whose nodes has any of the addresses is its own
/// too: it has moved.
fn own_part<'p>(
    parts: &'p [(PathBuf, SnapshotHead)],
    addresses: &[String],
) -> Option<&'p (PathBuf, SnapshotHead)> {
    let is_named = |node: &PartitionNode| names(addresses, &node.address);
    let is_own = |(_, head): &&(PathBuf, SnapshotHead)| {
        head.part.as_ref().is_some_and(|part| {
            let node = part.of.map.nodes.get(usize::from(part.number));
            node.is_some_and(is_named)
        })
    };
    let last = parts
        .iter()
        .filter(is_own)
        .max_by_key(|(_, head)| head.begun);
    last.or_else(|| match parts {
        [only] => {
            let part = only.1.part.as_ref()?;
            (!part.of.map.nodes.iter().any(is_named)).then_some(only)
        }
        _ => None,
    })
}

/// Whether a snapshot of the whole table lacks this part of it.
fn lacks(head: &SnapshotHead, part: &SnapshotHead) -> bool {
    let number = part.part.as_ref().map(|part| part.number);
    number.is_some_and(|number| head.missing.contains(&number))
}

fn head_of(path: &Path) -> Result<SnapshotHead> {
    let file = open_to_read(path)?;
    Ok(walk::head(&Bytes::of(&file, path)?)?.0)
}

/// The snapshots of a table's parts that nodes have written, with their heads.
fn own_parts(directory: &Path, table: &str, older: u32) -> Result<Vec<(PathBuf, SnapshotHead)>> {
    let entries = std::fs::read_dir(directory).map_err(|error| failed(directory, &error))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| failed(directory, &error))?.path();
        let is_part = path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().contains('@'));
        if !is_named_as_older(&path, older) || !is_part {
            continue;
        }
        match head_of(&path) {
            Ok(head) if head.table == table && head.part.is_some() => found.push((path, head)),
            // One that is damaged is refused when it is the one to be restored.
            _ => {}
        }
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}
