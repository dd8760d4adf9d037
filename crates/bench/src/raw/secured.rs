//! A certificate for one measurement.

use crate::Result;
use farslot::admission::{TlsClient, TlsServer};
use farslot::fabric::FabricError;

/// An agent with a certificate of its own making, and a client that trusts it by its fingerprint.
#[cfg(feature = "tls")]
pub(super) fn both_sides() -> Result<(TlsServer, TlsClient)> {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".into()]);
    let made = made.map_err(|error| FabricError::BadTls {
        subject: "the certificate of the measurement",
        reason: error.to_string(),
    })?;
    let key = made.signing_key.serialize_pem();
    let server = TlsServer::new(made.cert.pem().as_bytes(), key.as_bytes(), None)?;
    let pinned = farslot::admission::Trust::Pinned(vec![server.fingerprint()]);
    Ok((server, TlsClient::new(&pinned, None)?))
}

/// There is no TLS in this build.
#[cfg(not(feature = "tls"))]
pub(super) fn both_sides() -> Result<(TlsServer, TlsClient)> {
    Err(FabricError::NoTls.into())
}
