//! RACE tables: maps, costs, growth, histories under faults, and clients that stop in the middle of a split.

#![cfg(not(feature = "broken-insert"))]

#[path = "../common/mod.rs"]
mod common;
mod counts;
mod growth;
mod linearizable;
mod model_map;
mod stopped_clients;
