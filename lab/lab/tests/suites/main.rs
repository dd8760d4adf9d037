//! The laboratory, small: one test program, for each would link the store.

mod baseline;
#[path = "../../../../crates/index/tests/common/mod.rs"]
mod common;
mod growth;
mod program;
mod program_explore_compare;
mod program_find_or_put;
mod program_maps;
mod program_repro;
mod program_tasks;
mod program_transactions;
mod program_ycsb;
mod repro;
mod ycsb;
