//! Tables that the owner of the memory writes, by calls, and everybody reads (paper 003): chained
//! tables and ordered maps, which take part in transactions, and queues, which do not.
//!
//! An iteration over an ordered map meets each key once that is there all along. One over a chained
//! table meets it at least once: if the table grows meanwhile, buckets that were met are split, and
//! a key that goes to a new one is met again there.
//!
//! `layout.rs` says how large they are; `table.rs` is a client of one that has keys, `queue.rs` of
//! a queue. What they are made of is in the crates `farslot-remote` and `farslot-txn`.

pub(crate) mod layout;
pub(crate) mod queue;
pub(crate) mod table;

pub use layout::{ChainedLayout, OrderedLayout, QueueLayout};
