//! Open addressing with linear probing: many readers and many writers on any machine, no locks.
//!
//! **What it is for.** One READ, of a size that the model picks, finds nearly every key at load
//! factors up to 0.9 (paper 000), and `find_or_put` makes it a distributed set (paper 002). It has
//! no owner process: the memory may belong to a machine that does nothing else.
//!
//! **Promises.** Any number of clients may read and write. `get`, `put`, `find_or_put`, `update`
//! and `remove` on a table of unique keys are linearizable; none ever waits for another client, and
//! a client that dies between any two verbs leaves nothing to be repaired: its operation has then
//! happened or not. `get_all`, and everything on a multi-key table, finds each record that is there
//! all the while. A full table says so and goes on serving.
//!
//! **The rule that all of this rests on: a slot belongs to its first key for ever.** A slot goes
//! from empty to a key by one compare-and-swap and never to another key; removing the key leaves
//! the slot dead, to be revived when the key comes back. So what a scan has passed over stays what
//! it was, the first empty slot of a probe only ever moves on, all who insert a key race for the
//! same slot, and no key stands twice. The price: slots of removed keys are not used for others
//! until the table is rebuilt (dump and load).
//!
//! **Who may write what.** The layouts differ in what a slot holds, and in which word publishes it:
//!
//! ```text
//! Word    | live, 1 bit | key and value, together 63 bits ^ mask |
//!           One word: every change is one compare-and-swap of it, and no read of it can be torn.
//!           This is paper 002's bucket, and the 8-byte record of paper 000.
//!
//! Pair    | key ^ mask | value ^ mask |              keys and values of up to 8 bytes
//!           The key's word claims the slot, 0 -> key, once. The value's word publishes, replaces
//!           and removes: 0 is "absent". A torn read is harmless: the key never changes, and the
//!           value word alone says what the key has. A client that dies in between leaves a claimed
//!           slot without a value, which is an absent key that anybody may put.
//!
//! Heap    | kind, 3 bits | tag, 10 | block, 51 |     any sizes
//!           The record is written out of band first; a compare-and-swap of the head publishes,
//!           replaces or removes it. A reader checks the record's generation and checksum, and
//!           reads the slot again if either is wrong.
//!
//! Inline  | kind, 3 bits | ... | key bytes | value bytes |      fixed sizes, of any length
//!           The head claims the slot with 61 bits of the key's hash; the claimant alone writes key
//!           and value, once; then the head publishes them with a checksum. A reader whose checksum
//!           fails reads again. Replaced values go to the heap, for the slot's bytes are never
//!           written twice; so does the record of whoever meets a claim for its own key that its
//!           claimant has not published. Nobody waits for the dead.
//!
//! Hybrid  | kind, 3 bits | ... | key bytes | value bytes |      any sizes
//!           Heap and Inline in one table (paper 000, section 7: future work). A key's first record
//!           that fits goes into the slot as an Inline one, under a head that has both lengths; one
//!           that does not fit goes out of band as a Heap one, and needs no claim. Which, is
//!           decided by who inserts, from his record's size alone.
//! ```
//! **Why Inline's protocol holds in Hybrid slots.** A slot is empty until one compare-and-swap
//! makes it claimed or a reference, and it is never empty again: all who insert the key, whatever
//! the sizes of their records, race for that one word, and one wins. Only a claim's winner writes
//! the slot's bytes, and only from the claim does a head lead to these bytes, by a compare-and-swap
//! that he alone does. As no slot is claimed twice, its bytes are written once, and no head in its
//! life leads to other bytes than its first: who has read a head and the bytes with its checksum
//! has read the record. A slot that began as a reference has no claim, so that its bytes are never
//! written or read; a value that would fit goes out of band there too, as does each value after the
//! first. Everything else (a claim of the own key that is met goes out of band, Dead and revived)
//! looks at heads only, and heads are the same.
//!
//! How large the room in a slot should be, [`LinearOptions::hybrid_for`] asks the model: every READ
//! of slots pays for room, and each record that fits saves a READ.
//!
//! `0` is an empty slot in every layout. The masks are drawn for each table, so that the one
//! pattern which cannot be stored, the mask itself, is one that nobody can know or hit by chance
//! (2^-64).
//!
//! Sources: paper 000, sections 3 and 4 (probing, read sizes, hints, inline and out of band); paper
//! 002, section 3 (`find_or_put`, wrapped chunks, requesting a chunk ahead). Removal, replacement,
//! values, and concurrent writers to long records are not in them.

mod all;
mod client;
mod cluster_hints;
mod fast_path;
mod hybrid;
mod insert;
mod layout;
mod lookup;
mod read_sizes;
mod record_locations;
mod room;
mod scan;
mod scheme;
mod slots;
mod survey;
mod write;

pub use crate::read_policy::ReadPolicy;
pub use crate::slot::{KeyRule, SlotKind};
pub use client::LinearTable;
pub use hybrid::RecordMix;
pub use layout::{LinearLayout, LinearOptions};
pub use read_sizes::ReadSizes;
pub use survey::Survey;
