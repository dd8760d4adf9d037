//! Remote data structures: against plain models, under the simulator's faults, and over every fabric.

mod chained_faults;
mod chained_model;
mod local;
mod ordered;
mod queue;
mod sim;
