//! Transactions over chained and ordered tables.

use crate::error::{Failure, FsKind};
use crate::input::{ValueRoom, bytes, given};
use crate::outcome::{FsOutcome, outcome};
use crate::store::{StoreHandle, store_of};
use crate::table::{TableHandle, got, table_of};
use farslot::{Store, Transaction};
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread::ThreadId;

/// A transaction under way, as its body has it.
#[derive(Debug)]
pub struct TransactionHandle {
    transaction: NonNull<Transaction>,
    store: Arc<Store>,
    /// The only thread that may use it.
    thread: ThreadId,
}

/// What a transaction does: it returns 0 to commit, and anything else to change nothing.
pub type FsBody = Option<
    unsafe extern "C" fn(transaction: *mut TransactionHandle, context: *mut c_void) -> c_int,
>;

/// Runs a transaction over any chained and ordered tables of a store, on any of its nodes: all of
/// it or nothing, strictly serializable. `body` gets the transaction, which is its own until it
/// returns, and `context`. Where another transaction was in the way it is run again, after pauses
/// that grow, up to a thousand times: it must do nothing else that cannot be done twice. Only the
/// commit says whether all that it has read was there at one moment.
///
/// FS_DONE if it returned 0 and is committed. FS_ABORTED if it returned anything else: nothing was
/// changed. FS_CONFLICT if others were in the way each time, FS_ERROR if a step or the commit
/// failed, whatever the body returned; fs_error_may_have_taken_effect says whether it may be
/// committed all the same.
///
/// # Safety
/// `store` is null or a store that was not freed; `body` is null or a function that returns to its
/// caller, and leaves in no other way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_transact(
    store: *const StoreHandle,
    body: FsBody,
    context: *mut c_void,
) -> FsOutcome {
    outcome(|| {
        // SAFETY: as the caller says.
        let store = unsafe { store_of(store) }?;
        let body = body.ok_or_else(|| Failure::bad("no body"))?;
        let committed = store.transaction(|transaction| {
            let mut lent = TransactionHandle {
                transaction: NonNull::from(&mut *transaction),
                store: Arc::clone(store),
                thread: std::thread::current().id(),
            };
            // SAFETY: as the caller says.
            let commits = unsafe { body(&raw mut lent, context) } == 0;
            if !commits {
                transaction.abort();
            }
            Ok(commits)
        });
        Ok(match committed? {
            true => FsOutcome::FS_DONE,
            false => FsOutcome::FS_ABORTED,
        })
    })
}

/// The transaction, the table and the key that a caller passes.
///
/// # Safety
/// `transaction` is null or that of a body which has not returned; `table` is null or a table that
/// was not freed; `key` is `key_len` bytes.
unsafe fn step<'a>(
    transaction: *mut TransactionHandle,
    table: *const TableHandle,
    key: *const u8,
    key_len: usize,
) -> Result<(&'a mut Transaction, &'a str, &'a [u8]), Failure> {
    // SAFETY: as the caller says; of what it is to only the transaction is changed.
    let lent = unsafe { given(transaction.cast_const(), "transaction") }?;
    if lent.thread != std::thread::current().id() {
        return Err(Failure::bad(
            "the transaction is used by another thread than its body's",
        ));
    }
    // SAFETY: as the caller says.
    let table = unsafe { table_of(table) }?;
    let name = &table.record.name;
    if !Arc::ptr_eq(&lent.store, &table.store) {
        let said = format!("the table {name:?} is of another store than the transaction");
        return Err(Failure::bad(said));
    }
    // SAFETY: the body's thread has it alone while the body runs, and calls of it are not nested.
    let transaction = unsafe { &mut *lent.transaction.as_ptr() };
    if !transaction.is_table_of(&table.record)? {
        return Err(Failure::new(
            FsKind::FS_KIND_TABLE_GONE,
            format!("the name {name:?} is another table's by now: open that one"),
        ));
    }
    // SAFETY: as the caller says.
    Ok((transaction, name, unsafe { bytes(key, key_len, "key") }?))
}

/// As fs_table_get, within a transaction: of a key that it has changed, its own value. A key that
/// is read twice has the same value twice. Also FS_CONFLICT: the body returns then, and is run
/// again.
///
/// # Safety
/// `transaction` is null or that of a body which has not returned; all else as of fs_table_get.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_transaction_get(
    transaction: *mut TransactionHandle,
    table: *const TableHandle,
    key: *const u8,
    key_len: usize,
    value: *mut u8,
    room: usize,
    len: *mut usize,
) -> FsOutcome {
    outcome(|| {
        // SAFETY: as the caller says.
        let (transaction, table, key) = unsafe { step(transaction, table, key, key_len) }?;
        // SAFETY: as the caller says.
        let room = unsafe { ValueRoom::new(value, room) }?;
        let found = transaction.get(table, key)?;
        // SAFETY: as the caller says.
        Ok(unsafe { got(found, room, len) })
    })
}

/// Sets a key's value, whether it is there or not: FS_DONE, or FS_CONFLICT.
///
/// # Safety
/// As of fs_transaction_get; `value` is `value_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_transaction_put(
    transaction: *mut TransactionHandle,
    table: *const TableHandle,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
) -> FsOutcome {
    outcome(|| {
        // SAFETY: as the caller says.
        let (transaction, table, key) = unsafe { step(transaction, table, key, key_len) }?;
        // SAFETY: as the caller says.
        let value = unsafe { bytes(value, value_len, "value") }?;
        transaction.put(table, key, value)?;
        Ok(FsOutcome::FS_DONE)
    })
}

/// Sets the value of an absent key: FS_INSERTED, or FS_FOUND if the key is there, whose value stays
/// then; or FS_CONFLICT.
///
/// # Safety
/// As of fs_transaction_put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_transaction_insert(
    transaction: *mut TransactionHandle,
    table: *const TableHandle,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
) -> FsOutcome {
    outcome(|| {
        // SAFETY: as the caller says.
        let (transaction, table, key) = unsafe { step(transaction, table, key, key_len) }?;
        // SAFETY: as the caller says.
        let value = unsafe { bytes(value, value_len, "value") }?;
        Ok(match transaction.insert(table, key, value)? {
            true => FsOutcome::FS_INSERTED,
            false => FsOutcome::FS_FOUND,
        })
    })
}

/// Removes a key: FS_FOUND if it was there, or FS_ABSENT, or FS_CONFLICT.
///
/// # Safety
/// As of fs_transaction_get.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_transaction_delete(
    transaction: *mut TransactionHandle,
    table: *const TableHandle,
    key: *const u8,
    key_len: usize,
) -> FsOutcome {
    outcome(|| {
        // SAFETY: as the caller says.
        let (transaction, table, key) = unsafe { step(transaction, table, key, key_len) }?;
        Ok(FsOutcome::found(transaction.remove(table, key)?))
    })
}
