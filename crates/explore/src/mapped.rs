//! Memory of the processes of one machine, mapped by all of them.

use crate::error::RankError;
use farslot_fabric::Rights;
use farslot_fabric::shm::{self, Node, RegionSpec};
use farslot_set::job::Job;
use std::sync::atomic::{AtomicU64, Ordering};

/// Serves this rank's memory, with these regions, to the others of a job, and attaches to theirs:
/// all ranks call this. Returns the nodes of all ranks in their order.
///
/// # Errors
/// [`RankError::Job`], [`RankError::Fabric`].
pub(crate) fn meet(job: &mut Job, regions: &[RegionSpec]) -> Result<Vec<Node>, RankError> {
    let rank = job.rank() as usize;
    // A process may be several ranks, of several jobs.
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("explore-{}-{number}", std::process::id());
    let node = Node::serve(&name, regions).map_err(|error| RankError::Fabric { rank, error })?;
    let names = job.all_gather(name.as_bytes())?;
    let mut nodes = Vec::new();
    for (of, name) in names.iter().enumerate() {
        if of == rank {
            nodes.push(node.clone());
            continue;
        }
        let attached = shm::attach(&text_of(of, name)?, Rights::ALL);
        nodes.push(attached.map_err(|error| RankError::Fabric { rank: of, error })?);
    }
    Ok(nodes)
}

/// The name or address that a rank has told.
pub(crate) fn text_of(rank: usize, bytes: &[u8]) -> Result<String, RankError> {
    let text = String::from_utf8(bytes.to_vec());
    text.map_err(|_| RankError::malformed(rank, "a name that is no text"))
}
