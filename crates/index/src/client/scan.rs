//! Visiting every record, a piece of the table at a time.

use super::side_by_side;
use crate::heap::Record;
use crate::{BATCH_WIDTH, Cursor, Result};
use farslot_fabric::Buffer;
use std::future::Future;

/// Bytes that one piece reads.
const PIECE: usize = 64 << 10;

/// How many of the things from `first` to `end` fit in a piece; 1 at least, if there are any.
pub(crate) fn piece(first: u64, end: u64, bytes: usize) -> u64 {
    piece_of(first, end, bytes, u64::MAX)
}

/// As [`piece`], and at most `most` of them, but still at least 1 if there are any.
pub(crate) fn piece_of(first: u64, end: u64, bytes: usize, most: u64) -> u64 {
    let left = end.saturating_sub(first);
    left.min(most.min((PIECE / bytes) as u64).max(1))
}

/// Where the next piece starts, if there is one.
pub(crate) fn next(at: u64, end: u64) -> Option<Cursor> {
    (at < end).then_some(Cursor(at))
}

/// A record that a scan has met.
pub(crate) enum ScannedRecord {
    /// Key and value, and the key's length.
    Here(Buffer, usize),
    Out(Record),
    Nothing,
}

/// Visits the records of slots that are looked at side by side.
pub(crate) async fn visit_all<F: Future<Output = Result<ScannedRecord>>>(
    slots: impl IntoIterator<Item = F>,
    visit: &mut impl FnMut(&[u8], &[u8]),
) -> Result<()> {
    side_by_side(BATCH_WIDTH, slots, |_, met| match met {
        ScannedRecord::Here(record, key_len) => visit(&record[..key_len], &record[key_len..]),
        ScannedRecord::Out(record) => visit(record.key(), record.value()),
        ScannedRecord::Nothing => {}
    })
    .await
}
