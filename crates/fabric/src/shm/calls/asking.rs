//! The client's side: an endpoint's calls to nodes of other processes.

use super::channel::{
    BYTES, ChannelSide, Damaged, LONGEST, RingConsumer, RingDirection, RingProducer, ShmChannel,
};
use crate::memory::{Mapping, Node, check_sealed};
use crate::net::wire::{FAILURE_WORDS, decode_failure};
use crate::shm::attach::Attachment;
use crate::shm::fd_passing;
use crate::shm::settled::Settled;
use crate::{Buffer, FabricError, Nanos, NodeId, RegionId, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;

/// The longest sleep while a call is waited for: its deadline may pass meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);

/// An endpoint's channels, each opened by its first call.
#[derive(Default)]
pub(in crate::shm) struct CallChannels {
    channels: RefCell<Vec<Asker>>,
    /// Calls without a reply.
    open: Cell<usize>,
}

/// A call to be posted.
pub(in crate::shm) struct OutgoingCall {
    pub(in crate::shm) region: RegionId,
    pub(in crate::shm) request: Buffer,
    pub(in crate::shm) reply: Buffer,
    /// How long a reply is waited for, and until when.
    pub(in crate::shm) timeout: Nanos,
    pub(in crate::shm) deadline: Nanos,
}

impl CallChannels {
    /// Calls without a reply; they keep their places in the send queue.
    pub(in crate::shm) fn open(&self) -> usize {
        self.open.get()
    }

    /// Puts a call into the channel to its node.
    ///
    /// # Errors
    /// [`FabricError::BufferTooLarge`]; where there is no channel yet, those of attaching.
    pub(in crate::shm) fn post(
        &self,
        node: NodeId,
        attached: &Attachment,
        call: OutgoingCall,
    ) -> Result<Rc<Settled<Buffer>>> {
        let requested = call.request.len().max(call.reply.len());
        if requested > LONGEST {
            return Err(FabricError::BufferTooLarge {
                requested,
                limit: LONGEST,
            });
        }
        let mut channels = self.channels.borrow_mut();
        let life = attached.life();
        let at = match channels.iter().position(|asker| asker.node == node) {
            Some(at) if channels[at].life == life => at,
            // Its owner has ended since, and another has come.
            Some(at) => {
                let mut next = Asker::open(node, attached)?;
                std::mem::swap(&mut channels[at], &mut next);
                self.open.set(self.open.get() - next.pending.len());
                next.fail(FabricError::NodeStopped { node, sent: true });
                at
            }
            None => {
                channels.push(Asker::open(node, attached)?);
                channels.len() - 1
            }
        };
        let settled = channels[at].post(call);
        self.open.set(self.open.get() + 1);
        Ok(settled)
    }

    /// Sends off what was posted.
    pub(in crate::shm) fn ring(&self) {
        for asker in &mut *self.channels.borrow_mut() {
            asker.ring();
        }
    }

    /// Takes the replies that have come, and gives up what has no hope of one; returns how many
    /// calls were either.
    pub(in crate::shm) fn collect(&self, nodes: &[Node], now: Nanos) -> usize {
        let before = self.open.get();
        let mut open = 0;
        self.channels.borrow_mut().retain_mut(|asker| {
            let node = &nodes[usize::from(asker.node.0)];
            let life = node.companion().map_or(0, Attachment::life);
            let is_gone = node.is_barred() || asker.life != life;
            let stays = match asker.collect(is_gone, now) {
                Ok(()) => true,
                Err(error) => {
                    asker.fail(error);
                    false
                }
            };
            open += asker.pending.len();
            stays
        });
        self.open.set(open);
        before - open
    }

    /// Sleeps until a reply may have come, or for so long; false if none is waited for.
    pub(in crate::shm) fn sleep(&self, longest: Duration) -> bool {
        let mut channels = self.channels.borrow_mut();
        let mut waiting: Vec<&mut Asker> = channels
            .iter_mut()
            .filter(|asker| !asker.pending.is_empty())
            .collect();
        if waiting.is_empty() {
            return false;
        }
        for asker in &waiting {
            asker.channel.falls_asleep(ChannelSide::Client);
        }
        let longest = longest.min(LONGEST_SLEEP);
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: longest.subsec_nanos().into(),
        };
        if !waiting.iter().any(|asker| asker.has_work()) {
            let sockets = waiting.iter();
            let mut sockets: Vec<_> = sockets
                .map(|asker| PollFd::new(asker.channel.stream(), PollFlags::IN))
                .collect();
            // Interrupted, it looks again.
            let _ = poll(&mut sockets, Some(&timeout));
        }
        for asker in &mut waiting {
            asker.channel.wakes_up(ChannelSide::Client);
            asker.is_over |= asker.channel.is_closed();
        }
        true
    }
}

/// One channel.
struct Asker {
    node: NodeId,
    /// Which of the node's owners answers.
    life: u64,
    channel: ShmChannel,
    requests: RingProducer,
    replies: RingConsumer,
    /// Words of requests that there was no room for yet, with how many of each are put.
    unsent: VecDeque<(Words, usize)>,
    /// Calls without a reply, in the order of their posting.
    pending: VecDeque<PendingReply>,
    /// The head of the reply that is coming, and how many of its words are here.
    coming: Option<(u64, usize)>,
    failure: [u64; FAILURE_WORDS - 1],
    /// The owner has closed the channel.
    is_over: bool,
}

enum Words {
    Head([u64; 2]),
    Request(Buffer),
}

impl Words {
    fn words(&self) -> &[u64] {
        match self {
            Self::Head(head) => head,
            Self::Request(request) => request.words(),
        }
    }
}

struct PendingReply {
    reply: Buffer,
    timeout: Nanos,
    deadline: Nanos,
    settled: Rc<Settled<Buffer>>,
}

impl Asker {
    fn open(node: NodeId, attached: &Attachment) -> Result<Self> {
        let (name, life) = (&attached.name, attached.life());
        // One that is not there yet, or not any more.
        let connected = fd_passing::connect_for_calls(name, attached.rights);
        let (file, stream) = connected.map_err(|error| match error {
            FabricError::NoSuchRegion { .. } => FabricError::NodeStopped { node, sent: false },
            error => error,
        })?;
        check_sealed(file.as_fd(), &format!("a channel for calls to {name:?}"))?;
        let memory = Mapping::of_file(file.as_fd(), true, 4096)?;
        let bytes = memory.words().len() as u64 * 8;
        if bytes != BYTES {
            return Err(FabricError::DamagedHeader {
                subject: format!("a channel for calls to {name:?}"),
                reason: format!("it has {bytes} bytes, not {BYTES}"),
            });
        }
        Ok(Self {
            node,
            life,
            channel: ShmChannel::new(memory, stream),
            requests: RingProducer::new(RingDirection::Requests),
            replies: RingConsumer::new(RingDirection::Replies),
            unsent: VecDeque::new(),
            pending: VecDeque::new(),
            coming: None,
            failure: [0; FAILURE_WORDS - 1],
            is_over: false,
        })
    }

    fn post(&mut self, call: OutgoingCall) -> Rc<Settled<Buffer>> {
        let (bytes, room) = (call.request.len() as u64, call.reply.len() as u64);
        let head = [bytes | room << 32, call.region.0.into()];
        let settled = Rc::new(Settled::new());
        self.pending.push_back(PendingReply {
            reply: call.reply,
            timeout: call.timeout,
            deadline: call.deadline,
            settled: Rc::clone(&settled),
        });
        self.unsent.push_back((Words::Head(head), 0));
        if bytes > 0 {
            self.unsent.push_back((Words::Request(call.request), 0));
        }
        // What is damaged is told when replies are collected.
        let _ = self.send();
        settled
    }

    /// Puts what there is room for.
    fn send(&mut self) -> std::result::Result<(), Damaged> {
        let words = self.channel.words();
        while let Some((from, put)) = self.unsent.front_mut() {
            let left = &from.words()[*put..];
            let now = self.requests.room(words, left.len())?;
            self.requests.put(words, &left[..now]);
            *put += now;
            if *put < from.words().len() {
                break;
            }
            self.unsent.pop_front();
        }
        Ok(())
    }

    fn ring(&mut self) {
        if self.requests.publish(self.channel.words()) {
            self.channel.wake(ChannelSide::Owner);
        }
    }

    /// Whether a look at the channel would move anything.
    fn has_work(&self) -> bool {
        let words = self.channel.words();
        let is_waiting = matches!(self.replies.is_empty(words), Ok(true));
        let is_stuck = self.unsent.is_empty() || matches!(self.requests.is_full(words), Ok(true));
        self.is_over || !(is_waiting && is_stuck)
    }

    /// Takes the replies that have come.
    ///
    /// # Errors
    /// That of the call that was to be answered next, after which there is no channel.
    fn collect(&mut self, is_gone: bool, now: Nanos) -> Result<()> {
        let node = self.node;
        let stopped = FabricError::NodeStopped { node, sent: true };
        let moved = (|| {
            self.take_replies()?;
            self.send()
        })();
        if let Err(Damaged) = moved {
            log::error!("the channel for calls to node {} is damaged", node.0);
            return Err(stopped);
        }
        let words = self.channel.words();
        if self.replies.release(words) | self.requests.publish(words) {
            self.channel.wake(ChannelSide::Owner);
        }
        if self.is_over || is_gone {
            return Err(stopped);
        }
        match self.pending.front() {
            Some(first) if now > first.deadline => {
                let after = first.timeout;
                Err(FabricError::TimedOut { node, after })
            }
            _ => Ok(()),
        }
    }

    fn take_replies(&mut self) -> std::result::Result<(), Damaged> {
        let words = self.channel.words();
        while let Some(first) = self.pending.front_mut() {
            let (head, has) = match self.coming {
                Some(coming) => coming,
                None => {
                    if self.replies.available(words, 1)? == 0 {
                        return Ok(());
                    }
                    let mut head = [0];
                    self.replies.take(words, &mut head);
                    (head[0], 0)
                }
            };
            let (bytes, is_failure) = (head as u32 as usize, head >> 32 == 1);
            if bytes > first.reply.len() || head >> 33 != 0 {
                return Err(Damaged);
            }
            let into = match is_failure {
                true => &mut self.failure[..],
                false => &mut first.reply.words_mut()[..bytes.div_ceil(8)],
            };
            let now = self.replies.available(words, into.len() - has)?;
            self.replies.take(words, &mut into[has..has + now]);
            if has + now < into.len() {
                self.coming = Some((head, has + now));
                return Ok(());
            }
            self.coming = None;
            if let Some(mut done) = self.pending.pop_front() {
                done.settled.settle(match is_failure {
                    false => {
                        done.reply.truncate(bytes);
                        Ok(done.reply)
                    }
                    true => Err(decode_failure(self.failure, self.node).map_err(|_| Damaged)?),
                });
            }
        }
        Ok(())
    }

    /// Fails all calls: the first with its own error, those behind it since they come too late.
    fn fail(&mut self, error: FabricError) {
        self.channel.give_up();
        let node = self.node;
        let mut errors = Some(error);
        for pending in self.pending.drain(..) {
            let error = errors
                .take()
                .unwrap_or(FabricError::NodeStopped { node, sent: true });
            pending.settled.settle(Err(error));
        }
    }
}
