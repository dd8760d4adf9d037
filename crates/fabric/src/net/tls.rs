//! TLS under a connection: certificates of nodes and of clients, and the stream that encrypts.
//!
//! TLS carries the same frames as a bare connection, the handshake with its proofs included: a
//! secret and a certificate can be asked for both. TLS 1.3 only.

use super::socket::{self, Io};
use crate::{FabricError, Result};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, DigitallySignedStruct,
    RootCertStore, ServerConfig, ServerConnection, SignatureScheme,
};
use sha2::{Digest, Sha256};
use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, PoisonError, RwLock};

/// Plain bytes that a stream takes at a time: those that are encrypted and wait for the socket are
/// no more than these and what TLS adds.
const SENT_AT_ONCE: usize = 64 << 10;

fn bad(what: &'static str, error: impl fmt::Display) -> FabricError {
    FabricError::BadTls {
        what,
        reason: error.to_string(),
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn certificates(what: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let all: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if all.is_empty() => Err(bad(what, "there is no certificate in it")),
        all => all.map_err(|error| bad(what, error)),
    }
}

fn key(what: &'static str, pem: &[u8]) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| bad(what, error))
}

fn authority(what: &'static str, pem: &[u8]) -> Result<Arc<RootCertStore>> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(what, pem)? {
        roots.add(certificate).map_err(|error| bad(what, error))?;
    }
    Ok(Arc::new(roots))
}

/// The SHA-256 digest of a certificate, by which it can be pinned.
pub type Fingerprint = [u8; 32];

/// The fingerprint of the first certificate of a PEM text.
///
/// # Errors
/// [`FabricError::BadTls`].
pub fn fingerprint(pem: &[u8]) -> Result<Fingerprint> {
    let all = certificates("the certificate", pem)?;
    Ok(Sha256::digest(&all[0]).into())
}

/// A node's certificate and key, and which clients' certificates it wants to see. Its copies are
/// one: [`replace`](Self::replace) changes all of them.
#[derive(Clone)]
pub struct ServerTls(Arc<RwLock<Arc<Sides>>>);

struct Sides {
    config: Arc<ServerConfig>,
    clients_are_known: bool,
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerTls(..)")
    }
}

impl ServerTls {
    /// Of PEM texts: the node's certificate with those that it was issued under, its key, and the
    /// authority that issued the certificates of its clients, if they must have any.
    ///
    /// # Errors
    /// [`FabricError::BadTls`] names the text that is wrong.
    pub fn new(chain: &[u8], private_key: &[u8], client_authority: Option<&[u8]>) -> Result<Self> {
        let chain = certificates("the node's certificate", chain)?;
        let private_key = key("the node's key", private_key)?;
        let versions = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| bad("TLS", error))?;
        let verified = match client_authority {
            None => versions.with_no_client_auth(),
            Some(pem) => {
                let what = "the clients' authority";
                let roots = authority(what, pem)?;
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
                let verifier = verifier.build().map_err(|error| bad(what, error))?;
                versions.with_client_cert_verifier(verifier)
            }
        };
        let mut config = verified
            .with_single_cert(chain, private_key)
            .map_err(|error| bad("the node's certificate and key", error))?;
        // A connection lasts; nobody resumes one, and nothing is kept for that.
        config.send_tls13_tickets = 0;
        let sides = Sides {
            config: Arc::new(config),
            clients_are_known: client_authority.is_some(),
        };
        Ok(Self(Arc::new(RwLock::new(Arc::new(sides)))))
    }

    fn sides(&self) -> Arc<Sides> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Has new connections use what another one has; those that are there stay as they are.
    pub fn replace(&self, other: &Self) {
        let other = other.sides();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = other;
    }

    /// Whether clients must have a certificate.
    pub(crate) fn clients_are_known(&self) -> bool {
        self.sides().clients_are_known
    }

    /// The node's side of a new connection.
    ///
    /// # Errors
    /// [`FabricError::BadTls`].
    pub(crate) fn begin(&self) -> Result<Tls> {
        let connection = ServerConnection::new(Arc::clone(&self.sides().config));
        let connection = connection.map_err(|error| bad("TLS", error))?;
        Ok(Tls::new(connection.into()))
    }
}

/// What a client trusts, and the certificate that it shows. Its copies are one, and no other is equal
/// to it.
#[derive(Clone)]
pub struct ClientTls(Arc<ClientConfig>);

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientTls(..)")
    }
}

impl PartialEq for ClientTls {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Which nodes a client trusts.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'t> {
    /// Those whose certificates this authority issued, in PEM, for the host of their address.
    Authority(&'t [u8]),
    /// Those with the certificate of this fingerprint, whatever it is issued for and until when.
    Fingerprint(Fingerprint),
}

impl ClientTls {
    /// With what the client trusts, and the PEM texts of its certificate and its key if it has one.
    ///
    /// # Errors
    /// [`FabricError::BadTls`] names the text that is wrong.
    pub fn new(trust: Trust<'_>, identity: Option<(&[u8], &[u8])>) -> Result<Self> {
        let versions = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| bad("TLS", error))?;
        let trusting = match trust {
            Trust::Authority(pem) => {
                let what = "the nodes' authority";
                let roots = authority(what, pem)?;
                let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider());
                let verifier = verifier.build().map_err(|error| bad(what, error))?;
                versions.with_webpki_verifier(verifier)
            }
            Trust::Fingerprint(fingerprint) => versions
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Pinned {
                    fingerprint,
                    algorithms: provider().signature_verification_algorithms,
                })),
        };
        let mut config = match identity {
            None => trusting.with_no_client_auth(),
            Some((chain, private_key)) => trusting
                .with_client_auth_cert(
                    certificates("the client's certificate", chain)?,
                    key("the client's key", private_key)?,
                )
                .map_err(|error| bad("the client's certificate and key", error))?,
        };
        config.resumption = rustls::client::Resumption::disabled();
        Ok(Self(Arc::new(config)))
    }

    /// The client's side of a new connection to `HOST:PORT`.
    ///
    /// # Errors
    /// [`FabricError::BadTls`] of a host that no certificate can name.
    pub(crate) fn begin(&self, address: &str) -> Result<Tls> {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| bad("the host of the address", error))?;
        let connection = ClientConnection::new(Arc::clone(&self.0), name);
        let connection = connection.map_err(|error| bad("TLS", error))?;
        Ok(Tls::new(connection.into()))
    }
}

/// Trusts one certificate. That the node has its key is checked as for any other.
#[derive(Debug)]
struct Pinned {
    fingerprint: Fingerprint,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let found: Fingerprint = Sha256::digest(certificate).into();
        if found == self.fingerprint {
            return Ok(ServerCertVerified::assertion());
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// One side of TLS on a connection, which carries its bytes.
pub(crate) struct Tls {
    connection: Connection,
    /// Plain bytes may be here that were not received.
    has_more: bool,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(..)")
    }
}

/// The socket, as TLS uses it: it never waits.
struct DontWait<'s>(&'s TcpStream);

fn as_result(io: Io) -> std::io::Result<usize> {
    match io {
        Io::Moved(bytes) => Ok(bytes),
        Io::Blocked => Err(ErrorKind::WouldBlock.into()),
        Io::Closed => Ok(0),
    }
}

impl Read for DontWait<'_> {
    fn read(&mut self, space: &mut [u8]) -> std::io::Result<usize> {
        as_result(socket::receive(self.0, space))
    }
}

impl Write for DontWait<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match socket::send(self.0, bytes) {
            Io::Closed => Err(ErrorKind::BrokenPipe.into()),
            io => as_result(io),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Tls {
    fn new(mut connection: Connection) -> Self {
        connection.set_buffer_limit(Some(SENT_AT_ONCE));
        Self {
            connection,
            has_more: false,
        }
    }

    /// Receives plain bytes into `space`, which is not empty, and goes on with the handshake.
    fn receive(&mut self, stream: &TcpStream, space: &mut [u8]) -> Io {
        let mut received = 0;
        self.has_more = false;
        loop {
            match self.connection.reader().read(&mut space[received..]) {
                Ok(0) => break,
                Ok(bytes) => {
                    received += bytes;
                    if received == space.len() {
                        self.has_more = true;
                        break;
                    }
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
            match self.connection.read_tls(&mut DontWait(stream)) {
                Ok(0) => break,
                Ok(_) => {
                    let processed = self.connection.process_new_packets();
                    // What it has to say to that, an alert too.
                    let _ = self.flush(stream);
                    if let Err(error) = processed {
                        log::info!("a connection ends by TLS: {error}");
                        return Io::Closed;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock && received == 0 => {
                    return Io::Blocked;
                }
                Err(_) => break,
            }
        }
        match received {
            0 => Io::Closed,
            bytes => Io::Moved(bytes),
        }
    }

    /// Takes what it can of `bytes`, which are not empty, and sends what it can of all it has.
    fn send(&mut self, stream: &TcpStream, bytes: &[u8]) -> Io {
        match self.flush(stream) {
            Io::Moved(_) => {}
            other => return other,
        }
        match self.connection.writer().write(bytes) {
            Ok(0) => Io::Blocked,
            Ok(taken) => match self.flush(stream) {
                Io::Closed => Io::Closed,
                _ => Io::Moved(taken),
            },
            Err(_) => Io::Closed,
        }
    }

    /// Sends what is encrypted; `Moved` if nothing is left.
    fn flush(&mut self, stream: &TcpStream) -> Io {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut DontWait(stream)) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Io::Blocked,
                Err(_) => return Io::Closed,
            }
        }
        Io::Moved(0)
    }

    /// Reads plain bytes of a socket that waits.
    pub(crate) fn read(&mut self, stream: &TcpStream, space: &mut [u8]) -> std::io::Result<usize> {
        rustls::Stream::new(&mut self.connection, &mut &*stream).read(space)
    }

    /// Writes plain bytes to a socket that waits.
    pub(crate) fn write_all(&mut self, stream: &TcpStream, bytes: &[u8]) -> std::io::Result<()> {
        let mut stream = &*stream;
        let mut tls = rustls::Stream::new(&mut self.connection, &mut stream);
        tls.write_all(bytes).and_then(|()| tls.flush())
    }
}

/// Receives into `space`, which is not empty, bare or by TLS.
#[inline]
pub(crate) fn receive(stream: &TcpStream, tls: Option<&mut Tls>, space: &mut [u8]) -> Io {
    match tls {
        None => socket::receive(stream, space),
        Some(tls) => tls.receive(stream, space),
    }
}

/// Sends what it can of `bytes`, which are not empty, bare or by TLS. What TLS took may still be
/// [unsent](is_sending).
#[inline]
pub(crate) fn send(stream: &TcpStream, tls: Option<&mut Tls>, bytes: &[u8]) -> Io {
    match tls {
        None => socket::send(stream, bytes),
        Some(tls) => tls.send(stream, bytes),
    }
}

/// Sends what TLS has that was not sent; `Moved` if nothing is left.
#[inline]
pub(crate) fn flush(stream: &TcpStream, tls: Option<&mut Tls>) -> Io {
    tls.map_or(Io::Moved(0), |tls| tls.flush(stream))
}

/// Whether TLS has bytes that were not sent.
#[inline]
pub(crate) fn is_sending(tls: Option<&Tls>) -> bool {
    tls.is_some_and(|tls| tls.connection.wants_write())
}

/// Whether plain bytes are here of which the kernel knows nothing.
#[inline]
pub(crate) fn has_more(tls: Option<&Tls>) -> bool {
    tls.is_some_and(|tls| tls.has_more)
}
