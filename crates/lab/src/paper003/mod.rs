//! Paper 003: Storm and what it was compared with, emulated verb by verb in the simulator.
//!
//! A system is what verbs its operations take ([`systems`]); a cluster is the simulator's NICs with
//! as many connections as the paper's machines had ([`cluster`]). Few numbers are fitted
//! ([`fits`]), each on one figure of the paper; all others follow.

mod cluster;
mod common;
pub(crate) mod fig1;
pub(crate) mod fig4;
pub(crate) mod fig5;
pub(crate) mod fig6;
pub(crate) mod fig7;
mod fits;
mod hopscotch;
mod lookups;
mod mix;
mod pair;
pub(crate) mod segments;
mod systems;
pub(crate) mod table5;
