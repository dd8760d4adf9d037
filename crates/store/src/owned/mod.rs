//! Tables that the owner of the memory writes, by calls, and everybody reads (paper 003): chained
//! tables and ordered maps. They take part in transactions.
//!
//! An iteration over an ordered map meets each key once that is there all along. One over a chained
//! table meets it at least once: if the table grows meanwhile, buckets that were met are split, and
//! a key that goes to a new one is met again there.
//!
//! `layout.rs` says how large they are, and `table.rs` is a client of one. What they are made of is
//! in the crates `farslot-remote` and `farslot-txn`.

pub(crate) mod layout;
pub(crate) mod table;

pub use layout::{ChainedLayout, OrderedLayout};
