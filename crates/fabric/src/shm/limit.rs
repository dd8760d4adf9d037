//! The limit that READ rates are compared with: plain loads of whole cache lines.

use crate::memory::Node;
use crate::verb::check_access;
use crate::{FabricError, NodeId, RegionId, RemoteAddr, Result, Rights};

/// Bytes of a load: one cache line.
pub const LINE: usize = 64;

impl Node {
    /// Loads the cache lines of [`LINE`] bytes that begin at the given offsets of a region, as the
    /// endpoints of this fabric load them and without anything that they do besides; returns the
    /// sum of their words. With a `batch` above 1, that many lines are prefetched together before
    /// the first of them is loaded.
    ///
    /// This is not a verb and is not counted. It is the limit to compare READ rates with.
    ///
    /// # Errors
    /// As a read of one of the lines: [`FabricError::UnknownRegion`],
    /// [`FabricError::AccessDenied`], [`FabricError::OutOfBounds`]. The node in them is node 0.
    pub fn load_lines(&self, region: RegionId, lines: &[u64], batch: usize) -> Result<u64> {
        let start = self.check_lines(region, lines)?;
        let words = self.words();
        let mut sum = 0u64;
        for batch in lines.chunks(batch.max(1)) {
            if batch.len() > 1 {
                for line in batch {
                    words.prefetch(start + line, LINE);
                }
            }
            for line in batch {
                let mut loaded = [0; LINE / 8];
                words.copy_out(start + line, LINE, &mut loaded);
                sum = loaded.into_iter().fold(sum, u64::wrapping_add);
            }
        }
        Ok(sum)
    }

    /// The byte at which the region starts, if all lines lie in it.
    fn check_lines(&self, region: RegionId, lines: &[u64]) -> Result<u64> {
        let node = NodeId(0);
        let index = usize::from(region.0);
        let Some(info) = self.region(index) else {
            return Err(FabricError::UnknownRegion {
                node,
                region,
                regions: self.info().regions.len(),
            });
        };
        for &offset in lines {
            let at = RemoteAddr {
                node,
                region,
                offset,
            };
            check_access(at, LINE as u64, Rights::READ, info)?;
        }
        Ok(self.start_of(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::RegionSpec;
    use std::sync::atomic::Ordering;

    #[test]
    fn lines_are_loaded_whole_and_none_outside_the_region() {
        let spec = RegionSpec {
            len: 1 << 12,
            rights: Rights::READ,
        };
        let node = Node::embedded(&[spec]).unwrap();
        for (word, value) in [(0, 1), (7, 2), (8, 4), (511, 8)] {
            let at = node.start_of(0) + word * 8;
            node.words().word(at).store(value, Ordering::Relaxed);
        }
        for batch in [0, 1, 2, 16] {
            let sum = node.load_lines(RegionId(0), &[0, 4096 - 64, 0], batch);
            assert_eq!(sum, Ok(3 + 8 + 3));
        }
        assert!(node.load_lines(RegionId(0), &[4096 - 56], 1).is_err());
        assert!(node.load_lines(RegionId(1), &[], 1).is_err());
    }
}
