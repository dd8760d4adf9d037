//! TLS below the frames: what a `tcps://` address has and a `tcp://` address has not.
//!
//! Only TLS 1.3, by rustls. Sessions are never resumed and there is no early data, so every
//! connection proves itself anew. A node proves itself by a certificate: of an authority that the
//! client trusts and for the host that it connects to, or one whose fingerprint the client knows.
//! A client may prove itself by a certificate as well: see [`Clients`].
//!
//! What a session holds is bounded: 32 KiB until the handshake is done, then
//! one record (16 KiB) that arrives, and 64 KiB that are sent.
//!
//! Without the cargo feature `tls` the same types are here, but no value of them can be made.

#[cfg(not(feature = "tls"))]
mod absent;
#[cfg(feature = "tls")]
mod config;
mod fingerprint;
#[cfg(feature = "tls")]
mod session;
#[cfg(feature = "tls")]
mod verify;

#[cfg(not(feature = "tls"))]
pub(crate) use absent::Session;
#[cfg(not(feature = "tls"))]
pub use absent::{TlsClient, TlsServer};
#[cfg(feature = "tls")]
pub use config::{TlsClient, TlsServer};
pub use fingerprint::Fingerprint;
#[cfg(feature = "tls")]
pub(crate) use session::Session;

/// Which nodes a client trusts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trust {
    /// Those with a certificate of one of these authorities (PEM) for the host that is connected
    /// to.
    Authorities(Vec<u8>),
    /// Those with one of these certificates, whatever host and time they are for.
    Pinned(Vec<Fingerprint>),
}

/// The certificates that open a grant, among those of the agent's client authority.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Clients {
    /// All of them.
    Any,
    /// Those for one of these names: subject alternative names, of DNS.
    Named(Vec<String>),
}

impl Clients {
    /// Whether a certificate (DER) opens the grant.
    pub(crate) fn include(&self, certificate: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::Named(names) => names.iter().any(|name| is_for(certificate, name)),
        }
    }
}

#[cfg(feature = "tls")]
use verify::is_for;

#[cfg(not(feature = "tls"))]
fn is_for(_: &[u8], _: &str) -> bool {
    false
}
