//! A database as one thread's client has it: nodes, tables, and the calls about transactions.

use crate::error::{ConflictCause, TxnError};
use crate::identity::{MOST_NODES, TableId, home_of, is_same_block, name_after};
use crate::kept::Structure;
use crate::wire::{Ask, Reader, Seen, Status, TRANSACTIONS, read_unfinished};
use farslot_fabric::{Endpoint, EndpointExt, Nanos, RemoteAddr};
use farslot_remote::chained::{Cache, Observation, Observed};
use farslot_remote::ordered::{Leaf, OrderedMap};
use farslot_remote::{Lock, ObjectId, PolicyOptions, Remote, RemoteError};
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
    nodes: Vec<Member<E>>,
    pub(crate) tables: Vec<Served<E>>,
    pub(crate) options: DatabaseOptions,
    pub(crate) pauses: RefCell<ChaCha8Rng>,
    /// Times that a transaction was run again.
    pub(crate) retries: Cell<u64>,
    #[cfg(test)]
    pub(crate) broken: Option<crate::broken::Broken<E>>,
}

struct Member<E> {
    client: Rc<Client<E>>,
    /// What the next transaction with its home there is called, while there are names left of those
    /// that the node has given this client.
    next: Cell<Option<Lock>>,
    /// Transactions that are finished everywhere, which the node need not remember.
    done: RefCell<Vec<Lock>>,
}

pub(crate) struct Served<E> {
    pub(crate) node: u8,
    pub(crate) object: ObjectId,
    pub(crate) structure: Structure,
    lookups: Lookups<E>,
}

/// How keys are looked up.
enum Lookups<E> {
    Chained(Box<Remote<Observed, E>>),
    Ordered(Box<OrderedMap<E>>),
}

/// What a call to lock a key came to.
pub(crate) enum Locked {
    Held {
        version: u64,
        value: Option<Vec<u8>>,
    },
    ByOther {
        by: Lock,
        is_over: bool,
    },
    LeaseOver,
}

/// What a commit by one call came to.
pub(crate) enum CommittedAt {
    Done,
    /// Another holds a key, by its place among reads and then writes.
    ByOther {
        at: usize,
        by: Lock,
        is_over: bool,
    },
    /// What was read has changed, by its place.
    Changed(usize),
}

fn read_locked(mut from: Reader<'_>) -> Option<CommittedAt> {
    Some(CommittedAt::ByOther {
        at: from.half()?.into(),
        by: from.lock()?,
        is_over: from.byte()? != 0,
    })
}

/// Most transactions that one request tells to be finished.
const MOST_DONE: usize = 1024;
/// Bytes of what tells who holds a key, without the key: table, lock, and whether its lease is
/// over.
const STOPPED_BYTES: usize = 11;
/// Room for a part of a transaction, in bytes: what servers take in a request unless they are told
/// otherwise.
const PART_ROOM: usize = 64 << 10;

impl<E: Endpoint> Database<E> {
    /// A database on these nodes. All clients must list the same nodes in the same order, as the
    /// owners' [`OwnerOptions::node`](crate::OwnerOptions::node) say.
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
        let members = nodes.into_iter().map(|client| Member {
            client,
            next: Cell::new(None),
            done: RefCell::default(),
        });
        Ok(Self {
            nodes: members.collect(),
            tables: Vec::new(),
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
        &mut self,
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
        let lookups = match structure {
            Structure::Chained(table) => {
                let cache = Cache::new(places);
                let remote = Remote::new(Observed(table), object, client, cache, policy);
                Lookups::Chained(Box::new(remote))
            }
            Structure::Ordered(tree) => {
                let map = OrderedMap::new(tree, object, client, places, policy);
                Lookups::Ordered(Box::new(map))
            }
        };
        let id = TableId(self.tables.len() as u16);
        self.tables.push(Served {
            node,
            object,
            structure,
            lookups,
        });
        Ok(id)
    }

    /// How often [`Database::run`] and [`Database::execute`] have run a transaction again, because
    /// another was in its way.
    pub fn retries(&self) -> u64 {
        self.retries.get()
    }

    /// Finishes transactions which had their home at a node, and whose clients stopped before they
    /// had applied all their parts. Whoever meets a lock of theirs does the same for that lock;
    /// this is for those that nobody meets. Returns the parts that were finished.
    ///
    /// # Errors
    /// The first that any node fails with. Parts of other nodes are finished all the same.
    pub async fn recover(&self, node: u8) -> Result<usize, TxnError> {
        let reply = self.call(node, &Ask::Unfinished, PART_ROOM).await?;
        let (_, rest) = read(&reply)?;
        let parts = read_unfinished(rest).ok_or(RemoteError::BadReply)?;
        let mut first_error = Ok(());
        for (lock, node) in &parts {
            let end = self.resolve(*lock, *node).await;
            first_error = first_error.and(end);
        }
        first_error.map(|()| parts.len())
    }

    pub(crate) fn endpoint(&self) -> &E {
        self.nodes[0].client.endpoint()
    }

    pub(crate) fn shared_endpoint(&self) -> Rc<E> {
        Rc::clone(self.nodes[0].client.endpoint())
    }

    /// A table, and its number.
    pub(crate) fn table(&self, table: TableId) -> Result<&Served<E>, TxnError> {
        let tables = self.tables.len();
        let known = self.tables.get(usize::from(table.0));
        known.ok_or(TxnError::NoTable { table, tables })
    }

    /// The name of a new transaction with its home at a node.
    pub(crate) async fn name(&self, home: u8) -> Result<Lock, TxnError> {
        let next = &self.nodes[usize::from(home)].next;
        let name = match next.get() {
            Some(name) => name,
            None => {
                let reply = self.call(home, &Ask::Open, 9).await?;
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
        let ask = Ask::Lock {
            lock,
            opens,
            object: served.object.0,
            key,
        };
        let room = 10 + usize::from(served.structure.value_bytes());
        let reply = self.call(served.node, &ask, room).await?;
        let (status, mut rest) = read(&reply)?;
        let bad = || TxnError::from(RemoteError::BadReply);
        Ok(match status {
            Status::Done => {
                let is_there = rest.byte().ok_or_else(bad)? != 0;
                let version = rest.word().ok_or_else(bad)?;
                let value = is_there.then(|| rest.0.to_vec());
                Locked::Held { version, value }
            }
            Status::Locked => Locked::ByOther {
                by: rest.lock().ok_or_else(bad)?,
                is_over: rest.byte().ok_or_else(bad)? != 0,
            },
            Status::Aborted => Locked::LeaseOver,
            Status::Running | Status::Full | Status::Changed => return Err(bad()),
        })
    }

    /// What a key of a table has, and who holds it.
    pub(crate) async fn look(&self, table: TableId, key: &[u8]) -> Result<Observation, TxnError> {
        match &self.table(table)?.lookups {
            Lookups::Chained(remote) => {
                Ok(remote.lookup(key).await?.ok_or(RemoteError::BadReply)?)
            }
            Lookups::Ordered(_) => Err(RemoteError::BadReply.into()),
        }
    }

    /// The leaf of a key of a map.
    pub(crate) async fn leaf(&self, table: TableId, key: &[u8]) -> Result<Leaf, TxnError> {
        match &self.table(table)?.lookups {
            Lookups::Ordered(map) => Ok(map.leaf(key).await?),
            Lookups::Chained(_) => Err(TxnError::NotOrdered { table }),
        }
    }

    pub(crate) fn is_ordered(&self, table: TableId) -> Result<bool, TxnError> {
        Ok(matches!(self.table(table)?.lookups, Lookups::Ordered(_)))
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
        own: &[u8],
        others: &[(u8, Vec<u8>)],
    ) -> Result<Status, RpcError> {
        let home = home_of(lock).unwrap_or(0);
        let known = &self.nodes[usize::from(home)].done;
        let most = known.borrow().len().min(MOST_DONE);
        let done = known.borrow_mut().drain(..most).collect();
        let others = others.iter().map(|(node, part)| (*node, &**part));
        let ask = Ask::Decide {
            lock,
            done,
            own,
            others: others.collect(),
        };
        let reply = self.call(home, &ask, 1).await;
        if reply.is_err()
            && let Ask::Decide { done, .. } = ask
        {
            known.borrow_mut().extend(done);
        }
        let what = "it has no status";
        read(&reply?)
            .map(|(status, _)| status)
            .map_err(|_| RpcError::Protocol { what })
    }

    /// Has a node commit a transaction that holds no lock, and has read and changes keys of that
    /// node only.
    pub(crate) async fn commit_at(
        &self,
        node: u8,
        lock: Lock,
        reads: Vec<Seen<'_>>,
        writes: &[u8],
    ) -> Result<CommittedAt, RpcError> {
        let ask = Ask::Commit {
            lock,
            reads,
            writes,
        };
        let reply = self.call(node, &ask, 12).await?;
        let end = match read(&reply) {
            Ok((Status::Done, _)) => Some(CommittedAt::Done),
            Ok((Status::Changed, mut rest)) => {
                rest.half().map(|at| CommittedAt::Changed(at.into()))
            }
            Ok((Status::Locked, rest)) => read_locked(rest),
            _ => None,
        };
        let what = "it does not tell how a commit ended";
        end.ok_or(RpcError::Protocol { what })
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
        let ask = Ask::Execute {
            lock,
            procedure,
            input,
        };
        // Who holds a key is told with the key, which is no longer than what is asked with.
        let room = room.max(STOPPED_BYTES + self.longest_key(node)) + 1;
        let reply = match self.call(node, &ask, room).await {
            Ok(reply) => reply,
            Err(cause) if cause.may_have_taken_effect() => {
                return Err(TxnError::InDoubt { lock, cause });
            }
            Err(error) => return Err(error.into()),
        };
        match read(&reply)? {
            (Status::Done, _) => Ok(reply),
            (Status::Locked, mut rest) => {
                let object = rest.half().map(ObjectId).ok_or(RemoteError::BadReply)?;
                let by = rest.lock().ok_or(RemoteError::BadReply)?;
                let is_over = rest.byte().ok_or(RemoteError::BadReply)? != 0;
                let mut tables = self.tables.iter();
                let table = tables.position(|own| own.node == node && own.object == object);
                let table = TableId(table.map_or(u16::MAX, |table| table as u16));
                if is_over {
                    self.resolve(by, node).await?;
                }
                Err(TxnError::Conflict {
                    table,
                    key: rest.0.to_vec(),
                    cause: ConflictCause::Locked { by },
                })
            }
            _ => Err(RemoteError::BadReply.into()),
        }
    }

    /// Most bytes of a key of a node's tables.
    fn longest_key(&self, node: u8) -> usize {
        let own = self.tables.iter().filter(|table| table.node == node);
        let keys = own.map(|table| usize::from(table.structure.key_bytes()));
        keys.max().unwrap_or(0)
    }

    /// Has a node apply its part of a committed transaction.
    pub(crate) async fn finish(&self, node: u8, lock: Lock, part: &[u8]) -> Result<(), TxnError> {
        let ask = Ask::Finish { lock, part };
        self.call(node, &ask, 1).await?;
        Ok(())
    }

    /// Has a node unlock what a transaction holds there that is not committed.
    pub(crate) async fn release(&self, node: u8, lock: Lock) -> Result<(), TxnError> {
        self.call(node, &Ask::Abort { lock }, 1).await?;
        Ok(())
    }

    /// Notes that a transaction is finished everywhere.
    pub(crate) fn note_done(&self, lock: Lock) {
        if let Some(home) = home_of(lock) {
            self.nodes[usize::from(home)].done.borrow_mut().push(lock);
        }
    }

    /// The error for a key that another holds. If the lease of that lock is over, it is seen to
    /// first.
    pub(crate) async fn conflict(
        &self,
        table: TableId,
        key: &[u8],
        by: Lock,
        is_over: Option<bool>,
    ) -> TxnError {
        if let Err(error) = self.see_to(table, key, by, is_over).await {
            return error;
        }
        TxnError::Conflict {
            table,
            key: key.to_vec(),
            cause: ConflictCause::Locked { by },
        }
    }

    async fn see_to(
        &self,
        table: TableId,
        key: &[u8],
        by: Lock,
        is_over: Option<bool>,
    ) -> Result<(), TxnError> {
        let served = self.table(table)?;
        let is_over = match is_over {
            Some(is_over) => is_over,
            None => {
                let ask = Ask::Inquire {
                    lock: by,
                    object: served.object.0,
                    key,
                };
                let reply = self.call(served.node, &ask, 1).await?;
                read(&reply)?.0 == Status::Locked
            }
        };
        if is_over {
            self.resolve(by, served.node).await?;
        }
        Ok(())
    }

    /// Asks a transaction's home what became of it, and has a node finish or release its part.
    async fn resolve(&self, lock: Lock, node: u8) -> Result<(), TxnError> {
        let home = home_of(lock).filter(|home| usize::from(*home) < self.nodes.len());
        let Some(home) = home else {
            // No transaction of this database took it.
            return self.release(node, lock).await;
        };
        let ask = Ask::Resolve { lock, node };
        let reply = self.call(home, &ask, PART_ROOM).await?;
        let (status, part) = read(&reply)?;
        match status {
            Status::Done => {
                self.finish(node, lock, part.0).await?;
                self.call(home, &Ask::Forget { lock, node }, 1).await?;
            }
            Status::Aborted => self.release(node, lock).await?,
            _ => {}
        }
        Ok(())
    }

    async fn call(&self, node: u8, ask: &Ask<'_>, room: usize) -> Result<Reply, RpcError> {
        let (_, method) = TRANSACTIONS.methods();
        let client = &self.nodes[usize::from(node)].client;
        client.call(method, &ask.encode(), room).await
    }
}

/// A reply's status, and what follows it.
fn read(reply: &[u8]) -> Result<(Status, Reader<'_>), RemoteError> {
    let mut from = Reader(reply);
    let status = from.byte().and_then(Status::of);
    Ok((status.ok_or(RemoteError::BadReply)?, from))
}
