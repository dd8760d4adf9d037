//! How far an iteration has come.

use farslot_index::Cursor as Place;

/// Bits of a place: slots of a table, which are 8 bytes each at least.
const PLACE_BITS: u32 = 48;

/// How far an iteration has come. The default starts one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cursor {
    /// The partition that it has come to; 0 in a table on one node.
    pub(crate) partition: u16,
    /// Where in it, in the terms of its scheme.
    pub(crate) place: Place,
}

impl Cursor {
    /// A number that stands for it, for programs that hand it to others: 0 starts an iteration, and
    /// no other cursor is 0.
    #[must_use]
    pub const fn to_number(self) -> u64 {
        (self.partition as u64) << PLACE_BITS | self.place.0
    }

    /// The cursor of a number. Of a number that was none, some place: a scan from there meets
    /// some of the table, or nothing.
    #[must_use]
    pub const fn from_number(number: u64) -> Self {
        let place = Place(number & ((1 << PLACE_BITS) - 1));
        Self::of((number >> PLACE_BITS) as u16, place)
    }

    /// The place in that partition.
    pub(crate) const fn of(partition: u16, place: Place) -> Self {
        Self { partition, place }
    }
}
