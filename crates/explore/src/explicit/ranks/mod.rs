//! Explicit exploration by several processes, *ranks*, that share a fabric.
//!
//! The ranks may share one table instead, paper 002's (`table.rs`); what follows is of rings.
//!
//! Each rank owns those states whose hash says so, in a set of its own, and expands those of each
//! level. Of the successors it keeps its own and sends the others to their owners: into a ring in
//! the owner's memory, by one-sided verbs ([`Exchange`]). An owner finds or inserts what comes in;
//! what was new is its part of the next level. So every state is in one rank's level, once, and
//! each rank's set grows by itself.
//!
//! **Termination.** A rank that has expanded its part of level d, and sent all, sends each other
//! rank an *end*, with the number of states that it has sent to it in this level; frames of a ring
//! are taken in the order in which they were put. A rank that has the ends of all others has all
//! states of level d + 1 that are its own: all who could send one have ended. It checks the numbers
//! against what came. Then the ranks give each other their sums, the numbers of new states among
//! them. Each rank waits for the sums of all others, so that all see the same: if no rank has a new
//! state, all sets together hold the successors of all of their states, and all ranks end. A rank
//! takes no frame of another behind its end before it has the ends of all, so that levels do not
//! mix.
//!
//! No rank waits for ever on others that live: one whose frame finds no room takes in what has come
//! for it before it tries again, up to the ends. Of ranks that wait, look at one in the earliest
//! phase: those it waits for have ended this phase or wait for room in a ring that belongs to a
//! rank which takes in.
//!
//! **Failures.** A rank that cannot go on (memory, a state without room) sends no more states, but
//! its end and its sums, and all ranks return an error at the level's end. A rank whose process has
//! ended takes its states with it: whoever sends to it, or has waited for it for a while, gets the
//! fabric's error ([`RankError::Fabric`](crate::error::RankError::Fabric)), and the exploration is
//! void. In the simulator's terms: lost, late and torn verbs change no number.

mod intake;
mod journals;
mod net;
mod owner;
mod rank;
mod ring;
mod search;
mod simulated;
mod sums;
mod table;
mod team;
mod trace;

pub use farslot_fabric::sim::FaultPlan;
pub use journals::join_journals;
pub use net::{explore_net_rank, rings_for_net};
pub use ring::{Exchange, OwnMemory, RingShape};
pub use search::{Exploring, explore_rank};
pub use simulated::simulate;
pub use table::{PartMemory, SharedTableMemory, TableShape};
pub use team::{RankFabric, Team};
