//! Tables with one slot for each key, which a perfect hash function names.
//!
//! **The function.** A hash names a part, by its high bits, and a bucket within the part; the
//! bucket's *pilot*, a byte that the builder has found, then decides which of the part's slots is
//! the key's. No two keys have the same one, although only one slot in a hundred is empty. A part
//! has as many slots as its share of the keys needs, so that all are equally full. Three and a half
//! keys share a pilot: 2.3 bits of a client's memory a key.
//!
//! **What is kept where.** The function lies in the far memory behind the table's heap, and a
//! client fetches it once, when it opens the table or finds it built. A lookup then reads the slot
//! that the function names and compares its key: one READ of one slot, found or not. A key that is
//! not in the table has some key's slot like any other; an optional filter (a binary fuse filter of
//! 8 bits, 9 bits of memory a key) answers all but one in 256 of such lookups without a READ.
//!
//! ```text
//! seed, 8 | checksum, 8 | filter: seed, 8 | its segment, 4 | all its segments, 4 |
//! where the parts' slots end, 4 each | the parts' seeds, 1 each |
//! pilots, 1 each, part by part | fingerprints of the filter, 1 each | zeros to a multiple of 8
//! ```
//!
//! The checksum is over all that follows it, with the seed. A client that reads what its builder
//! did not write says [`BadFunction`](crate::IndexError::BadFunction). Bytes that pass can name
//! wrong slots, never one outside of the table.

mod filter;
mod function;
mod places;
mod shape;

pub(super) use function::{Function, FunctionBuilder, PilotHash};
pub use shape::PerfectShape;
pub(super) use shape::{LOAD_FACTOR, MOST_LOAD, most_records};
