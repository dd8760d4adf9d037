//! A store: where its memory is, and the tables in it.

use crate::cache::Cache;
use crate::catalog::{Catalog, Scheme, TableRecord, table_at};
use crate::duo::DuoOwners;
use crate::fabrics::Fabric;
use crate::lease::{AnyLeased, Leased, Leasing};
use crate::nodes::Nodes;
use crate::profile::read_cost;
use crate::session::{OnOneNode, Session};
use crate::slot_map::SlotMap;
use crate::spread::{
    self, Caching, Found, KnownSizes, NewTable, Opener, OverNodes, Spread, SpreadTable,
};
use crate::{Address, OpenOptions, Result, StoreError, Table, TableOptions};
use farslot_fabric::shm::ShmEndpoint;
use farslot_fabric::{Endpoint, Executor, Nanos, NodeId, shm};
use farslot_index::Record;
use farslot_index::linear::ReadPolicy;
use farslot_model::NicModel;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// A store. Cloning it shares it, among threads too; each thread opens its own [`Table`]s.
#[derive(Clone)]
pub struct Store(pub(crate) Arc<Inner>);

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("address", &self.0.address)
            .field("options", &self.0.options)
            .finish_non_exhaustive()
    }
}

pub(crate) struct Inner {
    address: Address,
    pub(crate) fabric: Fabric,
    pub(crate) options: OpenOptions,
    pub(crate) nodes: Arc<Nodes>,
    policy: ReadPolicy,
    sizes: Arc<KnownSizes>,
    duo_owners: Arc<DuoOwners>,
}

impl Store {
    /// A store in the memory of this process, as large as half of what the machine has free. What is
    /// not used takes no memory.
    ///
    /// # Errors
    /// What the system says.
    ///
    /// ```
    /// # use farslot::{Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let store = Store::embedded()?;
    /// store.create("stock", &TableOptions::new(100))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn embedded() -> Result<Self> {
        Self::open("embedded")
    }

    /// A store in the memory of this process, with this many bytes.
    ///
    /// # Errors
    /// [`StoreError::TooSmall`], or [`Memory`](farslot_fabric::FabricError::Memory) beyond what the
    /// machine has.
    ///
    /// ```
    /// # use farslot::{Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let store = Store::embedded_with(64 << 20, farslot::OpenOptions::default())?;
    /// assert!(store.memory()?.total <= 64 << 20);
    /// # Ok(())
    /// # }
    /// ```
    pub fn embedded_with(bytes: u64, options: OpenOptions) -> Result<Self> {
        let fabric = Fabric::embedded(bytes)?;
        Ok(Self::new(Address::Embedded, fabric, options))
    }

    /// Opens the store at an address: `embedded`, `shm://NAME`, `tcp://HOST:PORT` or
    /// `sim://PROFILE?seed=N`; over several nodes `tcp://HOST:PORT,HOST:PORT,...`, and likewise the others.
    ///
    /// A node at a `tcp://` address is connected to now, and again by every table: this and opening a table
    /// block for [`OpenOptions::connect_timeout`] at most. Should the only node end and another be served at its
    /// address, the store does not take it for the same:
    /// [`NodeRestarted`](farslot_fabric::FabricError::NodeRestarted), until it is opened again. Of several nodes,
    /// [`OpenOptions::on_restart`] says what becomes of the keys of one that came back empty.
    ///
    /// A store over several nodes opens if any of them answers; a line in the log says which do not. Over shared memory
    /// all must: a process that is served under a name later is another node.
    ///
    /// # Errors
    /// [`StoreError::UnknownScheme`], [`StoreError::BadAddress`], or what the fabric says.
    ///
    /// ```
    /// # use farslot::{Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// // Whatever the address is, the rest stays the same.
    /// let store = Store::open("sim://cx5-edr?seed=7&memory=8MiB")?;
    /// store.create("stock", &TableOptions::new(100))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn open(address: &str) -> Result<Self> {
        Self::open_with(address, OpenOptions::default())
    }

    /// Opens the store at an address, with options.
    ///
    /// # Errors
    /// As [`Store::open`].
    ///
    /// ```
    /// # use farslot::{Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let options = farslot::OpenOptions {
    ///     cache: Some(farslot::Cache::new(1 << 20)),
    ///     ..Default::default()
    /// };
    /// let store = Store::open_with("sim://cx5-edr?seed=7&memory=8MiB", options)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn open_with(address: &str, options: OpenOptions) -> Result<Self> {
        let parsed: Address = address.parse()?;
        let fabric = Fabric::open(&parsed, address, &options)?;
        Ok(Self::new(parsed, fabric, options))
    }

    pub(crate) fn of_node(address: Address, node: shm::Node) -> Self {
        Self::new(address, Fabric::Shm(vec![node]), OpenOptions::default())
    }

    fn new(address: Address, fabric: Fabric, options: OpenOptions) -> Self {
        let nic = match &fabric {
            Fabric::Shm(_) => NicModel::shared_memory(),
            Fabric::Tcp(_) => NicModel::tcp_loopback(),
            // What paper 000 measured its own NIC by.
            Fabric::Verbs(_) => NicModel::connectx5_edr(),
            Fabric::Sim(world) => read_cost(&world.profile()),
        };
        let policy = options.read_policy;
        let policy = policy.unwrap_or(ReadPolicy::throughput(nic));
        Self(Arc::new(Inner {
            nodes: Arc::new(Nodes::new(address.nodes(), options.on_restart)),
            policy,
            sizes: Arc::new(KnownSizes::new(policy, options.look_ahead)),
            duo_owners: Arc::default(),
            address,
            fabric,
            options,
        }))
    }

    /// Where the store is.
    ///
    /// ```
    /// # use farslot::{Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// assert_eq!(Store::embedded()?.address().to_string(), "embedded");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.0.address
    }

    /// Makes a table. Its memory is taken now and used as it fills. With several nodes each of them gets a part, laid
    /// out for its share of the keys and five standard deviations more; all of them must be there.
    ///
    /// # Errors
    /// [`StoreError::TableExists`], [`StoreError::BadName`], [`StoreError::OutOfMemory`],
    /// [`StoreError::TooManyTables`], an option that no table can have, or what the fabric says.
    ///
    /// ```
    /// # use farslot::{Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let store = Store::embedded()?;
    /// store.create("stock", &TableOptions::new(100))?;
    /// assert!(store.create("stock", &TableOptions::new(100)).is_err(), "the name is taken");
    /// # Ok(())
    /// # }
    /// ```
    pub fn create(&self, name: &str, options: &TableOptions) -> Result<TableRecord> {
        let nodes = self.node_count();
        let scheme = if options.is_by_memory() {
            let free = self.largest_free()?;
            options.clone().for_memory(free).scheme()?
        } else if nodes == 1 {
            options.scheme()?
        } else {
            options.for_partitions(nodes).scheme()?
        };
        if nodes == 1 {
            return self.create_on_one(name, scheme);
        }
        self.create_on_all(NewTable {
            name,
            creation: rand::random(),
            schemes: vec![scheme; usize::from(nodes)],
            whole: false,
            slots: SlotMap::even(nodes, rand::random()),
        })
    }

    /// Makes a table of exactly these records, which never changes: a sealed or a cuckoo table. Its
    /// capacity is that of the records, whatever the options say. Of several records of a key, the last
    /// stays where keys are unique. Returns how many stay.
    ///
    /// The table is in the catalog before it is built, and stays there, empty, if that fails. Until it is
    /// built, a sealed table says [`NotBuilt`](farslot_index::IndexError::NotBuilt), for ever if its
    /// builder dies. With several nodes that goes for each node's part.
    ///
    /// # Errors
    /// As [`Store::create`] and [`Table::build`]; [`StoreError::NotBuildable`] for a table of another scheme.
    ///
    /// ```
    /// # use farslot::{Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let store = Store::embedded()?;
    /// let records: [(&[u8], &[u8]); 2] = [(b"pears", b"7"), (b"plums", b"12")];
    /// store.build("prices", &TableOptions::new(2).sealed(), &records)?;
    /// assert_eq!(store.table("prices")?.get(b"plums")?.as_deref(), Some(&b"12"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn build(
        &self,
        name: &str,
        options: &TableOptions,
        records: &[(&[u8], &[u8])],
    ) -> Result<u64> {
        let records = options.deduplicated(records);
        let nodes = self.node_count();
        let slots = SlotMap::even(nodes, rand::random());
        let schemes = schemes_for(options, &slots, &records)?;
        if let Some(scheme) = schemes.iter().find(|scheme| !scheme.buildable()) {
            let scheme = scheme.name();
            return Err(StoreError::NotBuildable { scheme });
        }
        match <[Scheme; 1]>::try_from(schemes) {
            Ok([scheme]) => self.create_on_one(name, scheme)?,
            Err(schemes) => self.create_on_all(NewTable {
                name,
                creation: rand::random(),
                schemes,
                whole: true,
                slots,
            })?,
        };
        let table = self.table(name)?;
        table.build_deduplicated(&records)?;
        table.close()?;
        Ok(records.len() as u64)
    }

    fn node_count(&self) -> u16 {
        self.0.nodes.addresses().len() as u16
    }

    fn create_on_one(&self, name: &str, scheme: Scheme) -> Result<TableRecord> {
        let executor = self.executor()?;
        executor.block_on(async {
            let catalog = Catalog::new(&**executor.endpoint(), NodeId(0))?;
            catalog.create(name, scheme, None).await
        })
    }

    fn create_on_all(&self, new: NewTable<'_>) -> Result<TableRecord> {
        let executor = self.executor()?;
        executor.block_on(spread::create(&**executor.endpoint(), &self.0.nodes, new))
    }

    /// Drops a table, while others may use it: what they do then fails with
    /// [`Reclaimed`](farslot_fabric::FabricError::Reclaimed) ([`ErrorKind::TableGone`](crate::ErrorKind::TableGone)), and
    /// nothing of it meets another table. Returns when the memory is free again: after a quarter of a second, and as
    /// long as a verb may be under way: [`Limits::verb_timeout`](farslot_fabric::Limits), a second at most. Should this client die meanwhile,
    /// the table is gone, and the next that needs the memory frees it.
    ///
    /// Of a table over several nodes, all of them must be there. If one fails half way the table is gone, and cannot be
    /// opened; dropping it again goes on.
    ///
    /// # Errors
    /// [`StoreError::NoSuchTable`], [`StoreError::ChangeCancelled`], or what the fabric says.
    ///
    /// ```
    /// # use farslot::{ErrorKind, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let store = Store::embedded()?;
    /// store.create("drafts", &TableOptions::default())?;
    /// let drafts = store.table("drafts")?;
    /// store.rename("drafts", "essays")?;
    /// store.empty("essays")?;
    /// store.drop_table("essays")?;
    /// assert_eq!(store.memory()?.taken, 0);
    /// assert_eq!(drafts.get(b"one").unwrap_err().kind(), ErrorKind::TableGone);
    /// # Ok(())
    /// # }
    /// ```
    pub fn drop_table(&self, name: &str) -> Result<()> {
        let executor = self.executor()?;
        let endpoint = &**executor.endpoint();
        executor.block_on(spread::drop_table(endpoint, &self.0.nodes, name))
    }

    /// Gives a table another name. Others that have it open must open it again, under that name.
    ///
    /// # Errors
    /// [`StoreError::NoSuchTable`], [`StoreError::TableExists`], [`StoreError::BadName`],
    /// [`StoreError::TooManyTables`] if no entry is free beside the table's, or what the fabric says.
    pub fn rename(&self, name: &str, to: &str) -> Result<()> {
        let executor = self.executor()?;
        let endpoint = &**executor.endpoint();
        executor.block_on(spread::rename(endpoint, &self.0.nodes, name, to))
    }

    /// Takes all records out of a table, at once and whatever its scheme: an empty one takes its place. Others that have
    /// it open must open it again. A table that was built whole can be built again. If there is no room for two of
    /// them, there is none of the name while the old one's memory is freed.
    ///
    /// # Errors
    /// As [`Store::drop_table`].
    pub fn empty(&self, name: &str) -> Result<()> {
        let executor = self.executor()?;
        let endpoint = &**executor.endpoint();
        executor.block_on(spread::empty(endpoint, &self.0.nodes, name))
    }

    /// Opens a table for this thread. Of a table over several nodes, a node that does not answer fails its keys and no
    /// others; one that came back empty gets its part anew, as [`OpenOptions::on_restart`] says.
    ///
    /// # Errors
    /// [`StoreError::NoSuchTable`]; [`StoreError::MissingNodes`] if the store's address does not name all nodes of the
    /// table, [`StoreError::ConflictingTables`] if it names those of two; or what the fabric says.
    ///
    /// ```
    /// # use farslot::{Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let store = Store::embedded()?;
    /// store.create("stock", &TableOptions::new(100))?;
    /// store.table("stock")?.put(b"pears", b"7")?;
    /// // Another thread opens its own.
    /// let other = store.clone();
    /// let seen = std::thread::spawn(move || other.table("stock")?.get(b"pears"));
    /// assert_eq!(seen.join().unwrap()?.as_deref(), Some(&b"7"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn table(&self, name: &str) -> Result<Table> {
        let executor = self.executor()?;
        let since = executor.endpoint().now();
        let finding = spread::find(&**executor.endpoint(), &self.0.nodes, name);
        match (executor.block_on(finding)?, &self.0.fabric) {
            (Found::Spread(table), _) => self.open_on_all(executor, table),
            // On one node, tables are compiled for shared memory, where a verb is a few loads, and once for all
            // other fabrics.
            (Found::Whole(node, record), Fabric::Shm(nodes)) => {
                let endpoint = ShmEndpoint::new(nodes.clone(), self.0.options.limits);
                let executor = Executor::new(Rc::new(Leased::new(endpoint)));
                self.open_on_one(executor, node, record, since)
            }
            (Found::Whole(node, record), _) => self.open_on_one(executor, node, record, since),
        }
    }

    /// Of an endpoint of its own.
    pub(crate) fn executor(&self) -> Result<Executor<AnyLeased>> {
        let endpoint = self.0.fabric.endpoint(self.0.options.limits)?;
        Ok(Executor::new(Rc::new(Leased::new(endpoint))))
    }

    fn open_on_one<E: Leasing>(
        &self,
        executor: Executor<E>,
        node: NodeId,
        record: TableRecord,
        since: Nanos,
    ) -> Result<Table> {
        executor.endpoint().lease(node, &record, since);
        let cache = self.0.options.cache;
        let on = (executor, node, &record, cache);
        let session = match &record.scheme {
            Scheme::Linear(_) => self.session_on_one(on, self.linear(cache)),
            Scheme::Cuckoo(_) => self.session_on_one(on, self.cuckoo()),
            Scheme::Sealed(_) => self.session_on_one(on, spread::Sealed(self.0.policy)),
            Scheme::Race(_) => self.session_on_one(on, spread::Race),
            Scheme::Duo(_) => self.session_on_one(on, self.duo()),
        }?;
        Ok(Table::new(record, session))
    }

    fn session_on_one<E: Endpoint, O: Opener<E>>(
        &self,
        (executor, node, record, cache): (Executor<E>, NodeId, &TableRecord, Option<Cache>),
        opener: O,
    ) -> Result<Box<dyn Session>> {
        let client_memory = self.0.options.client_memory;
        let opener = Caching {
            opener,
            cache,
            client_memory,
        };
        let endpoint = Rc::clone(executor.endpoint());
        let opening = opener.open(endpoint, table_at(node, record), record);
        let opened = executor.block_on(opening);
        let index = opened.map_err(|error| self.0.nodes.named(node, error))?;
        Ok(Box::new(OnOneNode { executor, index }))
    }

    fn open_on_all(&self, executor: Executor<AnyLeased>, table: SpreadTable) -> Result<Table> {
        let record = table.sample.clone();
        let partitions = table.map.slots.partitions();
        let cache = self.0.options.cache;
        let cache = cache.map(|cache| cache.per_partition(partitions));
        let on = (executor, table, cache);
        let session = match &record.scheme {
            Scheme::Linear(_) => self.session_on_all(on, self.linear(cache)),
            Scheme::Cuckoo(_) => self.session_on_all(on, self.cuckoo()),
            Scheme::Sealed(_) => self.session_on_all(on, spread::Sealed(self.0.policy)),
            Scheme::Race(_) => self.session_on_all(on, spread::Race),
            Scheme::Duo(_) => self.session_on_all(on, self.duo()),
        }?;
        Ok(Table::new(record, session))
    }

    fn session_on_all<O: Opener<AnyLeased> + 'static>(
        &self,
        (executor, table, cache): (Executor<AnyLeased>, SpreadTable, Option<Cache>),
        opener: O,
    ) -> Result<Box<dyn Session>> {
        let client_memory = self.0.options.client_memory;
        let opener = Caching {
            opener,
            cache,
            client_memory,
        };
        let endpoint = Rc::clone(executor.endpoint());
        let nodes = Arc::clone(&self.0.nodes);
        let opening = Spread::open(endpoint, nodes, opener, table);
        let table = executor.block_on(opening)?;
        Ok(Box::new(OverNodes { executor, table }))
    }

    fn linear(&self, cache: Option<Cache>) -> spread::Linear {
        let options = &self.0.options;
        spread::Linear {
            sizes: Arc::clone(&self.0.sizes),
            hints: options.cluster_hints,
            record_locations: options.record_locations_for(self.0.fabric.is_networked(), cache),
        }
    }

    fn duo(&self) -> spread::Duo {
        spread::Duo(Arc::clone(&self.0.duo_owners))
    }

    fn cuckoo(&self) -> spread::Cuckoo {
        spread::Cuckoo {
            order: self.0.options.lookup_order,
            predetermines: self.0.options.predetermination,
        }
    }
}

/// The schemes of a table's partitions for exactly these records.
fn schemes_for(
    options: &TableOptions,
    slots: &SlotMap,
    records: &[Record<'_>],
) -> Result<Vec<Scheme>> {
    if slots.partitions() == 1 {
        return Ok(vec![options.scheme_for(records)?]);
    }
    let options = options.for_partitions(slots.partitions());
    let parts = slots.split(records);
    parts.iter().map(|part| options.scheme_for(part)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
