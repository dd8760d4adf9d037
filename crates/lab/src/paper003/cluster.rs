//! A cluster in the simulator: threads that do what a mix says, and how fast their machines are.
//!
//! As the paper emulates 128 machines by 32 (section 6.1), few machines stand for many: each thread
//! has a connection to as many nodes as there are other machines, and each machine has several of
//! these nodes. So each NIC has the 2 m t connections of a cluster of m machines with t threads
//! (section 3.4).

use super::mix::{Kind, Mix, Step};
use crate::Result;
use farslot::fabric::sim::{HostId, NicProfile, NodeConfig, SimEndpoint, Simulation, World};
use farslot::fabric::{
    Call, Endpoint, EndpointExt, FabricError, Handler, Limits, Nanos, NodeId, RegionId, RemoteAddr,
    Rights, window,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Operations that a thread has under way: more than enough to keep every NIC busy.
const WIDTH: usize = 16;
/// Other machines that are simulated, at most.
const MOST_OTHERS: u32 = 8;
/// Bytes that stand for a page: what is READ never crosses one. Memory is scaled down with its
/// pages.
const PAGE: u64 = 1024;

/// What is measured.
#[derive(Clone, Debug)]
pub(super) struct Cluster<'m> {
    pub(super) profile: NicProfile,
    /// m: machines that a thread is connected to.
    pub(super) machines: u32,
    /// t: threads of a machine.
    pub(super) threads: u32,
    /// Pages of a machine's memory.
    pub(super) pages: u64,
    pub(super) mix: &'m Mix,
    /// Operations that are counted, of all machines together.
    pub(super) operations: u32,
    /// Operations a microsecond of a machine, nearly: for how long to wait.
    pub(super) expected: f64,
    pub(super) seed: u64,
}

/// How many hosts stand for a cluster, and nodes of each.
fn hosts(machines: u32) -> (u32, u32) {
    let others = (1..=MOST_OTHERS.min(machines))
        .rev()
        .find(|others| machines.is_multiple_of(*others))
        .unwrap_or(1);
    (others + 1, machines / others)
}

/// What all threads of a simulation share.
#[derive(Default)]
struct Shared {
    ended: Cell<u64>,
    failed: RefCell<Option<FabricError>>,
}

/// Operations a microsecond of a machine.
pub(super) fn measure(cluster: &Cluster<'_>) -> Result<f64> {
    let (hosts, nodes) = hosts(cluster.machines);
    let world = World::new(cluster.seed, cluster.profile.clone());
    let region = (cluster.pages / u64::from(nodes)).max(1) * PAGE;
    let hosts: Vec<HostId> = (0..hosts).map(|_| world.add_host()).collect();
    for host in &hosts {
        for _ in 0..nodes {
            add_node(&world, *host, region, (cluster.threads / nodes).max(1));
        }
    }
    let shared = Rc::new(Shared::default());
    let mut simulation = Simulation::new(world);
    for (number, host) in (0..).zip(&hosts) {
        let kernel = Rc::new(Cell::new(0));
        let own = number * nodes..(number + 1) * nodes;
        let all = 0..nodes * hosts.len() as u32;
        let others: Vec<_> = all
            .filter(|node| !own.contains(node))
            .map(|node| NodeId(node as u16))
            .collect();
        for thread in 0..cluster.threads {
            let stream = u64::from(number) << 32 | u64::from(thread);
            let seed = cluster.seed.wrapping_mul(1 << 20).wrapping_add(stream);
            let worker = Rc::new(Worker {
                mix: cluster.mix.clone(),
                others: others.clone(),
                pages: region / PAGE,
                random: RefCell::new(ChaCha8Rng::seed_from_u64(seed)),
                kernel: Rc::clone(&kernel),
                shared: Rc::clone(&shared),
            });
            let client = simulation.add_client(*host, Limits::default());
            simulation.spawn(client, async move |endpoint| {
                let endless = std::iter::repeat_with(|| worker.operation(&endpoint));
                window(WIDTH, endless, |_, ()| {}).await;
            });
        }
    }
    // What is under way must end several times, and fill the NICs' caches, before anything is
    // counted.
    let threads = f64::from(cluster.threads);
    let profile = &cluster.profile.cache;
    let cached = profile.capacity_bytes as f64 / f64::from(profile.queue_pair_bytes.max(1));
    let first =
        (4.0 * threads * WIDTH as f64).max(3.0 * cached * f64::from(u32::from(overflows(cluster))));
    let machines = hosts.len() as f64;
    let ns = |operations: f64| (operations / cluster.expected * 1e3) as Nanos;
    let from = ns(first) + 10_000;
    let until = from + ns(f64::from(cluster.operations) / machines).max(1_000);
    simulation.run_until(from);
    let before = shared.ended.get();
    simulation.run_until(until);
    if let Some(error) = shared.failed.take() {
        return Err(error.into());
    }
    let ended = shared.ended.get() - before;
    Ok(ended as f64 / machines / (until - from) as f64 * 1e3)
}

/// Whether the NICs' caches are too small.
fn overflows(cluster: &Cluster<'_>) -> bool {
    let cache = &cluster.profile.cache;
    let pairs = u64::from(2 * cluster.machines * cluster.threads);
    pairs * u64::from(cache.queue_pair_bytes) + cluster.pages * u64::from(cache.translation_bytes)
        > cache.capacity_bytes
}

fn add_node(world: &World, host: HostId, region: u64, threads: u32) {
    let node = world.add_node_with(&NodeConfig {
        host: Some(host),
        page_bytes: PAGE,
        owner_threads: threads,
        ..NodeConfig::new(&[(region, Rights::ALL)])
    });
    world.node_handle(node).serve_calls(|| Arc::new(Answer));
}

/// Answers a call with as many bytes as the caller has room for.
struct Answer;

impl Handler for Answer {
    fn handle(&self, call: Call<'_>) -> usize {
        call.reply.len()
    }
}

/// A thread.
struct Worker {
    mix: Mix,
    others: Vec<NodeId>,
    pages: u64,
    random: RefCell<ChaCha8Rng>,
    /// When the machine's kernel is free again.
    kernel: Rc<Cell<Nanos>>,
    shared: Rc<Shared>,
}

impl Worker {
    async fn operation(&self, endpoint: &SimEndpoint) {
        match self.steps(endpoint, self.kind()).await {
            Ok(()) => self.shared.ended.set(self.shared.ended.get() + 1),
            Err(error) => {
                self.shared.failed.borrow_mut().get_or_insert(error);
            }
        }
    }

    fn kind(&self) -> &Kind {
        let mut at: f64 = self.random.borrow_mut().random();
        let chosen = self.mix.iter().find(|kind| {
            at -= kind.share;
            at < 0.0
        });
        // Shares may sum to a bit less than one.
        chosen.unwrap_or(&self.mix[self.mix.len() - 1])
    }

    async fn steps(
        &self,
        endpoint: &SimEndpoint,
        kind: &Kind,
    ) -> std::result::Result<(), FabricError> {
        for (step, times) in &kind.steps {
            let chance: f64 = self.random.borrow_mut().random();
            let times = *times as u64 + u64::from(chance < times.fract());
            for _ in 0..times {
                take(endpoint, *step, self.place(), &self.kernel).await?;
            }
        }
        Ok(())
    }

    fn place(&self) -> RemoteAddr {
        let mut random = self.random.borrow_mut();
        RemoteAddr {
            node: self.others[random.random_range(0..self.others.len())],
            region: RegionId(0),
            offset: random.random_range(0..self.pages) * PAGE,
        }
    }
}

/// Takes a step.
async fn take(
    endpoint: &SimEndpoint,
    step: Step,
    at: RemoteAddr,
    kernel: &Cell<Nanos>,
) -> std::result::Result<(), FabricError> {
    match step {
        Step::Read(bytes) => drop(endpoint.read(at, bytes).await?),
        Step::Call(bytes) => {
            let request = endpoint.core().buffers.take(bytes)?;
            drop(endpoint.call((at.node, at.region), request, bytes).await?);
        }
        Step::Kernel { locked_ns, path_ns } => {
            let now = endpoint.now();
            let locked = kernel.get().max(now) + locked_ns as Nanos;
            kernel.set(locked);
            let rest = (path_ns - locked_ns).max(0.0) as Nanos;
            endpoint.sleep(locked + rest - now).await;
        }
    }
    Ok(())
}

/// The latency of an operation of an idle cluster, in us.
pub(super) fn latency(profile: NicProfile, kind: &Kind, seed: u64) -> Result<f64> {
    /// Operations that the mean is of.
    const OPERATIONS: u32 = 100;
    let world = World::new(seed, profile);
    let [here, there] = [(); 2].map(|()| world.add_host());
    add_node(&world, there, 64 * PAGE, 1);
    let mut simulation = Simulation::new(world.clone());
    let client = simulation.add_client(here, Limits::default());
    let steps = kind.steps.clone();
    let task = simulation.spawn(client, async move |endpoint| {
        let kernel = Cell::new(0);
        for number in 0..u64::from(OPERATIONS) {
            let at = RemoteAddr {
                node: NodeId(0),
                region: RegionId(0),
                offset: number % 64 * PAGE,
            };
            for (step, _) in &steps {
                take(&endpoint, *step, at, &kernel).await?;
            }
        }
        Ok::<_, FabricError>(endpoint.now())
    });
    simulation.run();
    let ended = task
        .try_take()
        .unwrap_or_else(|| unreachable!("nothing in it can wait for ever"))?;
    Ok(ended as f64 / f64::from(OPERATIONS) / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper003::mix::{Demand, only};

    fn cluster(mix: &Mix) -> Cluster<'_> {
        Cluster {
            profile: NicProfile::connectx4_edr(),
            machines: 4,
            threads: 4,
            pages: 64,
            mix,
            operations: 20_000,
            expected: 20.0,
            seed: 1,
        }
    }

    #[test]
    fn few_hosts_stand_for_many_machines_with_all_their_connections() {
        for machines in 1..=128 {
            let (hosts, nodes) = hosts(machines);
            assert!((2..=9).contains(&hosts));
            assert_eq!((hosts - 1) * nodes, machines);
        }
    }

    #[test]
    fn the_simulator_is_as_fast_as_the_busiest_part_of_a_machine_allows() {
        for mix in [
            only(vec![(Step::Read(128), 1.0)]),
            only(vec![(Step::Read(1024), 1.25)]),
            only(vec![(Step::Call(128), 1.0)]),
            only(vec![(Step::Read(128), 1.0), (Step::Call(128), 0.3)]),
        ] {
            let cluster = Cluster {
                threads: 20,
                ..cluster(&mix)
            };
            let model = Demand::of(&cluster.profile, &mix).rate(20);
            let simulated = measure(&cluster).unwrap();
            assert!(
                (0.9..1.02).contains(&(simulated / model)),
                "{mix:?}: {simulated} {model}"
            );
        }
    }

    #[test]
    fn a_cache_that_is_too_small_costs_what_the_model_says() {
        let mix = only(vec![(Step::Read(128), 1.0)]);
        let mut small = Cluster {
            threads: 20,
            pages: 4,
            ..cluster(&mix)
        };
        small.profile.cache.capacity_bytes = 60 * u64::from(small.profile.cache.queue_pair_bytes);
        let demand = Demand::of(&small.profile, &mix);
        let cached = demand.with_cache(&small.profile, 2 * 4 * 20, 4).unwrap();
        let (model, simulated) = (cached.rate(20), measure(&small).unwrap());
        assert!((simulated / model - 1.0).abs() < 0.1, "{simulated} {model}");
        assert!(model < 0.5 * demand.rate(20));
    }

    #[test]
    fn a_kernel_serves_one_operation_of_a_machine_at_a_time() {
        let kernel = Step::Kernel {
            locked_ns: 500.0,
            path_ns: 4000.0,
        };
        let mix = only(vec![(kernel, 1.0), (Step::Read(128), 1.0)]);
        let through = Cluster {
            operations: 1_000,
            expected: 2.0,
            ..cluster(&mix)
        };
        let rate = measure(&through).unwrap();
        assert!((rate / 2.0 - 1.0).abs() < 0.02, "{rate}");
        let idle = latency(through.profile, &mix[0], 1).unwrap();
        assert!((idle - 5.8).abs() < 0.01, "{idle}");
    }
}
