//! The simulator, without faults.

use crate::TestFabric;
use farslot_fabric::sim::{HostId, NicProfile, RunEnd, SimEndpoint, Simulation, World};
use farslot_fabric::{Limits, Rights};
use std::rc::Rc;

/// A simulated node, and the world around it.
pub struct Sim(World);

impl TestFabric for Sim {
    type Endpoint = SimEndpoint;

    const NAME: &'static str = "sim";
    const SLOWNESS: u32 = 4;
    const PUNCTUAL: bool = true;

    fn start(regions: &[(u64, Rights)]) -> Self {
        let world = World::new(1, NicProfile::connectx5_edr());
        world.add_node(regions);
        Self(world)
    }

    fn connect(&self, limits: Limits) -> Rc<SimEndpoint> {
        self.0.endpoint(limits)
    }

    fn run_clients<T, C>(&self, clients: u32, limits: Limits, client: C) -> Vec<T>
    where
        T: Send + 'static,
        C: AsyncFn(u32, Rc<SimEndpoint>) -> T + Send + Sync + 'static,
    {
        let client = Rc::new(client);
        let mut simulation = Simulation::new(self.0.clone());
        let tasks: Vec<_> = (0..clients)
            .map(|number| {
                let thread = simulation.add_client(HostId(0), limits);
                let client = Rc::clone(&client);
                simulation.spawn(thread, async move |endpoint| client(number, endpoint).await)
            })
            .collect();
        assert_eq!(simulation.run(), RunEnd::Done, "a client waits for ever");
        let results = tasks.iter().map(|task| task.try_take());
        results
            .map(|result| result.expect("its run has ended"))
            .collect()
    }
}
