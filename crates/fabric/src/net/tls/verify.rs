//! Certificates that are trusted by their fingerprints, and the names in certificates.

use super::Fingerprint;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// Trusts the certificates with these fingerprints. That the node has the key to its certificate is
/// checked as for any other.
#[derive(Debug)]
pub(super) struct Pins {
    pins: Vec<Fingerprint>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Pins {
    pub(super) fn new(pins: Vec<Fingerprint>, provider: &CryptoProvider) -> Self {
        Self {
            pins,
            algorithms: provider.signature_verification_algorithms,
        }
    }
}

impl ServerCertVerifier for Pins {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.pins.contains(&Fingerprint::of(certificate)) {
            return Ok(ServerCertVerified::assertion());
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        // Only TLS 1.3 is spoken.
        Err(Error::General("TLS 1.2".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Whether a certificate (DER) is for that name.
pub(super) fn is_for(certificate: &[u8], name: &str) -> bool {
    let certificate = CertificateDer::from(certificate);
    let Ok(parsed) = ParsedCertificate::try_from(&certificate) else {
        return false;
    };
    ServerName::try_from(name).is_ok_and(|name| verify_server_name(&parsed, &name).is_ok())
}
