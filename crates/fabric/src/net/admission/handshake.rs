//! The frames of the handshake, as pure functions between words and values.
//!
//! ```text
//! client                                                          agent
//!    |  HELLO     magic | about | receiver wait | nonce | grant      |
//!    |-------------------------------------------------------------->|
//!    |  CHALLENGE secret needed | nonce            (or REFUSED)      |
//!    |<--------------------------------------------------------------|
//!    |  PROOF     HMAC(secret, "client", HELLO, CHALLENGE, last)     |
//!    |            | last session                                     |
//!    |-------------------------------------------------------------->|
//!    |  WELCOME   proof | incarnation | page bytes | frame words |   |
//!    |            session | a row a region: bytes | rights | key     |
//!    |<--------------------------------------------------------------|  (or REFUSED)
//!
//! HELLO      0 header | 1 magic | 2 rights, name bytes | 3 receiver wait, ns | 4..8 nonce |
//!            8..16 name
//! CHALLENGE  0 header | 1 bit 0: the grant has a secret | 2..6 nonce
//! PROOF      0 header | 1..5 proof | 5 last session
//! WELCOME    0 header, count = regions | 1..5 proof | 5 incarnation | 6 page bytes |
//!            7 frame words | 8 session | 9.. rows of 3
//! REFUSED    0 header | 1 code | 2 detail
//! ```
//! The last session is that of the connection that this one takes the place of, 0 if it takes none:
//! its verbs are executed before the WELCOME or never. The agent's proof is over HELLO, CHALLENGE,
//! PROOF and the WELCOME with zeros in its place.

pub use super::secret::{HandshakeSide, PROOF_WORDS, is_proved, prove};
pub use crate::error::Carrier;

use crate::error::{Malformed, Refusal};
use crate::memory::MAX_REGIONS;
use crate::net::wire::{FrameKind, Header};
use crate::{NodeInfo, RegionInfo, Rights};

/// The most bytes of a grant's name.
pub const LONGEST_NAME: usize = 64;
/// Words of a HELLO.
pub const HELLO_WORDS: usize = 16;
/// Words of a CHALLENGE.
pub const CHALLENGE_WORDS: usize = 6;
/// Words of a PROOF.
pub const PROOF_FRAME_WORDS: usize = 6;
/// Words of a REFUSED.
pub const REFUSED_WORDS: usize = 3;
/// The most words of any frame of the handshake.
pub const LARGEST: usize = WELCOME_ROWS + 3 * MAX_REGIONS;

const WELCOME_ROWS: usize = 9;
const WELCOME_PROOF: std::ops::Range<usize> = 1..5;

fn header(kind: FrameKind, count: u16, words: usize) -> u64 {
    let words = words as u32;
    Header { kind, count, words }.encode()
}

const fn wrong(reason: &'static str) -> Malformed {
    Malformed::Handshake { reason }
}

/// What a client says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hello {
    /// What it wants its verbs carried by.
    pub carrier: Carrier,
    /// The grant that it asks for: at most [`LONGEST_NAME`] bytes.
    pub grant: String,
    /// The most rights that it wants.
    pub rights: Rights,
    /// How long its messages may wait for room in the receiver's queue, in nanoseconds.
    pub receiver_wait: u64,
    /// Random, of this connection.
    pub nonce: [u64; 4],
}

impl Hello {
    /// The frame. A longer name is cut.
    #[must_use]
    pub fn encode(&self) -> [u64; HELLO_WORDS] {
        let mut words = [0; HELLO_WORDS];
        let name = &self.grant.as_bytes()[..self.grant.len().min(LONGEST_NAME)];
        words[0] = header(FrameKind::Hello, 0, HELLO_WORDS);
        words[1] = self.carrier.magic();
        words[2] = u64::from(self.rights.bits()) | (name.len() as u64) << 8;
        words[3] = self.receiver_wait;
        words[4..8].copy_from_slice(&self.nonce);
        bytemuck::cast_slice_mut(&mut words[8..])[..name.len()].copy_from_slice(name);
        words
    }

    /// The client of a HELLO of this version.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &[u64; HELLO_WORDS]) -> Result<Self, Malformed> {
        let Some(carrier) = Carrier::from_magic(words[1]) else {
            return Err(wrong("a HELLO without its magic"));
        };
        let about = words[2];
        if about >> 16 != 0 {
            return Err(Malformed::Reserved { found: about >> 16 });
        }
        let name: &[u8] = bytemuck::cast_slice(&words[8..]);
        let Some((name, behind)) = name.split_at_checked((about >> 8) as usize) else {
            return Err(wrong("the grant's name is too long"));
        };
        if behind.iter().any(|byte| *byte != 0) {
            return Err(wrong("bytes follow the grant's name"));
        }
        let Ok(name) = std::str::from_utf8(name) else {
            return Err(wrong("the grant's name is not UTF-8"));
        };
        Ok(Self {
            carrier,
            grant: name.into(),
            rights: Rights::from_bits(about as u8),
            receiver_wait: words[3],
            nonce: [words[4], words[5], words[6], words[7]],
        })
    }
}

/// The agent's CHALLENGE.
#[must_use]
pub fn challenge(secret_needed: bool, nonce: [u64; 4]) -> [u64; CHALLENGE_WORDS] {
    let [a, b, c, d] = nonce;
    let head = header(FrameKind::Challenge, 0, CHALLENGE_WORDS);
    [head, secret_needed.into(), a, b, c, d]
}

/// The client's PROOF, and the session that it names as its last one.
#[must_use]
pub fn proof(proof: [u64; PROOF_WORDS], last_session: u64) -> [u64; PROOF_FRAME_WORDS] {
    let [a, b, c, d] = proof;
    let head = header(FrameKind::Proof, 0, PROOF_FRAME_WORDS);
    [head, a, b, c, d, last_session]
}

/// The agent's REFUSED.
#[must_use]
pub fn refused(refusal: Refusal) -> [u64; REFUSED_WORDS] {
    let [code, detail] = refusal.to_words();
    let head = header(FrameKind::Refused, 0, REFUSED_WORDS);
    [head, code, detail]
}

/// The refusal of a REFUSED; nothing if the frame is another, or of a reason that is not known
/// here.
#[must_use]
pub fn decode_refused(words: &[u64]) -> Option<Refusal> {
    let [head, code, detail] = *words else {
        return None;
    };
    let header = Header::decode_any_version(head).ok()?;
    let refused = header.kind == FrameKind::Refused && header.words as usize == REFUSED_WORDS;
    refused
        .then(|| Refusal::from_words([code, detail]))
        .flatten()
}

/// What a connection may use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Welcome {
    /// The node; the rights of its regions are those of the connection.
    pub node: NodeInfo,
    /// The key of each region.
    pub keys: Vec<u64>,
    /// The most words of a frame that the agent takes, and of one verb's answer.
    pub frame_words: u32,
    /// The number of this connection's session, which is not 0.
    pub session: u64,
}

impl Welcome {
    /// The frame, with zeros for the agent's proof.
    #[must_use]
    pub fn encode(&self) -> Vec<u64> {
        let rows = self.node.regions.iter().zip(&self.keys);
        let count = rows.len() as u16;
        let words = WELCOME_ROWS + 3 * rows.len();
        let mut frame = vec![header(FrameKind::Welcome, count, words), 0, 0, 0, 0];
        frame.extend([
            self.node.incarnation,
            self.node.page_bytes,
            self.frame_words.into(),
            self.session,
        ]);
        frame
            .extend(rows.flat_map(|(region, key)| [region.len, region.rights.bits().into(), *key]));
        frame
    }

    /// The welcome of a frame whose proof was checked.
    ///
    /// # Errors
    /// [`Malformed::Handshake`].
    pub fn decode(words: &[u64]) -> Result<Self, Malformed> {
        let Some((
            &[
                head,
                _,
                _,
                _,
                _,
                incarnation,
                page_bytes,
                frame_words,
                session,
            ],
            rows,
        )) = words.split_first_chunk::<WELCOME_ROWS>()
        else {
            return Err(wrong("a WELCOME is too short"));
        };
        let header = Header::decode(head)?;
        if header.kind != FrameKind::Welcome || usize::from(header.count) * 3 != rows.len() {
            return Err(wrong("a WELCOME's length does not fit its regions"));
        }
        let Ok(frame_words) = u32::try_from(frame_words) else {
            return Err(wrong("a WELCOME's limit is too large"));
        };
        let rows = rows.chunks_exact(3);
        let regions = rows.clone().map(|row| RegionInfo {
            len: row[0],
            rights: Rights::from_bits(row[1] as u8),
        });
        Ok(Self {
            node: NodeInfo {
                incarnation,
                regions: regions.collect(),
                page_bytes,
            },
            keys: rows.map(|row| row[2]).collect(),
            frame_words,
            session,
        })
    }
}

/// Takes the proof out of a WELCOME and leaves zeros; nothing if the frame is too short.
pub fn take_proof(welcome: &mut [u64]) -> Option<[u64; PROOF_WORDS]> {
    let place = welcome.get_mut(WELCOME_PROOF)?;
    let proof = <[u64; PROOF_WORDS]>::try_from(&*place).ok()?;
    place.fill(0);
    Some(proof)
}

/// Puts the agent's proof into a WELCOME of [`Welcome::encode`].
pub fn set_proof(welcome: &mut [u64], proof: [u64; PROOF_WORDS]) {
    welcome[WELCOME_PROOF].copy_from_slice(&proof);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn frames_of_the_handshake_arrive_as_they_were_sent(
            grant in "[a-z]{0,64}",
            rights in 0u8..8,
            receiver_wait: u64,
            nonce: [u64; 4],
            lens in proptest::collection::vec(any::<(u64, u64)>(), 0..=16),
            frame_words: u32,
        ) {
            let carrier = if frame_words % 2 == 0 { Carrier::Tcp } else { Carrier::Rdma };
            let hello = Hello { carrier, grant, rights: Rights::from_bits(rights), receiver_wait, nonce };
            prop_assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
            let rights = Rights::from_bits(rights);
            let welcome = Welcome {
                node: NodeInfo {
                    incarnation: receiver_wait,
                    regions: lens.iter().map(|(len, _)| RegionInfo { len: *len, rights }).collect(),
                    page_bytes: 4096,
                },
                keys: lens.iter().map(|(_, key)| *key).collect(),
                frame_words,
                session: nonce[0],
            };
            let mut frame = welcome.encode();
            prop_assert!(frame.len() <= LARGEST);
            set_proof(&mut frame, nonce);
            prop_assert_eq!(take_proof(&mut frame), Some(nonce));
            prop_assert_eq!(Welcome::decode(&frame), Ok(welcome));
        }

        #[test]
        fn no_words_of_a_handshake_panic(words in proptest::collection::vec(any::<u64>(), 0..40)) {
            if let Some(hello) = words.first_chunk() {
                let _ = Hello::decode(hello);
            }
            let _ = (Welcome::decode(&words), decode_refused(&words), take_proof(&mut words.clone()));
        }
    }

    #[test]
    fn every_refusal_arrives() {
        for refusal in [
            Refusal::Version {
                client: 3,
                agent: 1,
            },
            Refusal::WrongSecret,
            Refusal::SecretNeeded,
            Refusal::NodeUnproved,
            Refusal::NoSuchGrant,
            Refusal::GrantRevoked,
            Refusal::TooManyConnections { limit: 7 },
            Refusal::TooSlow { after_ms: 9 },
            Refusal::OtherCarrier {
                client: Carrier::Tcp,
            },
            Refusal::OtherCarrier {
                client: Carrier::Rdma,
            },
            Refusal::NoQueuePair { limit: 128 },
            Refusal::NoPath,
            Refusal::TooManyRefused { limit: 3 },
            Refusal::NoRoom { bytes: 4096 },
            Refusal::CertificateNeeded,
            Refusal::NotTrusted,
        ] {
            assert_eq!(decode_refused(&refused(refusal)), Some(refusal));
        }
        assert_eq!(decode_refused(&proof([0; 4], 0)), None);
    }

    #[test]
    fn a_name_that_does_not_fit_its_frame_is_refused() {
        let mut hello = Hello {
            carrier: Carrier::Tcp,
            grant: "all".into(),
            rights: Rights::ALL,
            receiver_wait: 0,
            nonce: [0; 4],
        }
        .encode();
        hello[2] = 65 << 8;
        assert!(Hello::decode(&hello).is_err());
        hello[2] = 2 << 8;
        assert!(Hello::decode(&hello).is_err());
        hello[2] = 3 << 8 | 1 << 16;
        assert!(Hello::decode(&hello).is_err());
    }
}
