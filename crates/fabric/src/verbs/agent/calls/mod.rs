//! The calls of all clients: one thread, one completion queue, a queue pair for each client.
//!
//! A client's first call has it ask for a [`Channel`] over its set-up connection: a second queue
//! pair, in a protection domain of its own, and [rooms](crate::verbs::rooms) for requests and
//! replies. The completions of all channels come to one queue, whatever their number, which the
//! thread polls for a while and then sleeps on. The application may do so in its place
//! ([`EventLoop`]).
//!
//! **Why not a shared receive queue.** Its receives would be everybody's: a client that sends more
//! than its credit would take those of others, whose requests the NIC would then refuse. Here each
//! queue pair has as many receives of its own as its client has credit, and none of them costs
//! memory, as a request's bytes go to its room.
//!
//! **Turns.** What has come waits at its channel, and channels have turns of a few calls each: a
//! client that sends as much as it can delays another by a turn.
//!
//! **Malice.** A client writes into its own room of requests and nowhere else. A request is copied
//! out before it is looked at; its immediate, its place and that of its reply are checked. A
//! client that makes no sense loses its channel and its connection.

mod channel;

use self::channel::CallBuffers;
pub(in crate::verbs::agent) use self::channel::Channel;
use super::permitted::Permitted;
use crate::error::os;
use crate::event_loop::{EventLoop, OwnThread, ServeLoop, Shift};
use crate::memory::Node;
use crate::net::agent::AgentTotals;
use crate::net::spin::SpinPolicy;
use crate::net::{Audit, Reports};
use crate::verbs::abi::ibv_wc;
use crate::verbs::device::Device;
use crate::verbs::resource::{CompletionChannel, CompletionQueue};
use crate::verbs::rooms::{Half, SLOTS};
use crate::{FabricError, Nanos, Result};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

/// How long the thread looks for requests before it sleeps, at most.
const SPIN: Nanos = 50_000;
/// Channels that are open at most.
const MOST_CHANNELS: usize = 256;
/// Completions that a channel may have in the queue: of its receives, and of its replies.
const OF_A_CHANNEL: usize = 2 * SLOTS as usize;
/// Completions that are taken at once.
const AT_ONCE: usize = 32;

/// The calls to a node.
pub(in crate::verbs::agent) struct CallResponder {
    node: Node,
    device: Arc<Device>,
    audit: Option<Arc<Audit>>,
    /// Has the clients' set-up connections look whether their channels have ended.
    bell: OnceLock<CallBell>,
    /// Nothing before a client asks.
    responder: Mutex<Option<ResponderThread>>,
}

type CallBell = Arc<dyn Fn() + Send + Sync>;

/// The thread that answers, and what it shares.
struct ResponderThread {
    shared: Arc<ResponderState>,
    thread: OwnThread,
}

/// What the thread shares with those who open and end channels.
struct ResponderState {
    node: Node,
    bell: Option<CallBell>,
    events: Arc<CompletionChannel>,
    completions: Arc<CompletionQueue>,
    /// By their numbers, which are never used again: what is left in the queue of a channel that
    /// has ended is nobody's.
    channels: Mutex<HashMap<u64, Arc<Channel>>>,
    /// Channels for which the queue has room, and how many of them are taken.
    most: usize,
    open: AtomicUsize,
    /// Of these, those that have ended, of whose completions some may be in the queue.
    ended: AtomicUsize,
    /// The numbers of channels whose oldest call is answered by now, and whether there are any.
    answered: Mutex<Vec<u64>>,
    has_answered: AtomicBool,
    wake: OwnedFd,
}

/// Has a channel put into line, as a call that is answered later is.
struct ChannelBell {
    // The state holds the channel, which holds this.
    shared: Weak<ResponderState>,
    channel: u64,
}

impl Wake for ChannelBell {
    fn wake(self: Arc<Self>) {
        if let Some(shared) = self.shared.upgrade() {
            shared.answered().push(self.channel);
            shared.has_answered.store(true, Ordering::Release);
            shared.wake();
        }
    }
}

impl CallResponder {
    pub(super) fn new(node: &Node, device: &Arc<Device>, audit: Option<Arc<Audit>>) -> Self {
        Self {
            node: node.clone(),
            device: Arc::clone(device),
            audit,
            bell: OnceLock::new(),
            responder: Mutex::default(),
        }
    }

    /// Has clients whose channels end for their own fault told so by what this calls.
    pub(super) fn tell_by(&self, bell: impl Fn() + Send + Sync + 'static) {
        // It is told once, before there are clients or soon after.
        let _ = self.bell.set(Arc::new(bell));
    }

    fn responder(&self) -> MutexGuard<'_, Option<ResponderThread>> {
        self.responder
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of the thread, which is started if there is none, and what it does.
    fn started(&self) -> Result<(Arc<ResponderState>, Arc<Shift>)> {
        let mut responder = self.responder();
        if let Some(responder) = &*responder {
            let ResponderThread { shared, thread } = responder;
            return Ok((Arc::clone(shared), Arc::clone(&thread.shift)));
        }
        let shared = Arc::new(ResponderState::new(
            &self.node,
            &self.device,
            self.bell.get().cloned(),
        )?);
        let to_wake = Arc::clone(&shared);
        let rounds = ChannelServeLoop::new(Arc::clone(&shared), self.audit.clone());
        let thread = OwnThread::start("farslot-calls", rounds, move || to_wake.wake())?;
        let shift = Arc::clone(&thread.shift);
        *responder = Some(ResponderThread {
            shared: Arc::clone(&shared),
            thread,
        });
        Ok((shared, shift))
    }

    /// What the thread does, for the application to do; nothing if it does so already.
    pub(super) fn event_loop(&self) -> Result<Option<EventLoop<'_>>> {
        let (_, shift) = self.started()?;
        Ok(shift.lend())
    }

    /// Whether what has been started is at work.
    pub(super) fn is_serving(&self) -> bool {
        let responder = self.responder();
        responder
            .as_ref()
            .is_none_or(|responder| !responder.thread.is_finished())
    }

    /// Channels for which room is taken.
    #[cfg(test)]
    pub(super) fn open_channels(&self) -> usize {
        let responder = self.responder();
        let open = responder.as_ref().map(|responder| &responder.shared.open);
        open.map_or(0, |open| open.load(Ordering::Acquire))
    }

    /// Opens a channel for a client; returns what to tell it.
    ///
    /// # Errors
    /// [`FabricError::NoQueuePair`], [`FabricError::LockedMemory`], [`FabricError::Os`] where there
    /// are too many; what the system says.
    pub(super) fn open(
        &self,
        client: &Half,
        permitted: &Arc<Permitted>,
        patience: Duration,
        totals: &Arc<AgentTotals>,
    ) -> Result<(Arc<Channel>, Half)> {
        let (shared, _) = self.started()?;
        let one_more = |open| (open < shared.most).then_some(open + 1);
        let reserved = shared
            .open
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more);
        if let Err(open) = reserved {
            return Err(FabricError::Os {
                call: "opening a queue pair for calls",
                error: format!("{open} are open, the limit"),
            });
        }
        let opened = Channel::open(&self.device, &shared.completions, client, patience);
        let opened = opened.map(|(opened, half)| {
            let bell = Waker::from(Arc::new(ChannelBell {
                shared: Arc::downgrade(&shared),
                channel: opened.number(),
            }));
            let channel = Arc::new(opened.of(Arc::clone(permitted), Arc::clone(totals), bell));
            let mut channels = shared.channels();
            channels.insert(channel.number, Arc::clone(&channel));
            (channel, half)
        });
        if opened.is_err() {
            shared.has_ended();
        }
        opened
    }

    /// Ends a channel: none of its calls is executed any more when this returns.
    pub(super) fn end(&self, channel: &Channel) {
        let shared = match &*self.responder() {
            Some(responder) => Arc::clone(&responder.shared),
            None => return,
        };
        shared.end(channel);
    }
}

impl ResponderState {
    fn new(node: &Node, device: &Arc<Device>, bell: Option<CallBell>) -> Result<Self> {
        let events = CompletionChannel::new(device)?;
        let of_device = usize::try_from(device.attributes.max_cqe).unwrap_or(0);
        let most = MOST_CHANNELS.min(of_device / OF_A_CHANNEL);
        let capacity = (most * OF_A_CHANNEL).max(1) as u32;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self {
            node: node.clone(),
            bell,
            completions: CompletionQueue::new(device, capacity, Some(Arc::clone(&events)))?,
            events,
            channels: Mutex::default(),
            most,
            open: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            answered: Mutex::default(),
            has_answered: AtomicBool::new(false),
            wake: eventfd(0, flags).map_err(os("eventfd"))?,
        })
    }

    fn channels(&self) -> MutexGuard<'_, HashMap<u64, Arc<Channel>>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answered(&self) -> MutexGuard<'_, Vec<u64>> {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the channels whose oldest call is answered by now, and which had nothing to do, to
    /// `ready`.
    fn collect_answered(&self, ready: &mut VecDeque<Arc<Channel>>) {
        if !self.has_answered.swap(false, Ordering::AcqRel) {
            return;
        }
        for number in std::mem::take(&mut *self.answered()) {
            let channel = self.channels().get(&number).cloned();
            ready.extend(channel.filter(|channel| channel.answer_came()));
        }
    }

    fn wake(&self) {
        // It can only fail where the counter is full, and then the thread is woken anyway.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    fn end(&self, channel: &Channel) {
        channel.end();
        if self.channels().remove(&channel.number).is_some() {
            self.has_ended();
        }
    }

    /// One channel less is open, once the queue has been emptied.
    fn has_ended(&self) {
        self.ended.fetch_add(1, Ordering::AcqRel);
        self.wake();
    }

    /// Leaves what has come with its channels; returns how much that was. Channels that have
    /// something to do and had not are added to `ready`.
    fn collect(&self, ready: &mut VecDeque<Arc<Channel>>) -> Result<usize> {
        let ended = self.ended.swap(0, Ordering::AcqRel);
        // SAFETY: zeros are a value of this plain structure of integers.
        let mut completions: [ibv_wc; AT_ONCE] = unsafe { std::mem::zeroed() };
        let mut all = 0;
        loop {
            let count = self.completions.poll(&mut completions)?;
            for completion in &completions[..count] {
                let channel = {
                    let channels = self.channels();
                    channels.get(&Channel::number_of(completion)).cloned()
                };
                let Some(channel) = channel else {
                    continue;
                };
                match channel.came(completion) {
                    Ok(true) => ready.push_back(channel),
                    Ok(false) => {}
                    Err(end) => self.give_up(&channel, &end),
                }
            }
            all += count;
            if count < AT_ONCE {
                // Nothing of those that had ended before is left.
                self.open.fetch_sub(ended, Ordering::AcqRel);
                return Ok(all);
            }
        }
    }

    #[cold]
    fn give_up(&self, channel: &Channel, end: &channel::ChannelCloseReason) {
        log::warn!("the calls of a client end: {end}");
        self.end(channel);
        if let Some(bell) = &self.bell {
            bell();
        }
    }
}

/// What goes from round to round.
struct ChannelServeLoop {
    shared: Arc<ResponderState>,
    /// Channels that have something to do.
    ready: VecDeque<Arc<Channel>>,
    scratch: CallBuffers,
    spin: SpinPolicy,
    is_armed: bool,
    started: Instant,
}

impl ChannelServeLoop {
    fn new(shared: Arc<ResponderState>, audit: Option<Arc<Audit>>) -> Self {
        Self {
            shared,
            ready: VecDeque::new(),
            scratch: CallBuffers::new(Reports::new(audit)),
            spin: SpinPolicy::new(SPIN),
            is_armed: false,
            started: Instant::now(),
        }
    }
}

impl ServeLoop for ChannelServeLoop {
    fn round(&mut self, most: Option<Duration>) -> Result<bool> {
        let shared = &*self.shared;
        let came = shared.collect(&mut self.ready)?;
        shared.collect_answered(&mut self.ready);
        let now = self.started.elapsed().as_nanos() as Nanos;
        if let Some(channel) = self.ready.pop_front() {
            self.spin.has_come(now);
            match channel.turn(&shared.node, &mut self.scratch) {
                Ok(true) => self.ready.push_back(channel),
                Ok(false) => {}
                Err(end) => shared.give_up(&channel, &end),
            }
            return Ok(true);
        }
        if came > 0 || self.spin.goes_on(now) {
            std::hint::spin_loop();
            return Ok(false);
        }
        if most.is_some_and(|most| most.is_zero()) {
            return Ok(false);
        }
        if !self.is_armed {
            shared.completions.arm()?;
            // What came before is not told of: it is looked for once more.
            self.is_armed = true;
            return Ok(false);
        }
        let mut files = [
            PollFd::new(&*shared.events, PollFlags::IN),
            PollFd::new(&shared.wake, PollFlags::IN),
        ];
        // What is longer than the kernel knows is for ever.
        let most = most.and_then(|most| Timespec::try_from(most).ok());
        // Interrupted or not, the next round looks for itself.
        let _ = poll(&mut files, most.as_ref());
        if !files[0].revents().is_empty() {
            shared.events.clear();
            self.is_armed = false;
        }
        if !files[1].revents().is_empty() {
            let _ = rustix::io::read(&shared.wake, &mut [0u8; 8]);
        }
        Ok(false)
    }
}
