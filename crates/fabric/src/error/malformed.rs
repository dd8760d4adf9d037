//! Why bytes from a connection are not a frame of the protocol.

/// Why words are no frame. Whoever receives such closes the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// Another version of the frames.
    #[error("its frames have version {found}, ours {supported}")]
    Version {
        /// The version found.
        found: u8,
        /// The version of this build.
        supported: u8,
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
