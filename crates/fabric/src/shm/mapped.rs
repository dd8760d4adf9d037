//! A region's words for this process's own processors: loads and atomics without verbs.

use crate::memory::{MapClaim, Node};
use crate::{FabricError, NodeId, RegionId, RemoteAddr, Result, Rights};
use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// The words of one region of a node that is mapped here, as atomics.
///
/// They are the very words that verbs over shared memory and TCP touch, whose atomics are a
/// processor's too: the two mix freely. A NIC's atomics do not, so a node whose words are held
/// cannot be served over RDMA verbs, and the words of one that is served so cannot be had.
///
/// The memory stays mapped for as long as this is held, also after its owner's process has ended
/// ([`MappedWords::is_gone`]).
pub struct MappedWords {
    start: NonNull<AtomicU64>,
    len: usize,
    claim: MapClaim,
}

// SAFETY: the words are only reached as `&[AtomicU64]`, and the claim keeps the mapping where it
// is.
unsafe impl Send for MappedWords {}
// SAFETY: as above.
unsafe impl Sync for MappedWords {}

impl MappedWords {
    /// The words of a region of `node`.
    ///
    /// # Errors
    /// [`FabricError::UnknownRegion`]; [`FabricError::AccessDenied`] without every right to the
    /// region; [`FabricError::NicAndProcessor`] if a NIC serves the node.
    pub fn of(node: &Node, region: RegionId) -> Result<Self> {
        let index = usize::from(region.0);
        let info = node.region(index).ok_or(FabricError::UnknownRegion {
            node: NodeId(0),
            region,
            regions: node.info().regions.len(),
        })?;
        if !info.rights.allow(Rights::ALL) {
            let at = RemoteAddr {
                node: NodeId(0),
                region,
                offset: 0,
            };
            return Err(FabricError::AccessDenied {
                at,
                needed: Rights::ALL,
                granted: info.rights,
            });
        }
        let claim = node.claim_for_words()?;
        let (start, bytes) = node.memory_of(index);
        Ok(Self {
            start,
            len: bytes / 8,
            claim,
        })
    }

    /// Whether the process that owns the memory has ended.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.claim.node().is_gone()
    }
}

impl Deref for MappedWords {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: the region is `len` words of a mapping that the claim's node keeps, and every
        // right to it says that it is mapped to be written.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl fmt::Debug for MappedWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MappedWords({} words)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::{RegionSpec, ShmEndpoint};
    use crate::{EndpointExt, Executor, Limits};
    use std::rc::Rc;
    use std::sync::atomic::Ordering;

    fn node(rights: Rights) -> Node {
        Node::embedded(&[RegionSpec { len: 64, rights }]).unwrap()
    }

    #[test]
    fn words_are_those_that_verbs_see() {
        let node = node(Rights::ALL);
        let words = MappedWords::of(&node, RegionId(0)).unwrap();
        assert_eq!(words.len(), 8);
        words[3].store(7, Ordering::Release);
        let endpoint = Rc::new(ShmEndpoint::new(vec![node], Limits::default()));
        let at = RemoteAddr {
            node: NodeId(0),
            region: RegionId(0),
            offset: 24,
        };
        let add = endpoint.fetch_add(at, 1);
        assert_eq!(Executor::new(Rc::clone(&endpoint)).block_on(add), Ok(7));
        assert_eq!(words[3].load(Ordering::Acquire), 8);
        assert!(!words.is_gone());
    }

    #[test]
    fn a_region_without_every_right_is_refused() {
        let read_only = node(Rights::READ);
        let refused = MappedWords::of(&read_only, RegionId(0)).unwrap_err();
        assert!(matches!(refused, FabricError::AccessDenied { .. }));
        let unknown = MappedWords::of(&read_only, RegionId(1)).unwrap_err();
        assert!(matches!(unknown, FabricError::UnknownRegion { .. }));
    }
}
