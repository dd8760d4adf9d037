//! The agent's side of the handshake. Until it succeeds the client gets nothing else.

use super::service::{Client, Serve};
use super::session::Session;
use super::shared::Shared;
use crate::Rights;
use crate::error::Malformed;
use crate::error::Refusal;
use crate::net::admission::handshake::{
    CHALLENGE_WORDS, Carrier, HELLO_WORDS, Hello, PROOF_FRAME_WORDS, Side, Welcome, challenge,
    is_proved, proof, prove, refused, set_proof,
};
use crate::net::admission::{Issued, Secret};
use crate::net::stream::{Inbound, Outbound};
use crate::net::wire::{FrameKind, Header, VERSION};
use std::sync::Arc;
use std::time::Duration;

/// How far a client has come.
pub(crate) enum Handshake {
    /// Its HELLO is to come; it is refused then if it cannot be served anyway.
    Hello(Option<Refusal>),
    /// Its PROOF is to come.
    Proof(Box<Challenged>),
}

pub(crate) struct Challenged {
    hello: [u64; HELLO_WORDS],
    challenge: [u64; CHALLENGE_WORDS],
    /// Nothing if there is no grant of the name that the client asked for.
    grant: Option<Arc<Issued>>,
    /// What the client must know: where there is no grant, what nobody knows.
    secret: Option<Secret>,
    name: String,
    rights: Rights,
    receiver_wait: Duration,
}

impl Handshake {
    /// The name of the grant that the client asks for.
    pub(crate) fn asked(&self) -> Option<&str> {
        match self {
            Self::Proof(challenged) => Some(&challenged.name),
            Self::Hello(_) => None,
        }
    }

    /// Whether a client was asked to prove that it knows a secret, and has not yet.
    pub(crate) fn is_unproved(&self) -> bool {
        matches!(self, Self::Proof(challenged) if challenged.secret.is_some())
    }
}

/// What a frame of a client leads to.
pub(crate) enum Step {
    /// More words are to come: so many in all.
    Wait(usize),
    Admit(Session, Box<dyn Serve>),
    Refuse(Refusal),
}

impl Handshake {
    /// Takes the client's next frame, if it is here, and answers it, unless it is refused.
    pub(crate) fn step(
        &mut self,
        input: &mut Inbound,
        out: &mut Outbound,
        shared: &Shared,
    ) -> Result<Step, Malformed> {
        loop {
            let words = input.words();
            let Some(&first) = words.first() else {
                return Ok(Step::Wait(1));
            };
            let header = Header::decode_any_version(first)?;
            let (kind, length) = match self {
                Self::Hello(_) => (FrameKind::Hello, HELLO_WORDS),
                Self::Proof(_) => (FrameKind::Proof, PROOF_FRAME_WORDS),
            };
            if header.kind != kind {
                return Err(Malformed::Kind {
                    found: header.kind as u8,
                });
            }
            if header.words as usize != length {
                return Err(Malformed::Length {
                    words: header.words,
                    limit: length as u32,
                });
            }
            let Some(frame) = words.get(..length) else {
                return Ok(Step::Wait(length));
            };
            let end = match self {
                Self::Hello(refusal) => hello(frame, *refusal, shared)?.map(|challenged| {
                    out.frame(FrameKind::Completions, &challenged.challenge);
                    *self = Self::Proof(challenged);
                    None
                }),
                Self::Proof(challenged) => challenged.prove(frame, out, shared).map(Some),
            };
            input.consume(length);
            match end {
                Ok(None) => {}
                Ok(Some((session, serving))) => return Ok(Step::Admit(session, serving)),
                Err(refusal) => return Ok(Step::Refuse(refusal)),
            }
        }
    }
}

fn hello(
    frame: &[u64],
    refusal: Option<Refusal>,
    shared: &Shared,
) -> Result<Result<Box<Challenged>, Refusal>, Malformed> {
    let wrong = |what| Malformed::Handshake { what };
    let frame: &[u64; HELLO_WORDS] = frame
        .try_into()
        .map_err(|_| wrong("a HELLO is too short"))?;
    if Carrier::from_magic(frame[1]).is_none() {
        return Err(wrong("a HELLO without its magic"));
    }
    let version = (frame[0] >> 56) as u8;
    if version != VERSION {
        return Ok(Err(Refusal::Version {
            client: version,
            agent: VERSION,
        }));
    }
    let hello = Hello::decode(frame)?;
    if hello.carrier != shared.service.carrier() {
        return Ok(Err(Refusal::OtherCarrier {
            client: hello.carrier,
        }));
    }
    if let Some(refusal) = refusal {
        return Ok(Err(refusal));
    }
    let grant = shared.grants.find(&hello.grant);
    let secret = match &grant {
        Some(grant) => grant.secret.clone(),
        // Where there are secrets, those without one are not told which names there are: they are
        // asked for a secret that nobody knows.
        None if shared.grants.need_secrets() => Some(Secret::random()),
        None => return Ok(Err(Refusal::NoSuchGrant)),
    };
    let wait = Duration::from_nanos(hello.receiver_wait);
    Ok(Ok(Box::new(Challenged {
        hello: *frame,
        challenge: challenge(secret.is_some(), rand::random()),
        grant,
        secret,
        name: hello.grant,
        rights: hello.rights,
        receiver_wait: wait.min(shared.receiver_wait),
    })))
}

impl Challenged {
    /// Checks the client's proof and gives the agent's.
    fn prove(
        &self,
        frame: &[u64],
        out: &mut Outbound,
        shared: &Shared,
    ) -> Result<(Session, Box<dyn Serve>), Refusal> {
        let secret = self.secret.as_ref();
        let &[_, a, b, c, d, last_session] = frame else {
            return Err(Refusal::WrongSecret);
        };
        let claimed = [a, b, c, d];
        if !is_proved(
            secret,
            Side::Client,
            &[&self.hello, &self.challenge, &[last_session]],
            claimed,
        ) {
            return Err(Refusal::WrongSecret);
        }
        let Some(grant) = &self.grant else {
            return Err(Refusal::WrongSecret);
        };
        // Only who knows its secret is told so.
        if grant.is_revoked() {
            return Err(Refusal::GrantRevoked);
        }
        let mut node = shared.served.node.info().clone();
        node.regions.clone_from(&grant.regions);
        for region in &mut node.regions {
            region.rights = region.rights.masked_by(self.rights);
        }
        shared.sessions.end(last_session);
        let session = shared.sessions.begin();
        let serving = shared.service.admit(Client {
            node: &shared.served.node,
            grant: Arc::clone(grant),
            regions: &node.regions,
            receiver_wait: self.receiver_wait,
            session: session.number(),
            last_session,
        });
        let mut welcome = Welcome {
            node,
            keys: grant.keys.clone(),
            frame_words: shared.served.frame_words,
            session: session.number(),
        }
        .encode();
        let frames = [
            &self.hello[..],
            &self.challenge,
            &proof(claimed, last_session),
            &welcome,
        ];
        let ours = prove(secret, Side::Agent, &frames);
        set_proof(&mut welcome, ours);
        out.frame(FrameKind::Completions, &welcome);
        Ok((session, serving))
    }
}

/// Appends a REFUSED.
pub(crate) fn refuse(out: &mut Outbound, refusal: Refusal) {
    out.frame(FrameKind::Completions, &refused(refusal));
}
