//! The client's side of the handshake: resolve, connect, be admitted, within one timeout.

use super::handshake::{
    CHALLENGE_WORDS, Carrier, HandshakeSide, Hello, LARGEST, LONGEST_NAME, Welcome, challenge,
    decode_refused, is_proved, proof, prove, take_proof,
};
use crate::error::{Malformed, Refusal, TlsFailure, os};
use crate::net::options::ConnectOptions;
use crate::net::secured::Socket;
use crate::net::socket::{Io, nanos, prepare};
use crate::net::wire::{FrameKind, Header};
use crate::{FabricError, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// A connection that may carry verbs.
#[derive(Debug)]
pub struct Admitted {
    /// The connection.
    pub socket: Socket,
    /// What it may use.
    pub welcome: Welcome,
}

/// Connects to the agent at `address`, `HOST:PORT`, and is admitted. This blocks.
///
/// # Errors
/// [`FabricError::Unresolvable`], [`FabricError::ConnectionRefused`],
/// [`FabricError::ConnectTimedOut`], [`FabricError::Connect`], [`FabricError::NotAdmitted`],
/// [`FabricError::Tls`]; [`FabricError::Protocol`] if something else listens there;
/// [`FabricError::BadName`] if the grant's name is too long.
pub fn connect(address: &str, options: &ConnectOptions) -> Result<Admitted> {
    connect_after(0, address, options)
}

/// As [`connect`], in place of the connection of that [session](Welcome::session): the node
/// executes no verb of it once this has returned.
pub(crate) fn connect_after(
    last_session: u64,
    address: &str,
    options: &ConnectOptions,
) -> Result<Admitted> {
    Attempt::begin(last_session, address, options).admit(Carrier::Tcp)
}

/// One try to connect, within the connect timeout.
pub(crate) struct Attempt<'a> {
    last_session: u64,
    address: &'a str,
    options: &'a ConnectOptions,
    /// Nothing if that is too far away to be a time.
    until: Option<Instant>,
}

impl<'a> Attempt<'a> {
    /// From now on the time counts. The session is that of the connection whose place this one
    /// takes, or 0.
    pub(crate) fn begin(last_session: u64, address: &'a str, options: &'a ConnectOptions) -> Self {
        Self {
            last_session,
            address,
            options,
            until: Instant::now().checked_add(options.connect_timeout),
        }
    }

    /// Connects and is admitted, by an agent whose clients' verbs are carried so.
    pub(crate) fn admit(&self, carrier: Carrier) -> Result<Admitted> {
        if self.options.grant.len() > LONGEST_NAME {
            return Err(FabricError::BadName {
                name: self.options.grant.clone(),
                reason: "a grant's name has at most 64 bytes",
            });
        }
        let stream = self.open()?;
        prepare(&stream, self.options.peer_timeout)?;
        let mut socket = self.secure(stream)?;
        let welcome = self.shake_hands(&mut socket, carrier)?;
        Ok(Admitted { socket, welcome })
    }

    /// Puts the connection under TLS, where that is asked for.
    fn secure(&self, stream: TcpStream) -> Result<Socket> {
        let session = match &self.options.tls {
            None => None,
            Some(tls) => Some(tls.session(host_of(self.address))?),
        };
        let mut socket = Socket::new(stream, session);
        while socket.is_shaking_hands() {
            match socket.shake_hands() {
                Io::Moved(_) => {}
                Io::Blocked if socket.has_unsent() => self.wait(&socket, PollFlags::OUT)?,
                Io::Blocked => self.wait(&socket, PollFlags::IN)?,
                Io::Closed => return Err(self.closed(&socket)),
            }
        }
        Ok(socket)
    }

    /// What is left of the time.
    fn left(&self) -> Result<Duration> {
        let left = self.until.map_or(self.options.connect_timeout, |until| {
            until.saturating_duration_since(Instant::now())
        });
        if left.is_zero() {
            Err(self.timed_out())
        } else {
            Ok(left)
        }
    }

    fn timed_out(&self) -> FabricError {
        FabricError::ConnectTimedOut {
            address: self.address.into(),
            after: nanos(self.options.connect_timeout),
        }
    }

    fn failed(&self, error: &std::io::Error) -> FabricError {
        let address = self.address.into();
        match error.kind() {
            ErrorKind::ConnectionRefused => FabricError::ConnectionRefused { address },
            ErrorKind::TimedOut | ErrorKind::WouldBlock => self.timed_out(),
            _ => FabricError::Connect {
                address,
                error: error.to_string(),
            },
        }
    }

    /// Connects to the first address of the name that answers.
    fn open(&self) -> Result<TcpStream> {
        let mut last = None;
        for address in self.resolve()? {
            match TcpStream::connect_timeout(&address, self.left()?) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = Some(error),
            }
        }
        Err(match last {
            Some(error) => self.failed(&error),
            None => FabricError::Unresolvable {
                address: self.address.into(),
                error: "the name has no address".into(),
            },
        })
    }

    /// The resolver of the system cannot be told to hurry: a thread waits for it.
    fn resolve(&self) -> Result<Vec<SocketAddr>> {
        if let Ok(address) = self.address.parse() {
            return Ok(vec![address]);
        }
        let (give, resolved) = mpsc::channel();
        let name = self.address.to_owned();
        std::thread::Builder::new()
            .name("farslot-resolve".into())
            .spawn(move || {
                // Where nobody waits any more, the answer is not needed.
                let _ = give.send(name.to_socket_addrs().map(Vec::from_iter));
            })
            .map_err(os("spawning a thread"))?;
        match resolved.recv_timeout(self.left()?) {
            Ok(Ok(addresses)) => Ok(addresses),
            Ok(Err(error)) => Err(FabricError::Unresolvable {
                address: self.address.into(),
                error: error.to_string(),
            }),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                Err(self.timed_out())
            }
        }
    }

    fn shake_hands(&self, socket: &mut Socket, carrier: Carrier) -> Result<Welcome> {
        let secret = self.options.secret.as_ref();
        let hello = Hello {
            carrier,
            grant: self.options.grant.clone(),
            rights: self.options.rights,
            receiver_wait: self.options.limits.verb_timeout / 2,
            nonce: rand::random(),
        }
        .encode();
        self.write(socket, &hello)?;
        let challenged = self.frame(socket, FrameKind::Challenge)?;
        let secret_needed = self.check_challenge(&challenged)?;
        if secret_needed && secret.is_none() {
            return Err(self.refused(Refusal::SecretNeeded));
        }
        // A node without a secret cannot be the one that this client shares its secret with, unless
        // it has proved itself already, as this client has to it.
        let secret = secret.filter(|_| secret_needed || !socket.is_tls());
        if !secret_needed && secret.is_some() {
            return Err(self.refused(Refusal::NodeUnproved));
        }
        let last = self.last_session;
        let proof = proof(
            prove(
                secret,
                HandshakeSide::Client,
                &[&hello, &challenged, &[last]],
            ),
            last,
        );
        self.write(socket, &proof)?;
        let mut welcome = self.frame(socket, FrameKind::Welcome)?;
        let agents = take_proof(&mut welcome).ok_or_else(|| {
            self.malformed(Malformed::Handshake {
                reason: "a WELCOME is too short",
            })
        })?;
        let frames = [&hello[..], &challenged, &proof, &welcome];
        if !is_proved(secret, HandshakeSide::Agent, &frames, agents) {
            return Err(self.refused(Refusal::NodeUnproved));
        }
        Welcome::decode(&welcome).map_err(|reason| self.malformed(reason))
    }

    /// Whether the grant has a secret.
    fn check_challenge(&self, words: &[u64]) -> Result<bool> {
        if let [_, flags @ (0 | 1), a, b, c, d] = *words
            && *words == challenge(flags == 1, [a, b, c, d])
        {
            return Ok(flags == 1);
        }
        Err(self.malformed(Malformed::Handshake {
            reason: "a CHALLENGE is not of its form",
        }))
    }

    fn refused(&self, reason: Refusal) -> FabricError {
        FabricError::NotAdmitted {
            address: self.address.into(),
            reason,
        }
    }

    pub(crate) fn malformed(&self, reason: Malformed) -> FabricError {
        FabricError::Protocol {
            peer: self.address.into(),
            reason,
        }
    }

    /// Sends words, within the time that is left for everything.
    pub(crate) fn write(&self, socket: &mut Socket, words: &[u64]) -> Result<()> {
        let mut bytes: &[u8] = bytemuck::cast_slice(words);
        while !bytes.is_empty() {
            match socket.send(bytes) {
                Io::Moved(sent) => bytes = &bytes[sent..],
                Io::Blocked => self.wait(socket, PollFlags::OUT)?,
                Io::Closed => return Err(self.closed(socket)),
            }
        }
        Ok(())
    }

    /// Waits until something can be received or sent.
    fn wait(&self, socket: &Socket, news: PollFlags) -> Result<()> {
        let left = self.left()?;
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(socket.tcp(), news)], Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(os("poll")(error)),
        }
    }

    /// Why nothing more comes.
    fn closed(&self, socket: &Socket) -> FabricError {
        let address = self.address.into();
        match socket.failure() {
            Some(failure) => FabricError::Tls { address, failure },
            None if socket.is_shaking_hands() => FabricError::Connect {
                address,
                error: "it closed the connection during the handshake of TLS".into(),
            },
            None => FabricError::Connect {
                address,
                error: "it closed the connection during the handshake".into(),
            },
        }
    }

    /// Reads one frame, which must be of this kind.
    pub(crate) fn frame(&self, socket: &mut Socket, kind: FrameKind) -> Result<Vec<u64>> {
        let mut first = [0u64];
        self.read(socket, &mut first)?;
        let header = Header::decode_any_version(first[0]).map_err(|error| self.malformed(error))?;
        let words = header.words as usize;
        if words > LARGEST.max(CHALLENGE_WORDS) {
            return Err(self.malformed(Malformed::Length {
                words: header.words,
                limit: LARGEST as u32,
            }));
        }
        let mut frame = vec![0; words];
        frame[0] = first[0];
        self.read(socket, &mut frame[1..])?;
        if let Some(refusal) = decode_refused(&frame) {
            return Err(self.refused(refusal));
        }
        let header = Header::decode(first[0]).map_err(|error| self.malformed(error))?;
        if header.kind != kind {
            return Err(self.malformed(Malformed::Kind {
                found: header.kind as u8,
            }));
        }
        Ok(frame)
    }

    /// Fills `words`, however the bytes trickle in, within the time that is left for everything.
    fn read(&self, socket: &mut Socket, words: &mut [u64]) -> Result<()> {
        let space: &mut [u8] = bytemuck::cast_slice_mut(words);
        let mut filled = 0;
        while filled < space.len() {
            match socket.receive(&mut space[filled..]) {
                Io::Moved(bytes) => filled += bytes,
                Io::Blocked => self.wait(socket, PollFlags::IN)?,
                Io::Closed if !socket.is_tls() && space[..filled].starts_with(&TLS_ALERT) => {
                    return Err(FabricError::Tls {
                        address: self.address.into(),
                        failure: TlsFailure::TlsNeeded,
                    });
                }
                Io::Closed => return Err(self.closed(socket)),
            }
        }
        Ok(())
    }
}

/// How the alert begins by which a node under TLS answers to what is none.
const TLS_ALERT: [u8; 2] = [21, 3];

/// The host of `HOST:PORT`, without the brackets of an IPv6 address.
fn host_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    bare.unwrap_or(host)
}
