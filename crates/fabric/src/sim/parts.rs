//! The machines and nodes that a world consists of.

use crate::Rights;
use serde::{Deserialize, Serialize};

/// A machine with one NIC, which the clients and nodes on it share.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct HostId(pub u32);

/// What a node is made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeConfig {
    /// Length in bytes and rights of each region. Memory starts zeroed.
    pub regions: Vec<(u64, Rights)>,
    /// Size of the pages behind the memory, in bytes. Each costs the NIC a translation; with a page
    /// as long as a region that is a physical segment (paper 003, section 5.1).
    pub page_bytes: u64,
    /// Messages that the receive queue holds, and as many calls.
    pub inbox_capacity: usize,
    /// Threads of the owner that answer calls, each one call at a time.
    pub owner_threads: u32,
    /// The machine that it runs on; `None` is a machine of its own.
    pub host: Option<HostId>,
}

impl NodeConfig {
    /// A node on a machine of its own, with pages of 2 MiB, room for 4096 messages and as many
    /// calls, and one thread that answers calls.
    #[must_use]
    pub fn new(regions: &[(u64, Rights)]) -> Self {
        Self {
            regions: regions.to_vec(),
            page_bytes: 2 << 20,
            inbox_capacity: 4096,
            owner_threads: 1,
            host: None,
        }
    }
}
