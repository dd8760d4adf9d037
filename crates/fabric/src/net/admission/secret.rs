//! Shared secrets, and the proofs of knowing them.

use crate::{FabricError, Result};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;
use std::sync::Arc;

/// Random bytes known only to both sides of a connection, at least [`Secret::SHORTEST`] of them.
/// Its `Debug` output does not reveal them.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<[u8]>);

impl Secret {
    /// The fewest bytes of a secret.
    pub const SHORTEST: usize = 16;

    /// A secret of these bytes.
    ///
    /// # Errors
    /// [`FabricError::SecretTooShort`].
    pub fn new(bytes: impl AsRef<[u8]>) -> Result<Self> {
        let bytes = bytes.as_ref();
        if bytes.len() < Self::SHORTEST {
            return Err(FabricError::SecretTooShort {
                bytes: bytes.len(),
                least: Self::SHORTEST,
            });
        }
        Ok(Self(bytes.into()))
    }

    /// Whether these are its bytes. The time that this takes depends on their number alone.
    #[must_use]
    pub fn is(&self, bytes: &[u8]) -> bool {
        let tag = |bytes: &[u8]| {
            let mac = Hmac::<Sha256>::new_from_slice(bytes);
            let mac = mac.expect("HMAC takes keys of any length");
            // It fills short keys with zeros.
            mac.chain_update((bytes.len() as u64).to_le_bytes())
        };
        let right = tag(&self.0).finalize().into_bytes();
        tag(bytes).verify_slice(&right).is_ok()
    }

    /// One that nobody knows.
    pub(crate) fn random() -> Self {
        Self(Arc::new(rand::random::<[u8; 32]>()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Words of a nonce and of a proof: 32 bytes.
pub const PROOF_WORDS: usize = 4;

/// Whose proof it is. A proof of one side is not valid for the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandshakeSide {
    /// The client proves itself.
    Client,
    /// The agent does.
    Agent,
}

/// The proof of one side over the frames so far. Without a secret it proves nothing, but is checked
/// the same way.
#[must_use]
pub fn prove(
    secret: Option<&Secret>,
    side: HandshakeSide,
    frames: &[&[u64]],
) -> [u64; PROOF_WORDS] {
    let bytes: [u8; 32] = over(secret, side, frames).finalize().into_bytes().into();
    bytemuck::cast(bytes)
}

/// Whether a proof is right, in constant time.
#[must_use]
pub fn is_proved(
    secret: Option<&Secret>,
    side: HandshakeSide,
    frames: &[&[u64]],
    proof: [u64; PROOF_WORDS],
) -> bool {
    let proof: [u8; 32] = bytemuck::cast(proof);
    over(secret, side, frames).verify_slice(&proof).is_ok()
}

fn over(secret: Option<&Secret>, side: HandshakeSide, frames: &[&[u64]]) -> Hmac<Sha256> {
    let key = secret.map_or(&[][..], |secret| &secret.0);
    // The only error is of keys of a wrong length, and HMAC takes any.
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(match side {
        HandshakeSide::Client => b"farslot tcp client",
        HandshakeSide::Agent => b"farslot tcp agent.",
    });
    for frame in frames {
        // Each frame begins with its length, so that no two lists of frames are the same bytes.
        mac.update(bytemuck::cast_slice(frame));
    }
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_its_bytes() {
        let secret = Secret::new([7; 16]).unwrap();
        assert!(secret.is(&[7; 16]));
        assert!(!Secret::new([0; 16]).unwrap().is(&[0; 15]));
        assert!(!secret.is(&[7; 15]) && !secret.is(b"") && !secret.is(&[8; 16]));
    }

    #[test]
    fn a_proof_is_of_one_side_one_secret_and_these_frames() {
        let secret = Secret::new([7; 16]).unwrap();
        let other = Secret::new([8; 16]).unwrap();
        let frames: [&[u64]; 2] = [&[1, 2], &[3]];
        let proof = prove(Some(&secret), HandshakeSide::Client, &frames);
        let right =
            |secret: &Secret, side, frames: &[&[u64]]| is_proved(Some(secret), side, frames, proof);
        assert!(right(&secret, HandshakeSide::Client, &frames));
        assert!(!right(&other, HandshakeSide::Client, &frames));
        assert!(!right(&secret, HandshakeSide::Agent, &frames));
        assert!(!right(&secret, HandshakeSide::Client, &[&[1, 2], &[4]]));
        assert!(!is_proved(None, HandshakeSide::Client, &frames, proof));
    }

    #[test]
    fn a_known_answer() {
        // Of `hmac.new(b"0123456789abcdef", b"farslot tcp client" + (1).to_bytes(8, "little"),
        // sha256)`.
        let secret = Secret::new(b"0123456789abcdef").unwrap();
        let proof: [u8; 32] = bytemuck::cast(prove(Some(&secret), HandshakeSide::Client, &[&[1]]));
        let hex: String = proof.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "f982ea5fd2cb277eb2209cfbcc5e1cdadfbb938c31e2fde373464cc13744db56"
        );
    }

    #[test]
    fn secrets_are_not_printed_and_not_short() {
        let secret = Secret::new("0123456789abcdef").unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(..)");
        assert_eq!(
            Secret::new("short"),
            Err(FabricError::SecretTooShort {
                bytes: 5,
                least: 16
            })
        );
    }
}
