//! Tables over several nodes: one table of its scheme in each node's memory, a *partition*, and a
//! map that says which of them a key belongs to.
//!
//! **Promises.** Operations on one key are what they are in the key's partition: linearizable, for
//! the writers that the scheme admits. A node that cannot be reached fails its own keys, at once
//! and by name, and no others; when it can be again they work again. The keys of a node that came
//! back *empty* are lost: they fail, for every client, until the partition is restored or the loss
//! is accepted, which the owner of a cache may do beforehand ([`OnRestart`](crate::OnRestart)).
//!
//! **How.** One endpoint is connected to all nodes, and one executor runs all partitions'
//! operations: what a batch posts in a turn leaves for all nodes at once. Each partition has a
//! client of its scheme, as a table on one node has; nothing of this stands between such a table
//! and its client.
//!
//! **Invariant: no operation on memory that was goes on in memory that is.** Where a partition lies
//! is known for one incarnation of its node. An operation that meets another takes the client away,
//! so that no more begin with it; the new incarnation is adopted only when those that had begun
//! have ended, and nothing of them can take effect there. An operation that met it is done again
//! with the new client: what it may have done before is gone with the memory.
//!
//! Which nodes there are is what the address says; a directory of members would give the same list.
//! Replicas would be more than one node for a partition in [`PartitionMap`]; moving partitions, a
//! map of the next version.

mod all_partitions;
mod batch;
mod change;
mod create;
mod find;
mod revive;
mod session;

#[cfg(test)]
mod fault_tests;

pub(crate) use change::{clear, drop_table, mark_restored, rename};
pub(crate) use create::{NewTable, create, create_on_one};
use find::PartitionPlace;
pub(crate) use find::{LocatedTable, ShardedLocation, ask_all, find, nodes_of};
pub(crate) use session::OverNodes;

use crate::catalog::record::Scheme;
use crate::catalog::{Partition, PartitionMap};
use crate::clients::ClientFactory;
use crate::lease::Leased;
use crate::nodes::StoreNodes;
use crate::{Result, StoreError};
use farslot_fabric::{FabricError, Nanos, NodeId, window};
use farslot_index::{AnyIndex, Result as Answer};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// How often an operation is begun, if its node comes back empty under it each time.
const MOST_ATTEMPTS: u32 = 3;

/// A table over several nodes as one thread's coroutines see it.
pub(crate) struct ShardedTable {
    endpoint: Rc<Leased>,
    nodes: Arc<StoreNodes>,
    clients: ClientFactory,
    name: String,
    /// What all partitions have in common.
    common: Partition,
    map: PartitionMap,
    parts: Box<[Part]>,
}

/// A partition, as far as it is known.
struct Part {
    node: Cell<NodeId>,
    /// Whether it is known that it is there, or guessed.
    is_sure: Cell<bool>,
    /// Nothing before its node was reached, and after it came back empty.
    client: RefCell<Option<AnyIndex>>,
    /// Operations that have begun with the client, or with one before it, and have not ended.
    users: Cell<usize>,
    reviving: Cell<bool>,
    /// What its node was when the partition was seen there last, or else when it was to be made.
    incarnation: Cell<u64>,
    /// When it was seen last that its node has come back without it, and that is refused.
    refused_at: Cell<Option<Nanos>>,
    /// Its scheme; none before its node was reached.
    scheme: RefCell<Option<Scheme>>,
}

/// An operation's hold on a partition's client.
struct ClientHold<'s> {
    part: &'s Part,
    client: AnyIndex,
}

impl Drop for ClientHold<'_> {
    fn drop(&mut self) {
        self.part.users.set(self.part.users.get() - 1);
    }
}

impl ClientHold<'_> {
    /// Ends the hold on a client whose node came back empty: no operation begins with it any more.
    fn give_up(self) {
        self.part.give_up();
    }
}

impl Part {
    fn at(place: &PartitionPlace, incarnation: u64) -> Self {
        Self {
            node: Cell::new(place.node),
            is_sure: Cell::new(place.is_sure),
            client: RefCell::default(),
            users: Cell::new(0),
            reviving: Cell::new(false),
            incarnation: Cell::new(incarnation),
            refused_at: Cell::new(None),
            scheme: RefCell::default(),
        }
    }

    fn give_up(&self) {
        self.client.take();
    }

    fn hold(&self) -> Option<ClientHold<'_>> {
        let client = self.client.borrow().clone()?;
        self.users.set(self.users.get() + 1);
        Some(ClientHold { part: self, client })
    }
}

/// A partition as an operation finds it.
enum Entry<'s> {
    Open(ClientHold<'s>),
    /// It came back empty, and this client may not make it anew: with what that failed. Its keys
    /// are absent.
    Empty(StoreError),
}

/// Whether an operation failed because its node came back empty.
fn met_another(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Fabric(FabricError::NodeRestarted { .. })
            | StoreError::Node {
                error: FabricError::NodeRestarted { .. },
                ..
            }
    )
}

impl ShardedTable {
    /// Opens a table that was found. A partition that cannot be opened now is left for later,
    /// unless none can.
    pub(crate) async fn open(
        endpoint: Rc<Leased>,
        nodes: Arc<StoreNodes>,
        clients: ClientFactory,
        table: ShardedLocation,
    ) -> Result<Self> {
        let ShardedLocation {
            map,
            sample,
            common,
            places,
            since,
        } = table;
        let made = map.nodes.iter().map(|node| node.incarnation);
        let parts = places.iter().zip(made);
        let parts: Box<_> = parts.map(|(place, made)| Part::at(place, made)).collect();
        let table = Self {
            endpoint,
            nodes,
            clients,
            name: sample.name.clone(),
            common,
            map,
            parts,
        };
        let (mut any, mut first) = (false, None);
        let opening = table
            .numbers()
            .map(|number| table.open_part(number, &sample, &places, since));
        window(places.len(), opening, |_, opened| match opened {
            Ok(_) => any = true,
            Err(error) => {
                // Of nodes that are down the log tells elsewhere, once for all tables.
                if !matches!(error, StoreError::Node { .. }) {
                    log::warn!("a part of table {:?} cannot be used: {error}", sample.name);
                }
                first.get_or_insert(error);
            }
        })
        .await;
        match first {
            Some(error) if !any => Err(error),
            _ => Ok(table),
        }
    }

    fn partition_of(&self, key: &[u8]) -> u16 {
        self.map.slots.partition_of(key)
    }

    /// The node of a key, and its address.
    fn node_of(&self, key: &[u8]) -> (NodeId, &str) {
        let node = self.part(self.partition_of(key)).node.get();
        (node, self.nodes.address(node))
    }

    fn part(&self, number: u16) -> &Part {
        &self.parts[usize::from(number)]
    }

    fn numbers(&self) -> std::ops::Range<u16> {
        0..self.map.slots.partitions()
    }

    /// The partitions that have a client.
    fn open_parts(&self) -> impl Iterator<Item = ClientHold<'_>> {
        self.parts.iter().filter_map(Part::hold)
    }

    /// Says which node a partition's failure is of.
    fn named(&self, number: u16, error: StoreError) -> StoreError {
        self.nodes.named(self.part(number).node.get(), error)
    }

    /// Begins an operation on a partition.
    async fn enter(&self, number: u16) -> Result<Entry<'_>> {
        match self.part(number).hold() {
            Some(held) => Ok(Entry::Open(held)),
            None => self.revive(number).await,
        }
    }

    /// Runs an operation on a partition; again, if its node came back empty under it, unless
    /// `again` says no. Without a partition, `empty` answers.
    async fn on_while<T>(
        &self,
        number: u16,
        again: impl Fn() -> bool,
        empty: impl FnOnce(StoreError) -> Result<T>,
        operation: impl AsyncFn(&AnyIndex) -> Answer<T>,
    ) -> Result<T> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let held = match self.enter(number).await? {
                Entry::Open(held) => held,
                Entry::Empty(error) => return empty(error),
            };
            match operation(&held.client).await.map_err(StoreError::from) {
                Err(error) if met_another(&error) => {
                    held.give_up();
                    if attempts == MOST_ATTEMPTS || !again() {
                        return Err(self.named(number, error));
                    }
                }
                outcome => return outcome.map_err(|error| self.named(number, error)),
            }
        }
    }

    async fn on<T>(
        &self,
        number: u16,
        empty: impl FnOnce(StoreError) -> Result<T>,
        operation: impl AsyncFn(&AnyIndex) -> Answer<T>,
    ) -> Result<T> {
        self.on_while(number, || true, empty, operation).await
    }
}
