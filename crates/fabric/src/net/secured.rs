//! A connection as frames go through it, bare or under TLS: nothing above knows which.

use super::socket::{self, Io};
use super::tls::{Session, TlsServer};
use crate::error::TlsFailure;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

/// A connection, bare or under TLS. Nothing of it ever waits: as a stream it says
/// [`ErrorKind::WouldBlock`].
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

    /// That of a client that has connected, under TLS if that is served.
    ///
    /// # Errors
    /// What the system says of the socket, or of random numbers for a session of TLS.
    pub fn accepted(tcp: TcpStream, tls: Option<&TlsServer>) -> io::Result<Self> {
        let session = tls.map(|tls| {
            let session = tls.session();
            session.ok_or_else(|| io::Error::other("there can be no session of TLS now"))
        });
        tcp.set_nonblocking(true)?;
        Ok(Self::new(tcp, session.transpose()?))
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
            None => socket::receive(&self.tcp, space),
            Some(tls) => tls.receive(&self.tcp, space),
        }
    }

    /// Sends what it can of `bytes`, which are not empty. Those that did not move have to come
    /// first when it is called again.
    #[inline]
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Io {
        match &mut self.tls {
            None => socket::send(&self.tcp, bytes),
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

    /// Whether TLS has something to send by itself, which a flush sends once there is room.
    #[inline]
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.has_unsent())
    }

    /// Whether the handshake of TLS is not done. To receive goes on with it.
    #[inline]
    #[must_use]
    pub fn is_shaking_hands(&self) -> bool {
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

    /// Bytes that TLS holds for it, at the most.
    #[must_use]
    pub fn held(&self) -> usize {
        self.tls.as_ref().map_or(0, |tls| tls.held())
    }

    /// Tells the other side that nothing more is sent, where it is under TLS: at once or not at
    /// all.
    pub fn close_notify(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.close_notify(&self.tcp);
        }
    }

    /// What the other side broke of TLS.
    #[must_use]
    pub fn failure(&self) -> Option<TlsFailure> {
        self.tls.as_ref()?.failure()
    }

    /// The certificate (DER) by which the other side has proved itself.
    pub(crate) fn certificate(&self) -> Option<&[u8]> {
        self.tls.as_ref()?.certificate()
    }
}

impl Read for Socket {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            return self.tcp.read(space);
        };
        if tls.has_unsent() {
            // What does not go now goes later.
            let _ = tls.flush(&self.tcp);
        }
        match tls.receive(&self.tcp, space) {
            Io::Moved(bytes) => Ok(bytes),
            Io::Blocked => Err(ErrorKind::WouldBlock.into()),
            Io::Closed => match tls.failure() {
                None => Ok(0),
                Some(failure) => Err(io::Error::new(ErrorKind::InvalidData, failure)),
            },
        }
    }
}

/// Of what is written, the bytes that did not move have to come first when it is called again.
impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            return self.tcp.write(bytes);
        };
        match tls.send(&self.tcp, bytes) {
            Io::Moved(bytes) => Ok(bytes),
            Io::Blocked => Err(ErrorKind::WouldBlock.into()),
            Io::Closed => Err(ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match Socket::flush(self) {
            Io::Moved(_) => Ok(()),
            Io::Blocked => Err(ErrorKind::WouldBlock.into()),
            Io::Closed => Err(ErrorKind::BrokenPipe.into()),
        }
    }
}
