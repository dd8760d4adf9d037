//! One client, as the agent holds it: its bytes, and how far it has come.

use super::Shared;
use super::admit::{Handshake, Step, refuse};
use super::service::Serve;
use super::serving::Pause;
use super::session::Session;
use crate::tcp::admission::Refusal;
use crate::tcp::socket::Io;
use crate::tcp::stream::{Inbound, Outbound};
use crate::tcp::wire::{FrameKind, Malformed};
use std::net::{Shutdown, SocketAddr, TcpStream};

/// A client's connection. An idle one holds no buffers.
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    pub(super) peer: SocketAddr,
    input: Inbound,
    out: Outbound,
    phase: Phase,
}

enum Phase {
    Handshake(Handshake),
    Serving(Session, Box<dyn Serve>),
    /// Refused, and told so: what it still sends is thrown away until it has closed. What it was served by
    /// stays until then: a NIC goes on refusing its verbs.
    Leaving {
        _served_by: Option<Box<dyn Serve>>,
    },
}

/// Buffers that connections use in turns.
pub(super) struct Scratch {
    input: Inbound,
    out: Outbound,
}

impl Scratch {
    pub(super) fn new() -> Self {
        Self {
            input: Inbound::with_memory(),
            out: Outbound::default(),
        }
    }
}

/// What a connection waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wants {
    /// More from its client.
    Input,
    /// That its client takes what it was sent.
    Output,
    /// That a receiver has room for its message.
    Receiver,
    /// Nothing but its turn: there is more to do.
    Turn,
}

/// What came of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Turn {
    pub(super) wants: Wants,
    /// Whether anything was received or done.
    pub(super) active: bool,
    /// Set in the turn in which it happened.
    pub(super) news: Option<News>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum News {
    Admitted,
    Refused(Refusal),
}

/// Why a connection is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    Closed,
    /// Its client has another connection in its place.
    Replaced,
    Malformed(Malformed),
}

/// Batches of answers that one connection sends before another has its turn.
const SENDS_A_TURN: u32 = 16;

impl Connection {
    pub(super) fn new(stream: TcpStream, peer: SocketAddr, refusal: Option<Refusal>) -> Self {
        Self {
            stream,
            peer,
            input: Inbound::default(),
            out: Outbound::default(),
            phase: Phase::Handshake(Handshake::Hello(refusal)),
        }
    }

    /// Whether it may serve verbs.
    pub(super) fn is_serving(&self) -> bool {
        matches!(self.phase, Phase::Serving(..))
    }

    /// Tells a client that took too long; it is told once, if it listens at all.
    pub(super) fn refuse_late(&mut self, refusal: Refusal) -> bool {
        if !matches!(self.phase, Phase::Handshake(_)) {
            return false;
        }
        refuse(&mut self.out, refusal);
        self.out.send(&self.stream, FrameKind::Completions);
        true
    }

    /// Does what can be done now.
    pub(super) fn turn(&mut self, scratch: &mut Scratch, shared: &Shared) -> Result<Turn, End> {
        // The buffers are the thread's, for as long as nothing has to be kept.
        let (lent_input, lent_out) = (!self.input.has_memory(), self.out.is_empty());
        if lent_input {
            std::mem::swap(&mut self.input, &mut scratch.input);
        }
        if lent_out {
            std::mem::swap(&mut self.out, &mut scratch.out);
        }
        let turn = self.advance(shared);
        if let Err(End::Malformed(_)) = turn
            && !self.out.is_empty()
        {
            // The answers to the verbs before; the connection ends whether they go or not.
            self.out.send(&self.stream, FrameKind::Completions);
        }
        if turn.is_err() {
            // Nothing of it may reach the next connection.
            self.out.clear();
        }
        if lent_input {
            let rest = if self.input.is_empty() {
                Inbound::default()
            } else {
                self.input.take_rest()
            };
            scratch.input = std::mem::replace(&mut self.input, rest);
        } else if self.input.is_empty() {
            self.input = Inbound::default();
        }
        if lent_out {
            let rest = if self.out.is_empty() {
                Outbound::default()
            } else {
                self.out.take_rest()
            };
            scratch.out = std::mem::replace(&mut self.out, rest);
        } else if self.out.is_empty() {
            self.out = Outbound::default();
        }
        turn
    }

    fn advance(&mut self, shared: &Shared) -> Result<Turn, End> {
        let mut turn = Turn {
            wants: Wants::Turn,
            active: false,
            news: None,
        };
        let ends = |wants, turn| Ok(Turn { wants, ..turn });
        if !self.flush(&mut turn)? {
            return ends(Wants::Output, turn);
        }
        let mut received = false;
        for _ in 0..SENDS_A_TURN {
            let pause = self.digest(&mut turn, shared)?;
            if !self.flush(&mut turn)? {
                return ends(Wants::Output, turn);
            }
            let wanted = match pause {
                Pause::Full | Pause::Refused(_) => continue,
                Pause::Stalled => return ends(Wants::Receiver, turn),
                Pause::Hungry(_) if received => return ends(Wants::Input, turn),
                Pause::Hungry(wanted) => wanted,
            };
            received = true;
            match self.input.receive(&self.stream, wanted) {
                Io::Moved(_) => turn.active = true,
                Io::Blocked => return ends(Wants::Input, turn),
                Io::Closed => return Err(End::Closed),
            }
        }
        Ok(turn)
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
        if matches!(self.phase, Phase::Leaving { .. }) {
            // The client reads to the end, and then closes its side.
            let _ = self.stream.shutdown(Shutdown::Write);
        }
        Ok(true)
    }

    fn digest(&mut self, turn: &mut Turn, shared: &Shared) -> Result<Pause, End> {
        loop {
            match &mut self.phase {
                Phase::Serving(session, serving) => {
                    let going = session.go_on().ok_or(End::Replaced)?;
                    let pause = serving.run(&mut self.input, &mut self.out, shared);
                    drop(going);
                    let pause = pause.map_err(End::Malformed)?;
                    let Pause::Refused(refusal) = pause else {
                        return Ok(pause);
                    };
                    refuse(&mut self.out, refusal);
                    turn.news = Some(News::Refused(refusal));
                    let before =
                        std::mem::replace(&mut self.phase, Phase::Leaving { _served_by: None });
                    if let Phase::Serving(_, serving) = before {
                        self.phase = Phase::Leaving {
                            _served_by: Some(serving),
                        };
                    }
                }
                Phase::Leaving { .. } => {
                    self.input.discard();
                    return Ok(Pause::Hungry(1));
                }
                Phase::Handshake(handshake) => {
                    let step = handshake.step(&mut self.input, &mut self.out, shared);
                    match step.map_err(End::Malformed)? {
                        Step::Wait(words) => return Ok(Pause::Hungry(words)),
                        Step::Admit(session, serving) => {
                            self.phase = Phase::Serving(session, serving);
                            turn.news = Some(News::Admitted);
                        }
                        Step::Refuse(refusal) => {
                            refuse(&mut self.out, refusal);
                            self.phase = Phase::Leaving { _served_by: None };
                            turn.news = Some(News::Refused(refusal));
                        }
                    }
                }
            }
        }
    }
}
