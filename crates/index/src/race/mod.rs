//! RACE hashing: a table that any number of clients write to and nobody owns, which grows while
//! they do.
//!
//! **What it is for.** Tables whose size nobody knows beforehand, and whose slots of removed keys
//! must serve other keys: what the linear table cannot do. A key has two places, each a bucket and
//! the one that it overflows into, side by side, so that two READs in one batch fetch all slots
//! that it can be in; the records are out of band. Buckets of 8 slots fill to 0.9 and more before a
//! key finds no room. Then its subtable is split in two, by the client that needs the room, and the
//! others go on.
//!
//! **Promises.** Any number of clients may read and write. `get`, `put`, `find_or_put`, `update`
//! and `remove` are linearizable, during splits too; keys are unique. Nobody ever waits for another
//! client, and one that dies between any two verbs leaves nothing that holds others up: a split
//! that it has begun is gone on with by whoever needs it, and an insertion that it has begun is a
//! slot without a record, which is taken back when somebody wants the slot or the key ([`Survey`]
//! counts both). A table that can grow no further says so, and goes on serving; so does one whose
//! heap is full. Clients without the right to write look keys up and scan, in the middle of a split
//! too. `scan` meets a key that is present all along once, however often it moves.
//!
//! **What operations cost**, in round trips and verbs, where no other key has the tag of this one
//! and nobody is in the way (paper 001's table I: 32 slots read; lookup 1 round trip, update and
//! removal 2, with records in the slots):
//!
//! ```text
//! get, a miss           1    2 READs of buckets
//! get, a hit            2    and 1 of the record
//! put of a new key      3    2 READs of buckets, WRITE of the record
//!                            compare-and-swap, 2 READs of buckets
//!                            compare-and-swap
//! put, update           3    2 READs of buckets, WRITE of the record
//!                            READ of the old record
//!                            compare-and-swap
//! remove                3    2 READs of buckets; READ of the record; compare-and-swap
//! find_or_put           2    as a hit, or 3 as the put of a new key, with the WRITE in the second
//!                            batch
//! after a split        +2    READ of the directory's new entries, and of the key's buckets again
//! put, and no room     +8    the directory's entry; the key's slots are migrated, the others
//!                            later
//! ```
//! With `n` slots in use among its 4d, a lookup reads the records of `n`/256 other keys in vain:
//! one in nine lookups does at load 0.9 with 8 slots a bucket. They are read side by side with its
//! own.
//!
//! **Bytes.**
//!
//! ```text
//! 0          used slots | entries | ... | heap: mark | ticks | openings | evicted records
//! 4096       directory: split 0 | split 1 | ...         8 bytes each, to a multiple of 64
//!            subtable 0 | subtable 1 | ...              those to come are not touched yet
//!            heap: the words of its pages | the pages, which have the records
//! subtable   group 0 | group 1 | ...
//! group      main bucket | overflow bucket | main bucket
//!            '---- one READ -----'---- or the other ---'
//! bucket     slot 0 | ... | slot d-1                    8 bytes each
//! slot       state, 2 bits | depth, 5 | tag, 8 | block's class, 6 | generation, 11 | granule, 32
//! split      1 | finished, 1 bit | depth before, 5 | 0 | parent, 32
//! ```
//! *States.* Empty; **begun**, an insertion that no lookup sees yet; **live**; **moving**, in a
//! split. All changes are compare-and-swaps of a slot's word by whoever has read it. The record
//! that a word names never changes while one does: it has a checksum, and the generation of its
//! block's use, so that who comes late reads again. As in all tables with a heap, a word can come
//! back only when its block has had 2^11 other uses.
//!
//! *Depth instead of headers.* RACE gives each bucket a header with the local depth and the suffix
//! of its subtable, from which a client sees that its directory is out of date. A READ may be torn,
//! and have the header from before a split and the slots from after it. So here each slot has the
//! depth itself, empty ones included: a word of a greater depth than the directory's has the client
//! read the directory on, and a swap that expects a word of the old depth fails. Buckets have the
//! header's room for slots.
//!
//! **Why no key is there twice.** RACE inserts by one swap and looks for duplicates afterwards. If
//! two clients insert a key in two slots, the one that takes its own out again may have been read
//! meanwhile, or the one that stays may be the older of two acknowledged values: that is not
//! linearizable. Here an insertion is begun by one swap, and made live by another after a look at
//! the key's slots, which costs the same three round trips since the look leaves with the first
//! swap; the `insert` module says why then at most one becomes live. So a key that is present has
//! one live slot, that slot is its own until it is removed, and:
//!
//! * an insertion takes effect with its second swap, an update and a removal with theirs;
//! * a lookup that hits does so when the slot's word was read; one that misses has read each of the
//!   key's slots at some moment without its record, and was the key present at all of them, it
//!   would have been in one;
//! * a split moves a record to the same slot of another subtable. It counts in the old one until
//!   the new one has it, and readers that find the new slot not yet filled look at the old one,
//!   then at the new one again.
//!
//! **When things fail.** [`Full`](crate::IndexError::Full): no slot for a new key, and no subtable
//! left to split into. [`HeapFull`](crate::IndexError::HeapFull): no room for the record.
//! [`Contended`]( crate::IndexError::Contended) and [`Unreadable`](crate::IndexError::Unreadable):
//! others were faster 1,000 times, or a record was not whole 100 times, with ever longer pauses
//! in between. [`BadDirectory`](crate::IndexError::BadDirectory): the memory was written by
//! something else.
//!
//! Sources: paper 001, which compares itself with it (sections II and V), and the paper that it
//! cites for RACE (Zuo et al., "RACE: One-sided RDMA-conscious extendible hashing", ACM
//! Transactions on Storage 18(2), 2022): groups of three buckets, combined buckets, extendible
//! directory. Not in them: begun insertions, depths in slots, splits that everybody goes on with,
//! the directory as a list of splits.

mod buckets;
mod client;
mod directory;
mod fast_path;
mod insert;
mod layout;
mod lookup;
mod room;
mod scan;
mod scheme;
mod search;
mod seen;
mod split;
mod survey;
mod view;
mod word;
mod write;

pub use client::{RaceTable, RaceWork};
pub use layout::{RaceLayout, RaceOptions, SMALLEST_SEGMENT};
pub use survey::Survey;
