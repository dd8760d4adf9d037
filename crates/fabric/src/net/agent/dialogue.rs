//! An agent's conversation with one client, without the connection that carries it.

use super::admit::{Handshake, Step, refuse};
use super::counters::Warnings;
use super::service::{Pause, Quota, Serve};
use super::session::Session;
use super::shared::Shared;
use crate::FabricError;
use crate::error::Malformed;
use crate::error::Refusal;
use crate::net::admission::Issued;
use crate::net::stream::{Inbound, Outbound};
use std::net::SocketAddr;
use std::sync::Arc;

/// How far a client has come.
pub(crate) struct Dialogue(Phase);

enum Phase {
    Handshake(Handshake),
    Serving(Session, Box<dyn Serve>),
    /// Refused, and told so: what it still sends is thrown away until it has closed. What it was
    /// served by stays until then: a NIC goes on refusing its verbs.
    Leaving {
        _served_by: Option<Box<dyn Serve>>,
    },
}

impl Phase {
    const LEAVING: Self = Self::Leaving { _served_by: None };
}

/// What became of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum News {
    Admitted,
    Refused(Refusal),
}

/// Why a connection is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Closed,
    /// Its client has another connection in its place.
    Replaced,
    /// Its grant was revoked in the middle of an answer.
    Revoked,
    Malformed(Malformed),
}

/// Where to tell of verbs that are refused, and whose they are.
pub(crate) struct Warn<'w> {
    pub(crate) peer: SocketAddr,
    pub(crate) warnings: &'w mut Warnings,
}

impl Dialogue {
    /// One that begins; whoever the client is, it is refused if there is a reason already.
    pub(crate) fn new(refusal: Option<Refusal>) -> Self {
        Self(Phase::Handshake(Handshake::Hello(refusal)))
    }

    pub(crate) fn is_handshake(&self) -> bool {
        matches!(self.0, Phase::Handshake(_))
    }

    pub(crate) fn is_serving(&self) -> bool {
        matches!(self.0, Phase::Serving(..))
    }

    pub(crate) fn is_leaving(&self) -> bool {
        matches!(self.0, Phase::Leaving { .. })
    }

    /// The grant whose secret the client was asked for, if it is at that.
    pub(crate) fn unproved(&self) -> Option<&str> {
        match &self.0 {
            Phase::Handshake(handshake) => handshake.unproved(),
            Phase::Serving(..) | Phase::Leaving { .. } => None,
        }
    }

    /// The grant that the client was admitted under, while it is served.
    pub(crate) fn grant(&self) -> Option<&Arc<Issued>> {
        match &self.0 {
            Phase::Serving(_, serving) => Some(serving.grant()),
            Phase::Handshake(_) | Phase::Leaving { .. } => None,
        }
    }

    /// Refuses the client, whatever it was at.
    pub(crate) fn refuse(&mut self, refusal: Refusal, out: &mut Outbound) {
        refuse(out, refusal);
        self.leave();
    }

    fn leave(&mut self) {
        let before = std::mem::replace(&mut self.0, Phase::LEAVING);
        if let Phase::Serving(_, serving) = before {
            self.0 = Phase::Leaving {
                _served_by: Some(serving),
            };
        }
    }

    /// Answers what is here; returns why it goes no further, and what became of the client
    /// meanwhile.
    pub(crate) fn go_on(
        &mut self,
        input: &mut Inbound,
        out: &mut Outbound,
        shared: &Shared,
        quota: &mut Quota,
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
                    let pause = serving.run(input, out, &shared.served, quota, &mut tell);
                    drop(going);
                    let pause = pause.map_err(End::Malformed)?;
                    match pause {
                        Pause::Refused(refusal) => {
                            self.refuse(refusal, out);
                            news = Some(News::Refused(refusal));
                        }
                        Pause::Cut => return Err(End::Revoked),
                        pause => return Ok((pause, news)),
                    }
                }
                Phase::Leaving { .. } => {
                    input.discard();
                    return Ok((Pause::Hungry(1), news));
                }
                Phase::Handshake(handshake) => {
                    let step = handshake.step(input, out, shared);
                    quota.spend(Quota::REFUSED);
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
