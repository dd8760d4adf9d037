//! Records out of band: blocks of remote memory that hold one key and its value each.
//!
//! For records that are too long or too varied for a slot. An index slot names a block by a
//! [`BlockRef`]; a block is written whole before any slot names it and never changes while one
//! does. Many clients allocate and free; a block belongs to one client until an index publishes it.
//!
//! A heap is a log (RAMCloud, FAST 2014): records are appended to runs of pages, of any sizes at
//! any time, and memory comes back by whole runs, when all in them is dead or what lives was moved
//! out (`cleaner`); of records that end by themselves, when their time is over (`ends`). A client
//! that flushes gives back what it holds unused. One that dies leaves behind the runs that it
//! appends to, a few of each purpose; others find that when the heap is full.
//!
//! A reader may come late: the block that its slot named has been freed and holds another record by
//! then. Each use of a page therefore has a generation, in the slot and in the record, and the
//! record has a checksum; a reader that finds either wrong reads the slot again.
//!
//! ```text
//! record   | checksum, 32 bits | generation, 11 bits of 16 | 0, 15 | was read, 1 |
//!          | key length, 32 | value length, 32 |
//!          | key bytes | value bytes | to a multiple of 16 bytes |
//! ```

mod cleaner;
mod client;
mod coroutine_lock;
mod dead;
mod draft;
mod ends;
mod eviction;
mod layout;
mod opening;
mod pages;
mod plan;
mod relocation;
mod runs;
mod scan;
mod seen;
mod segments;
mod standing;
mod uncounted;
mod uniform;

pub use client::Heap;
pub(crate) use client::HeapUse;
pub(crate) use draft::Draft;
pub use layout::{
    BlockRef, GRANULE, HeapPlace, LARGEST_HEAP, LARGEST_RECORD, Record, block_bytes, class_for,
    encode, record_block_bytes, record_bytes,
};
pub(crate) use layout::{NewRecord, RecordView, bytes_by_lengths, generation_by_head, seal};
pub(crate) use relocation::TableWrite;
pub use relocation::{Relocate, Relocation};
pub(crate) use runs::{Purpose, holds};
pub use segments::Withdrawal;
pub use standing::Evicting;
pub(crate) use uniform::{BLOCKS_AT_A_TIME, UniformBlocks};
