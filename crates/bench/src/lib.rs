//! Measurements: workloads, the limits that they are held against, and the papers' tables beside ours.
//!
//! Everything here uses the public API only, returns typed reports, and prints nothing:
//!
//! * [`repro`]: tables and figures of the papers, ours beside theirs.
//! * [`lookup_sim`]: lookup rates behind a simulated NIC, in virtual time, beside the rate of bare READs.
//! * [`lookup_shm`]: lookup rates over shared memory, beside what the memory itself gives
//!   ([`memory_limit`]).
//!
//! * [`simulated`]: lookups in any index behind a simulated NIC, which these stand on.
//!
//! Figures in virtual time are the same in every run of the same seed.

#![forbid(unsafe_code)]

mod answers;
mod error;
mod keys;
pub mod lookup_shm;
pub mod lookup_sim;
pub mod memory_limit;
mod paper000;
mod report;
pub mod repro;
pub mod simulated;
mod threads;

pub use error::{BenchError, Result};
pub use keys::Keys;
pub use report::{Axis, BenchReport, BenchRow, Line, Plot, ReproReport, ReproRow, Source};

/// Is told, in words, what a measurement is at.
pub type Progress<'p> = &'p (dyn Fn(&str) + Sync);
