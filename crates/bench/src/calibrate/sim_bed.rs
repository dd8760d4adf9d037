//! A simulated fabric: worlds of their own, in virtual time.

use super::bed::{FabricBed, Load, Saturate};
use super::probe::{Busy, Client, ScratchMemory, VerbProbe};
use crate::median::median;
use crate::{BenchError, Result};
use farslot::fabric::sim::{HostId, NicProfile, RunEnd, Simulation, World};
use farslot::fabric::{Executor, Limits, Nanos, RegionId, Rights};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// Bytes of each node. More would only cost time: a simulated READ takes as long wherever it reads.
const NODE_BYTES: u64 = 1 << 20;
/// Nodes that keep a machine of clients busy, and machines of clients that keep a node busy.
const MANY: u64 = 8;
const MOST_CLIENTS: usize = 64;
/// Verbs that one step counts, at least; fewer of long ones, whose bytes cost time.
const ENOUGH: usize = 16_384;
const ENOUGH_LONG: usize = 512;
const ENOUGH_BYTES: usize = 16 << 20;
/// The first step of virtual time.
const FIRST_STEP: Nanos = 50_000;
/// Two steps that differ by less have reached the steady state.
const STEADY: f64 = 0.005;
const MOST_STEPS: usize = 40;
/// Steps after which they get longer.
const RESTLESS: usize = 12;

pub(super) struct SimBed {
    profile: NicProfile,
    seed: u64,
}

impl SimBed {
    pub(super) const fn new(profile: NicProfile, seed: u64) -> Self {
        Self { profile, seed }
    }

    fn world(&self, nodes: u64) -> (World, ScratchMemory) {
        let world = World::new(self.seed, self.profile.clone());
        for _ in 0..nodes {
            world.add_node(&[(NODE_BYTES, Rights::ALL)]);
        }
        let scratch = ScratchMemory {
            region: RegionId(0),
            first: 0,
            bytes: NODE_BYTES,
            nodes: nodes as u16,
        };
        (world, scratch)
    }
}

impl FabricBed for SimBed {
    fn describe(&self) -> String {
        let name = &self.profile.name;
        format!("simulated NIC {name}, virtual time, seed {}", self.seed)
    }

    fn defaults(&self) -> (NicProfile, &'static str) {
        let profile = NicProfile {
            name: format!("calibrated-{}", self.profile.name),
            ..NicProfile::connectx5_edr()
        };
        (profile, "not measured: as cx5-edr has it")
    }

    fn tells_nics_apart(&self) -> bool {
        true
    }

    fn has_link(&self) -> bool {
        true
    }

    fn line_ns(&mut self) -> Result<Option<f64>> {
        Ok(None)
    }

    fn repetitions(&self) -> usize {
        1
    }

    fn most_clients(&self) -> usize {
        MOST_CLIENTS
    }

    fn idle_ns(&mut self, probe: VerbProbe) -> Result<f64> {
        let (world, scratch) = self.world(1);
        let endpoint = world.endpoint(Limits::default());
        let client = Client {
            endpoint: &*endpoint,
            scratch,
            probe,
            seed: self.seed,
        };
        let executor = Executor::new(Rc::clone(&endpoint));
        Ok(median(executor.block_on(client.one_by_one(16, 64))?))
    }

    fn rate(&mut self, load: &Load) -> Result<f64> {
        let (nodes, hosts) = match load.saturate {
            Saturate::Requester => (MANY, 1),
            Saturate::Responder => (1, MANY),
        };
        let (world, scratch) = self.world(nodes);
        let mut machines = vec![HostId(0)];
        machines.extend((1..hosts).map(|_| world.add_host()));
        let mut clients = BusyClients::new(world);
        for number in 0..load.clients {
            let host = machines[number % machines.len()];
            clients.start(
                host,
                scratch,
                load,
                self.seed.wrapping_add(number as u64 + 1),
            );
        }
        clients.steady_rate(load.probe)
    }
}

/// Clients that are kept busy in a simulation.
struct BusyClients {
    simulation: Simulation,
    clients: Vec<Busy>,
    failed: Rc<RefCell<Option<BenchError>>>,
    time: Nanos,
}

impl BusyClients {
    fn new(world: World) -> Self {
        Self {
            simulation: Simulation::new(world),
            clients: Vec::new(),
            failed: Rc::default(),
            time: 0,
        }
    }

    fn start(&mut self, host: HostId, scratch: ScratchMemory, load: &Load, seed: u64) {
        let busy = Busy::default();
        let (shared, failed) = (busy.clone(), Rc::clone(&self.failed));
        let Load { probe, width, .. } = *load;
        let id = self.simulation.add_client(host, Limits::default());
        self.simulation.spawn(id, async move |endpoint| {
            let client = Client {
                endpoint: &*endpoint,
                scratch,
                probe,
                seed,
            };
            if let Err(error) = client.keep_busy(width, &shared).await {
                *failed.borrow_mut() = Some(error);
            }
        });
        self.clients.push(busy);
    }

    /// Verbs/s, once as many complete in one step of time as in the one before.
    fn steady_rate(&mut self, probe: VerbProbe) -> Result<f64> {
        let enough = (ENOUGH_BYTES / probe.bytes()).clamp(ENOUGH_LONG, ENOUGH) as u64;
        let (mut step, mut before) = (FIRST_STEP, f64::NAN);
        for number in 0..MOST_STEPS {
            let completed = self.run_for(step)?;
            let rate = completed as f64 * 1e9 / step as f64;
            if completed < enough {
                step *= 2;
            } else if (rate / before - 1.0).abs() < STEADY {
                return Ok(f64::midpoint(rate, before));
            } else if number >= RESTLESS {
                // Batches that complete together weigh less in a longer step.
                step += step / 4;
            }
            before = rate;
        }
        Err(BenchError::EndedEarly {
            end: format!("{probe:?} has reached no steady rate"),
        })
    }

    /// Lets time pass; returns the verbs that completed in it.
    fn run_for(&mut self, span: Nanos) -> Result<u64> {
        let before = self.completed();
        self.time += span;
        let end = self.simulation.run_until(self.time);
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        match end {
            RunEnd::TimeLimit => Ok(self.completed() - before),
            end => Err(BenchError::EndedEarly {
                end: format!("{end:?}"),
            }),
        }
    }

    fn completed(&self) -> u64 {
        let completed = self.clients.iter().map(|busy| &busy.completed);
        completed.map(|count| count.load(Ordering::Relaxed)).sum()
    }
}
