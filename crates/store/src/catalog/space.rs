//! Which memory is free: what no table has.

use super::region::TABLE_ALIGNMENT;
use std::ops::Range;

/// The first place for so many bytes in `within` that none of these extents has a part of, at a
/// multiple of the alignment; else the bytes of the largest.
pub(super) fn place(
    extents: impl IntoIterator<Item = Range<u64>>,
    within: Range<u64>,
    bytes: u128,
) -> Result<u64, u64> {
    let mut largest = 0;
    for hole in holes(extents, within) {
        let room = hole.end - hole.start;
        if bytes <= u128::from(room) {
            return Ok(hole.start);
        }
        largest = largest.max(room);
    }
    Err(largest)
}

/// Bytes of the largest piece of `within` that none of these extents has a part of.
pub(super) fn largest(extents: impl IntoIterator<Item = Range<u64>>, within: Range<u64>) -> u64 {
    let holes = holes(extents, within);
    holes.map(|hole| hole.end - hole.start).max().unwrap_or(0)
}

/// Bytes of `within` that these extents have, to the alignment.
pub(super) fn taken(extents: impl IntoIterator<Item = Range<u64>>, within: Range<u64>) -> u64 {
    let all = within.end - within.start;
    let free: u64 = holes(extents, within)
        .map(|hole| hole.end - hole.start)
        .sum();
    all - free
}

/// What the extents leave of `within`, in order. They may overlap.
pub(super) fn holes(
    extents: impl IntoIterator<Item = Range<u64>>,
    within: Range<u64>,
) -> impl Iterator<Item = Range<u64>> {
    let mut extents: Vec<_> = extents.into_iter().collect();
    extents.sort_unstable_by_key(|extent| extent.start);
    let end = within.end;
    let mut from = within.start;
    extents
        .into_iter()
        .map(Some)
        .chain([None])
        .filter_map(move |extent| {
            let hole = from..extent.as_ref().map_or(end, |extent| extent.start.min(end));
            let behind = extent.map_or(end, |extent| {
                let behind = extent.end.checked_next_multiple_of(TABLE_ALIGNMENT);
                behind.unwrap_or(u64::MAX)
            });
            from = from.max(behind);
            (hole.start < hole.end).then_some(hole)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: u64 = TABLE_ALIGNMENT;

    #[test]
    fn the_first_hole_that_is_large_enough_is_taken() {
        let within = PAGE..20 * PAGE;
        assert_eq!(place([], within.clone(), 19 * u128::from(PAGE)), Ok(PAGE));
        assert_eq!(
            place([], within.clone(), 19 * u128::from(PAGE) + 1),
            Err(19 * PAGE)
        );
        // Given in any order, and ending anywhere.
        let extents = || {
            [
                9 * PAGE..10 * PAGE + 1,
                PAGE..3 * PAGE - 5,
                5 * PAGE..6 * PAGE,
            ]
        };
        for (pages, at) in [(1, 3), (2, 3), (3, 6), (4, 11), (9, 11)] {
            let found = place(extents(), within.clone(), u128::from(pages * PAGE));
            assert_eq!(found, Ok(at * PAGE), "{pages}");
        }
        assert_eq!(place(extents(), within.clone(), u128::MAX), Err(9 * PAGE));
        assert_eq!(taken(extents(), within), 5 * PAGE);
    }

    proptest! {
        /// Whatever the extents are, forged ones included.
        #[test]
        fn what_is_placed_is_nobody_elses(
            extents in proptest::collection::vec((0u64..40, 0u64..10), 0..8),
            bytes in 1u64..20 * PAGE,
        ) {
            let extents: Vec<_> = extents.into_iter()
                .map(|(start, pages)| start * PAGE..(start + pages) * PAGE + u64::from(pages > 5))
                .chain(std::iter::once(u64::MAX - 3..u64::MAX))
                .collect();
            let within = 2 * PAGE..30 * PAGE;
            if let Ok(start) = place(extents.clone(), within.clone(), u128::from(bytes)) {
                let placed = start..start + bytes;
                prop_assert!(start.is_multiple_of(PAGE));
                prop_assert!(placed.start >= within.start && placed.end <= within.end);
                for extent in &extents {
                    let apart = extent.end <= placed.start || placed.end <= extent.start;
                    prop_assert!(apart || extent.is_empty(), "{extent:?} and {placed:?}");
                }
            }
            prop_assert!(taken(extents, within.clone()) <= within.end - within.start);
        }
    }
}
