//! Designs that paper 001 compares CuckooDuo with, over the same verbs and counters: [`map_embed`]
//! and [`tea`].
//!
//! **What it is for.** Comparisons. RACE, a design for many writers, is an index of its own.
//!
//! **Promises.** Unique keys. One client a table, which made it, and any number of its coroutines.
//! All of its single-key operations are linearizable: an operation holds the buckets that its key
//! may be in, and one that has to make room holds all of them. An insertion that fails for want of
//! room changes nothing. Of a batch of writes that failed, or whose operation was dropped, the next
//! operation writes again what may be missing before it does anything else. `scan` meets every key
//! while no insertion moves others.
//!
//! **What it does not promise.** What the designs keep in the client's memory, the cells and the
//! stash, is kept nowhere else: when the client ends, nobody can read the table any more. That is
//! as published.
//!
//! **The bytes, and who may write them.** Only the client. Buckets of d slots lie one after the
//! other behind a header of counts:
//!
//! ```text
//! 0        used slots | entries | ...
//! 4096     bucket 0: d slots | bucket 1 | ...
//! slot     | checksum, 32 bits | key length, 16: 0 if free | value length, 16 |
//!          | key bytes | value bytes |
//! ```
//!
//! **Rooms.** `operations.rs` has the operations, `board.rs` the buckets of an insertion that makes
//! room, as it has read and would leave them; what differs between the designs is behind [`Homes`]
//! and [`RoomPlanner`].
//!
//! Source: paper 001, sections II-B and V, Table I; the numbers that it does not give, from its
//! published code.

mod board;
mod cleaning;
mod client;
mod counts;
mod facade;
mod growth;
mod homes;
mod layout;
pub mod map_embed;
mod operations;
mod placing;
mod slots;
pub mod tea;
mod waiting;

pub use board::BucketBoard;
pub use client::{BaselineTable, InsertionWork};
pub use growth::{CleaningMode, CopyPace};
pub use homes::{BucketWindow, Homes};
pub use layout::{BaselineLayout, BaselineOptions};
pub use placing::RoomPlanner;
pub use slots::Record;
