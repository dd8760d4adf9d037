//! The owner's side: one thread that answers the calls of all channels, the application's if it
//! wants to.

use super::MOST_CHANNELS;
use super::channel::{
    BYTES, ChannelSide, Damaged, LONGEST, REQUEST_HEAD, RingConsumer, RingDirection, RingProducer,
    ShmChannel,
};
use crate::error::os;
use crate::event_loop::{EventLoop, OwnThread, ServeLoop, Shift};
use crate::held_answers::HeldAnswers;
use crate::memory::{Mapping, Node, sealed_file};
use crate::net::spin::SpinPolicy;
use crate::net::wire::{encode_failure, words_of};
use crate::shm::fd_passing;
use crate::verb::check_access;
use crate::{
    CallAnswer, FabricError, Nanos, NodeId, RegionId, RegionInfo, RemoteAddr, Result, Rights,
};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

/// How long the thread looks for requests before it sleeps, at most.
const SPIN: Nanos = 50_000;
/// Requests of one channel that are answered in a round.
const TURN: usize = 64;
/// How long a channel's turn may take before no more of its requests is answered in the round.
const LONGEST_TURN: Duration = Duration::from_micros(100);
/// Replies that may be there before they are published.
const TOGETHER: usize = 8;
/// Rounds with something to do after which the sockets are looked at.
const ROUNDS: u32 = 1024;
/// Bytes that a channel keeps for its next request.
const KEPT: usize = 64 << 10;

/// What answers calls of other processes to a node, until it is dropped.
pub(in crate::shm) struct RingCallService {
    shared: Arc<RingServiceState>,
    thread: Mutex<Option<OwnThread>>,
}

struct RingServiceState {
    node: Node,
    /// Channels that the thread has not taken up yet.
    arrived: Mutex<Vec<Answerer>>,
    has_arrived: AtomicBool,
    open: AtomicUsize,
    /// Wakes who runs a round.
    wake: OwnedFd,
}

impl RingCallService {
    /// Nobody calls yet. The node has no companion: its holders may drop it meanwhile.
    ///
    /// # Errors
    /// What the system says.
    pub(in crate::shm) fn new(node: Node) -> Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let shared = RingServiceState {
            node,
            arrived: Mutex::default(),
            has_arrived: AtomicBool::new(false),
            open: AtomicUsize::new(0),
            wake: eventfd(0, flags).map_err(os("eventfd"))?,
        };
        Ok(Self {
            shared: Arc::new(shared),
            thread: Mutex::default(),
        })
    }

    /// Opens a channel for a client who asked for it by this socket.
    ///
    /// # Errors
    /// What the system says; [`FabricError::Os`] where there are too many.
    pub(in crate::shm) fn admit(&self, stream: UnixStream, rights: Rights) -> Result<()> {
        let memory = self
            .open(&stream)
            .inspect_err(|_| fd_passing::refuse(&stream))?;
        let Some(memory) = memory else {
            return Ok(());
        };
        self.shared.open.fetch_add(1, Ordering::AcqRel);
        let channel = ShmChannel::new(memory, stream);
        self.shared.arrived().push(Answerer::new(channel, rights));
        self.shared.has_arrived.store(true, Ordering::Release);
        self.shared.wake();
        Ok(())
    }

    /// What answers the calls, for the application to do; nothing if it does so already.
    pub(in crate::shm) fn event_loop(&self) -> Result<Option<EventLoop<'_>>> {
        Ok(self.started()?.lend())
    }

    /// The memory of a new channel, which the client has; nothing if that has gone already.
    fn open(&self, stream: &UnixStream) -> Result<Option<Mapping>> {
        let open = self.shared.open.load(Ordering::Acquire);
        if open >= MOST_CHANNELS {
            return Err(FabricError::Os {
                call: "opening a channel for calls",
                error: format!("{open} are open, the limit"),
            });
        }
        let file = sealed_file(BYTES)?;
        let memory = Mapping::of_file(file.as_fd(), true, 4096)?;
        self.started()?;
        Ok(fd_passing::hand_out(stream, file.as_fd()).then_some(memory))
    }

    /// The thread's shift; it is started if there is none.
    fn started(&self) -> Result<Arc<Shift>> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = &*thread {
            return Ok(Arc::clone(&thread.shift));
        }
        let to_wake = Arc::clone(&self.shared);
        let rounds = RingServeLoop::new(Arc::clone(&self.shared));
        let started = OwnThread::start("farslot-calls", rounds, move || to_wake.wake())?;
        let shift = Arc::clone(&started.shift);
        *thread = Some(started);
        Ok(shift)
    }
}

impl RingServiceState {
    fn arrived(&self) -> MutexGuard<'_, Vec<Answerer>> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // It can only fail where the counter is full, and then the thread is woken anyway.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// Ends the sleep of whoever runs a round, as a call is answered.
struct RoundBell(Arc<RingServiceState>);

impl Wake for RoundBell {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }
}

/// All channels, and what goes from round to round.
struct RingServeLoop {
    shared: Arc<RingServiceState>,
    channels: Vec<Answerer>,
    turn: AnswerTurn,
    spin: SpinPolicy,
    /// Rounds with something to do.
    busy: u32,
    started: Instant,
}

impl RingServeLoop {
    fn new(shared: Arc<RingServiceState>) -> Self {
        let bell = Waker::from(Arc::new(RoundBell(Arc::clone(&shared))));
        Self {
            shared,
            channels: Vec::new(),
            turn: AnswerTurn {
                room: Vec::new(),
                bell,
            },
            spin: SpinPolicy::new(SPIN),
            busy: 0,
            started: Instant::now(),
        }
    }

    /// Lets go of the channels that `stays` says no of.
    fn retain(&mut self, mut stays: impl FnMut(&mut Answerer, &Node, &mut AnswerTurn) -> bool) {
        let before = self.channels.len();
        let (node, turn) = (&self.shared.node, &mut self.turn);
        self.channels.retain_mut(|one| stays(one, node, turn));
        let gone = before - self.channels.len();
        self.shared.open.fetch_sub(gone, Ordering::AcqRel);
    }
}

impl ServeLoop for RingServeLoop {
    fn round(&mut self, most: Option<Duration>) -> Result<bool> {
        if self.shared.has_arrived.swap(false, Ordering::AcqRel) {
            self.channels.append(&mut self.shared.arrived());
        }
        let mut moved = false;
        self.retain(|channel, node, turn| match channel.turn(node, turn) {
            Ok(has_moved) => {
                moved |= has_moved;
                true
            }
            Err(end) => channel.ends(&end),
        });
        let now = self.started.elapsed().as_nanos() as Nanos;
        if moved {
            self.spin.has_come(now);
            self.busy = self.busy.wrapping_add(1);
            if !self.busy.is_multiple_of(ROUNDS) {
                return Ok(true);
            }
        } else if self.spin.goes_on(now) {
            std::hint::spin_loop();
            return Ok(false);
        }
        let most = if moved { Some(Duration::ZERO) } else { most };
        let closed = look_at_sockets(&self.channels, &self.shared.wake, most);
        let mut closed = closed.into_iter();
        self.retain(|channel, node, turn| {
            let is_closed = closed.next().unwrap_or(false);
            !is_closed || channel.finish(node, turn)
        });
        Ok(moved)
    }
}

/// Which channels' clients have gone. Sleeps for `most` at the longest until there is something to
/// do, unless there is.
fn look_at_sockets(channels: &[Answerer], wake: &OwnedFd, most: Option<Duration>) -> Vec<bool> {
    let sleeps = most.is_none_or(|most| !most.is_zero());
    let is_awake = !sleeps || {
        for one in channels {
            one.channel.falls_asleep(ChannelSide::Owner);
        }
        channels.iter().any(Answerer::has_work)
    };
    let mut waited = Vec::with_capacity(channels.len() + 1);
    waited.extend(
        channels
            .iter()
            .map(|one| PollFd::new(one.channel.stream(), PollFlags::IN)),
    );
    waited.push(PollFd::new(wake, PollFlags::IN));
    let at_once = Duration::ZERO;
    let most = if is_awake { Some(at_once) } else { most };
    // What is longer than the kernel knows is for ever.
    let most = most.and_then(|most| Timespec::try_from(most).ok());
    let end = poll(&mut waited, most.as_ref());
    let spoke: Vec<bool> = waited
        .iter()
        .map(|one| end.is_ok() && !one.revents().is_empty())
        .collect();
    drop(waited);
    if spoke.last() == Some(&true) {
        // What it says is in `shared`.
        let _ = rustix::io::read(wake, &mut [0u8; 8]);
    }
    let ends = channels.iter().zip(spoke);
    ends.map(|(one, spoke)| {
        if sleeps {
            one.channel.wakes_up(ChannelSide::Owner);
        }
        spoke && one.channel.is_closed()
    })
    .collect()
}

/// Why a channel ends.
enum RingCloseReason {
    /// It makes no sense.
    Damaged,
    GivenUp,
}

impl From<Damaged> for RingCloseReason {
    fn from(Damaged: Damaged) -> Self {
        Self::Damaged
    }
}

/// What channels use in turns.
struct AnswerTurn {
    /// Of a reply.
    room: Vec<u64>,
    /// Wakes who runs a round when a call is answered later.
    bell: Waker,
}

/// The owner's end of a channel.
struct Answerer {
    channel: ShmChannel,
    /// What the client said that it may do.
    rights: Rights,
    requests: RingConsumer,
    replies: RingProducer,
    /// What has come of a request, its head included.
    request: Vec<u64>,
    /// Words of a reply that there was no room for yet, from `sent` on.
    rest: Vec<u64>,
    sent: usize,
    /// The answers behind a call that is answered later.
    held: HeldAnswers<()>,
    /// Turns since its client has gone.
    last_turns: usize,
}

impl Answerer {
    fn new(channel: ShmChannel, rights: Rights) -> Self {
        Self {
            channel,
            rights,
            requests: RingConsumer::new(RingDirection::Requests),
            replies: RingProducer::new(RingDirection::Replies),
            request: Vec::new(),
            rest: Vec::new(),
            sent: 0,
            held: HeldAnswers::default(),
            last_turns: 0,
        }
    }

    /// Answers what there is, up to a limit; returns whether anything has moved.
    fn turn(
        &mut self,
        node: &Node,
        turn: &mut AnswerTurn,
    ) -> std::result::Result<bool, RingCloseReason> {
        let mut answered = 0;
        let mut moved = false;
        let since = Instant::now();
        while answered < TURN
            && since.elapsed() < LONGEST_TURN
            && self.send_rest()?
            && self.send_held(turn)?
            && self.fetch()?
            && !self.waits_for_answers()
        {
            self.answer(node, &mut turn.room)?;
            answered += 1;
            if answered % TOGETHER == 0 {
                moved |= self.replies.publish(self.channel.words());
            }
        }
        moved |= self.requests.release(self.channel.words());
        moved |= self.replies.publish(self.channel.words());
        if moved {
            self.channel.wake(ChannelSide::Client);
        }
        Ok(moved)
    }

    /// Whether a turn would move anything.
    fn has_work(&self) -> bool {
        // Positions that make no sense are work, too: the turn ends the channel.
        let words = self.channel.words();
        match self.rest.is_empty() {
            true if self.waits_for_answers() => false,
            true => !matches!(self.requests.is_empty(words), Ok(true)),
            false => !matches!(self.replies.is_full(words), Ok(true)),
        }
    }

    /// Says why it ends.
    fn ends(&self, end: &RingCloseReason) -> bool {
        if matches!(end, RingCloseReason::Damaged) {
            log::error!("a client's channel for calls is damaged: it is closed");
        }
        false
    }

    /// Answers some of what a client has left that has gone: its requests were posted. False once
    /// there are no more. The channel has its turns as before, lest the other clients wait for it.
    fn finish(&mut self, node: &Node, turn: &mut AnswerTurn) -> bool {
        // No sound client leaves more than a ring of requests.
        self.last_turns += 1;
        (self.sent, self.rest) = (0, Vec::new());
        self.held = HeldAnswers::default();
        matches!(self.turn(node, turn), Ok(true)) && self.last_turns < BYTES as usize / 8
    }

    /// Puts what is left of a reply; returns whether all of it is put.
    fn send_rest(&mut self) -> std::result::Result<bool, RingCloseReason> {
        if self.rest.is_empty() {
            return Ok(true);
        }
        let words = self.channel.words();
        let left = &self.rest[self.sent..];
        let now = self.replies.room(words, left.len())?;
        self.replies.put(words, &left[..now]);
        self.sent += now;
        if self.sent < self.rest.len() {
            return Ok(false);
        }
        self.rest.clear();
        self.rest.shrink_to(KEPT / 8);
        self.sent = 0;
        Ok(true)
    }

    /// Puts the answers that were held back and are here; returns whether there was room.
    fn send_held(&mut self, turn: &mut AnswerTurn) -> std::result::Result<bool, RingCloseReason> {
        while !self.held.is_empty()
            && self.rest.is_empty()
            && let Some(((), answer)) = self.held.next(&turn.bell)
        {
            match answer {
                Ok(reply) => {
                    let words = reply.len().div_ceil(8);
                    turn.room.resize(turn.room.len().max(words), 0);
                    let into: &mut [u8] = bytemuck::cast_slice_mut(&mut turn.room[..words]);
                    into[..reply.len()].copy_from_slice(&reply);
                    self.put_reply(reply.len(), &mut turn.room)?;
                }
                Err(error) => self.put_failure(&error)?,
            }
        }
        Ok(self.rest.is_empty())
    }

    /// Whether the request that is here is not begun before others are answered.
    fn waits_for_answers(&self) -> bool {
        self.held.is_full(LONGEST) && self.missing() == 0
    }

    /// Words of the request that have not come, as far as is known.
    fn missing(&self) -> usize {
        let has = self.request.len();
        let expected = match self.request.first() {
            Some(first) if has >= REQUEST_HEAD => REQUEST_HEAD + words_of(*first as u32),
            _ => REQUEST_HEAD,
        };
        expected - has
    }

    /// Takes what has come of a request; returns whether it is all there.
    fn fetch(&mut self) -> std::result::Result<bool, RingCloseReason> {
        let words = self.channel.words();
        loop {
            let (has, missing) = (self.request.len(), self.missing());
            if missing == 0 {
                return Ok(true);
            }
            let now = self.requests.available(words, missing)?;
            if now == 0 {
                return Ok(false);
            }
            self.requests.append(words, now, &mut self.request);
            let is_long = |bytes: u64| bytes > LONGEST as u64;
            if has < REQUEST_HEAD
                && self.request.len() == REQUEST_HEAD
                && (is_long(self.request[0] & 0xffff_ffff) || is_long(self.request[0] >> 32))
            {
                return Err(RingCloseReason::Damaged);
            }
        }
    }

    /// Answers the request that is there.
    fn answer(
        &mut self,
        node: &Node,
        room: &mut Vec<u64>,
    ) -> std::result::Result<(), RingCloseReason> {
        if self.channel.is_given_up() {
            return Err(RingCloseReason::GivenUp);
        }
        let head = self.request[0];
        let (bytes, reply) = (head as u32 as usize, (head >> 32) as usize);
        let words = reply.div_ceil(8);
        if room.len() < words {
            room.resize(words, 0);
        }
        let request = &bytemuck::cast_slice(&self.request[REQUEST_HEAD..])[..bytes];
        let into = &mut bytemuck::cast_slice_mut(&mut room[..words])[..reply];
        let region = RegionId(u16::try_from(self.request[1]).unwrap_or(u16::MAX));
        let answered = call(node, self.rights, (region, request), into);
        match answered {
            Ok(CallAnswer::Now(bytes)) if self.held.is_empty() => self.put_reply(bytes, room)?,
            Ok(CallAnswer::Now(bytes)) => self.held.put_answer((), Ok(into[..bytes].into())),
            Ok(CallAnswer::Later(later)) => self.held.wait((), region, request.len(), later),
            Err(error) if self.held.is_empty() => self.put_failure(&error)?,
            Err(error) => self.held.put_answer((), Err(error)),
        }
        self.request.clear();
        self.request.shrink_to(KEPT / 8);
        Ok(())
    }

    /// Puts a reply of so many bytes.
    fn put_reply(
        &mut self,
        bytes: usize,
        room: &mut [u64],
    ) -> std::result::Result<(), RingCloseReason> {
        let reply = &mut room[..bytes.div_ceil(8)];
        // What is behind a reply's end is another's.
        bytemuck::cast_slice_mut::<_, u8>(reply)[bytes..].fill(0);
        self.put(&[bytes as u64])?;
        self.put(reply)
    }

    fn put_failure(&mut self, error: &FabricError) -> std::result::Result<(), RingCloseReason> {
        let [_, rest @ ..] = encode_failure(error);
        self.put(&[1 << 32])?;
        self.put(&rest)
    }

    /// Puts words of a reply, or keeps what there is no room for.
    fn put(&mut self, reply: &[u64]) -> std::result::Result<(), RingCloseReason> {
        let words = self.channel.words();
        let now = match self.rest.is_empty() {
            true => self.replies.room(words, reply.len())?,
            false => 0,
        };
        self.replies.put(words, &reply[..now]);
        self.rest.extend_from_slice(&reply[now..]);
        Ok(())
    }
}

/// Has the node's handler answer a call.
fn call(
    node: &Node,
    rights: Rights,
    (region, request): (RegionId, &[u8]),
    reply: &mut [u8],
) -> Result<CallAnswer> {
    let unknown = FabricError::UnknownRegion {
        node: NodeId(0),
        region,
        regions: node.info().regions.len(),
    };
    let info = node.region(region.0.into()).ok_or(unknown)?;
    let granted = RegionInfo {
        rights: info.rights.masked_by(rights),
        ..*info
    };
    let at = |offset| RemoteAddr {
        node: NodeId(0),
        region,
        offset,
    };
    let handler = node.handler(NodeId(0), region)?;
    if !handler.checks_callers() {
        check_access(at(0), 0, Rights::CALL, &granted)?;
    }
    let allowed = |bytes: Range<u64>, needed| {
        let len = bytes.end.saturating_sub(bytes.start);
        check_access(at(bytes.start), len, needed, &granted)
    };
    Ok(node.answer_call(&*handler, region, request, reply, &allowed))
}
