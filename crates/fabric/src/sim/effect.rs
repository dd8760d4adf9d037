//! The effects of verbs on memory, torn and delayed according to the fault plan.

use super::clock::{Event, Picos};
use super::faults::{Part, tear};
use super::state::State;
use crate::VerbKind;
use rand::seq::SliceRandom;

impl State {
    /// Lets a verb take effect, and sends its answer once it has.
    pub(super) fn execute(&mut self, number: u32) {
        match self.ops[number].kind {
            VerbKind::Read | VerbKind::ReadMany => self.read(number),
            VerbKind::Write => self.write(number),
            VerbKind::WriteImm => self.write_message(number),
            VerbKind::CompareSwap | VerbKind::FetchAdd => self.atomic(number),
            VerbKind::Call => self.receive_call(number),
        }
    }

    /// Tells what a verb has found or brought.
    fn tell_effect(&mut self, number: u32) {
        if self.trace.is_on() {
            let op = &self.ops[number];
            let event = op.effect().to_string();
            self.tell(number, format_args!("{event}"));
        }
    }

    fn read(&mut self, number: u32) {
        let words = self.ops[number].data.len() as u32;
        if words > 1 && self.faults.torn_reads.strikes(&mut self.rng) {
            return self.read_torn(number, words);
        }
        self.copy(number, 0, words);
        self.tell_effect(number);
        self.answer(number);
    }

    /// Copies the words in parts, each at its own time: in no order.
    fn read_torn(&mut self, number: u32, words: u32) {
        let parts = tear(words, &mut self.rng);
        self.tell(number, format_args!("is torn in {} parts", parts.len()));
        self.ops[number].parts_left = parts.len() as u32;
        for Part { first, words } in parts {
            let at = self.now + self.faults.torn_reads.span(&mut self.rng);
            let op = number;
            self.queue.push(at, Event::Sample { op, first, words });
        }
    }

    pub(super) fn sample(&mut self, number: u32, first: u32, words: u32) {
        self.copy(number, first, words);
        self.ops[number].parts_left -= 1;
        if self.ops[number].parts_left == 0 {
            self.tell_effect(number);
            self.answer(number);
        }
    }

    /// Copies some of the words of a read as they are now.
    fn copy(&mut self, number: u32, first: u32, words: u32) {
        let op = &mut self.ops[number];
        let memory = &self.nodes[usize::from(op.node)].memory;
        let (from, to) = (first as usize, (first + words) as usize);
        let mut base = 0;
        for span in &op.spans {
            let end = base + span.words();
            let (low, high) = (from.max(base), to.min(end));
            if low < high {
                let word = span.first_word + (low - base) as u64;
                memory.read(op.client, span.region, word, &mut op.data[low..high]);
            }
            base = end;
        }
        self.digest.mix_all(&op.data[from..to]);
    }

    fn write(&mut self, number: u32) {
        let words = self.ops[number].data.len() as u32;
        self.digest.mix_all(&self.ops[number].data);
        if self.faults.torn_writes.strikes(&mut self.rng) {
            self.tell(number, format_args!("is torn"));
            let span = |state: &mut Self| state.faults.torn_writes.span(&mut state.rng);
            let last = self.place_late(number, words, span);
            self.ops[number].started = self.ops[number].started.max(last);
        } else if self.faults.late_writes.strikes(&mut self.rng) {
            self.tell(number, format_args!("is seen by others only later"));
            self.place_late(number, words, |state| {
                state.faults.late_writes.span(&mut state.rng)
            });
        } else {
            self.place(number);
            self.tell_effect(number);
        }
        self.answer(number);
    }

    fn place(&mut self, number: u32) {
        let op = &self.ops[number];
        let memory = &mut self.nodes[usize::from(op.node)].memory;
        let span = op.spans[0];
        for index in 0..op.data.len() {
            let value = span.masked(&op.data, index);
            memory.write(span.region, span.first_word + index as u64, value);
        }
    }

    /// Places the words in parts that settle `span` from now each; returns when the last does.
    fn place_late(&mut self, number: u32, words: u32, span: impl Fn(&mut Self) -> Picos) -> Picos {
        let mut parts = tear(words, &mut self.rng);
        parts.shuffle(&mut self.rng);
        let mut last = self.now;
        for part in parts {
            let at = self.now + span(self);
            self.place_part(number, part, at);
            last = last.max(at);
        }
        last
    }

    fn place_part(&mut self, number: u32, part: Part, at: Picos) {
        let settling = self.settlings;
        self.settlings = self.settlings.wrapping_add(1);
        let op = &self.ops[number];
        let memory = &mut self.nodes[usize::from(op.node)].memory;
        let span = op.spans[0];
        for index in part.first as usize..(part.first + part.words) as usize {
            let word = span.first_word + index as u64;
            let value = span.masked(&op.data, index);
            memory.write_pending((op.client, settling), span.region, word, value);
        }
        let node = op.node;
        self.queue.push(at, Event::Settle { node, settling });
    }

    fn atomic(&mut self, number: u32) {
        let op = &mut self.ops[number];
        let memory = &mut self.nodes[usize::from(op.node)].memory;
        // What was written before an atomic of the same queue pair is seen by whoever sees the
        // atomic: that is how a write is published.
        memory.settle_writes_of(op.client);
        let word = memory.word_mut(op.spans[0].region, op.spans[0].first_word);
        op.found = *word;
        *word = op.atomic_result(*word);
        self.digest.mix_all(&[op.found, *word]);
        self.tell_effect(number);
        self.answer(number);
    }

    /// Places the words, then puts the message into the inbox, or lets it wait for room there.
    fn write_message(&mut self, number: u32) {
        let (client, node) = (self.ops[number].client, self.ops[number].node);
        self.digest.mix_all(&self.ops[number].data);
        self.nodes[usize::from(node)]
            .memory
            .settle_writes_of(client);
        self.place(number);
        self.deliver_or_wait(number);
    }

    /// Gives a message or a call to the node's owner, behind those of its queue pair that wait for
    /// room.
    pub(super) fn deliver_or_wait(&mut self, number: u32) {
        let (client, node) = (self.ops[number].client, self.ops[number].node);
        let earlier_waits = !self.pair(client, node).messages.is_empty();
        if earlier_waits || !self.deliver(number) {
            self.pair(client, node).messages.push_back(number);
            if !earlier_waits {
                self.retry_later(client, node);
            }
        }
    }

    fn retry_later(&mut self, client: u32, node: u16) {
        let at = self.now + self.costs.receiver_retry;
        self.queue.push(at, Event::RetryMessage { client, node });
    }

    /// Tries the messages of a queue pair again, the oldest first.
    pub(super) fn retry_message(&mut self, client: u32, node: u16) {
        while let Some(&number) = self.pair(client, node).messages.front() {
            if self.ops[number].lost.is_some() {
                self.is_lost(number);
            } else if !self.deliver(number) {
                if self.ops[number].retries < self.costs.profile().receiver_retries {
                    self.ops[number].retries += 1;
                    return self.retry_later(client, node);
                }
                self.refuse_message(number);
            }
            self.pair(client, node).messages.pop_front();
        }
    }

    /// Puts a message into the inbox and answers it, or a call into the queue of calls, if there is
    /// room.
    fn deliver(&mut self, number: u32) -> bool {
        if self.ops[number].kind == VerbKind::Call {
            return self.queue_call(number);
        }
        let op = &self.ops[number];
        let node = &mut self.nodes[usize::from(op.node)];
        if node.inbox.len() >= node.inbox_capacity {
            return false;
        }
        node.inbox.push_back(op.message());
        self.to_wake.append(&mut node.inbox_waiters);
        self.noticeable += 1;
        self.tell_effect(number);
        self.answer(number);
        true
    }
}
