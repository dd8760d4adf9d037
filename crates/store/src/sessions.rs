//! From a table's record to a thread's session with it: what a store opens tables with.

use crate::cache::Cache;
use crate::catalog::{TableRecord, table_at};
use crate::clients::{CallRule, ClientFactory, KnownSizes};
use crate::duo::DuoOwners;
use crate::expiry::{Ending, Expiring, ExpiryClock, Marking};
use crate::fabrics::Fabric;
use crate::lease::Leased;
use crate::measured::MeasuredSession;
use crate::nodes::StoreNodes;
use crate::session::{OnOneNode, Session};
use crate::sharded::{OverNodes, ShardedLocation, ShardedTable};
use crate::{Access, OpenOptions, Result, Table};
use farslot_fabric::{Executor, Nanos, NodeId};
use farslot_index::linear::ReadPolicy;
use farslot_model::NicModel;
use std::rc::Rc;
use std::sync::Arc;

/// What all threads that open tables share.
pub(crate) struct SessionContext {
    pub(crate) nodes: Arc<StoreNodes>,
    pub(crate) options: OpenOptions,
    sizes: Arc<KnownSizes>,
    duo_owners: Arc<DuoOwners>,
    is_networked: bool,
    calls: Option<CallRule>,
    pub(crate) clock: ExpiryClock,
    /// For the sweeper.
    pub(crate) ending: Ending,
}

/// What of a table whose records may have a time to live is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TableView {
    /// The records that have not expired.
    Living,
    /// All that is stored, as it is stored.
    Stored,
}

/// Whether tables on a fabric are used by calls.
pub(crate) fn calls_of(fabric: &Fabric, access: Access) -> Option<CallRule> {
    let rule = |is_forced| {
        Some(CallRule {
            writes: true,
            is_forced,
        })
    };
    match (access, fabric) {
        (Access::Reads, _) => None,
        // The owner only reads what the NIC's atomics change: clients write by verbs.
        (Access::Calls, Fabric::Verbs(_)) => Some(CallRule {
            writes: false,
            is_forced: true,
        }),
        (Access::Calls, _) => rule(true),
        // Processors on both sides: a call costs what a READ costs, and answers any operation.
        (Access::Auto, Fabric::Tcp(_)) => rule(false),
        // The thread's own loads are next to nothing; a NIC's READs cost the owner nothing, and its
        // atomics are not atomic against the owner's.
        (Access::Auto, Fabric::Shm(_) | Fabric::Verbs(_) | Fabric::Sim(_)) => None,
    }
}

impl SessionContext {
    pub(crate) fn new(
        nodes: StoreNodes,
        nic: NicModel,
        options: OpenOptions,
        is_networked: bool,
        calls: Option<CallRule>,
        clock: ExpiryClock,
    ) -> Self {
        let policy = options.read_policy;
        let policy = policy.unwrap_or(ReadPolicy::throughput(nic));
        Self {
            nodes: Arc::new(nodes),
            sizes: Arc::new(KnownSizes::new(policy, options.look_ahead)),
            duo_owners: Arc::default(),
            is_networked,
            calls,
            clock,
            ending: Ending::default(),
            options,
        }
    }

    /// Opens a table on one node that was seen there at `since`.
    pub(crate) fn open_on_one(
        &self,
        executor: Executor<Leased>,
        node: NodeId,
        record: TableRecord,
        since: Nanos,
        view: TableView,
    ) -> Result<Table> {
        executor.endpoint().lease(node, &record, since);
        let session = self.session(executor, node, &record)?;
        Ok(self.table(record, session, view, since))
    }

    /// A session with a table on one node.
    pub(crate) fn session(
        &self,
        executor: Executor<Leased>,
        node: NodeId,
        record: &TableRecord,
    ) -> Result<Box<dyn Session>> {
        let clients = self.clients(self.options.cache);
        let opening = clients.open(executor.endpoint(), table_at(node, record), record);
        let opened = executor.block_on(opening);
        let index = opened.map_err(|error| self.nodes.named(node, error))?;
        Ok(Box::new(OnOneNode {
            executor,
            index,
            node,
        }))
    }

    pub(crate) fn open_on_all(
        &self,
        executor: Executor<Leased>,
        table: ShardedLocation,
        view: TableView,
    ) -> Result<Table> {
        let (record, since) = (table.sample.clone(), table.since);
        let table = self.open_sharded(&executor, table)?;
        let session = Box::new(OverNodes { executor, table });
        Ok(self.table(record, session, view, since))
    }

    /// A table over several nodes as its coroutines see it.
    pub(crate) fn open_sharded(
        &self,
        executor: &Executor<Leased>,
        table: ShardedLocation,
    ) -> Result<ShardedTable> {
        let partitions = table.map.slots.partitions();
        let cache = self.options.cache;
        let clients = self.clients(cache.map(|cache| cache.per_partition(partitions)));
        let endpoint = Rc::clone(executor.endpoint());
        let nodes = Arc::clone(&self.nodes);
        executor.block_on(ShardedTable::open(endpoint, nodes, clients, table))
    }

    /// A table by that session, which was begun to be opened at `since`: counted and timed if the
    /// store was opened so.
    fn table(
        &self,
        record: TableRecord,
        session: Box<dyn Session>,
        view: TableView,
        since: Nanos,
    ) -> Table {
        let opened_in = session.now().saturating_sub(since);
        let stored = |session| Marking::new(session, self.clock, self.ending.of(record.id));
        let session: Box<dyn Session> = match (record.scheme.is_expiring(), view) {
            (false, _) => session,
            (true, TableView::Stored) => Box::new(stored(session)),
            (true, TableView::Living) => {
                let (_, value) = record.scheme.record_sizes();
                let stored = stored(session);
                Box::new(Expiring::new(stored, value, self.clock))
            }
        };
        let session = match &self.options.metrics {
            Some(metrics) => Box::new(MeasuredSession::new(session, &record.name, metrics)),
            None => session,
        };
        #[cfg(feature = "tracing")]
        let session: Box<dyn Session> = Box::new(crate::traced::Traced::new(session, &record.name));
        Table::new(record, session, self.clock, opened_in)
    }

    /// How clients are opened, each with such a cache.
    fn clients(&self, cache: Option<Cache>) -> ClientFactory {
        let options = &self.options;
        ClientFactory {
            sizes: Arc::clone(&self.sizes),
            cluster_hints: options.cluster_hints,
            record_locations: options.record_locations_for(self.is_networked, cache),
            lookup_order: options.lookup_order,
            predetermines: options.predetermination,
            duo_owners: Arc::clone(&self.duo_owners),
            access: options.access,
            calls: self.calls,
            cache,
            client_memory: options.client_memory,
            clock: self.clock,
        }
    }
}
