//! Remote hash-table designs, each written once over the verbs of `farslot-fabric`.
//!
//! An index is three decisions: where a key may live (its *layout*), what a client knows before it
//! asks (its *client state*), and how many bytes in how many messages the next step moves (the
//! *model*). No index knows which fabric is under it. All of them answer to [`Index`], which is
//! written once over what a scheme does for a key ([`SchemeClient`]).
//!
//! * [`linear`]: open addressing with linear probing, many writers, no locks (papers 000 and 002).
//! * [`cuckoo`]: bucketed cuckoo hashing, one writer, many readers (paper 000).
//! * [`duo`]: two bucket arrays under an index of fingerprints that one owner keeps (paper 001).
//! * [`race`]: extendible hashing that every client splits and nobody owns; it grows online (paper
//!   001).
//! * [`sealed`]: linear probing, built whole and never changed (paper 000's pre-generated tables).
//! * [`heap`]: records out of band, for every design whose slots are too small for them.
//! * [`cache`]: answers that a client keeps, over every design.
//! * [`cluster_hints`]: what a client remembers of clusters, for every design with linear probing.

#![forbid(unsafe_code)]

mod answers;
pub mod cache;
mod client;
mod closed_sets;
pub mod cluster_hints;
pub mod cuckoo;
pub mod duo;
mod error;
pub mod hash;
pub mod heap;
mod index;
#[doc(hidden)]
pub mod internals;
pub mod linear;
mod operation;
pub mod race;
mod read_policy;
mod record_locations;
mod scheme;
pub mod sealed;
mod sizing;
mod slot;
mod step;
mod survey;
mod table_map;
mod value;
mod writer_note;

pub use answers::{Answers, Got, KeptAnswers, Outcomes, SmallAnswers};
pub use client::BucketCounts;
pub use error::{FieldSize, IndexError, Result};
pub use hash::Hasher;
pub use index::{
    Admin, AdminOutcome, AnyIndex, AtOnce, BoxFuture, CacheCounts, ClientState, Index, IndexExt,
    QueueRequest, Record, Waits, WriterChange,
};
pub use operation::{
    BATCH_WIDTH, Cursor, FIND_OR_PUT, GET, GET_ALL, OPERATIONS, Occupancy, Operation, Outcome, PUT,
    REMOVE, SCAN, UPDATE, UPKEEP,
};
pub use scheme::{SchemeClient, SchemeKind, run_side_by_side};
pub use sizing::Sizing;
pub use slot::{KeyRule, SlotKind};
pub use survey::Survey;
pub use table_map::HEAP_HEADER_AT as HEAP_MARK_AT;
pub use value::Value;
