//! How pages are served, and to whom.

use farslot::admission::{Network, TlsServer};
use std::net::IpAddr;

/// How a [`Page`](crate::Page) is served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageOptions {
    /// Where: HOST:PORT, with port 0 for any that is free.
    pub listen: String,
    /// How it is served under TLS, if it is.
    pub tls: Option<TlsServer>,
    /// Networks beyond loopback whose clients are served.
    pub trusted: Vec<Network>,
    /// Whether all networks are.
    pub insecure: bool,
}

impl PageOptions {
    /// The defaults, at an address: only clients of this machine are served.
    #[must_use]
    pub fn at(listen: &str) -> Self {
        Self {
            listen: listen.into(),
            tls: None,
            trusted: Vec::new(),
            insecure: false,
        }
    }

    /// Whether a client at that address is served.
    pub(super) fn trusts(&self, address: IpAddr) -> bool {
        self.insecure
            || address.to_canonical().is_loopback()
            || self.trusted.iter().any(|network| network.contains(address))
    }
}
