//! Where everything lies.

use crate::RemoteError;
use crate::sum::words_of;
use std::ops::Range;

/// The words of the header.
pub(super) const HEAD: u64 = 0;
pub(super) const TAIL: u64 = 8;
const HEADER: u64 = 64;
/// Words of a slot before its value.
pub(super) const SLOT_HEAD: usize = 3;

/// Most slots: places of visits have so many bits.
const MOST_SLOTS: u32 = 1 << 30;

/// How a queue is laid out. Owner and clients must have the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueShape {
    /// The queue's first byte in its region, a multiple of 8.
    pub at: u64,
    /// Most items.
    pub slots: u32,
    /// Most bytes of an item.
    pub value_bytes: u32,
}

impl QueueShape {
    /// Checks that a queue can be laid out so.
    ///
    /// # Errors
    /// [`RemoteError::BadShape`].
    pub fn check(&self) -> Result<(), RemoteError> {
        let bad = |subject, value: u64, limit| {
            Err(RemoteError::BadShape {
                subject,
                value,
                limit,
            })
        };
        if !self.at.is_multiple_of(8) || self.at > 1 << 60 {
            return bad("the queue's place", self.at, "a multiple of 8");
        }
        if self.slots == 0 || self.slots > MOST_SLOTS {
            let slots = self.slots.into();
            return bad("the slots of a queue", slots, "1 to 2^30");
        }
        if self.value_bytes > 1 << 24 {
            let bytes = self.value_bytes.into();
            return bad("the most bytes of an item", bytes, "16 MiB or less");
        }
        Ok(())
    }

    /// Bytes of the whole queue.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        HEADER + u64::from(self.slots) * self.slot_bytes() as u64
    }

    /// What may be other than zeros, as bytes of the queue, by its first two words.
    #[must_use]
    pub fn written(&self, [_, tail]: [u64; 2]) -> Vec<Range<u64>> {
        let used = tail.min(self.slots.into());
        std::iter::once(0..HEADER + used * self.slot_bytes() as u64).collect()
    }

    pub(super) fn slot_words(&self) -> usize {
        SLOT_HEAD + words_of(self.value_bytes as usize)
    }

    /// Bytes of a slot.
    #[must_use]
    pub fn slot_bytes(&self) -> usize {
        self.slot_words() * 8
    }

    pub(super) fn slot_at(&self, position: u64) -> u64 {
        let slot = position % u64::from(self.slots);
        self.at + HEADER + slot * self.slot_bytes() as u64
    }
}
