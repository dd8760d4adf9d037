//! A store: where its memory is, and the tables in it.

use crate::catalog::{CATALOG_BYTES, Catalog, MemoryUse, Scheme, TableRecord, table_at};
use crate::profile::nic_profile;
use crate::session::{self, with_catalog};
use crate::{Address, Result, StoreError, Table, TableOptions};
use farslot_fabric::shm::{self, RegionSpec, ShmEndpoint};
use farslot_fabric::sim::{NicProfile, SimEndpoint, World};
use farslot_fabric::tcp::{Secret, TcpEndpoint, TcpOptions};
use farslot_fabric::{Endpoint, FabricError, Limits, NodeId, NodeInfo, Rights};
use farslot_index::cuckoo::{CuckooTable, LookupOrder};
use farslot_index::linear::{LinearLayout, LinearTable, ReadPolicy, ReadSizes};
use farslot_index::sealed::SealedTable;
use farslot_model::NicModel;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How a store is opened, where the defaults do not fit.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenOptions {
    /// What each thread's endpoint may hold, and how long it waits.
    pub limits: Limits,
    /// How lookups in a linear table find their read size; by default for throughput, by the costs of the fabric.
    pub read_policy: Option<ReadPolicy>,
    /// Whether lookups in a linear table request the next chunk ahead (paper 002).
    pub look_ahead: bool,
    /// How many of the largest clusters of a linear table each thread remembers (paper 000, section 3.4). For keys with
    /// many records each; lookups of unique keys gain little, and each pays for it.
    pub cluster_hints: usize,
    /// In which order a lookup reads the buckets of a cuckoo table.
    pub lookup_order: LookupOrder,
    /// What may be done to the memory.
    pub rights: Rights,
    /// The name of the grant under which a `tcp://` address is used.
    pub grant: String,
    /// What a node at a `tcp://` address must know, and wants to see proved.
    pub secret: Option<Secret>,
    /// How long it may take to be connected to a `tcp://` address, and admitted.
    pub connect_timeout: Duration,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            read_policy: None,
            look_ahead: false,
            cluster_hints: 0,
            lookup_order: LookupOrder::default(),
            rights: Rights::ALL,
            grant: TcpOptions::default().grant,
            secret: None,
            connect_timeout: TcpOptions::default().connect_timeout,
        }
    }
}

impl OpenOptions {
    fn tcp(&self) -> TcpOptions {
        TcpOptions {
            grant: self.grant.clone(),
            secret: self.secret.clone(),
            rights: self.rights,
            connect_timeout: self.connect_timeout,
            limits: self.limits,
            ..TcpOptions::default()
        }
    }
}

/// A store. Cloning it shares it, among threads too; each thread opens its own [`Table`]s.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    address: Address,
    fabric: Fabric,
    options: OpenOptions,
    /// Read sizes by table: costly to compute, the same for all threads.
    sizes: Mutex<HashMap<u64, ReadSizes>>,
}

/// The memory, as each fabric holds it.
enum Fabric {
    Shm(shm::Node),
    Tcp(Box<TcpNode>),
    Sim(World),
}

/// A node behind TCP: each endpoint has a connection of its own.
struct TcpNode {
    authority: String,
    options: TcpOptions,
    /// What it was when the store was opened.
    info: NodeInfo,
}

impl TcpNode {
    fn new(authority: &str, options: TcpOptions) -> Result<Self> {
        let first = TcpEndpoint::connect(&[authority], &options)?;
        Ok(Self {
            authority: authority.into(),
            options,
            info: first.node(NODE)?,
        })
    }

    /// An endpoint of the node that the store was opened on, not of one that came after it.
    fn endpoint(&self) -> Result<Rc<TcpEndpoint>> {
        let endpoint = TcpEndpoint::connect(&[&self.authority], &self.options)?;
        if endpoint.node(NODE)?.incarnation != self.info.incarnation {
            return Err(StoreError::Fabric(FabricError::NodeRestarted {
                node: NODE,
                expected: self.info.incarnation,
            }));
        }
        Ok(Rc::new(endpoint))
    }
}

/// A store is on one node.
const NODE: NodeId = NodeId(0);

/// Bytes of an embedded store: address space, of which only what is used becomes memory.
fn embedded_bytes() -> u64 {
    shm::available_memory() / 2
}

pub(crate) fn region_of(bytes: u64) -> RegionSpec {
    RegionSpec {
        len: bytes,
        rights: Rights::ALL,
    }
}

pub(crate) fn check_size(bytes: u64) -> Result<()> {
    if bytes > CATALOG_BYTES {
        return Ok(());
    }
    Err(StoreError::TooSmall {
        bytes,
        least: CATALOG_BYTES + 1,
    })
}

/// Refuses simulated memory that the machine does not have.
fn check_machine(bytes: u64) -> Result<()> {
    let limit = shm::available_memory();
    if bytes <= limit {
        return Ok(());
    }
    Err(StoreError::Fabric(FabricError::Memory {
        requested: bytes,
        limit,
    }))
}

impl Store {
    /// A store in the memory of this process, as large as half of what the machine has free. What is
    /// not used takes no memory.
    ///
    /// # Errors
    /// What the system says.
    pub fn embedded() -> Result<Self> {
        Self::open("embedded")
    }

    /// A store in the memory of this process, with this many bytes.
    ///
    /// # Errors
    /// [`StoreError::TooSmall`], or [`Memory`](farslot_fabric::FabricError::Memory) beyond what the
    /// machine has.
    pub fn embedded_with(bytes: u64, options: OpenOptions) -> Result<Self> {
        check_size(bytes)?;
        let node = shm::Node::embedded(&[region_of(bytes)])?;
        Ok(Self::new(Address::Embedded, Fabric::Shm(node), options))
    }

    /// Opens the store at an address: `embedded`, `shm://NAME`, `tcp://HOST:PORT` or
    /// `sim://PROFILE?seed=N`.
    ///
    /// A node at a `tcp://` address is connected to now, and again by every table: this and opening a table
    /// block for [`OpenOptions::connect_timeout`] at most. Should the node end and another be served at its
    /// address, the store does not take it for the same:
    /// [`NodeRestarted`](farslot_fabric::FabricError::NodeRestarted), until it is opened again.
    ///
    /// # Errors
    /// [`StoreError::UnknownScheme`], [`StoreError::BadAddress`], or what the fabric says.
    pub fn open(address: &str) -> Result<Self> {
        Self::open_with(address, OpenOptions::default())
    }

    /// Opens the store at an address, with options.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_with(address: &str, options: OpenOptions) -> Result<Self> {
        let parsed: Address = address.parse()?;
        let fabric = match &parsed {
            Address::Embedded => return Self::embedded_with(embedded_bytes(), options),
            Address::Shm { name } => Fabric::Shm(shm::attach(name, options.rights)?),
            Address::Tcp { authority } => {
                Fabric::Tcp(Box::new(TcpNode::new(authority, options.tcp())?))
            }
            Address::Sim {
                profile,
                seed,
                memory,
            } => {
                let profile = nic_profile(profile).map_err(|error| StoreError::BadAddress {
                    address: address.into(),
                    reason: error.to_string(),
                })?;
                let bytes = memory.unwrap_or(256 << 20);
                check_size(bytes)?;
                check_machine(bytes)?;
                let world = World::new(*seed, profile);
                world.add_node(&[(bytes, options.rights)]);
                Fabric::Sim(world)
            }
        };
        Ok(Self::new(parsed, fabric, options))
    }

    pub(crate) fn of_node(address: Address, node: shm::Node) -> Self {
        Self::new(address, Fabric::Shm(node), OpenOptions::default())
    }

    fn new(address: Address, fabric: Fabric, options: OpenOptions) -> Self {
        Self(Arc::new(Inner {
            address,
            fabric,
            options,
            sizes: Mutex::default(),
        }))
    }

    /// Where the store is.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.0.address
    }

    /// Makes a table. Its memory is taken now and used as it fills.
    ///
    /// # Errors
    /// [`StoreError::TableExists`], [`StoreError::BadName`], [`StoreError::OutOfMemory`],
    /// [`StoreError::TooManyTables`], an option that no table can have, or what the fabric says.
    pub fn create(&self, name: &str, options: &TableOptions) -> Result<TableRecord> {
        self.create_scheme(name, options.scheme()?)
    }

    /// Makes a table of exactly these records, which never changes: a sealed or a cuckoo table. Its
    /// capacity is that of the records, whatever the options say. Of several records of a key, the last
    /// stays where keys are unique. Returns how many stay.
    ///
    /// The table is in the catalog before it is built, and stays there, empty, if that fails. Until it is
    /// built, a sealed table says [`NotBuilt`](farslot_index::IndexError::NotBuilt), for ever if its
    /// builder dies.
    ///
    /// # Errors
    /// As [`Store::create`] and [`Table::build`]; [`StoreError::NotBuildable`] for a linear table.
    pub fn build(
        &self,
        name: &str,
        options: &TableOptions,
        records: &[(&[u8], &[u8])],
    ) -> Result<u64> {
        let records = options.staying(records);
        let scheme = options.scheme_for(&records)?;
        if !scheme.buildable() {
            let scheme = scheme.name();
            return Err(StoreError::NotBuildable { scheme });
        }
        self.create_scheme(name, scheme)?;
        let table = self.table(name)?;
        table.build_distinct(&records)?;
        table.close()?;
        Ok(records.len() as u64)
    }

    fn create_scheme(&self, name: &str, scheme: Scheme) -> Result<TableRecord> {
        match &self.0.fabric {
            Fabric::Shm(node) => create(self.shm_endpoint(node), name, scheme),
            Fabric::Tcp(node) => create(node.endpoint()?, name, scheme),
            Fabric::Sim(world) => create(self.sim_endpoint(world), name, scheme),
        }
    }

    /// Opens a table for this thread.
    ///
    /// # Errors
    /// [`StoreError::NoSuchTable`], or what the fabric says.
    pub fn table(&self, name: &str) -> Result<Table> {
        match &self.0.fabric {
            Fabric::Shm(node) => self.open_table(self.shm_endpoint(node), name),
            Fabric::Tcp(node) => self.open_table(node.endpoint()?, name),
            Fabric::Sim(world) => self.open_table(self.sim_endpoint(world), name),
        }
    }

    /// All tables, oldest first.
    ///
    /// # Errors
    /// What the fabric says.
    pub fn tables(&self) -> Result<Vec<TableRecord>> {
        match &self.0.fabric {
            Fabric::Shm(node) => list(self.shm_endpoint(node)),
            Fabric::Tcp(node) => list(node.endpoint()?),
            Fabric::Sim(world) => list(self.sim_endpoint(world)),
        }
    }

    /// How much of the memory the tables have taken.
    ///
    /// # Errors
    /// What the fabric says.
    pub fn memory(&self) -> Result<MemoryUse> {
        match &self.0.fabric {
            Fabric::Shm(node) => memory(self.shm_endpoint(node)),
            Fabric::Tcp(node) => memory(node.endpoint()?),
            Fabric::Sim(world) => memory(self.sim_endpoint(world)),
        }
    }

    /// The node behind the store, where it is shared memory: for measurements of the memory itself.
    #[must_use]
    pub fn shm_node(&self) -> Option<&shm::Node> {
        match &self.0.fabric {
            Fabric::Shm(node) => Some(node),
            Fabric::Tcp(_) | Fabric::Sim(_) => None,
        }
    }

    /// An endpoint of its own, where the store is behind TCP: for measurements of the fabric itself.
    ///
    /// # Errors
    /// What the fabric says.
    pub fn tcp_endpoint(&self) -> Result<Option<Rc<TcpEndpoint>>> {
        match &self.0.fabric {
            Fabric::Tcp(node) => node.endpoint().map(Some),
            Fabric::Shm(_) | Fabric::Sim(_) => Ok(None),
        }
    }

    fn shm_endpoint(&self, node: &shm::Node) -> Rc<ShmEndpoint> {
        let nodes = vec![node.clone()];
        Rc::new(ShmEndpoint::new(nodes, self.0.options.limits))
    }

    fn sim_endpoint(&self, world: &World) -> Rc<SimEndpoint> {
        world.endpoint(self.0.options.limits)
    }

    fn open_table<E: Endpoint>(&self, endpoint: Rc<E>, name: &str) -> Result<Table> {
        let find = async |catalog: Catalog<'_, E>| catalog.find(name).await;
        let record = with_catalog(Rc::clone(&endpoint), find)?;
        let (own, at) = (Rc::clone(&endpoint), table_at(&record));
        let session = match record.scheme.clone() {
            Scheme::Linear(layout) => {
                let sizes = self.read_sizes(&record, &layout)?;
                let hints = self.0.options.cluster_hints;
                let opening = async {
                    let table = LinearTable::open(own, at, layout, sizes).await?;
                    Ok(table.with_hints(hints))
                };
                session::open(endpoint, opening)?
            }
            Scheme::Cuckoo(layout) => {
                let order = self.0.options.lookup_order;
                session::open(endpoint, CuckooTable::open(own, at, layout, order))?
            }
            Scheme::Sealed(layout) => {
                let policy = self.read_policy();
                session::open(endpoint, SealedTable::open(own, at, layout, policy))?
            }
        };
        Ok(Table::new(record, session))
    }

    fn read_sizes(&self, record: &TableRecord, layout: &LinearLayout) -> Result<ReadSizes> {
        let mut known = self.0.sizes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sizes) = known.get(&record.offset) {
            return Ok(sizes.clone());
        }
        let mut sizes = ReadSizes::new(layout, self.read_policy())?;
        if self.0.options.look_ahead {
            sizes = sizes.looking_ahead();
        }
        known.insert(record.offset, sizes.clone());
        Ok(sizes)
    }

    fn read_policy(&self) -> ReadPolicy {
        let nic = match &self.0.fabric {
            Fabric::Shm(_) => NicModel::shared_memory(),
            Fabric::Tcp(_) => NicModel::tcp_loopback(),
            Fabric::Sim(world) => read_cost(&world.profile()),
        };
        self.0
            .options
            .read_policy
            .unwrap_or(ReadPolicy::throughput(nic))
    }
}

/// What a READ costs behind a simulated NIC, for the model.
#[must_use]
pub fn read_cost(profile: &NicProfile) -> NicModel {
    NicModel {
        read_latency_ns: profile.read_latency_ns,
        latency_ns_per_byte: profile.latency_per_byte_ns,
        read_occupancy_ns: profile.responder_ns.per_message,
        occupancy_ns_per_byte: profile.responder_ns.per_byte,
        peak_reads_per_second: 1e9 / profile.requester_ns.per_message,
        header_bytes: f64::from(profile.header_bytes),
        bandwidth_bytes_per_second: profile.link_bytes_per_ns * 1e9,
    }
}

fn create<E: Endpoint>(endpoint: Rc<E>, name: &str, scheme: Scheme) -> Result<TableRecord> {
    with_catalog(endpoint, async |catalog: Catalog<'_, E>| {
        catalog.create(name, scheme).await
    })
}

fn list<E: Endpoint>(endpoint: Rc<E>) -> Result<Vec<TableRecord>> {
    with_catalog(endpoint, async |catalog: Catalog<'_, E>| {
        catalog.tables().await
    })
}

fn memory<E: Endpoint>(endpoint: Rc<E>) -> Result<MemoryUse> {
    with_catalog(endpoint, async |catalog: Catalog<'_, E>| {
        catalog.memory().await
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both come from one measurement, and the model's is rounded.
    #[test]
    fn the_model_and_the_simulator_agree_on_tcp_over_loopback() {
        let (model, simulated) = (
            NicModel::tcp_loopback(),
            read_cost(&NicProfile::tcp_loopback()),
        );
        for cost in [NicModel::latency_ns, NicModel::occupancy_ns] {
            for bytes in [8, 64, 1024] {
                let ratio = cost(&model, bytes) / cost(&simulated, bytes);
                assert!((0.98..1.02).contains(&ratio), "{bytes} B: {ratio}");
            }
        }
    }

    #[test]
    fn memory_is_taken_by_tables() {
        for address in ["embedded", "sim://cx5-edr?seed=1&memory=8MiB"] {
            let store = Store::open(address).unwrap();
            let before = store.memory().unwrap();
            assert_eq!((before.taken, before.free()), (0, before.total));
            let options = TableOptions::new(100);
            let record = store.create("t", &options).unwrap();
            let after = store.memory().unwrap();
            assert_eq!(after.total, before.total);
            assert!(u128::from(after.taken) >= record.scheme.table_bytes());
        }
    }
}
