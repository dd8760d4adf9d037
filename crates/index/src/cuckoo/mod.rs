//! Bucketed cuckoo hashing: a key is in one of a few buckets, whatever the load factor.
//!
//! **What it is for.** Tables that are nearly full, and links without bandwidth to spare: a lookup
//! reads 2 to 4 small buckets and nothing else, up to load factors of 0.95 and more (paper 000,
//! sections 2.2 and 4.5). The price is messages: where the NIC's message rate is the limit, the
//! linear table is faster up to 0.9 and, with unique keys, above.
//!
//! **Promises.** One writer at a time, any number of readers on any machine. `get`, `put`,
//! `find_or_put`, `update` and `remove` are linearizable. A key that an insertion displaces is always
//! in at least one of its places. A client becomes the writer at its first write; another is told
//! [`WriterBusy`](crate::IndexError::WriterBusy) and may [take over](CuckooTable::take_over) from a
//! writer that is known to be dead, which leaves nothing to repair: at most a key stands twice, until
//! it is next written. A full table says so and goes on serving. Tables with several records of a key are [built](CuckooTable::build) whole and sealed.
//! `scan` meets every key while no insertion displaces others: once, or twice where it stands twice.
//!
//! **How a reader is not misled.** It reads its key's buckets one after the other or side by side,
//! and an insertion may carry the key from a bucket that is not read yet to one that has been. So
//! every displacement counts in one word, between the copy and the overwriting of the original; a
//! reader that has found nothing looks whether that word is what it was before, and reads again if
//! not. Hits need no such look, and sealed tables never do.
//!
//! **Who may write what.**
//!
//! ```text
//! 0     used slots | entries | heap ... | tickets | writer | moves | sealed
//! 4096  bucket 0 | bucket 1 | ...           a bucket is 1 to 8 slots, side by side
//! slot  Word    | live, 1 bit | key and value, together 63 bits ^ mask |
//!       Inline  | head | key bytes | value bytes |        the head has a checksum of the rest
//!       Heap    | head |                                  the record is out of band
//! ```
//! Only the writer changes slots, each by a compare-and-swap of its first word, which publishes the
//! bytes written before it; before the bytes of a slot in use are overwritten, its first word is 0. An
//! insertion with all its displacements is one batch of verbs: what of it takes effect is its first
//! part, wherever the writer or the fabric stops. Heads are those of the linear table.
//!
//! A client draws a ticket once, its mark, and is the writer while the writer's word has it. That word
//! is not looked at by every write: a writer that was deposed while it lives can do harm.
//!
//! Sources: paper 000, sections 2.2, 4.1 and 4.5 (layouts; lookups sequential and parallel). Insertion
//! from the client, breadth first, and readers beside it are not in it.

mod build;
mod client;
mod facade;
mod insert;
mod layout;
mod locks;
mod lookup;
mod path;
mod remove;
mod scan;
mod survey;
mod writer;

pub use client::CuckooTable;
pub use layout::{CuckooLayout, CuckooOptions};
pub use lookup::LookupOrder;
pub use survey::Survey;
