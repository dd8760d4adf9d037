//! A node of this process that is served over a fabric, and the way to it.

use crate::{AnyEndpoint, Fabric, NODE_START, PATIENCE};
use farslot_fabric::shm::{self, RegionSpec, ShmEndpoint};
use farslot_fabric::sim::{HostId, NicProfile, RunEnd, Simulation, World};
use farslot_fabric::tcp::{self, AgentOptions, ConnectOptions, TcpEndpoint};
use farslot_fabric::verbs::{self, VerbsAgentOptions, VerbsEndpoint, VerbsOptions};
use farslot_fabric::{EventLoop, Executor, Handler, Limits, Rights};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Tests run side by side on few cores: who spins for long keeps another from its turn.
const SPIN: Duration = Duration::from_micros(10);

/// A node that is served over a fabric for as long as this is held.
pub struct TestNode(FabricNode);

enum FabricNode {
    /// And the world around it.
    Sim(World),
    Shm(shm::Node),
    Tcp(tcp::Agent),
    /// Its memory is registered with the first device of this machine.
    Verbs(verbs::Agent),
}

impl Fabric {
    /// Serves a node with regions of these lengths in bytes, and these rights.
    ///
    /// # Panics
    /// If the machine has no such fabric, or no room.
    #[must_use]
    pub fn start(self, regions: &[(u64, Rights)]) -> TestNode {
        TestNode::start(self, regions)
    }
}

impl TestNode {
    pub(crate) fn start(fabric: Fabric, regions: &[(u64, Rights)]) -> Self {
        Self(match fabric {
            Fabric::Sim => {
                let world = World::new(1, NicProfile::connectx5_edr());
                world.add_node(regions);
                FabricNode::Sim(world)
            }
            Fabric::Shm => FabricNode::Shm(embedded(regions)),
            Fabric::Tcp => {
                let options = AgentOptions {
                    spin: SPIN,
                    ..AgentOptions::default()
                };
                let agent = tcp::Agent::start(embedded(regions), &options);
                FabricNode::Tcp(agent.expect("an agent on loopback"))
            }
            Fabric::Verbs => {
                let options = VerbsAgentOptions::default();
                let agent = verbs::Agent::start(embedded(regions), &options);
                FabricNode::Verbs(agent.expect("a verbs device"))
            }
        })
    }

    /// Has calls to the node answered by what `make` makes, once or, in the simulator, at each of
    /// its starts.
    pub fn serve_calls(&self, make: impl Fn() -> Arc<dyn Handler> + Send + 'static) {
        match &self.0 {
            FabricNode::Sim(world) => world.node_handle(NODE_START.node).serve_calls(make),
            FabricNode::Shm(node) => node.serve_calls(make()),
            FabricNode::Tcp(agent) => agent.node().serve_calls(make()),
            FabricNode::Verbs(agent) => agent.node().serve_calls(make()),
        }
    }

    /// The owner's event loop, for a thread of the test: in its hands no other answers calls.
    /// Nothing where no thread of the fabric does so in any case: calls within a process are
    /// answered by who makes them, those of the simulator by who drives its clock.
    ///
    /// # Panics
    /// If the test has it already.
    #[must_use]
    pub fn event_loop(&self) -> Option<EventLoop<'_>> {
        let taken = match &self.0 {
            FabricNode::Sim(_) | FabricNode::Shm(_) => return None,
            FabricNode::Tcp(agent) => agent.event_loop(),
            FabricNode::Verbs(agent) => agent.event_loop().expect("a thread for calls"),
        };
        assert!(taken.is_some(), "the test has the event loop already");
        taken
    }

    /// A new endpoint, connected to the node. It may be made, and then used, on any thread.
    ///
    /// # Panics
    /// If there is no connection.
    #[must_use]
    pub fn connect(&self, limits: Limits) -> Rc<AnyEndpoint> {
        let connect_timeout = Duration::from_nanos(PATIENCE);
        Rc::new(match &self.0 {
            FabricNode::Sim(world) => AnyEndpoint::Sim(world.endpoint(limits)),
            FabricNode::Shm(node) => AnyEndpoint::Shm(ShmEndpoint::new(vec![node.clone()], limits)),
            FabricNode::Tcp(agent) => {
                let options = ConnectOptions {
                    spin: SPIN,
                    connect_timeout,
                    limits,
                    ..ConnectOptions::default()
                };
                let endpoint = TcpEndpoint::connect(&[agent.address().to_string()], &options);
                AnyEndpoint::Tcp(endpoint.expect("the agent of this process"))
            }
            FabricNode::Verbs(agent) => {
                let options = VerbsOptions::from(ConnectOptions {
                    connect_timeout,
                    limits,
                    ..ConnectOptions::default()
                });
                let endpoint = VerbsEndpoint::connect(&[agent.address().to_string()], &options);
                AnyEndpoint::Verbs(endpoint.expect("the agent of this process"))
            }
        })
    }

    /// Runs so many clients side by side and returns what they return: threads, each with an
    /// endpoint of its own, that start together; in the simulator simulated ones.
    ///
    /// # Panics
    /// If a client does.
    pub fn run_clients<T, C>(&self, clients: u32, limits: Limits, client: C) -> Vec<T>
    where
        T: Send + 'static,
        C: AsyncFn(u32, Rc<AnyEndpoint>) -> T + Send + Sync + 'static,
    {
        match &self.0 {
            FabricNode::Sim(world) => simulate(world, clients, limits, client),
            _ => self.run_threads(clients, limits, &client),
        }
    }

    fn run_threads<T, C>(&self, clients: u32, limits: Limits, client: &C) -> Vec<T>
    where
        T: Send + 'static,
        C: AsyncFn(u32, Rc<AnyEndpoint>) -> T + Send + Sync + 'static,
    {
        let ready = AtomicU32::new(0);
        let thread = |number| {
            let arrival = Arrival(&ready);
            let endpoint = self.connect(limits);
            let executor = Executor::new(Rc::clone(&endpoint));
            drop(arrival);
            // A barrier that sleeps would wake one thread after the other has ended.
            while ready.load(Ordering::Acquire) < clients {
                std::thread::yield_now();
            }
            executor.block_on(client(number, endpoint))
        };
        std::thread::scope(|scope| {
            let thread = &thread;
            let threads: Vec<_> = (0..clients)
                .map(|number| scope.spawn(move || thread(number)))
                .collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined
                .map(|joined| joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        })
    }
}

/// An embedded node with these regions.
fn embedded(regions: &[(u64, Rights)]) -> shm::Node {
    let regions: Vec<_> = regions
        .iter()
        .map(|&(len, rights)| RegionSpec { len, rights })
        .collect();
    shm::Node::embedded(&regions).expect("memory for a test")
}

/// Runs simulated clients.
fn simulate<T, C>(world: &World, clients: u32, limits: Limits, client: C) -> Vec<T>
where
    T: 'static,
    C: AsyncFn(u32, Rc<AnyEndpoint>) -> T + 'static,
{
    let client = Rc::new(client);
    let mut simulation = Simulation::new(world.clone());
    let tasks: Vec<_> = (0..clients)
        .map(|number| {
            let thread = simulation.add_client(HostId(0), limits);
            let client = Rc::clone(&client);
            simulation.spawn(thread, async move |endpoint| {
                client(number, Rc::new(AnyEndpoint::Sim(endpoint))).await
            })
        })
        .collect();
    assert_eq!(simulation.run(), RunEnd::Done, "a client waits for ever");
    let results = tasks.iter().map(|task| task.try_take());
    results
        .map(|result| result.expect("its run has ended"))
        .collect()
}

/// A thread that is on its way to the start. It counts as arrived even if it panics: else the
/// others would wait for it for ever.
struct Arrival<'a>(&'a AtomicU32);

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}
