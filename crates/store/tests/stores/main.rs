//! Stores whose fabric matters to the test, each in one process: one test program, for each would
//! link the whole store.

mod caches;
mod callers;
mod calls;
mod catalog;
mod cleared;
mod cuckoo;
mod damage;
#[path = "../common/damaged.rs"]
mod damaged;
mod default;
mod duo_threads;
mod ended;
mod evicting;
mod expiry;
mod grants;
mod kept;
mod kept_calls;
mod kept_turns;
mod no_room;
mod pool;
mod prefixes;
#[path = "../../../fabric/tests/common/raw.rs"]
#[allow(dead_code, reason = "not every program that has it uses all of it")]
mod raw;
mod reserve;
mod several_nodes;
mod several_nodes_model;
mod slow_link;
mod snapshots;
mod taken_over;
mod told;
mod traces;
mod turns;
