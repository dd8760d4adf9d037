//! Measurements: workloads, the limits that they are held against, and the papers' tables beside ours.
//!
//! Everything here uses the public API only, returns typed reports, and prints nothing:
//!
//! * [`repro`]: tables and figures of the papers, ours beside theirs.
//! * [`lookup_sim`]: lookup rates behind a simulated NIC, in virtual time, beside the rate of bare READs.
//! * [`lookup_shm`]: lookup rates over shared memory, beside what the memory itself gives
//!   ([`memory_limit`]).
//! * [`raw`]: bare READs through TCP, beside a plain echo of the same bytes.
//!
//! Figures in virtual time are the same in every run of the same seed.

#![forbid(unsafe_code)]

mod answers;
mod error;
mod filling;
mod keys;
pub mod lookup_shm;
pub mod lookup_sim;
pub mod memory_limit;
mod paper000;
pub mod raw;
mod report;
pub mod repro;
mod threads;

pub use error::{BenchError, Result};
pub use keys::Keys;
pub use report::{BenchReport, BenchRow, ReproReport, ReproRow};

/// Is told, in words, what a measurement is at.
pub type Progress<'p> = &'p (dyn Fn(&str) + Sync);
