//! The world of a history: nodes, tables, faults.

use super::procedures::procedures;
use crate::books::Owner;
use crate::broken::{BrokenProtocol, ProtocolBreach};
use crate::owner::serve_owner;
use crate::{Database, DatabaseOptions, Locking, OwnerOptions};
use farslot_fabric::sim::{
    Chance, ClientId, ClientStop, FaultPlan, FaultTime, NicProfile, NodePause, NodeStop, Partition,
    Side, SimEndpoint, World,
};
use farslot_fabric::{Limits, Nanos, NodeId, RegionId, Rights};
use farslot_remote::chained::{Chained, Shape, Table};
use farslot_remote::ordered::{Tree, TreeShape};
use farslot_remote::{ObjectId, PolicyOptions};
use farslot_rpc::{Client, ClientOptions, RpcServerOptions, Server};
use std::rc::Rc;
use std::sync::Arc;

/// A table's number, and a key's.
pub(super) type Key = (u16, u8);

pub(super) const NODES: u16 = 3;
pub(super) const KEYS: u8 = 3;
pub(super) const COROUTINES: u8 = 8;
pub(super) const LEASE: Nanos = 300_000;
/// How late a call is at most, and how long a node is suspended.
const LATE: Nanos = 3 * LEASE;
/// The longest verb timeout: of links on which a call may take longer than a lease.
const LONGEST_TIMEOUT: Nanos = 10 * LEASE;
/// After which time no call is under way any more, and no lease lasts, of what has ended.
pub(super) const QUIET: Nanos = LONGEST_TIMEOUT + LATE + 2 * LEASE;
pub(super) const OBJECT: ObjectId = ObjectId(2);
pub(super) const MAP: ObjectId = ObjectId(3);
/// Keys of a map: those of a node fill a few leaves.
pub(super) const MAP_KEYS: u8 = 8;
pub(super) const SHAPE: Shape = Shape {
    at: 64,
    key_bytes: 8,
    value_bytes: 640,
    slots: 2,
    buckets: 1,
    most_buckets: 4,
    overflow: 32,
    split_after: 5,
    seed: 7,
};

pub(super) fn tree() -> TreeShape {
    TreeShape {
        at: SHAPE.at + SHAPE.bytes(),
        key_bytes: 8,
        value_bytes: 640,
        leaf_pairs: 2,
        children: 4,
        nodes: 200,
    }
}

/// How a run differs from the protocol as it is.
#[derive(Clone, Copy)]
pub(super) struct Wrong {
    pub(super) breach: Option<ProtocolBreach>,
    /// Each coroutine appends to keys of its own, so that no list loses a value.
    pub(super) own_keys: bool,
    /// Some keys are in maps, and are scanned.
    pub(super) scans: bool,
    /// Calls are later than a lease: on slow links, or at nodes that are suspended, and behind
    /// timeouts.
    pub(super) late: bool,
}

impl Wrong {
    pub(super) const NONE: Self = Self {
        breach: None,
        own_keys: false,
        scans: false,
        late: false,
    };

    /// Whether calls of a run may take longer than a lease, and are answered.
    const fn is_slow(self, seed: u64) -> bool {
        self.late && seed.is_multiple_of(2)
    }
}

pub(super) fn world(seed: u64, wrong: Wrong) -> World {
    let world = World::new(seed, NicProfile::connectx5_edr());
    let table = Table::new(SHAPE).unwrap();
    let map = Tree::new(tree()).unwrap();
    for _ in 0..NODES {
        let bytes = map.shape().at + map.shape().bytes();
        let node = world.add_node(&[(bytes, Rights::READ.and(Rights::CALL))]);
        world.node_handle(node).serve_calls(move || {
            let options = OwnerOptions {
                lease: LEASE,
                // Few in some runs, so that names are given up with others.
                decision_bytes: 1 << 20,
                decisions: if wrong.late && seed % 3 == 1 {
                    4
                } else {
                    1 << 16
                },
            };
            let mut owner = Owner::new(
                Arc::new(vec![(OBJECT, table.into()), (MAP, map.into())]),
                options,
            );
            owner.breach = wrong.breach.filter(|breach| breach.is_of_owners());
            let mut server = Server::new(RpcServerOptions::default());
            serve_owner(&mut server, owner, procedures());
            Arc::new(server)
        });
    }
    world
}

pub(super) fn limits(seed: u64, wrong: Wrong) -> Limits {
    Limits {
        verb_timeout: if wrong.is_slow(seed) {
            LONGEST_TIMEOUT
        } else {
            100_000
        },
        ..Limits::default()
    }
}

pub(super) fn database(
    endpoint: &Rc<SimEndpoint>,
    seed: u64,
    locking: Locking,
    wrong: Wrong,
) -> Database<SimEndpoint> {
    let options = ClientOptions {
        // Some ask once, so that what comes late is the one request that there is.
        patience: if wrong.late && seed.is_multiple_of(3) {
            0
        } else {
            1_000_000
        },
        first_pause: 1000,
    };
    let nodes: Vec<_> = (0..NODES)
        .map(|node| (NodeId(node), RegionId(0)))
        .map(|to| Rc::new(Client::new(Rc::clone(endpoint), to, options)))
        .collect();
    let table = Table::new(SHAPE).unwrap();
    let plain = nodes.iter().map(|client| {
        let client = Rc::clone(client);
        Chained::new(table, OBJECT, client, 4, PolicyOptions::default())
    });
    let breach = wrong.breach.filter(|breach| !breach.is_of_owners());
    let broken = breach.map(|breach| BrokenProtocol {
        breach,
        tables: plain.collect(),
    });
    let options = DatabaseOptions {
        locking,
        seed,
        places: 4 * (seed % 2) as usize,
        // Of procedures; the lock of a home that stopped is there to stay.
        attempts: 4,
        ..DatabaseOptions::default()
    };
    let mut database = Database::new(nodes, options).unwrap();
    for node in 0..NODES {
        database.add_table(node as u8, OBJECT, table).unwrap();
    }
    for node in 0..NODES {
        let map = Tree::new(tree()).unwrap();
        database.add_table(node as u8, MAP, map).unwrap();
    }
    database.broken = broken;
    database
}

/// Torn and late words, lost verbs, clients and nodes that stop.
pub(super) fn faults(seed: u64, wrong: Wrong) -> FaultPlan {
    let mut plan = FaultPlan::chaos(seed, 1.0);
    for round in 0..3 {
        let from = 10_000 + 150_000 * round;
        plan.partitions.push(Partition {
            side: Side::Client(ClientId((seed + round) as u32 % 4)),
            node: NodeId(((seed / 4 + round) % 3) as u16),
            from,
            until: from + 30_000,
        });
    }
    if wrong.is_slow(seed) {
        plan.latency = Chance {
            probability: 0.1,
            up_to_ns: LATE,
        };
    }
    if wrong.late && !wrong.is_slow(seed) {
        plan.late_calls = Chance {
            probability: 0.02,
            up_to_ns: LATE,
        };
        plan.node_pauses.extend((0..4).map(|round| {
            let from = LEASE * (1 + 4 * round + seed % 3);
            NodePause {
                node: NodeId(((seed / 4 + round) % u64::from(NODES)) as u16),
                from,
                until: from + LATE * (1 + (seed / 12 + round) % 4) / 4,
            }
        }));
    }
    for (client, of) in [(1, 2), (2, 3)] {
        if seed % of == 1 {
            plan.client_stops.push(ClientStop {
                client: ClientId(client),
                when: FaultTime::AfterVerbs(5 + seed / of % 120),
            });
        }
    }
    if seed % 5 == 4 {
        plan.node_stops.push(NodeStop {
            node: NodeId((seed % 3) as u16),
            when: FaultTime::AfterVerbs(50 + seed % 300),
            back_after: None,
        });
    }
    plan
}
