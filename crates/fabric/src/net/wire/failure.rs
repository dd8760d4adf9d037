//! A verb's error on the wire.
//!
//! | code | error | `a` | `b` |
//! |---|---|---|---|
//! | 1 | `AccessDenied` | | |
//! | 2 | `OutOfBounds` | bytes | bytes of the region |
//! | 3 | `Misaligned` | | |
//! | 4 | `UnknownRegion` | regions | |
//! | 5 | `WrongKey` | | |
//! | 6 | `GrantRevoked` | | |
//! | 7 | `ReceiverNotReady` | capacity | |
//! | 8 | `BufferTooLarge` | bytes | limit |
//! | 9 | `NoHandler` | | |
//! | 10 | `Deposed` | | |
//! | 11 | `Unanswered` | | |
//! | 255 | any other, as `Os` | | |

use super::header::{FrameKind, Header};
use crate::error::Malformed;
use crate::{FabricError, NodeId, RegionId, RemoteAddr, Rights};

/// Words of a FAILURE, its header included.
pub const FAILURE_WORDS: usize = 5;

const ACCESS_DENIED: u8 = 1;
const OUT_OF_BOUNDS: u8 = 2;
const MISALIGNED: u8 = 3;
const UNKNOWN_REGION: u8 = 4;
const WRONG_KEY: u8 = 5;
const GRANT_REVOKED: u8 = 6;
const RECEIVER_NOT_READY: u8 = 7;
const BUFFER_TOO_LARGE: u8 = 8;
const NO_HANDLER: u8 = 9;
const DEPOSED: u8 = 10;
const UNANSWERED: u8 = 11;
const OTHER: u8 = 255;

/// The FAILURE that carries an error of a verb.
#[must_use]
pub fn encode_failure(error: &FabricError) -> [u64; FAILURE_WORDS] {
    let none = (Rights::NONE, Rights::NONE);
    let at = |region, offset| RemoteAddr {
        node: NodeId(0),
        region,
        offset,
    };
    let nowhere = at(RegionId(0), 0);
    let (code, (needed, granted), at, a, b) = match *error {
        FabricError::AccessDenied {
            at,
            needed,
            granted,
        } => (ACCESS_DENIED, (needed, granted), at, 0, 0),
        FabricError::OutOfBounds {
            at,
            len,
            region_len,
        } => (OUT_OF_BOUNDS, none, at, len, region_len),
        FabricError::Misaligned { at } => (MISALIGNED, none, at, 0, 0),
        FabricError::UnknownRegion {
            region, regions, ..
        } => (UNKNOWN_REGION, none, at(region, 0), regions as u64, 0),
        FabricError::WrongKey { at } => (WRONG_KEY, none, at, 0, 0),
        FabricError::GrantRevoked { .. } => (GRANT_REVOKED, none, nowhere, 0, 0),
        FabricError::ReceiverNotReady { capacity, .. } => {
            (RECEIVER_NOT_READY, none, nowhere, capacity as u64, 0)
        }
        FabricError::Deposed { at, .. } => (DEPOSED, none, at, 0, 0),
        FabricError::NoHandler { region, .. } => (NO_HANDLER, none, at(region, 0), 0, 0),
        FabricError::Unanswered { region, .. } => (UNANSWERED, none, at(region, 0), 0, 0),
        FabricError::BufferTooLarge { requested, limit } => (
            BUFFER_TOO_LARGE,
            none,
            nowhere,
            requested as u64,
            limit as u64,
        ),
        _ => (OTHER, none, nowhere, 0, 0),
    };
    let header = Header {
        kind: FrameKind::Failure,
        count: 1,
        words: FAILURE_WORDS as u32,
    };
    let head = u64::from(code)
        | u64::from(needed.bits()) << 8
        | u64::from(granted.bits()) << 16
        | u64::from(at.region.0) << 32;
    [header.encode(), head, at.offset, a, b]
}

/// The error of a FAILURE's words, its header left out, as an error of `node`.
///
/// # Errors
/// [`Malformed::Kind`] for a code that there is not.
pub fn decode_failure(
    [head, offset, a, b]: [u64; FAILURE_WORDS - 1],
    node: NodeId,
) -> Result<FabricError, Malformed> {
    let region = RegionId((head >> 32) as u16);
    let at = RemoteAddr {
        node,
        region,
        offset,
    };
    let size = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    Ok(match head as u8 {
        ACCESS_DENIED => FabricError::AccessDenied {
            at,
            needed: Rights::from_bits((head >> 8) as u8),
            granted: Rights::from_bits((head >> 16) as u8),
        },
        OUT_OF_BOUNDS => FabricError::OutOfBounds {
            at,
            len: a,
            region_len: b,
        },
        MISALIGNED => FabricError::Misaligned { at },
        UNKNOWN_REGION => FabricError::UnknownRegion {
            node,
            region,
            regions: size(a),
        },
        WRONG_KEY => FabricError::WrongKey { at },
        GRANT_REVOKED => FabricError::GrantRevoked { node },
        RECEIVER_NOT_READY => FabricError::ReceiverNotReady {
            node,
            capacity: size(a),
        },
        BUFFER_TOO_LARGE => FabricError::BufferTooLarge {
            requested: size(a),
            limit: size(b),
        },
        // Others of the operation's verbs were sent with it, perhaps before the word changed.
        DEPOSED => FabricError::Deposed { at, sent: true },
        NO_HANDLER => FabricError::NoHandler { node, region },
        UNANSWERED => FabricError::Unanswered { node, region },
        OTHER => FabricError::Os {
            call: "a verb at its node",
            error: "an error that has no code".into(),
        },
        found => return Err(Malformed::Kind { found }),
    })
}
