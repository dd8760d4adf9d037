//! What an agent says to one client, without the connection that carries it: words in, words out.

use super::Shared;
use super::admit::{Handshake, Step, refuse};
use super::counters::Warnings;
use super::service::Serve;
use super::serving::Pause;
use super::session::Session;
use crate::FabricError;
use crate::tcp::admission::Refusal;
use crate::tcp::stream::{Inbound, Outbound};
use crate::tcp::wire::Malformed;
use std::net::SocketAddr;

/// How far a client has come.
pub(super) struct Dialogue(Phase);

enum Phase {
    Handshake(Handshake),
    Serving(Session, Box<dyn Serve>),
    /// Refused, and told so: what it still sends is thrown away until it has closed. What it was served by
    /// stays until then: a NIC goes on refusing its verbs.
    Leaving {
        _served_by: Option<Box<dyn Serve>>,
    },
}

impl Phase {
    const LEAVING: Self = Self::Leaving { _served_by: None };
}

/// What became of a client.
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

/// Where to tell of verbs that are refused, and whose they are.
pub(super) struct Warn<'w> {
    pub(super) peer: SocketAddr,
    pub(super) warnings: &'w mut Warnings,
}

impl Dialogue {
    /// One that begins; whoever the client is, it is refused if there is a reason already.
    pub(super) fn new(refusal: Option<Refusal>) -> Self {
        Self(Phase::Handshake(Handshake::Hello(refusal)))
    }

    pub(super) fn is_handshake(&self) -> bool {
        matches!(self.0, Phase::Handshake(_))
    }

    pub(super) fn is_serving(&self) -> bool {
        matches!(self.0, Phase::Serving(..))
    }

    pub(super) fn is_leaving(&self) -> bool {
        matches!(self.0, Phase::Leaving { .. })
    }

    /// The grant whose secret the client was asked for, if it is at that.
    pub(super) fn unproved(&self) -> Option<&str> {
        match &self.0 {
            Phase::Handshake(handshake) => handshake.unproved(),
            Phase::Serving(..) | Phase::Leaving { .. } => None,
        }
    }

    /// Answers what is here; returns why it goes no further, and what became of the client meanwhile.
    pub(super) fn go_on(
        &mut self,
        input: &mut Inbound,
        out: &mut Outbound,
        shared: &Shared,
        warn: Warn<'_>,
    ) -> Result<(Pause, Option<News>), End> {
        let mut news = None;
        loop {
            match &mut self.0 {
                Phase::Serving(session, serving) => {
                    let going = session.go_on().ok_or(End::Replaced)?;
                    let mut tell = |grant: &str, error: &FabricError| {
                        let peer = warn.peer;
                        warn.warnings.warn(format_args!(
                            "refused a verb of {peer} under the grant {grant:?}: {error}"
                        ));
                    };
                    let pause = serving.run(input, out, shared, &mut tell);
                    drop(going);
                    let pause = pause.map_err(End::Malformed)?;
                    let Pause::Refused(refusal) = pause else {
                        return Ok((pause, news));
                    };
                    refuse(out, refusal);
                    news = Some(News::Refused(refusal));
                    let before = std::mem::replace(&mut self.0, Phase::LEAVING);
                    if let Phase::Serving(_, serving) = before {
                        self.0 = Phase::Leaving {
                            _served_by: Some(serving),
                        };
                    }
                }
                Phase::Leaving { .. } => {
                    input.discard();
                    return Ok((Pause::Hungry(1), news));
                }
                Phase::Handshake(handshake) => {
                    let step = handshake.step(input, out, shared);
                    match step.map_err(End::Malformed)? {
                        Step::Wait(words) => return Ok((Pause::Hungry(words), news)),
                        Step::Admit(session, serving) => {
                            self.0 = Phase::Serving(session, serving);
                            news = Some(News::Admitted);
                        }
                        Step::Refuse(refusal) => {
                            refuse(out, refusal);
                            self.0 = Phase::LEAVING;
                            news = Some(News::Refused(refusal));
                        }
                    }
                }
            }
        }
    }
}
