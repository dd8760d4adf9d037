//! Why agents answer verbs with an error, as counters name it.

use super::FabricError;

/// Why a verb was answered with an error.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum VerbFailure {
    /// There is no such region.
    UnknownRegion,
    /// It reaches past the region's end.
    OutOfBounds,
    /// An atomic on an address that is no multiple of 8.
    Misaligned,
    /// The grant does not allow it.
    AccessDenied,
    /// Its key is not the grant's.
    WrongKey,
    /// The grant was revoked.
    GrantRevoked,
    /// Its answer or its message is too long.
    TooLarge,
    /// The region answers no calls.
    NoHandler,
    /// The receiver of the message has no room.
    ReceiverNotReady,
    /// Anything else.
    Other,
}

impl VerbFailure {
    /// All of them, in the order of their counters.
    pub const ALL: [Self; 10] = [
        Self::UnknownRegion,
        Self::OutOfBounds,
        Self::Misaligned,
        Self::AccessDenied,
        Self::WrongKey,
        Self::GrantRevoked,
        Self::TooLarge,
        Self::NoHandler,
        Self::ReceiverNotReady,
        Self::Other,
    ];

    /// The name that counters have for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnknownRegion => "unknown_region",
            Self::OutOfBounds => "out_of_bounds",
            Self::Misaligned => "misaligned",
            Self::AccessDenied => "access_denied",
            Self::WrongKey => "wrong_key",
            Self::GrantRevoked => "grant_revoked",
            Self::TooLarge => "too_large",
            Self::NoHandler => "no_handler",
            Self::ReceiverNotReady => "receiver_not_ready",
            Self::Other => "other",
        }
    }

    pub(crate) const fn of(error: &FabricError) -> Self {
        match error {
            FabricError::UnknownRegion { .. } => Self::UnknownRegion,
            FabricError::OutOfBounds { .. } => Self::OutOfBounds,
            FabricError::Misaligned { .. } => Self::Misaligned,
            FabricError::AccessDenied { .. } | FabricError::KeyRefused { .. } => Self::AccessDenied,
            FabricError::WrongKey { .. } => Self::WrongKey,
            FabricError::GrantRevoked { .. } => Self::GrantRevoked,
            FabricError::BufferTooLarge { .. } => Self::TooLarge,
            FabricError::NoHandler { .. } => Self::NoHandler,
            FabricError::ReceiverNotReady { .. } => Self::ReceiverNotReady,
            _ => Self::Other,
        }
    }
}
