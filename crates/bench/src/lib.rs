//! Measurements: workloads, the limits that they are held against, and the papers' tables beside ours.
//!
//! Everything here uses the public API only, returns typed reports, and prints nothing:
//!
//! * [`advise`]: which scheme suits a workload, by the model, and whether the simulator agrees.
//! * [`calibrate`]: what a fabric costs, as a NIC profile for the model and the simulator.
//! * [`repro`]: tables and figures of the papers, ours beside theirs.
//! * [`lookup_sim`]: lookup rates behind a simulated NIC, in virtual time, beside the rate of bare READs.
//! * [`lookup_served`]: lookup rates over shared memory, beside what the memory itself gives
//!   ([`memory_limit`]), or over TCP, beside bare READs.
//! * [`raw`]: bare READs, beside a plain echo (TCP) or plain loads (shared memory) of the same bytes.
//! * [`ycsb`]: the workloads of YCSB's core, beside other stores.
//! * [`schemes_shm`]: the schemes side by side over shared memory.
//! * [`duo_shm`]: CuckooDuo nearly full beside a linear table, over shared memory.
//! * [`simulated`]: lookups in any index behind a simulated NIC, which these stand on.
//!
//! Figures in virtual time are the same in every run of the same seed.

#![forbid(unsafe_code)]

pub mod advise;
mod answers;
pub mod calibrate;
pub mod duo_shm;
mod error;
mod gets;
mod keys;
mod lookup_scheme;
pub mod lookup_served;
pub mod lookup_sim;
mod median;
pub mod memory_limit;
mod paper000;
mod paper001;
pub mod process;
pub mod raw;
mod report;
pub mod repro;
pub mod schemes_shm;
pub mod simulated;
mod threads;
pub mod ycsb;

pub use error::{BenchError, Result};
pub use keys::Keys;
pub use lookup_scheme::LookupScheme;
pub use report::{Axis, BenchReport, BenchRow, Line, Plot, ReproReport, ReproRow, Source};

/// Is told, in words, what a measurement is at.
pub type Progress<'p> = &'p (dyn Fn(&str) + Sync);
