//! CuckooDuo: the writer keeps an index of fingerprints in local memory, so a lookup reads exactly
//! one slot.
//!
//! **Use it** for tables that one process writes and that should be nearly full. A lookup takes one
//! round trip and reads one slot, whatever the load factor. An absent key costs nothing, except
//! with probability 2d/2^f (d slots a bucket, fingerprints of f bits). The price is local memory: f
//! bits a slot and half a bit more, 16.5 bits with f = 16. If the table is made [for
//! readers](DuoOptions::readers), other clients look keys up with a copy of the index: see
//! [`DuoReader`].
//!
//! **Promises.** Keys are unique. A table has one *owner* at a time, its only writer: the first
//! client that uses the table. Every other client gets
//! [`WriterBusy`](crate::IndexError::WriterBusy) until the owner [resigns](DuoTable::resign), or
//! until another client [takes over](DuoTable::take_over) from an owner that is known to be dead.
//! In mapped memory that is refused while the owner's process runs, unless it is
//! [forced](DuoTable::force_take_over). An owner that lives after all is refused what it writes
//! then, where the endpoint sees to [fences](farslot_fabric::Endpoint::fence), as a store's does.
//! The owner may be several threads of one process, each with its own endpoint ([`DuoOwner`]). All
//! operations on one key are linearizable across the owner's threads and coroutines, and from one
//! owner to the next: an acknowledged write is never lost, a write in doubt either took effect or
//! did not, and a removed key does not come back. `scan` visits every key once, unless an insertion
//! moves it meanwhile or a removal brings it back from the stash: then it may visit it twice, or
//! not at all. The same holds for a [reader's scan](DuoReader::scan). All of this, and what
//! [readers are promised](ReaderPromise), also holds while the table grows.
//!
//! | operation | round trips | slots read and written |
//! |---|---|---|
//! | lookup, found | 1 | 1 |
//! | lookup, absent | 0, or 1 with probability 2d/2^f | 0 |
//! | insertion | 1; 2 if both buckets are full or fingerprints collide | 1, and 2 a record moved |
//! | update, `put` of a key that is present | 2 | 3 (the second in the journal) |
//! | removal | 1; 2 if the index is published | a word |
//! | a reader's lookup, found | 1; 2 to 3 if its copy of the index is stale | 1 |
//! | a reader's lookup, absent | 1; or 0 with [bounded staleness](ReaderPromise) | 0, and 2 pages |
//!
//! **Floors.** No file imports one of a floor above it.
//!
//! ```text
//! scheme                               what `Index` asks of the owner
//! lookup fast_path scan survey; reader/   one protocol a file
//! write own insert slow_path           a write: the key's own slot, a new key's, what waits
//! holding growth/ stash                locks, growth, bringing keys back from the stash
//! ownership rebuild settle publish     who owns the table; recovery; the published index
//! batch records words moves            verbs that take effect in order; slots and their records
//! state/                               what a client keeps
//! placement/                           which slot a key goes to: local memory only
//! bytes/                               what lies where
//! ```
//!
//! **Placement.** With 8 slots a bucket, f = 16 and at most 3 moves, the table is full at a load of
//! 0.99. Below 0.7 an insertion takes 1.0001 round trips on average, at 0.9 it takes 1.1, and never
//! more than 2. A key that finds no bucket goes to the stash. When a removal has made room, it
//! moves back, which costs that removal 2 more round trips.
//!
//! **The table's bytes.** Only the owner writes them.
//!
//! ```text
//! 0        used slots | entries | ... | owners there were | owner | whether there ever was one |
//!          the count by which a scan sees that records have moved (moves.rs) |
//!          which process the owner is, 4 words (writer_note.rs)
//! 4096     first array: m buckets of d slots | second array | stash | journal
//!          the heap, if there is one; the published index, if there is one (bytes/published.rs)
//!          buckets added by growth are elsewhere (growth/mod.rs)
//! slot     a head, then the record, or the place of its block in the heap (bytes/slot.rs)
//! ```
//! The owner fills a slot with one batch: a WRITE of everything but the head, then a
//! compare-and-swap of the head, which makes the slot live. To move a record, it fills another slot
//! and then makes the old one dead. The head holds the hash of the key, so one compare-and-swap
//! removes a key without a READ. A checksum tells whether the record is whole. In a table for
//! readers the word with the checksum makes the slot live, and head and record are written before
//! it (bytes/slot.rs): so a removal reads the slot first.
//!
//! **Records of any size** lie in a heap if the table is [made so](crate::SlotKind::Heap); a slot
//! then has 16 bytes. A lookup takes 2 dependent READs (1 more if a fingerprint collides), an
//! update 3 round trips and no journal, a removal 1. Heap blocks that an owner had reserved but not
//! used when it died are lost.
//!
//! **The journal.** An update writes the new record to a journal slot, then over the old record,
//! then makes the journal slot dead: three steps of one batch. A live journal slot always holds the
//! last value of its key.
//!
//! **Failures.** If a batch fails, some prefix of it has taken effect. Its slots are then in doubt,
//! and the owner does nothing else until it has read them, finished what was begun and corrected
//! its index (`settle.rs`). A new owner does this for the whole table (`rebuild.rs`): it reads
//! every slot, indexes the live ones, removes duplicates of records that were being moved, and
//! finishes updates that it finds in the journal.
//!
//! **Readers** keep a copy of the index, which the owner publishes in the same batches as its
//! changes (`publish.rs`). That costs an insertion three more verbs, for a word of the index, a
//! count and the head, and no round trip. Each slot tells whether it is live, whose it is and
//! whether it is whole, so a stale copy is detected (`reader/`). Owner and reader both spend 4 more
//! bytes a bucket.
//!
//! Source: paper 001, sections III-A to III-D, and its supplement on threads. Not in the paper:
//! readers, backup fingerprints in any slot, preferring the emptier bucket, the journal, owners
//! that die, operations in doubt, and a removal without reading the key first. The paper's
//! extendible form, a directory of small tables, is not implemented.

mod batch;
mod bytes;
mod changes;
mod fast_path;
mod growth;
mod holding;
mod insert;
mod key_slot;
mod lookup;
mod moves;
mod ownership;
pub mod placement;
mod publish;
mod reader;
mod rebuild;
mod records;
mod room;
mod scan;
mod scheme;
mod settle;
#[cfg(test)]
mod slot_tests;
mod slow_path;
mod stash;
mod state;
mod survey;
#[cfg(test)]
mod tests;
mod words;
mod write;

pub use bytes::{DuoLayout, DuoOptions};
pub use reader::{DuoReader, ReaderPromise};
pub use state::{DuoGrowth, DuoOwner, DuoTable, DuoWork, GrowthMemory};
pub use survey::Survey;
