//! Ranks in the simulator: the same exploration with faults that a seed decides.

use super::ring::{Exchange, OwnMemory, RingShape};
use super::table::{PartMemory, SharedTableMemory, TableShape};
use crate::error::ExploreError;
use farslot_fabric::sim::{FaultPlan, NicProfile, NodeConfig, Simulation, World};
use farslot_fabric::{AnyEndpoint, Limits, NodeId, Rights};
use std::future::Future;
use std::rc::Rc;

/// Runs what `part` makes of each rank's exchange, on machines of the simulator's with these
/// faults, where they share a table if it has a shape. Returns what each rank has returned, in
/// their order; none of a rank that never came to its end.
///
/// # Errors
/// As [`Exchange::new`].
pub fn simulate<F, T>(
    seed: u64,
    faults: FaultPlan,
    shape: RingShape,
    table: Option<TableShape>,
    part: impl Fn(Exchange) -> F,
) -> Result<Vec<Option<T>>, ExploreError>
where
    F: Future<Output = T> + 'static,
    T: 'static,
{
    let world = World::new(seed, NicProfile::connectx5_edr());
    let mut bytes = vec![shape.region_bytes()];
    if let Some(table) = table {
        bytes.extend(table.regions()?);
    }
    let regions: Vec<_> = bytes.into_iter().map(|len| (len, Rights::ALL)).collect();
    let nodes: Vec<NodeId> = (0..shape.ranks())
        .map(|_| {
            world.add_node_with(&NodeConfig {
                host: Some(world.add_host()),
                ..NodeConfig::new(&regions)
            })
        })
        .collect();
    let mut simulation = Simulation::new(world.clone());
    let clients: Vec<_> = nodes
        .iter()
        .map(|node| simulation.add_client(world.host_of(*node), Limits::default()))
        .collect();
    world.set_faults(faults);
    let mut ends = Vec::new();
    for (rank, (client, node)) in clients.into_iter().zip(&nodes).enumerate() {
        let endpoint = AnyEndpoint::Sim(Rc::clone(simulation.endpoint(client)));
        let memory = OwnMemory::Simulated(world.node_handle(*node));
        let mut exchange = Exchange::new(Rc::new(endpoint), rank, shape, memory)?;
        if let Some(table) = table {
            let parts = nodes.iter().enumerate().map(|(of, node)| match of == rank {
                true => PartMemory::Simulated(world.node_handle(*node)),
                false => PartMemory::Remote,
            });
            exchange = exchange.with_table(SharedTableMemory::new(table, parts.collect()));
        }
        ends.push(simulation.spawn(client, |_| part(exchange)));
    }
    simulation.run();
    Ok(ends
        .iter()
        .map(farslot_fabric::executor::Join::try_take)
        .collect())
}
