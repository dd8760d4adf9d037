//! The workloads on Farslot: tables and transactions of paper 003.

mod layout;
mod machines;
mod procedures;

use crate::transactions::round::{RoundTotals, TRANSACTION, TransactionRound, thread_cpu};
use crate::transactions::smallbank;
use crate::transactions::system::{Plan, TransactionSystem};
use crate::transactions::workload::{Call, InsertedRow, Outcome, Workload, WorkloadClient};
use crate::{LabError, Result};
use farslot::fabric::shm::{self, RegionSpec, ShmEndpoint};
use farslot::fabric::sim::{HostId, NicProfile, RunEnd, Simulation, World};
use farslot::fabric::tcp::{Agent, AgentOptions, ConnectOptions, TcpEndpoint};
use farslot::fabric::{
    AnyEndpoint, Endpoint, EndpointExt, Executor, Handler, Limits, NodeId, RegionId, Rights, window,
};
use farslot_bench::process;
use farslot_remote::chained::Chained;
use farslot_remote::ordered::OrderedMap;
use farslot_remote::{PolicyOptions, RemoteError};
use farslot_rpc::{Client, ClientOptions, RpcServerOptions, Server};
use farslot_txn::{
    Database, DatabaseOptions, Locking, OwnerOptions, Structure, TableId, Transaction, TxnError,
};
use layout::{Buckets, tables};
pub(crate) use machines::TatpMachines;
use procedures::{RUN, has_procedures, tatp, ycsb};
use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Barrier};
use std::thread;

/// Where the nodes are.
pub(crate) enum DatabaseNodes {
    /// In the simulator, in its virtual time.
    Sim(World),
    /// In the memory of this process, whose client threads execute the calls themselves.
    Shm(Vec<shm::Node>),
    /// In shared memory that other processes serve under these names.
    Attached(Vec<String>),
    /// At these addresses.
    Tcp(Vec<String>),
}

/// The nodes of a database, and what keeps them served.
pub(crate) struct ServedDatabase {
    pub nodes: DatabaseNodes,
    /// The processes that serve them, where they are not this one.
    pub processes: Vec<u32>,
    /// Ends them when it is dropped.
    pub _guard: Box<dyn Any + Send + Sync>,
}

/// What clients may do: all else is done by the owner.
const RIGHTS: Rights = Rights::READ.and(Rights::CALL);

/// What answers calls to a node.
fn handler(workload: &dyn Workload, nodes: u64, buckets: Buckets) -> Result<Arc<dyn Handler>> {
    let (tables, _) = tables(workload, nodes, buckets)?;
    let mut server = Server::new(RpcServerOptions::default());
    let procedures = procedures::procedures(workload.name());
    farslot_txn::serve_with(&mut server, tables, procedures, OwnerOptions::default());
    Ok(Arc::new(server))
}

/// A node, served under a name if it has one.
fn node(workload: &dyn Workload, nodes: u64, name: Option<&str>) -> Result<shm::Node> {
    let region = RegionSpec {
        len: tables(workload, nodes, Buckets::OWN)?.1,
        rights: RIGHTS,
    };
    let node = match name {
        Some(name) => shm::Node::serve(name, &[region])?,
        None => shm::Node::embedded(&[region])?,
    };
    node.serve_calls(handler(workload, nodes, Buckets::OWN)?);
    Ok(node)
}

/// Serves one of a workload's nodes over shared memory; returns its name.
pub(crate) fn serve_shm(
    workload: &dyn Workload,
    number: u64,
    nodes: u64,
) -> Result<(String, shm::Node)> {
    let name = format!("lab-transactions-{}-{number}", std::process::id());
    let node = node(workload, nodes, Some(&name))?;
    Ok((name, node))
}

/// Serves one of a workload's nodes over TCP, at any port of this host that is free.
pub(crate) fn serve_tcp(workload: &dyn Workload, nodes: u64, threads: usize) -> Result<Agent> {
    let options = AgentOptions {
        threads,
        ..AgentOptions::default()
    };
    Ok(Agent::start(node(workload, nodes, None)?, &options)?)
}

/// The nodes in this process' memory.
pub(crate) fn in_memory(workload: &dyn Workload, nodes: u64) -> Result<ServedDatabase> {
    let nodes = (0..nodes).map(|_| node(workload, nodes, None));
    Ok(ServedDatabase {
        nodes: DatabaseNodes::Shm(nodes.collect::<Result<_>>()?),
        processes: Vec::new(),
        _guard: Box::new(()),
    })
}

/// The nodes in the simulator.
pub(crate) fn simulated(workload: &dyn Workload, nodes: u64, seed: u64) -> Result<ServedDatabase> {
    let world = World::new(seed, NicProfile::connectx5_edr());
    for _ in 0..nodes {
        let node = world.add_node(&[(tables(workload, nodes, Buckets::OWN)?.1, RIGHTS)]);
        let handler = handler(workload, nodes, Buckets::OWN)?;
        world
            .node_handle(node)
            .serve_calls(move || Arc::clone(&handler));
    }
    Ok(ServedDatabase {
        nodes: DatabaseNodes::Sim(world),
        processes: Vec::new(),
        _guard: Box::new(()),
    })
}

/// A database of Farslot.
pub(super) struct FarslotDatabase {
    served: ServedDatabase,
    manner: Manner,
}

/// How clients use it.
#[derive(Clone, Copy)]
struct Manner {
    nodes: u64,
    locking: Locking,
    /// Whether owners run transactions all of whose rows they have.
    at_owner: bool,
    policy: PolicyOptions,
    buckets: Buckets,
}

/// One client thread's database.
struct Session {
    database: Database<AnyEndpoint>,
    workload: Rc<dyn Workload>,
    nodes: u64,
    at_owner: bool,
}

impl Session {
    /// A workload's table where the rows of a part are.
    fn table(&self, table: usize, part: i64) -> TableId {
        let node = part.unsigned_abs() % self.nodes;
        TableId(table as u64 * self.nodes + node)
    }

    /// The node of all rows of a transaction, if one has them.
    fn only_node(&self, call: &Call) -> Option<u64> {
        let parts = call.numbers[..self.workload.parts(call.kind)].iter();
        let mut nodes = parts.map(|part| part.unsigned_abs() % self.nodes);
        let first = nodes.next()?;
        nodes.all(|node| node == first).then_some(first)
    }

    /// Runs a transaction; returns what it came to.
    async fn run(&self, call: &Call) -> Result<Outcome> {
        if self.at_owner
            && let Some(node) = self.only_node(call)
        {
            let numbers = self.workload.kinds()[call.kind].numbers;
            let input = procedures::input(call, numbers);
            let reply = self.database.execute(node as u8, RUN, &input, 8).await?;
            return Ok(procedures::outcome(&reply));
        }
        let table = |table, part| self.table(table, part);
        let body = async |open: &mut Transaction<'_, AnyEndpoint>| match self.workload.name() {
            "tatp" => tatp(open, &table, call).await,
            "smallbank" => procedures::smallbank(open, &table, call).await,
            _ => ycsb(open, &table, (&*self.workload, call)).await,
        };
        Ok(self.database.run(body).await?)
    }

    /// Runs transactions until the time is over, so many at once.
    async fn work(
        &self,
        endpoint: &AnyEndpoint,
        state: &mut WorkloadClient,
        plan: Plan,
    ) -> Result<RoundTotals> {
        let state = RefCell::new(state);
        let share = RefCell::new(RoundTotals::new(&*self.workload));
        let (cpu, since) = (thread_cpu(), endpoint.now());
        let before = endpoint.core().counters.snapshot();
        let until = since + plan.time.as_nanos() as u64;
        let mut first_error = Ok(());
        let workers = (0..plan.width).map(async |_| -> Result<()> {
            while endpoint.now() < until {
                let call = self.workload.draw(&mut state.borrow_mut());
                let begun = endpoint.now();
                let outcome = endpoint.operation(TRANSACTION, self.run(&call)).await?;
                let mut share = share.borrow_mut();
                share.note(&*self.workload, &call, outcome, endpoint.now() - begun);
            }
            Ok(())
        });
        window(plan.width, workers, |_, end| {
            if first_error.is_ok() {
                first_error = end;
            }
        })
        .await;
        first_error?;
        let mut share = share.into_inner();
        share.conflicts = self.database.retries();
        share.time = endpoint.now() - since;
        share.cpu = thread_cpu().saturating_sub(cpu);
        share.posted = endpoint.core().counters.snapshot().since(&before);
        Ok(share)
    }
}

impl Manner {
    fn clients(&self, endpoint: &Rc<AnyEndpoint>) -> Vec<Rc<Client<AnyEndpoint>>> {
        let nodes = 0..self.nodes as u16;
        let clients = nodes.map(|node| {
            let to = (NodeId(node), RegionId(0));
            Rc::new(Client::new(
                Rc::clone(endpoint),
                to,
                ClientOptions::default(),
            ))
        });
        clients.collect()
    }

    fn session(
        &self,
        endpoint: &Rc<AnyEndpoint>,
        workload: &dyn Workload,
        seed: u64,
    ) -> Result<Session> {
        let options = DatabaseOptions {
            locking: self.locking,
            seed,
            policy: self.policy,
            ..DatabaseOptions::default()
        };
        let database = Database::new(self.clients(endpoint), options)?;
        for (object, table) in tables(workload, self.nodes, self.buckets)?.0 {
            for node in 0..self.nodes {
                database.add_table(node as u8, object, table)?;
            }
        }
        Ok(Session {
            database,
            workload: workload.shared(),
            nodes: self.nodes,
            at_owner: self.at_owner && has_procedures(workload.name()),
        })
    }
}

impl FarslotDatabase {
    pub(super) fn new(
        served: ServedDatabase,
        nodes: u64,
        locking: Locking,
        at_owner: bool,
    ) -> Self {
        let manner = Manner {
            nodes,
            locking,
            at_owner,
            policy: PolicyOptions::default(),
            buckets: Buckets::OWN,
        };
        Self { served, manner }
    }

    fn endpoint(&self) -> Result<Rc<AnyEndpoint>> {
        let limits = crate::patient();
        Ok(Rc::new(match &self.served.nodes {
            DatabaseNodes::Sim(world) => AnyEndpoint::Sim(world.endpoint(limits)),
            DatabaseNodes::Shm(nodes) => AnyEndpoint::Shm(ShmEndpoint::new(nodes.clone(), limits)),
            DatabaseNodes::Attached(names) => {
                let nodes = names.iter().map(|name| shm::attach(name, RIGHTS));
                let nodes = nodes.collect::<farslot::fabric::Result<_>>()?;
                AnyEndpoint::Shm(ShmEndpoint::new(nodes, limits))
            }
            DatabaseNodes::Tcp(addresses) => {
                let options = ConnectOptions {
                    limits,
                    ..ConnectOptions::default()
                };
                AnyEndpoint::Tcp(TcpEndpoint::connect(addresses, &options)?)
            }
        }))
    }

    /// Runs the clients in simulated threads.
    fn simulate(
        &self,
        world: &World,
        workload: &dyn Workload,
        clients: &mut [WorkloadClient],
        plan: Plan,
    ) -> Result<Vec<RoundTotals>> {
        // A simulated thread owns what it works on; the workload is small.
        let workload = workload.shared();
        let mut simulation = Simulation::new(world.clone());
        let tasks: Vec<_> = clients
            .iter()
            .enumerate()
            .map(|(number, state)| {
                let thread = simulation.add_client(HostId(0), Limits::default());
                let (mut state, workload) = (state.clone(), Rc::clone(&workload));
                let manner = self.manner;
                simulation.spawn(thread, async move |endpoint| {
                    let endpoint = Rc::new(AnyEndpoint::Sim(endpoint));
                    let session = manner.session(&endpoint, &*workload, number as u64)?;
                    let share = session.work(&endpoint, &mut state, plan).await?;
                    Ok::<_, LabError>((share, state))
                })
            })
            .collect();
        if simulation.run() != RunEnd::Done {
            return Err(LabError::wrong(1, 1));
        }
        let mut shares = Vec::new();
        for (task, state) in tasks.iter().zip(clients) {
            let (share, after) = task.try_take().ok_or_else(|| LabError::wrong(1, 1))??;
            *state = after;
            shares.push(share);
        }
        Ok(shares)
    }

    fn server_cpu(&self) -> Result<Option<f64>> {
        if self.served.processes.is_empty() {
            return Ok(None);
        }
        let used = self.served.processes.iter();
        let used = used.map(|process| process::cpu_seconds(*process));
        Ok(Some(used.sum::<farslot_bench::Result<f64>>()?))
    }
}

/// A table that is being loaded.
enum LoadingTable {
    Chained(Chained<AnyEndpoint>),
    Ordered(OrderedMap<AnyEndpoint>),
}

impl LoadingTable {
    async fn put(&self, key: &[u8], value: &[u8]) -> std::result::Result<bool, RemoteError> {
        match self {
            Self::Chained(table) => table.put(key, value).await,
            Self::Ordered(map) => map.put(key, value).await,
        }
    }
}

/// Rows that are put at once.
const LOADED_TOGETHER: usize = 64;

impl TransactionSystem for FarslotDatabase {
    fn name(&self) -> &'static str {
        "farslot"
    }

    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").into()
    }

    fn load(&self, workload: &dyn Workload) -> Result<()> {
        let endpoint = self.endpoint()?;
        let executor = Executor::new(Rc::clone(&endpoint));
        let clients = self.manner.clients(&endpoint);
        let mut puts = Vec::new();
        for (object, table) in tables(workload, self.manner.nodes, self.manner.buckets)?.0 {
            for client in &clients {
                let (client, policy) = (Rc::clone(client), PolicyOptions::default());
                puts.push(match table {
                    Structure::Chained(table) => {
                        LoadingTable::Chained(Chained::new(table, object, client, 0, policy))
                    }
                    Structure::Ordered(tree) => {
                        LoadingTable::Ordered(OrderedMap::new(tree, object, client, 0, policy))
                    }
                });
            }
        }
        let flush = |rows: &mut Vec<InsertedRow>| {
            let mut end = Ok(());
            let jobs = rows.iter().map(async |row| {
                let node = row.part as usize % self.manner.nodes as usize;
                let table = &puts[row.table * self.manner.nodes as usize + node];
                table.put(&row.key, &row.value).await
            });
            executor.block_on(window(LOADED_TOGETHER, jobs, |_, put| {
                if let Err(error) = put {
                    end = Err(TxnError::from(error).into());
                }
            }));
            rows.clear();
            end
        };
        let mut rows = Vec::new();
        workload.load(&mut |row| {
            rows.push(row);
            if rows.len() == 4096 {
                flush(&mut rows)
            } else {
                Ok(())
            }
        })?;
        flush(&mut rows)
    }

    fn round(
        &self,
        workload: &dyn Workload,
        clients: &mut [WorkloadClient],
        plan: Plan,
    ) -> Result<TransactionRound> {
        if let DatabaseNodes::Sim(world) = &self.served.nodes {
            let shares = self.simulate(world, workload, clients, plan)?;
            return Ok(TransactionRound::of(workload, shares, None));
        }
        let start = Barrier::new(clients.len());
        let before = self.server_cpu()?;
        let connect = || self.endpoint();
        let shares = thread::scope(|scope| {
            let (start, connect) = (&start, &connect);
            let threads = clients.iter_mut().enumerate().map(|(number, state)| {
                scope.spawn(move || {
                    let endpoint = connect();
                    start.wait();
                    let endpoint = endpoint?;
                    let session = self.manner.session(&endpoint, workload, number as u64)?;
                    let executor = Executor::new(Rc::clone(&endpoint));
                    executor.block_on(session.work(&endpoint, state, plan))
                })
            });
            let threads: Vec<_> = threads.collect();
            let ends = threads.into_iter().map(|thread| thread.join());
            ends.map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect::<Result<Vec<_>>>()
        })?;
        let used = before.zip(self.server_cpu()?);
        let used = used.map(|(before, after)| after - before);
        Ok(TransactionRound::of(workload, shares, used))
    }

    fn total(&self, workload: &dyn Workload) -> Result<i64> {
        let endpoint = self.endpoint()?;
        let session = self.manner.session(&endpoint, workload, 0)?;
        let executor = Executor::new(endpoint);
        let mut total = 0;
        let accounts: Vec<i64> = (0..workload.size() as i64).collect();
        for some in accounts.chunks(64) {
            let keys: Vec<_> = some
                .iter()
                .map(|account| (*account as u32).to_le_bytes())
                .collect();
            let both = [smallbank::SAVINGS, smallbank::CHECKING];
            let wanted: Vec<_> = both
                .iter()
                .flat_map(|table| {
                    let keyed = some.iter().zip(&keys);
                    keyed.map(|(account, key)| (session.table(*table, *account), &key[..]))
                })
                .collect();
            let rows = executor.block_on(session.database.run(
                async |open: &mut Transaction<'_, AnyEndpoint>| open.read_many(&wanted).await,
            ))?;
            for row in rows {
                let bytes = row.and_then(|row| <[u8; 8]>::try_from(&*row).ok());
                total += i64::from_le_bytes(bytes.ok_or_else(|| LabError::wrong(1, 1))?);
            }
        }
        Ok(total)
    }
}
