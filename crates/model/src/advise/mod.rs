//! What an operation costs in each scheme, so that schemes can be ranked before any is built.
//!
//! An operation is a sequence of verbs, and its cost ([`Work`]) the sum of theirs: what they occupy at the
//! node's NIC, on its link and at the clients' NIC, and how long they take when nothing else is under way.
//! The dearest of the three stations bounds the rate of all clients together ([`Work::capacity`]).
//!
//! - [`linear_lookup`]: the READs of paper 000, section 3, by the exact distributions of this crate; also of
//!   tables in the order of their hashes. [`linear_put`]: a new key.
//! - [`cuckoo_lookup`]: its section 4.5; where keys stand comes from [`CuckooPlaces`].
//!
//! Schemes whose clients keep nothing of what they have read cost the same whatever the popularity of the keys:
//! popular keys stand no nearer than others.

mod cuckoo;
mod linear;
mod places;
mod records;
mod work;

pub use cuckoo::{CuckooReads, cuckoo_lookup};
pub use linear::{LinearSlots, LinearWrite, linear_lookup, linear_put};
pub use places::{CuckooPlaces, CuckooShape, Filling};
pub use records::OutOfBand;
pub use work::{Capacity, Limit, VerbCosts, Work};
