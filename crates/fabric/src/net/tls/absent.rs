//! The types of TLS in a build without the feature `tls`: none of them has a value.

use super::{Fingerprint, Trust};
use crate::error::TlsFailure;
use crate::net::socket::Io;
use crate::{FabricError, Result};
use std::convert::Infallible;
use std::net::TcpStream;

/// How a client connects under TLS: not in this build.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsClient(Infallible);

/// How an agent serves under TLS: not in this build.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsServer(Infallible);

#[derive(Debug)]
pub(crate) struct Session(Infallible);

impl TlsClient {
    /// As with the feature.
    ///
    /// # Errors
    /// [`FabricError::NoTls`], always.
    pub fn new(_: &Trust, _: Option<(&[u8], &[u8])>) -> Result<Self> {
        Err(FabricError::NoTls)
    }

    pub(crate) fn session(&self, _: &str) -> Result<Session> {
        match self.0 {}
    }
}

impl TlsServer {
    /// As with the feature.
    ///
    /// # Errors
    /// [`FabricError::NoTls`], always.
    pub fn new(_: &[u8], _: &[u8], _: Option<&[u8]>) -> Result<Self> {
        Err(FabricError::NoTls)
    }

    /// The fingerprint of its certificate.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        match self.0 {}
    }

    /// Why its certificate is not valid now.
    #[must_use]
    pub fn not_valid_now(&self) -> Option<String> {
        match self.0 {}
    }

    /// Whether clients may prove themselves by certificates.
    #[must_use]
    pub fn admits_certificates(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn same_client_authority(&self, _: &Self) -> bool {
        match self.0 {}
    }

    pub(crate) fn session(&self) -> Option<Session> {
        match self.0 {}
    }
}

impl Session {
    pub(crate) fn receive(&mut self, _: &TcpStream, _: &mut [u8]) -> Io {
        match self.0 {}
    }

    pub(crate) fn send(&mut self, _: &TcpStream, _: &[u8]) -> Io {
        match self.0 {}
    }

    pub(crate) fn shake_hands(&mut self, _: &TcpStream) -> Io {
        match self.0 {}
    }

    pub(crate) fn flush(&mut self, _: &TcpStream) -> Io {
        match self.0 {}
    }

    pub(crate) fn is_shaking_hands(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn has_unsent(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn held(&self) -> usize {
        match self.0 {}
    }

    pub(crate) fn close_notify(&mut self, _: &TcpStream) {
        match self.0 {}
    }

    pub(crate) fn opened(&self) -> usize {
        match self.0 {}
    }

    pub(crate) fn failure(&self) -> Option<TlsFailure> {
        match self.0 {}
    }

    pub(crate) fn certificate(&self) -> Option<&[u8]> {
        match self.0 {}
    }
}
