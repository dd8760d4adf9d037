//! A table's memory while it is written: of this process, at the speed of loads and stores.

use crate::Result;
use farslot::bare::Leased;
use farslot::fabric::shm::{Node, RegionSpec, ShmEndpoint};
use farslot::fabric::sim::{NicProfile, World};
use farslot::fabric::{
    AnyEndpoint, EndpointExt, Executor, Limits, NodeId, RegionId, RemoteAddr, Rights,
};

/// Where the table lies, here and in the simulated node.
pub const TABLE_AT: RemoteAddr = RemoteAddr {
    node: NodeId(0),
    region: RegionId(0),
    offset: 0,
};

/// Bytes that are loaded at a time.
const PIECE: usize = 1 << 20;

/// Memory of this process in which a table is made, to be loaded into simulated nodes.
pub struct TableMemory {
    executor: Executor<Leased>,
    bytes: u64,
}

impl TableMemory {
    /// So many bytes, all zeros: an empty table of any kind.
    ///
    /// # Errors
    /// Where there is not so much memory.
    pub fn new(bytes: u128) -> Result<Self> {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let region = RegionSpec {
            len: bytes,
            rights: Rights::ALL,
        };
        let node = Node::embedded(&[region])?;
        let endpoint = AnyEndpoint::Shm(ShmEndpoint::new(vec![node], Limits::default()));
        let executor = Executor::new(Leased::new(endpoint));
        Ok(Self { executor, bytes })
    }

    /// What runs operations on the table.
    #[must_use]
    pub fn executor(&self) -> &Executor<Leased> {
        &self.executor
    }

    /// A world with one node that holds the table as it is now.
    ///
    /// # Errors
    /// What the fabric says.
    pub fn world(&self, seed: u64, profile: NicProfile) -> Result<World> {
        let world = World::new(seed, profile);
        let node = world.add_node(&[(self.bytes, Rights::ALL)]);
        let node = world.node_handle(node);
        let endpoint = self.executor.endpoint();
        for offset in (0..self.bytes).step_by(PIECE) {
            let len = PIECE.min((self.bytes - offset) as usize);
            let piece = endpoint.read(TABLE_AT.plus(offset), len);
            let piece = self.executor.block_on(piece)?;
            node.with_region_mut(TABLE_AT.region, |words| {
                let first = (offset / 8) as usize;
                words[first..first + piece.words().len()].copy_from_slice(piece.words());
            });
        }
        Ok(world)
    }
}
