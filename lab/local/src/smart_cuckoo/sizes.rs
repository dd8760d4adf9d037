//! How many buckets so many records need.

use super::buckets::Buckets;

/// The share of the slots that [`SmartCuckooMap::insert`](super::SmartCuckooMap::insert) fills
/// before the map grows: a tenth below the half where random keys stop fitting, so that paths are
/// short (three buckets, in the mean) and next to nothing fails.
pub const MAX_LOAD: f64 = 0.45;

/// Buckets of each of the two tables of the smallest map that has any.
pub(super) const LEAST_SIDE: u32 = 4;

/// More records than the map can ever have buckets for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{records} records: a map has room for {most} at most")]
pub struct TooManyRecords {
    /// The records asked for.
    pub records: usize,
    /// The most that there is room for.
    pub most: usize,
}

/// The records that so many slots hold before they become more: [`MAX_LOAD`] of them.
pub(crate) fn load_limit(slots: usize) -> usize {
    (slots as u64 * 9 / 20) as usize
}

/// The buckets of each table that hold so many records.
pub(super) fn side_for<K, V>(records: usize) -> Result<u32, TooManyRecords> {
    let most = load_limit(2 * Buckets::<K, V>::MOST_SIDE as usize);
    if records > most {
        return Err(TooManyRecords { records, most });
    }
    match records as u64 {
        0 => Ok(0),
        records => Ok(((records * 10).div_ceil(9) as u32).max(LEAST_SIDE)),
    }
}

/// A map with that many slots for each record does not change for a record without a place: no size
/// and no other functions of the hashes help against equal hashes.
const MOST_SLOTS_PER_RECORD: usize = 32;
/// Below that many slots a map may be emptier: chance alone leaves a record without a place.
const FEW_SLOTS: usize = 256;

/// Whether a map of that many slots should not grow for want of a place.
pub(crate) fn is_hopeless(records: usize, slots: usize) -> bool {
    slots >= FEW_SLOTS && slots / MOST_SLOTS_PER_RECORD >= records
}
