//! State-space exploration over find-or-put: what paper 002's table was made for.
//!
//! - [`explicit`]: every reachable state is visited once, breadth first, by threads that share one
//!   set ([`farslot_set`]): states, transitions, deadlocks, depth, and a shortest way to a state
//!   that violates an invariant. Complete levels can be kept in a journal, from which a killed
//!   exploration goes on.
//! - [`symbolic`]: sets of markings as decision diagrams whose unique table is find-or-put; for
//!   numbers of markings that nothing could visit one by one.
//!
//! What is explored is a [`model::Model`]: a [`net::Net`], packed by [`packed::PackedNet`], mostly
//! read from [PNML](pnml), or a type in Rust, as those of [`models`].
//!
//! ```
//! use farslot_explore::explicit::{Options, Progress, explore};
//! use farslot_explore::models::Puzzle;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let found = explore(&Puzzle::new(2, 3)?, &Options::default(), None, &Progress::default())?;
//! assert_eq!((found.states, found.depth), (360, 21));
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod error;
mod exclusive;
pub mod explicit;
pub mod formula;
mod growth;
mod mapped;
pub mod model;
pub mod models;
pub mod net;
pub mod order;
pub mod packed;
pub mod pnml;
pub mod report;
mod sample;
mod split;
pub mod symbolic;
mod terms;
mod variables;

pub use error::{ExploreError, RankError, TokenLimit};
pub use terms::Terms;

/// Bytes of this machine's memory.
#[must_use]
pub fn machine_memory() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram as u64 * u64::from(info.mem_unit.max(1))
}
