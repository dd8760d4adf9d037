//! What an operation costs in each scheme, so that schemes can be ranked before any is built.
//!
//! An operation is a sequence of verbs, and its cost ([`Work`]) the sum of theirs: what they occupy at the
//! node's NIC, on its link and at the clients' NIC, and how long they take when nothing else is under way.
//! The dearest of the three stations bounds the rate of all clients together ([`Work::capacity`]).
//!
//! - [`linear_lookup`]: the READs of paper 000, section 3, by the exact distributions of this crate.
//! - [`cuckoo_lookup`]: its section 4.5; where keys stand comes from [`CuckooPlaces`].
//!
//! Schemes whose clients keep nothing of what they have read cost the same whatever the popularity of the keys:
//! popular keys stand no nearer than others.

mod cuckoo;
mod linear;
mod places;
mod work;

pub use cuckoo::{CuckooReads, cuckoo_lookup};
pub use linear::linear_lookup;
pub use places::{CuckooPlaces, CuckooShape, Filling};
pub use work::{Capacity, Limit, VerbCosts, Work};

/// Bits of a key's hash in a slot that refers to a record: another key has the same with probability 2^-10.
const TAG_BITS: i32 = 10;

/// Records out of band that are read in vain, for so many keys looked at that are others.
fn false_matches(other_keys: f64) -> f64 {
    other_keys.max(0.0) * 2f64.powi(-TAG_BITS)
}
