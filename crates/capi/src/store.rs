//! Stores, and which tables there are.

use crate::error::{Failure, made};
use crate::fork::OfProcess;
use crate::input::{ValueRoom, give, given, required, text};
use crate::options::pairs;
use crate::outcome::{FsOutcome, outcome};
use farslot::{OpenOptions, Store, TableOptions};
use std::ffi::c_char;
use std::sync::Arc;

/// A store: memory somewhere, and the tables in it.
#[derive(Debug)]
pub struct StoreHandle(OfProcess<Arc<Store>>);

/// The store that a caller passes.
///
/// # Safety
/// `store` is null or a store that was not freed.
pub(crate) unsafe fn store_of<'a>(store: *const StoreHandle) -> Result<&'a Arc<Store>, Failure> {
    // SAFETY: as the caller says.
    unsafe { given(store, "store") }?.0.get()
}

/// Opens the store at an address: "embedded", "shm://NAME", "tcp://HOST:PORT", "tcps://HOST:PORT",
/// "verbs://HOST:PORT" or "sim://PROFILE?seed=N", and over several nodes
/// "tcp://HOST:PORT,HOST:PORT". Null if that fails. To be freed by fs_store_free.
///
/// `options` is null or a text of options, NAME=VALUE with spaces between them, a value with spaces
/// in quotes. Sizes are like 64MiB, spans are in seconds. `memory`: the size of an embedded store.
/// `secret` or `secret_file`, `grant`, `tls_ca` or `tls_pin`, `tls_cert` and `tls_key`: as the
/// program's flags. `read_only=true`. `access`: reads, calls or auto. `connect_timeout`, `timeout`.
/// `cache` and `stale_for`: a cache of answers in each thread that works for a table.
/// `client_memory`: what a table's client may take at most.
///
/// # Safety
/// `address` and `options` are null or texts that end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_store_open(
    address: *const c_char,
    options: *const c_char,
) -> *mut StoreHandle {
    made(|| {
        // SAFETY: as the caller says.
        let (address, options) = unsafe { (required(address, "address")?, text(options)?) };
        let options = OpenOptions::named(pairs(options)?)?;
        let store = Store::open_with(address, options)?;
        Ok(StoreHandle(OfProcess::new(Arc::new(store))))
    })
}

/// Frees a store. Tables of it that are open stay so, until they are freed. Null is no store, and
/// nothing happens.
///
/// # Safety
/// `store` is null or a store that was not freed, and nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_store_free(store: *mut StoreHandle) {
    if !store.is_null() {
        // SAFETY: made by `Box::into_raw`, and given back once.
        let store = unsafe { Box::from_raw(store) };
        outcome(|| {
            store.0.end(|store| store.close_transactions());
            Ok(FsOutcome::FS_DONE)
        });
    }
}

/// Makes a table: FS_DONE, or FS_ERROR, with FS_KIND_TABLE_EXISTS if there is one of that name.
///
/// `options` is null or a text of options, as of fs_store_open: the flags of `farslot create` with
/// `_` for `-`, such as "capacity=1000 scheme=chained key_size=8 max_value=100". Without a capacity
/// it is a table that grows, for keys and values of any size, which may have times to live.
///
/// # Safety
/// `store` is null or a store that was not freed; `name` and `options` are null or texts that end
/// with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_table_create(
    store: *const StoreHandle,
    name: *const c_char,
    options: *const c_char,
) -> FsOutcome {
    outcome(|| {
        // SAFETY: as the caller says.
        let store = unsafe { store_of(store) }?;
        // SAFETY: as the caller says.
        let (name, options) = unsafe { (required(name, "name")?, text(options)?) };
        store.create(name, &TableOptions::named(pairs(options)?)?)?;
        Ok(FsOutcome::FS_DONE)
    })
}

/// Drops a table, and returns when its memory is free again, some seconds later: FS_DONE, or
/// FS_ERROR, with FS_KIND_NO_SUCH_TABLE if there is none. Whoever has it open is told
/// FS_KIND_TABLE_GONE.
///
/// # Safety
/// As of fs_table_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_table_drop(
    store: *const StoreHandle,
    name: *const c_char,
) -> FsOutcome {
    outcome(|| {
        // SAFETY: as the caller says.
        let (store, name) = unsafe { (store_of(store)?, required(name, "name")?) };
        store.drop_table(name)?;
        Ok(FsOutcome::FS_DONE)
    })
}

/// Writes the names of all tables to `names`, each with a zero behind it, and how many bytes that
/// are to `len`, unless that is null: FS_DONE, or FS_TOO_LONG if there is no room for so many.
///
/// # Safety
/// `store` is null or a store that was not freed; `names` has room for `room` bytes, or is null
/// with 0; `len` is null or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_table_names(
    store: *const StoreHandle,
    names: *mut c_char,
    room: usize,
    len: *mut usize,
) -> FsOutcome {
    outcome(|| {
        // SAFETY: as the caller says.
        let (store, room) = unsafe { (store_of(store)?, ValueRoom::new(names.cast(), room)?) };
        let mut all = Vec::new();
        for table in store.tables()? {
            all.extend_from_slice(table.name.as_bytes());
            all.push(0);
        }
        // SAFETY: as the caller says.
        unsafe { give(len, all.len()) };
        Ok(match room.fill(&all) {
            true => FsOutcome::FS_DONE,
            false => FsOutcome::FS_TOO_LONG,
        })
    })
}
