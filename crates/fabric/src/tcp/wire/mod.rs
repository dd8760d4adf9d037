//! The frames as pure functions between words and values: no input, no output, no panics, whatever
//! the words are. The diagrams are in [`tcp`](super).

mod failure;
mod request;
#[cfg(test)]
mod tests;

pub use failure::{FAILURE_WORDS, decode_failure, encode_failure};
pub use request::{
    Pieces, READ_WORDS, Request, Span, WRITE_WORDS, decode_reads, decode_request, put_compare_swap,
    put_fetch_add, put_read, put_read_many, put_write, put_write_imm, read_many_words,
    request_words,
};

/// The version of the frames. The header, HELLO and REFUSED are the same in all of them, so that two
/// versions can tell each other so.
pub const VERSION: u8 = 1;
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
            return Err(Malformed::Version { found: version });
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

/// Why words are no frame. Whoever receives such closes the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// Another version of the frames.
    #[error("its frames have version {found}, ours {VERSION}")]
    Version {
        /// The version found.
        found: u8,
    },
    /// A frame of no known kind, or of one that may not come now.
    #[error("a frame of kind {found} may not come here")]
    Kind {
        /// The kind found.
        found: u8,
    },
    /// A frame that is longer than what is taken, or has no room for its own header.
    #[error("a frame of {words} words is outside the limit of {limit}")]
    Length {
        /// Its words.
        words: u32,
        /// The most that are taken.
        limit: u32,
    },
    /// A frame whose words and entries do not fit each other.
    #[error("a frame's length does not fit its {count} entries")]
    Count {
        /// Entries that were to come.
        count: u16,
    },
    /// A verb that there is not.
    #[error("there is no verb {found}")]
    Verb {
        /// Its code.
        found: u8,
    },
    /// Bits that must be 0 are not.
    #[error("bits that must be 0 are {found:#x}")]
    Reserved {
        /// The bits.
        found: u64,
    },
    /// A frame of the handshake that contradicts itself.
    #[error("a frame of the handshake is wrong: {what}")]
    Handshake {
        /// What about it.
        what: &'static str,
    },
    /// An answer that no verb waits for, or of another shape than its verb.
    #[error("an answer fits no verb that waits")]
    Answer,
}

/// Words that `bytes` bytes take.
#[inline]
#[must_use]
pub const fn words_of(bytes: u32) -> usize {
    bytes.div_ceil(8) as usize
}
