//! An agent's conversation with one client, without the connection that carries it.

use super::admit::{Handshake, Step, Visitor, refuse};
use super::service::{ExecutionPause, Quota, Serve};
use super::session::Session;
use super::shared::AgentCore;
use crate::FabricError;
use crate::error::Malformed;
use crate::error::{Refusal, TlsFailure};
use crate::net::admission::Issued;
use crate::net::audit::{AuditEvent, AuditKind, Reports};
use crate::net::stream::{Inbound, Outbound};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Waker;

/// How far a client has come.
pub(crate) struct Dialogue(DialoguePhase);

enum DialoguePhase {
    Handshake(Handshake),
    Serving(Session, Box<dyn Serve>),
    /// Refused, and told so: what it still sends is thrown away until it has closed. What it was
    /// served by stays until then: a NIC goes on refusing its verbs.
    Leaving {
        #[allow(dead_code, reason = "it is kept for what it does when it is dropped")]
        served_by: Option<Box<dyn Serve>>,
        /// The name of the grant that it asked for.
        asked: Option<Box<str>>,
    },
}

/// What became of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum AdmissionOutcome {
    Admitted,
    Refused(Refusal),
    /// There can be no TLS with it.
    Broken(TlsFailure),
}

/// Why a connection is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DisconnectReason {
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
    /// The certificate (DER) by which the client has proved itself.
    pub(crate) certificate: Option<&'w [u8]>,
    pub(crate) reports: &'w mut Reports,
    /// Has its thread look at the answers to its calls.
    pub(crate) bell: &'w Waker,
}

impl Dialogue {
    /// One that begins; whoever the client is, it is refused if there is a reason already.
    pub(crate) fn new(refusal: Option<Refusal>) -> Self {
        Self(DialoguePhase::Handshake(Handshake::Hello(refusal)))
    }

    pub(crate) fn is_handshake(&self) -> bool {
        matches!(self.0, DialoguePhase::Handshake(_))
    }

    pub(crate) fn is_serving(&self) -> bool {
        matches!(self.0, DialoguePhase::Serving(..))
    }

    pub(crate) fn is_leaving(&self) -> bool {
        matches!(self.0, DialoguePhase::Leaving { .. })
    }

    /// The name of the grant that the client asks for or is served under, if it is at that.
    pub(crate) fn asked(&self) -> Option<&str> {
        match &self.0 {
            DialoguePhase::Handshake(handshake) => handshake.asked(),
            DialoguePhase::Serving(_, serving) => Some(&serving.grant().name),
            DialoguePhase::Leaving { asked, .. } => asked.as_deref(),
        }
    }

    /// Whether the client was asked to prove that it knows a secret, and has not yet.
    pub(crate) fn is_unproved(&self) -> bool {
        matches!(&self.0, DialoguePhase::Handshake(handshake) if handshake.is_unproved())
    }

    /// The grant that the client was admitted under, while it is served.
    pub(crate) fn grant(&self) -> Option<&Arc<Issued>> {
        match &self.0 {
            DialoguePhase::Serving(_, serving) => Some(serving.grant()),
            DialoguePhase::Handshake(_) | DialoguePhase::Leaving { .. } => None,
        }
    }

    /// Bytes that are held for its calls which are not answered.
    pub(crate) fn held_bytes(&self) -> usize {
        match &self.0 {
            DialoguePhase::Serving(_, serving) => serving.held_bytes(),
            DialoguePhase::Handshake(_) | DialoguePhase::Leaving { .. } => 0,
        }
    }

    /// Refuses the client, whatever it was at.
    pub(crate) fn refuse(&mut self, refusal: Refusal, out: &mut Outbound) {
        refuse(out, refusal);
        self.leave();
    }

    /// Has nothing more to do with the client, which is not told why.
    pub(crate) fn leave(&mut self) {
        let asked = self.asked().map(Into::into);
        let leaving = DialoguePhase::Leaving {
            served_by: None,
            asked,
        };
        let before = std::mem::replace(&mut self.0, leaving);
        if let (DialoguePhase::Serving(_, serving), DialoguePhase::Leaving { served_by, .. }) =
            (before, &mut self.0)
        {
            *served_by = Some(serving);
        }
    }

    /// Answers what is here; returns why it goes no further, and what became of the client
    /// meanwhile.
    pub(crate) fn go_on(
        &mut self,
        input: &mut Inbound,
        out: &mut Outbound,
        shared: &AgentCore,
        quota: &mut Quota,
        warn: Warn<'_>,
    ) -> Result<(ExecutionPause, Option<AdmissionOutcome>), DisconnectReason> {
        let mut news = None;
        loop {
            match &mut self.0 {
                DialoguePhase::Serving(session, serving) => {
                    let going = session.go_on().ok_or(DisconnectReason::Replaced)?;
                    let mut tell = |grant: &str, error: &FabricError| {
                        warn.reports.tell(&AuditEvent {
                            kind: AuditKind::VerbRefused,
                            peer: Some(warn.peer),
                            grant: Some(grant),
                            detail: Some(format_args!("{error}")),
                        });
                    };
                    let served = &shared.served;
                    let pause = serving.run(input, out, served, quota, &mut tell, warn.bell);
                    drop(going);
                    let pause = pause.map_err(DisconnectReason::Malformed)?;
                    match pause {
                        ExecutionPause::Refused(refusal) => {
                            self.refuse(refusal, out);
                            news = Some(AdmissionOutcome::Refused(refusal));
                        }
                        ExecutionPause::Cut => return Err(DisconnectReason::Revoked),
                        pause => return Ok((pause, news)),
                    }
                }
                DialoguePhase::Leaving { .. } => {
                    input.discard();
                    return Ok((ExecutionPause::Hungry(1), news));
                }
                DialoguePhase::Handshake(handshake) => {
                    let visitor = Visitor {
                        peer: warn.peer,
                        certificate: warn.certificate,
                    };
                    let step = handshake.step(input, out, shared, visitor);
                    quota.spend(Quota::REFUSED);
                    match step.map_err(DisconnectReason::Malformed)? {
                        Step::Wait(words) => return Ok((ExecutionPause::Hungry(words), news)),
                        Step::Admit(session, serving) => {
                            self.0 = DialoguePhase::Serving(session, serving);
                            news = Some(AdmissionOutcome::Admitted);
                        }
                        Step::Refuse(refusal) => {
                            self.refuse(refusal, out);
                            news = Some(AdmissionOutcome::Refused(refusal));
                        }
                    }
                }
            }
        }
    }
}
