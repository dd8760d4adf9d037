//! Tables, one key at a time.

use crate::error::{Failure, made};
use crate::fork::OfProcess;
use crate::input::{ValueRoom, bytes, give, given, required, text};
use crate::options::table_opening;
use crate::outcome::{FsOutcome, outcome};
use crate::store::{StoreHandle, store_of};
use crate::wait::wait;
use farslot::{Handle, Store, Table, TableRecord};
use std::ffi::c_char;
use std::sync::Arc;
use std::time::Duration;

/// A table, for any number of threads: what they ask for goes to threads of its own.
#[derive(Debug)]
pub struct TableHandle(pub(crate) OfProcess<OpenedTable>);

/// A table that is open.
#[derive(Debug)]
pub(crate) struct OpenedTable {
    pub(crate) handle: Handle,
    pub(crate) store: Arc<Store>,
    pub(crate) record: TableRecord,
}

impl OpenedTable {
    /// Has one of the table's threads do something with it, and waits until that is done.
    pub(crate) fn with<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Table) -> farslot::Result<T> + Send,
    ) -> Result<T, Failure> {
        type Call<'c, T> = Box<dyn FnOnce(&Table) -> farslot::Result<T> + Send + 'c>;
        /// The caller's frame must not go while a worker uses it.
        struct Stays;
        impl Drop for Stays {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    std::process::abort();
                }
            }
        }
        let call: Call<'_, T> = Box::new(call);
        // SAFETY: a worker runs it at most once, and has before its future ends; if that ends with
        // an error of the handle, it is run by nobody. Until then this frame stays, and with it
        // what the call has borrowed.
        let call: Call<'static, T> = unsafe { std::mem::transmute(call) };
        let stays = Stays;
        let done = wait(self.handle.try_with(move |table| call(table)));
        drop(stays);
        Ok(done?)
    }
}

/// The table that a caller passes.
///
/// # Safety
/// `table` is null or a table that was not freed.
pub(crate) unsafe fn table_of<'a>(table: *const TableHandle) -> Result<&'a OpenedTable, Failure> {
    // SAFETY: as the caller says.
    unsafe { given(table, "table") }?.0.get()
}

/// The table and the key that a caller passes.
///
/// # Safety
/// As of fs_table_get.
unsafe fn keyed<'a>(
    table: *const TableHandle,
    key: *const u8,
    key_len: usize,
) -> Result<(&'a OpenedTable, &'a [u8]), Failure> {
    // SAFETY: as the caller says.
    unsafe { Ok((table_of(table)?, bytes(key, key_len, "key")?)) }
}

/// Opens a table, for any number of threads. Null if that fails. To be freed by fs_table_free.
///
/// What they ask for goes to a thread of the table's own; that of many threads leaves together.
/// Where memory is mapped (embedded, shm://) the thread that asks looks keys up itself. `options`
/// is null or a text of options: `workers`, more threads than one, for tables of many writers.
///
/// # Safety
/// `store` is null or a store that was not freed; `name` and `options` are null or texts that end
/// with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_table_open(
    store: *const StoreHandle,
    name: *const c_char,
    options: *const c_char,
) -> *mut TableHandle {
    made(|| {
        // SAFETY: as the caller says.
        let store = unsafe { store_of(store) }?;
        // SAFETY: as the caller says.
        let (name, options) = unsafe { (required(name, "name")?, text(options)?) };
        let handle = Handle::open(store, name, table_opening(options)?)?;
        let record = wait(handle.try_with(|table| Ok(table.record().clone())))?;
        Ok(TableHandle(OfProcess::new(OpenedTable {
            handle,
            store: Arc::clone(store),
            record,
        })))
    })
}

/// Closes and frees a table, once what was asked for is done. Null is no table, and nothing
/// happens.
///
/// # Safety
/// `table` is null or a table that was not freed, and nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_table_free(table: *mut TableHandle) {
    if !table.is_null() {
        // SAFETY: made by `Box::into_raw`, and given back once.
        let table = unsafe { Box::from_raw(table) };
        outcome(|| {
            table.0.end(|table| wait(table.handle.close()));
            Ok(FsOutcome::FS_DONE)
        });
    }
}

/// Copies a key's value to `value`, and writes how long it is to `len`, unless that is null:
/// FS_FOUND, FS_ABSENT, or FS_TOO_LONG if there is no room for it.
///
/// # Safety
/// `table` is null or a table that was not freed; `key` is `key_len` bytes; `value` has room for
/// `room` bytes, or is null with 0; `len` is null or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_table_get(
    table: *const TableHandle,
    key: *const u8,
    key_len: usize,
    value: *mut u8,
    room: usize,
    len: *mut usize,
) -> FsOutcome {
    outcome(|| {
        // SAFETY: as the caller says.
        let ((table, key), room) =
            unsafe { (keyed(table, key, key_len)?, ValueRoom::new(value, room)?) };
        let found = wait(table.handle.get(key))?;
        // SAFETY: as the caller says.
        Ok(unsafe { got(found, room, len) })
    })
}

/// What became of a lookup whose value goes to a caller's room.
///
/// # Safety
/// `len` is null or has room for a number.
pub(crate) unsafe fn got(found: Option<Vec<u8>>, room: ValueRoom, len: *mut usize) -> FsOutcome {
    let Some(value) = found else {
        return FsOutcome::FS_ABSENT;
    };
    // SAFETY: as the caller says.
    unsafe { give(len, value.len()) };
    match room.fill(&value) {
        true => FsOutcome::FS_FOUND,
        false => FsOutcome::FS_TOO_LONG,
    }
}

/// Whether a key is there: FS_FOUND or FS_ABSENT.
///
/// # Safety
/// As of fs_table_get.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_table_contains_key(
    table: *const TableHandle,
    key: *const u8,
    key_len: usize,
) -> FsOutcome {
    outcome(|| {
        // SAFETY: as the caller says.
        let (table, key) = unsafe { keyed(table, key, key_len) }?;
        Ok(FsOutcome::found(wait(table.handle.get(key))?.is_some()))
    })
}

/// Sets a key's value: FS_INSERTED, or FS_REPLACED if the key was there.
///
/// # Safety
/// As of fs_table_get; `value` is `value_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_table_put(
    table: *const TableHandle,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
) -> FsOutcome {
    outcome(|| {
        // SAFETY: as the caller says.
        let (table, key) = unsafe { keyed(table, key, key_len) }?;
        // SAFETY: as the caller says.
        let value = unsafe { bytes(value, value_len, "value") }?;
        Ok(FsOutcome::put(wait(table.handle.put(key, value))?))
    })
}

/// Sets a key's value for so many milliseconds, after which the key is absent again: as
/// fs_table_put, and FS_REPLACED of a key that has expired where nobody has cleared it away yet.
/// FS_KIND_UNSUPPORTED of a table that is not expiring.
///
/// # Safety
/// As of fs_table_put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_table_put_for(
    table: *const TableHandle,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    milliseconds: u64,
) -> FsOutcome {
    outcome(|| {
        // SAFETY: as the caller says.
        let (table, key) = unsafe { keyed(table, key, key_len) }?;
        // SAFETY: as the caller says.
        let value = unsafe { bytes(value, value_len, "value") }?;
        let span = Duration::from_millis(milliseconds);
        Ok(FsOutcome::put(wait(
            table.handle.put_for(key, value, span),
        )?))
    })
}

/// Removes a key: FS_FOUND if it was there, or FS_ABSENT.
///
/// # Safety
/// As of fs_table_get.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_table_delete(
    table: *const TableHandle,
    key: *const u8,
    key_len: usize,
) -> FsOutcome {
    outcome(|| {
        // SAFETY: as the caller says.
        let (table, key) = unsafe { keyed(table, key, key_len) }?;
        Ok(FsOutcome::found(wait(table.handle.remove(key))?))
    })
}

/// Sets a key's value in one step if it is `expected`, or, where that is null, if the key is
/// absent: FS_REPLACED, FS_INSERTED or FS_DIFFERS. FS_KIND_UNSUPPORTED of a table of a scheme that
/// cannot.
///
/// # Safety
/// As of fs_table_put; `expected` is null or `expected_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_table_compare_and_set(
    table: *const TableHandle,
    key: *const u8,
    key_len: usize,
    expected: *const u8,
    expected_len: usize,
    value: *const u8,
    value_len: usize,
) -> FsOutcome {
    outcome(|| {
        // SAFETY: as the caller says.
        let (table, key) = unsafe { keyed(table, key, key_len) }?;
        // SAFETY: as the caller says.
        let value = unsafe { bytes(value, value_len, "value") }?;
        let expected = match expected.is_null() && expected_len == 0 {
            true => None,
            // SAFETY: as the caller says.
            false => Some(unsafe { bytes(expected, expected_len, "expected value") }?),
        };
        let is_set = wait(table.handle.compare_and_set(key, expected, value))?;
        Ok(match (is_set, expected) {
            (true, Some(_)) => FsOutcome::FS_REPLACED,
            (true, None) => FsOutcome::FS_INSERTED,
            (false, _) => FsOutcome::FS_DIFFERS,
        })
    })
}

/// Adds to a number, which the value is as decimal text and an absent key 0, in one step: FS_DONE,
/// with the sum in `sum`, unless that is null.
///
/// # Safety
/// As of fs_table_get; `sum` is null or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_table_increment(
    table: *const TableHandle,
    key: *const u8,
    key_len: usize,
    by: i64,
    sum: *mut i64,
) -> FsOutcome {
    outcome(|| {
        // SAFETY: as the caller says.
        let (table, key) = unsafe { keyed(table, key, key_len) }?;
        let added = table.with(|table| table.increment(key, by))?;
        // SAFETY: as the caller says.
        unsafe { give(sum, added) };
        Ok(FsOutcome::FS_DONE)
    })
}

/// Counts the keys, or the items of a queue: FS_DONE, with their number in `count`.
///
/// # Safety
/// `table` is null or a table that was not freed; `count` is null or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_table_count(table: *const TableHandle, count: *mut u64) -> FsOutcome {
    outcome(|| {
        // SAFETY: as the caller says.
        let table = unsafe { table_of(table) }?;
        let counted = table.with(|table| {
            table.flush()?;
            table.occupancy()
        })?;
        // SAFETY: as the caller says.
        unsafe { give(count, counted.entries) };
        Ok(FsOutcome::FS_DONE)
    })
}

/// Adds an item to the end of a queue, a table of the scheme queue: FS_DONE. FS_KIND_FULL of a full
/// one.
///
/// # Safety
/// `table` is null or a table that was not freed; `item` is `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_queue_push(
    table: *const TableHandle,
    item: *const u8,
    len: usize,
) -> FsOutcome {
    outcome(|| {
        // SAFETY: as the caller says.
        let (table, item) = unsafe { (table_of(table)?, bytes(item, len, "item")?) };
        wait(table.handle.push(item))?;
        Ok(FsOutcome::FS_DONE)
    })
}

/// Takes the first item of a queue, copies it to `item`, and writes how long it is to `len`, unless
/// that is null: FS_FOUND, or FS_ABSENT if the queue is empty. If the longest item that the queue
/// may have has no room, nothing is taken: FS_TOO_LONG, with the length of that in `len`.
///
/// # Safety
/// As of fs_table_get.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_queue_pop(
    table: *const TableHandle,
    item: *mut u8,
    room: usize,
    len: *mut usize,
) -> FsOutcome {
    outcome(|| {
        // SAFETY: as the caller says.
        let (table, room) = unsafe { (table_of(table)?, ValueRoom::new(item, room)?) };
        let longest = table.record.scheme.record_sizes().1.most();
        if room.len() < longest {
            // SAFETY: as the caller says.
            unsafe { give(len, longest) };
            return Ok(FsOutcome::FS_TOO_LONG);
        }
        let popped = wait(table.handle.pop())?;
        // SAFETY: as the caller says.
        Ok(unsafe { got(popped, room, len) })
    })
}
