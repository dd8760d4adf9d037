//! The tables for comparison: maps, their costs, and their histories under faults.

#[path = "../common/mod.rs"]
mod common;
mod counts;
mod linearizable;
mod model_map;
