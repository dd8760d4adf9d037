//! Paper 004's figures, counted and timed, and what lies beyond them: one module each.

pub(crate) mod local_insertion;
pub(crate) mod local_rates;
pub(crate) mod loop_ratio;
pub(crate) mod remote_insertion;
pub(crate) mod several_ways;
