//! The first word of a heap: how far it is handed out, and which zone is being swept.
//!
//! ```text
//! | epoch, 26 bits | mark, 38 |
//! ```
//! An even epoch is the usual state. In an odd one somebody sweeps a zone, a fixed part of the
//! heap: nobody allocates what overlaps it, and blocks there that are freed are left to the sweep.
//! The next epoch, even again, ends it. Zones have their turns in order.

use super::layout::{BlockRef, GRANULE, block_bytes};
use std::ops::Range;

/// Bits of the mark: as many as [`LARGEST_HEAP`](super::LARGEST_HEAP) needs.
const MARK_BITS: u32 = 38;
const EPOCH_BITS: u32 = 64 - MARK_BITS;

/// How often sweeps have begun and ended in a heap.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Epoch(u64);

/// The first word of a heap, taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct HeapMark {
    /// Bytes from the heap's start that are handed out, but for the first granule.
    pub(crate) bytes: u64,
    pub(crate) epoch: Epoch,
}

impl HeapMark {
    pub(crate) const fn of_word(word: u64) -> Self {
        Self {
            bytes: word & ((1 << MARK_BITS) - 1),
            epoch: Epoch(word >> MARK_BITS),
        }
    }

    pub(super) const fn word(self) -> u64 {
        self.bytes | self.epoch.0 << MARK_BITS
    }

    pub(super) const fn at(self, bytes: u64) -> Self {
        Self { bytes, ..self }
    }
}

impl Epoch {
    pub(super) const fn next(self) -> Self {
        Self((self.0 + 1) & ((1 << EPOCH_BITS) - 1))
    }

    /// A number that differs from epoch to epoch.
    pub(super) const fn number(self) -> u64 {
        self.0
    }

    /// The zone that is being swept, as bytes of a heap of so many.
    pub(super) fn swept_zone(self, heap_bytes: u64) -> Option<Range<u64>> {
        (self.0 % 2 == 1).then(|| zone(self.0 / 2, heap_bytes))
    }

    /// Whether bytes that a client had at the epoch `since` may not be its own any more at this
    /// one, or are in the zone that is being swept.
    #[inline]
    pub(super) fn revokes(self, since: Self, bytes: &Range<u64>, heap_bytes: u64) -> bool {
        let is_as_before = self == since && self.0.is_multiple_of(2);
        !is_as_before && self.revokes_by_now(since, bytes, heap_bytes)
    }

    #[cold]
    fn revokes_by_now(self, since: Self, bytes: &Range<u64>, heap_bytes: u64) -> bool {
        let changes = self.0.wrapping_sub(since.0) & ((1 << EPOCH_BITS) - 1);
        if changes >= 2 * zones(heap_bytes) {
            return true;
        }
        // The epochs since then, and this one; those that ended a sweep count as that sweep.
        (0..=changes)
            .map(|back| self.0.wrapping_sub(back) & ((1 << EPOCH_BITS) - 1))
            .filter(|epoch| *epoch != since.0 || epoch % 2 == 1)
            .any(|epoch| {
                let swept = zone(epoch.saturating_sub(1 - epoch % 2) / 2, heap_bytes);
                bytes.start < swept.end && swept.start < bytes.end
            })
    }
}

/// A block that a client has allocated, and no slot names yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    pub(crate) block: BlockRef,
    /// The last epoch that the client knew when it took the block.
    pub(super) since: Epoch,
}

/// Zones of a heap: so many that a sweep withholds no more than a quarter of it, and that the bits
/// of a zone's granules take no more than 32 MiB.
const fn zones(heap_bytes: u64) -> u64 {
    match heap_bytes >> 32 {
        0..4 => 4,
        more => more + 1,
    }
}

/// The zone that has its turn in the sweep of that number.
fn zone(sweep: u64, heap_bytes: u64) -> Range<u64> {
    let zones = zones(heap_bytes);
    let bytes = heap_bytes.div_ceil(zones).next_multiple_of(GRANULE);
    let start = (sweep % zones * bytes).min(heap_bytes);
    start..(start + bytes).min(heap_bytes)
}

/// The bytes of a block, from the heap's start.
pub(super) const fn bytes_of(block: BlockRef) -> Range<u64> {
    let start = block.granule * GRANULE;
    start..start + block_bytes(block.class) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEAP: u64 = 1 << 20;

    #[test]
    fn zones_cover_the_heap_once() {
        for heap in [32, 64, 1_000, HEAP, 5 << 32] {
            let mut end = 0;
            for sweep in 0..zones(heap) {
                let zone = zone(sweep, heap);
                assert_eq!(zone.start, end);
                end = zone.end;
            }
            assert_eq!(end, heap);
            assert_eq!(zone(zones(heap), heap), zone(0, heap));
        }
    }

    #[test]
    fn what_was_swept_since_is_revoked_and_nothing_else() {
        let in_zone = |zone: u64| zone * HEAP / 4 + 64..zone * HEAP / 4 + 96;
        // (since, now, zones that are revoked)
        let cases: [(u64, u64, &[u64]); 8] = [
            (0, 0, &[]),
            (0, 1, &[0]),
            (0, 2, &[0]),
            (1, 1, &[0]),
            (2, 2, &[]),
            (2, 3, &[1]),
            (0, 4, &[0, 1]),
            (0, 8, &[0, 1, 2, 3]),
        ];
        for (since, now, revoked) in cases {
            for zone in 0..4 {
                let is = Epoch(now).revokes(Epoch(since), &in_zone(zone), HEAP);
                assert_eq!(is, revoked.contains(&zone), "{since} to {now}, zone {zone}");
            }
        }
        // What overlaps a zone is of that zone.
        assert!(Epoch(1).revokes(Epoch(0), &(HEAP / 4 - 16..HEAP / 4 + 16), HEAP));
        // Memory that was damaged may show an epoch that goes back.
        assert!(Epoch(0).revokes(Epoch(7), &in_zone(2), HEAP));
    }

    proptest! {
        #[test]
        fn marks_survive_packing(bytes in 0u64..1 << MARK_BITS, epoch in 0u64..1 << EPOCH_BITS) {
            let mark = HeapMark { bytes, epoch: Epoch(epoch) };
            prop_assert_eq!(HeapMark::of_word(mark.word()), mark);
        }
    }
}
