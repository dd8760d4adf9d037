//! What lies behind a store, for programs that measure the fabrics themselves (feature `unstable`).

use crate::fabrics::Fabric;
use crate::{Result, Store};
use farslot_fabric::shm;
use farslot_fabric::sim::World;
use farslot_fabric::tcp::TcpEndpoint;
use farslot_fabric::verbs::VerbsEndpoint;
use std::rc::Rc;

impl Store {
    /// The only node behind the store, where it is shared memory: for measurements of the memory
    /// itself.
    #[must_use]
    pub fn shm_node(&self) -> Option<shm::Node> {
        match &self.0.fabric {
            Fabric::Shm(nodes) => <[_; 1]>::try_from(nodes.nodes()).ok().map(|[node]| node),
            Fabric::Tcp(_) | Fabric::Verbs(_) | Fabric::Sim(_) => None,
        }
    }

    /// The world behind the store, where it is simulated: for experiments with faults.
    #[must_use]
    pub fn sim_world(&self) -> Option<&World> {
        match &self.0.fabric {
            Fabric::Sim(world) => Some(world),
            Fabric::Shm(_) | Fabric::Tcp(_) | Fabric::Verbs(_) => None,
        }
    }

    /// An endpoint of its own, where the store is behind TCP: for measurements of the fabric
    /// itself.
    ///
    /// # Errors
    /// What the fabric says.
    pub fn tcp_endpoint(&self) -> Result<Option<Rc<TcpEndpoint>>> {
        match &self.0.fabric {
            Fabric::Tcp(nodes) => Ok(Some(Rc::new(nodes.endpoint()?))),
            Fabric::Shm(_) | Fabric::Verbs(_) | Fabric::Sim(_) => Ok(None),
        }
    }

    /// An endpoint of its own, where the store is behind RDMA NICs: for measurements of the fabric
    /// itself.
    ///
    /// # Errors
    /// What the fabric says.
    pub fn verbs_endpoint(&self) -> Result<Option<Rc<VerbsEndpoint>>> {
        match &self.0.fabric {
            Fabric::Verbs(nodes) => Ok(Some(Rc::new(nodes.endpoint()?))),
            Fabric::Shm(_) | Fabric::Tcp(_) | Fabric::Sim(_) => Ok(None),
        }
    }
}
