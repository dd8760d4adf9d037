//! The path of a verb: doorbell, requester, link, responder, link, completion.
//!
//! The words of a verb are read or written when the verb *arrives* at the responder rather than
//! when the responder processes it. The responder serves in order of arrival, so the difference is
//! unobservable, and it saves an event.

use super::clock::{Event, Picos};
use super::nic::CacheEntry;
use super::op::{ALONE, Batch, Loss, NONE, PostedVerb, Stage};
use super::state::State;
use crate::VerbKind;
use smallvec::SmallVec;
use std::mem;

impl State {
    /// Sends off what a client has posted; returns how many queue pairs had a doorbell.
    pub(super) fn ring(&mut self, client: u32) -> usize {
        let mut unrung = mem::take(&mut self.clients[client as usize].unrung);
        let mut rung: SmallVec<[u32; 8]> = SmallVec::new();
        for op in unrung.drain(..) {
            let batch = self.open_batch(client, self.ops[op].node, &mut rung);
            self.batches[batch].ops.push(op);
            self.ops[op].batch = batch;
        }
        self.clients[client as usize].unrung = unrung;
        let mut free = self.now.max(self.clients[client as usize].cpu_free);
        for batch in &rung {
            free = self.ring_one(*batch, free);
        }
        self.clients[client as usize].cpu_free = free;
        rung.len()
    }

    fn open_batch(&mut self, client: u32, node: u16, rung: &mut SmallVec<[u32; 8]>) -> u32 {
        let open = self.pair(client, node).open_batch;
        if open != NONE {
            return open;
        }
        let batch = self.batches.take(Batch::default);
        self.pair(client, node).open_batch = batch;
        self.batches[batch].client = client;
        self.batches[batch].node = node;
        rung.push(batch);
        batch
    }

    /// Spends the client's CPU time on a doorbell; returns when that ends and the batch leaves.
    fn ring_one(&mut self, number: u32, free: Picos) -> Picos {
        let batch = &mut self.batches[number];
        let calls = batch.ops.iter();
        let calls = calls.filter(|op| self.ops[**op].kind == VerbKind::Call);
        batch.open = (batch.ops.len() - calls.count()) as u32;
        let at = free + self.costs.doorbell + self.costs.post * batch.ops.len() as u64;
        for op in &batch.ops {
            self.ops[*op].rung_at = at;
        }
        let (client, node) = (batch.client, batch.node);
        self.pair(client, node).open_batch = NONE;
        self.queue.push(at, Event::Depart { batch: number });
        at
    }

    pub(super) fn depart(&mut self, number: u32) {
        let State {
            batches,
            clients,
            ops,
            ..
        } = self;
        let batch = &mut batches[number];
        let (client, node) = (batch.client, batch.node);
        let pair = &mut clients[client as usize].pairs[usize::from(node)];
        pair.waiting.extend(&batch.ops);
        batch.ops.retain(|op| {
            let is_call = ops[*op].kind == VerbKind::Call;
            if is_call {
                ops[*op].batch = ALONE;
            }
            !is_call
        });
        if batch.open == 0 {
            batches.free(number);
        }
        self.pump(client, node);
    }

    /// Sends the verbs of a queue pair in order, as far as its outstanding reads allow.
    pub(super) fn pump(&mut self, client: u32, node: u16) {
        let most = self.costs.profile().max_outstanding_reads.max(1);
        loop {
            let pair = &mut self.clients[client as usize].pairs[usize::from(node)];
            let Some(&op) = pair.waiting.front() else {
                return;
            };
            if self.ops[op].is_limited() {
                if pair.outstanding >= most {
                    return;
                }
                pair.outstanding += 1;
            }
            pair.waiting.pop_front();
            self.request(op);
        }
    }

    fn request(&mut self, number: u32) {
        if self.is_behind_a_loss(number) {
            return;
        }
        if self.ops[number].kind == VerbKind::Call && self.faults.late_calls.strikes(&mut self.rng)
        {
            return self.request_late(number);
        }
        let op = &self.ops[number];
        let (client, node, sent) = (op.client, op.node, op.sent_bytes());
        let messages = self.costs.messages(op.spans.len() as u32);
        let nic = &mut self.hosts[self.clients[client as usize].host as usize];
        let misses = nic.cache.miss(CacheEntry::QueuePair { client, node });
        let occupancy =
            self.costs.requester(messages, sent) + u64::from(misses) * self.costs.miss_occupancy;
        let mut leaves = nic.request(self.now, occupancy);
        if sent > 0 {
            leaves = nic.send(leaves, self.costs.on_link(sent));
        }
        let arrives = leaves
            + self.costs.one_way
            + self.costs.transfer(sent)
            + u64::from(misses) * self.costs.miss_latency
            + self.faults.latency.delay(&mut self.rng);
        let pair = self.pair(client, node);
        pair.last_arrival = pair.last_arrival.max(arrives);
        let at = pair.last_arrival;
        self.queue.push(at, Event::Arrive { op: number });
    }

    /// Sends a call that arrives only after its client has been told that it timed out.
    fn request_late(&mut self, number: u32) {
        let late = self.ops[number].late();
        let at = self.deadline(number) + self.faults.late_calls.span(&mut self.rng);
        let op = self.ops.take(PostedVerb::vacant);
        self.ops[op] = late;
        self.queue.push(at.max(self.now), Event::Arrive { op });
        self.fail(number, Loss::NoAnswer);
    }

    pub(super) fn arrive(&mut self, op: u32) {
        if self.is_turned_away(op) {
            return;
        }
        self.ops[op].stage = Stage::Executing;
        self.ops[op].started = self.serve(op);
        self.execute(op);
        // A call is executed when a thread of the owner gets to it.
        if self.ops[op].kind != VerbKind::Call {
            self.stop_node_in_time(op);
        }
    }

    /// Occupies the responder with a verb; returns when it starts.
    fn serve(&mut self, number: u32) -> Picos {
        let fetching = self.responder_misses(number);
        let op = &mut self.ops[number];
        op.missed_cache = fetching.is_some();
        let atomic = if op.is_atomic() { self.costs.atomic } else { 0 };
        let mut occupancy =
            self.costs.responder(op.spans.len() as u32, op.bytes) + atomic + fetching.unwrap_or(0);
        let slowness = self.faults.slowness(op.node, self.now);
        if slowness > 1.0 {
            occupancy = (occupancy as f64 * slowness) as Picos;
        }
        let sent = op.sent_bytes();
        let nic = &mut self.hosts[self.nodes[usize::from(op.node)].host as usize];
        let mut received = self.now;
        if sent > 0 {
            received = nic.receive(self.now, self.costs.on_link(sent));
        }
        nic.respond(received, occupancy) + atomic
    }

    /// For how long the responder fetches what it lacks; nothing if it lacks nothing.
    fn responder_misses(&mut self, number: u32) -> Option<Picos> {
        let op = &self.ops[number];
        let (client, node) = (op.client, op.node);
        let owner = &self.nodes[usize::from(node)];
        let cache = &mut self.hosts[owner.host as usize].cache;
        if !cache.overflows() {
            return None;
        }
        let pairs = cache.miss(CacheEntry::QueuePair { client, node });
        let mut lines = 0;
        for span in &op.spans {
            let region = span.region;
            lines += cache.miss(CacheEntry::Region { node, region });
            let (first, len) = span.bytes();
            let last = first + len.saturating_sub(1);
            for page in first / owner.page_bytes..=last / owner.page_bytes {
                lines += cache.miss(CacheEntry::Translation { node, region, page });
            }
        }
        let occupancy = u64::from(pairs) * self.costs.miss_occupancy
            + u64::from(lines) * self.costs.line_miss_occupancy;
        (pairs + lines > 0).then_some(occupancy)
    }

    /// Sends the answer of a verb whose words are all copied.
    pub(super) fn answer(&mut self, number: u32) {
        let op = &self.ops[number];
        let payload = op.answered_bytes();
        let mut departs = op.started.max(self.now);
        if self.ops[number].kind == VerbKind::Call {
            departs = self.send_reply(number, departs);
        } else if payload > 0 {
            let host = self.nodes[usize::from(op.node)].host;
            departs = self.hosts[host as usize].send(departs, self.costs.on_link(payload));
        }
        let op = &mut self.ops[number];
        op.stage = Stage::Answering(departs);
        let mut arrives = departs
            + self.costs.one_way
            + self.costs.transfer(payload)
            + self.faults.latency.delay(&mut self.rng);
        if op.missed_cache {
            arrives += self.costs.miss_latency;
        }
        let slowness = self.faults.slowness(op.node, self.now);
        if slowness > 1.0 {
            arrives += (self.costs.one_way as f64 * (slowness - 1.0)) as Picos;
        }
        if arrives > self.deadline(number) {
            self.fail(number, Loss::NoAnswer);
        } else {
            self.queue.push(arrives, Event::Respond { op: number });
        }
    }

    pub(super) fn respond(&mut self, number: u32) {
        let answering = matches!(self.ops[number].stage, Stage::Answering(_));
        if answering && (self.is_lost(number) || !self.is_received(number)) {
            return;
        }
        self.complete(number);
    }

    /// Takes an answer from the link of the client's host, at once or later.
    fn is_received(&mut self, number: u32) -> bool {
        let op = &mut self.ops[number];
        let payload = op.answered_bytes();
        let is_call = op.kind == VerbKind::Call;
        if payload == 0 && !is_call {
            return true;
        }
        let host = self.clients[op.client as usize].host;
        let nic = &mut self.hosts[host as usize];
        let mut received = nic.receive(self.now, self.costs.on_link(payload));
        if is_call {
            // A reply is a message that the client's NIC responds to, as any WRITE with immediate.
            received = nic.respond(received, self.costs.responder(1, payload));
        }
        if received == self.now {
            return true;
        }
        op.stage = Stage::Receiving;
        self.queue.push(received, Event::Respond { op: number });
        false
    }

    /// Ends a verb at the requester, and its batch where it was the last of it.
    fn complete(&mut self, number: u32) {
        let op = &self.ops[number];
        let (client, node, batch) = (op.client, op.node, op.batch);
        if op.is_late {
            return self.ops.free(number);
        }
        if op.is_limited() {
            self.pair(client, node).outstanding -= 1;
            self.pump(client, node);
        }
        if batch == ALONE {
            return self.complete_call(number);
        }
        self.batches[batch].open -= 1;
        if self.batches[batch].open == 0 {
            self.complete_batch(batch);
        }
    }

    fn complete_batch(&mut self, batch: u32) {
        let mut ops = mem::take(&mut self.batches[batch].ops);
        let client = self.batches[batch].client;
        if self.clients[client as usize].stopped {
            ops.iter().for_each(|op| self.discard(*op));
        } else {
            self.clients[client as usize].arrived.extend(&ops);
            self.notify(client);
        }
        ops.clear();
        self.batches[batch].ops = ops;
        self.batches.free(batch);
    }
}
