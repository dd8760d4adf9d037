//! A bucket table with overflow chains (paper 003, section 5.5; derived from MICA's table).
//!
//! ```text
//! header    64 bytes: extra buckets | overflow used | free list | pressure | keys
//!           | newest version | 0 | 0
//! buckets   | stamp | depth, 8 bits; first of the chain, 32 | slot | slot | ..
//! overflow  | next of the chain | slot |
//! slot      | check | lock | version | lengths | key, padded | value, padded |
//! ```
//! A key is in one slot: inline in its bucket, or in the bucket's chain. Key, lock and version are
//! inline, so that one READ brings all that a reader or a transaction needs. A slot's *check* is
//! over its other words and its place; a bucket's *stamp* is over its second word and its slots'
//! checks. So a READ of a bucket whose checks and stamp fit was the bucket's content at one moment:
//! it proves that a key is there, and, if nothing is chained, that it is not. (In the paper a
//! lookup that does not find its key always calls.)
//!
//! Only the owner writes, by calls. A client goes by its idea of the number of buckets, which each
//! reply renews; a bucket's depth says which keys it is for, so that an old idea is noticed. The
//! table grows one bucket after the other, as linear hashing does: whenever lookups and changes had
//! to walk chains so many times ([`Shape::split_after`]), the next bucket is split, in its place
//! and with no copy of the others. Slots of buckets never become anything else, so that addresses
//! that clients remember are always those of slots.
//!
//! What a call does is bounded, whatever clients have written to the memory, and whichever keys
//! they have chosen: a chain has 256 entries at most, and a key that finds no room has a few
//! buckets split for it and is refused then.
//!
//! A slot may be locked, for transactions: by [`Chained::lock`], under a [`Lock`](crate::Lock) that
//! names owner and epoch. A key that is absent is locked by a slot that is *reserved*: lookups do
//! not find it. Every release is conditional on the lock.
//!
//! Memory of zeros is an empty table.

mod cache;
mod change;
mod client;
mod held;
mod item;
mod layout;
mod owner;
mod request;
mod split;
mod structure;
mod visit;
mod walk;
mod witness;

pub use cache::Cache;
pub use client::Chained;
pub use item::VersionedValue;
pub use layout::Shape;
pub use structure::Table;
pub use witness::{Observation, Witness};
