//! What can go wrong among the processes of a job, and its limits.

use std::time::Duration;

/// Most ranks of a job.
pub(super) const MAX_RANKS: u32 = crate::MAX_RANKS as u32;
/// Most bytes of one rank's part of an all-gather.
pub const MAX_PART: usize = 1 << 16;

/// What went wrong among the processes of a job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// A launcher's variable that is no number in its range.
    #[error("{name}={value:?} is no number from {least} to {most}")]
    BadVariable {
        /// The variable.
        name: String,
        /// Its value.
        value: String,
        /// The least allowed.
        least: u32,
        /// The most allowed.
        most: u32,
    },
    /// A rank that the job does not have.
    #[error("rank {rank} of a job of {ranks} ranks, of which there may be {MAX_RANKS}")]
    NoSuchRank {
        /// The rank.
        rank: u32,
        /// How many there are.
        ranks: u32,
    },
    /// Several ranks without an address to meet at.
    #[error("a job of {ranks} ranks needs a rendezvous address, which rank 0 listens at")]
    NoRendezvous {
        /// How many there are.
        ranks: u32,
    },
    /// The system refused something.
    #[error("{action} {address}: {error}")]
    Io {
        /// What was done.
        action: &'static str,
        /// With which address.
        address: String,
        /// What the system says.
        error: String,
    },
    /// A process of the job has ended.
    #[error("rank {rank} has ended")]
    RankDied {
        /// Its rank.
        rank: u32,
    },
    /// A process of the job did not answer.
    #[error("rank {rank} did not answer within {after:?}")]
    TimedOut {
        /// Its rank.
        rank: u32,
        /// How long it was waited for.
        after: Duration,
    },
    /// Not all ranks came to the rendezvous.
    #[error("{came} of {ranks} ranks came to the rendezvous within {after:?}")]
    NotAllCame {
        /// How many came, rank 0 included.
        came: u32,
        /// How many there are.
        ranks: u32,
        /// How long they were waited for.
        after: Duration,
    },
    /// Two processes that are the same rank.
    #[error("two processes say that they are rank {rank} of {ranks}")]
    SameRank {
        /// The rank.
        rank: u32,
        /// How many ranks there are.
        ranks: u32,
    },
    /// All ranks have come already: this process is one too many, such as a rank's second one.
    #[error(
        "rank {rank} comes too late: the job of {ranks} ranks that meets there has begun, with all of them"
    )]
    HasBegun {
        /// The rank that this process says it is.
        rank: u32,
        /// How many ranks the job has.
        ranks: u32,
    },
    /// Rank 0 does not listen.
    #[error(
        "nobody answered at {address} within {after:?} ({error}): rank 0 has not started, or its job has ended"
    )]
    NobodyListens {
        /// Where the ranks meet.
        address: String,
        /// How long it was tried.
        after: Duration,
        /// What the system says.
        error: String,
    },
    /// A process that was told of another number of ranks than rank 0.
    #[error("rank {rank} was told of {peer} ranks, and rank 0 of {ranks}")]
    OtherRanks {
        /// The rank.
        rank: u32,
        /// How many it was told of.
        peer: u32,
        /// How many rank 0 was told of.
        ranks: u32,
    },
    /// A rank has something else than rank 0, in which all must agree.
    #[error("the ranks do not agree: the {term} of rank {rank} is {peer}, that of rank 0 {ours}")]
    Disagreement {
        /// In term.
        term: String,
        /// The first rank that has something else.
        rank: u32,
        /// What it has.
        peer: String,
        /// What rank 0 has.
        ours: String,
    },
    /// Something that is no process of this job.
    #[error("rank {rank} sent {reason}")]
    Malformed {
        /// Its rank.
        rank: u32,
        /// What is wrong.
        reason: &'static str,
    },
    /// A part of an all-gather over the limit.
    #[error("{bytes} bytes to be gathered are over the limit of {MAX_PART}")]
    TooLong {
        /// Bytes of the part.
        bytes: usize,
    },
}
