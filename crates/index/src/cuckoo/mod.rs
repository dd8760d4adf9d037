//! Bucketed cuckoo hashing: a key is in one of a few buckets, whatever the load factor.
//!
//! **What it is for.** Tables that are nearly full, and links without bandwidth to spare: a lookup
//! reads 2 to 4 small buckets and nothing else, up to load factors of 0.95 and more (paper 000,
//! sections 2.2 and 4.5). The price is messages: where the NIC's message rate is the limit, the
//! linear table is faster up to 0.9 and, with unique keys, above.
//!
//! **Promises.** One writer at a time, any number of readers on any machine. `get`, `put`,
//! `find_or_put`, `update` and `remove` are linearizable. A key that an insertion displaces is
//! always in at least one of its places. A client becomes the writer at its first write; another is
//! told [`WriterBusy`](crate::IndexError::WriterBusy) and may [take over](CuckooTable::take_over)
//! from a writer that is known to be dead, which leaves nothing to repair: at most a key stands
//! twice, until it is next written. In mapped memory that is refused while the writer's process
//! runs, unless it is [forced](CuckooTable::force_take_over). A full table says so and goes on
//! serving. Tables with several records of a key are [built](CuckooTable::build) whole and sealed.
//! `scan` meets every key once while no insertion displaces others. A key that is displaced while
//! the scan runs may be met twice, or not at all; one that stands twice is met twice. A scan keeps
//! nothing from one piece to the next, so it cannot know which keys it has met. The counts of
//! displacements tell its caller ([`displacements`](CuckooTable::displacements)).
//!
//! **How a reader is not misled.** It reads its key's buckets one after the other or side by side,
//! and an insertion may carry the key from a bucket that is not read yet to one that has been. So
//! every displacement counts, between the copy and the overwriting of the original, in one of 64
//! words: that of the bucket that the key leaves. A reader that has found nothing looks whether the
//! counts of its buckets are what they were before, and reads again if not. It reads the seal with
//! them. Hits need no such look, and tables that are known to be sealed never do.
//!
//! **Who may write what.**
//!
//! ```text
//! 0            used slots | entries | heap ... | tickets | writer |
//!              which process the writer is, 4 words (writer_note.rs)
//! 3136         64 counts of displacements | sealed
//! 4096         bucket 0 | bucket 1 | ...      a bucket is 1 to 8 slots, side by side
//! slot         Word       | live, 1 bit | key and value, together 63 bits ^ mask |
//!              Inline     | head | key bytes | value bytes |
//!                           the head has a checksum of the rest, or says where the record is out
//!                           of band
//!              Heap       | head |                            the record is out of band
//! bucket       Signatures | 4 signatures, 8 bits each | use | heap bucket's number |   one word
//! heap bucket  record 0 | record 1 | record 2 | record 3   each in a region of the largest's size
//! ```
//! Only the writer changes slots, each by a compare-and-swap of the word that publishes it, behind
//! the bytes that it publishes: a slot's first word, or that of a Signatures bucket for its four.
//! Before the bytes of a slot in use are overwritten, its first word is 0, or its signature; or,
//! where the key stays and gets a new value, names that value out of band, and a second batch
//! writes the bytes and swaps the word again. So replacing values takes no memory, and a hit stays
//! one READ: only the slot of a writer that died between both batches keeps its record in the heap,
//! and so it does when that value is replaced. An insertion with all its displacements is one batch
//! of verbs: what of it takes effect is its first part, wherever the writer or the fabric stops. A
//! batch comes to no bucket twice, and each of its swaps expects the word that the one before it
//! left there. Heads are those of the linear table.
//!
//! **Signatures** (paper 000, figure 5). A lookup reads its buckets' words, and of the heap buckets
//! the regions whose signatures are the key's. A new value goes into a free position, and one swap
//! clears the old signature and sets the new; where no position is free, all four records go to
//! another heap bucket, and one swap names that. So a word is its whole bucket at one moment, for
//! as long as the regions that it names are what they were.
//!
//! *When is the word read again?* A region that was written since the word was read proves nothing:
//! its record may be torn, or whole and not published yet, or that of another bucket which has got
//! the heap bucket. So every record is stamped with a later use than that of the word at the time,
//! and the word that publishes it takes that use on. Who finds a wrong checksum or a later stamp
//! reads the word again. All else was there when the word was read: once a region is written again,
//! its stamp is later than every word that named what it held before.
//!
//! *When is a key absent?* When none of the records that a word names is the key's, it was not in
//! that bucket when the word was read. An update never takes it out for a moment, and displacements
//! are counted, as for all kinds. A key that was removed and came back at another place was absent
//! in between: during the lookup.
//!
//! Uses come round after 2^8 to 2^11 writes to a heap bucket, which is what its number leaves of 32
//! bits. Records that stay are copied to another heap bucket before they could look later than
//! their word. A reader that stops between its two READs while half a round or more goes by could
//! believe a record in the moment before it is published. Heaps of more than 2^24 - 1 heap buckets,
//! 67 million slots, would leave fewer uses, and are refused.
//!
//! A client draws a ticket once, its mark, and is the writer while the writer's word has it. Where
//! the endpoint sees to [fences](farslot_fabric::Endpoint::fence), as a store's does, a writer that
//! was deposed while it lives is refused what it writes. Elsewhere it can do harm, as where both
//! write into the same free position. Whoever resigns waits for its operations that are under way.
//!
//! **Predetermination** (paper 004). A client may keep the table's cuckoo graph while it is the
//! writer ([`CuckooTable::with_predetermination`]): of every record, which buckets it could also be
//! in, 4 bytes a slot with two hash functions. Then it knows without asking whether an insertion
//! has a place, and which records are to be moved for it; READs are for what is moved only, and one
//! that is doomed costs nothing. What is known ends with every change that does not come to a known
//! end, and with the writer's office; a survey brings it back. Readers, and the bytes of the table,
//! are the same with it and without.
//!
//! Sources: paper 000, sections 2.2, 4.1 and 4.5 (layouts; lookups sequential and parallel); paper
//! 004 (failures that are known beforehand; there of two hash functions and one-slot buckets, in
//! process). Insertion from the client, breadth first, and readers beside it are not in them.

mod batch;
mod buckets;
mod build;
mod client;
mod fast_path;
mod graph;
mod heap_bucket;
mod insert;
mod layout;
mod lookup;
mod moves;
mod moves_seen;
mod path;
mod predetermination;
mod room;
mod scan;
mod scheme;
mod signatures;
mod survey;
mod write;
mod writer;

pub use client::CuckooTable;
pub use layout::{CuckooLayout, CuckooOptions, LookupOrder};
pub use survey::Survey;
