//! What the programs `farslot` and `farslot-lab` share: the options for a store's address, settings
//! from files and the environment, output, failures, and the memory nodes that they start.

#![forbid(unsafe_code)]

pub mod access_arg;
pub mod bench_report;
pub mod cache_args;
pub mod choice;
pub mod context;
pub mod failure;
pub mod find_or_put_args;
pub mod memory_node;
pub mod number;
pub mod output;
pub mod program;
pub mod serve_signal;
pub mod settings;
