//! Why bytes from a connection are not a frame of the protocol.

/// Why bytes are not a valid frame. The receiver closes the connection.
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
    /// A frame of an unknown kind, or of one that is not allowed at this point.
    #[error("a frame of kind {found} may not come here")]
    Kind {
        /// The kind found.
        found: u8,
    },
    /// A frame longer than the limit, or shorter than its own header.
    #[error("a frame of {words} words is outside the limit of {limit}")]
    Length {
        /// Its words.
        words: u32,
        /// The limit.
        limit: u32,
    },
    /// A frame whose length does not match its entries.
    #[error("a frame's length does not fit its {count} entries")]
    Count {
        /// Entries that were to come.
        count: u16,
    },
    /// An unknown verb.
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
    /// An invalid frame of the handshake.
    #[error("a frame of the handshake is wrong: {reason}")]
    Handshake {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// An answer that no verb waits for, or that does not match its verb.
    #[error("an answer fits no verb that waits")]
    Answer,
}
