//! The agent's side of the handshake. Until it succeeds the client gets nothing else.

use super::service::{Client, Serve};
use super::session::Session;
use super::shared::AgentCore;
use crate::Rights;
use crate::error::Malformed;
use crate::error::Refusal;
use crate::net::admission::handshake::{
    CHALLENGE_WORDS, Carrier, HELLO_WORDS, HandshakeSide, Hello, PROOF_FRAME_WORDS, Welcome,
    challenge, is_proved, proof, prove, refused, set_proof,
};
use crate::net::admission::{Credential, Issued, Secret};
use crate::net::stream::{Inbound, Outbound};
use crate::net::wire::{FrameKind, Header, VERSION};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// What is known of a client without its saying so.
#[derive(Clone, Copy)]
pub(crate) struct Visitor<'v> {
    pub(crate) peer: SocketAddr,
    /// The certificate (DER) by which it has proved itself.
    pub(crate) certificate: Option<&'v [u8]>,
}

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
    /// What the client may be admitted under: the grant that it asked for, once for each secret
    /// that it may know. Nothing if there is no such grant for it.
    grants: Vec<Arc<Issued>>,
    /// Whether the client must know a secret: where there is no grant, one that nobody knows.
    secret_needed: bool,
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
        matches!(self, Self::Proof(challenged) if challenged.secret_needed)
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
        shared: &AgentCore,
        visitor: Visitor<'_>,
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
                Self::Hello(refusal) => {
                    hello(frame, *refusal, shared, visitor)?.map(|challenged| {
                        out.frame(FrameKind::Completions, &challenged.challenge);
                        *self = Self::Proof(challenged);
                        None
                    })
                }
                Self::Proof(challenged) => challenged.prove(frame, out, shared, visitor).map(Some),
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
    shared: &AgentCore,
    visitor: Visitor<'_>,
) -> Result<Result<Box<Challenged>, Refusal>, Malformed> {
    let wrong = |reason| Malformed::Handshake { reason };
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
    let (grants, secret_needed) = match open_to(visitor, &hello.grant, shared) {
        Ok(opened) => opened,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let wait = Duration::from_nanos(hello.receiver_wait);
    Ok(Ok(Box::new(Challenged {
        hello: *frame,
        challenge: challenge(secret_needed, rand::random()),
        grants,
        secret_needed,
        name: hello.grant,
        rights: hello.rights,
        receiver_wait: wait.min(shared.receiver_wait),
    })))
}

/// What of a grant a client may be admitted under, and whether it must know a secret for that.
fn open_to(
    visitor: Visitor<'_>,
    name: &str,
    shared: &AgentCore,
) -> Result<(Vec<Arc<Issued>>, bool), Refusal> {
    let mut issued = shared.grants.find(name);
    let is_open = |one: &Arc<Issued>| match (&one.credential, visitor.certificate) {
        (Credential::Certificate(clients), Some(certificate)) => clients.include(certificate),
        (Credential::Nothing, _) => shared.trusts(visitor.peer.ip()),
        _ => false,
    };
    if let Some(place) = issued.iter().position(is_open) {
        return Ok((vec![issued.swap_remove(place)], false));
    }
    if issued
        .iter()
        .any(|one| one.credential == Credential::Nothing)
    {
        return Err(Refusal::NotTrusted);
    }
    // Where there are secrets, those without one are not told which names there are: they are asked
    // for a secret that nobody knows.
    if shared.grants.need_secrets() {
        issued.retain(|one| one.secret().is_some());
        return Ok((issued, true));
    }
    Err(if shared.grants.need_certificates() {
        Refusal::CertificateNeeded
    } else {
        Refusal::NoSuchGrant
    })
}

impl Challenged {
    /// Checks the client's proof and gives the agent's.
    fn prove(
        &self,
        frame: &[u64],
        out: &mut Outbound,
        shared: &AgentCore,
        visitor: Visitor<'_>,
    ) -> Result<(Session, Box<dyn Serve>), Refusal> {
        let &[_, a, b, c, d, last_session] = frame else {
            return Err(Refusal::WrongSecret);
        };
        let claimed = [a, b, c, d];
        let over: [&[u64]; 3] = [&self.hello, &self.challenge, &[last_session]];
        let is_of = |one: &&Arc<Issued>| {
            let secret = one.secret();
            secret.is_some() == self.secret_needed
                && is_proved(secret, HandshakeSide::Client, &over, claimed)
        };
        let Some(grant) = self.grants.iter().find(is_of) else {
            if self.grants.is_empty() {
                // As long as where there is a grant with another secret.
                let _ = is_proved(
                    Some(&Secret::random()),
                    HandshakeSide::Client,
                    &over,
                    claimed,
                );
            }
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
            peer: visitor.peer,
            grant: Arc::clone(grant),
            regions: &node.regions,
            asked: self.rights,
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
        let ours = prove(grant.secret(), HandshakeSide::Agent, &frames);
        set_proof(&mut welcome, ours);
        out.frame(FrameKind::Completions, &welcome);
        Ok((session, serving))
    }
}

/// Appends a REFUSED.
pub(crate) fn refuse(out: &mut Outbound, refusal: Refusal) {
    out.frame(FrameKind::Completions, &refused(refusal));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Carrier;
    use crate::memory::{Node, RegionSpec};
    use crate::net::ServeOptions;
    use crate::net::admission::Grant;
    use crate::net::agent::service::VerbService;
    use crate::net::agent::shared::Workers;

    /// Nobody comes so far.
    struct Nothing;

    impl VerbService for Nothing {
        fn carrier(&self) -> Carrier {
            Carrier::Tcp
        }

        fn admit(&self, _: Client<'_>) -> Box<dyn Serve> {
            panic!("nobody is admitted")
        }
    }

    fn shared(trusted: &[&str], grants: &[Grant]) -> AgentCore {
        let region = RegionSpec {
            len: 8,
            rights: Rights::ALL,
        };
        let node = Node::embedded(&[region]).unwrap();
        let options = ServeOptions {
            trusted: trusted.iter().map(|text| text.parse().unwrap()).collect(),
            ..ServeOptions::default()
        };
        let workers = Workers {
            threads: 1,
            spin: Duration::ZERO,
            frame_bytes: 4096,
            unsent_bytes: 4096,
        };
        let shared =
            AgentCore::new(node, &options, &workers, Vec::new(), Box::new(Nothing)).unwrap();
        for grant in grants {
            let node = shared.served.node.info();
            shared.grants.issue(grant, node, 1 << 20).unwrap();
        }
        shared
    }

    /// Whether a client at that address must know a secret for a grant.
    fn asks(shared: &AgentCore, address: &str, grant: &str) -> Result<bool, Refusal> {
        let visitor = Visitor {
            peer: SocketAddr::new(address.parse().unwrap(), 0),
            certificate: None,
        };
        open_to(visitor, grant, shared).map(|(_, secret_needed)| secret_needed)
    }

    #[test]
    fn what_needs_no_proof_is_for_loopback_and_for_networks_that_are_trusted() {
        let all = [Grant::everything(None)];
        for (trusted, address, expected) in [
            (&[][..], "127.0.0.1", Ok(false)),
            (&[], "::1", Ok(false)),
            (&[], "::ffff:127.0.0.1", Ok(false)),
            (&[], "10.1.2.3", Err(Refusal::NotTrusted)),
            (&["10.0.0.0/8", "fd00::/8"], "10.1.2.3", Ok(false)),
            (&["10.0.0.0/8", "fd00::/8"], "::ffff:10.1.2.3", Ok(false)),
            (&["10.0.0.0/8", "fd00::/8"], "fd00::1", Ok(false)),
            (
                &["10.0.0.0/8", "fd00::/8"],
                "11.0.0.1",
                Err(Refusal::NotTrusted),
            ),
            (&["0.0.0.0/0"], "fd00::1", Err(Refusal::NotTrusted)),
        ] {
            let asked = asks(&shared(trusted, &all), address, "default");
            assert_eq!(asked, expected, "{address} by {trusted:?}");
        }
        let shared = shared(&["10.0.0.0/8"], &all);
        assert_eq!(
            asks(&shared, "10.1.2.3", "other"),
            Err(Refusal::NoSuchGrant)
        );
    }

    #[test]
    fn a_trusted_network_is_no_secret() {
        let secret = Secret::new([7; 16]).unwrap();
        let shared = shared(&["10.0.0.0/8"], &[Grant::everything(Some(secret))]);
        for (address, grant) in [("10.1.2.3", "default"), ("11.1.2.3", "other")] {
            assert_eq!(asks(&shared, address, grant), Ok(true));
        }
    }
}
