//! Sets: paper 002's table in the memory of a store. Elements are found or put by `farslot_set`;
//! what is here says where a set lies, what keys and values are to it, and what a table of a store
//! asks of it.
//!
//! ```text
//! a set's bytes, in words (farslot_set::Layout of one rank):
//!   +-------+-------+----------+-----------+---------------------------------+
//!   | taken | count | not used | buckets   | elements, unless buckets hold   |
//!   +-------+-------+----------+-----------+ them: value | key              |
//!                                          +---------------------------------+
//! ```
//! Keys of at most 63 bits without values are their buckets: one compare-and-swap inserts one. All
//! others lie beside the buckets, each whole before its bucket is swapped in. A value of a variable
//! size has its length in front, and the room of the longest; a key of a variable size has the room
//! that it needs. Any number of clients write. Nothing is ever replaced or removed, so that all who
//! put a key compete for the same bucket.

pub(crate) mod layout;
#[cfg(test)]
mod schedule_tests;
pub(crate) mod table;

pub use layout::SetLayout;
