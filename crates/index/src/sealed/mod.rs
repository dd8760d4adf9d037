//! A linear-probing table that is built whole from known records and never changes again.
//!
//! **What it is for.** Snapshots that are read and replaced, never written: feature stores,
//! dimension tables, the pre-generated tables of paper 000. Because nothing changes, a READ cannot
//! be torn, so that slots need no checksums, no marks and no alignment: an 8-byte record takes 8
//! bytes.
//!
//! **Promises.** One client builds; any number read. Until the builder has finished, every lookup
//! says [`NotBuilt`](crate::IndexError::NotBuilt), also if the builder dies: such a table never is
//! built, and is to be made anew. After that each lookup finds exactly the records that the builder
//! was given. A build that is refused for its records has written nothing. Every key of an allowed
//! length can be stored, whatever its bytes.
//!
//! **The table.** No probe wraps around the table's end: behind the last home there are some slots
//! more, so that the slots of a probe always lie in one piece and take one READ.
//!
//! ```text
//! 0     built, 8 | claimed, 8 | records, 8 | mask, 8 | heap used, 8 |      all 0 in a fresh table
//! 4096  slot 0 | slot 1 | ... | slot H-1 |          H homes: a key's is scale(hash, H)
//!       slot H | ... | slot S-1 |                   what overflows the last homes
//!       heap: the records out of band, in the order in which the builder was given them
//!       perfect hash function, of a table with one slot for each key
//!
//! Inline       | key ^ mask | value |                             fixed sizes, any number of bytes
//!                The mask covers the key's first 8 bytes (all, if it has fewer). The builder, who
//!                knows all keys, chooses one that turns none of them to 0: 0 is an empty slot.
//!
//!                In a table with one slot for each key also of variable sizes, all slots as large
//!                as the longest record, and without a mask:
//!              | key length, 4 | value length, 4 | key | value | zeros |   key length 0: empty
//!
//! OutOfBand    | signature, 1 | displacement, 1 | span, 1 | offset, 4 to 7 |
//!                offset        0 is an empty slot. The first record has offset 1; it counts
//!                              records where all have the same size, else units of 8 bytes.
//!                signature     the hash's next 8 bits below those that say the home.
//!                displacement  only of tables in the order of their hashes: how far the slot is
//!                              from its key's home; 255 is "255 or more".
//!                span          only of records of variable size: what there is to read, in units
//!                              of 8 bytes; 0 is "more than 255": 256 units tell how much more.
//!                With records of one size in order of arrival this is paper 000's slot of 5 bytes.
//!
//! records out of band:
//!   fixed sizes     | key | value |                                 nothing else, nothing between
//!   variable sizes  | key length, 4 | value length, 4 | key | value | to a multiple of 8 |
//! ```
//!
//! **Who may write what.** The builder claims the table by a compare-and-swap of `claimed`, writes
//! the heap, the slots and the rest of the header, and at last swaps `built` from 0 to 1. A plain
//! write is visible to all no later than its writer's next atomic, so who has seen `built` sees all
//! of it.
//!
//! **The order of the keys.** In order of arrival (paper 000) a miss ends at the first empty slot.
//! In the order of the hashes, which is the order of the homes too, it ends at the first key that
//! comes after it, which is where it would stand: as near as a hit, 4.5 slots from home instead of
//! 49.5 at load 0.9 (see
//! [`ProbeDistribution::ordered`](farslot_model::ProbeDistribution::ordered)). The occupied slots
//! are the same in both. An inline slot says its key's hash itself, and to look at the last slot of
//! a READ is enough: if that one comes after the key, the key is in none of those that follow. A
//! slot out of band says its home and 8 more bits; that byte pays: without it, a miss at load 0.9
//! reads 50 slots, of which one in 256 has the signature by chance and costs one more READ.
//!
//! **One slot for each key.** A table may have a perfect hash function instead of an order: no key
//! is in another's way, so that it is 99% full and a lookup reads one slot, found or not. The
//! module `perfect` has the function, which each client keeps, in 0.3 bytes a key. The slots behind
//! the last home are none then, and a signature is the low byte of the function's hash.
//!
//! Sources: paper 000, sections 3 and 4.1 (probing, inline and out of band); the order is that of
//! Amble and Knuth, Ordered hash tables, The Computer Journal 17 (1974), with the hash as the key.

mod build;
mod client;
mod exact;
mod fast_path;
mod layout;
mod lookup;
mod mask;
mod perfect;
mod plan;
mod read_size;
mod record;
mod scan;
mod scheme;
mod slots;
mod table;
mod walk;

pub use crate::read_policy::ReadPolicy;
pub use layout::{SealedForm, SealedLayout, SealedOptions, SlotOrder};
pub use perfect::PerfectShape;
pub use table::SealedTable;
