//! The fingerprint of a certificate.

use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

/// The SHA-256 of a certificate's DER, as `openssl x509 -noout -fingerprint -sha256` prints it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// That of a certificate in DER.
    #[must_use]
    pub fn of(certificate: &[u8]) -> Self {
        Self(Sha256::digest(certificate).into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// Why text is no fingerprint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "a fingerprint is the SHA-256 of a certificate: 64 hexadecimal digits, colons between them or not"
)]
pub struct NoFingerprint;

impl FromStr for Fingerprint {
    type Err = NoFingerprint;

    fn from_str(text: &str) -> Result<Self, NoFingerprint> {
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b':').collect();
        if digits.len() != 64 {
            return Err(NoFingerprint);
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16).ok_or(NoFingerprint);
            *byte = (digit(0)? * 16 + digit(1)?) as u8;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_parse_as_they_print_and_as_openssl_prints_them() {
        let of = Fingerprint::of(b"");
        let hex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(of.to_string(), hex);
        assert_eq!(hex.parse(), Ok(of));
        let pairs: Vec<_> = (0..32).map(|at| &hex[2 * at..2 * at + 2]).collect();
        assert_eq!(pairs.join(":").to_uppercase().parse(), Ok(of));
        for wrong in [
            "",
            "e3",
            &hex[1..],
            &format!("{hex}00"),
            &hex.replace('e', "g"),
        ] {
            assert_eq!(wrong.parse::<Fingerprint>(), Err(NoFingerprint));
        }
    }
}
