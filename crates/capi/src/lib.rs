//! Sets and maps of [`farslot_set`] for C: `include/farslot.h`, made by cbindgen.
//!
//! * `fs_word_set`: words of up to 63 bits ([`WordSet`]).
//! * `fs_map`: elements of any bytes, each with a value of some words ([`DataSet`]).
//! * `fs_job`: processes that start together, as `mpirun` and `srun` start them, and on one machine
//!   share a set or a map, each owning a part of it ([`Job`]).
//!
//! A function that can fail returns `FS_ERROR` or null; [`fs_error_message`] then has the reason,
//! for each thread its own. No function panics over what a caller passes, but pointers must be what
//! the functions' comments say.
//!
//! [`WordSet`]: farslot_set::WordSet
//! [`DataSet`]: farslot_set::DataSet
//! [`Job`]: farslot_set::job::Job

mod error;
mod job;
mod map;
mod outcome;
mod shared;
mod words;

pub use error::fs_error_message;
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
pub use words::{
    WordSetHandle, fs_word_set_find, fs_word_set_find_or_put, fs_word_set_find_or_put_all,
    fs_word_set_free, fs_word_set_len, fs_word_set_new, fs_word_set_of_job,
};
