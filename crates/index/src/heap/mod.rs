//! Records out of band: blocks of remote memory that hold one key and its value each.
//!
//! For records that are too long or too varied for a slot. An index slot names a block by a
//! [`BlockRef`]; a block is written whole before any slot names it and never changes while one
//! does. Many clients allocate and free; a block belongs to one client until an index publishes it.
//! A client that flushes gives back what it holds unused. One that dies leaves behind an extent and
//! free blocks, each at most 1/64 of the heap and 1 MiB, and the blocks of its last operations;
//! others find that when the heap is full (`sweep`).
//!
//! A reader may come late: the block that its slot named has been freed and holds another record by
//! then. Each use of a block therefore has a generation, in the slot and in the record, and the
//! record has a checksum; a reader that finds either wrong reads the slot again.
//!
//! ```text
//! record   | checksum, 32 bits | generation, 11 bits of 16 | 0 | key length, 32 | value length, 32 |
//!          | key bytes | value bytes |
//! free     | next free block, in granules, 34 bits | generation, 11 bits | 0 |
//! ```

mod allocator;
mod draft;
mod hold;
mod layout;
mod mark;
mod stacks;
mod sweep;
mod turn;

pub use allocator::Heap;
pub(crate) use draft::Draft;
pub use layout::{
    BlockRef, GRANULE, HEADER_BYTES, HeapPlace, LARGEST_HEAP, LARGEST_RECORD, Record, block_bytes,
    class_for, encode, record_bytes,
};
pub(crate) use layout::{NewRecord, RecordView, bytes_by_lengths, seal};
pub(crate) use mark::Held;
pub(crate) use mark::{Epoch, HeapMark};
pub(crate) use sweep::NamedBlocks;
