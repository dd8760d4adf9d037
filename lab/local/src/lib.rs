//! Hash tables in a process's own memory: SmartCuckoo (paper 004), and what it is compared with.
//!
//! - [`smart_cuckoo`]: the map, with the manners of `std`'s, that knows failures before it kicks
//!   anything out;
//! - [`random_walk`]: the designs it is compared with, cuckoo hashing with a stash and with buckets
//!   of several slots;
//! - [`concurrent`]: a SmartCuckoo that threads share, and a table of libcuckoo's design;
//! - [`several`]: several hash functions and buckets of several slots, with failures known;
//! - [`counting`]: what insertions cost by occupancy, counted and not timed;
//! - [`LocalTable`]: the interface under which designs of fixed size are compared, and
//!   [`InsertionCounters`], what their insertions cost without a clock.
//!
//! # Which one to choose
//!
//! For a map in memory, `std`'s (hashbrown): it is full to 7/8, takes a third of the memory,
//! inserts and finds faster, and tells a key that is not there several times as fast, by 16 tags at
//! once in one cache line (`scripts/bench-local` measures them side by side, but for
//! [`SeveralCuckoo`]). What it does not give is a bound. [`SmartCuckooMap`] is for where that is
//! needed:
//!
//! - a lookup reads two buckets at most, for every key, at every load, after any number of
//!   removals; in hashbrown the longest probe sequence grows with the table, and removals leave
//!   tombstones behind;
//! - both are known from the hash alone, before anything is read: they can be fetched together,
//!   which is why such tables are read over a network and by hardware;
//! - of an insertion it is known before anything moves whether there is a place, and how many
//!   records would move; a table of fixed size is filled up to the last record that fits.
//!
//! Among the tables with that bound: for threads [`ConcurrentSmartCuckoo`]; at loads above a half
//! [`SeveralCuckoo`] or [`BucketizedCuckoo`], whose buckets are longer.
//!
//! # How the concurrent tables are checked
//!
//! All shared words are atomics, so that no data race is possible that a sanitizer could find: the
//! crate is without `unsafe`. What can go wrong is order, and that loom's models check
//! (`concurrent/models.rs`): of each reader with a writer that kicks out, replaces, removes and
//! grows, and of two writers, all interleavings of up to two or three preemptions, stale loads
//! included. Threads beside each other on real processors are in `tests/threads.rs`. Neither
//! ThreadSanitizer nor Miri is run: both need a nightly compiler.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod concurrent;
pub mod counting;
mod hash;
#[cfg(test)]
mod oracle;
pub mod random_walk;
pub mod several;
pub mod smart_cuckoo;
mod table;

pub use concurrent::{ConcurrentSmartCuckoo, OptimisticCuckoo, Words};
pub use random_walk::{BucketizedCuckoo, CuckooWithStash};
pub use several::SeveralCuckoo;
pub use smart_cuckoo::SmartCuckooMap;
pub use table::{Full, InsertionCounters, LocalTable};
