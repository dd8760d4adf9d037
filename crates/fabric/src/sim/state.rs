//! The state of a world, and the loop that executes its events in order.

use super::call_queue::{AnsweredPairs, NodeCallQueue};
use super::clock::{Digest, Event, EventQueue, Picos};
use super::faults::FaultPlan;
use super::memory::Memory;
use super::nic::{CacheEntry, Costs, HostNic};
use super::op::{Batch, ClientId, NONE, PostedVerb, SlotPool, Stage};
use super::parts::{HostId, NodeConfig};
use super::profile::NicProfile;
use super::trace::{EventTrace, OfClass};
use crate::held_answers::HeldAnswers;
use crate::verb::Verb;
use crate::{Buffer, FabricError, Message, NodeId, NodeInfo, NodeState, OperationClass};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::task::Waker;

pub(super) struct State {
    pub(super) costs: Costs,
    pub(super) now: Picos,
    pub(super) queue: EventQueue,
    pub(super) digest: Digest,
    pub(super) rng: ChaCha8Rng,
    pub(super) hosts: Vec<HostNic>,
    pub(super) nodes: Vec<Node>,
    pub(super) clients: Vec<Client>,
    pub(super) ops: SlotPool<PostedVerb>,
    pub(super) batches: SlotPool<Batch>,
    pub(super) faults: FaultPlan,
    /// Number of the fault plan in force: the events of earlier ones are void.
    pub(super) plan: u32,
    /// Parts of writes that were to settle later, so far.
    pub(super) settlings: u32,
    /// Clients that have something to do: completions, or their own end.
    pub(super) notified: Vec<u32>,
    /// Counts what a task could notice.
    pub(super) noticeable: u64,
    /// Tasks to be woken once the state is unlocked.
    pub(super) to_wake: Vec<Waker>,
    pub(super) answered: Arc<AnsweredPairs>,
    pub(super) trace: EventTrace,
}

pub(super) struct Node {
    pub(super) host: u32,
    pub(super) memory: Memory,
    pub(super) page_bytes: u64,
    pub(super) incarnation: u64,
    pub(super) up: bool,
    pub(super) inbox: VecDeque<Message>,
    pub(super) inbox_capacity: usize,
    pub(super) inbox_waiters: Vec<Waker>,
    /// When the owner's CPU is free again.
    pub(super) cpu_free: Picos,
    pub(super) calls: NodeCallQueue,
    pub(super) verbs_executed: u64,
}

pub(super) struct Client {
    pub(super) host: u32,
    pub(super) verb_timeout: crate::Nanos,
    /// The connection to each node.
    pub(super) pairs: Vec<QueuePairState>,
    /// Posted since the last doorbell.
    pub(super) unrung: Vec<u32>,
    /// Completed, not taken by the endpoint yet.
    pub(super) arrived: Vec<u32>,
    /// Posted, not taken by the endpoint yet.
    pub(super) in_flight: usize,
    pub(super) verbs_posted: u64,
    /// When the client's thread is free again.
    pub(super) cpu_free: Picos,
    pub(super) stopped: bool,
    pub(super) notified: bool,
}

pub(super) struct QueuePairState {
    /// The node's incarnation when the pair was connected.
    pub(super) incarnation: u64,
    /// What the client's last verb failed with that got no answer, or one of another incarnation,
    /// unless it has seen since that the node is up.
    pub(super) trouble: Option<FabricError>,
    /// Rung, but not sent: too many reads are under way.
    pub(super) waiting: VecDeque<u32>,
    pub(super) outstanding: u32,
    pub(super) last_arrival: Picos,
    /// When the loss of a verb is noticed: what was posted before then is lost with it.
    pub(super) broken_until: Picos,
    /// Messages that wait for room in the node's inbox.
    pub(super) messages: VecDeque<u32>,
    /// The answers behind a call that is answered later.
    pub(super) held: HeldAnswers<u32>,
    /// The batch of the doorbell that is being rung.
    pub(super) open_batch: u32,
}

impl State {
    pub(super) fn new(seed: u64, profile: NicProfile) -> Self {
        let cache = profile.cache;
        Self {
            costs: Costs::new(profile),
            now: 0,
            queue: EventQueue::default(),
            digest: Digest::new(seed),
            rng: ChaCha8Rng::seed_from_u64(seed),
            hosts: vec![HostNic::new(&cache)],
            nodes: Vec::new(),
            clients: Vec::new(),
            ops: SlotPool::default(),
            batches: SlotPool::default(),
            faults: FaultPlan::default(),
            plan: 0,
            settlings: 0,
            notified: Vec::new(),
            noticeable: 0,
            to_wake: Vec::new(),
            answered: Arc::default(),
            trace: EventTrace::of_environment(seed),
        }
    }

    /// Tells what a verb does or meets, if it is asked for.
    #[inline]
    pub(super) fn tell(&mut self, number: u32, event: fmt::Arguments<'_>) {
        if self.trace.is_on() {
            let PostedVerb { client, node, .. } = self.ops[number];
            self.trace.line(
                self.now,
                format_args!("client {client}, node {node}, verb {number}: {event}"),
            );
        }
    }

    pub(super) fn add_host(&mut self) -> u32 {
        self.hosts.push(HostNic::new(&self.costs.profile().cache));
        (self.hosts.len() - 1) as u32
    }

    pub(super) fn add_node(&mut self, config: &NodeConfig) -> u16 {
        let host = match config.host {
            Some(HostId(host)) => host,
            None => self.add_host(),
        };
        for (len, _) in &config.regions {
            let cache = &mut self.hosts[host as usize].cache;
            cache.add_region(*len, config.page_bytes);
        }
        let node = u16::try_from(self.nodes.len()).expect("node ids have 16 bits");
        self.nodes.push(Node {
            host,
            memory: Memory::new(&config.regions),
            page_bytes: config.page_bytes,
            incarnation: self.rng.random(),
            up: true,
            inbox: VecDeque::new(),
            inbox_capacity: config.inbox_capacity,
            inbox_waiters: Vec::new(),
            cpu_free: 0,
            calls: NodeCallQueue::new(config.owner_threads),
            verbs_executed: 0,
        });
        node
    }

    pub(super) fn add_client(&mut self, host: u32, verb_timeout: crate::Nanos) -> u32 {
        assert!((host as usize) < self.hosts.len(), "no host {host}");
        self.clients.push(Client {
            host,
            verb_timeout,
            pairs: Vec::new(),
            unrung: Vec::new(),
            arrived: Vec::new(),
            in_flight: 0,
            verbs_posted: 0,
            cpu_free: 0,
            stopped: false,
            notified: false,
        });
        (self.clients.len() - 1) as u32
    }

    /// Connects a client to the next node; returns what it learns.
    pub(super) fn connect(&mut self, client: u32, node: u16) -> NodeInfo {
        let incarnation = self.nodes[usize::from(node)].incarnation;
        let pairs = &mut self.clients[client as usize].pairs;
        assert_eq!(
            pairs.len(),
            usize::from(node),
            "nodes are connected in order"
        );
        pairs.push(QueuePairState {
            incarnation,
            trouble: None,
            waiting: VecDeque::new(),
            outstanding: 0,
            last_arrival: 0,
            broken_until: 0,
            messages: VecDeque::new(),
            held: HeldAnswers::default(),
            open_batch: NONE,
        });
        for host in self.ends(client, node) {
            self.hosts[host].cache.add_queue_pair();
        }
        self.node_info(node)
    }

    /// How a client stands with a node. It learns of trouble by a verb that fails, and of its end
    /// by itself, as from a connection that is made anew in the background.
    pub(super) fn standing(&mut self, client: u32, node: u16) -> NodeState {
        let pair = self.pair(client, node);
        let (known, Some(trouble)) = (pair.incarnation, pair.trouble.clone()) else {
            return NodeState::Up;
        };
        let owner = &self.nodes[usize::from(node)];
        if !owner.up {
            return NodeState::Down(FabricError::NodeStopped {
                node: NodeId(node),
                sent: true,
            });
        }
        let host = HostId(self.clients[client as usize].host);
        let parted = self.faults.parts(ClientId(client), host, node, self.now);
        if parted {
            return NodeState::Down(trouble);
        }
        if owner.incarnation != known {
            let incarnation = owner.incarnation;
            return NodeState::Restarted { incarnation };
        }
        self.pair(client, node).trouble = None;
        NodeState::Up
    }

    /// Has a client take a node for what it is now. Verbs that it posted before fail as they
    /// arrive.
    pub(super) fn adopt(&mut self, client: u32, node: u16) -> NodeInfo {
        let incarnation = self.nodes[usize::from(node)].incarnation;
        let pair = self.pair(client, node);
        (pair.incarnation, pair.trouble) = (incarnation, None);
        self.node_info(node)
    }

    /// Frees what a client that is gone held at the NICs.
    pub(super) fn disconnect(&mut self, client: u32) {
        self.retire(client);
        for node in 0..self.clients[client as usize].pairs.len() as u16 {
            for host in self.ends(client, node) {
                let pair = CacheEntry::QueuePair { client, node };
                self.hosts[host].cache.remove_queue_pair(pair);
            }
        }
    }

    /// Ends a client: what is under way completes for nobody.
    pub(super) fn retire(&mut self, client: u32) {
        let gone = &mut self.clients[client as usize];
        gone.stopped = true;
        let unrung = std::mem::take(&mut gone.unrung);
        let arrived = std::mem::take(&mut gone.arrived);
        unrung
            .into_iter()
            .chain(arrived)
            .for_each(|op| self.discard(op));
    }

    fn ends(&self, client: u32, node: u16) -> [usize; 2] {
        let hosts = [
            self.clients[client as usize].host,
            self.nodes[usize::from(node)].host,
        ];
        hosts.map(|host| host as usize)
    }

    pub(super) fn node_info(&self, node: u16) -> NodeInfo {
        let node = &self.nodes[usize::from(node)];
        NodeInfo {
            incarnation: node.incarnation,
            regions: node.memory.infos(),
            page_bytes: node.page_bytes,
        }
    }

    pub(super) fn pair(&mut self, client: u32, node: u16) -> &mut QueuePairState {
        &mut self.clients[client as usize].pairs[usize::from(node)]
    }

    /// Takes in a posted verb; returns its number, and the buffer that it is to fill.
    pub(super) fn post(
        &mut self,
        client: u32,
        verb: Verb,
        of: Option<OperationClass>,
    ) -> (u32, Option<Buffer>) {
        self.stop_client_in_time(client);
        let number = self.ops.take(PostedVerb::vacant);
        let into = self.ops[number].load(client, verb);
        self.ops[number].posted_at = self.now;
        let node = self.ops[number].node;
        self.ops[number].incarnation = self.pair(client, node).incarnation;
        self.ops[number].behind_a_loss = self.is_being_told_of_a_loss(client, node);
        let poster = &mut self.clients[client as usize];
        if poster.stopped {
            // The thread is dead: what it still seems to do reaches nobody.
            self.ops[number].stage = Stage::Failing;
            return (number, into);
        }
        if self.trace.is_on() {
            let op = &self.ops[number];
            let (asked, now) = (op.asked(), self.now);
            self.trace.line(
                now,
                format_args!(
                    "client {client}, node {node}, verb {number}: {asked}{}",
                    OfClass(of)
                ),
            );
        }
        let poster = &mut self.clients[client as usize];
        poster.in_flight += 1;
        poster.verbs_posted += 1;
        poster.unrung.push(number);
        self.stop_client_in_time(client);
        (number, into)
    }

    /// Hands an endpoint its completions, and the tasks that wait for them to `wake`.
    pub(super) fn take_completions(&mut self, client: u32, mut wake: impl FnMut(Waker)) -> usize {
        let taker = &mut self.clients[client as usize];
        let mut arrived = std::mem::take(&mut taker.arrived);
        taker.in_flight -= arrived.len();
        for &number in &arrived {
            if self.trace.is_on() {
                let PostedVerb {
                    node, ref outcome, ..
                } = self.ops[number];
                let shown: &dyn fmt::Display = match outcome {
                    Ok(()) => &"completes",
                    Err(error) => error,
                };
                self.trace.line(
                    self.now,
                    format_args!("client {client}, node {node}, verb {number}: {shown}"),
                );
            }
            let op = &mut self.ops[number];
            op.stage = Stage::Completed;
            if let Err(
                error @ (FabricError::NodeStopped { .. }
                | FabricError::NodeRestarted { .. }
                | FabricError::TimedOut { .. }),
            ) = &op.outcome
            {
                taker.pairs[usize::from(op.node)].trouble = Some(error.clone());
            }
            if let Some(waker) = op.waker.take() {
                wake(waker);
            }
            if !op.wanted {
                self.ops.free(number);
            }
        }
        let completed = arrived.len();
        arrived.clear();
        self.clients[client as usize].arrived = arrived;
        completed
    }

    /// Gives up the completion of a verb.
    pub(super) fn abandon(&mut self, op: u32) {
        let slot = &mut self.ops[op];
        slot.wanted = false;
        slot.waker = None;
        if slot.stage == Stage::Completed || slot.batch == NONE && slot.stage == Stage::Failing {
            self.ops.free(op);
        }
    }

    /// Forgets a verb that will never leave.
    pub(super) fn discard(&mut self, op: u32) {
        let slot = &mut self.ops[op];
        slot.batch = NONE;
        slot.stage = Stage::Failing;
        if !slot.wanted {
            self.ops.free(op);
        }
    }

    pub(super) fn notify(&mut self, client: u32) {
        self.noticeable += 1;
        let target = &mut self.clients[client as usize];
        if !target.notified {
            target.notified = true;
            self.notified.push(client);
        }
    }

    /// Lets events happen until a task could notice something, or until `limit`. Returns whether
    /// the clock has stopped for want of events.
    pub(super) fn advance(&mut self, limit: Option<Picos>) -> bool {
        self.take_answered();
        let before = self.noticeable;
        while self.noticeable == before {
            match (self.queue.next_time(), limit) {
                (Some(next), Some(limit)) if next > limit => {
                    self.now = self.now.max(limit);
                    return false;
                }
                (Some(_), _) => self.step(),
                (None, Some(limit)) => {
                    self.now = self.now.max(limit);
                    return false;
                }
                (None, None) => return true,
            }
        }
        false
    }

    fn step(&mut self) {
        let Some((at, event)) = self.queue.pop() else {
            return;
        };
        self.now = at;
        self.digest.mix(at);
        self.digest.mix(event.fingerprint());
        match event {
            Event::Depart { batch } => self.depart(batch),
            Event::Arrive { op } => self.arrive(op),
            Event::Sample { op, first, words } => self.sample(op, first, words),
            Event::Settle { node, settling } => {
                let writer = self.nodes[usize::from(node)].memory.settle(settling);
                if let Some(client) = writer {
                    let shown = format_args!(
                        "client {client}, node {node}: others see a part of a WRITE now"
                    );
                    self.trace.line(at, shown);
                }
            }
            Event::Respond { op } => self.respond(op),
            Event::RetryMessage { client, node } => self.retry_message(client, node),
            Event::Handle { op } => self.handle(op),
            Event::HandlerFree { node, stops } => self.handler_is_free(node, stops),
            Event::GoOn { node, stops } => self.go_on_as_planned(node, stops),
            Event::AnswerCame { client, node } => self.answer_held(client, node),
            Event::Overdue { op } => self.give_up_overdue(op),
            Event::Fault { plan, fault } if plan == self.plan => self.strike(fault),
            Event::Fault { .. } => {}
        }
    }
}
