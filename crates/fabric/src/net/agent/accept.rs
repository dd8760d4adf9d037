//! Accepts connections from the listening socket and spreads them over the threads.

use super::counters::count;
use super::shared::{AgentCore, Newcomer};
use crate::error::Refusal;
use crate::net::socket::prepare;
use rustix::event::epoll::{self, EventData, EventFlags};
use smallvec::SmallVec;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long none are taken after the process ran out of files or memory.
const PAUSE: Duration = Duration::from_millis(100);
/// The most that are taken in a turn.
const A_TURN: usize = 2;
/// Connections over the limit that are told so; more are closed without a word.
const TURNED_AWAY: usize = 64;

/// The token of the listening socket in a thread's epoll.
pub(crate) const LISTENER: u64 = u64::MAX - 1;

pub(crate) struct Acceptor {
    listener: TcpListener,
    paused_until: Option<Instant>,
    /// The thread that the next one goes to.
    next: usize,
}

impl Acceptor {
    pub(crate) fn new(listener: TcpListener) -> Self {
        Self {
            listener,
            paused_until: None,
            next: 0,
        }
    }

    pub(crate) fn watch(&self, epoll: &OwnedFd) -> rustix::io::Result<()> {
        let data = EventData::new_u64(LISTENER);
        epoll::add(epoll, &self.listener, data, EventFlags::IN)
    }

    pub(crate) fn paused_until(&self) -> Option<Instant> {
        self.paused_until
    }

    /// Ends a pause that is over.
    pub(crate) fn go_on(&mut self, epoll: &OwnedFd, now: Instant) {
        if self.paused_until.is_some_and(|until| now >= until) {
            self.paused_until = match self.watch(epoll) {
                Ok(()) => None,
                Err(_) => Some(now + PAUSE),
            };
        }
    }

    /// Takes those that have come, each with the thread it goes to.
    pub(crate) fn accept(
        &mut self,
        epoll: &OwnedFd,
        shared: &AgentCore,
    ) -> SmallVec<[(usize, Newcomer); 8]> {
        let mut accepted = SmallVec::new();
        for _ in 0..A_TURN {
            let (stream, peer) = match self.listener.accept() {
                Ok(connected) => connected,
                Err(error) => {
                    match error.kind() {
                        ErrorKind::WouldBlock => {}
                        // That one has gone already; the others are told of again.
                        ErrorKind::ConnectionAborted | ErrorKind::Interrupted => {}
                        // Out of files or memory. The connection stays in the queue, and the
                        // listener readable: it is not looked at for a while.
                        _ => {
                            log::warn!("no connections are accepted for a while: {error}");
                            let _ = epoll::delete(epoll, &self.listener);
                            self.paused_until = Some(Instant::now() + PAUSE);
                        }
                    }
                    break;
                }
            };
            count(&shared.served.totals.accepted, 1);
            let limit = shared.connections;
            let held = shared.served.totals.connections.load(Ordering::Relaxed);
            // Nothing ever blocks on a client; one that cannot be set up so is let go.
            if held >= limit.saturating_add(TURNED_AWAY)
                || stream.set_nonblocking(true).is_err()
                || prepare(&stream, shared.peer_timeout).is_err()
            {
                count(&shared.served.totals.turned_away, 1);
                continue;
            }
            shared
                .served
                .totals
                .connections
                .fetch_add(1, Ordering::Relaxed);
            let refusal = (held >= limit).then(|| Refusal::TooManyConnections {
                limit: u32::try_from(limit).unwrap_or(u32::MAX),
            });
            let newcomer = Newcomer {
                stream,
                peer,
                refusal,
            };
            accepted.push((self.next, newcomer));
            self.next = (self.next + 1) % shared.inboxes.len();
        }
        accepted
    }
}
