//! The memory of a node as one grant opens it.

use crate::shm::Node;
use crate::verbs::device::Device;
use crate::verbs::resource::{MemoryRegion, ProtectionDomain, access_flags};
use crate::{RegionInfo, Result, Rights};
use std::sync::{Arc, Mutex, PoisonError};

/// The regions of a grant, registered with the grant's rights in a domain of their own: a key of one grant
/// is void for the queue pairs of another.
pub(super) struct Registration {
    pub(super) domain: Arc<ProtectionDomain>,
    /// The first address and the key of each region of the node; 0 where the grant does not open it.
    places: Vec<(u64, u64)>,
    /// Nothing once the grant is revoked.
    regions: Mutex<Vec<MemoryRegion>>,
    /// The registered memory stays mapped at least as long.
    _node: Node,
}

impl Registration {
    pub(super) fn new(node: &Node, device: &Arc<Device>, granted: &[RegionInfo]) -> Result<Self> {
        let domain = ProtectionDomain::new(device)?;
        let mut places = Vec::new();
        let mut regions = Vec::new();
        for (index, info) in granted.iter().enumerate() {
            // An empty region has nothing to register.
            if info.rights == Rights::NONE || info.len == 0 {
                places.push((0, 0));
                continue;
            }
            let (start, bytes) = node.memory_of(index);
            // SAFETY: the node keeps the memory mapped and is held by this; all of it is only reached as
            // atomics, within this process and without.
            let region = unsafe {
                MemoryRegion::register(&domain, start.cast(), bytes, access_flags(info.rights))
            }?;
            let address = start.as_ptr().expose_provenance() as u64;
            places.push((address, region.remote_key().into()));
            regions.push(region);
        }
        Ok(Self {
            domain,
            places,
            regions: Mutex::new(regions),
            _node: node.clone(),
        })
    }

    /// The key of each region.
    pub(super) fn keys(&self) -> Vec<u64> {
        self.places.iter().map(|(_, key)| *key).collect()
    }

    /// The first address of each region.
    pub(super) fn addresses(&self) -> Vec<u64> {
        self.places.iter().map(|(address, _)| *address).collect()
    }

    /// Takes the memory from the NIC: when this returns the keys are void.
    pub(super) fn withdraw(&self) {
        let regions = self.regions.lock();
        regions.unwrap_or_else(PoisonError::into_inner).clear();
    }
}
