//! Calls at their owner: a queue, threads that take from it, and the handler's work in the node's
//! memory.
//!
//! A thread takes a call in for the profile's `handler_ns`, runs the handler, which by itself takes
//! no time, and posts the reply. What the handler stores becomes visible to clients meanwhile, in
//! order: at once, or, where the fault plan tears writes, word by word until the reply leaves.
//!
//! A call that is answered later keeps no thread. Its answer is posted when the ticket was used,
//! by a task at its virtual time or by a handler, and goes behind those of the client's earlier
//! calls. A client's send queue bounds how many of its calls wait so. A handler that goes on with
//! such calls by itself has a thread for each of its turns, as a call has; between two of them the
//! owner's threads take in calls that wait.

use super::call_queue::GoesOn;
use super::clock::{Event, Picos, from_nanos, to_nanos};
use super::memory::{Masked, Memory};
use super::nic::CacheEntry;
use super::op::Loss;
use super::state::State;
use crate::call::check_words;
use crate::verb::check_access;
use crate::{Call, CallAnswer, FabricError, NodeId, OwnerMemory, RegionId, RemoteAddr, Result};
use rand::RngExt;
use std::ops::Range;

/// The writer of what handlers store.
const OWNER: u32 = u32::MAX;

impl State {
    /// Takes in a call that has reached its node. What its client wrote before it is there for the
    /// handler.
    pub(super) fn receive_call(&mut self, number: u32) {
        let op = &self.ops[number];
        let (client, node, region) = (op.client, op.node, op.operands[0] as u16);
        self.digest.mix_all(&op.data);
        let owner = &mut self.nodes[usize::from(node)];
        if owner.calls.handler.is_none() {
            let (node, region) = (NodeId(node), RegionId(region));
            let error = FabricError::NoHandler { node, region };
            return self.fail_with(number, error, self.now + self.costs.one_way);
        }
        owner.memory.settle_writes_of(client);
        self.deliver_or_wait(number);
    }

    /// Puts a call into the owner's queue if there is room.
    pub(super) fn queue_call(&mut self, number: u32) -> bool {
        let node = self.ops[number].node;
        let owner = &mut self.nodes[usize::from(node)];
        if owner.calls.waiting.len() >= owner.inbox_capacity {
            return false;
        }
        owner.calls.waiting.push_back(number);
        self.take_call(node);
        true
    }

    /// Has an idle thread of the owner take the oldest call.
    fn take_call(&mut self, node: u16) {
        let calls = &mut self.nodes[usize::from(node)].calls;
        if calls.busy < calls.threads
            && let Some(op) = calls.waiting.pop_front()
        {
            calls.busy += 1;
            let at = self.faults.runs_at(node, self.now) + self.costs.handler;
            self.ops[op].started = at;
            self.queue.push(at, Event::Handle { op });
        }
    }

    pub(super) fn handler_is_free(&mut self, node: u16, stops: u32) {
        let calls = &mut self.nodes[usize::from(node)].calls;
        if calls.stops == stops {
            calls.busy -= 1;
            if calls.goes_on == GoesOn::NextFree {
                self.go_on(node);
            }
            self.take_call(node);
        }
    }

    /// Has the handler go on with what it answers later, if that was planned for now.
    pub(super) fn go_on_as_planned(&mut self, node: u16, stops: u32) {
        let calls = &self.nodes[usize::from(node)].calls;
        if calls.stops == stops && calls.goes_on == GoesOn::At(self.now) {
            self.go_on(node);
        }
    }

    /// Has the handler go on by a thread that is free, now or next; and again when it says.
    fn go_on(&mut self, node: u16) {
        let runs_at = self.faults.runs_at(node, self.now);
        let owner = &mut self.nodes[usize::from(node)];
        let calls = &mut owner.calls;
        calls.goes_on = GoesOn::Never;
        if runs_at > self.now {
            return self.plan_to_go_on(node, runs_at);
        }
        let Some(handler) = calls.handler.clone() else {
            return;
        };
        if calls.busy >= calls.threads {
            calls.goes_on = GoesOn::NextFree;
            return;
        }
        calls.busy += 1;
        let (free, stops) = (self.now + self.costs.handler, calls.stops);
        self.queue.push(free, Event::HandlerFree { node, stops });
        owner.memory.settle_writes_of(OWNER);
        let torn = self.faults.torn_writes.strikes(&mut self.rng);
        let mut memory = RegionMemory {
            memory: &mut owner.memory,
            region: 0,
            next: torn.then_some(self.settlings),
        };
        let next = handler.go_on(&mut memory, to_nanos(self.now));
        let settlings = memory.next.unwrap_or(self.settlings);
        self.settle_in_order(node, settlings, free);
        if let Some(next) = next {
            self.plan_to_go_on(node, from_nanos(next).max(free));
        }
        self.take_answered();
    }

    /// Plans when a node's handler goes on: at that instant at the latest.
    fn plan_to_go_on(&mut self, node: u16, at: Picos) {
        let calls = &mut self.nodes[usize::from(node)].calls;
        let stops = calls.stops;
        let is_sooner = match calls.goes_on {
            GoesOn::Never => true,
            GoesOn::At(planned) => planned <= self.now || at < planned,
            GoesOn::NextFree => false,
        };
        if is_sooner {
            calls.goes_on = GoesOn::At(at);
            self.queue.push(at, Event::GoOn { node, stops });
        }
    }

    /// Runs the handler, and posts the reply unless that comes later, or another does before it.
    pub(super) fn handle(&mut self, number: u32) {
        let op = &self.ops[number];
        let (client, node) = (op.client, op.node);
        if op.lost == Some(Loss::NodeStopped) {
            self.is_lost(number);
            return;
        }
        // The thread may have been suspended since it took the call.
        let runs_at = self.faults.runs_at(node, self.now);
        if runs_at > self.now {
            self.tell(number, format_args!("waits for an owner that is paused"));
            return self.queue.push(runs_at, Event::Handle { op: number });
        }
        let free = self.now + self.costs.doorbell + self.costs.post;
        let answer = self.run_handler(number, free);
        let stops = self.nodes[usize::from(node)].calls.stops;
        self.queue.push(free, Event::HandlerFree { node, stops });
        match answer {
            CallAnswer::Now(bytes) if self.pair(client, node).held.is_empty() => {
                self.ops[number].found = bytes as u64;
                self.post_reply(number, free);
            }
            answer => {
                if matches!(answer, CallAnswer::Later(_)) {
                    self.plan_to_go_on(node, free);
                }
                self.hold_back(number, answer);
                self.queue.push(free, Event::AnswerCame { client, node });
            }
        }
        self.stop_node_in_time(number);
        self.take_answered();
    }

    /// Posts the reply of a call, which is in its data, by a thread that is free then.
    fn post_reply(&mut self, number: u32, free: Picos) {
        let op = &mut self.ops[number];
        op.started = free;
        let (client, node) = (op.client, op.node);
        let host = self.nodes[usize::from(node)].host as usize;
        let pair = CacheEntry::QueuePair { client, node };
        let misses = self.hosts[host].cache.miss(pair);
        self.ops[number].missed_cache = misses > 0;
        self.tell(number, format_args!("is answered by the owner"));
        self.answer(number);
    }

    /// Keeps an answer, or that it comes later, until those before it of the queue pair have gone;
    /// no longer than its client waits.
    fn hold_back(&mut self, number: u32, answer: CallAnswer) {
        let op = &mut self.ops[number];
        let (client, node) = (op.client, op.node);
        let (region, request) = (RegionId(op.operands[0] as u16), op.bytes as usize);
        let reply = std::mem::take(&mut op.data);
        let held = &mut self.clients[client as usize].pairs[usize::from(node)].held;
        match answer {
            CallAnswer::Now(bytes) => {
                let reply: &[u8] = bytemuck::cast_slice(&reply);
                held.put_answer(number, Ok(reply[..bytes].into()));
            }
            CallAnswer::Later(later) => {
                held.wait(number, region, request, later);
                self.tell(number, format_args!("is to be answered later"));
            }
        }
        let deadline = self.deadline(number).max(self.now);
        // One that is waited for without end has none.
        if deadline < Picos::MAX {
            self.queue.push(deadline, Event::Overdue { op: number });
        }
    }

    /// Plans to post the answers that have come since, as soon as the owner runs.
    pub(super) fn take_answered(&mut self) {
        for (client, node) in self.answered.take() {
            let runs_at = self.faults.runs_at(node, self.now);
            let at = runs_at + self.costs.doorbell + self.costs.post;
            self.queue.push(at, Event::AnswerCame { client, node });
        }
    }

    /// Posts the answers of a queue pair that are here and wait for none before them.
    pub(super) fn answer_held(&mut self, client: u32, node: u16) {
        let runs_at = self.faults.runs_at(node, self.now);
        if runs_at > self.now {
            return self.queue.push(runs_at, Event::AnswerCame { client, node });
        }
        let bell = self.answered.bell(client, node);
        while let Some((number, answer)) = self.pair(client, node).held.next(&bell) {
            let region = RegionId(self.ops[number].operands[0] as u16);
            match answer {
                Ok(reply) => {
                    let mut words = vec![0u64; reply.len().div_ceil(8)];
                    bytemuck::cast_slice_mut(&mut words)[..reply.len()].copy_from_slice(&reply);
                    self.digest.mix_all(&words);
                    self.ops[number].found = reply.len() as u64;
                    self.ops[number].data = words;
                    self.post_reply(number, self.now);
                }
                Err(_) => {
                    let node = NodeId(node);
                    let error = FabricError::Unanswered { node, region };
                    self.fail_with(number, error, self.now + self.costs.one_way);
                }
            }
        }
    }

    /// Fails a call whose client has waited for as long as it does, if its answer has not come.
    pub(super) fn give_up_overdue(&mut self, number: u32) {
        let op = &self.ops[number];
        let (client, node) = (op.client, op.node);
        // Its place may be another's by now, who waits for longer.
        if self.deadline(number) > self.now {
            return;
        }
        let over = self.pair(client, node).held.give_up(|held| *held == number);
        if !over.is_empty() {
            self.fail(number, Loss::NoAnswer);
            self.queue
                .push(self.now, Event::AnswerCame { client, node });
        }
    }

    /// Waits no more for the answers of a node; returns the calls.
    pub(super) fn give_up_held(&mut self, node: u16) -> Vec<u32> {
        let pairs = self.clients.iter_mut();
        let pairs = pairs.filter_map(|client| client.pairs.get_mut(usize::from(node)));
        pairs.flat_map(|pair| pair.held.give_up(|_| true)).collect()
    }

    /// Has the handler answer a call; what it stores is visible to all by `free`. A reply of now is
    /// in the call's data.
    fn run_handler(&mut self, number: u32, free: Picos) -> CallAnswer {
        let op = &mut self.ops[number];
        let owner = &mut self.nodes[usize::from(op.node)];
        let Some(handler) = owner.calls.handler.clone() else {
            unreachable!("a handler goes only with its node's stop, which loses the call");
        };
        owner.memory.settle_writes_of(OWNER);
        let request = std::mem::take(&mut op.data);
        let mut reply = vec![0u64; (op.operands[1] as usize).div_ceil(8)];
        let capacity = op.operands[1] as usize;
        let info = owner.memory.info(op.operands[0] as u16);
        let start = RemoteAddr {
            node: NodeId(op.node),
            region: RegionId(op.operands[0] as u16),
            offset: 0,
        };
        let allowed = |bytes: Range<u64>, needed| {
            let offset = bytes.start;
            let len = bytes.end.saturating_sub(offset);
            check_access(RemoteAddr { offset, ..start }, len, needed, &info)
        };
        let torn = self.faults.torn_writes.strikes(&mut self.rng);
        let mut memory = RegionMemory {
            memory: &mut owner.memory,
            region: op.operands[0] as u16,
            next: torn.then_some(self.settlings),
        };
        let answer = handler.handle(Call {
            region: RegionId(op.operands[0] as u16),
            now: to_nanos(op.started),
            request: &bytemuck::cast_slice(&request)[..op.bytes as usize],
            memory: &mut memory,
            reply: &mut bytemuck::cast_slice_mut(&mut reply)[..capacity],
            caller: &allowed,
        });
        let settlings = memory.next.unwrap_or(self.settlings);
        let answer = match answer {
            CallAnswer::Now(bytes) => CallAnswer::Now(bytes.min(capacity)),
            CallAnswer::Later(later) => CallAnswer::Later(later.within(capacity)),
        };
        op.data = reply;
        self.digest.mix_all(&op.data);
        let node = op.node;
        self.settle_in_order(node, settlings, free);
        answer
    }

    /// Has the stores that wait become visible one after the other until `free`.
    fn settle_in_order(&mut self, node: u16, until: u32, free: Picos) {
        let mut at = self.now;
        while self.settlings != until {
            let settling = self.settlings;
            self.settlings = settling.wrapping_add(1);
            at = self.rng.random_range(at..=free);
            self.queue.push(at, Event::Settle { node, settling });
        }
    }

    /// Occupies the owner's NIC with a reply; returns when it leaves.
    pub(super) fn send_reply(&mut self, number: u32, ready: Picos) -> Picos {
        let op = &self.ops[number];
        let host = self.nodes[usize::from(op.node)].host as usize;
        let misses = u64::from(op.missed_cache);
        let occupancy = self.costs.requester(1, op.found) + misses * self.costs.miss_occupancy;
        let leaves = self.hosts[host].request(ready, occupancy);
        self.hosts[host].send(leaves, self.costs.on_link(op.found))
    }

    /// Ends a call at its client. It is alone in that: the verbs of its doorbell have ended, or
    /// will.
    pub(super) fn complete_call(&mut self, number: u32) {
        let client = self.ops[number].client;
        if self.clients[client as usize].stopped {
            self.discard(number);
        } else {
            self.clients[client as usize].arrived.push(number);
            self.notify(client);
        }
    }
}

/// A region as a handler sees it.
struct RegionMemory<'m> {
    memory: &'m mut Memory,
    region: u16,
    /// The settling of the next store, if clients see stores late.
    next: Option<u32>,
}

impl RegionMemory<'_> {
    fn check(&self, offset: u64, words: usize) -> Result<u64> {
        let bytes = self.bytes();
        check_words(RegionId(self.region), offset, words, bytes).map(|word| word as u64)
    }

    fn put(&mut self, word: u64, value: u64) {
        let mask = u64::MAX;
        let value = Masked { value, mask };
        match &mut self.next {
            None => self.memory.write(self.region, word, value),
            Some(next) => {
                if self.memory.is_pending(self.region, word) {
                    // This store would show the earlier one to this word before those in between.
                    self.memory.settle_writes_of(OWNER);
                }
                self.memory
                    .write_pending((OWNER, *next), self.region, word, value);
                *next = next.wrapping_add(1);
            }
        }
    }
}

impl OwnerMemory for RegionMemory<'_> {
    fn bytes(&self) -> u64 {
        self.memory.bytes(self.region)
    }

    fn load(&self, offset: u64) -> Result<u64> {
        let mut word = [0];
        self.copy_out(offset, &mut word)?;
        Ok(word[0])
    }

    fn store(&mut self, offset: u64, value: u64) -> Result<()> {
        let word = self.check(offset, 1)?;
        self.put(word, value);
        Ok(())
    }

    fn compare_swap(&mut self, offset: u64, expected: u64, new: u64) -> Result<u64> {
        let word = self.check(offset, 1)?;
        // As a client's atomic it shows all that was stored before.
        self.memory.settle_writes_of(OWNER);
        let word = self.memory.word_mut(self.region, word);
        let seen = *word;
        if seen == expected {
            *word = new;
        }
        Ok(seen)
    }

    fn copy_out(&self, offset: u64, into: &mut [u64]) -> Result<()> {
        let first = self.check(offset, into.len())?;
        self.memory.read(OWNER, self.region, first, into);
        Ok(())
    }

    fn copy_in(&mut self, offset: u64, words: &[u64]) -> Result<()> {
        let first = self.check(offset, words.len())?;
        for (word, value) in (first..).zip(words) {
            self.put(word, *value);
        }
        Ok(())
    }
}
