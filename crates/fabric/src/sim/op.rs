//! Verbs in flight, and the batches that they leave in.

use super::clock::Picos;
use super::memory::Masked;
use crate::verb::Verb;
use crate::{Buffer, Completion, Message, RemoteAddr, Result, VerbKind};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::task::Waker;

/// A client thread of a world: the number of its endpoint, in the order in which they were made.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct ClientId(pub u32);

/// No operation, or no batch.
pub(super) const NONE: u32 = u32::MAX;

/// The batch of a verb that completes by itself: a call, whose reply is a message of its own.
pub(super) const ALONE: u32 = u32::MAX - 1;

/// Remote bytes, and the words that hold them.
#[derive(Clone, Copy, Debug)]
pub(super) struct WordSpan {
    pub(super) region: u16,
    pub(super) first_word: u64,
    /// Bytes of the first word before the span.
    shift: usize,
    len: usize,
}

impl WordSpan {
    fn new(at: RemoteAddr, len: usize) -> Self {
        Self {
            region: at.region.0,
            first_word: at.offset / 8,
            shift: if len == 0 {
                0
            } else {
                (at.offset % 8) as usize
            },
            len,
        }
    }

    pub(super) fn words(&self) -> usize {
        if self.len == 0 {
            return 0;
        }
        (self.shift + self.len).div_ceil(8)
    }

    /// First byte, and length in bytes.
    pub(super) fn bytes(&self) -> (u64, u64) {
        (self.first_word * 8 + self.shift as u64, self.len as u64)
    }

    /// The bits of word `index` that belong to the span.
    fn mask(&self, index: usize) -> u64 {
        let from = if index == 0 { self.shift } else { 0 };
        let to = (self.shift + self.len - 8 * index).min(8);
        (u64::MAX >> (64 - 8 * (to - from))) << (8 * from)
    }

    /// Word `index` of a write of `data`.
    pub(super) fn masked(&self, data: &[u64], index: usize) -> Masked {
        Masked {
            value: data[index],
            mask: self.mask(index),
        }
    }
}

/// How far a verb has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// Posted, on its way to the node, or waiting for that.
    Requested,
    /// Reached the node; its answer leaves at a time that is not known while words are copied.
    Executing,
    /// Its answer leaves the node then.
    Answering(Picos),
    /// Its answer has reached the client's host but waits for the link there.
    Receiving,
    /// It has failed, and will tell when its time is up.
    Failing,
    /// The endpoint may take its completion.
    Completed,
}

/// Why no answer of a verb that took effect will reach its client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Loss {
    NodeStopped,
    NoAnswer,
}

/// A posted verb. Slots are used again, with the memory of `data`.
pub(super) struct PostedVerb {
    pub(super) client: u32,
    pub(super) node: u16,
    /// Of the node that it was posted to.
    pub(super) incarnation: u64,
    pub(super) kind: VerbKind,
    pub(super) spans: SmallVec<[WordSpan; 1]>,
    /// The words that hold the spans, one span after the other: what a read found or a write
    /// brings.
    pub(super) data: Vec<u64>,
    /// Expected and new value, the addend, the immediate number, or of a call its region and the
    /// most bytes of its reply.
    pub(super) operands: [u64; 2],
    /// What an atomic found, or the bytes of a reply.
    pub(super) found: u64,
    /// Payload bytes.
    pub(super) bytes: u64,
    pub(super) batch: u32,
    pub(super) posted_at: Picos,
    /// Posted while verbs before it were lost and the client had not been told of all.
    pub(super) behind_a_loss: bool,
    pub(super) rung_at: Picos,
    /// When the responder starts on it, or the last of its words is copied.
    pub(super) started: Picos,
    pub(super) parts_left: u32,
    pub(super) retries: u32,
    pub(super) missed_cache: bool,
    pub(super) stage: Stage,
    pub(super) lost: Option<Loss>,
    pub(super) outcome: Result<()>,
    pub(super) waker: Option<Waker>,
    /// Whether somebody still wants the completion.
    pub(super) wanted: bool,
    /// A call whose client has been told that it timed out, and hears no more of it.
    pub(super) is_late: bool,
}

impl PostedVerb {
    pub(super) fn vacant() -> Self {
        Self {
            client: 0,
            node: 0,
            incarnation: 0,
            kind: VerbKind::Read,
            spans: SmallVec::new(),
            data: Vec::new(),
            operands: [0; 2],
            found: 0,
            bytes: 0,
            batch: NONE,
            posted_at: 0,
            behind_a_loss: false,
            rung_at: 0,
            started: 0,
            parts_left: 0,
            retries: 0,
            missed_cache: false,
            stage: Stage::Requested,
            lost: None,
            outcome: Ok(()),
            waker: None,
            wanted: false,
            is_late: false,
        }
    }

    /// Takes in a verb; returns the buffer that is to be filled.
    pub(super) fn load(&mut self, client: u32, verb: Verb) -> Option<Buffer> {
        self.client = client;
        self.node = verb.node().0;
        self.kind = verb.kind();
        self.bytes = verb.bytes();
        self.batch = NONE;
        self.retries = 0;
        self.missed_cache = false;
        self.stage = Stage::Requested;
        self.lost = None;
        self.outcome = Ok(());
        self.waker = None;
        self.wanted = true;
        self.is_late = false;
        self.spans.clear();
        self.data.clear();
        self.load_request(verb)
    }

    /// A call again, as it reaches the node after its client was told that it timed out.
    pub(super) fn late(&self) -> Self {
        Self {
            client: self.client,
            node: self.node,
            incarnation: self.incarnation,
            kind: self.kind,
            data: self.data.clone(),
            operands: self.operands,
            bytes: self.bytes,
            batch: ALONE,
            posted_at: self.posted_at,
            rung_at: self.rung_at,
            lost: Some(Loss::NoAnswer),
            is_late: true,
            ..Self::vacant()
        }
    }

    fn load_request(&mut self, verb: Verb) -> Option<Buffer> {
        match verb {
            Verb::Read { from, into } => {
                self.spans.push(WordSpan::new(from, into.len()));
                self.data.resize(self.spans[0].words(), 0);
                return Some(into);
            }
            Verb::ReadMany { pieces, into } => {
                let spans = pieces
                    .iter()
                    .map(|piece| WordSpan::new(piece.from, piece.len));
                self.spans.extend(spans);
                let words = self.spans.iter().map(WordSpan::words).sum();
                self.data.resize(words, 0);
                return Some(into);
            }
            Verb::Write { to, data } => self.load_write(to, &data),
            Verb::WriteImm { to, data, imm } => {
                self.operands = [u64::from(imm), 0];
                self.load_write(to, &data);
            }
            Verb::CompareSwap { at, expected, new } => {
                self.spans.push(WordSpan::new(at, 8));
                self.operands = [expected, new];
            }
            Verb::Call {
                region,
                request,
                reply,
                ..
            } => {
                self.operands = [u64::from(region.0), reply.len() as u64];
                self.found = 0;
                self.data.extend_from_slice(request.words());
                return Some(reply);
            }
            Verb::FetchAdd { at, add } => {
                self.spans.push(WordSpan::new(at, 8));
                self.operands = [add, 0];
            }
        }
        None
    }

    fn load_write(&mut self, to: RemoteAddr, data: &Buffer) {
        let span = WordSpan::new(to, data.len());
        self.data.resize(span.words(), 0);
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.data);
        bytes[span.shift..span.shift + span.len].copy_from_slice(data);
        self.spans.push(span);
    }

    /// Whether it takes one of the queue pair's places for outstanding reads.
    pub(super) fn is_limited(&self) -> bool {
        !self.kind.writes()
    }

    pub(super) fn is_atomic(&self) -> bool {
        matches!(self.kind, VerbKind::CompareSwap | VerbKind::FetchAdd)
    }

    /// What an atomic makes of a word.
    pub(super) fn atomic_result(&self, word: u64) -> u64 {
        let [first, second] = self.operands;
        match self.kind {
            VerbKind::FetchAdd => word.wrapping_add(first),
            _ if word == first => second,
            _ => word,
        }
    }

    /// The message that a `write_imm` leaves.
    pub(super) fn message(&self) -> Message {
        Message {
            imm: self.operands[0] as u32,
            len: self.bytes as u32,
        }
    }

    /// Payload bytes that travel to the node.
    pub(super) fn sent_bytes(&self) -> u64 {
        if self.is_limited() { 0 } else { self.bytes }
    }

    /// Payload bytes that travel back.
    pub(super) fn answered_bytes(&self) -> u64 {
        match self.kind {
            VerbKind::Call => self.found,
            _ if self.is_limited() => self.bytes,
            _ => 0,
        }
    }

    /// What the client gets of a verb that succeeded.
    pub(super) fn completion(&self, into: Option<Buffer>) -> Completion {
        match into {
            None if self.is_atomic() => Completion::Word(self.found),
            Some(mut reply) if self.kind == VerbKind::Call => {
                reply.truncate(self.found as usize);
                let words = reply.words_mut();
                words.copy_from_slice(&self.data[..words.len()]);
                Completion::Replied(reply)
            }
            Some(mut buffer) => {
                self.fill(&mut buffer);
                Completion::Filled(buffer)
            }
            None => Completion::Placed,
        }
    }

    fn fill(&self, buffer: &mut Buffer) {
        let bytes: &[u8] = bytemuck::cast_slice(&self.data);
        let (mut from, mut to) = (0, 0);
        for span in &self.spans {
            let source = from + span.shift;
            buffer[to..to + span.len].copy_from_slice(&bytes[source..source + span.len]);
            from += span.words() * 8;
            to += span.len.next_multiple_of(8);
        }
    }
}

/// The verbs that one doorbell sends over one queue pair. Only the last of them is signaled: they
/// complete together.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) client: u32,
    pub(super) node: u16,
    pub(super) ops: Vec<u32>,
    /// Verbs that were not answered yet.
    pub(super) open: u32,
}

/// Slots that are used again.
pub(super) struct SlotPool<T> {
    slots: Vec<T>,
    vacant: Vec<u32>,
}

impl<T> Default for SlotPool<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            vacant: Vec::new(),
        }
    }
}

impl<T> SlotPool<T> {
    /// A slot, as it was left or new.
    pub(super) fn take(&mut self, new: impl FnOnce() -> T) -> u32 {
        self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(new());
            (self.slots.len() - 1) as u32
        })
    }

    pub(super) fn free(&mut self, slot: u32) {
        self.vacant.push(slot);
    }

    /// Slots in use.
    pub(super) fn in_use(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        (0..).zip(&mut self.slots)
    }
}

impl<T> std::ops::Index<u32> for SlotPool<T> {
    type Output = T;
    #[inline]
    fn index(&self, slot: u32) -> &T {
        &self.slots[slot as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for SlotPool<T> {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut T {
        &mut self.slots[slot as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BufferPool, NodeId, RegionId};

    fn at(offset: u64) -> RemoteAddr {
        RemoteAddr {
            node: NodeId(0),
            region: RegionId(0),
            offset,
        }
    }

    #[test]
    fn masks_cover_exactly_the_bytes_of_a_span() {
        for offset in 0..8 {
            for len in 1..40 {
                let span = WordSpan::new(at(offset), len);
                let bits: u32 = (0..span.words()).map(|i| span.mask(i).count_ones()).sum();
                assert_eq!(bits as usize, 8 * len, "{offset} {len}");
            }
        }
        assert_eq!(WordSpan::new(at(3), 2).mask(0), 0xff_ff00_0000);
        assert_eq!(WordSpan::new(at(3), 0).words(), 0);
    }

    #[test]
    fn unaligned_bytes_go_out_and_come_back() {
        let pool = BufferPool::new(1 << 10, 1 << 16);
        let mut op = PostedVerb::vacant();
        let data = pool.copy_of(b"linear probing").unwrap();
        op.load(0, Verb::Write { to: at(5), data });
        let written = op.data.clone();
        let into = pool.take(14).unwrap();
        let into = op.load(0, Verb::Read { from: at(5), into });
        op.data = written;
        match op.completion(into) {
            Completion::Filled(buffer) => assert_eq!(&*buffer, b"linear probing"),
            other => panic!("{other:?}"),
        }
    }
}
