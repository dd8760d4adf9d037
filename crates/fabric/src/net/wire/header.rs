//! The first word of every frame.

use crate::error::Malformed;

/// The version of the frames. The header, HELLO and REFUSED are the same in all of them, so that
/// two versions can tell each other so. A client finds tables over a network by the same format of
/// memory, so another [`FORMAT_VERSION`](crate::memory::FORMAT_VERSION) is another of these.
pub const VERSION: u8 = 5;
/// The most verbs, or completions, of one frame.
pub const LARGEST_COUNT: usize = u16::MAX as usize;

/// What a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FrameKind {
    /// Requests of a client.
    Verbs = 1,
    /// Answers to verbs that were done.
    Completions = 2,
    /// Answer to one verb that was not.
    Failure = 3,
    /// A client begins: who it is.
    Hello = 16,
    /// The agent's nonce.
    Challenge = 17,
    /// The client's proof.
    Proof = 18,
    /// The agent's proof, and what is granted.
    Welcome = 19,
    /// The agent will not serve this client.
    Refused = 20,
    /// A client's end of a queue pair: see `verbs/path.rs`, for this one and the next two.
    Pair = 32,
    /// The agent's end of it.
    Paired = 33,
    /// A client asks why a verb was refused.
    Ask = 34,
    /// A client's end of a queue pair for calls: see `verbs/rooms.rs`, for this one and the next.
    Calls = 35,
    /// The agent's end of it.
    Called = 36,
}

impl FrameKind {
    const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Verbs,
            2 => Self::Completions,
            3 => Self::Failure,
            16 => Self::Hello,
            17 => Self::Challenge,
            18 => Self::Proof,
            19 => Self::Welcome,
            20 => Self::Refused,
            32 => Self::Pair,
            33 => Self::Paired,
            34 => Self::Ask,
            35 => Self::Calls,
            36 => Self::Called,
            _ => return None,
        })
    }
}

/// The first word of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// What the frame is.
    pub kind: FrameKind,
    /// How many verbs or completions it has; what it counts else is its kind's matter.
    pub count: u16,
    /// Its length in words, this one included.
    pub words: u32,
}

impl Header {
    /// The header as its word.
    #[inline]
    #[must_use]
    pub const fn encode(self) -> u64 {
        self.words as u64
            | (self.count as u64) << 32
            | (self.kind as u64) << 48
            | (VERSION as u64) << 56
    }

    /// The header of a word.
    ///
    /// # Errors
    /// [`Malformed::Version`], [`Malformed::Kind`], [`Malformed::Length`] of a frame without words.
    #[inline]
    pub const fn decode(word: u64) -> Result<Self, Malformed> {
        let version = (word >> 56) as u8;
        if version != VERSION {
            return Err(Malformed::Version {
                found: version,
                supported: VERSION,
            });
        }
        Self::decode_any_version(word)
    }

    /// As [`Header::decode`], for the frames that all versions have in common.
    ///
    /// # Errors
    /// [`Malformed::Kind`], [`Malformed::Length`].
    pub const fn decode_any_version(word: u64) -> Result<Self, Malformed> {
        let Some(kind) = FrameKind::from_byte((word >> 48) as u8) else {
            return Err(Malformed::Kind {
                found: (word >> 48) as u8,
            });
        };
        let words = word as u32;
        if words == 0 {
            return Err(Malformed::Length { words: 0, limit: 0 });
        }
        Ok(Self {
            kind,
            count: (word >> 32) as u16,
            words,
        })
    }
}

/// Words that `bytes` bytes take.
#[inline]
#[must_use]
pub const fn words_of(bytes: u32) -> usize {
    bytes.div_ceil(8) as usize
}
