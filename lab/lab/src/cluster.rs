//! Machines in the simulator: what their threads do, and how fast.
//!
//! As paper 003 emulates 128 machines by 32 (section 6.1), few machines stand for many: each thread
//! has a connection to as many nodes as there are other machines, and each machine has several of
//! these nodes. So each NIC has the 2 m t connections of a cluster of m machines with t threads
//! (section 3.4).

use crate::{LabError, Result};
use farslot::fabric::counters::CounterSnapshot;
use farslot::fabric::sim::{
    ClientId, HostId, NicProfile, NodeConfig, RunEnd, SimEndpoint, Simulation, World,
};
use farslot::fabric::{Endpoint, Handler, Nanos, NodeId, Rights, window};
use hdrhistogram::Histogram;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Other machines that are simulated, at most.
const MOST_OTHERS: u32 = 8;

/// What the threads of a cluster do. It lives as long as the simulation.
pub(crate) trait Program: 'static {
    /// What a thread has.
    type Thread: 'static;

    /// Bytes of a node's memory.
    fn bytes(&self) -> u64;

    /// What answers a node's calls.
    ///
    /// # Errors
    /// What its tables say; so do all that follow.
    fn handler(&self) -> Result<Arc<dyn Handler>>;

    fn thread(&self, endpoint: &Rc<SimEndpoint>, seat: Seat) -> Result<Self::Thread>;

    /// Fills the memory of some nodes. Each node is filled by one thread, before all else.
    async fn load(&self, _: &Self::Thread, _: &[NodeId]) -> Result<()> {
        Ok(())
    }

    /// What each thread does before anything is measured.
    async fn warm(&self, _: &Self::Thread) -> Result<()> {
        Ok(())
    }

    /// One operation.
    async fn operation(&self, thread: &Self::Thread) -> Result<()>;

    /// Times that a thread's operations met another and were run again.
    fn conflicts(&self, _: &Self::Thread) -> u64 {
        0
    }
}

/// Where a thread is.
pub(crate) struct Seat {
    /// Those of other machines.
    pub(crate) others: Vec<NodeId>,
    /// What its chance derives from.
    pub(crate) seed: u64,
    /// When the machine's kernel is free again.
    pub(crate) kernel: Rc<Cell<Nanos>>,
}

/// A cluster, and how much of it is measured.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub(crate) profile: NicProfile,
    /// m: machines that a thread is connected to.
    pub(crate) machines: u32,
    /// t: threads of a machine.
    pub(crate) threads: u32,
    /// Operations that a thread has under way.
    pub(crate) width: usize,
    /// Bytes of a page: what is READ seldom crosses one.
    pub(crate) page_bytes: u64,
    /// Operations that are counted, of all machines together.
    pub(crate) operations: u32,
    /// Operations a microsecond of a machine, nearly: for how long to wait.
    pub(crate) expected: f64,
    pub(crate) seed: u64,
}

/// What was measured.
#[derive(Clone, Debug)]
pub(crate) struct ClusterMeasurement {
    /// Operations a microsecond of a machine.
    pub(crate) rate: f64,
    pub(crate) operations: u64,
    /// What all threads have posted meanwhile.
    pub(crate) posted: CounterSnapshot,
    /// ns of each.
    pub(crate) latency: Histogram<u64>,
    pub(crate) conflicts: u64,
}

impl ClusterMeasurement {
    /// A count of all, for each operation.
    pub(crate) fn each(&self, count: u64) -> f64 {
        count as f64 / self.operations.max(1) as f64
    }

    pub(crate) fn us(&self, quantile: f64) -> f64 {
        self.latency.value_at_quantile(quantile) as f64 / 1e3
    }
}

/// How many hosts stand for a cluster, and nodes of each.
pub(crate) fn hosts(machines: u32) -> (u32, u32) {
    let others = (1..=MOST_OTHERS.min(machines))
        .rev()
        .find(|others| machines.is_multiple_of(*others))
        .unwrap_or(1);
    (others + 1, machines / others)
}

/// What all threads of a simulation share.
struct ClusterState<P> {
    program: P,
    ended: Cell<u64>,
    latency: RefCell<Histogram<u64>>,
    failed: RefCell<Option<LabError>>,
}

impl<P: Program> ClusterState<P> {
    fn new(program: P) -> Rc<Self> {
        let latency = Histogram::new_with_bounds(1, 10_000_000_000, 3);
        Rc::new(Self {
            program,
            ended: Cell::new(0),
            latency: RefCell::new(latency.expect("these bounds are in order")),
            failed: RefCell::default(),
        })
    }

    async fn operation(&self, thread: &P::Thread, endpoint: &SimEndpoint) {
        let since = endpoint.now();
        let end = self.program.operation(thread).await;
        self.note(end);
        self.ended.set(self.ended.get() + 1);
        let took = endpoint.now() - since;
        self.latency.borrow_mut().saturating_record(took);
    }

    fn note(&self, end: Result<()>) {
        if let Err(error) = end {
            self.failed.borrow_mut().get_or_insert(error);
        }
    }

    fn check(&self) -> Result<()> {
        self.failed.borrow_mut().take().map_or(Ok(()), Err)
    }
}

/// Threads on machines, with their memory loaded.
struct LoadedCluster<P: Program> {
    simulation: Simulation,
    shared: Rc<ClusterState<P>>,
    threads: Vec<(ClientId, Rc<P::Thread>)>,
}

impl<P: Program> LoadedCluster<P> {
    /// Starts and loads a cluster of so many hosts, and nodes of each, with threads on the first
    /// `seats` of the hosts.
    fn start(
        cluster: &Cluster,
        (hosts, nodes): (u32, u32),
        program: P,
        seats: u32,
    ) -> Result<Self> {
        let world = World::new(cluster.seed, cluster.profile.clone());
        let own: Vec<HostId> = (0..hosts).map(|_| world.add_host()).collect();
        for host in &own {
            for _ in 0..nodes {
                let node = world.add_node_with(&NodeConfig {
                    host: Some(*host),
                    page_bytes: cluster.page_bytes,
                    owner_threads: (cluster.threads / nodes).max(1),
                    ..NodeConfig::new(&[(program.bytes(), Rights::ALL)])
                });
                // What answers knows its own node's sessions.
                let handler = program.handler()?;
                let serves = move || Arc::clone(&handler);
                world.node_handle(node).serve_calls(serves);
            }
        }
        let mut running = Self {
            simulation: Simulation::new(world),
            shared: ClusterState::new(program),
            threads: Vec::new(),
        };
        let of =
            |number: u32| (number * nodes..(number + 1) * nodes).map(|node| NodeId(node as u16));
        for (number, host) in (0..seats).zip(&own) {
            let kernel = Rc::new(Cell::new(0));
            let others = (0..hosts).filter(|other| *other != number).flat_map(of);
            let others: Vec<_> = others.collect();
            for thread in 0..cluster.threads {
                let stream = u64::from(number) << 32 | u64::from(thread);
                let seat = Seat {
                    others: others.clone(),
                    seed: cluster.seed.wrapping_mul(1 << 20).wrapping_add(stream),
                    kernel: Rc::clone(&kernel),
                };
                let client = running.simulation.add_client(*host, crate::patient());
                let endpoint = Rc::clone(running.simulation.endpoint(client));
                let thread = running.shared.program.thread(&endpoint, seat)?;
                running.threads.push((client, Rc::new(thread)));
            }
        }
        // The first thread of a machine loads the next machine.
        let loaders = (0..hosts)
            .filter(|host| seats > 1 || *host > 0)
            .map(|host| {
                let loader = (host + seats - 1) % seats * cluster.threads;
                (loader as usize, of(host).collect::<Vec<_>>())
            });
        for (loader, nodes) in loaders {
            running.spawn(loader, async move |shared, thread| {
                let end = shared.program.load(&thread, &nodes).await;
                shared.note(end);
            });
        }
        running.finish()?;
        for number in 0..running.threads.len() {
            running.spawn(number, async move |shared, thread| {
                let end = shared.program.warm(&thread).await;
                shared.note(end);
            });
        }
        running.finish()?;
        Ok(running)
    }

    fn spawn<F: Future<Output = ()> + 'static>(
        &mut self,
        number: usize,
        work: impl FnOnce(Rc<ClusterState<P>>, Rc<P::Thread>) -> F,
    ) {
        let (client, thread) = &self.threads[number];
        let work = work(Rc::clone(&self.shared), Rc::clone(thread));
        self.simulation.spawn(*client, |_| work);
    }

    /// Runs until all that was spawned has ended.
    fn finish(&mut self) -> Result<()> {
        match self.simulation.run() {
            RunEnd::Done => self.shared.check(),
            end => unreachable!("nothing can wait for ever, or for a time limit: {end:?}"),
        }
    }

    fn posted(&self) -> CounterSnapshot {
        let endpoints = self.threads.iter().map(|(client, _)| {
            let endpoint = self.simulation.endpoint(*client);
            endpoint.core().counters.snapshot()
        });
        endpoints
            .reduce(|all, own| all.plus(&own))
            .unwrap_or_default()
    }

    fn conflicts(&self) -> u64 {
        let threads = self.threads.iter();
        threads
            .map(|(_, thread)| self.shared.program.conflicts(thread))
            .sum()
    }

    /// Measures what `run` has the threads do on so many machines.
    fn measured(
        mut self,
        machines: u32,
        run: impl FnOnce(&mut Simulation) -> Result<()>,
    ) -> Result<ClusterMeasurement> {
        self.shared.check()?;
        let before = (self.shared.ended.get(), self.conflicts(), self.posted());
        self.shared.latency.borrow_mut().reset();
        let since = self.simulation.world().now();
        run(&mut self.simulation)?;
        self.shared.check()?;
        let operations = self.shared.ended.get() - before.0;
        let ns = self.simulation.world().now() - since;
        Ok(ClusterMeasurement {
            rate: operations as f64 / f64::from(machines) / ns as f64 * 1e3,
            operations,
            posted: self.posted().since(&before.2),
            latency: self.shared.latency.borrow().clone(),
            conflicts: self.conflicts() - before.1,
        })
    }
}

/// Measures a program on a cluster, whose machines are all busy.
pub(crate) fn measure(cluster: &Cluster, program: impl Program) -> Result<ClusterMeasurement> {
    let (hosts, nodes) = hosts(cluster.machines);
    let mut running = LoadedCluster::start(cluster, (hosts, nodes), program, hosts)?;
    let width = cluster.width;
    for number in 0..running.threads.len() {
        let endpoint = Rc::clone(running.simulation.endpoint(running.threads[number].0));
        running.spawn(number, async move |shared, thread| {
            let endless = std::iter::repeat_with(|| shared.operation(&thread, &endpoint));
            window(width, endless, |_, ()| {}).await;
        });
    }
    // What is under way must end several times, and fill the NICs' caches, before anything is
    // counted.
    let cache = &cluster.profile.cache;
    let cached = cache.capacity_bytes as f64 / f64::from(cache.queue_pair_bytes.max(1));
    let under_way = f64::from(cluster.threads) * width as f64;
    let first = (4.0 * under_way).max(3.0 * cached * f64::from(u32::from(overflows(cluster))));
    let ns = |operations: f64| (operations / cluster.expected * 1e3) as Nanos;
    let from = running.simulation.world().now() + ns(first) + 10_000;
    running.simulation.run_until(from);
    let until = from + ns(f64::from(cluster.operations) / f64::from(hosts)).max(1_000);
    running.measured(hosts, |simulation| {
        simulation.run_until(until);
        Ok(())
    })
}

/// Measures one operation at a time, of a thread of an idle cluster.
pub(crate) fn idle(
    profile: NicProfile,
    program: impl Program,
    seed: u64,
) -> Result<ClusterMeasurement> {
    /// Operations that the mean is of.
    const OPERATIONS: u32 = 100;
    let cluster = Cluster {
        profile,
        machines: 1,
        threads: 1,
        width: 1,
        page_bytes: 2 << 20,
        operations: OPERATIONS,
        expected: 1.0,
        seed,
    };
    let mut running = LoadedCluster::start(&cluster, (2, 1), program, 1)?;
    let endpoint = Rc::clone(running.simulation.endpoint(running.threads[0].0));
    running.spawn(0, async move |shared, thread| {
        for _ in 0..OPERATIONS {
            shared.operation(&thread, &endpoint).await;
        }
    });
    running.measured(1, |simulation| match simulation.run() {
        RunEnd::Done => Ok(()),
        end => unreachable!("nothing can wait for ever, or for a time limit: {end:?}"),
    })
}

/// Whether the NICs' caches are too small for all connections.
fn overflows(cluster: &Cluster) -> bool {
    let cache = &cluster.profile.cache;
    let pairs = u64::from(2 * cluster.machines * cluster.threads);
    pairs * u64::from(cache.queue_pair_bytes) > cache.capacity_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_hosts_stand_for_many_machines_with_all_their_connections() {
        for machines in 1..=128 {
            let (hosts, nodes) = hosts(machines);
            assert!((2..=9).contains(&hosts));
            assert_eq!((hosts - 1) * nodes, machines);
        }
    }
}
