//! Tables that threads share: readers take no lock.
//!
//! - [`ConcurrentSmartCuckoo`]: SmartCuckoo for many readers and a writer a shard; grows;
//! - [`OptimisticCuckoo`]: what it is compared with, a bucketized table of libcuckoo's design, for
//!   many readers and writers; of fixed size.
//!
//! Records are of whole machine words ([`Words`]), which are atomics in the table: a reader that
//! comes in the middle of a write sees a mixture, knows it by a version, and reads again. So there
//! is no data race and no `unsafe`, and nothing has to be reclaimed. A reader waits for no lock,
//! but, if it meets a record while that is being written, for the few stores of that.

#[cfg(test)]
mod models;
mod optimistic;
mod smart;
mod sync;
mod versioned;
mod words;

pub use optimistic::OptimisticCuckoo;
pub use smart::ConcurrentSmartCuckoo;
pub use words::Words;
