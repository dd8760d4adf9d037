//! Certificates for tests, and the authority that makes them.

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateRevocationListParams, DnType,
    IsCa, Issuer, KeyIdMethod, KeyPair, RevokedCertParams, SerialNumber, date_time_ymd,
};
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of the certificate or authority that was made last.
static SERIAL: AtomicU64 = AtomicU64::new(0);

/// An authority of its own.
pub struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key.
#[allow(dead_code, reason = "not every file that has this uses all of it")]
pub struct Issued {
    pub certificate: String,
    pub private_key: String,
    pub der: Vec<u8>,
    serial: u64,
}

#[allow(dead_code, reason = "not every file that has this uses all of it")]
impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // A list of revoked certificates names its authority.
        let number = SERIAL.fetch_add(1, Ordering::Relaxed);
        params
            .distinguished_name
            .push(DnType::CommonName, format!("authority {number} of tests"));
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        Self {
            certificate,
            issuer: Issuer::new(params, key),
        }
    }

    pub fn pem(&self) -> &[u8] {
        self.certificate.as_bytes()
    }

    /// A certificate that is valid now, for these hosts or names.
    pub fn issue(&self, names: &[&str]) -> Issued {
        self.issue_from_to(names, 2020, 2200)
    }

    /// A certificate that is valid from the beginning of one year to that of another.
    pub fn issue_from_to(&self, names: &[&str], from: i32, to: i32) -> Issued {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(to, 1, 1);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed) + 1;
        params.serial_number = Some(SerialNumber::from(serial));
        let key = KeyPair::generate().unwrap();
        let certificate: Certificate = params.signed_by(&key, &self.issuer).unwrap();
        Issued {
            certificate: certificate.pem(),
            private_key: key.serialize_pem(),
            der: certificate.der().to_vec(),
            serial,
        }
    }

    /// The authority's certificate, and behind it its list of those that it has revoked.
    pub fn pem_revoking(&self, revoked: &[&Issued]) -> Vec<u8> {
        let revoked = revoked.iter().map(|issued| RevokedCertParams {
            serial_number: SerialNumber::from(issued.serial),
            revocation_time: date_time_ymd(2021, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2021, 1, 1),
            next_update: date_time_ymd(2021, 2, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.issuer).unwrap().pem().unwrap();
        [self.pem(), b"\n", list.as_bytes()].concat()
    }
}

#[allow(dead_code, reason = "not every file that has this uses all of it")]
impl Issued {
    pub fn pem(&self) -> &[u8] {
        self.certificate.as_bytes()
    }

    pub fn key(&self) -> &[u8] {
        self.private_key.as_bytes()
    }
}
