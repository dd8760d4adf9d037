//! The memory that one grant opens, registered with the NIC.

use crate::memory::Node;
use crate::net::admission::Issued;
use crate::verbs::device::Device;
use crate::verbs::path::KeyedArea;
use crate::verbs::resource::{MemoryRegion, ProtectionDomain, access_flags};
use crate::{RegionId, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// The areas of a grant, registered with the grant's rights in a domain of their own: a key of one
/// grant is void for the queue pairs of another.
pub(super) struct Registration {
    pub(super) domain: Arc<ProtectionDomain>,
    /// Where each area is, and the key to it.
    pub(super) opened: Vec<KeyedArea>,
    /// Nothing once the grant is revoked.
    regions: Mutex<Vec<MemoryRegion>>,
    /// The registered memory stays mapped at least as long.
    _node: Node,
}

impl Registration {
    pub(super) fn new(node: &Node, device: &Arc<Device>, grant: &Issued) -> Result<Self> {
        let domain = ProtectionDomain::new(device)?;
        let mut opened = Vec::new();
        let mut regions = Vec::new();
        for region in 0..node.info().regions.len() {
            let (start, len) = node.memory_of(region);
            for (bytes, rights) in grant.areas(region) {
                let bytes = bytes.start as usize..(bytes.end as usize).min(len);
                // Of nothing there is nothing to register.
                if bytes.is_empty() {
                    continue;
                }
                // SAFETY: the area lies in the region, as `bytes` is within `len`.
                let start = unsafe { start.byte_add(bytes.start) };
                // SAFETY: the node keeps the memory mapped and is held by this; all of it is only
                // reached as atomics, within this process and without.
                let registered = unsafe {
                    MemoryRegion::register(&domain, start.cast(), bytes.len(), access_flags(rights))
                }?;
                opened.push(KeyedArea {
                    region: RegionId(region as u16),
                    rights,
                    key: registered.remote_key(),
                    offset: bytes.start as u64,
                    bytes: bytes.len() as u64,
                    address: start.as_ptr().expose_provenance() as u64,
                });
                regions.push(registered);
            }
        }
        Ok(Self {
            domain,
            opened,
            regions: Mutex::new(regions),
            _node: node.clone(),
        })
    }

    /// Takes the memory from the NIC: when this returns the keys are void.
    pub(super) fn withdraw(&self) {
        let regions = self.regions.lock();
        regions.unwrap_or_else(PoisonError::into_inner).clear();
    }
}
