//! A database as one thread's client has it: nodes, tables, and the calls about transactions.

use crate::error::{ConflictCause, TxnError, undecided};
use crate::identity::{MOST_NODES, TableId, home_of, is_same_block, name_after};
use crate::kept::Structure;
use crate::turn::OTHER_PLACE;
use crate::wire::{
    HOLDER_BYTES, KeyVersion, LIMIT_BYTES, LockHolder, OwnerRequest, OwnerStatus, Reader,
    TRANSACTION,
};
use farslot_fabric::{Endpoint, EndpointExt, Nanos, RemoteAddr};
use farslot_remote::chained::{Chained, Observation};
use farslot_remote::ordered::{Leaf, OrderedMap};
use farslot_remote::{Lock, ObjectId, PolicyOptions, RemoteError};
use farslot_rpc::{Client, Reply, RpcError};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// When a transaction locks what it writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Locking {
    /// With the write, as Storm does (paper 003, section 5.4): conflicts are noticed early.
    #[default]
    Execution,
    /// At the commit, as FaRM does: fewer round trips while locks are held. A transaction whose
    /// keys all lie at one node commits by one call, and holds no lock between calls.
    Commit,
}

/// How a client runs transactions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DatabaseOptions {
    /// When they lock.
    pub locking: Locking,
    /// Times that [`Database::run`] tries one.
    pub attempts: u32,
    /// Nanoseconds that it pauses at most after the first conflict; twice as long after each
    /// further one.
    pub first_pause: Nanos,
    /// The longest that it ever pauses at most.
    pub longest_pause: Nanos,
    /// Where pauses are drawn from. Clients should have different ones.
    pub seed: u64,
    /// Chained keys of each table whose places are remembered, and leaves of each map.
    pub places: usize,
    /// How lookups choose between READs and calls.
    pub policy: PolicyOptions,
}

impl Default for DatabaseOptions {
    fn default() -> Self {
        Self {
            locking: Locking::default(),
            attempts: 1000,
            first_pause: 10_000,
            longest_pause: 10_000_000,
            seed: 0,
            places: 1024,
            policy: PolicyOptions::default(),
        }
    }
}

/// Tables and maps on several nodes, and transactions over them: one thread's client. Any number of
/// its coroutines may run transactions.
pub struct Database<E> {
    pub(crate) nodes: Vec<MemberNode<E>>,
    tables: RefCell<Vec<Rc<ServedTable<E>>>>,
    pub(crate) options: DatabaseOptions,
    pub(crate) pauses: RefCell<ChaCha8Rng>,
    /// Times that a transaction was run again.
    pub(crate) retries: Cell<u64>,
    #[cfg(test)]
    pub(crate) broken: Option<crate::broken::BrokenProtocol<E>>,
}

pub(crate) struct MemberNode<E> {
    pub(crate) client: Rc<Client<E>>,
    /// What the next transaction with its home there is called, while there are names left of those
    /// that the node has given this client.
    next: Cell<Option<Lock>>,
    /// Transactions that are finished everywhere, which the node need not remember.
    done: RefCell<Vec<Lock>>,
}

pub(crate) struct ServedTable<E> {
    pub(crate) node: u8,
    pub(crate) object: ObjectId,
    pub(crate) structure: Structure,
    pub(crate) client: TableClient<E>,
}

/// A client of a table or of a map.
pub(crate) enum TableClient<E> {
    Chained(Box<Chained<E>>),
    Ordered(Box<OrderedMap<E>>),
}

/// What a call to lock a key came to.
pub(crate) enum Locked {
    Held {
        version: u64,
        value: Option<Vec<u8>>,
    },
    ByOther(LockHolder),
    LeaseOver,
}

/// What a commit by one call came to.
pub(crate) enum CommittedAt {
    Done,
    /// Another holds a key, by its place among reads and then writes.
    ByOther {
        at: usize,
        by: LockHolder,
    },
    /// What was read has changed, by its place.
    Changed(usize),
}

fn read_locked(mut from: Reader<'_>) -> Option<CommittedAt> {
    Some(CommittedAt::ByOther {
        at: from.half()?.into(),
        by: from.holder()?,
    })
}

/// Most transactions that one request tells to be finished.
const MOST_DONE: usize = 1024;
/// Bytes of what tells who holds a key, without the key: table and holder.
const STOPPED_BYTES: usize = 27;

impl<E: Endpoint> Database<E> {
    /// A database on these nodes. All clients must list the same nodes in the same order: one that
    /// has a node at another place meets [`TxnError::OtherPlace`] while transactions of others are
    /// under way there.
    ///
    /// # Errors
    /// [`TxnError::BadNodes`].
    pub fn new(nodes: Vec<Rc<Client<E>>>, options: DatabaseOptions) -> Result<Self, TxnError> {
        if nodes.is_empty() || nodes.len() > MOST_NODES {
            return Err(TxnError::BadNodes {
                nodes: nodes.len(),
                limit: MOST_NODES,
            });
        }
        let members = nodes.into_iter().map(|client| MemberNode {
            client,
            next: Cell::new(None),
            done: RefCell::default(),
        });
        Ok(Self {
            nodes: members.collect(),
            tables: RefCell::default(),
            options,
            pauses: RefCell::new(ChaCha8Rng::seed_from_u64(options.seed)),
            retries: Cell::new(0),
            #[cfg(test)]
            broken: None,
        })
    }

    /// Adds a table or a map that a node serves ([`serve`](crate::serve)) under this number.
    ///
    /// # Errors
    /// [`TxnError::BadNodes`] if there is no such node.
    pub fn add_table(
        &self,
        node: u8,
        object: ObjectId,
        structure: impl Into<Structure>,
    ) -> Result<TableId, TxnError> {
        let limit = self.nodes.len();
        let member = self.nodes.get(usize::from(node));
        let nodes = usize::from(node) + 1;
        let member = member.ok_or(TxnError::BadNodes { nodes, limit })?;
        let structure = structure.into();
        let (client, places) = (Rc::clone(&member.client), self.options.places);
        let policy = self.options.policy;
        let client = match structure {
            Structure::Chained(table) => {
                let table = Chained::new(table, object, client, places, policy);
                TableClient::Chained(Box::new(table))
            }
            Structure::Ordered(tree) => {
                let map = OrderedMap::new(tree, object, client, places, policy);
                TableClient::Ordered(Box::new(map))
            }
        };
        let mut tables = self.tables.borrow_mut();
        let id = TableId(tables.len() as u64);
        tables.push(Rc::new(ServedTable {
            node,
            object,
            structure,
            client,
        }));
        Ok(id)
    }

    /// How often [`Database::run`] and [`Database::execute`] have run a transaction again, because
    /// another was in its way.
    pub fn retries(&self) -> u64 {
        self.retries.get()
    }

    pub(crate) fn endpoint(&self) -> &E {
        self.nodes[0].client.endpoint()
    }

    pub(crate) fn shared_endpoint(&self) -> Rc<E> {
        Rc::clone(self.nodes[0].client.endpoint())
    }

    /// A table, and its number.
    pub(crate) fn table(&self, table: TableId) -> Result<Rc<ServedTable<E>>, TxnError> {
        let known = self.tables.borrow();
        let at = usize::try_from(table.0).unwrap_or(usize::MAX);
        let tables = known.len();
        let found = known.get(at).map(Rc::clone);
        found.ok_or(TxnError::NoTable { table, tables })
    }

    /// The name of a new transaction with its home at a node.
    pub(crate) async fn name(&self, home: u8) -> Result<Lock, TxnError> {
        let next = &self.nodes[usize::from(home)].next;
        let name = match next.get() {
            Some(name) => name,
            None => {
                let reply = self.call(home, &OwnerRequest::Open { node: home }, 9).await;
                let reply = reply.map_err(|error| match error {
                    RpcError::Refused { reason, .. } if reason == OTHER_PLACE => {
                        TxnError::OtherPlace { node: home }
                    }
                    error => error.into(),
                })?;
                let (_, mut rest) = read(&reply)?;
                let name = rest.lock().filter(|name| home_of(*name) == Some(home));
                name.ok_or(RemoteError::BadReply)?
            }
        };
        next.set(name_after(name));
        Ok(name)
    }

    /// Uses no further name of those that this one is of: its home may have given up all of them,
    /// or has lost its memory, and knows none.
    pub(crate) fn drop_names(&self, lock: Lock) {
        let Some(home) = home_of(lock) else {
            return;
        };
        let next = &self.nodes[usize::from(home)].next;
        if next.get().is_some_and(|next| is_same_block(next, lock)) {
            next.set(None);
        }
    }

    /// Locks a key.
    pub(crate) async fn lock(
        &self,
        table: TableId,
        key: &[u8],
        lock: Lock,
        opens: bool,
    ) -> Result<Locked, TxnError> {
        let served = self.table(table)?;
        // The home must know that none of its locks was broken; elsewhere none is broken before the
        // home's are.
        let at_home = Some(served.node) == home_of(lock);
        let request = OwnerRequest::Lock {
            lock,
            opens: opens || !at_home,
            at_home,
            home: self.home(lock, served.node),
            object: served.object.0,
            key,
        };
        let room = HOLDER_BYTES.max(10 + usize::from(served.structure.value_bytes()));
        let reply = self.call(served.node, &request, room).await?;
        let (status, mut rest) = read(&reply)?;
        let bad = || TxnError::from(RemoteError::BadReply);
        Ok(match status {
            OwnerStatus::Done => {
                let is_there = rest.byte().ok_or_else(bad)? != 0;
                let version = rest.word().ok_or_else(bad)?;
                let value = is_there.then(|| rest.0.to_vec());
                Locked::Held { version, value }
            }
            OwnerStatus::Locked => Locked::ByOther(rest.holder().ok_or_else(bad)?),
            OwnerStatus::Aborted => Locked::LeaseOver,
            OwnerStatus::TooLarge | OwnerStatus::Crowded => {
                return Err(over_limit(served.node, status, &rest).ok_or_else(bad)?);
            }
            OwnerStatus::Running | OwnerStatus::Full | OwnerStatus::Changed => return Err(bad()),
        })
    }

    /// What a key of a table has, and who holds it.
    pub(crate) async fn look(&self, table: TableId, key: &[u8]) -> Result<Observation, TxnError> {
        match &self.table(table)?.client {
            TableClient::Chained(table) => Ok(table.observe(key).await?),
            TableClient::Ordered(_) => Err(RemoteError::BadReply.into()),
        }
    }

    /// The leaf of a key of a map.
    pub(crate) async fn leaf(&self, table: TableId, key: &[u8]) -> Result<Leaf, TxnError> {
        match &self.table(table)?.client {
            TableClient::Ordered(map) => Ok(map.leaf(key).await?),
            TableClient::Chained(_) => Err(TxnError::NotOrdered { table }),
        }
    }

    pub(crate) fn is_ordered(&self, table: TableId) -> Result<bool, TxnError> {
        Ok(matches!(self.table(table)?.client, TableClient::Ordered(_)))
    }

    /// Whether a word is what it was: one READ.
    pub(crate) async fn stands(
        &self,
        table: TableId,
        (offset, word): (u64, u64),
    ) -> Result<bool, TxnError> {
        let client = &self.nodes[usize::from(self.table(table)?.node)].client;
        let (node, region) = client.to();
        let at = RemoteAddr {
            node,
            region,
            offset,
        };
        let read = client.endpoint().read(at, 8).await;
        let read = read.map_err(RemoteError::from)?;
        Ok(read.words() == [word])
    }

    /// Has a transaction's home decide that it is committed.
    pub(crate) async fn decide(
        &self,
        lock: Lock,
        home_part: &[u8],
        other_parts: &[(u8, Vec<u8>)],
    ) -> Result<OwnerStatus, TxnError> {
        let home = home_of(lock).unwrap_or(0);
        let known = &self.nodes[usize::from(home)].done;
        let most = known.borrow().len().min(MOST_DONE);
        let done = known.borrow_mut().drain(..most).collect();
        let other_parts = other_parts.iter().map(|(node, part)| (*node, &**part));
        let request = OwnerRequest::Decide {
            lock,
            done,
            home_part,
            other_parts: other_parts.collect(),
        };
        let reply = self.call(home, &request, LIMIT_BYTES).await;
        if reply.is_err()
            && let OwnerRequest::Decide { done, .. } = request
        {
            known.borrow_mut().extend(done);
        }
        let reply = reply.map_err(|cause| undecided(lock, cause))?;
        let reason = "it has no status";
        let bad = |_| undecided(lock, RpcError::Protocol { reason });
        let (status, rest) = read(&reply).map_err(bad)?;
        over_limit(home, status, &rest).map_or(Ok(status), Err)
    }

    /// Has a node commit a transaction that holds no lock, and has read and changes keys of that
    /// node only.
    pub(crate) async fn commit_at(
        &self,
        node: u8,
        lock: Lock,
        reads: Vec<KeyVersion<'_>>,
        writes: &[u8],
    ) -> Result<CommittedAt, TxnError> {
        let request = OwnerRequest::Commit {
            lock,
            reads,
            writes,
        };
        // A key's place, and who holds it.
        let reply = self.call(node, &request, 2 + HOLDER_BYTES).await;
        let reply = reply.map_err(|cause| undecided(lock, cause))?;
        let end = match read(&reply) {
            Ok((OwnerStatus::Done, _)) => Some(CommittedAt::Done),
            Ok((OwnerStatus::Changed, mut rest)) => {
                rest.half().map(|at| CommittedAt::Changed(at.into()))
            }
            Ok((OwnerStatus::Locked, rest)) => read_locked(rest),
            Ok((status, rest)) if let Some(error) = over_limit(node, status, &rest) => {
                return Err(error);
            }
            _ => None,
        };
        let reason = "it does not tell how a commit ended";
        end.ok_or_else(|| undecided(lock, RpcError::Protocol { reason }))
    }

    /// Has a node run a procedure, once.
    pub(crate) async fn execute_at(
        &self,
        node: u8,
        (procedure, input): (u16, &[u8]),
        room: usize,
    ) -> Result<Reply, TxnError> {
        let limit = self.nodes.len();
        let nodes = usize::from(node) + 1;
        if nodes > limit {
            return Err(TxnError::BadNodes { nodes, limit });
        }
        let lock = self.name(node).await?;
        let request = OwnerRequest::Execute {
            lock,
            procedure,
            input,
        };
        // Who holds a key is told with the key, which is no longer than what is asked with.
        let room = room.max(STOPPED_BYTES + self.longest_key(node)) + 1;
        let reply = self.call(node, &request, room).await;
        let reply = reply.map_err(|cause| undecided(lock, cause))?;
        match read(&reply)? {
            (OwnerStatus::Done, _) => Ok(reply),
            (status, rest) if let Some(error) = over_limit(node, status, &rest) => Err(error),
            (OwnerStatus::Locked, mut rest) => {
                let object = rest.word().map(ObjectId).ok_or(RemoteError::BadReply)?;
                let by = rest.holder().ok_or(RemoteError::BadReply)?;
                let mut ids = 0..self.tables.borrow().len() as u64;
                let table = ids.find(|id| {
                    let table = self.table(TableId(*id));
                    table.is_ok_and(|table| table.node == node && table.object == object)
                });
                let table = TableId(table.unwrap_or(u64::MAX));
                if by.is_over {
                    self.resolve(by, node).await?;
                }
                Err(TxnError::Conflict {
                    table,
                    key: rest.0.to_vec(),
                    cause: ConflictCause::Locked { by: by.lock },
                })
            }
            _ => Err(RemoteError::BadReply.into()),
        }
    }

    /// Most bytes of a key of a node's tables.
    fn longest_key(&self, node: u8) -> usize {
        let tables = self.tables.borrow();
        let on_node = tables.iter().filter(|table| table.node == node);
        let keys = on_node.map(|table| usize::from(table.structure.key_bytes()));
        keys.max().unwrap_or(0)
    }

    /// Has a node apply its part of a committed transaction.
    pub(crate) async fn finish(&self, node: u8, lock: Lock, part: &[u8]) -> Result<(), TxnError> {
        let request = OwnerRequest::Finish { lock, part };
        self.call(node, &request, 1).await?;
        Ok(())
    }

    /// Has a node unlock what a transaction holds there that is not committed.
    pub(crate) async fn release(&self, node: u8, lock: Lock) -> Result<(), TxnError> {
        self.call(node, &OwnerRequest::Abort { lock }, 1).await?;
        Ok(())
    }

    /// Notes that a transaction is finished everywhere.
    pub(crate) fn note_done(&self, lock: Lock) {
        if let Some(home) = home_of(lock) {
            self.nodes[usize::from(home)].done.borrow_mut().push(lock);
        }
    }

    pub(crate) async fn call(
        &self,
        node: u8,
        request: &OwnerRequest<'_>,
        room: usize,
    ) -> Result<Reply, RpcError> {
        let client = &self.nodes[usize::from(node)].client;
        client.call(TRANSACTION, &request.encode(), room).await
    }
}

/// Why a node has done nothing for a transaction, if a limit is the reason.
fn over_limit(node: u8, status: OwnerStatus, rest: &Reader<'_>) -> Option<TxnError> {
    if !matches!(status, OwnerStatus::TooLarge | OwnerStatus::Crowded) {
        return None;
    }
    let mut rest = Reader(rest.0);
    let mut number = || usize::try_from(rest.word()?).ok();
    let (bytes, limit) = (number()?, number()?);
    Some(match status {
        OwnerStatus::Crowded => TxnError::Crowded { node, bytes, limit },
        _ => TxnError::TooLarge { node, bytes, limit },
    })
}

/// A reply's status, and what follows it.
pub(crate) fn read(reply: &[u8]) -> Result<(OwnerStatus, Reader<'_>), RemoteError> {
    let mut from = Reader(reply);
    let status = from.byte().and_then(OwnerStatus::of);
    Ok((status.ok_or(RemoteError::BadReply)?, from))
}
