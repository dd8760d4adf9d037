//! Fault plans: what goes wrong in a world, as data. Chance is drawn from the world's seed.

use super::clock::{Picos, from_nanos, to_nanos};
use super::op::ClientId;
use super::parts::HostId;
use crate::{Nanos, NodeId};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// Something that happens to a verb now and then, and takes some time.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Chance {
    /// How likely it is, from 0 to 1.
    pub probability: f64,
    /// The most nanoseconds that it takes; drawn evenly from 0 on.
    pub up_to_ns: Nanos,
}

/// When something stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FaultTime {
    /// At this virtual time, in nanoseconds.
    At(Nanos),
    /// With its verb of this number since the plan came into force: the last one that a client
    /// posts or a node executes, with 0 at once. Counting up stops a protocol between any two of
    /// its verbs. The last verb of a client takes effect or not; that of a node does, but is
    /// answered or not.
    AfterVerbs(u64),
}

/// A node that answers late for a while.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct SlowNode {
    /// The node.
    pub node: NodeId,
    /// By how much its service and its answers take longer; 1 is no change.
    pub factor: f64,
    /// Start, in nanoseconds of virtual time.
    pub from: Nanos,
    /// End.
    pub until: Nanos,
}

/// A while in which the processes of a node do not run, as if they were suspended: calls to it
/// wait, and each finds the clock as it was when a thread took it. What the NIC answers goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodePause {
    /// The node.
    pub node: NodeId,
    /// Start, in nanoseconds of virtual time.
    pub from: Nanos,
    /// End.
    pub until: Nanos,
}

/// A node that stops, and perhaps comes back empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeStop {
    /// The node.
    pub node: NodeId,
    /// When it stops.
    pub when: FaultTime,
    /// After how many nanoseconds it comes back: memory zeroed, with a new incarnation.
    pub back_after: Option<Nanos>,
}

/// A client thread that stops: none of its tasks ever runs again. Of the verbs that it posted since
/// its last doorbell, those up to a random one still leave; those that left earlier go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClientStop {
    /// The client.
    pub client: ClientId,
    /// When it stops.
    pub when: FaultTime,
}

/// One side of a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Side {
    /// One client thread.
    Client(ClientId),
    /// All client threads of a host.
    Host(HostId),
}

/// A while in which nothing passes between a client side and a node. Verbs then fail with
/// [`TimedOut`](crate::FabricError::TimedOut), half of them after they have taken effect. One that
/// has not takes those with it that its queue pair sends before the loss is noticed, as a reliable
/// connection does: no verb takes effect behind one that was lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Partition {
    /// The clients.
    pub side: Side,
    /// The node.
    pub node: NodeId,
    /// Start, in nanoseconds of virtual time.
    pub from: Nanos,
    /// End.
    pub until: Nanos,
}

/// Everything that goes wrong in a world. The default is nothing.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct FaultPlan {
    /// READs whose words are copied in several parts, in random order, at different times.
    pub torn_reads: Chance,
    /// WRITEs whose words are placed in several parts, in random order, before they complete.
    pub torn_writes: Chance,
    /// WRITEs whose words other endpoints see, in several parts, only some time after they
    /// executed, perhaps long after they completed. The writer's own verbs see them, and its next
    /// atomic or message to the node shows all of them to everybody.
    pub late_writes: Chance,
    /// Verbs that take longer, on either way. Completions of different batches pass each other;
    /// verbs of one queue pair still start in order.
    pub latency: Chance,
    /// Calls that reach their node only after the client's verb timeout, counted from there on: the
    /// client has been told [`TimedOut`](crate::FabricError::TimedOut) by then. What it posts later
    /// may pass them, as over another connection.
    pub late_calls: Chance,
    /// Nodes that are slow for a while.
    pub slow_nodes: Vec<SlowNode>,
    /// Nodes whose processes do not run for a while.
    pub node_pauses: Vec<NodePause>,
    /// Nodes that stop.
    pub node_stops: Vec<NodeStop>,
    /// Whether verbs to a stopped node fail at once, as where the process died but its host lives.
    /// Otherwise they fail after the endpoint's verb timeout.
    pub refuse_at_once: bool,
    /// Client threads that stop.
    pub client_stops: Vec<ClientStop>,
    /// Pairs that cannot reach each other for a while.
    pub partitions: Vec<Partition>,
}

impl FaultPlan {
    /// A random mix of the faults that no protocol may be hurt by: torn and late words, and
    /// latencies. `intensity` goes from 0 (nothing) to 1 (every second verb is hit by each). Stops,
    /// partitions and slow nodes are for the caller to add: what they cost depends on the test.
    #[must_use]
    pub fn chaos(seed: u64, intensity: f64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut chance = |longest: Nanos| Chance {
            probability: rng.random_range(0.0..=0.5 * intensity.clamp(0.0, 1.0)),
            up_to_ns: rng.random_range(1..=longest),
        };
        Self {
            torn_reads: chance(5_000),
            torn_writes: chance(5_000),
            late_writes: chance(20_000),
            latency: chance(10_000),
            ..Self::default()
        }
    }

    /// By how much `node` is slowed at a time.
    pub(super) fn slowness(&self, node: u16, now: Picos) -> f64 {
        let now = to_nanos(now);
        let here = |slow: &&SlowNode| slow.node.0 == node && (slow.from..slow.until).contains(&now);
        let slow = self.slow_nodes.iter().filter(here);
        slow.fold(1.0, |factor, slow| factor * slow.factor.max(1.0))
    }

    /// When the processes of a node run that are to run at a time.
    pub(super) fn runs_at(&self, node: u16, at: Picos) -> Picos {
        let mut pauses: SmallVec<[&NodePause; 4]> = self.node_pauses.iter().collect();
        pauses.sort_unstable_by_key(|pause| pause.from);
        let pauses = pauses.iter().filter(|pause| pause.node.0 == node);
        pauses.fold(at, |at, pause| {
            let until = from_nanos(pause.until);
            match (from_nanos(pause.from)..until).contains(&at) {
                true => until,
                false => at,
            }
        })
    }

    /// Whether nothing passes between a client and a node at a time.
    pub(super) fn parts(&self, client: ClientId, host: HostId, node: u16, now: Picos) -> bool {
        let now = to_nanos(now);
        self.partitions.iter().any(|partition| {
            let side = match partition.side {
                Side::Client(of) => of == client,
                Side::Host(of) => of == host,
            };
            side && partition.node.0 == node && (partition.from..partition.until).contains(&now)
        })
    }
}

impl Chance {
    /// Draws whether it happens now.
    pub(super) fn strikes(self, rng: &mut ChaCha8Rng) -> bool {
        self.probability > 0.0 && rng.random_bool(self.probability.min(1.0))
    }

    /// Draws how long it takes.
    pub(super) fn span(self, rng: &mut ChaCha8Rng) -> Picos {
        rng.random_range(0..=from_nanos(self.up_to_ns))
    }

    /// Draws both; 0 where it does not happen.
    pub(super) fn delay(self, rng: &mut ChaCha8Rng) -> Picos {
        if self.strikes(rng) { self.span(rng) } else { 0 }
    }
}

/// Some consecutive words of a verb.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    pub(super) first: u32,
    pub(super) words: u32,
}

/// The most parts that a verb is torn into.
const MOST_PARTS: u32 = 8;

/// Tears `words` words at random boundaries.
pub(super) fn tear(words: u32, rng: &mut ChaCha8Rng) -> SmallVec<[Part; MOST_PARTS as usize]> {
    let cuts = rng.random_range(1..MOST_PARTS).min(words.saturating_sub(1));
    let mut bounds: SmallVec<[u32; MOST_PARTS as usize + 1]> = SmallVec::new();
    bounds.extend([0, words]);
    bounds.extend((0..cuts).map(|_| rng.random_range(1..words)));
    bounds.sort_unstable();
    bounds.dedup();
    let parts = bounds.windows(2).map(|bounds| Part {
        first: bounds[0],
        words: bounds[1] - bounds[0],
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_every_word_once() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for words in 1..200 {
            let parts = tear(words, &mut rng);
            let mut next = 0;
            for part in &parts {
                assert_eq!(part.first, next);
                assert!(part.words > 0);
                next += part.words;
            }
            assert_eq!(next, words);
            assert!(words == 1 || parts.len() > 1);
        }
    }

    #[test]
    fn a_plan_survives_as_data_and_chaos_depends_on_its_seed() {
        assert_eq!(FaultPlan::chaos(3, 0.5), FaultPlan::chaos(3, 0.5));
        assert_ne!(FaultPlan::chaos(3, 0.5), FaultPlan::chaos(4, 0.5));
        assert_eq!(FaultPlan::chaos(3, 0.0).torn_reads.probability, 0.0);
    }

    #[test]
    fn slow_intervals_multiply() {
        let slow = |factor, from, until| SlowNode {
            node: NodeId(1),
            factor,
            from,
            until,
        };
        let plan = FaultPlan {
            slow_nodes: vec![slow(2.0, 0, 10), slow(3.0, 5, 20)],
            ..FaultPlan::default()
        };
        let at = |nanos| plan.slowness(1, from_nanos(nanos));
        assert_eq!([at(0), at(7), at(10), at(20)], [2.0, 6.0, 3.0, 1.0]);
        assert_eq!(plan.slowness(0, 0), 1.0);
    }

    #[test]
    fn pauses_follow_each_other() {
        let pause = |from, until| NodePause {
            node: NodeId(1),
            from,
            until,
        };
        let plan = FaultPlan {
            node_pauses: vec![pause(20, 30), pause(5, 10), pause(8, 20)],
            ..FaultPlan::default()
        };
        let runs_at = |node, at| plan.runs_at(node, from_nanos(at));
        for (at, runs) in [(0, 0), (5, 30), (9, 30), (10, 30), (29, 30), (30, 30)] {
            assert_eq!(runs_at(1, at), from_nanos(runs), "{at}");
            assert_eq!(runs_at(0, at), from_nanos(at));
        }
    }
}
