//! Where the answers to verbs go, and how long they may be.

use crate::net::agent::{Quota, ServedNode};
use crate::net::stream::Outbound;
use crate::net::wire::FrameKind;
use crate::{FabricError, Result};

/// Checks that an answer of so many words fits a frame; returns the limit of frames.
#[inline]
pub(super) fn check_answer(words: usize, served: &ServedNode) -> Result<usize> {
    let limit = served.frame_words as usize;
    if words >= limit {
        return Err(FabricError::BufferTooLarge {
            requested: words.saturating_mul(8),
            limit: (limit - 1) * 8,
        });
    }
    Ok(limit)
}

/// Checks that there is room for an answer of so many words, which cannot be made in pieces.
pub(super) fn check_at_once(words: usize, quota: &Quota) -> Result<()> {
    if words * 8 > quota.at_once {
        return Err(FabricError::BufferTooLarge {
            requested: words * 8,
            limit: quota.at_once,
        });
    }
    Ok(())
}

/// Where to append the answer to a verb, which has so many words.
#[inline]
pub(super) fn answer<'o>(
    words: usize,
    out: &'o mut Outbound,
    served: &ServedNode,
) -> Result<&'o mut Vec<u64>> {
    let limit = check_answer(words, served)?;
    Ok(out.entry(FrameKind::Completions, words, limit))
}
