//! A client of TLS that is no endpoint: it sends and receives bytes.

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

pub type TlsStream = StreamOwned<ClientConnection, TcpStream>;

/// Shakes hands with a server whose certificate is of this authority (PEM), for 127.0.0.1. One that
/// says nothing for a minute fails.
pub fn connect(address: SocketAddr, authority: &[u8]) -> io::Result<TlsStream> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority).unwrap())
        .unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "127.0.0.1".try_into().unwrap();
    let mut session = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut tcp = TcpStream::connect(address)?;
    tcp.set_read_timeout(Some(Duration::from_secs(60)))?;
    tcp.set_nodelay(true)?;
    while session.is_handshaking() {
        session.complete_io(&mut tcp)?;
    }
    Ok(StreamOwned::new(session, tcp))
}
