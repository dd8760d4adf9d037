//! Whether a table has lost what its last snapshot has.
//!
//! A node that came back empty has another incarnation. So the head of a snapshot has the
//! incarnations of the table's nodes. A part on a node with an incarnation that the last snapshot
//! does not know was made anew after the node had lost it, unless its records came from a snapshot:
//! the catalog says so of a table that was restored.
//!
//! A table that was made anew under the same name while its nodes stayed is another table that the
//! user wants there: of its parts at least one is on a node of the last snapshot.

use super::files::open_to_read;
use super::format::SnapshotHead;
use super::walk::{self, Bytes};
use super::{Parts, SnapshotError};
use std::path::Path;

/// Refuses a snapshot of these parts in place of the last one, if they lack what that has because a
/// node came back empty.
///
/// # Errors
/// [`SnapshotError::Lost`]; [`SnapshotError::Version`], [`SnapshotError::File`]: of a last one that
/// cannot be read nothing is known.
pub(super) fn check(last: &Path, head: &SnapshotHead, parts: &Parts) -> Result<(), SnapshotError> {
    let known = open_to_read(last).and_then(|file| walk::head(&Bytes::of(&file, last)?));
    let known = match known {
        Ok((known, ..)) => known,
        Err(error @ SnapshotError::Version { .. }) => return Err(error),
        // It is there, and only this user cannot read it.
        Err(error @ SnapshotError::File { .. })
            if last.symlink_metadata().is_ok_and(|last| last.is_file()) =>
        {
            return Err(error);
        }
        // There is none, or it is damaged: nothing of it is lost by another.
        Err(_) => return Ok(()),
    };
    let mut lost = Vec::new();
    for (node, record) in head.nodes.iter().zip(&parts.records) {
        let is_known = known
            .nodes
            .iter()
            .any(|of| of.incarnation == node.incarnation);
        if !is_known && !record.restored {
            lost.push(node.address.as_str());
        }
    }
    let creation = |head: &SnapshotHead| head.shard_origin().map(|shard| shard.creation);
    let another = creation(&known) != creation(head);
    if known.nodes.is_empty() || lost.is_empty() || (another && lost.len() < head.nodes.len()) {
        return Ok(());
    }
    Err(SnapshotError::Lost {
        table: head.table.clone(),
        path: last.display().to_string(),
        nodes: lost.join(", "),
    })
}
