//! The records in bytes of a run.

use super::layout::{
    BlockRef, GRANULE, RecordView, bytes_by_lengths, class_for, generation_by_head,
};
use super::relocation::Relocation;
use super::runs::carved_bytes;
use crate::{IndexError, Result};

/// The bytes of records that are checked to find those in a piece, at most: as often as it is long.
const MOST_CHECKED: u64 = 64;

/// The records of a generation that begin in the first bytes of a piece of a run, so many, and are
/// whole. One may begin anywhere: behind a block that was never written, and within what seems to
/// be a record.
///
/// # Errors
/// [`IndexError::Unreadable`] of values that were made to seem records, within which others begin.
pub(super) fn records_in<'b>(
    piece: &'b [u8],
    (start, generation): (u64, u64),
    begins_in: u64,
    stays: impl Fn(&RecordView<'_>) -> bool,
) -> Result<Vec<Relocation<'b>>> {
    let mut records = Vec::new();
    let mut may_check = MOST_CHECKED * piece.len() as u64;
    for at in (0..begins_in).step_by(GRANULE as usize) {
        let rest = piece.get(at as usize..).unwrap_or_default();
        let Some((bytes, class)) = record_at(rest, generation) else {
            continue;
        };
        let block = BlockRef {
            granule: (start + at) / GRANULE,
            generation,
            class,
        };
        let left = may_check.checked_sub(bytes);
        may_check = left.ok_or(IndexError::Unreadable {
            slot: block.granule,
            attempts: 1,
        })?;
        if let Some(record) = RecordView::decode(rest, block) {
            let value = stays(&record).then_some(record.value);
            let key = record.key;
            records.push(Relocation { key, value, block });
        }
    }
    Ok(records)
}

/// Bytes of the block of the record that these bytes begin with, and its class, if one of that
/// generation may.
fn record_at(bytes: &[u8], generation: u64) -> Option<(u64, usize)> {
    let (head, rest) = bytes.split_first_chunk()?;
    let (lengths, _) = rest.split_first_chunk()?;
    if generation_by_head(u64::from_le_bytes(*head)) != generation {
        return None;
    }
    let len = bytes_by_lengths(u64::from_le_bytes(*lengths), usize::MAX);
    let class = class_for(len)?;
    (carved_bytes(len) <= bytes.len() as u64).then(|| (carved_bytes(len), class))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::{encode, record_bytes, seal};
    use farslot_fabric::BufferPool;
    use proptest::prelude::*;

    /// Writes records of values of these lengths one behind the other, but for those that are not
    /// written; returns the granules of those that are.
    fn write(run: &mut [u8], pool: &BufferPool, values: &[(usize, bool)]) -> Vec<u64> {
        let (mut at, mut written) = (GRANULE, Vec::new());
        for (len, is_written) in values {
            let bytes = record_bytes(8, *len);
            let block = BlockRef {
                granule: at / GRANULE,
                generation: 5,
                class: class_for(bytes).unwrap(),
            };
            let mut record = encode(pool, b"the key.", &vec![7; *len]).unwrap();
            seal(&mut record, block);
            if *is_written {
                run[at as usize..at as usize + bytes].copy_from_slice(&record);
                written.push(block.granule);
            }
            at += carved_bytes(bytes);
        }
        written
    }

    proptest! {
        #[test]
        fn records_are_found_behind_holes_of_any_size(
            values in prop::collection::vec((0usize..150, any::<bool>()), 1..30),
            stale in any::<bool>(),
        ) {
            let pool = BufferPool::new(1 << 12, 1 << 20);
            let mut run = vec![0; 6 << 10];
            if stale {
                // What stood there before, of the same generation.
                write(&mut run, &pool, &[(24, true), (3_000, true), (40, true)]);
            }
            let written = write(&mut run, &pool, &values);
            let place = (0, 5);
            let found = records_in(&run, place, 6 << 10, |_| true).unwrap();
            let found: Vec<_> = found.iter().map(|record| record.block.granule).collect();
            prop_assert!(written.iter().all(|granule| found.contains(granule)), "{found:?}");
            if !stale {
                prop_assert_eq!(&written, &found);
                let again = records_in(&run[16..], (16, 5), (6 << 10) - 16, |_| true).unwrap();
                let again: Vec<_> = again.iter().map(|record| record.block.granule).collect();
                prop_assert_eq!(written, again);
            }
        }
    }

    #[test]
    fn values_that_were_made_to_seem_records_do_not_hold_a_cleaner_up() {
        let mut run = vec![0_u8; 1 << 20];
        let seems = (5_u64 << 32, (900_000_u64) << 32);
        for at in (GRANULE as usize..run.len() - 16).step_by(16) {
            run[at..at + 8].copy_from_slice(&seems.0.to_le_bytes());
            run[at + 8..at + 16].copy_from_slice(&seems.1.to_le_bytes());
        }
        let found = records_in(&run, (0, 5), 1 << 20, |_| true);
        assert!(matches!(found, Err(IndexError::Unreadable { .. })));
    }
}
