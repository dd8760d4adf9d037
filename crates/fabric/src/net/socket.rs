//! Socket options, and sends and receives that do not block.

use crate::error::os;
use crate::{Nanos, Result};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, sockopt};
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
#[cfg(feature = "tls")]
pub(crate) fn send_all_of(stream: &TcpStream, pieces: &[std::io::IoSlice<'_>]) -> Io {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let nothing = &mut rustix::net::SendAncillaryBuffer::default();
    Io::of(rustix::net::sendmsg(stream, pieces, nothing, flags))
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
