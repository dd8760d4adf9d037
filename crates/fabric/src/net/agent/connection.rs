//! One client's connection: its buffers, and how far the client has come.

use super::admit::refuse;
use super::counters::count;
use super::dialogue::{Dialogue, End, News, Warn};
use super::service::{Pause, Quota};
use super::shared::Shared;
use crate::error::Refusal;
use crate::net::admission::Issued;
use crate::net::admission::handshake::HELLO_WORDS;
use crate::net::audit::Reports;
use crate::net::socket::Io;
use crate::net::stream::{Inbound, LENT_BYTES, Outbound, RECEIVE_BYTES};
use crate::net::wire::FrameKind;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;

/// A client's connection. An idle one holds no buffers; one that has a part of a verb, or answers
/// that wait, holds about as many bytes.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    input: Inbound,
    out: Outbound,
    dialogue: Dialogue,
    /// The grant of a client that was admitted.
    grant: Option<Arc<Issued>>,
    /// Bytes that it was counted with.
    held: usize,
}

/// Buffers that connections use in turns.
pub(crate) struct Scratch {
    input: Inbound,
    out: Outbound,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        Self {
            input: Inbound::with_memory(),
            out: Outbound::default(),
        }
    }
}

/// What a connection waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wants {
    /// More from its client.
    Input,
    /// That its client takes what it was sent.
    Output,
    /// That a receiver has room for its message.
    Receiver,
    /// That some time has passed: its client asks too often for what it may not have.
    Rest,
    /// Nothing but its turn: there is more to do.
    Turn,
}

/// What came of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Turn {
    pub(crate) wants: Wants,
    /// Whether anything was received or done.
    pub(crate) active: bool,
    /// What it came to, as a [`Quota`] counts it.
    pub(crate) work: usize,
    /// Set in the turn in which it happened.
    pub(crate) news: Option<News>,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream, peer: SocketAddr, refusal: Option<Refusal>) -> Self {
        Self {
            stream,
            peer,
            input: Inbound::default(),
            out: Outbound::default(),
            dialogue: Dialogue::new(refusal),
            grant: None,
            held: 0,
        }
    }

    /// Whether it may serve verbs.
    pub(crate) fn is_serving(&self) -> bool {
        self.dialogue.is_serving()
    }

    /// The grant that its client was admitted under.
    pub(crate) fn grant(&self) -> Option<&Issued> {
        self.grant.as_deref()
    }

    /// The name of the grant that its client asks for or is served under, if it is at that.
    pub(crate) fn asked(&self) -> Option<&str> {
        self.dialogue.asked()
    }

    /// Whether its client was asked to prove that it knows a secret, and has not yet.
    pub(crate) fn is_unproved(&self) -> bool {
        self.dialogue.is_unproved()
    }

    /// Tells a client that took too long; it is told once, if it listens at all.
    pub(crate) fn refuse_late(&mut self, refusal: Refusal) -> bool {
        if !self.dialogue.is_handshake() {
            return false;
        }
        refuse(&mut self.out, refusal);
        self.out.send(&self.stream, FrameKind::Completions);
        true
    }

    /// Counts what it holds from now on.
    fn count(&mut self, held: usize, shared: &Shared) {
        if held != self.held {
            shared.served.room.change(self.held, held);
            if let Some(grant) = &self.grant {
                grant.room.change(self.held, held);
            }
            self.held = held;
        }
    }

    /// Lets go of its buffers.
    pub(crate) fn let_go(&mut self, shared: &Shared) {
        self.input = Inbound::default();
        self.out = Outbound::default();
        self.count(0, shared);
    }

    /// Does what can be done now.
    pub(crate) fn turn(
        &mut self,
        scratch: &mut Scratch,
        shared: &Shared,
        reports: &mut Reports,
    ) -> Result<Turn, End> {
        let mut turn = Turn {
            wants: Wants::Output,
            active: false,
            work: 0,
            news: None,
        };
        // Answers of its own go first, and nothing is done before they have gone.
        if !self.out.is_empty() {
            if !self.flush(&mut turn)? {
                return Ok(turn);
            }
            self.out = Outbound::default();
        }
        // The buffers are the thread's, but for a long part of a verb.
        let lent = self.input.len() <= LENT_BYTES;
        if lent {
            scratch.input.copy_rest(&self.input);
            std::mem::swap(&mut self.input, &mut scratch.input);
        }
        std::mem::swap(&mut self.out, &mut scratch.out);
        let advanced = self.advance(turn, shared, reports);
        if let Err(End::Malformed(_)) = advanced
            && !self.out.is_empty()
        {
            // The answers to the verbs before; the connection ends whether they go or not.
            self.out.send(&self.stream, FrameKind::Completions);
        }
        if advanced.is_err() {
            // Nothing of it may reach the next connection.
            self.out.clear();
            self.input.discard();
        }
        if lent {
            std::mem::swap(&mut self.input, &mut scratch.input);
            if !(self.input.is_empty() && scratch.input.is_empty()) {
                self.input = scratch.input.take_rest();
            }
        } else if self.input.len() <= LENT_BYTES {
            self.input = self.input.take_rest();
        }
        let rest = if self.out.is_empty() {
            Outbound::default()
        } else {
            self.out.take_rest()
        };
        scratch.out = std::mem::replace(&mut self.out, rest);
        self.count(self.input.memory() + self.out.memory(), shared);
        advanced
    }

    /// What it may come to in this turn.
    fn quota(&self, shared: &Shared) -> Quota {
        let served = &shared.served;
        let of_grant = self.grant.as_deref().map(|grant| &grant.room);
        let frame_bytes = served.frame_words as usize * 8;
        Quota {
            work: Quota::TURN,
            unsent: served.room.share(of_grant, served.unsent_bytes),
            at_once: served.room.share(of_grant, frame_bytes),
        }
    }

    fn advance(
        &mut self,
        mut turn: Turn,
        shared: &Shared,
        reports: &mut Reports,
    ) -> Result<Turn, End> {
        let mut quota = self.quota(shared);
        let mut received = false;
        loop {
            let warn = Warn {
                peer: self.peer,
                reports,
            };
            let (input, out) = (&mut self.input, &mut self.out);
            let gone_on = self.dialogue.go_on(input, out, shared, &mut quota, warn);
            turn.work = Quota::TURN - quota.work;
            let (pause, news) = gone_on?;
            if news == Some(News::Admitted) {
                self.grant = self.dialogue.grant().cloned();
            }
            turn.news = turn.news.or(news);
            turn.wants = if !self.flush(&mut turn)? {
                Wants::Output
            } else {
                match pause {
                    Pause::Full if quota.work > 0 => continue,
                    Pause::Full | Pause::Spent => Wants::Turn,
                    Pause::Resting => Wants::Rest,
                    Pause::Stalled => Wants::Receiver,
                    Pause::Hungry(wanted) if !received => {
                        received = true;
                        match self.receive(wanted, shared) {
                            Ok(Io::Moved(_)) => {
                                turn.active = true;
                                continue;
                            }
                            Ok(Io::Blocked) => Wants::Input,
                            Ok(Io::Closed) => return Err(End::Closed),
                            Err(refusal) => {
                                self.dialogue.refuse(refusal, &mut self.out);
                                turn.news = Some(News::Refused(refusal));
                                continue;
                            }
                        }
                    }
                    // The dialogue tells of the last two in other ways.
                    Pause::Hungry(_) | Pause::Refused(_) | Pause::Cut => Wants::Input,
                }
            };
            return Ok(turn);
        }
    }

    /// Receives once. Memory is had for what has arrived, and at most for as much again.
    fn receive(&mut self, wanted: usize, shared: &Shared) -> Result<Io, Refusal> {
        let has = self.input.len();
        let grant = match &self.grant {
            Some(grant) if self.dialogue.is_serving() => grant,
            // Nobody needs more than a frame before it is answered; of one who leaves everything is
            // thrown away.
            _ => {
                let most = (HELLO_WORDS * 8).saturating_sub(has).max(1);
                return Ok(self.input.receive_within(&self.stream, most));
            }
        };
        let all = &shared.served.room;
        if has + 8 > self.input.memory() {
            let more = has.min((wanted * 8).saturating_sub(has)).max(LENT_BYTES);
            let most = all.share(Some(&grant.room), usize::MAX).max(LENT_BYTES);
            if more > most {
                count(&shared.served.tally.no_room, 1);
                let bytes = u32::try_from(most).unwrap_or(u32::MAX);
                return Err(Refusal::NoRoom { bytes });
            }
            self.input.grow(has + more);
        }
        let most = all.share(Some(&grant.room), RECEIVE_BYTES);
        Ok(self.input.receive_within(&self.stream, most))
    }

    /// Sends what waits; false if some of it still does.
    fn flush(&mut self, turn: &mut Turn) -> Result<bool, End> {
        while !self.out.is_empty() {
            match self.out.send(&self.stream, FrameKind::Completions) {
                Io::Moved(_) => turn.active = true,
                Io::Blocked => return Ok(false),
                Io::Closed => return Err(End::Closed),
            }
        }
        if self.dialogue.is_leaving() {
            // The client reads to the end, and then closes its side.
            let _ = self.stream.shutdown(Shutdown::Write);
        }
        Ok(true)
    }
}
