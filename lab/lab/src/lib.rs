//! The laboratory: what the papers have measured and we measure again, and what Farslot is compared
//! with.
//!
//! Nothing here is part of the product. Everything uses the public API of `farslot` and of
//! `farslot-bench`, and returns typed reports:
//!
//! * [`repro`]: tables and figures of the papers, ours beside theirs; a folder for each paper.
//! * [`ycsb`]: the workloads of YCSB's core, beside other stores.
//! * [`transactions`]: TATP, SmallBank, and YCSB in transactions, beside other stores.
//! * [`baseline`]: MapEmbed and TEA, the designs that paper 001 compares CuckooDuo with.
//! * [`explore_compare`]: our state-space explorer beside Spin and Stateright.
//! * [`program`]: the program `farslot-lab`, which prints and draws these reports.
//!
//! Figures in virtual time are the same in every run of the same seed.

#![forbid(unsafe_code)]

pub mod baseline;
mod cluster;
mod error;
pub mod explore_compare;
mod find_or_put;
mod maps;
mod paper000;
mod paper001;
mod paper002;
mod paper003;
mod paper004;
pub mod program;
mod report;
pub mod repro;
mod scale;
mod stats;
mod tasks;
mod threads;
pub mod transactions;
pub mod ycsb;

pub use error::{LabError, Result};
pub use report::{Axis, Basis, Line, Plot, ReproReport, ReproRow, Source};

use farslot::fabric::Limits;
use farslot_bench::Progress;

/// The limits of a measurement's clients: on a machine that others keep busy it is slow, and does
/// not fail.
fn patient() -> Limits {
    Limits {
        verb_timeout: 20_000_000_000,
        ..Limits::default()
    }
}
