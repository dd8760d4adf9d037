//! The tables for comparison: maps, their costs, and their histories under faults.

mod counts;
mod linearizable;
mod model_map;
