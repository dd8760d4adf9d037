//! The program as its users run it: real processes, on one machine. All of it is one test program,
//! for each would link the store.

mod admission;
mod advice;
#[path = "../../../fabric/tests/common/authority.rs"]
mod authority;
mod bench;
#[path = "../common/mod.rs"]
mod common;
mod configuration;
mod cuckoo;
mod demo;
mod documents;
mod duo;
mod explore;
mod failures;
mod grants;
mod inputs;
mod kept;
mod lifetimes;
mod mended;
mod metrics;
mod nodes;
mod owned;
mod packaging;
mod phases;
mod processes;
mod queues;
mod race;
#[path = "../../../fabric/tests/common/raw.rs"]
mod raw;
mod redis;
mod round_trips;
mod sealed;
mod sets;
mod siege;
mod snapshots;
mod tcp;
mod tls;
#[path = "../../../fabric/tests/common/tls_stream.rs"]
mod tls_stream;
mod variables;
mod verbs;
