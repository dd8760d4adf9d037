//! CuckooDuo: an index of fingerprints in the owner's memory says which one slot a lookup reads.
//!
//! **What it is for.** Tables that one client owns and that shall be nearly full, with few messages and few bytes: a
//! lookup reads exactly one slot in one round trip, whatever the load factor, and absent keys
//! are known without asking, but for a share of 2d/2^f. The price is local memory, f bits a slot and half
//! a bit more (16.5 bits with f = 16). Others can look keys up as well, with a copy of that index, if the table is
//! made [for readers](DuoOptions::readers): see [`DuoReader`].
//!
//! **Promises.** Unique keys. One owner at a time: the client that first asks the table for anything
//! becomes the owner, and any other is told [`WriterBusy`](crate::IndexError::WriterBusy) until the
//! owner [resigns](DuoTable::resign), or another [takes over](DuoTable::take_over) from one
//! that is known to be dead. The owner may be several threads of a process, each with an endpoint of its own
//! ([`DuoOwner`]). All single-key operations of the owner's threads and coroutines are linearizable, also from
//! one owner to the next: what was acknowledged is never lost, what was in doubt took effect
//! or did not, and a removed key does not come back. `scan` meets every key while no insertion moves
//! others, and nothing brings keys back from the stash; a [reader's](DuoReader::scan) as well. All of this holds while
//! the table [grows](DuoTable::with_growth), too, and what readers are [promised](ReaderPromise): as a whole, by a ratio, or
//! if it is [extendible](DuoOptions::extendible) a sub-table at a time.
//!
//! | operation | round trips | slots read and written |
//! |---|---|---|
//! | lookup, found | 1 | 1 |
//! | lookup, absent | 0, or 1 with a share of 2d/2^f | 0 |
//! | insertion | 1; 2 if both buckets are full, or a fingerprint collides | 1; 1 + 2 for each record moved |
//! | update, `put` of a key that is there | 2; 1 [unverified](DuoTable::with_unverified_updates) | 3 (the second in the journal) |
//! | removal | 1; 2 if the index is published | a word |
//! | a reader's lookup, found | 1; 2 to 3 if its copy of the index is old | 1 |
//! | a reader's lookup, absent | 1; or 0 as of [a moment ago](ReaderPromise) | 0, and 2 pages |
//!
//! **Where keys go** is [`placement`]'s business, which knows no fabric. With 8 slots a bucket, f = 16 and at
//! most 3 moves the table is full at 0.99, below a load of 0.7 an insertion takes 1.0001 round trips on
//! average, at 0.9 it takes 1.1, and never more than 2. Keys that found no bucket wait in the stash, and move back when
//! a removal has made room for them (2 round trips more, of that removal).
//!
//! **The vault's bytes, and who may write them.** Only the owner.
//!
//! ```text
//! 0        used slots | entries | ... | owners there were | owner | whether there was one
//! 4096     first array: m buckets of d slots | second array | stash | journal
//!          by how much it has grown: extents elsewhere, see growth/mod.rs; sub-tables, see extendible/mod.rs
//!          the published index, if there is one (see `published.rs`)
//! slot     | head: 0 if dead, else live, 1 bit | hash of the key, 63 bits |
//!          | checksum, 32 bits | key length, 16 | value length, 16 |
//!          | key bytes | value bytes |    room for the longest
//! slot     | head | which block of the heap, 51 bits | checksum of that, 13 |    of a table with a heap
//! ```
//! A slot is filled by a WRITE of all but its head, and a compare-and-swap of the head, in one batch: the
//! head makes the rest live. A record is moved by filling another slot and then making its own dead. The
//! head says whose the slot is, so that one compare-and-swap removes a key without a READ;
//! the checksum, whether the rest is whole.
//!
//! **Records of any size** are in a heap, if the table is [made so](crate::SlotKind::Heap): a slot has 16 bytes then.
//! A lookup takes 2 READs, one after the other (with a fingerprint that collides, 2 more); an insertion what it takes
//! otherwise, and now and then more heap; an update 3 round trips (the slot, the record, the new record with a
//! swap), and no journal; a removal 1. What an owner that died had taken of the heap and not used stays taken.
//!
//! **The journal.** A record that is replaced is written to a slot of the journal first, then over the old
//! one, then the slot of the journal is made dead: three steps of one batch. A live slot of the journal
//! is the last word on its key.
//!
//! **Several threads** share the index, the locks of buckets, the journal and what is in doubt (`shared.rs`).
//!
//! **When things fail.** Of a batch, what takes effect is its first part. The slots of a batch that
//! failed, or whose operation was dropped, are in doubt, and nothing else is done until the owner has read them,
//! finished what was begun and set its index right (`doubts.rs`). A new owner does the same for the whole
//! vault (`rebuild.rs`): it reads all of it, takes the live slots into its index, removes the copy of a record
//! that was being moved, and finishes the updates in the journal. What a dead slot holds is
//! looked at by nobody.
//!
//! **Readers** hold a copy of the index that the owner publishes in the batches of its changes (`publish.rs`): a
//! word and a count more each insertion, and no round trip. A slot says by itself whether it is live,
//! whose and whole, so that a copy which is old is noticed (`reader/`), also where the table has grown meanwhile. A
//! word of four bytes a bucket is added to the memory of both.
//!
//! **Many lookups** run in lanes, without a future each (`lanes.rs`), if records are in their slots.
//!
//! Source: paper 001, sections III-A to III-C, and its supplement on threads, where lookups lock what they read. Readers,
//! backup fingerprints in any slot, the roomier bucket first,
//! the journal, owners that die, and what is in doubt are not in it; nor is a round trip for
//! a removal's look at the key, which the head makes unnecessary.

mod batch;
mod client;
mod doubts;
mod extendible;
mod growth;
mod insert;
mod journal;
mod lanes;
mod layout;
mod lookup;
mod owner;
pub mod placement;
mod publish;
mod published;
mod reader;
mod rebuild;
mod records;
mod remove;
mod scan;
mod scheme;
mod shared;
mod stash;
mod survey;
#[cfg(test)]
mod tests;
mod update;

pub use client::{DuoTable, Work};
pub use growth::{Cleaning, DuoGrowth, GrowthMemory};
pub use layout::{DuoLayout, DuoOptions};
pub use reader::{DuoReader, ReaderPromise};
pub use shared::DuoOwner;
pub use survey::Survey;
