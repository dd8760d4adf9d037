//! The calls of one client.

use crate::error::Malformed;
use crate::held_answers::HeldAnswers;
use crate::memory::Node;
use crate::net::agent::{AgentTotals, TurnTraffic};
use crate::net::wire::encode_failure;
use crate::net::{AuditEvent, AuditKind, Reports};
use crate::verbs::abi::{IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_SUCCESS, ibv_wc};
use crate::verbs::agent::permitted::Permitted;
use crate::verbs::device::Device;
use crate::verbs::memory::{Inlet, Outlet};
use crate::verbs::path::{self, QueuePairAddress};
use crate::verbs::resource::{CompletionQueue, ProtectionDomain, QueuePair, QueuePairCapacity};
use crate::verbs::rooms::{
    CallHeader, FAILURE_REPLY_WORDS, GRANULE, HEAD_BYTES, Half, ROOM, SLOTS, decode_imm, reply_imm,
};
use crate::verbs::work::{KeyedAddress, ScatterGatherEntry, WorkList};
use crate::{
    CallAnswer, Caller, FabricError, NodeId, RegionId, RemoteAddr, Result, Rights, VerbKind,
};
use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

/// Calls of one channel that are answered in a turn.
const TURN: usize = 8;
/// How long a turn may take before it answers no more calls.
const LONGEST_TURN: Duration = Duration::from_micros(100);
/// Bytes that calls which wait for their answers may take before no more are begun: as many as a
/// sound client's lie in its rooms.
const MOST_HELD_BYTES: usize = 2 * ROOM;
/// Bytes that the thread keeps for the next request.
const KEPT: usize = 64 << 10;
/// Replies up to so many bytes go inline, where the device allows it.
const INLINE_BYTES: u32 = 128;

/// One client's queue pair for calls.
pub(in crate::verbs::agent) struct Channel {
    /// Of all channels of this process.
    pub(super) number: u64,
    permitted: Arc<Permitted>,
    totals: Arc<AgentTotals>,
    /// Has it put into line when a call is answered later.
    bell: Waker,
    /// Nothing once it has ended. Locked while a call is executed.
    state: Mutex<Option<State>>,
    /// Whoever ends it waits for that: no other call begins before.
    is_ending: AtomicBool,
}

/// What whoever answers has for one channel after the other.
pub(super) struct CallBuffers {
    /// Of a request.
    room: Vec<u64>,
    reports: Reports,
}

impl CallBuffers {
    pub(super) const fn new(reports: Reports) -> Self {
        Self {
            room: Vec::new(),
            reports,
        }
    }
}

/// A channel that is nobody's yet.
pub(super) struct UnclaimedChannel {
    number: u64,
    state: State,
}

struct State {
    // Before the memory that it uses.
    queue_pair: QueuePair,
    requests: Inlet,
    replies: Outlet,
    client: Half,
    /// The number of the next request.
    next: u16,
    /// Requests that have come: where each is in the room, and how long.
    waiting: VecDeque<(u16, u32)>,
    /// Replies that have not completed.
    unsent: u16,
    /// The answers behind a call that is answered later.
    held: HeldAnswers<ReplyPlace>,
    /// Whether it is in the line of channels that have something to do.
    is_in_line: bool,
    work: WorkList,
}

/// Of which call a reply is, and where it goes.
#[derive(Clone, Copy)]
struct ReplyPlace {
    number: u16,
    at: usize,
    /// Bytes that it may take, as a failure too.
    room: usize,
}

/// Why a channel ends.
#[derive(Debug)]
pub(super) enum ChannelCloseReason {
    /// Its client makes no sense.
    Malformed(Malformed),
    /// The client's NIC does not take what it is sent.
    Status(u32, u32),
    Failed(FabricError),
}

impl fmt::Display for ChannelCloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(malformed) => write!(f, "{malformed}"),
            Self::Status(status, vendor) => {
                write!(f, "a work request's status is {status} ({vendor:#x})")
            }
            Self::Failed(error) => write!(f, "{error}"),
        }
    }
}

impl From<FabricError> for ChannelCloseReason {
    fn from(error: FabricError) -> Self {
        Self::Failed(error)
    }
}

impl From<Malformed> for ChannelCloseReason {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

const fn malformed(reason: &'static str) -> Malformed {
    Malformed::Handshake { reason }
}

/// The bit of a work request's identity that says that it is a reply's.
const IS_REPLY: u64 = 1;

impl Channel {
    /// A queue pair that is connected to a client's; returns it with what to tell that.
    pub(super) fn open(
        device: &Arc<Device>,
        completions: &Arc<CompletionQueue>,
        client: &Half,
        patience: Duration,
    ) -> Result<(UnclaimedChannel, Half)> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        // Of its own: no key of another's memory is of use to this client's queue pair.
        let domain = ProtectionDomain::new(device)?;
        let requests = Inlet::new(&domain, ROOM)?;
        let replies = Outlet::new(&domain, client.bytes as usize)?;
        let capacity = QueuePairCapacity {
            sends: client.slots.into(),
            pieces: 1,
            receives: client.slots.into(),
            inline_bytes: INLINE_BYTES,
        };
        let queue_pair = QueuePair::new(&domain, completions, None, capacity)?;
        let end = QueuePairAddress::of(&queue_pair, device, 1);
        let patience = patience.as_nanos() as u64;
        path::initialise(&queue_pair, device, Rights::WRITE)?;
        (0..client.slots).try_for_each(|_| queue_pair.post_receive(number << 1))?;
        path::receive(
            &queue_pair,
            device,
            &client.end,
            1,
            path::room_timer(patience),
        )?;
        // A client waits twice as long for a verb as its messages wait for room.
        path::send(&queue_pair, &end, 1, patience.saturating_mul(2))?;
        let half = Half {
            end,
            slots: client.slots,
            key: requests.key(),
            bytes: ROOM as u32,
            address: requests.address(),
        };
        let state = State {
            queue_pair,
            requests,
            replies,
            client: *client,
            next: 0,
            waiting: VecDeque::with_capacity(client.slots.into()),
            unsent: 0,
            held: HeldAnswers::default(),
            is_in_line: false,
            work: WorkList::default(),
        };
        Ok((UnclaimedChannel { number, state }, half))
    }

    /// The channel that a completion is of.
    pub(super) fn number_of(completion: &ibv_wc) -> u64 {
        completion.wr_id >> 1
    }

    fn state(&self) -> MutexGuard<'_, Option<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends it: its NIC forgets what is on its way, and nothing more is executed.
    pub(super) fn end(&self) {
        self.is_ending.store(true, Ordering::Release);
        drop(self.state().take());
    }

    /// Whether it has ended, or is about to.
    pub(in crate::verbs::agent) fn has_ended(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }

    /// Takes a completion; returns whether there is something to do, and was not before.
    pub(super) fn came(
        &self,
        completion: &ibv_wc,
    ) -> std::result::Result<bool, ChannelCloseReason> {
        let mut state = self.state();
        let Some(state) = &mut *state else {
            return Ok(false);
        };
        if completion.status != IBV_WC_SUCCESS {
            return Err(ChannelCloseReason::Status(
                completion.status,
                completion.vendor_err,
            ));
        }
        if completion.wr_id & IS_REPLY != 0 {
            state.unsent -= 1;
        } else if completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM {
            state.arrived(u32::from_be(completion.imm_data), completion.byte_len)?;
        } else {
            return Err(malformed("a client sends what is no request").into());
        }
        Ok(state.come_into_line())
    }

    /// Takes it that a call is answered by now; returns whether there is something to do, and was
    /// not before.
    pub(super) fn answer_came(&self) -> bool {
        let mut state = self.state();
        state.as_mut().is_some_and(State::come_into_line)
    }

    /// Answers some of what has come; returns whether there is more to do.
    pub(super) fn turn(
        &self,
        node: &Node,
        scratch: &mut CallBuffers,
    ) -> std::result::Result<bool, ChannelCloseReason> {
        let since = Instant::now();
        for _ in 0..TURN {
            // Whoever ends the channel waits for this call at most.
            if self.has_ended() {
                return Ok(false);
            }
            let mut state = self.state();
            let Some(state) = &mut *state else {
                return Ok(false);
            };
            if !state.send_held(self)? {
                if !state.may_begin() {
                    state.is_in_line = false;
                    return Ok(false);
                }
                state.answer(self, node, scratch)?;
            }
            if since.elapsed() >= LONGEST_TURN {
                break;
            }
        }
        Ok(true)
    }

    /// Has the node's handler answer a call; returns whether the caller was refused a key in it
    /// besides.
    fn call(
        &self,
        node: &Node,
        region: RegionId,
        request: &[u8],
        reply: &mut [u8],
    ) -> Result<(CallAnswer, bool)> {
        let start = RemoteAddr {
            node: NodeId(0),
            region,
            offset: 0,
        };
        // The region is there, and the grant is in force.
        self.permitted.check(start, 0, Rights::NONE)?;
        let handler = node.handler(NodeId(0), region)?;
        if !handler.checks_callers() {
            // It may use all of the region.
            let region_info = self.permitted.regions.get(usize::from(region.0));
            let len = region_info.map_or(0, |info| info.len);
            self.permitted.check(start, len, Rights::CALL)?;
        }
        let caller = CallPermission {
            permitted: &self.permitted,
            region,
            refused: Cell::default(),
        };
        let answer = node.answer_call(&*handler, region, request, reply, &caller);
        Ok((answer, caller.refused.get()))
    }

    /// Counts and tells of what was refused.
    #[cold]
    fn refused(&self, error: &FabricError, reports: &mut Reports) {
        self.totals.verb_failed(error);
        reports.tell(&AuditEvent {
            kind: AuditKind::VerbRefused,
            peer: Some(self.permitted.peer),
            grant: Some(&self.permitted.grant.name),
            detail: Some(format_args!("{error}")),
        });
    }
}

impl UnclaimedChannel {
    /// Of all channels of this process.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The channel of a client who may do so much; `bell` has it put into line when a call is
    /// answered later.
    pub(super) fn of(
        self,
        permitted: Arc<Permitted>,
        totals: Arc<AgentTotals>,
        bell: Waker,
    ) -> Channel {
        Channel {
            number: self.number,
            permitted,
            totals,
            bell,
            state: Mutex::new(Some(self.state)),
            is_ending: AtomicBool::new(false),
        }
    }
}

impl State {
    /// Whether a request may be begun.
    fn may_begin(&self) -> bool {
        !self.waiting.is_empty()
            && self.unsent < self.client.slots
            && !self.held.is_full(MOST_HELD_BYTES)
    }

    /// Whether it has something to do, perhaps, and is not in line for that.
    fn come_into_line(&mut self) -> bool {
        let may_send = !self.held.is_empty() && self.unsent < self.client.slots;
        let comes = !self.is_in_line && (may_send || self.may_begin());
        self.is_in_line |= comes;
        comes
    }

    /// Takes up a request of so many bytes.
    fn arrived(&mut self, imm: u32, bytes: u32) -> std::result::Result<(), Malformed> {
        let (number, at) = decode_imm(imm);
        if number != self.next {
            return Err(malformed("a request's number is not that of the next"));
        }
        let start = usize::from(at) * GRANULE;
        if (bytes as usize) < HEAD_BYTES || start + bytes as usize > ROOM {
            return Err(malformed("a request is not within its room"));
        }
        self.next = number.wrapping_add(1);
        self.waiting.push_back((at, bytes));
        Ok(())
    }

    /// Answers the oldest request.
    fn answer(
        &mut self,
        channel: &Channel,
        node: &Node,
        scratch: &mut CallBuffers,
    ) -> std::result::Result<(), ChannelCloseReason> {
        let CallBuffers { room, reports } = scratch;
        let number = self.next.wrapping_sub(self.waiting.len() as u16);
        let Some((at, bytes)) = self.waiting.pop_front() else {
            return Ok(());
        };
        let words = (bytes as usize).div_ceil(8);
        room.resize(words, 0);
        let start = u64::from(at) * GRANULE as u64;
        self.requests.words().copy_out(start, bytes as usize, room);
        let (head, body) = room.split_at(1);
        let head = CallHeader::decode(head[0]);
        let request = &bytemuck::cast_slice(body)[..bytes as usize - HEAD_BYTES];
        let reply_at = usize::from(head.reply_at) * GRANULE;
        if reply_at + head.room() > self.client.bytes as usize {
            return Err(malformed("a reply's place is not within its room").into());
        }
        let reply_bytes = head.reply_bytes as usize;
        let into = self.replies.words_mut(reply_at, head.room().div_ceil(8));
        let reply = &mut bytemuck::cast_slice_mut(into)[..reply_bytes];
        let mut moved = TurnTraffic::default();
        moved.verb(VerbKind::Call);
        moved.written(request.len() as u32);
        let place = ReplyPlace {
            number,
            at: reply_at,
            room: head.room(),
        };
        match channel.call(node, head.region, request, reply) {
            Ok((answer, refused)) => {
                if refused {
                    let error = FabricError::KeyRefused { node: NodeId(0) };
                    channel.refused(&error, reports);
                }
                match answer {
                    CallAnswer::Now(bytes) if self.held.is_empty() => {
                        moved.read(bytes as u64);
                        self.send(channel, place, bytes, false)?;
                    }
                    CallAnswer::Now(bytes) => {
                        self.held.put_answer(place, Ok(reply[..bytes].into()));
                    }
                    CallAnswer::Later(later) => {
                        self.held.wait(place, head.region, request.len(), later);
                    }
                }
            }
            Err(error) => {
                channel.refused(&error, reports);
                if self.held.is_empty() {
                    self.send_failure(channel, place, &error)?;
                } else {
                    self.held.put_answer(place, Err(error));
                }
            }
        }
        channel.totals.add(&moved);
        room.truncate(KEPT / 8);
        room.shrink_to(KEPT / 8);
        Ok(())
    }

    /// Sends the oldest answer that was held back; returns whether it was there.
    fn send_held(&mut self, channel: &Channel) -> std::result::Result<bool, ChannelCloseReason> {
        if self.held.is_empty() || self.unsent >= self.client.slots {
            return Ok(false);
        }
        match self.held.next(&channel.bell) {
            None => return Ok(false),
            Some((place, Ok(reply))) => {
                let into = self.replies.words_mut(place.at, place.room.div_ceil(8));
                bytemuck::cast_slice_mut(into)[..reply.len()].copy_from_slice(&reply);
                let mut moved = TurnTraffic::default();
                moved.read(reply.len() as u64);
                channel.totals.add(&moved);
                self.send(channel, place, reply.len(), false)?;
            }
            Some((place, Err(error))) => {
                if let FabricError::Unanswered { .. } = error {
                    // The owner's fault, not the client's; of others it was told already.
                    channel.totals.verb_failed(&error);
                }
                self.send_failure(channel, place, &error)?;
            }
        }
        Ok(true)
    }

    fn send_failure(
        &mut self,
        channel: &Channel,
        place: ReplyPlace,
        error: &FabricError,
    ) -> std::result::Result<(), ChannelCloseReason> {
        let [_, rest @ ..] = encode_failure(error);
        let into = self.replies.words_mut(place.at, place.room.div_ceil(8));
        into[..FAILURE_REPLY_WORDS].copy_from_slice(&rest);
        self.send(channel, place, FAILURE_REPLY_WORDS * 8, true)
    }

    /// Sends a reply, of which so many bytes are in its place.
    fn send(
        &mut self,
        channel: &Channel,
        ReplyPlace { number, at, .. }: ReplyPlace,
        bytes: usize,
        is_failure: bool,
    ) -> std::result::Result<(), ChannelCloseReason> {
        // Before the client learns of the reply: its next request may use this receive. So no more
        // requests are here than it has slots, those included that wait for their answers.
        self.queue_pair.post_receive(channel.number << 1)?;
        let (address, key) = self.replies.place(at);
        let from = ScatterGatherEntry {
            address,
            bytes: bytes as u32,
            key,
        };
        let to = KeyedAddress {
            address: self.client.address + at as u64,
            key: self.client.key,
        };
        let id = channel.number << 1 | IS_REPLY;
        let inline = self.queue_pair.inline_bytes;
        let imm = reply_imm(number, is_failure);
        self.work.write_imm(id, to, &[from], inline, imm);
        // SAFETY: the bytes are of `replies`, which outlives the queue pair. A later reply may be
        // put there before this one has completed, if the client says so: then it is its own reply
        // whose bytes are mixed.
        unsafe { self.work.post(&self.queue_pair) }?;
        self.unsent += 1;
        Ok(())
    }
}

/// What a client may do in the region that it calls.
struct CallPermission<'p> {
    permitted: &'p Permitted,
    region: RegionId,
    /// Whether it was refused a key.
    refused: Cell<bool>,
}

impl Caller for CallPermission<'_> {
    fn check(&self, bytes: Range<u64>, needed: Rights) -> Result<()> {
        let at = RemoteAddr {
            node: NodeId(0),
            region: self.region,
            offset: bytes.start,
        };
        let len = bytes.end.saturating_sub(bytes.start);
        self.permitted.check(at, len, needed)
    }

    fn refused(&self) {
        self.refused.set(true);
    }

    fn grant(&self) -> Option<&str> {
        Some(&self.permitted.grant.name)
    }
}

/// Slots, requests and replies are counted by 16 bits.
const _: () = assert!(SLOTS > 0 && (SLOTS as usize) < u16::MAX as usize / 2);
