//! What lies behind a store, for programs that measure fabrics and schemes by themselves (feature
//! `unstable`).

use crate::clients::{ClientFactory, KnownSizes};
use crate::duo::DuoClient;
use crate::expiry::ExpiryClock;
use crate::fabrics::Fabric;
use crate::layout::Scheme;
pub use crate::lease::Leased;
use crate::{OpenOptions, Result, Store, TableRecord};
use farslot_fabric::sim::World;
use farslot_fabric::tcp::TcpEndpoint;
use farslot_fabric::verbs::VerbsEndpoint;
use farslot_fabric::{RemoteAddr, shm};
use farslot_index::linear::ReadPolicy;
use farslot_index::{AnyIndex, BoxFuture};
use farslot_model::NicModel;
use std::rc::Rc;
use std::sync::Arc;

/// Opens clients of tables that lie in no catalog: at addresses that the program knows. Nobody can
/// drop such a table, so that no lease is looked at. The schemes are those of stores, compiled for
/// them: a program that measures does not compile them once more.
///
/// The writers of a CuckooDuo table that one of these has opened, and its clones, are one owner.
#[derive(Clone)]
pub struct BareTables(ClientFactory);

impl BareTables {
    /// Clients as a store with such options opens them, but without calls and without a cache.
    #[must_use]
    pub fn new(options: &OpenOptions) -> Self {
        let policy = options.read_policy;
        let policy = policy.unwrap_or(ReadPolicy::throughput(NicModel::shared_memory()));
        Self(ClientFactory {
            sizes: Arc::new(KnownSizes::new(policy, options.look_ahead)),
            cluster_hints: options.cluster_hints,
            record_locations: options.record_locations.unwrap_or(0),
            lookup_order: options.lookup_order,
            predetermines: options.predetermination,
            duo_owners: Arc::default(),
            access: options.access,
            calls: None,
            cache: None,
            client_memory: options.client_memory,
            clock: ExpiryClock::Virtual,
        })
    }

    /// Opens the table of a scheme that lies at an address; memory that is all zeros is an empty
    /// one. A reader of a CuckooDuo table has read its index then, which it otherwise learns as it
    /// looks keys up: what is measured is its steady state.
    ///
    /// # Errors
    /// What the scheme says.
    pub fn open<'s>(
        &'s self,
        endpoint: &'s Rc<Leased>,
        at: RemoteAddr,
        scheme: &'s Scheme,
    ) -> BoxFuture<'s, Result<AnyIndex>> {
        // An `async fn` would be compiled where it is awaited, and with it every scheme.
        Box::pin(async move {
            let record = TableRecord::new("bare", at.offset, scheme.clone());
            if let Scheme::Duo(layout) = scheme {
                let owners = &self.0.duo_owners;
                let client = DuoClient::open(Rc::clone(endpoint), at, record.id, layout, owners)?;
                client.read_index().await?;
                return Ok(Rc::new(client) as AnyIndex);
            }
            self.0.open(endpoint, at, &record).await
        })
    }
}

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
