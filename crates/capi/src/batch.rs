//! Operations on many keys at once.

use crate::error::Failure;
use crate::input::{FsBytes, FsValue, ValueRoom, bytes, check_items, items};
use crate::outcome::{FsOutcome, outcome};
use crate::table::{OpenedTable, TableHandle, table_of};
use farslot::{BatchError, Record, Table};
use std::ops::Range;

/// Keys of a batch that one of the table's threads does at a time: others have their turn between.
const PIECE: usize = 4096;

/// Where the answers about a caller's keys go.
struct AnswerPlaces<T>(*mut T);

// SAFETY: they are written by one thread at a time, for which the thread that has them waits.
unsafe impl<T> Send for AnswerPlaces<T> {}

impl<T> AnswerPlaces<T> {
    /// # Safety
    /// There are more than so many.
    unsafe fn at(&self, number: usize) -> *mut T {
        // SAFETY: as the caller says.
        unsafe { self.0.add(number) }
    }
}

/// Does a batch in pieces, all of them whatever fails.
fn in_pieces(
    table: &OpenedTable,
    count: usize,
    mut each: impl FnMut(&Table, Range<usize>) -> Result<(), BatchError> + Send,
) -> Result<FsOutcome, Failure> {
    let mut all = Ok(FsOutcome::FS_DONE);
    for start in (0..count).step_by(PIECE) {
        let piece = start..count.min(start + PIECE);
        // The table's thread is told, too: it may have to open the table again.
        let done = table.with(|table| Ok(each(table, piece)?));
        if let Err(later) = done {
            all = Err(match all {
                Err(first) => Failure::before(first, &later),
                Ok(_) => later,
            });
        }
    }
    all
}

/// The keys or values that a caller passes.
///
/// # Safety
/// `at` are `count`, each of which is bytes that are there.
unsafe fn many<'a>(
    at: *const FsBytes,
    count: usize,
    argument: &str,
) -> Result<Vec<&'a [u8]>, Failure> {
    // SAFETY: as the caller says.
    let given = unsafe { items(at, count, argument) }?;
    // SAFETY: as the caller says.
    let each = given
        .iter()
        .map(|one| unsafe { bytes(one.data, one.len, argument) });
    each.collect()
}

/// The places for so many outcomes, each of which is FS_ERROR until it is known.
///
/// # Safety
/// `to` has room for `count`.
unsafe fn outcomes(to: *mut FsOutcome, count: usize) -> Result<AnswerPlaces<FsOutcome>, Failure> {
    check_items(to, count, "outcomes")?;
    let places = AnswerPlaces(to);
    for number in 0..count {
        // SAFETY: there is room for more than so many.
        unsafe { places.at(number).write(FsOutcome::FS_ERROR) };
    }
    Ok(places)
}

/// Looks up `count` keys side by side, and fills `values` with what each has: room for each key's
/// own, where its length and its outcome go as well. FS_DONE if no lookup failed; else FS_ERROR,
/// and the message is that of the first key which failed. Keys that did not fail are done all the
/// same.
///
/// # Safety
/// `table` is null or a table that was not freed; `keys` and `values` are `count`, or null with 0;
/// each of the keys is bytes, and each of the values has the room that it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_table_get_many(
    table: *const TableHandle,
    keys: *const FsBytes,
    values: *mut FsValue,
    count: usize,
) -> FsOutcome {
    outcome(|| {
        // SAFETY: as the caller says.
        let (table, keys) = unsafe { (table_of(table)?, many(keys, count, "keys")?) };
        check_items(values, count, "values")?;
        let places = AnswerPlaces(values);
        let mut rooms = Vec::with_capacity(count);
        for number in 0..count {
            // SAFETY: there are more than so many; the outcome of one may never have been written.
            unsafe {
                let place = places.at(number);
                (&raw mut (*place).outcome).write(FsOutcome::FS_ERROR);
                rooms.push(ValueRoom::new((*place).to, (*place).room)?);
            }
        }
        in_pieces(table, count, move |table, range| {
            let start = range.start;
            table.get_many(&keys[range], |number, found| {
                let number = start + number;
                let (outcome, len) = match found {
                    None => (FsOutcome::FS_ABSENT, 0),
                    Some(value) if rooms[number].fill(value) => (FsOutcome::FS_FOUND, value.len()),
                    Some(value) => (FsOutcome::FS_TOO_LONG, value.len()),
                };
                // SAFETY: there are more than so many.
                unsafe {
                    let place = places.at(number);
                    (&raw mut (*place).outcome).write(outcome);
                    (&raw mut (*place).len).write(len);
                }
            })
        })
    })
}

/// Sets the values of `count` keys side by side, and writes to `outcomes` FS_INSERTED, FS_REPLACED
/// or FS_ERROR for each. FS_DONE if none failed; else FS_ERROR, as of fs_table_get_many. If a key
/// occurs more than once, which value wins is unspecified.
///
/// # Safety
/// `table` is null or a table that was not freed; `keys` and `values` are `count`, or null with 0,
/// each of them bytes; `outcomes` has room for `count`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_table_put_many(
    table: *const TableHandle,
    keys: *const FsBytes,
    values: *const FsBytes,
    outcomes: *mut FsOutcome,
    count: usize,
) -> FsOutcome {
    outcome(|| {
        // SAFETY: as the caller says.
        let (table, keys) = unsafe { (table_of(table)?, many(keys, count, "keys")?) };
        // SAFETY: as the caller says.
        let values = unsafe { many(values, count, "values") }?;
        // SAFETY: as the caller says.
        let places = unsafe { self::outcomes(outcomes, count) }?;
        let records: Vec<Record<'_>> = keys.into_iter().zip(values).collect();
        in_pieces(table, count, move |table, range| {
            let start = range.start;
            table.put_many(&records[range], |number, is_new| {
                // SAFETY: there are more than so many.
                unsafe { places.at(start + number).write(FsOutcome::put(is_new)) };
            })
        })
    })
}

/// Removes `count` keys side by side, and writes to `outcomes` FS_FOUND, FS_ABSENT or FS_ERROR for
/// each. FS_DONE if none failed; else FS_ERROR, as of fs_table_get_many.
///
/// # Safety
/// `table` is null or a table that was not freed; `keys` are `count`, or null with 0, each of them
/// bytes; `outcomes` has room for `count`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_table_delete_many(
    table: *const TableHandle,
    keys: *const FsBytes,
    outcomes: *mut FsOutcome,
    count: usize,
) -> FsOutcome {
    outcome(|| {
        // SAFETY: as the caller says.
        let (table, keys) = unsafe { (table_of(table)?, many(keys, count, "keys")?) };
        // SAFETY: as the caller says.
        let places = unsafe { self::outcomes(outcomes, count) }?;
        in_pieces(table, count, move |table, range| {
            let start = range.start;
            table.remove_many(&keys[range], |number, was_there| {
                // SAFETY: there are more than so many.
                unsafe { places.at(start + number).write(FsOutcome::found(was_there)) };
            })
        })
    })
}
