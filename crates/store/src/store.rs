//! A store: where its memory is, and the tables in it.

use crate::calls::owner::registry::{serve_all, serve_simulated};
use crate::calls::owner::service::CallService;
use crate::catalog::{Catalog, GRACE, Phase, ReclaimScope, Scheme, TableRecord};
use crate::expiry::{ExpiryClock, Sweeper};
use crate::fabrics::Fabric;
use crate::lease::Leased;
use crate::nodes::StoreNodes;
use crate::profile::read_cost;
use crate::seeds::{Seeds, draw_id};
use crate::sessions::{SessionContext, TableView, calls_of};
use crate::sharded::{self, LocatedTable, NewTable};
use crate::slot_map::SlotMap;
use crate::{Address, OpenOptions, Result, StoreError, Table, TableOptions};
use farslot_fabric::{Endpoint, EndpointExt, Executor, FabricError, NodeId, shm};
use farslot_index::{Record, UPKEEP};
use farslot_model::NicModel;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// A store. Cloning it shares it, among threads too; each thread opens its own [`Table`]s.
#[derive(Clone)]
pub struct Store(pub(crate) Arc<StoreInner>);

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("address", &self.0.address)
            .field("options", &self.0.sessions.options)
            .finish_non_exhaustive()
    }
}

pub(crate) struct StoreInner {
    address: Address,
    pub(crate) fabric: Fabric,
    pub(crate) sessions: SessionContext,
    pub(crate) seeds: Seeds,
    /// Whether it is that of the keeper of the memory.
    for_keeper: bool,
    /// The thread that removes records that have expired, if there is one.
    pub(crate) sweeper: Mutex<Weak<Sweeper>>,
}

impl Store {
    /// A store in the memory of this process, as large as half of what the machine has free. What
    /// is not used takes no memory.
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
        let memory = Some(bytes);
        Self::open_with("embedded", OpenOptions { memory, ..options })
    }

    /// Opens the store at an address: `embedded`, `shm://NAME`, `tcp://HOST:PORT` or
    /// `sim://PROFILE?seed=N`; over several nodes `tcp://HOST:PORT,HOST:PORT,...`, and likewise the
    /// others.
    ///
    /// A node at a `tcp://` address is connected to now, and again by every table: this and opening
    /// a table block for [`OpenOptions::connect_timeout`] at most. Should the only node end and
    /// another be served at its address, or under its name in shared memory, the store goes on with
    /// that. A [`Table`] of the one before does not
    /// ([`NodeRestarted`](farslot_fabric::FabricError::NodeRestarted), or
    /// [`NodeStopped`](farslot_fabric::FabricError::NodeStopped) in shared memory): open it again.
    /// A [`Handle`](crate::Handle) does that by itself, if its table was restored from a snapshot.
    /// Of several nodes, [`TableOptions::on_restart`] says what becomes of the keys of one that
    /// came back empty.
    ///
    /// A store over several nodes opens if any of them answers; a line in the log says which do
    /// not. Over shared memory all must.
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
        if parsed == Address::Embedded {
            serve_embedded(&fabric);
        }
        Ok(Self::new(parsed, fabric, options))
    }

    /// One in this process whose records end by its endpoints' clock: that of a schedule.
    #[cfg(test)]
    pub(crate) fn embedded_by_its_clock(bytes: u64, options: OpenOptions) -> Result<Self> {
        let mut store = Self::embedded_with(bytes, options)?;
        let inner = Arc::get_mut(&mut store.0);
        inner.expect("nobody else has it").sessions.clock = ExpiryClock::Virtual;
        Ok(store)
    }

    pub(crate) fn of_node(address: Address, node: shm::Node) -> Self {
        Self::new(address, Fabric::mapped(node), OpenOptions::default())
    }

    /// The same store as the keeper of its memory uses it.
    pub(crate) fn for_keeper(self) -> Result<Self> {
        let inner = Arc::try_unwrap(self.0);
        let inner = inner.map_err(|_| StoreError::ChangeCancelled)?;
        Ok(Self(Arc::new(StoreInner {
            for_keeper: true,
            ..inner
        })))
    }

    /// Begins a phase of the only node.
    pub(crate) fn begin_phase(&self, phase: Phase) -> Result<()> {
        self.change(async |endpoint| {
            let catalog = Catalog::new(endpoint, NodeId(0))?;
            catalog.begin_phase(phase).await?;
            if phase == Phase::Ending {
                endpoint.sleep(GRACE).await;
            }
            Ok(())
        })
    }

    /// Has the only node and its tables take everything again, if it has ended.
    pub(crate) fn reopen(&self) -> Result<()> {
        self.change(async |endpoint| Catalog::new(endpoint, NodeId(0))?.reopen().await)
    }

    fn new(address: Address, fabric: Fabric, options: OpenOptions) -> Self {
        let nic = match &fabric {
            Fabric::Shm(_) => NicModel::shared_memory(),
            Fabric::Tcp(_) => NicModel::tcp_loopback(),
            // What paper 000 measured its own NIC by.
            Fabric::Verbs(_) => NicModel::connectx5_edr(),
            Fabric::Sim(world) => read_cost(&world.profile()),
        };
        let nodes = StoreNodes::new(address.nodes());
        if let Fabric::Sim(world) = &fabric {
            serve_simulated(world, nodes.addresses().len() as u16);
        }
        let calls = calls_of(&fabric, options.access);
        let clock = match &fabric {
            Fabric::Sim(_) => ExpiryClock::Virtual,
            Fabric::Shm(_) | Fabric::Tcp(_) | Fabric::Verbs(_) => ExpiryClock::Wall,
        };
        let sessions =
            SessionContext::new(nodes, nic, options, fabric.is_networked(), calls, clock);
        Self(Arc::new(StoreInner {
            seeds: Seeds::of(&address),
            address,
            fabric,
            sessions,
            for_keeper: false,
            sweeper: Mutex::default(),
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

    /// Makes a table. Its memory is taken now and used as it fills. With several nodes each of them
    /// gets a part, laid out for its share of the keys and five standard deviations more; but a
    /// queue lies on one of them, by a hash of its name. All of them must be there.
    ///
    /// Its keys are hashed by a seed of its own, which is drawn by chance. In a simulation it is
    /// derived from the address's seed; elsewhere from `FARSLOT_TABLE_SEED` of the environment, if
    /// that is set, so that a run can be had again: whoever knows it can choose keys that collide.
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
        let on_restart = options.on_restart;
        let options = options.clone().seeded(self.0.seeds.next());
        let options = if options.is_pooled() {
            options.for_pools(nodes)
        } else if options.is_by_memory() {
            options.for_memory(self.largest_free()?)
        } else if nodes > 1 {
            options.for_partitions(nodes)
        } else {
            options
        };
        let scheme = options.scheme()?;
        if nodes == 1 || scheme.is_on_one_node() {
            return self.create_on_one(name, scheme);
        }
        self.create_on_all(NewTable {
            name,
            creation: draw_id(),
            schemes: vec![scheme; usize::from(nodes)],
            prebuilt: false,
            slots: SlotMap::even(nodes, self.0.seeds.next()),
            on_restart,
            without: &[],
        })
    }

    /// Makes a table of exactly these records, which never changes: a sealed or a cuckoo table. Its
    /// capacity is that of the records, whatever the options say. Of several records of a key, the
    /// last stays where keys are unique. Returns how many stay.
    ///
    /// The table is in the catalog before it is built, and stays there, empty, if that fails. Until
    /// it is built, a sealed table says [`NotBuilt`](farslot_index::IndexError::NotBuilt), for ever
    /// if its builder dies. With several nodes that goes for each node's part.
    ///
    /// # Errors
    /// As [`Store::create`] and [`Table::build`]; [`StoreError::NotBuildable`] for a table of
    /// another scheme.
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
        let slots = SlotMap::even(nodes, self.0.seeds.next());
        let options = options.clone().seeded(self.0.seeds.next());
        let schemes = schemes_for(&options, &slots, &records)?;
        if let Some(scheme) = schemes.iter().find(|scheme| !scheme.buildable()) {
            let scheme = scheme.name();
            return Err(StoreError::NotBuildable { scheme });
        }
        match <[Scheme; 1]>::try_from(schemes) {
            Ok([scheme]) => self.create_on_one(name, scheme)?,
            Err(schemes) => self.create_on_all(NewTable {
                name,
                creation: draw_id(),
                schemes,
                prebuilt: true,
                slots,
                on_restart: options.on_restart,
                without: &[],
            })?,
        };
        let build = || {
            let table = self.table(name)?;
            table.build_deduplicated(&records)?;
            table.close()
        };
        build().map_err(StoreError::in_doubt)?;
        Ok(records.len() as u64)
    }

    /// Has tables give back what they do not need, on nodes where nothing is free.
    pub(crate) fn reclaim_if_full(&self) -> Result<()> {
        self.change(async |endpoint| {
            for node in (0..self.node_count()).map(NodeId) {
                if Catalog::new(endpoint, node)?.is_full().await? {
                    endpoint.reclaim(node, ReclaimScope::Ahead).await;
                }
            }
            Ok(())
        })
    }

    /// Makes a table; where there is no room, once more when others have given back what they do
    /// not need.
    fn with_room(&self, make: impl Fn() -> Result<TableRecord>) -> Result<TableRecord> {
        match make() {
            Err(StoreError::OutOfMemory { .. }) => {}
            made => return made,
        }
        self.change(async |endpoint| {
            for node in (0..self.node_count()).map(NodeId) {
                endpoint.reclaim(node, ReclaimScope::All).await;
            }
            Ok(())
        })?;
        make()
    }

    pub(crate) fn node_count(&self) -> u16 {
        self.0.sessions.nodes.addresses().len() as u16
    }

    /// Makes a table on the only node, or on one of several.
    pub(crate) fn create_on_one(&self, name: &str, scheme: Scheme) -> Result<TableRecord> {
        let nodes = &self.0.sessions.nodes;
        self.with_room(|| {
            let scheme = scheme.clone();
            self.change(async |endpoint| {
                if self.node_count() > 1 {
                    return sharded::create_on_one(endpoint, nodes, name, scheme).await;
                }
                let catalog = Catalog::new(endpoint, NodeId(0))?;
                catalog.create(name, scheme, None).await
            })
        })
    }

    pub(crate) fn create_on_all(&self, new: NewTable<'_>) -> Result<TableRecord> {
        let nodes = &self.0.sessions.nodes;
        self.change(async |endpoint| {
            let reclaim = async |node| endpoint.reclaim(node, ReclaimScope::All).await;
            sharded::create(endpoint, nodes, new, reclaim).await
        })
    }

    /// Changes catalogs: as one operation, so that an error says whether any of it was sent.
    pub(crate) fn change<T>(&self, work: impl AsyncFnOnce(&Leased) -> Result<T>) -> Result<T> {
        let executor = self.executor()?;
        let endpoint = &**executor.endpoint();
        executor.block_on(endpoint.operation(UPKEEP, work(endpoint)))
    }

    /// Drops a table, while others may use it: what they do then fails with
    /// [`Reclaimed`](farslot_fabric::FabricError::Reclaimed)
    /// ([`ErrorKind::TableGone`](crate::ErrorKind::TableGone)), and nothing of it meets another
    /// table. Returns when the memory is free again: after two and a half seconds, in which other
    /// clients notice and verbs may still be under way.
    /// Should this client die meanwhile, the table is gone, and the next that needs the memory
    /// frees it.
    ///
    /// Of a table over several nodes, all of them must be there. If one fails half way the table is
    /// gone, and cannot be opened; dropping it again goes on.
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
    /// store.clear("essays")?;
    /// store.drop_table("essays")?;
    /// assert_eq!(store.memory()?.taken, 0);
    /// assert_eq!(drafts.get(b"one").unwrap_err().kind(), ErrorKind::TableGone);
    /// # Ok(())
    /// # }
    /// ```
    pub fn drop_table(&self, name: &str) -> Result<()> {
        let nodes = &self.0.sessions.nodes;
        self.change(async |endpoint| sharded::drop_table(endpoint, nodes, name).await)
    }

    /// Accepts that what nodes which came back empty had of a table is lost: they get empty parts,
    /// whose keys are absent and can be put again. Until then, or until the parts are
    /// [restored](Store::restore), these keys fail for every client. Returns the addresses of these
    /// nodes: none where nothing is lost.
    ///
    /// # Errors
    /// [`StoreError::NoSuchTable`]; what the fabric says of a node of the table that does not
    /// answer; [`NodeRestarted`](farslot_fabric::FabricError::NodeRestarted) of a table that was
    /// built whole, of which no key may be taken for absent; [`StoreError::TableExists`] where a
    /// part is being restored, or a restore of it was cut off.
    ///
    /// ```
    /// # use farslot::{Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let store = Store::open("sim://cx5-edr?seed=7&memory=8MiB&nodes=3")?;
    /// store.create("stock", &TableOptions::new(100))?;
    /// assert!(store.accept_loss("stock")?.is_empty(), "nothing is lost");
    /// # Ok(())
    /// # }
    /// ```
    pub fn accept_loss(&self, name: &str) -> Result<Vec<String>> {
        let executor = self.executor()?;
        let nodes = &self.0.sessions.nodes;
        let finding = sharded::find(&**executor.endpoint(), nodes, name);
        match executor.block_on(finding)? {
            LocatedTable::Whole(..) => Ok(Vec::new()),
            LocatedTable::Sharded(table) => {
                let sharded = self.0.sessions.open_sharded(&executor, table)?;
                executor.block_on(sharded.accept_loss())
            }
        }
    }

    /// Gives a table another name. Others that have it open must open it again, under that name.
    ///
    /// # Errors
    /// [`StoreError::NoSuchTable`], [`StoreError::TableExists`], [`StoreError::BadName`],
    /// [`StoreError::TooManyTables`] if no entry is free beside the table's, or what the fabric
    /// says.
    ///
    /// ```
    /// # use farslot::{Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let store = Store::embedded()?;
    /// store.create("drafts", &TableOptions::default())?;
    /// store.rename("drafts", "essays")?;
    /// store.table("essays")?;
    /// assert!(store.table("drafts").is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn rename(&self, name: &str, to: &str) -> Result<()> {
        let nodes = &self.0.sessions.nodes;
        self.change(async |endpoint| sharded::rename(endpoint, nodes, name, to).await)
    }

    /// Takes all records out of a table, whatever its scheme, at one moment: what others had
    /// acknowledged before is gone, and what is acknowledged later is there. Until then the table
    /// is closed, for as long as [`Store::drop_table`] takes: others that have it open must open it
    /// again ([`ErrorKind::TableGone`](crate::ErrorKind::TableGone)), and whoever opens it waits. A
    /// table that was built whole can be built again. Should this client die meanwhile, whoever
    /// opens the table ends it, ten seconds after it was found closed.
    ///
    /// Of a table over several nodes, all of them must be there. If one fails half way, only the
    /// parts on the others are empty.
    ///
    /// # Errors
    /// As [`Store::drop_table`]; [`StoreError::TooManyTables`] if no entry is free beside the
    /// table's.
    ///
    /// ```
    /// # use farslot::{Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let store = Store::embedded()?;
    /// store.create("drafts", &TableOptions::default())?;
    /// store.table("drafts")?.put(b"one", b"a text")?;
    /// store.clear("drafts")?;
    /// assert!(!store.table("drafts")?.contains_key(b"one")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn clear(&self, name: &str) -> Result<()> {
        let nodes = &self.0.sessions.nodes;
        self.change(async |endpoint| sharded::clear(endpoint, nodes, name).await)
    }

    /// Opens a table for this thread. Of a table over several nodes, a node that does not answer
    /// fails its keys and no others, and so does one that came back empty, unless the table's
    /// [`TableOptions::on_restart`] says otherwise.
    ///
    /// # Errors
    /// [`StoreError::NoSuchTable`]; [`StoreError::MissingNodes`] if the store's address does not
    /// name all nodes of the table, [`StoreError::ConflictingTables`] if it names those of two;
    /// [`StoreError::BeingCleared`] if somebody clears the table for more than a minute; or what
    /// the fabric says.
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
        self.open_table(name, TableView::Living, None)
    }

    /// Opens a table as it is stored. Where records may have a time to live
    /// ([`TableOptions::expiring`]), every value begins with its [`Expiry`](crate::Expiry), and
    /// those that have expired are shown as well: whoever writes such a table writes values of that
    /// form. A value that is replaced by one that ends later
    /// ([`Operation::Replace`](crate::Operation)) is replaced only while it lives: one that has
    /// ended is removed, as if another had been faster. Any other table is what [`Store::table`]
    /// opens.
    ///
    /// # Errors
    /// As [`Store::table`].
    ///
    /// ```
    /// # use farslot::{Expiry, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let store = Store::embedded()?;
    /// store.create("codes", &TableOptions::new(100).expiring(true))?;
    /// let stored = store.stored_table("codes")?;
    /// stored.put(b"ada", &Expiry::at_millis(1).stored(b"314159"))?;
    /// assert!(stored.contains_key(b"ada")?);
    /// assert!(!store.table("codes")?.contains_key(b"ada")?, "it expired in 1970");
    /// # Ok(())
    /// # }
    /// ```
    pub fn stored_table(&self, name: &str) -> Result<Table> {
        self.open_table(name, TableView::Stored, None)
    }

    /// Opens a table; also where it was `seen` open before, on one node that had this incarnation
    /// then (or 0). If the node has come back since, the table is the one that was seen only if it
    /// was restored: of any other its keys are lost, and whoever knew it is to be told.
    pub(crate) fn open_table(
        &self,
        name: &str,
        view: TableView,
        seen: Option<&AtomicU64>,
    ) -> Result<Table> {
        let executor = self.executor()?;
        let since = executor.endpoint().now();
        let nodes = &self.0.sessions.nodes;
        let finding = sharded::find(&**executor.endpoint(), nodes, name);
        match executor.block_on(finding)? {
            LocatedTable::Sharded(table) => self.0.sessions.open_on_all(executor, table, view),
            LocatedTable::Whole(node, record) => {
                if let Some(seen) = seen {
                    let incarnation = executor.endpoint().node(node)?.incarnation;
                    let expected = seen.load(Ordering::Relaxed);
                    if ![0, incarnation].contains(&expected) && !record.restored {
                        let error = FabricError::NodeRestarted { node, expected };
                        return Err(StoreError::Fabric(error));
                    }
                    seen.store(incarnation, Ordering::Relaxed);
                }
                let sessions = &self.0.sessions;
                sessions.open_on_one(executor, node, record, since, view)
            }
        }
    }

    /// Opens the table of that record on the only node of this store, as it is stored: of a table
    /// over several nodes, the part that this node has.
    pub(crate) fn own_part(&self, record: &TableRecord) -> Result<Table> {
        self.part_on(NodeId(0), record)
    }

    /// Opens the table of that record on a node of this store, as it is stored: of a table over
    /// several nodes, the part that this node has.
    pub(crate) fn part_on(&self, node: NodeId, record: &TableRecord) -> Result<Table> {
        let executor = self.executor()?;
        let since = executor.endpoint().now();
        let (sessions, record) = (&self.0.sessions, record.clone());
        sessions.open_on_one(executor, node, record, since, TableView::Stored)
    }

    /// Whether all of its memory is mapped into this process.
    pub(crate) fn is_mapped(&self) -> bool {
        matches!(self.0.fabric, Fabric::Shm(_))
    }

    /// Whether its tables keep answers.
    pub(crate) fn caches_answers(&self) -> bool {
        self.0.sessions.options.cache.is_some()
    }

    /// Of an endpoint of its own.
    pub(crate) fn executor(&self) -> Result<Executor<Leased>> {
        let endpoint = self.0.fabric.endpoint(self.0.sessions.options.limits)?;
        endpoint.core().for_keeper.set(self.0.for_keeper);
        Ok(Executor::new(Leased::new(endpoint)))
    }
}

/// Has this process answer calls to memory that is its own.
fn serve_embedded(fabric: &Fabric) {
    if let Fabric::Shm(nodes) = fabric {
        for node in nodes.nodes() {
            node.serve_calls(Arc::new(serve_all(
                CallService::of_node(node.downgrade()),
                0,
            )));
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
    fn memory_is_asked_of_this_process_alone() {
        let options = OpenOptions {
            memory: Some(16 << 20),
            ..OpenOptions::default()
        };
        let store = Store::open_with("embedded", options.clone()).unwrap();
        assert!((15 << 20..=16 << 20).contains(&store.memory().unwrap().total));
        for address in ["shm://nobody", "tcp://127.0.0.1:1", "sim://cx5-edr?seed=1"] {
            let refused = Store::open_with(address, options.clone()).unwrap_err();
            let text = refused.to_string();
            assert!(text.starts_with("memory = 16777216 is not"), "{text}");
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
