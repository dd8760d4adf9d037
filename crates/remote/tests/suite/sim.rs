//! A served structure in a simulated world, and faults.

use farslot_fabric::sim::{
    ClientId, ClientStop, FaultPlan, FaultTime, NicProfile, Partition, Side, SimEndpoint, World,
};
use farslot_fabric::{Limits, NodeId, RegionId, Rights};
use farslot_remote::{ObjectId, RemoteStructure, serve};
use farslot_rpc::{Client, ClientOptions, RpcServerOptions, Server};
use std::rc::Rc;
use std::sync::Arc;

pub const NODE: (NodeId, RegionId) = (NodeId(0), RegionId(0));
pub const OBJECT: ObjectId = ObjectId(0);

/// A world whose node 0 serves the structure.
pub fn world<S: RemoteStructure + Clone>(seed: u64, structure: &S, bytes: u64) -> World {
    let world = World::new(seed, NicProfile::connectx5_edr());
    serve_in(world, structure, bytes)
}

/// Serves the structure by a new node of a world.
pub fn serve_in<S: RemoteStructure + Clone>(world: World, structure: &S, bytes: u64) -> World {
    let node = world.add_node(&[(bytes, Rights::READ.and(Rights::CALL))]);
    let structure = structure.clone();
    world.node_handle(node).serve_calls(move || {
        let mut server = Server::new(RpcServerOptions::default());
        serve(&mut server, vec![structure.clone()], Arc::default());
        Arc::new(server)
    });
    world
}

pub fn limits() -> Limits {
    Limits {
        verb_timeout: 100_000,
        ..Limits::default()
    }
}

pub fn client(endpoint: &Rc<SimEndpoint>) -> Rc<Client<SimEndpoint>> {
    let options = ClientOptions {
        patience: 1_000_000,
        first_pause: 1000,
    };
    Rc::new(Client::new(Rc::clone(endpoint), NODE, options))
}

/// Torn and late words, lost verbs, and a client that stops.
pub fn faults(seed: u64) -> FaultPlan {
    let mut plan = FaultPlan::chaos(seed, 1.0);
    for round in 0..3 {
        let from = 10_000 + 100_000 * round;
        plan.partitions.push(Partition {
            side: Side::Client(ClientId((seed + round) as u32 % 4)),
            node: NODE.0,
            from,
            until: from + 30_000,
        });
    }
    if seed % 3 == 1 {
        plan.client_stops.push(ClientStop {
            client: ClientId(1),
            when: FaultTime::AfterVerbs(10 + seed % 40),
        });
    }
    plan
}
