//! Nodes and clients that stop, and verbs that get no answer.

use super::clock::{Event, Picos, from_nanos};
use super::faults::{FaultPlan, FaultTime};
use super::op::{ClientId, Loss, Stage};
use super::parts::HostId;
use super::state::State;
use crate::{FabricError, NodeId};
use rand::RngExt;

/// A timed fault of a plan, as an event carries it.
enum ScheduledFault {
    StopNode(usize),
    ReturnNode(usize),
    StopClient(usize),
}

impl ScheduledFault {
    const fn number(&self) -> u32 {
        match *self {
            Self::StopNode(index) => 3 * index as u32,
            Self::ReturnNode(index) => 3 * index as u32 + 1,
            Self::StopClient(index) => 3 * index as u32 + 2,
        }
    }

    const fn from_number(number: u32) -> Self {
        let index = (number / 3) as usize;
        match number % 3 {
            0 => Self::StopNode(index),
            1 => Self::ReturnNode(index),
            _ => Self::StopClient(index),
        }
    }
}

impl State {
    /// Puts another fault plan in force.
    pub(super) fn set_faults(&mut self, faults: FaultPlan) {
        self.plan += 1;
        self.faults = faults;
        self.clients
            .iter_mut()
            .for_each(|client| client.verbs_posted = 0);
        self.nodes
            .iter_mut()
            .for_each(|node| node.verbs_executed = 0);
        for index in 0..self.faults.node_stops.len() {
            self.schedule(
                self.faults.node_stops[index].when,
                &ScheduledFault::StopNode(index),
            );
        }
        for index in 0..self.faults.client_stops.len() {
            let stop = self.faults.client_stops[index];
            self.schedule(stop.when, &ScheduledFault::StopClient(index));
        }
    }

    fn schedule(&mut self, when: FaultTime, fault: &ScheduledFault) {
        match when {
            FaultTime::At(at) => self.schedule_at(from_nanos(at).max(self.now), fault),
            FaultTime::AfterVerbs(0) => self.schedule_at(self.now, fault),
            FaultTime::AfterVerbs(_) => {}
        }
    }

    fn schedule_at(&mut self, at: Picos, fault: &ScheduledFault) {
        let (plan, fault) = (self.plan, fault.number());
        self.queue.push(at, Event::Fault { plan, fault });
    }

    /// Lets a timed fault of the plan in force set in.
    pub(super) fn strike(&mut self, fault: u32) {
        match ScheduledFault::from_number(fault) {
            ScheduledFault::StopNode(index) => self.stop_node_as_planned(index, None),
            ScheduledFault::ReturnNode(index) => {
                self.return_node(self.faults.node_stops[index].node.0)
            }
            ScheduledFault::StopClient(index) => {
                self.stop_client(self.faults.client_stops[index].client.0)
            }
        }
    }

    /// Counts a verb that a node has executed, and stops the node if that was to be its last.
    pub(super) fn stop_node_in_time(&mut self, op: u32) {
        let node = self.ops[op].node;
        let owner = &mut self.nodes[usize::from(node)];
        owner.verbs_executed += 1;
        let last = FaultTime::AfterVerbs(owner.verbs_executed);
        let mut stops = self.faults.node_stops.iter();
        if let Some(index) = stops.position(|stop| stop.node.0 == node && stop.when == last) {
            let answered = self.rng.random_bool(0.5).then_some(op);
            self.stop_node_as_planned(index, answered);
        }
    }

    fn stop_node_as_planned(&mut self, index: usize, answered: Option<u32>) {
        let stop = self.faults.node_stops[index];
        self.stop_node(stop.node.0, answered);
        if let Some(after) = stop.back_after {
            let at = self.now + from_nanos(after);
            self.schedule_at(at, &ScheduledFault::ReturnNode(index));
        }
    }

    /// Stops a node. Answers that have not left it are lost, except perhaps one.
    pub(super) fn stop_node(&mut self, node: u16, answered: Option<u32>) {
        let now = self.now;
        self.trace.line(now, format_args!("node {node} stops"));
        let owner = &mut self.nodes[usize::from(node)];
        owner.up = false;
        owner.inbox.clear();
        let waiting_calls = owner.calls.stop();
        for (number, op) in self.ops.iter_mut() {
            let unanswered = match op.stage {
                Stage::Executing => true,
                Stage::Answering(departs) => departs > now,
                _ => false,
            };
            let spared = answered == Some(number) && op.stage != Stage::Executing;
            if unanswered && op.node == node && !spared {
                op.lost = Some(Loss::NodeStopped);
            }
        }
        for call in waiting_calls {
            self.is_lost(call);
        }
        for call in self.give_up_held(node) {
            self.is_lost(call);
        }
    }

    /// Brings a stopped node back, empty.
    pub(super) fn return_node(&mut self, node: u16) {
        let incarnation = self.rng.random();
        let owner = &mut self.nodes[usize::from(node)];
        if !owner.up {
            self.trace
                .line(self.now, format_args!("node {node} is back, empty"));
            owner.up = true;
            owner.incarnation = incarnation;
            owner.memory.clear();
            owner.cpu_free = self.now;
            owner.calls.restart();
        }
    }

    /// Stops a client if it has posted as many verbs as it was to.
    pub(super) fn stop_client_in_time(&mut self, client: u32) {
        let posted = self.clients[client as usize].verbs_posted;
        let due = |stop: &super::faults::ClientStop| {
            stop.client == ClientId(client) && stop.when == FaultTime::AfterVerbs(posted)
        };
        if self.faults.client_stops.iter().any(due) {
            self.stop_client(client);
        }
    }

    /// Stops a client. Verbs whose doorbell was not rung are cut off after a random one.
    pub(super) fn stop_client(&mut self, client: u32) {
        match self.clients.get(client as usize) {
            Some(client) if !client.stopped => {}
            _ => return,
        }
        self.trace
            .line(self.now, format_args!("client {client} stops for good"));
        let unrung = self.clients[client as usize].unrung.len();
        let kept = self.rng.random_range(0..=unrung);
        let cut = self.clients[client as usize].unrung.split_off(kept);
        cut.into_iter().for_each(|op| self.discard(op));
        self.ring(client);
        self.retire(client);
        self.notify(client);
    }

    /// Fails a verb on its arrival if it cannot reach the node, or not the one it was meant for.
    pub(super) fn is_turned_away(&mut self, number: u32) -> bool {
        if self.is_behind_a_loss(number) {
            return true;
        }
        let op = &self.ops[number];
        let (client, node, expected) = (op.client, op.node, op.incarnation);
        if self.is_parted(number) {
            self.ops[number].lost = Some(Loss::NoAnswer);
            if self.rng.random_bool(0.5) {
                self.pair(client, node).broken_until = self.deadline(number);
                self.fail(number, Loss::NoAnswer);
                return true;
            }
        }
        let owner = &self.nodes[usize::from(node)];
        if !owner.up {
            self.fail(number, Loss::NodeStopped);
            return true;
        }
        let restarted = owner.incarnation != expected;
        if restarted {
            let node = NodeId(node);
            let error = FabricError::NodeRestarted { node, expected };
            self.fail_with(number, error, self.now + self.costs.one_way);
        }
        restarted
    }

    /// Fails a verb that was posted behind one that is lost, before the client could know. A
    /// reliable connection delivers none of those, and fails all of them together.
    pub(super) fn is_behind_a_loss(&mut self, number: u32) -> bool {
        let op = &self.ops[number];
        let (client, node, posted_at) = (op.client, op.node, op.posted_at);
        let behind_a_loss = op.behind_a_loss;
        let broken_until = self.pair(client, node).broken_until;
        if posted_at >= broken_until && !behind_a_loss {
            return false;
        }
        let after = self.clients[client as usize].verb_timeout;
        let node = NodeId(node);
        let error = FabricError::TimedOut { node, after };
        self.fail_with(number, error, broken_until.max(self.now));
        true
    }

    /// Whether the client has been told of some of the verbs that this instant's loss took, but not
    /// of all: the first makes room in the send queue, for a verb that still belongs behind the
    /// others. They have failed already, or will on their arrival.
    pub(super) fn is_being_told_of_a_loss(&mut self, client: u32, node: u16) -> bool {
        let now = self.now;
        now > 0
            && self.pair(client, node).broken_until == now
            && self.ops.iter_mut().any(|(_, op)| {
                let is_taken = match op.stage {
                    Stage::Failing => true,
                    Stage::Requested => op.posted_at < now || op.behind_a_loss,
                    _ => false,
                };
                op.client == client && op.node == node && op.wanted && is_taken
            })
    }

    /// Fails a verb whose answer does not reach the client.
    pub(super) fn is_lost(&mut self, number: u32) -> bool {
        let parted = self.is_parted(number).then_some(Loss::NoAnswer);
        let Some(loss) = self.ops[number].lost.or(parted) else {
            return false;
        };
        self.fail(number, loss);
        true
    }

    fn is_parted(&self, number: u32) -> bool {
        if self.faults.partitions.is_empty() {
            return false;
        }
        let op = &self.ops[number];
        let host = HostId(self.clients[op.client as usize].host);
        let client = ClientId(op.client);
        self.faults.parts(client, host, op.node, self.now)
    }

    /// When a verb fails that was not answered by then.
    pub(super) fn deadline(&self, number: u32) -> Picos {
        let op = &self.ops[number];
        let timeout = self.clients[op.client as usize].verb_timeout;
        op.rung_at.saturating_add(from_nanos(timeout))
    }

    /// Fails a verb that gets no answer, when its time is up.
    pub(super) fn fail(&mut self, number: u32, loss: Loss) {
        let op = &self.ops[number];
        let node = NodeId(op.node);
        let after = self.clients[op.client as usize].verb_timeout;
        let timeout = self.deadline(number).max(self.now);
        let refusal = self.now + self.costs.one_way;
        match loss {
            Loss::NodeStopped => {
                let at = if self.faults.refuse_at_once {
                    refusal.min(timeout)
                } else {
                    timeout
                };
                self.fail_with(number, FabricError::NodeStopped { node, sent: true }, at);
            }
            Loss::NoAnswer => {
                self.fail_with(number, FabricError::TimedOut { node, after }, timeout);
            }
        }
    }

    /// Fails a message for which the inbox had no room.
    pub(super) fn refuse_message(&mut self, number: u32) {
        let node = self.ops[number].node;
        let capacity = self.nodes[usize::from(node)].inbox_capacity;
        let node = NodeId(node);
        let error = FabricError::ReceiverNotReady { node, capacity };
        self.fail_with(number, error, self.now + self.costs.one_way);
    }

    pub(super) fn fail_with(&mut self, number: u32, error: FabricError, at: Picos) {
        self.tell(number, format_args!("is lost"));
        let op = &mut self.ops[number];
        op.outcome = Err(error);
        op.stage = Stage::Failing;
        self.queue.push(at, Event::Respond { op: number });
    }
}
