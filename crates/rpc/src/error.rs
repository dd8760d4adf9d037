//! Why a remote procedure gave no reply.

use farslot_fabric::{ByteCount, FabricError};

/// Why a remote procedure gave no reply. Each names the value and the limit.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RpcError {
    /// The fabric did not carry it, for as long as the client is patient.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// The method refused.
    #[error("method {method} refused, for its reason {reason}")]
    Refused {
        /// The method.
        method: u16,
        /// Its reason; what that means is the method's matter.
        reason: u32,
    },
    /// The server has no such method.
    #[error("the server has no method {method}")]
    NoMethod {
        /// The method.
        method: u16,
    },
    /// The request has more bytes than the server takes.
    #[error("a request of {} is over the server's limit of {limit}", ByteCount(*bytes))]
    RequestTooLong {
        /// Bytes of its body.
        bytes: usize,
        /// Most bytes.
        limit: usize,
    },
    /// The reply has more bytes than there is room for, or than the server sends. Nothing was
    /// changed.
    #[error("a reply of {} does not fit the {} there are for it", ByteCount(*bytes), ByteCount(*room))]
    NoRoom {
        /// Bytes of its body.
        bytes: usize,
        /// Most bytes.
        room: usize,
    },
    /// The method found words in the node's memory that make no sense, or ended half way.
    #[error("method {method} found its memory damaged")]
    Damaged {
        /// The method.
        method: u16,
    },
    /// The server has as many clients as it takes.
    #[error("the server has its {sessions} clients")]
    NoVacancy {
        /// Most clients.
        sessions: u32,
    },
    /// A request was sent again after an outage, and the server does not know its session any more:
    /// whether it was executed before cannot be told.
    #[error(
        "method {method} was asked for {attempts} times, and may have been executed once or not"
    )]
    InDoubt {
        /// The method.
        method: u16,
        /// Times that it was sent.
        attempts: u32,
    },
    /// A request was sent again after an outage, and had been executed: the server had too many
    /// replies to keep to keep this one.
    #[error("method {method} was executed, and its reply was not kept")]
    NotKept {
        /// The method.
        method: u16,
    },
    /// What answers is no server of this protocol.
    #[error("what answered is no reply: {reason}")]
    Protocol {
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl RpcError {
    /// Whether the request that failed with this may have been executed, in whole or in part.
    #[must_use]
    pub const fn may_have_taken_effect(&self) -> bool {
        match self {
            Self::Fabric(error) => error.may_have_taken_effect(),
            Self::InDoubt { .. }
            | Self::Damaged { .. }
            | Self::NotKept { .. }
            | Self::Protocol { .. } => true,
            _ => false,
        }
    }
}
