//! Measurements: lookups, bare READs, what a fabric costs, and which scheme suits a workload.
//!
//! Everything here returns typed reports, and prints nothing. It measures the layers below the
//! store too, so it uses what the feature `unstable` of the crate `farslot` opens:
//!
//! * [`advise`]: which scheme suits a workload, by the model, and whether the simulator agrees.
//! * [`calibrate`]: what a fabric costs, as a NIC profile for the model and the simulator.
//! * [`find_or_put`]: find-or-puts of processes that share one table, beside compare-and-swaps of
//!   the same memory.
//! * [`lookup`]: lookup rates of one or several schemes, over real memory beside what that gives
//!   ([`memory_limit`]), or behind a simulated NIC beside bare READs.
//! * [`raw`]: bare READs, beside a plain echo (TCP) or plain loads (shared memory) of the same
//!   bytes.
//! * [`simulated`]: operations in any index behind a simulated NIC, which these stand on.
//!
//! Figures in virtual time are the same in every run of the same seed.

#![forbid(unsafe_code)]

pub mod advise;
mod answers;
pub mod calibrate;
mod error;
pub mod find_or_put;
mod keys;
pub mod lookup;
mod median;
pub mod memory_limit;
mod polled_stream;
pub mod process;
pub mod raw;
mod report;
pub mod simulated;
pub mod threads;

pub use answers::Answers;
pub use error::{BenchError, Result};
pub use farslot::fabric::sim::NicProfile;
pub use farslot::model::Objective;
pub use farslot::nic_profile;
pub use keys::Keys;
pub use median::median;
pub use polled_stream::PolledStream;
pub use report::{BenchReport, BenchRow};

/// Is told, in words, what a measurement is at.
pub type Progress<'p> = &'p (dyn Fn(&str) + Sync);
