//! One module a command: its options, and what it does.

pub mod advise;
pub mod bench;
pub mod cache_args;
pub mod calibrate;
pub mod count;
pub mod create;
pub mod del;
pub mod demo;
pub mod dump;
pub mod explore;
pub mod get;
pub mod load;
pub mod nodes;
pub mod put;
pub mod repro;
pub mod serve;
pub mod stat;
mod table_args;
pub mod take_over;
