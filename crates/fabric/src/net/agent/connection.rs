//! One client's connection: its buffers, and how far the client has come.

use super::admit::refuse;
use super::counters::count;
use super::dialogue::{AdmissionOutcome, Dialogue, DisconnectReason, Warn};
use super::service::{ExecutionPause, Quota};
use super::shared::AgentCore;
use crate::error::Refusal;
use crate::net::admission::Issued;
use crate::net::admission::handshake::HELLO_WORDS;
use crate::net::audit::Reports;
use crate::net::rate::RateAllowance;
use crate::net::room::LEAST;
use crate::net::secured::Socket;
use crate::net::socket::Io;
use crate::net::stream::{Inbound, LENT_BYTES, Outbound, RECEIVE_BYTES};
use crate::net::wire::FrameKind;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

/// A client's connection. An idle one holds no buffers; one that has a part of a verb, or answers
/// that wait, holds about as many bytes.
pub(crate) struct Connection {
    pub(crate) socket: Socket,
    pub(crate) peer: SocketAddr,
    input: Inbound,
    out: Outbound,
    dialogue: Dialogue,
    /// The grant of a client that was admitted.
    grant: Option<Arc<Issued>>,
    /// Has its thread look at its answers.
    bell: Waker,
    /// Bytes that it was counted with.
    held: usize,
    /// Bytes of frames that have moved in this turn, either way.
    moved: usize,
    /// Whether its client was told that no more will be said.
    has_shut_down: bool,
}

/// How long a client rests that asks again and again for what it may not have.
const REST: Duration = Duration::from_millis(10);

/// Buffers that connections use in turns.
pub(crate) struct TurnBuffers {
    input: Inbound,
    out: Outbound,
}

impl TurnBuffers {
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
    /// That its oldest call is answered: it is not read from meanwhile.
    Answer,
    /// That some time has passed: its client asks too often for what it may not have, or for more
    /// than the rate of its grant.
    Rest(Duration),
    /// Nothing but its turn: there is more to do.
    Turn,
}

/// What came of a turn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TurnOutcome {
    pub(crate) wants: Wants,
    /// Whether anything was received or done.
    pub(crate) active: bool,
    /// Set in the turn in which it happened.
    pub(crate) news: Option<AdmissionOutcome>,
}

impl Connection {
    /// One that has come; `bell` is to have its thread look at its answers.
    pub(crate) fn new(
        socket: Socket,
        peer: SocketAddr,
        refusal: Option<Refusal>,
        bell: Waker,
    ) -> Self {
        Self {
            socket,
            peer,
            input: Inbound::default(),
            out: Outbound::default(),
            dialogue: Dialogue::new(refusal),
            grant: None,
            bell,
            held: 0,
            moved: 0,
            has_shut_down: false,
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
        self.out.send(&mut self.socket, FrameKind::Completions);
        true
    }

    /// Counts what it holds from now on.
    fn count(&mut self, held: usize, shared: &AgentCore) {
        if held != self.held {
            shared.served.room.change(self.held, held);
            if let Some(grant) = &self.grant {
                grant.room.change(self.held, held);
            }
            self.held = held;
        }
    }

    /// Lets go of its buffers.
    pub(crate) fn let_go(&mut self, shared: &AgentCore) {
        self.input = Inbound::default();
        self.out = Outbound::default();
        self.count(0, shared);
    }

    /// Does what can be done now, up to so much work.
    pub(crate) fn turn(
        &mut self,
        work: usize,
        scratch: &mut TurnBuffers,
        shared: &AgentCore,
        reports: &mut Reports,
    ) -> Result<TurnOutcome, DisconnectReason> {
        let mut turn = TurnOutcome {
            wants: Wants::Output,
            active: false,
            news: None,
        };
        // Answers of its own go first, and nothing is done before they have gone.
        self.moved = 0;
        if !self.out.is_empty() || self.socket.has_unsent() {
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
        let advanced = self.advance(turn, work, shared, reports);
        if let Err(DisconnectReason::Malformed(_)) = advanced
            && !self.out.is_empty()
        {
            // The answers to the verbs before; the connection ends whether they go or not.
            self.out.send(&mut self.socket, FrameKind::Completions);
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
        let held = self.input.memory()
            + self.out.memory()
            + self.socket.opened()
            + self.dialogue.held_bytes();
        self.count(held, shared);
        advanced
    }

    /// What its grant allows in this turn, in verbs and in bytes; or how long nothing.
    fn allowed(&self) -> RateAllowance {
        let meter = self.grant.as_ref().and_then(|grant| grant.meter.as_ref());
        meter.map_or(RateAllowance::Do(usize::MAX, usize::MAX), |meter| {
            meter.may()
        })
    }

    /// What it may come to in this turn, if it may do so many verbs and so much work.
    fn quota(&self, shared: &AgentCore, verbs: usize, work: usize) -> Quota {
        let served = &shared.served;
        let of_grant = self.grant.as_deref().map(|grant| &*grant.room);
        let frame_bytes = served.frame_words as usize * 8;
        Quota {
            work,
            unsent: served.room.share(of_grant, served.unsent_bytes),
            at_once: served.room.share(of_grant, frame_bytes),
            verbs,
        }
    }

    /// Does what its grant allows now.
    fn advance(
        &mut self,
        mut turn: TurnOutcome,
        work: usize,
        shared: &AgentCore,
        reports: &mut Reports,
    ) -> Result<TurnOutcome, DisconnectReason> {
        let (verbs, bytes) = match self.allowed() {
            RateAllowance::Do(verbs, bytes) => (verbs, bytes.max(LEAST)),
            RateAllowance::Wait(rest) => {
                turn.wants = Wants::Rest(rest);
                return Ok(turn);
            }
        };
        let mut quota = self.quota(shared, verbs, work.min(bytes));
        let before = quota;
        let gone_on = self.go_on(&mut turn, bytes, shared, &mut quota, reports);
        if let Some(meter) = self.grant.as_ref().and_then(|grant| grant.meter.as_ref()) {
            meter.done(before.verbs - quota.verbs, self.moved);
        }
        turn.wants = gone_on?;
        Ok(turn)
    }

    /// Receives at most so many bytes, answers, and sends; returns what it waits for then.
    fn go_on(
        &mut self,
        turn: &mut TurnOutcome,
        bytes: usize,
        shared: &AgentCore,
        quota: &mut Quota,
        reports: &mut Reports,
    ) -> Result<Wants, DisconnectReason> {
        let mut received = false;
        loop {
            let warn = Warn {
                peer: self.peer,
                certificate: self.socket.certificate(),
                reports,
                bell: &self.bell,
            };
            let (input, out) = (&mut self.input, &mut self.out);
            let (pause, news) = self.dialogue.go_on(input, out, shared, quota, warn)?;
            if news == Some(AdmissionOutcome::Admitted) {
                self.grant = self.dialogue.grant().cloned();
            }
            turn.news = turn.news.take().or(news);
            if !self.flush(turn)? {
                return Ok(Wants::Output);
            }
            match pause {
                ExecutionPause::Full if quota.work > 0 => {}
                ExecutionPause::Full | ExecutionPause::Spent => return Ok(Wants::Turn),
                ExecutionPause::Resting => return Ok(Wants::Rest(REST)),
                ExecutionPause::Stalled => return Ok(Wants::Receiver),
                ExecutionPause::Unanswered => return Ok(Wants::Answer),
                ExecutionPause::Hungry(wanted) if !received => {
                    received = true;
                    if self.socket.is_shaking_hands() {
                        // It costs about as much as a turn.
                        quota.spend(Quota::TURN);
                    }
                    let most = bytes.min(quota.work.max(LEAST));
                    match self.receive(wanted, most, shared) {
                        Ok(Io::Moved(moved)) => {
                            turn.active = true;
                            self.moved += moved;
                        }
                        Ok(Io::Blocked) => return Ok(Wants::Input),
                        Ok(Io::Closed) => {
                            let broken = self.socket.failure();
                            let Some(failure) = broken.filter(|_| !self.dialogue.is_leaving())
                            else {
                                return Err(DisconnectReason::Closed);
                            };
                            self.dialogue.leave();
                            turn.news = Some(AdmissionOutcome::Broken(failure));
                            return Ok(Wants::Input);
                        }
                        Err(refusal) => {
                            self.dialogue.refuse(refusal, &mut self.out);
                            turn.news = Some(AdmissionOutcome::Refused(refusal));
                        }
                    }
                }
                // The kernel does not tell of what TLS has opened.
                ExecutionPause::Hungry(_) if self.socket.opened() > 0 => return Ok(Wants::Turn),
                // The dialogue tells of the last two in other ways.
                ExecutionPause::Hungry(_) | ExecutionPause::Refused(_) | ExecutionPause::Cut => {
                    return Ok(Wants::Input);
                }
            }
        }
    }

    /// Receives once, at most so many bytes. Memory is had for what has arrived, and at most for as
    /// much again.
    fn receive(&mut self, wanted: usize, bytes: usize, shared: &AgentCore) -> Result<Io, Refusal> {
        let has = self.input.len();
        let grant = match &self.grant {
            Some(grant) if self.dialogue.is_serving() => grant,
            // Nobody needs more than a frame before it is answered; of one who leaves everything is
            // thrown away.
            _ => {
                let most = (HELLO_WORDS * 8).saturating_sub(has).max(1);
                return Ok(self.input.receive_within(&mut self.socket, most));
            }
        };
        let all = &shared.served.room;
        if has + 8 > self.input.memory() {
            let more = has.min((wanted * 8).saturating_sub(has)).max(LENT_BYTES);
            let most = all.share(Some(&grant.room), usize::MAX).max(LENT_BYTES);
            if more > most {
                count(&shared.served.totals.no_room, 1);
                let bytes = u32::try_from(most).unwrap_or(u32::MAX);
                return Err(Refusal::NoRoom { bytes });
            }
            self.input.grow(has + more);
        }
        let most = all.share(Some(&grant.room), RECEIVE_BYTES.min(bytes));
        Ok(self.input.receive_within(&mut self.socket, most))
    }

    /// Sends what waits; false if some of it still does.
    fn flush(&mut self, turn: &mut TurnOutcome) -> Result<bool, DisconnectReason> {
        while !self.out.is_empty() {
            match self.out.send(&mut self.socket, FrameKind::Completions) {
                Io::Moved(moved) => {
                    turn.active = true;
                    self.moved += moved;
                }
                Io::Blocked => return Ok(false),
                Io::Closed => return Err(DisconnectReason::Closed),
            }
        }
        if self.socket.has_unsent() {
            match self.socket.flush() {
                Io::Moved(_) => {}
                Io::Blocked => return Ok(false),
                Io::Closed => return Err(DisconnectReason::Closed),
            }
        }
        if self.dialogue.is_leaving() && !self.has_shut_down {
            // The client reads to the end, and then closes its side.
            self.has_shut_down = true;
            let _ = self.socket.tcp().shutdown(Shutdown::Write);
        }
        Ok(true)
    }
}
