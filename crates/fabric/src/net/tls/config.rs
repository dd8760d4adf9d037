//! What both sides show and trust, as rustls takes it.

use super::verify::Pins;
use super::{Fingerprint, Session, Trust};
use crate::{FabricError, Result};
use rustls::client::{Resumption, WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime,
};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::Arc;

/// How a client connects under TLS: which nodes it trusts, and how it proves itself.
#[derive(Clone)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
    /// Of all that it was made of.
    digest: [u8; 32],
}

/// How an agent serves under TLS: how it proves itself, and whose certificates open grants.
#[derive(Clone)]
pub struct TlsServer {
    config: Arc<ServerConfig>,
    certificate: CertificateDer<'static>,
    fingerprint: Fingerprint,
    /// Of the client authority and of what it has revoked.
    client_authority: Option<[u8; 32]>,
    digest: [u8; 32],
}

impl PartialEq for TlsClient {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for TlsClient {}

impl PartialEq for TlsServer {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for TlsServer {}

impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsClient(..)")
    }
}

impl fmt::Debug for TlsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsServer")
            .field("fingerprint", &self.fingerprint)
            .finish_non_exhaustive()
    }
}

impl TlsClient {
    /// A client that trusts these nodes and, where it has a certificate of its own and the key to
    /// it (PEM both), proves itself by that.
    ///
    /// # Errors
    /// [`FabricError::BadTls`] of what cannot be used.
    pub fn new(trust: &Trust, identity: Option<(&[u8], &[u8])>) -> Result<Self> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(bad("the protocol"))?;
        let builder = match trust {
            Trust::Authorities(pem) => {
                let roots = Arc::new(authorities(pem)?);
                let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider)
                    .build()
                    .map_err(bad("the authority"))?;
                builder.with_webpki_verifier(verifier)
            }
            Trust::Pinned(pins) => {
                if pins.is_empty() {
                    return Err(bad("the fingerprint")("there is none"));
                }
                let verifier = Arc::new(Pins::new(pins.clone(), &provider));
                builder
                    .dangerous()
                    .with_custom_certificate_verifier(verifier)
            }
        };
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder
                .with_client_auth_cert(
                    certificates(chain, "the client's certificate")?,
                    key_of(key)?,
                )
                .map_err(bad("the client's certificate and key"))?,
        };
        config.resumption = Resumption::disabled();
        let trusted = format!("{trust:?}");
        let (chain, key) = identity.unwrap_or_default();
        Ok(Self {
            config: Arc::new(config),
            digest: digest(&[trusted.as_bytes(), chain, key]),
        })
    }

    /// A session with a node at that host.
    pub(crate) fn session(&self, host: &str) -> Result<Session> {
        let name = ServerName::try_from(host).map_err(|error| FabricError::Unresolvable {
            address: host.into(),
            error: error.to_string(),
        })?;
        let config = Arc::clone(&self.config);
        let client = ClientConnection::new(config, name.to_owned());
        Ok(Session::new(client.map_err(bad("the client"))?.into()))
    }
}

impl TlsServer {
    /// An agent that proves itself by the first of these certificates, behind which those between
    /// it and its authority may stand, and by the key to it. With a client authority, clients may
    /// prove themselves by certificates of that, but for those on the lists of revoked ones (X509
    /// CRL) that stand beside the authority. A list counts also after the date by which the next
    /// was to come. All of it is PEM.
    ///
    /// # Errors
    /// [`FabricError::BadTls`] of what cannot be used.
    pub fn new(chain: &[u8], key: &[u8], client_authority: Option<&[u8]>) -> Result<Self> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(bad("the protocol"))?;
        let builder = match client_authority {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let roots = Arc::new(authorities(pem)?);
                let revoked: std::result::Result<Vec<_>, _> =
                    CertificateRevocationListDer::pem_slice_iter(pem).collect();
                let revoked = revoked.map_err(bad("the list of revoked certificates"))?;
                // What a client without one may do is for its grant to say.
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider)
                    .allow_unauthenticated()
                    .with_crls(revoked)
                    // An authority need not have a list.
                    .allow_unknown_revocation_status()
                    .build()
                    .map_err(bad("the client authority"))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let certificates = certificates(chain, "the certificate")?;
        let certificate = certificates[0].clone();
        let fingerprint = Fingerprint::of(&certificate);
        let mut config = builder
            .with_single_cert(certificates, key_of(key)?)
            .map_err(bad("the certificate and its key"))?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self {
            config: Arc::new(config),
            certificate,
            fingerprint,
            client_authority: client_authority.map(|pem| digest(&[pem])),
            digest: digest(&[chain, key, client_authority.unwrap_or_default()]),
        })
    }

    /// Why its certificate is not valid now, as clients that trust an authority see it; those with
    /// a fingerprint take it all the same.
    #[must_use]
    pub fn not_valid_now(&self) -> Option<String> {
        let parsed = match ParsedCertificate::try_from(&self.certificate) {
            Ok(parsed) => parsed,
            Err(error) => return Some(error.to_string()),
        };
        // Of no authority at all. When it is valid is looked at first.
        let trusted = verify_server_cert_signed_by_trust_anchor(
            &parsed,
            &RootCertStore::empty(),
            &[],
            UnixTime::now(),
            ring::default_provider()
                .signature_verification_algorithms
                .all,
        );
        use rustls::CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
        match trusted {
            Err(
                error @ rustls::Error::InvalidCertificate(
                    Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. },
                ),
            ) => Some(error.to_string()),
            _ => None,
        }
    }

    /// The fingerprint of its certificate.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Whether clients may prove themselves by certificates.
    #[must_use]
    pub fn admits_certificates(&self) -> bool {
        self.client_authority.is_some()
    }

    /// Whether both trust the same certificates of clients.
    pub(crate) fn same_client_authority(&self, other: &Self) -> bool {
        self.client_authority == other.client_authority
    }

    /// A session with a client that has connected; nothing if there can be none now.
    pub(crate) fn session(&self) -> Option<Session> {
        let server = ServerConnection::new(Arc::clone(&self.config)).ok()?;
        Some(Session::new(server.into()))
    }
}

fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut all = Sha256::new();
    for part in parts {
        all.update((part.len() as u64).to_le_bytes());
        all.update(part);
    }
    all.finalize().into()
}

fn bad<E: fmt::Display>(subject: &'static str) -> impl Fn(E) -> FabricError {
    move |reason| FabricError::BadTls {
        subject,
        reason: reason.to_string(),
    }
}

fn certificates(pem: &[u8], subject: &'static str) -> Result<Vec<CertificateDer<'static>>> {
    let all: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(bad(subject))?;
    if all.is_empty() {
        return Err(bad(subject)("there is none in it: it must be PEM"));
    }
    Ok(all)
}

fn authorities(pem: &[u8]) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for authority in certificates(pem, "the authority")? {
        roots.add(authority).map_err(bad("the authority"))?;
    }
    Ok(roots)
}

fn key_of(pem: &[u8]) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_slice(pem).map_err(bad("the key"))
}
