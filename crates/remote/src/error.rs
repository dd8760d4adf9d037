//! Why an operation on a remote data structure failed.

use crate::lock::Lock;
use farslot_fabric::{ByteCount, FabricError};
use farslot_rpc::{Fault, RpcError};

/// Why an operation on a remote data structure failed. Each names the value and the limit.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// A READ failed.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// A call failed.
    #[error(transparent)]
    Rpc(RpcError),
    /// A reply that makes no sense.
    #[error("the owner's reply makes no sense")]
    BadReply,
    /// A key, or a value, that has no room.
    #[error("{subject} of {} is over the limit of {limit}", ByteCount(*bytes))]
    TooLong {
        /// What is too long.
        subject: &'static str,
        /// Its bytes.
        bytes: usize,
        /// Most bytes.
        limit: usize,
    },
    /// More at a time than a call takes.
    #[error("{subject} are {number}, over the limit of {limit}")]
    TooMany {
        /// What is too many.
        subject: &'static str,
        /// How many there are.
        number: usize,
        /// How many there may be.
        limit: usize,
    },
    /// No room is left for another item.
    #[error("the structure is full")]
    Full,
    /// Another transaction holds the item. May be tried again.
    #[error("the item is locked by {by}")]
    Locked {
        /// Who holds it, as far as that was told.
        by: Lock,
    },
    /// The item's lock is not this one any more: what was to be done under it was not done.
    #[error("the lock {lock} is not held")]
    NotHeld {
        /// The lock.
        lock: Lock,
    },
    /// A shape that nothing can be laid out with.
    #[error("{subject} is {value}: it must be {limit}")]
    BadShape {
        /// Which number.
        subject: &'static str,
        /// Its value.
        value: u64,
        /// What is possible.
        limit: &'static str,
    },
}

/// What structures refuse for, as it is numbered in [`Fault::Refused`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RefusalReason {
    /// The request is none.
    Malformed = 1,
    Full = 2,
    /// Another transaction holds what was to be changed.
    Locked = 3,
    /// The node has no such structure, or not for this client.
    NoObject = NO_OBJECT as isize,
}

/// Why a request is refused, as [`Fault::Refused`] has it, whose structure the node does not have,
/// or not any more.
pub const NO_OBJECT: u32 = 4;
/// Why a request is refused whose client has not the rights to the structure that it needs.
pub const DENIED: u32 = 5;
/// Why a change is refused of a structure that takes none any more.
pub const ENDING: u32 = 6;

impl From<RefusalReason> for Fault {
    fn from(refusal: RefusalReason) -> Self {
        Self::Refused(refusal as u32)
    }
}

impl From<RpcError> for RemoteError {
    fn from(error: RpcError) -> Self {
        match error {
            RpcError::Refused { reason, .. } if reason == RefusalReason::Full as u32 => Self::Full,
            RpcError::Refused { reason, .. } if reason == RefusalReason::Locked as u32 => {
                Self::Locked {
                    by: Lock { owner: 0, epoch: 0 },
                }
            }
            RpcError::Fabric(error) => Self::Fabric(error),
            other => Self::Rpc(other),
        }
    }
}

impl RemoteError {
    /// Whether the change that failed with this may have been made.
    #[must_use]
    pub const fn may_have_taken_effect(&self) -> bool {
        match self {
            Self::Fabric(error) => error.may_have_taken_effect(),
            Self::Rpc(error) => error.may_have_taken_effect(),
            Self::BadReply => true,
            _ => false,
        }
    }
}
