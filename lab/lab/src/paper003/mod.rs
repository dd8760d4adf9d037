//! Paper 003: Storm by the product's tables, calls and transactions, and what it was compared with
//! verb by verb, in the simulator.
//!
//! Storm's lookups are those of chained tables ([`tables`]), its TATP that of transactions over
//! them. Of another system there are the verbs of its operations ([`verbs`]). A cluster is the
//! simulator's NICs with as many connections as the paper's machines had
//! ([`cluster`](crate::cluster)). Few numbers are fitted ([`fits`]), each on one figure of the
//! paper; all others follow.

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
mod tables;
mod verbs;
