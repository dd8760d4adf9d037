//! A connection as frames go through it, bare or under TLS: nothing above knows which.

use super::socket::{self, Io};
use super::tls::Session;
use crate::error::TlsFailure;
use std::net::TcpStream;

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
