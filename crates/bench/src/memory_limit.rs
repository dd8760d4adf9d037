//! The rate at which one thread loads cache lines from a node's memory: the limit of every READ
//! over shared memory, measured with the same loads and nothing around them.

use crate::Result;
use farslot::fabric::RegionId;
use farslot::fabric::shm::{LINE, Node};
use rand::{Rng, RngExt};
use std::hint::black_box;
use std::time::Instant;

/// Lines that [`prefetched`] asks for together.
pub const PREFETCHED_TOGETHER: usize = 16;

/// `count` random lines of the span of `bytes` bytes from `first` on, by their offsets. Multiples
/// of a line, if `first` is one.
pub fn random_lines(first: u64, bytes: u64, count: usize, random: &mut impl Rng) -> Vec<u64> {
    let lines = (bytes / LINE as u64).max(1);
    (0..count)
        .map(|_| first + random.random_range(0..lines) * LINE as u64)
        .collect()
}

/// Loads/s where each line is loaded as its turn comes: the processor overlaps what it can see.
///
/// # Errors
/// Where a line does not lie in the region.
pub fn plain(node: &Node, region: RegionId, lines: &[u64]) -> Result<f64> {
    rate(node, region, lines, 1)
}

/// Loads/s where [`PREFETCHED_TOGETHER`] lines are prefetched before the first of them is loaded.
///
/// # Errors
/// Where a line does not lie in the region.
pub fn prefetched(node: &Node, region: RegionId, lines: &[u64]) -> Result<f64> {
    rate(node, region, lines, PREFETCHED_TOGETHER)
}

fn rate(node: &Node, region: RegionId, lines: &[u64], batch: usize) -> Result<f64> {
    let since = Instant::now();
    black_box(node.load_lines(region, lines, batch)?);
    Ok(lines.len() as f64 / since.elapsed().as_secs_f64())
}
