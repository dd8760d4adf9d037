//! Connections as frames go through them, bare or under TLS; socket options, and sends and receives
//! that do not block.

use super::tls::Session;
use crate::error::{TlsFailure, os};
use crate::{Nanos, Result};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, sockopt};
use std::io::IoSlice;
use std::net::TcpStream;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// What became of a call that does not wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Io {
    /// So many bytes went, at least one.
    Moved(usize),
    /// Not now.
    Blocked,
    /// The connection is over.
    Closed,
}

impl Io {
    fn of(result: rustix::io::Result<usize>) -> Self {
        match result {
            Ok(0) => Self::Closed,
            Ok(bytes) => Self::Moved(bytes),
            Err(Errno::AGAIN | Errno::INTR) => Self::Blocked,
            Err(_) => Self::Closed,
        }
    }
}

/// Receives into `space`, which is not empty.
#[inline]
pub(crate) fn receive(stream: &TcpStream, space: &mut [u8]) -> Io {
    Io::of(rustix::net::recv(stream, space, RecvFlags::DONTWAIT).map(|(_, bytes)| bytes))
}

/// Sends what it can of `bytes`, which are not empty.
#[inline]
pub(crate) fn send(stream: &TcpStream, bytes: &[u8]) -> Io {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    Io::of(rustix::net::send(stream, bytes, flags))
}

/// Sends what it can of several pieces, as [`send`].
pub(crate) fn send_all_of(stream: &TcpStream, pieces: &[IoSlice<'_>]) -> Io {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let nothing = &mut SendAncillaryBuffer::default();
    Io::of(rustix::net::sendmsg(stream, pieces, nothing, flags))
}

/// A connection, bare or under TLS. Nothing of it ever waits.
#[derive(Debug)]
pub struct Socket {
    tcp: TcpStream,
    tls: Option<Box<Session>>,
}

impl Socket {
    /// With TLS if there is a session.
    pub(crate) fn new(tcp: TcpStream, tls: Option<Session>) -> Self {
        let tls = tls.map(Box::new);
        Self { tcp, tls }
    }

    /// What carries the bytes, as they are on the wire.
    #[must_use]
    pub fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// What carries the bytes; nothing if they are under TLS.
    pub(crate) fn into_bare(self) -> Option<TcpStream> {
        self.tls.is_none().then_some(self.tcp)
    }

    /// Receives once into `space`, which is not empty.
    #[inline]
    pub(crate) fn receive(&mut self, space: &mut [u8]) -> Io {
        match &mut self.tls {
            None => receive(&self.tcp, space),
            Some(tls) => tls.receive(&self.tcp, space),
        }
    }

    /// Sends what it can of `bytes`, which are not empty. Those that did not move have to come
    /// first when it is called again.
    #[inline]
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Io {
        match &mut self.tls {
            None => send(&self.tcp, bytes),
            Some(tls) => tls.send(&self.tcp, bytes),
        }
    }

    /// Goes on with the handshake of TLS, as far as what has come reaches.
    pub(crate) fn shake_hands(&mut self) -> Io {
        match &mut self.tls {
            None => Io::Moved(0),
            Some(tls) => tls.shake_hands(&self.tcp),
        }
    }

    /// Sends what TLS has to send by itself.
    #[inline]
    pub(crate) fn flush(&mut self) -> Io {
        match &mut self.tls {
            None => Io::Moved(0),
            Some(tls) => tls.flush(&self.tcp),
        }
    }

    /// Whether TLS has something to send by itself.
    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.has_unsent())
    }

    /// Whether the handshake of TLS is not done.
    #[inline]
    pub(crate) fn is_shaking_hands(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_shaking_hands())
    }

    /// Whether it is under TLS.
    pub(crate) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Bytes that have arrived and that the kernel tells nothing of any more.
    #[inline]
    pub(crate) fn opened(&self) -> usize {
        self.tls.as_ref().map_or(0, |tls| tls.opened())
    }

    /// What the other side broke of TLS.
    pub(crate) fn failure(&self) -> Option<TlsFailure> {
        self.tls.as_ref()?.failure()
    }

    /// The certificate (DER) by which the other side has proved itself.
    pub(crate) fn certificate(&self) -> Option<&[u8]> {
        self.tls.as_ref()?.certificate()
    }
}

/// Has frames sent at once, and a lost peer noticed within about `peer_timeout`.
pub(crate) fn prepare(stream: &TcpStream, peer_timeout: Duration) -> Result<()> {
    const PROBES: u32 = 3;
    const SECOND: Duration = Duration::from_secs(1);
    let milliseconds = u32::try_from(peer_timeout.as_millis()).unwrap_or(u32::MAX);
    let set = || {
        sockopt::set_tcp_nodelay(stream, true)?;
        sockopt::set_socket_keepalive(stream, true)?;
        // Idle for half of the time, then three probes in the other half.
        sockopt::set_tcp_keepidle(stream, (peer_timeout / 2).max(SECOND))?;
        sockopt::set_tcp_keepintvl(stream, (peer_timeout / (2 * PROBES)).max(SECOND))?;
        sockopt::set_tcp_keepcnt(stream, PROBES)?;
        sockopt::set_tcp_user_timeout(stream, milliseconds)
    };
    set().map_err(os("setsockopt"))
}

/// Nanoseconds since the first call in this process.
#[inline]
pub(crate) fn now() -> Nanos {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as Nanos
}

/// A span in nanoseconds, the longest where it is longer.
pub(crate) fn nanos(span: Duration) -> Nanos {
    Nanos::try_from(span.as_nanos()).unwrap_or(Nanos::MAX)
}
