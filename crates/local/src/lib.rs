//! Hash tables in a process's own memory: SmartCuckoo (paper 004), and what it is compared with.
//!
//! - [`smart_cuckoo`]: the map, with the manners of `std`'s, that knows failures before it kicks
//!   anything out;
//! - [`random_walk`]: the designs it is compared with, cuckoo hashing with a stash and with buckets of
//!   several slots;
//! - [`concurrent`]: a SmartCuckoo that threads share, and a table of libcuckoo's design;
//! - [`several`]: several hash functions and buckets of several slots, with failures known;
//! - [`counting`]: what insertions cost by occupancy, counted and not timed;
//! - [`LocalTable`]: the interface under which designs of fixed size are compared, and [`Counters`],
//!   what their insertions cost without a clock.

#![forbid(unsafe_code)]

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
pub use table::{Counters, Full, LocalTable};
