//! State-space exploration over find-or-put.
#![forbid(unsafe_code)]

mod error;
pub mod explicit;
pub mod formula;
pub mod model;
pub mod models;
pub mod net;
pub mod order;
pub mod packed;
pub mod pnml;
pub mod report;
pub mod symbolic;

pub use error::ExploreError;

/// Bytes of this machine's memory.
#[must_use]
pub fn machine_memory() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram as u64 * u64::from(info.mem_unit.max(1))
}
