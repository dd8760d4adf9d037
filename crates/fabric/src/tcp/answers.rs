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

/// Where to put the reply to a call, of at most so many bytes: a word for its length, then its
/// bytes.
pub(super) fn open_reply<'o>(
    room: usize,
    out: &'o mut Outbound,
    served: &ServedNode,
    quota: &Quota,
) -> Result<&'o mut [u64]> {
    let words = room.div_ceil(8).saturating_add(1);
    check_answer(words, served)?;
    check_at_once(words, quota)?;
    answer(words, out, served)?;
    Ok(out.room(words))
}

/// Ends a reply that was [opened](open_reply) with so many words: these bytes of it were written.
pub(super) fn end_reply(bytes: usize, words: usize, out: &mut Outbound) {
    let end = out.end();
    let start = end.len() - words;
    end[start] = bytes as u64;
    if !bytes.is_multiple_of(8) {
        // Of others' replies, which may have lain here, nothing goes along.
        end[start + 1 + bytes / 8] &= (1 << (bytes % 8 * 8)) - 1;
    }
    out.shorten(words - 1 - bytes.div_ceil(8));
}

/// Appends a reply to a call. It fits a frame, as room of its length did.
pub(super) fn put_reply(reply: &[u8], out: &mut Outbound, served: &ServedNode) {
    let words = 1 + reply.len().div_ceil(8);
    out.entry(FrameKind::Completions, words, served.frame_words as usize);
    let room = out.room(words);
    room[words - 1] = 0;
    bytemuck::cast_slice_mut(&mut room[1..])[..reply.len()].copy_from_slice(reply);
    room[0] = reply.len() as u64;
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
