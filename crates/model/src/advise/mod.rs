//! What an operation costs in each scheme, so that schemes can be ranked before any is built.
//!
//! An operation is a sequence of verbs, and its cost ([`Work`]) the sum of theirs: what they occupy
//! at the node's NIC, on its link and at the clients' NIC, and how long they take when nothing else
//! is under way. The dearest of the three stations bounds the rate of all clients together
//! ([`Work::capacity`]). In memory that the clients have mapped there is no NIC: a client's
//! processor loads the cache lines, and so bounds the rate ([`ProcessorCosts`]).
//!
//! - [`linear_lookup`]: the READs of paper 000, section 3, by the exact distributions of this
//!   crate; also of tables in the order of their hashes. [`linear_put`]: a new key.
//!   [`linear_update`]: another value of a key that is there.
//! - [`cuckoo_lookup`]: its section 4.5; where keys stand comes from [`CuckooPlaces`], and so does
//!   how far an insertion searches, for [`cuckoo_put`]. [`cuckoo_update`].
//! - [`race_lookup`], [`race_put`], [`race_update`]: RACE hashing, paper 001, section II-B; how
//!   full the buckets are that a key has comes from [`RacePlaces`].
//! - [`duo_lookup`], [`duo_put`], [`duo_update`]: CuckooDuo, its section III; what an insertion
//!   meets is counted by whoever asks.
//! - [`VerbCosts::call`]: any of these by the owner of the memory, in one message.
//!
//! Schemes whose clients keep nothing of what they have read cost the same whatever the popularity
//! of the keys: popular keys stand no nearer than others.

mod calls;
mod cuckoo;
mod cuckoo_writes;
mod draws;
mod duo;
mod linear;
mod perfect;
mod places;
mod race;
mod records;
mod work;

pub use calls::CalledOperation;
pub use cuckoo::{CuckooReads, cuckoo_lookup};
pub use cuckoo_writes::{CuckooSlots, CuckooWrite, cuckoo_put, cuckoo_update};
pub use duo::{DuoInsertion, DuoPages, DuoRecords, DuoSlots, duo_lookup, duo_put, duo_update};
pub use linear::{LinearSlots, LinearWrite, linear_lookup, linear_put, linear_update};
pub use perfect::perfect_lookup;
pub use places::{CuckooInsertion, CuckooPlaces, CuckooShape, Filling};
pub use race::{RacePlaces, race_lookup, race_put, race_update};
pub use records::OutOfBand;
pub use work::{Capacity, Limit, ProcessorCosts, VerbCosts, Work};
