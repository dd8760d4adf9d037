//! One client's connection: its buffers, and how far the client has come.

use super::admit::refuse;
use super::counters::Warnings;
use super::dialogue::{Dialogue, End, News, Warn};
use super::service::Pause;
use super::shared::Shared;
use crate::error::Refusal;
use crate::net::socket::Io;
use crate::net::stream::{Inbound, Outbound};
use crate::net::wire::FrameKind;
use std::net::{Shutdown, SocketAddr, TcpStream};

/// A client's connection. An idle one holds no buffers.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    input: Inbound,
    out: Outbound,
    dialogue: Dialogue,
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
    /// Nothing but its turn: there is more to do.
    Turn,
}

/// What came of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Turn {
    pub(crate) wants: Wants,
    /// Whether anything was received or done.
    pub(crate) active: bool,
    /// Set in the turn in which it happened.
    pub(crate) news: Option<News>,
}

/// Batches of answers that one connection sends before another has its turn.
const SENDS_A_TURN: u32 = 16;

impl Connection {
    pub(crate) fn new(stream: TcpStream, peer: SocketAddr, refusal: Option<Refusal>) -> Self {
        Self {
            stream,
            peer,
            input: Inbound::default(),
            out: Outbound::default(),
            dialogue: Dialogue::new(refusal),
        }
    }

    /// Whether it may serve verbs.
    pub(crate) fn is_serving(&self) -> bool {
        self.dialogue.is_serving()
    }

    /// The grant whose secret its client was asked for, if it is at that.
    pub(crate) fn unproved(&self) -> Option<&str> {
        self.dialogue.unproved()
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

    /// Does what can be done now.
    pub(crate) fn turn(
        &mut self,
        scratch: &mut Scratch,
        shared: &Shared,
        warnings: &mut Warnings,
    ) -> Result<Turn, End> {
        // The buffers are the thread's, for as long as nothing has to be kept.
        let (lent_input, lent_out) = (!self.input.has_memory(), self.out.is_empty());
        if lent_input {
            std::mem::swap(&mut self.input, &mut scratch.input);
        }
        if lent_out {
            std::mem::swap(&mut self.out, &mut scratch.out);
        }
        let turn = self.advance(shared, warnings);
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

    fn advance(&mut self, shared: &Shared, warnings: &mut Warnings) -> Result<Turn, End> {
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
            let warn = Warn {
                peer: self.peer,
                warnings,
            };
            let dialogue = &mut self.dialogue;
            let (pause, news) = dialogue.go_on(&mut self.input, &mut self.out, shared, warn)?;
            turn.news = turn.news.or(news);
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
        if self.dialogue.is_leaving() {
            // The client reads to the end, and then closes its side.
            let _ = self.stream.shutdown(Shutdown::Write);
        }
        Ok(true)
    }
}
