//! Storm's lookups: in chained tables of the product, by its clients, with keys that collide.

use crate::cluster::{Program, Seat};
use crate::{LabError, Result};
use farslot::fabric::sim::SimEndpoint;
use farslot::fabric::{Endpoint, EndpointExt, Handler, Nanos, NodeId, RegionId, window};
use farslot_remote::chained::{Chained, Shape, Table};
use farslot_remote::{Found, ObjectId, PolicyOptions, RemoteError, RemoteStructure, serve};
use farslot_rpc::{Client, ClientOptions, RpcServerOptions, Server};
use farslot_txn::TxnError;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Bytes of a key and of a value. A bucket has one slot: a READ moves these, the slot's four words
/// and the bucket's two, 128 bytes in all.
const KEY_BYTES: usize = 72;
const VALUE_BYTES: usize = 8;
const OBJECT: ObjectId = ObjectId(0);
/// Puts and warming lookups that a thread has under way.
const TOGETHER: usize = 16;

/// The part of the keys that lie behind others in buckets of one slot with `load` keys each: a READ
/// of the slot does not find them.
pub(super) fn collisions(load: f64) -> f64 {
    1.0 + (-load).exp_m1() / load
}

/// Threads that look up random keys of the other machines.
pub(super) struct Tables {
    table: Table,
    keys: u32,
    policy: PolicyOptions,
    /// Whether clients know where all keys in chains are.
    knows_chains: bool,
    kernel: Option<Kernel>,
    /// The keys in chains, as those have found that loaded them.
    chained: RefCell<Vec<(NodeId, u32)>>,
}

impl Tables {
    /// A table of so many buckets, a power of two, in each node, with so many keys a bucket; its
    /// clients choose between READs and calls themselves.
    pub(super) fn new(buckets: u32, keys_a_bucket: f64) -> Result<Self> {
        let shape = Shape {
            // Buckets begin at multiples of their length, so that none crosses a page.
            at: 64,
            key_bytes: KEY_BYTES as u16,
            value_bytes: VALUE_BYTES as u16,
            slots: 1,
            buckets,
            most_buckets: buckets,
            overflow: 8 + buckets / 8,
            split_after: 0,
            seed: 7,
        };
        Ok(Self {
            table: Table::new(shape).map_err(TxnError::from)?,
            keys: ((keys_a_bucket * f64::from(buckets)) as u32).max(2),
            policy: PolicyOptions::default(),
            knows_chains: false,
            kernel: None,
            chained: RefCell::default(),
        })
    }

    /// The same with clients that call for all lookups.
    pub(super) fn by_calls(self) -> Self {
        Self {
            policy: PolicyOptions::CALLS,
            ..self
        }
    }

    /// The same with clients that know where all keys in chains are.
    pub(super) fn knowing_chains(self) -> Self {
        Self {
            knows_chains: true,
            ..self
        }
    }

    /// The same with lookups through a kernel.
    pub(super) fn through(self, kernel: Kernel) -> Self {
        Self {
            kernel: Some(kernel),
            ..self
        }
    }
}

/// A kernel that each operation of a machine passes through.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernel {
    /// ns in which no other operation of the machine passes.
    pub(super) locked_ns: f64,
    /// ns of the passage in all.
    pub(super) path_ns: f64,
}

impl Kernel {
    /// Passes; `free` is when the machine's is free again.
    pub(super) async fn pass(self, endpoint: &SimEndpoint, free: &Cell<Nanos>) {
        let now = endpoint.now();
        let locked = free.get().max(now) + self.locked_ns as Nanos;
        free.set(locked);
        let rest = (self.path_ns - self.locked_ns).max(0.0) as Nanos;
        endpoint.sleep(locked + rest - now).await;
    }
}

/// A thread.
pub(super) struct Worker {
    endpoint: Rc<SimEndpoint>,
    others: Vec<(NodeId, Chained<SimEndpoint>)>,
    random: RefCell<ChaCha8Rng>,
    kernel: Rc<Cell<Nanos>>,
}

impl Worker {
    fn table(&self, node: NodeId) -> Option<&Chained<SimEndpoint>> {
        let known = self.others.binary_search_by_key(&node, |(node, _)| *node);
        Some(&self.others[known.ok()?].1)
    }
}

/// A key of a node's table: no two tables have the same collisions.
fn key_of(node: NodeId, number: u32) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..VALUE_BYTES].copy_from_slice(&value_of(node, number));
    key
}

fn value_of(node: NodeId, number: u32) -> [u8; VALUE_BYTES] {
    (u64::from(node.0) << 32 | u64::from(number)).to_le_bytes()
}

fn failed(error: RemoteError) -> LabError {
    TxnError::from(error).into()
}

/// Where a key is, if it has its value.
async fn look(table: &Chained<SimEndpoint>, (node, number): (NodeId, u32)) -> Result<u64> {
    let item = table.get(&key_of(node, number)).await.map_err(failed)?;
    let item = item.filter(|item| item.value == value_of(node, number));
    item.map(|item| item.at)
        .ok_or_else(|| LabError::wrong(1, 1))
}

/// Does something for many keys.
async fn all(jobs: impl Iterator<Item = impl Future<Output = Result<()>>>) -> Result<()> {
    let mut ended = Ok(());
    window(TOGETHER, jobs, |_, end| {
        if ended.is_ok() {
            ended = end;
        }
    })
    .await;
    ended
}

impl Program for Tables {
    type Thread = Worker;

    fn bytes(&self) -> u64 {
        self.table.shape().at + self.table.shape().bytes()
    }

    fn handler(&self) -> Result<Arc<dyn Handler>> {
        let mut server = Server::new(RpcServerOptions {
            slots: TOGETHER as u16,
            ..RpcServerOptions::default()
        });
        serve(&mut server, vec![self.table], Arc::default());
        Ok(Arc::new(server))
    }

    fn thread(&self, endpoint: &Rc<SimEndpoint>, seat: Seat) -> Result<Worker> {
        let places = match self.knows_chains {
            true => self.keys as usize / 4 + 8,
            false => 0,
        };
        let table = |node| {
            let (to, options) = ((node, RegionId(0)), ClientOptions::default());
            let client = Rc::new(Client::new(Rc::clone(endpoint), to, options));
            let table = Chained::new(self.table, OBJECT, client, places, self.policy);
            (node, table)
        };
        Ok(Worker {
            endpoint: Rc::clone(endpoint),
            others: seat.others.into_iter().map(table).collect(),
            random: RefCell::new(ChaCha8Rng::seed_from_u64(seat.seed)),
            kernel: seat.kernel,
        })
    }

    async fn load(&self, worker: &Worker, nodes: &[NodeId]) -> Result<()> {
        let tables = nodes
            .iter()
            .filter_map(|node| Some((*node, worker.table(*node)?)));
        let chains = self.table.shape().at + self.table.shape().written([0, 0])[1].start;
        for (node, table) in tables {
            let puts = (0..self.keys).map(async |number| {
                let put = table
                    .put(&key_of(node, number), &value_of(node, number))
                    .await;
                put.map(drop).map_err(failed)
            });
            all(puts).await?;
            let looks = (0..self.keys).map(async |number| {
                if look(table, (node, number)).await? >= chains {
                    self.chained.borrow_mut().push((node, number));
                }
                Ok(())
            });
            all(looks).await?;
        }
        Ok(())
    }

    /// Each client calls each table once, for its session; those that are to know the keys in
    /// chains ask for them. No policy meets these calls: one that meets keys in chains alone gives
    /// READs up.
    async fn warm(&self, worker: &Worker) -> Result<()> {
        let firsts = worker.others.iter().map(|(node, _)| (*node, 0));
        let chained = self.chained.borrow().clone();
        let chained = chained.into_iter().filter(|_| self.knows_chains);
        let keys = firsts.chain(chained);
        let keys = keys.filter_map(|key| Some((key, worker.table(key.0)?)));
        let asks = keys.map(async |((node, number), table)| {
            let (key, remote) = (key_of(node, number), table.remote());
            let request = self.table.lookup_request(&key);
            let reply = remote.ask(&request).await.map_err(failed)?;
            let found = Found::Reply(&reply);
            self.table.lookup_end(&key, found, &mut remote.cache());
            Ok(())
        });
        all(asks).await
    }

    async fn operation(&self, worker: &Worker) -> Result<()> {
        if let Some(kernel) = self.kernel {
            kernel.pass(&worker.endpoint, &worker.kernel).await;
        }
        let (other, number) = {
            let mut random = worker.random.borrow_mut();
            let other = random.random_range(0..worker.others.len());
            (other, random.random_range(0..self.keys))
        };
        let (node, table) = &worker.others[other];
        look(table, (*node, number)).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::idle;
    use crate::paper003::mix::ITEM;
    use farslot::fabric::VerbKind;
    use farslot::fabric::sim::NicProfile;

    #[test]
    fn a_lookup_is_a_read_of_a_bucket_and_a_call_where_keys_collide() {
        let lookups = |tables: Tables| idle(NicProfile::connectx4_edr(), tables, 1).unwrap();
        let tables = || Tables::new(1 << 13, 0.5).unwrap();
        let by_calls = lookups(tables().by_calls());
        assert_eq!(by_calls.posted.verbs_of(VerbKind::Call), 100);
        assert_eq!(by_calls.posted.verbs_of(VerbKind::Read), 0);
        let known = lookups(tables().knowing_chains());
        assert_eq!(known.posted.verbs_of(VerbKind::Call), 0);
        assert_eq!(known.posted.verbs_of(VerbKind::Read), 100);
        let both = lookups(tables());
        assert_eq!(both.posted.verbs_of(VerbKind::Read), 100);
        // Four standard deviations of 100 lookups.
        let (calls, missed) = (both.posted.verbs_of(VerbKind::Call) as f64, collisions(0.5));
        assert!(
            (calls - 100.0 * missed).abs() < 4.0 * (100.0 * missed).sqrt(),
            "{calls}"
        );
        let read = both.posted.bytes_read - known.posted.bytes_read;
        assert!(read > 0 && known.posted.bytes_read <= 100 * ITEM as u64);
    }
}
