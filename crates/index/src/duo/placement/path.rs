//! Slots to be filled, one after the other.

use crate::duo::bytes::SlotNumber;
use smallvec::{SmallVec, smallvec};

/// Slots to be filled, from a new key's to a free one: the record of each goes to the next.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Path {
    /// At least one; the last is free.
    pub slots: SmallVec<[SlotNumber; 4]>,
}

impl Path {
    /// One that moves nothing.
    #[must_use]
    pub fn to(slot: SlotNumber) -> Self {
        let slots = smallvec![slot];
        Self { slots }
    }

    /// How many records it moves.
    #[must_use]
    pub fn moves(&self) -> usize {
        self.sources().len()
    }

    /// The slots whose records it moves.
    #[must_use]
    pub fn sources(&self) -> &[SlotNumber] {
        &self.slots[..self.slots.len() - 1]
    }
}
