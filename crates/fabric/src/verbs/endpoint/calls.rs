//! The calls of an endpoint to one node: a queue pair of their own, from the first call on.
//!
//! As many are on their way as there are slots; others wait here. Requests go out of the callers'
//! buffers. Replies come into a room, and are copied out once they are whole: a node that writes
//! there at the wrong time may spoil a reply, and nothing else.

use super::common::{CompletionCount, PeerContext, local};
use super::connect::NicResources;
use super::setup::Setup;
use crate::error::Malformed;
use crate::net::wire::{FrameKind, decode_failure};
use crate::verbs::abi::{IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_SUCCESS, ibv_wc};
use crate::verbs::memory::{Inlet, Outlet};
use crate::verbs::path::{self, QueuePairAddress};
use crate::verbs::resource::{CompletionQueue, QueuePair, QueuePairCapacity};
use crate::verbs::rooms::{
    CallHeader, FAILURE_REPLY_WORDS, GRANULE, HEAD_BYTES, Half, LONGEST, ROOM, Ring,
    RingAllocation, SLOTS, decode_imm, reply_room, request_imm,
};
use crate::verbs::work::{KeyedAddress, ScatterGatherEntry, WorkList};
use crate::{Buffer, FabricError, Nanos, NodeId, RegionId, Result, Rights};
use std::collections::VecDeque;
use std::sync::Arc;

/// The calls to a node that have not ended, and what carries them.
#[derive(Default)]
pub(in crate::verbs) struct CallsInFlight {
    channel: ChannelState,
    /// Calls that were not sent yet.
    waiting: VecDeque<QueuedCall>,
    /// When the oldest call began to be waited for: its doorbell, or the reply before it.
    waiting_since: Nanos,
}

/// A call to be sent.
pub(super) struct QueuedCall {
    pub(super) slot: u32,
    pub(super) region: RegionId,
    pub(super) request: Buffer,
    /// The most bytes of the reply.
    pub(super) reply_bytes: usize,
}

#[derive(Default)]
enum ChannelState {
    /// Nobody has called, or the node had no room.
    #[default]
    None,
    /// The agent is asked for its end.
    Opening(Box<ClientChannelEnd>),
    Open(Box<Channel>),
}

/// This side's end.
struct ClientChannelEnd {
    // Before the memory that it uses.
    queue_pair: QueuePair,
    completions: Arc<CompletionQueue>,
    local: QueuePairAddress,
    replies: Inlet,
    /// The first word of the request in each slot.
    heads: Outlet,
}

struct Channel {
    // Before the buffers: then the NIC uses none of them.
    ends: ClientChannelEnd,
    node: Half,
    /// The calls without a reply, in the order of their numbers.
    flying: VecDeque<CallInFlight>,
    /// Requests that the NIC has not said to be sent, which keep their buffers so long.
    unsent: VecDeque<(u64, Buffer)>,
    /// The number of the next call.
    next: u64,
    request_room: Ring,
    reply_room: Ring,
    work: WorkList,
    /// The channel of completions will tell of the next.
    is_armed: bool,
}

/// A call without a reply.
struct CallInFlight {
    slot: u32,
    request: RingAllocation,
    reply: RingAllocation,
    reply_bytes: usize,
}

/// Why no call can be carried any more.
pub(super) enum ChannelFailure {
    /// A work request has failed, with this status.
    Status(u32, u32),
    /// The node has written what makes no sense.
    Malformed(Malformed),
    Failed(FabricError),
}

/// Requests that the NIC may not have said to be sent.
const MOST_UNSENT: usize = 2 * SLOTS as usize;
/// Completions that there may be: of requests and of replies.
const COMPLETIONS: u32 = 3 * SLOTS as u32;
/// Completions that are taken at once.
const AT_ONCE: usize = 32;
/// The bit of a work request's identity that says that it is a request's.
const IS_REQUEST: u64 = 1 << 63;

/// Checks the lengths of a call.
///
/// # Errors
/// [`FabricError::BufferTooLarge`].
pub(super) fn check_lengths(request: usize, reply: usize) -> Result<()> {
    let requested = request.max(reply);
    if requested > LONGEST {
        return Err(FabricError::BufferTooLarge {
            requested,
            limit: LONGEST,
        });
    }
    Ok(())
}

impl ClientChannelEnd {
    fn new(nic: &NicResources, inline_bytes: u32) -> Result<Self> {
        let domain = &nic.domain;
        let events = Some(Arc::clone(&nic.channel));
        let completions = CompletionQueue::new(&nic.device, COMPLETIONS, events)?;
        let replies = Inlet::new(domain, ROOM)?;
        let heads = Outlet::new(domain, usize::from(SLOTS) * HEAD_BYTES)?;
        let capacity = QueuePairCapacity {
            sends: MOST_UNSENT as u32,
            pieces: 2,
            receives: SLOTS.into(),
            inline_bytes,
        };
        let queue_pair = QueuePair::new(domain, &completions, None, capacity)?;
        path::initialise(&queue_pair, &nic.device, Rights::WRITE)?;
        (0..SLOTS).try_for_each(|_| queue_pair.post_receive(0))?;
        Ok(Self {
            local: QueuePairAddress::of(&queue_pair, &nic.device, 1),
            queue_pair,
            completions,
            replies,
            heads,
        })
    }

    /// What the agent is told.
    fn half(&self) -> Half {
        Half {
            end: self.local,
            slots: SLOTS,
            key: self.replies.key(),
            bytes: ROOM as u32,
            address: self.replies.address(),
        }
    }

    /// Connects it to the agent's end.
    fn connect(&self, nic: &NicResources, agent: &Half, verb_timeout: Nanos) -> Result<()> {
        path::receive(&self.queue_pair, &nic.device, &agent.end, 1, 1)?;
        path::send(&self.queue_pair, &self.local, 1, verb_timeout)
    }
}

impl CallsInFlight {
    /// Adds a call, which is sent with the next doorbell or later.
    pub(super) fn put(&mut self, call: QueuedCall) {
        self.waiting.push_back(call);
    }

    /// Whether any call has not ended.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty() || self.is_flying()
    }

    /// Whether any reply is to come.
    #[inline]
    fn is_flying(&self) -> bool {
        matches!(&self.channel, ChannelState::Open(channel) if !channel.flying.is_empty())
    }

    /// When the calls are given up.
    pub(super) fn give_up_at(&self, verb_timeout: Nanos) -> Nanos {
        self.waiting_since.saturating_add(verb_timeout)
    }

    /// Sends what may be sent now; asks for a channel if there is none. Returns what failed without
    /// being sent.
    pub(super) fn send(
        &mut self,
        setup: &Setup,
        common: &PeerContext<'_>,
        now: impl FnOnce() -> Nanos,
    ) -> std::result::Result<CompletionCount, ChannelFailure> {
        if self.waiting.is_empty() {
            return Ok(CompletionCount::default());
        }
        let was_waiting = self.is_flying() || matches!(self.channel, ChannelState::Opening(_));
        if !was_waiting {
            self.waiting_since = now();
        }
        match &mut self.channel {
            ChannelState::None => match ClientChannelEnd::new(common.nic, common.inline_bytes) {
                Ok(ends) => {
                    setup.tell(&ends.half().encode(FrameKind::Calls));
                    self.channel = ChannelState::Opening(Box::new(ends));
                    Ok(CompletionCount::default())
                }
                Err(error) => Ok(self.fail_waiting(&error, common)),
            },
            ChannelState::Opening(_) => Ok(CompletionCount::default()),
            ChannelState::Open(channel) => {
                let mut done = CompletionCount::default();
                while let Some(first) = self.waiting.front() {
                    match channel.place_for(first) {
                        Some(place) => {
                            if let Some(call) = self.waiting.pop_front() {
                                channel.put(call, place);
                            }
                        }
                        None if channel.can_hold(first) => break,
                        None => done += fail_first(&mut self.waiting, &channel.node, common),
                    }
                }
                channel.post()?;
                Ok(done)
            }
        }
    }

    /// Takes the agent's end, or that it has none.
    pub(super) fn opened(
        &mut self,
        agent: Option<Half>,
        common: &PeerContext<'_>,
        now: Nanos,
    ) -> std::result::Result<CompletionCount, ChannelFailure> {
        let ChannelState::Opening(ends) = std::mem::take(&mut self.channel) else {
            let reason = "an answer to what was not asked";
            return Err(ChannelFailure::Malformed(Malformed::Handshake { reason }));
        };
        let Some(agent) = agent else {
            let error = FabricError::Os {
                call: "opening a queue pair for calls",
                error: "the node has no more queue pairs, memory or room for them".into(),
            };
            return Ok(self.fail_waiting(&error, common));
        };
        if let Err(error) = ends.connect(common.nic, &agent, common.verb_timeout) {
            return Ok(self.fail_waiting(&error, common));
        }
        self.waiting_since = now;
        self.channel = ChannelState::Open(Box::new(Channel {
            ends: *ends,
            node: agent,
            flying: VecDeque::new(),
            unsent: VecDeque::new(),
            next: 0,
            request_room: Ring::new(agent.bytes),
            reply_room: Ring::new(ROOM as u32),
            work: WorkList::default(),
            is_armed: false,
        }));
        Ok(CompletionCount::default())
    }

    /// Has the calls fail that were not sent. Nothing that is asked for now is opened any more.
    pub(super) fn fail_unsent(
        &mut self,
        error: &FabricError,
        common: &PeerContext<'_>,
    ) -> CompletionCount {
        if let ChannelState::Opening(_) = self.channel {
            self.channel = ChannelState::None;
        }
        self.fail_waiting(error, common)
    }

    fn fail_waiting(&mut self, error: &FabricError, common: &PeerContext<'_>) -> CompletionCount {
        let mut arrivals = common.slots.arrivals();
        let mut done = CompletionCount::default();
        for call in self.waiting.drain(..) {
            arrivals.fail(call.slot, error.clone());
            done.verbs += 1;
        }
        done
    }

    /// Takes the replies that have come.
    #[inline]
    pub(super) fn take(
        &mut self,
        node: NodeId,
        common: &PeerContext<'_>,
        now: impl Fn() -> Nanos,
    ) -> (CompletionCount, Option<ChannelFailure>) {
        let ChannelState::Open(channel) = &mut self.channel else {
            return (CompletionCount::default(), None);
        };
        if channel.is_quiet() {
            return (CompletionCount::default(), None);
        }
        let (replies, broken) = channel.take(node, common);
        if replies > 0 {
            self.waiting_since = now();
        }
        let done = CompletionCount {
            verbs: replies,
            requests: 0,
        };
        (done, broken)
    }

    /// Has the channel of completions tell of the next, if there will be one and it would not.
    pub(super) fn arm(&mut self) -> bool {
        match &mut self.channel {
            ChannelState::Open(channel) if !channel.is_armed && !channel.is_quiet() => {
                channel.is_armed = channel.ends.completions.arm().is_ok();
                channel.is_armed
            }
            _ => false,
        }
    }

    /// The channel of completions has told.
    pub(super) fn notified(&mut self) {
        if let ChannelState::Open(channel) = &mut self.channel {
            channel.is_armed = false;
        }
    }

    /// Ends the channel: the NIC uses nothing of what was sent any more. Returns the slots of the
    /// calls that had not ended, in the order of their posting.
    pub(super) fn end(&mut self) -> Vec<u32> {
        let mut slots = Vec::new();
        if let ChannelState::Open(channel) = std::mem::take(&mut self.channel) {
            slots.extend(channel.flying.iter().map(|flying| flying.slot));
        }
        slots.extend(self.waiting.drain(..).map(|call| call.slot));
        slots
    }
}

/// What a client that does not keep to its slots and places can do.
#[cfg(test)]
impl CallsInFlight {
    /// Writes bytes into the room of requests, with an immediate that says anything; returns
    /// whether there is a channel.
    pub(in crate::verbs) fn write_raw(&mut self, at: u64, bytes: &Buffer, imm: u32) -> bool {
        let ChannelState::Open(channel) = &mut self.channel else {
            return false;
        };
        let to = KeyedAddress {
            address: channel.node.address.wrapping_add(at),
            key: channel.node.key,
        };
        let bytes = local(bytes, 0, bytes.len());
        let inline = channel.ends.queue_pair.inline_bytes;
        channel
            .work
            .write_imm(IS_REQUEST, to, &[bytes], inline, imm);
        channel.post().is_ok()
    }
}

/// Has a call fail that the node has too little room for.
#[cold]
fn fail_first(
    waiting: &mut VecDeque<QueuedCall>,
    node: &Half,
    common: &PeerContext<'_>,
) -> CompletionCount {
    let mut done = CompletionCount::default();
    if let Some(call) = waiting.pop_front() {
        let error = FabricError::BufferTooLarge {
            requested: call.request.len(),
            limit: (node.bytes as usize).saturating_sub(HEAD_BYTES),
        };
        common.slots.arrivals().fail(call.slot, error);
        done.verbs = 1;
    }
    done
}

impl Channel {
    /// Whether nothing will complete.
    #[inline]
    fn is_quiet(&self) -> bool {
        self.flying.is_empty() && self.unsent.is_empty()
    }

    fn can_hold(&self, call: &QueuedCall) -> bool {
        self.request_room.can_hold(HEAD_BYTES + call.request.len())
    }

    /// Where a call's request and reply can be now.
    fn place_for(&self, call: &QueuedCall) -> Option<(RingAllocation, RingAllocation)> {
        let has_slot = self.flying.len() < self.node.slots.into();
        if !has_slot || self.unsent.len() >= MOST_UNSENT {
            return None;
        }
        let request = self.request_room.find(HEAD_BYTES + call.request.len())?;
        let reply = self.reply_room.find(reply_room(call.reply_bytes))?;
        Some((request, reply))
    }

    /// Adds a call to the list of the next doorbell.
    fn put(&mut self, call: QueuedCall, (request, reply): (RingAllocation, RingAllocation)) {
        self.request_room.take(request);
        self.reply_room.take(reply);
        let number = self.next;
        self.next += 1;
        let head = CallHeader {
            region: call.region,
            reply_at: reply.at,
            reply_bytes: call.reply_bytes as u32,
        };
        let head_at = (number % u64::from(SLOTS)) as usize * HEAD_BYTES;
        self.ends.heads.words_mut(head_at, 1)[0] = head.encode();
        let (address, key) = self.ends.heads.place(head_at);
        let head = ScatterGatherEntry {
            address,
            bytes: HEAD_BYTES as u32,
            key,
        };
        let body = local(&call.request, 0, call.request.len());
        let to = KeyedAddress {
            address: self.node.address + request.byte() as u64,
            key: self.node.key,
        };
        let imm = request_imm(number as u16, request.at);
        let inline = self.ends.queue_pair.inline_bytes;
        self.work
            .write_imm(number | IS_REQUEST, to, &[head, body], inline, imm);
        self.unsent.push_back((number, call.request));
        self.flying.push_back(CallInFlight {
            slot: call.slot,
            request,
            reply,
            reply_bytes: call.reply_bytes,
        });
    }

    /// Hands what was added to the NIC, by one doorbell.
    fn post(&mut self) -> std::result::Result<(), ChannelFailure> {
        if self.work.is_empty() {
            return Ok(());
        }
        // SAFETY: each request's bytes are of a buffer in `unsent`, which stays there until the NIC
        // says that it is sent or the queue pair is dropped, and of a word of `heads`. That is
        // written anew when the call has its reply: what the NIC may then still send again of the
        // request the node has taken already.
        unsafe { self.work.post(&self.ends.queue_pair) }.map_err(ChannelFailure::Failed)
    }

    /// Takes what has completed; returns how many calls have their replies.
    fn take(&mut self, node: NodeId, common: &PeerContext<'_>) -> (usize, Option<ChannelFailure>) {
        // SAFETY: zeros are a value of this plain structure of integers.
        let mut completions: [ibv_wc; AT_ONCE] = unsafe { std::mem::zeroed() };
        let mut replies = 0;
        loop {
            let count = match self.ends.completions.poll(&mut completions) {
                Ok(count) => count,
                Err(error) => return (replies, Some(ChannelFailure::Failed(error))),
            };
            for completion in &completions[..count] {
                match self.complete(completion, node, common) {
                    Ok(is_reply) => replies += usize::from(is_reply),
                    Err(broken) => return (replies, Some(broken)),
                }
            }
            if count < AT_ONCE {
                return (replies, None);
            }
        }
    }

    /// Takes a completion; returns whether it is a reply.
    fn complete(
        &mut self,
        completion: &ibv_wc,
        node: NodeId,
        common: &PeerContext<'_>,
    ) -> std::result::Result<bool, ChannelFailure> {
        if completion.status != IBV_WC_SUCCESS {
            return Err(ChannelFailure::Status(
                completion.status,
                completion.vendor_err,
            ));
        }
        if completion.wr_id & IS_REQUEST != 0 {
            let number = completion.wr_id & !IS_REQUEST;
            while self.unsent.front().is_some_and(|(sent, _)| *sent <= number) {
                self.unsent.pop_front();
            }
            return Ok(false);
        }
        let malformed = || ChannelFailure::Malformed(Malformed::Answer);
        let oldest = self.next - self.flying.len() as u64;
        let (number, is_failure) = decode_imm(u32::from_be(completion.imm_data));
        let flying = self.flying.front().ok_or_else(malformed)?;
        let bytes = completion.byte_len as usize;
        let fits = match is_failure {
            0 => bytes <= flying.reply_bytes,
            1 => bytes == FAILURE_REPLY_WORDS * 8,
            _ => false,
        };
        let is_expected = completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM && number == oldest as u16;
        if !fits || !is_expected {
            return Err(malformed());
        }
        let at = u64::from(flying.reply.at) * GRANULE as u64;
        let words = self.ends.replies.words();
        let mut arrivals = common.slots.arrivals();
        if is_failure == 0 {
            arrivals.replied(flying.slot, bytes, |into| words.copy_out(at, bytes, into));
        } else {
            let mut failure = [0; FAILURE_REPLY_WORDS];
            words.copy_out(at, bytes, &mut failure);
            let error = decode_failure(failure, node).map_err(ChannelFailure::Malformed)?;
            arrivals.fail(flying.slot, error);
        }
        drop(arrivals);
        self.request_room.give_back(flying.request);
        self.reply_room.give_back(flying.reply);
        self.flying.pop_front();
        let received = self.ends.queue_pair.post_receive(0);
        received.map_err(ChannelFailure::Failed)?;
        Ok(true)
    }
}
