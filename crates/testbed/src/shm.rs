//! Shared memory of this process.

use crate::TestFabric;
use farslot_fabric::shm::{Node, RegionSpec, ShmEndpoint};
use farslot_fabric::{Limits, Rights};
use std::rc::Rc;

/// A node in shared memory.
pub struct Shm(Node);

/// An embedded node with these regions.
pub(crate) fn embedded(regions: &[(u64, Rights)]) -> Node {
    let regions: Vec<_> = regions
        .iter()
        .map(|&(len, rights)| RegionSpec { len, rights })
        .collect();
    Node::embedded(&regions).expect("memory for a test")
}

impl TestFabric for Shm {
    type Endpoint = ShmEndpoint;

    const NAME: &'static str = "shm";
    const SLOWNESS: u32 = 1;
    const PUNCTUAL: bool = true;

    fn start(regions: &[(u64, Rights)]) -> Self {
        Self(embedded(regions))
    }

    fn connect(&self, limits: Limits) -> Rc<ShmEndpoint> {
        Rc::new(ShmEndpoint::new(vec![self.0.clone()], limits))
    }
}
