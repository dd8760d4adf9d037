//! RACE tables: maps, costs, growth, histories under faults, and clients that stop in the middle of
//! a split.

mod counts;
mod growth;
mod linearizable;
mod model_map;
mod stopped_clients;
