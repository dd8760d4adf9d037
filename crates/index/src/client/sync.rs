//! What threads synchronise by. The locks name it and not `std`, so that their models run the same
//! lines over loom's.

pub(super) use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering, fence},
};

/// The logarithm of the number of bits that all buckets share.
pub(super) const LOCK_BITS: u32 = 14;
