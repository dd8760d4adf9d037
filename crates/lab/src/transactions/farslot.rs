//! The workloads on Farslot: tables and transactions of paper 003.

use super::round::{ClientState, Round, Share, thread_cpu};
use super::system::{Plan, System};
use super::workload::{Call, Outcome, Row, Workload, shapes};
use super::{smallbank, tatp};
use crate::{LabError, Result};
use farslot::fabric::shm::{self, RegionSpec, ShmEndpoint};
use farslot::fabric::sim::{HostId, NicProfile, RunEnd, Simulation, World};
use farslot::fabric::tcp::{Agent, AgentOptions, ConnectOptions, TcpEndpoint};
use farslot::fabric::{
    AnyEndpoint, Endpoint, Executor, Handler, Limits, NodeId, RegionId, Rights, window,
};
use farslot_bench::process;
use farslot_remote::chained::{Chained, Table};
use farslot_remote::{ObjectId, PolicyOptions};
use farslot_rpc::{Client, ClientOptions, Server, ServerOptions};
use farslot_txn::{Database, DatabaseOptions, Locking, OwnerOptions, TableId, Transaction, TxnError};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Barrier};
use std::thread;

/// Where the nodes are.
pub(crate) enum Nodes {
    /// In the simulator, in its virtual time.
    Sim(World),
    /// In the memory of this process, whose client threads execute the calls themselves.
    Shm(Vec<shm::Node>),
    /// At these addresses.
    Tcp(Vec<String>),
}

/// The nodes of a database, and what keeps them served.
pub(crate) struct Served {
    pub nodes: Nodes,
    /// The processes that serve them, where they are not this one.
    pub processes: Vec<u32>,
    /// Ends them when it is dropped.
    pub guard: Box<dyn Any>,
}

/// Most bytes of a request: a transaction's changes at one node.
const RIGHTS: Rights = Rights::READ.and(Rights::CALL);

/// Bytes of a node's region.
fn bytes(workload: &dyn Workload, nodes: u64) -> u64 {
    let shapes = shapes(workload, nodes);
    let end = shapes.last().map(|shape| shape.at + shape.bytes());
    end.unwrap_or(0).next_multiple_of(64)
}

fn tables(workload: &dyn Workload, nodes: u64) -> Result<Vec<(ObjectId, Table)>> {
    let numbered = shapes(workload, nodes).into_iter().enumerate();
    let tables = numbered.map(|(number, shape)| {
        let table = Table::new(shape).map_err(TxnError::from)?;
        Ok((ObjectId(number as u16), table))
    });
    tables.collect()
}

/// What answers calls to a node.
fn handler(workload: &dyn Workload, node: u64, nodes: u64) -> Result<Arc<dyn Handler>> {
    let tables = tables(workload, nodes)?;
    let mut server = Server::new(ServerOptions::default());
    let options = OwnerOptions {
        node: node as u8,
        ..OwnerOptions::default()
    };
    farslot_txn::serve(&mut server, &tables, options);
    Ok(Arc::new(server))
}

fn node(workload: &dyn Workload, number: u64, nodes: u64) -> Result<shm::Node> {
    let region = RegionSpec {
        len: bytes(workload, nodes),
        rights: RIGHTS,
    };
    let node = shm::Node::embedded(&[region])?;
    node.serve_calls(handler(workload, number, nodes)?);
    Ok(node)
}

/// Serves one of a workload's nodes over TCP, at any port of this host that is free.
pub(crate) fn serve_tcp(
    workload: &dyn Workload,
    number: u64,
    nodes: u64,
    threads: usize,
) -> Result<Agent> {
    let options = AgentOptions {
        threads,
        ..AgentOptions::default()
    };
    Ok(Agent::start(node(workload, number, nodes)?, &options)?)
}

/// The nodes in this process' memory.
pub(crate) fn in_memory(workload: &dyn Workload, nodes: u64) -> Result<Served> {
    let nodes = (0..nodes).map(|number| node(workload, number, nodes));
    Ok(Served {
        nodes: Nodes::Shm(nodes.collect::<Result<_>>()?),
        processes: Vec::new(),
        guard: Box::new(()),
    })
}

/// The nodes in the simulator.
pub(crate) fn simulated(workload: &dyn Workload, nodes: u64, seed: u64) -> Result<Served> {
    let world = World::new(seed, NicProfile::connectx5_edr());
    for number in 0..nodes {
        let node = world.add_node(&[(bytes(workload, nodes), RIGHTS)]);
        let handler = handler(workload, number, nodes)?;
        world.node_handle(node).serve_calls(move || Arc::clone(&handler));
    }
    Ok(Served {
        nodes: Nodes::Sim(world),
        processes: Vec::new(),
        guard: Box::new(()),
    })
}

/// A database of Farslot.
pub(super) struct Farslot {
    served: Served,
    nodes: u64,
    locking: Locking,
}

/// One client thread's database.
struct Session<'w> {
    database: Database<AnyEndpoint>,
    workload: &'w dyn Workload,
    nodes: u64,
}

impl Session<'_> {
    /// A workload's table where the rows of a part are.
    fn table(&self, table: usize, part: i64) -> TableId {
        let node = part.unsigned_abs() % self.nodes;
        TableId((table as u64 * self.nodes + node) as u16)
    }

    /// Runs a transaction; returns what it came to, and how often it met another.
    async fn run(&self, call: &Call) -> Result<(Outcome, u64)> {
        let tries = Cell::new(0);
        let is_tatp = self.workload.name() == "tatp";
        let body = async |open: &mut Transaction<'_, AnyEndpoint>| {
            tries.set(tries.get() + 1);
            if is_tatp {
                self.tatp(open, call).await
            } else {
                self.smallbank(open, call).await
            }
        };
        let outcome = self.database.run(body).await?;
        Ok((outcome, tries.get() - 1))
    }

    async fn tatp(
        &self,
        open: &mut Transaction<'_, AnyEndpoint>,
        call: &Call,
    ) -> std::result::Result<Outcome, TxnError> {
        use tatp::{ACCESS, FACILITY, FORWARDING, NUMBER, SUBSCRIBER};
        use tatp::{forwarding_key, subscriber_key, text_of, typed_key};
        let [number, a, b, c, d] = call.numbers;
        let of = |table| self.table(table, number);
        let by_number = async |open: &mut Transaction<'_, AnyEndpoint>| {
            let found = open.read(of(NUMBER), &text_of(number)).await?;
            let id = found.and_then(|key| <[u8; 4]>::try_from(&*key).ok());
            Ok::<_, TxnError>(id.map_or(0, |id| u32::from_le_bytes(id).into()))
        };
        match call.kind {
            tatp::GET_SUBSCRIBER_DATA => {
                let row = open.read(of(SUBSCRIBER), &subscriber_key(number)).await?;
                Ok(row.and_then(|row| tatp::number_of(row.get(..15)?)))
            }
            tatp::GET_NEW_DESTINATION => {
                let (kind, start, end) = (a, b, c);
                let facility = typed_key(number, kind);
                let keys = [0, 8, 16].map(|start| forwarding_key(number, kind, start));
                let mut wanted = vec![(of(FACILITY), &facility[..])];
                let forwardings = keys.iter().take(start as usize / 8 + 1);
                wanted.extend(forwardings.map(|key| (of(FORWARDING), &key[..])));
                let rows = open.read_many(&wanted).await?;
                let is_active = rows[0].as_ref().is_some_and(|row| row.first() == Some(&1));
                let found = rows[1..].iter().flatten();
                let mut found = found.filter(|row| is_active && i64::from(row[0]) > end);
                Ok(found.next().and_then(|row| tatp::number_of(&row[1..])))
            }
            tatp::GET_ACCESS_DATA => {
                let row = open.read(of(ACCESS), &typed_key(number, a)).await?;
                Ok(row.and_then(|row| row.first().map(|data1| (*data1).into())))
            }
            tatp::UPDATE_SUBSCRIBER_DATA => {
                let (bit, kind, data) = (a, b, c);
                let (own, facility) = (subscriber_key(number), typed_key(number, kind));
                let both = [(of(FACILITY), &facility[..]), (of(SUBSCRIBER), &own[..])];
                let rows = open.read_for_update(&both).await?;
                let [Some(mut row), Some(mut subscriber)] = <[_; 2]>::try_from(rows).unwrap_or_default()
                else {
                    return Ok(None);
                };
                row[2] = data as u8;
                subscriber[tatp::BITS_AT] = subscriber[tatp::BITS_AT] & !1 | bit as u8;
                open.write(of(FACILITY), &facility, &row).await?;
                open.write(of(SUBSCRIBER), &own, &subscriber).await?;
                Ok(Some(1))
            }
            tatp::UPDATE_LOCATION => {
                let key = subscriber_key(by_number(open).await?);
                let mut rows = open.read_for_update(&[(of(SUBSCRIBER), &key)]).await?;
                let Some(Some(mut row)) = rows.pop() else {
                    return Ok(None);
                };
                row[tatp::VLR_AT..].copy_from_slice(&(a as i32).to_le_bytes());
                open.write(of(SUBSCRIBER), &key, &row).await?;
                Ok(Some(1))
            }
            tatp::INSERT_CALL_FORWARDING => {
                let (kind, start, end, forward) = (a, b, c, d);
                let id = by_number(open).await?;
                let keys = [1, 2, 3, 4].map(|kind| typed_key(id, kind));
                let facilities = keys.each_ref().map(|key| (of(FACILITY), &key[..]));
                let rows = open.read_many(&facilities).await?;
                if rows[kind as usize - 1].is_none() {
                    return Ok(None);
                }
                let row = [&[end as u8][..], &text_of(forward)].concat();
                let key = forwarding_key(id, kind, start);
                let is_new = open.insert(of(FORWARDING), &key, &row).await?;
                Ok(is_new.then_some(1))
            }
            _ => {
                let key = forwarding_key(by_number(open).await?, a, b);
                let was_there = open.remove(of(FORWARDING), &key).await?;
                Ok(was_there.then_some(1))
            }
        }
    }

    async fn smallbank(
        &self,
        open: &mut Transaction<'_, AnyEndpoint>,
        call: &Call,
    ) -> std::result::Result<Outcome, TxnError> {
        use smallbank::{CHECKING, PENALTY, SAVINGS};
        let [one, b, c, ..] = call.numbers;
        let own = (one as u32).to_le_bytes();
        let (savings, checking) = (self.table(SAVINGS, one), self.table(CHECKING, one));
        let other = (b as u32).to_le_bytes();
        let to = self.table(CHECKING, b);
        let cents = |row: &Option<Vec<u8>>| {
            let bytes = row.as_ref().and_then(|row| <[u8; 8]>::try_from(&**row).ok());
            bytes.map_or(0, i64::from_le_bytes)
        };
        match call.kind {
            smallbank::AMALGAMATE => {
                let keys = [(savings, &own[..]), (checking, &own), (to, &other)];
                let rows = open.read_for_update(&keys).await?;
                let all = rows.iter().map(cents).sum::<i64>();
                open.write(savings, &own, &0i64.to_le_bytes()).await?;
                open.write(checking, &own, &0i64.to_le_bytes()).await?;
                open.write(to, &other, &all.to_le_bytes()).await?;
                Ok(Some(0))
            }
            smallbank::BALANCE => {
                let rows = open.read_many(&[(savings, &own), (checking, &own)]).await?;
                Ok(Some(rows.iter().map(cents).sum()))
            }
            smallbank::DEPOSIT_CHECKING => {
                let rows = open.read_for_update(&[(checking, &own)]).await?;
                let new = cents(&rows[0]) + b;
                open.write(checking, &own, &new.to_le_bytes()).await?;
                Ok(Some(0))
            }
            smallbank::SEND_PAYMENT => {
                let keys = [(checking, &own[..]), (to, &other)];
                let rows = open.read_for_update(&keys).await?;
                let (from, into) = (cents(&rows[0]) - c, cents(&rows[1]) + c);
                if from < 0 {
                    return Ok(None);
                }
                open.write(checking, &own, &from.to_le_bytes()).await?;
                open.write(to, &other, &into.to_le_bytes()).await?;
                Ok(Some(0))
            }
            smallbank::TRANSACT_SAVINGS => {
                let rows = open.read_for_update(&[(savings, &own)]).await?;
                let new = cents(&rows[0]) + b;
                if new < 0 {
                    return Ok(None);
                }
                open.write(savings, &own, &new.to_le_bytes()).await?;
                Ok(Some(0))
            }
            _ => {
                let rows = open.read_for_update(&[(checking, &own)]).await?;
                let saved = open.read(savings, &own).await?;
                let has = cents(&rows[0]);
                let taken = if has + cents(&saved) < b { b + PENALTY } else { b };
                open.write(checking, &own, &(has - taken).to_le_bytes()).await?;
                Ok(Some(taken))
            }
        }
    }

    /// Runs transactions until the time is over, so many at once.
    async fn work(
        &self,
        endpoint: &AnyEndpoint,
        state: &mut ClientState,
        plan: Plan,
    ) -> Result<Share> {
        let state = RefCell::new(state);
        let share = RefCell::new(Share::new(self.workload));
        let (cpu, since) = (thread_cpu(), endpoint.now());
        let until = since + plan.time.as_nanos() as u64;
        let mut first_error = Ok(());
        let workers = (0..plan.width).map(async |_| -> Result<()> {
            while endpoint.now() < until {
                let call = self.workload.draw(&mut state.borrow_mut().random);
                let before = endpoint.now();
                let (outcome, conflicts) = self.run(&call).await?;
                let mut share = share.borrow_mut();
                share.conflicts += conflicts;
                share.note(self.workload, &call, outcome, endpoint.now() - before);
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
        share.time = endpoint.now() - since;
        share.cpu = thread_cpu().saturating_sub(cpu);
        Ok(share)
    }
}

impl Farslot {
    pub(super) fn new(served: Served, nodes: u64, locking: Locking) -> Self {
        Self {
            served,
            nodes,
            locking,
        }
    }

    fn endpoint(&self) -> Result<Rc<AnyEndpoint>> {
        let limits = Limits {
            verb_timeout: 20_000_000_000,
            ..Limits::default()
        };
        Ok(Rc::new(match &self.served.nodes {
            Nodes::Sim(world) => AnyEndpoint::Sim(world.endpoint(limits)),
            Nodes::Shm(nodes) => AnyEndpoint::Shm(ShmEndpoint::new(nodes.clone(), limits)),
            Nodes::Tcp(addresses) => {
                let options = ConnectOptions {
                    limits,
                    ..ConnectOptions::default()
                };
                AnyEndpoint::Tcp(TcpEndpoint::connect(addresses, &options)?)
            }
        }))
    }

    fn clients(&self, endpoint: &Rc<AnyEndpoint>) -> Vec<Rc<Client<AnyEndpoint>>> {
        let nodes = 0..self.nodes as u16;
        let clients = nodes.map(|node| {
            let to = (NodeId(node), RegionId(0));
            Rc::new(Client::new(Rc::clone(endpoint), to, ClientOptions::default()))
        });
        clients.collect()
    }

    fn session<'w>(
        &self,
        endpoint: &Rc<AnyEndpoint>,
        workload: &'w dyn Workload,
        seed: u64,
    ) -> Result<Session<'w>> {
        let options = DatabaseOptions {
            locking: self.locking,
            seed,
            ..DatabaseOptions::default()
        };
        let mut database = Database::new(self.clients(endpoint), options)?;
        for (object, table) in tables(workload, self.nodes)? {
            for node in 0..self.nodes {
                database.add_table(node as u8, object, table)?;
            }
        }
        Ok(Session {
            database,
            workload,
            nodes: self.nodes,
        })
    }

    /// Runs the clients in simulated threads.
    fn simulate(
        &self,
        world: &World,
        workload: &dyn Workload,
        clients: &mut [ClientState],
        plan: Plan,
    ) -> Result<Vec<Share>> {
        // A simulated thread owns what it works on; the workload is small.
        let workload = super::of_name(workload);
        let mut simulation = Simulation::new(world.clone());
        let tasks: Vec<_> = clients
            .iter()
            .enumerate()
            .map(|(number, state)| {
                let thread = simulation.add_client(HostId(0), Limits::default());
                let (mut state, workload) = (state.clone(), Rc::clone(&workload));
                let (nodes, locking) = (self.nodes, self.locking);
                simulation.spawn(thread, async move |endpoint| {
                    let endpoint = Rc::new(AnyEndpoint::Sim(endpoint));
                    let system = Self {
                        served: Served {
                            nodes: Nodes::Tcp(Vec::new()),
                            processes: Vec::new(),
                            guard: Box::new(()),
                        },
                        nodes,
                        locking,
                    };
                    let session = system.session(&endpoint, &**workload, number as u64)?;
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

/// Rows that are put at once.
const LOADED_TOGETHER: usize = 64;

impl System for Farslot {
    fn name(&self) -> &'static str {
        "farslot"
    }

    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").into()
    }

    fn load(&self, workload: &dyn Workload) -> Result<()> {
        let endpoint = self.endpoint()?;
        let executor = Executor::new(Rc::clone(&endpoint));
        let clients = self.clients(&endpoint);
        let mut puts = Vec::new();
        for (object, table) in tables(workload, self.nodes)? {
            for client in &clients {
                let client = Rc::clone(client);
                puts.push(Chained::new(table, object, client, 0, PolicyOptions::default()));
            }
        }
        let flush = |rows: &mut Vec<Row>| {
            let mut end = Ok(());
            let jobs = rows.iter().map(async |row| {
                let node = row.part as usize % self.nodes as usize;
                let table = &puts[row.table * self.nodes as usize + node];
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
            if rows.len() == 4096 { flush(&mut rows) } else { Ok(()) }
        })?;
        flush(&mut rows)
    }

    fn round(
        &self,
        workload: &dyn Workload,
        clients: &mut [ClientState],
        plan: Plan,
    ) -> Result<Round> {
        if let Nodes::Sim(world) = &self.served.nodes {
            let shares = self.simulate(world, workload, clients, plan)?;
            return Ok(Round::of(workload, shares, None));
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
                    let session = self.session(&endpoint, workload, number as u64)?;
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
        Ok(Round::of(workload, shares, used))
    }

    fn total(&self, workload: &dyn Workload) -> Result<i64> {
        let endpoint = self.endpoint()?;
        let session = self.session(&endpoint, workload, 0)?;
        let executor = Executor::new(endpoint);
        let mut total = 0;
        let accounts: Vec<i64> = (0..workload.size() as i64).collect();
        for some in accounts.chunks(64) {
            let keys: Vec<_> = some.iter().map(|account| (*account as u32).to_le_bytes()).collect();
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
