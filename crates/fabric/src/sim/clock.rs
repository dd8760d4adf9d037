//! The unit of the virtual clock, and the queue of events.

use crate::Nanos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Picoseconds: occupancies are fractions of nanoseconds, and must not lose them.
pub type Picos = u64;

const PICOS_PER_NANO: u64 = 1000;

/// A number of a profile as a span.
pub(super) fn from_ns(ns: f64) -> Picos {
    (ns * PICOS_PER_NANO as f64).round() as Picos
}

/// An instant that the users of a world gave.
pub(super) const fn from_nanos(nanos: Nanos) -> Picos {
    nanos.saturating_mul(PICOS_PER_NANO)
}

/// An instant as the users of a world see it.
pub(super) const fn to_nanos(picos: Picos) -> Nanos {
    picos / PICOS_PER_NANO
}

/// Something that happens at an instant. Numbers index the tables of the world's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    /// The NIC takes a batch from the client.
    Depart { batch: u32 },
    /// A verb reaches the node.
    Arrive { op: u32 },
    /// Some words of a torn read are copied.
    Sample { op: u32, first: u32, words: u32 },
    /// Some words of a write become visible to everybody.
    Settle { node: u16, settling: u32 },
    /// An answer reaches the client's NIC, or a verb that gets none fails.
    Respond { op: u32 },
    /// A message that found the receive queue full is tried again.
    RetryMessage { client: u32, node: u16 },
    /// A thread of a node's owner has taken in a call.
    Handle { op: u32 },
    /// A thread of a node's owner is through with a call; the node had stopped so many times
    /// before.
    HandlerFree { node: u16, stops: u32 },
    /// The handler of a node's owner is to go on with what it answers later; the node had stopped
    /// so many times before.
    GoOn { node: u16, stops: u32 },
    /// The oldest call of a queue pair that is answered later may be answered by now.
    AnswerCame { client: u32, node: u16 },
    /// A call that is answered later has had its time.
    Overdue { op: u32 },
    /// A fault of the plan with that number sets in.
    Fault { plan: u32, fault: u32 },
}

impl Event {
    /// The event as a number, for the digest of a run.
    pub(super) fn fingerprint(self) -> u64 {
        let (kind, a, b) = match self {
            Self::Depart { batch } => (1, batch, 0),
            Self::Arrive { op } => (2, op, 0),
            Self::Sample { op, first, words } => (3, op, first ^ words.rotate_left(16)),
            Self::Settle { node, settling } => (4, settling, u32::from(node)),
            Self::Respond { op } => (5, op, 0),
            Self::RetryMessage { client, node } => (6, client, u32::from(node)),
            Self::Fault { plan, fault } => (7, plan, fault),
            Self::Handle { op } => (8, op, 0),
            Self::HandlerFree { node, stops } => (9, u32::from(node), stops),
            Self::AnswerCame { client, node } => (10, client, u32::from(node)),
            Self::Overdue { op } => (11, op, 0),
            Self::GoOn { node, stops } => (12, u32::from(node), stops),
        };
        (kind << 60) ^ (u64::from(b) << 28) ^ u64::from(a)
    }
}

struct Entry {
    at: Picos,
    number: u64,
    event: Event,
}

impl Entry {
    fn key(&self) -> (Picos, u64) {
        (self.at, self.number)
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// Events by their time, those of one instant in the order in which they were put in.
#[derive(Default)]
pub(super) struct EventQueue {
    heap: BinaryHeap<Reverse<Entry>>,
    next: u64,
}

impl EventQueue {
    pub(super) fn push(&mut self, at: Picos, event: Event) {
        let number = self.next;
        self.next += 1;
        self.heap.push(Reverse(Entry { at, number, event }));
    }

    pub(super) fn next_time(&self) -> Option<Picos> {
        self.heap.peek().map(|entry| entry.0.at)
    }

    pub(super) fn pop(&mut self) -> Option<(Picos, Event)> {
        self.heap.pop().map(|entry| (entry.0.at, entry.0.event))
    }
}

/// A running hash of everything that happens in a world: two runs are the same run if theirs agree.
#[derive(Clone, Copy)]
pub(super) struct Digest(u64);

impl Digest {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    #[inline]
    pub(super) const fn mix(&mut self, value: u64) {
        self.0 = (self.0 ^ value)
            .wrapping_mul(0xbf58_476d_1ce4_e5b9)
            .rotate_left(29);
    }

    pub(super) fn mix_all(&mut self, values: &[u64]) {
        values.iter().for_each(|value| self.mix(*value));
    }

    pub(super) const fn value(self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 31)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 29)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_then_by_order_of_arrival() {
        let mut queue = EventQueue::default();
        for (at, op) in [(20, 0), (10, 1), (20, 2), (10, 3)] {
            queue.push(at, Event::Arrive { op });
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        let expected = [(10, 1), (10, 3), (20, 0), (20, 2)];
        assert_eq!(order, expected.map(|(at, op)| (at, Event::Arrive { op })));
    }

    #[test]
    fn fractions_of_a_nanosecond_survive() {
        assert_eq!(from_ns(15.0 + 0.0713), 15_071);
        assert_eq!(to_nanos(from_nanos(7)), 7);
    }
}
