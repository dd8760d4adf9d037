//! Farslot for C: `include/farslot.h`, made by cbindgen.
//!
//! * `fs_store` and `fs_table`: stores and tables of [`farslot`], with batches (`fs_table_get_many`
//!   and others), queues and transactions (`fs_transact`). A table is a [`Handle`]: any number of
//!   threads use it, and what they ask for goes to threads of its own.
//! * `fs_word_set`: words of up to 63 bits ([`WordSet`]).
//! * `fs_map`: elements of any bytes, each with a value of some words ([`DataSet`]).
//! * `fs_job`: processes that start together, as `mpirun` and `srun` start them, and on one machine
//!   share a set or a map, each owning a part of it ([`Job`]).
//!
//! A function that can fail returns `FS_ERROR` or null; [`fs_error_message`] then has the reason,
//! for each thread its own, and [`fs_error_kind`] what it comes down to. No function panics over
//! what a caller passes, but pointers must be what the functions' comments say.
//!
//! [`Handle`]: farslot::Handle
//! [`WordSet`]: farslot_set::WordSet
//! [`DataSet`]: farslot_set::DataSet
//! [`Job`]: farslot_set::job::Job

mod batch;
mod error;
mod fork;
mod input;
mod job;
mod map;
mod options;
mod outcome;
mod shared;
mod store;
mod table;
mod transaction;
mod wait;
mod words;

pub use batch::{fs_table_delete_many, fs_table_get_many, fs_table_put_many};
pub use error::{FsKind, fs_error_kind, fs_error_may_have_taken_effect, fs_error_message};
pub use input::{FsBytes, FsValue};
pub use job::{
    JobHandle, fs_job_barrier, fs_job_free, fs_job_join, fs_job_join_launched, fs_job_rank,
    fs_job_ranks,
};
pub use map::{
    MapHandle, SpareHandle, fs_map_compare_swap, fs_map_find, fs_map_find_or_put, fs_map_free,
    fs_map_get, fs_map_load, fs_map_new, fs_map_of_job, fs_map_set_flags, fs_map_store,
    fs_spare_free, fs_spare_new,
};
pub use outcome::FsOutcome;
pub use store::{
    StoreHandle, fs_store_free, fs_store_open, fs_table_create, fs_table_drop, fs_table_names,
};
pub use table::{
    TableHandle, fs_queue_pop, fs_queue_push, fs_table_compare_and_set, fs_table_contains_key,
    fs_table_count, fs_table_delete, fs_table_free, fs_table_get, fs_table_increment,
    fs_table_open, fs_table_put, fs_table_put_for,
};
pub use transaction::{
    FsBody, TransactionHandle, fs_transact, fs_transaction_delete, fs_transaction_get,
    fs_transaction_insert, fs_transaction_put,
};
pub use words::{
    WordSetHandle, fs_word_set_find, fs_word_set_find_or_put, fs_word_set_find_or_put_all,
    fs_word_set_free, fs_word_set_len, fs_word_set_new, fs_word_set_of_job,
};
