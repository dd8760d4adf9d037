//! Paper 002: find-or-put over the memory of many processes, in the simulator.

mod das5;
pub(crate) mod latency;
pub(crate) mod throughput;
