//! The verbs as data: requests, completions, and the checks that every fabric makes.

use crate::{Buffer, FabricError, NodeId, RegionId, RegionInfo, RemoteAddr, Result, Rights};
use smallvec::SmallVec;

/// One piece of a gather read: `len` bytes at `from`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Where the bytes are.
    pub from: RemoteAddr,
    /// How many.
    pub len: usize,
}

/// The pieces of a gather read. They arrive in one buffer, each at the next multiple of 8 bytes.
pub type Pieces = SmallVec<[Piece; 2]>;

/// Bytes of buffer that `pieces` take, each padded to a multiple of 8.
#[must_use]
pub fn gathered_len(pieces: &[Piece]) -> usize {
    pieces
        .iter()
        .map(|piece| piece.len.next_multiple_of(8))
        .sum()
}

/// Checks that the pieces of a gather have room in its buffer.
///
/// # Errors
/// [`FabricError::BufferTooLarge`].
#[inline]
pub fn check_gathered(pieces: &[Piece], into: &Buffer) -> Result<()> {
    let (requested, limit) = (gathered_len(pieces), into.len());
    match requested <= limit {
        true => Ok(()),
        false => Err(FabricError::BufferTooLarge { requested, limit }),
    }
}

/// Checks that a gather goes to one node.
///
/// # Errors
/// [`FabricError::SeveralNodes`].
pub fn check_one_node(pieces: &[Piece]) -> Result<()> {
    let mut nodes = pieces.iter().map(|piece| piece.from.node);
    let first = nodes.next();
    match nodes.find(|node| Some(*node) != first) {
        Some(other) => Err(FabricError::SeveralNodes {
            node: first.unwrap_or(other),
            other,
        }),
        None => Ok(()),
    }
}

/// A request of one endpoint to one peer.
#[derive(Debug)]
pub enum Verb {
    /// Copies remote bytes into a buffer. May be torn at any 8-byte boundary.
    Read {
        /// First remote byte.
        from: RemoteAddr,
        /// Receives as many bytes as it is long.
        into: Buffer,
    },
    /// Copies several remote pieces of one node into a buffer, as one request where the fabric can
    /// gather, else as one batch of reads.
    ReadMany {
        /// The pieces, all of one node.
        pieces: Pieces,
        /// Receives them, each at the next multiple of 8 bytes.
        into: Buffer,
    },
    /// Copies a buffer to remote memory. Placed in words of 8 bytes, in any order.
    Write {
        /// First remote byte.
        to: RemoteAddr,
        /// The bytes.
        data: Buffer,
    },
    /// Replaces an aligned 8-byte word if it has an expected value; returns what it had.
    CompareSwap {
        /// The word.
        at: RemoteAddr,
        /// The value it must have.
        expected: u64,
        /// The value it gets.
        new: u64,
    },
    /// Adds to an aligned 8-byte word, wrapping; returns what it had.
    FetchAdd {
        /// The word.
        at: RemoteAddr,
        /// What is added.
        add: u64,
    },
    /// Writes a buffer to remote memory, then puts a [`Message`] into the peer's receive queue.
    WriteImm {
        /// First remote byte.
        to: RemoteAddr,
        /// The bytes.
        data: Buffer,
        /// A number for the receiver.
        imm: u32,
    },
    /// Has the owner of a region answer a request; see [`call`](crate::call).
    Call {
        /// The node called.
        node: NodeId,
        /// The region called.
        region: RegionId,
        /// The request.
        request: Buffer,
        /// Receives the reply, at most as many bytes as it is long.
        reply: Buffer,
    },
}

/// The kinds of [`Verb`], for counters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum VerbKind {
    /// [`Verb::Read`].
    Read,
    /// [`Verb::ReadMany`].
    ReadMany,
    /// [`Verb::Write`].
    Write,
    /// [`Verb::CompareSwap`].
    CompareSwap,
    /// [`Verb::FetchAdd`].
    FetchAdd,
    /// [`Verb::WriteImm`].
    WriteImm,
    /// [`Verb::Call`].
    Call,
}

impl VerbKind {
    /// How many kinds there are.
    pub const COUNT: usize = 7;
    /// All kinds, in the order of their counters.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Read,
        Self::ReadMany,
        Self::Write,
        Self::CompareSwap,
        Self::FetchAdd,
        Self::WriteImm,
        Self::Call,
    ];

    /// The name that counters are printed under.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::ReadMany => "read_many",
            Self::Write => "write",
            Self::CompareSwap => "compare_swap",
            Self::FetchAdd => "fetch_add",
            Self::WriteImm => "write_imm",
            Self::Call => "call",
        }
    }

    pub(crate) const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::WriteImm | Self::Call)
    }
}

impl Verb {
    /// Which verb it is.
    #[inline]
    #[must_use]
    pub const fn kind(&self) -> VerbKind {
        match self {
            Self::Read { .. } => VerbKind::Read,
            Self::ReadMany { .. } => VerbKind::ReadMany,
            Self::Write { .. } => VerbKind::Write,
            Self::CompareSwap { .. } => VerbKind::CompareSwap,
            Self::FetchAdd { .. } => VerbKind::FetchAdd,
            Self::WriteImm { .. } => VerbKind::WriteImm,
            Self::Call { .. } => VerbKind::Call,
        }
    }

    /// The peer it goes to; of a gather without pieces, node 0.
    #[inline]
    #[must_use]
    pub fn node(&self) -> NodeId {
        match self {
            Self::Read { from, .. } => from.node,
            Self::ReadMany { pieces, .. } => {
                pieces.first().map_or(NodeId(0), |piece| piece.from.node)
            }
            Self::Write { to, .. } | Self::WriteImm { to, .. } => to.node,
            Self::CompareSwap { at, .. } | Self::FetchAdd { at, .. } => at.node,
            Self::Call { node, .. } => *node,
        }
    }

    /// Payload bytes that it moves; of a call those of its request.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Read { into, .. } => into.len() as u64,
            Self::ReadMany { pieces, .. } => pieces.iter().map(|piece| piece.len as u64).sum(),
            Self::Write { data, .. } | Self::WriteImm { data, .. } => data.len() as u64,
            Self::CompareSwap { .. } | Self::FetchAdd { .. } => 8,
            Self::Call { request, .. } => request.len() as u64,
        }
    }

    /// The right that it needs.
    #[inline]
    #[must_use]
    pub const fn needs(&self) -> Rights {
        match self {
            Self::Read { .. } | Self::ReadMany { .. } => Rights::READ,
            Self::Write { .. } | Self::WriteImm { .. } => Rights::WRITE,
            Self::CompareSwap { .. } | Self::FetchAdd { .. } => Rights::ATOMIC,
            Self::Call { .. } => Rights::CALL,
        }
    }
}

/// Checks an access against its region, as every fabric must before it touches memory.
///
/// # Errors
/// [`FabricError::OutOfBounds`] and [`FabricError::AccessDenied`].
#[inline]
pub fn check_access(at: RemoteAddr, len: u64, needed: Rights, region: &RegionInfo) -> Result<()> {
    if !region.rights.allow(needed) {
        return Err(FabricError::AccessDenied {
            at,
            needed,
            granted: region.rights,
        });
    }
    match at.offset.checked_add(len) {
        Some(end) if end <= region.len => Ok(()),
        _ => Err(FabricError::OutOfBounds {
            at,
            len,
            region_len: region.len,
        }),
    }
}

/// Checks the address of an atomic.
///
/// # Errors
/// [`FabricError::Misaligned`] unless it is a multiple of 8.
#[inline]
pub fn check_aligned(at: RemoteAddr) -> Result<()> {
    if at.offset.is_multiple_of(8) {
        Ok(())
    } else {
        Err(FabricError::Misaligned { at })
    }
}

/// What a verb leaves when it completes.
#[derive(Debug)]
pub enum Completion {
    /// The filled buffer of a read.
    Filled(Buffer),
    /// The value that an atomic found.
    Word(u64),
    /// A write is placed.
    Placed,
    /// The reply to a call.
    Replied(Buffer),
}

/// A message that `write_imm` left for the owner of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// The sender's number.
    pub imm: u32,
    /// Bytes that were written before it.
    pub len: u32,
}

/// What a typed verb future resolves to.
pub trait FromCompletion {
    /// Takes the part of the completion that the verb was posted for.
    fn from_completion(completion: Completion) -> Self;
}

impl FromCompletion for Buffer {
    #[inline]
    fn from_completion(completion: Completion) -> Self {
        match completion {
            Completion::Filled(buffer) | Completion::Replied(buffer) => buffer,
            other => unreachable!("a read completed as {other:?}"),
        }
    }
}

impl FromCompletion for u64 {
    #[inline]
    fn from_completion(completion: Completion) -> Self {
        match completion {
            Completion::Word(word) => word,
            other => unreachable!("an atomic completed as {other:?}"),
        }
    }
}

impl FromCompletion for () {
    #[inline]
    fn from_completion(_: Completion) {}
}
