//! What goes wrong in simulated runs, beside torn and late words: the parts that plans of faults
//! are made of. All are drawn, so that some runs have them and some have not.

use farslot_fabric::sim::{
    ClientId, ClientStop, FaultPlan, FaultTime, HostId, Partition, Side, SlowNode,
};
use farslot_fabric::{Nanos, NodeId};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::ops::Range;

/// The node of a run.
const NODE: NodeId = NodeId(0);
/// When the last interval of a long run begins at the latest.
const LATE: Nanos = 600_000;

/// An interval that begins before `latest`, and is no longer than `longest`.
fn interval(latest: Nanos, longest: Nanos, rng: &mut ChaCha8Rng) -> Range<Nanos> {
    let from = rng.random_range(0..latest);
    from..from + rng.random_range(0..=longest)
}

/// Cuts a side off the node for a while.
pub fn cut_off(side: Side, latest: Nanos, longest: Nanos, rng: &mut ChaCha8Rng) -> Partition {
    let Range {
        start: from,
        end: until,
    } = interval(latest, longest, rng);
    Partition {
        side,
        node: NODE,
        from,
        until,
    }
}

/// Often, the node is slow for a while, by `most` times at the most.
pub fn slow_down(plan: &mut FaultPlan, often: f64, most: f64, rng: &mut ChaCha8Rng) {
    if rng.random_bool(often) {
        let Range {
            start: from,
            end: until,
        } = interval(100_000, 100_000, rng);
        plan.slow_nodes.push(SlowNode {
            node: NODE,
            factor: rng.random_range(2.0..most),
            from,
            until,
        });
    }
}

/// A few times, the host of all clients is cut off the node, for no longer than a few verbs take.
pub fn cut_the_host_off(plan: &mut FaultPlan, rng: &mut ChaCha8Rng) {
    for _ in 0..rng.random_range(0..4) {
        let part = cut_off(Side::Host(HostId(0)), LATE, 10_000, rng);
        plan.partitions.push(part);
    }
}

/// A few times, one of so many clients is cut off the node, for much longer, while the others go
/// on.
pub fn cut_clients_off(plan: &mut FaultPlan, clients: u32, rng: &mut ChaCha8Rng) {
    for _ in 0..rng.random_range(0..3) {
        let side = Side::Client(ClientId(rng.random_range(0..clients)));
        plan.partitions.push(cut_off(side, LATE, 200_000, rng));
    }
}

/// Often, each of these clients stops after one of its first verbs.
pub fn stop(
    plan: &mut FaultPlan,
    clients: Range<u32>,
    often: f64,
    verbs: Range<u64>,
    rng: &mut ChaCha8Rng,
) {
    for client in clients {
        if rng.random_bool(often) {
            plan.client_stops
                .push(stopped(ClientId(client), rng.random_range(verbs.clone())));
        }
    }
}

/// The client stops after so many verbs.
pub fn stopped(client: ClientId, verbs: u64) -> ClientStop {
    ClientStop {
        client,
        when: FaultTime::AfterVerbs(verbs),
    }
}

/// A plan in which words are torn and late, by a drawn measure, and nothing else goes wrong yet.
pub fn chaos(seed: u64, rng: &mut ChaCha8Rng) -> FaultPlan {
    FaultPlan::chaos(seed, rng.random_range(0.0..=1.0))
}

/// What goes wrong in a run of many clients who write at once: the last one is never stopped.
pub fn of_writers(seed: u64, clients: u32, rng: &mut ChaCha8Rng) -> FaultPlan {
    let mut plan = chaos(seed, rng);
    slow_down(&mut plan, 0.3, 100.0, rng);
    if rng.random_bool(0.4) {
        let side = Side::Client(ClientId(rng.random_range(0..clients)));
        plan.partitions.push(cut_off(side, 100_000, 30_000, rng));
    }
    stop(&mut plan, 0..clients - 1, 0.25, 1..60, rng);
    plan
}

/// What goes wrong in a run of owners one after the other, who need so many verbs.
pub fn of_owners(seed: u64, owners: u32, verbs: u64, rng: &mut ChaCha8Rng) -> FaultPlan {
    let mut plan = chaos(seed, rng);
    slow_down(&mut plan, 0.2, 50.0, rng);
    cut_the_host_off(&mut plan, rng);
    stop(&mut plan, 0..owners, 0.6, 1..verbs, rng);
    plan
}

/// The same where each owner has so many threads, of which one may be cut off while the others go
/// on.
pub fn of_threads(
    seed: u64,
    (owners, threads): (u32, u32),
    verbs: u64,
    rng: &mut ChaCha8Rng,
) -> FaultPlan {
    let mut plan = of_owners(seed, owners * threads, verbs, rng);
    if threads > 1 {
        cut_clients_off(&mut plan, owners * threads, rng);
    }
    plan
}
