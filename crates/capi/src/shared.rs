//! The memory of a job's processes on one machine, mapped in all of them.

use farslot_fabric::shm::{self, MappedWords, Node, RegionSpec};
use farslot_fabric::{RegionId, Rights};
use farslot_set::job::Job;
use farslot_set::{Layout, Segments};
use std::sync::atomic::{AtomicU64, Ordering};

/// Tables that this process has made with others: each has a name of its own.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A table of which each process of a job owns a part: all of them call this. The node serves this
/// process's part for as long as it is held.
pub(crate) fn segments(
    job: &mut Job,
    buckets_per_rank: u64,
    element_words: u64,
) -> Result<(Segments, Node), String> {
    let said = |error: &dyn std::fmt::Display| error.to_string();
    let layout = Layout::new(job.ranks().into(), buckets_per_rank, element_words);
    let layout = layout.map_err(|error| said(&error))?;
    let region = RegionSpec {
        len: layout.region_bytes(),
        rights: Rights::ALL,
    };
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("capi-{}-{number}", std::process::id());
    let own = Node::serve(&name, &[region]).map_err(|error| said(&error))?;
    let names = job.all_gather(name.as_bytes());
    let names = names.map_err(|error| said(&error))?;
    let mut parts = Vec::new();
    for (rank, name) in (0..).zip(names) {
        let node = if rank == job.rank() {
            own.clone()
        } else {
            let name = String::from_utf8_lossy(&name);
            shm::attach(&name, Rights::ALL).map_err(|error| said(&error))?
        };
        parts.push(MappedWords::of(&node, RegionId(0)).map_err(|error| said(&error))?);
    }
    let segments = Segments::mapped(layout, job.rank() as usize, parts);
    let segments = segments.map_err(|error| said(&error))?;
    job.barrier().map_err(|error| said(&error))?;
    Ok((segments, own))
}
