//! SmartCuckoo (paper 004): cuckoo hashing that knows before it moves anything whether it will end.
//!
//! Two tables of one-slot buckets, two hash functions: a key is in one bucket of either table, so
//! that a lookup reads two buckets at most, whatever happens. Which buckets the records connect is
//! a graph of subgraphs with at most one cycle each, and whether a subgraph has room follows from
//! its number of vertices and edges alone. So an insertion knows where to start a walk that ends,
//! or that none does, without a single kick-out: by the paths of the records themselves, read in
//! turns from both buckets, while that is cheapest; and once it is not, as in a map filled beyond
//! half of its slots, by a forest that is kept from then on ([`SmartCuckooMap::track_subgraphs`]),
//! in four bytes a bucket.
//!
//! # How full it gets
//!
//! **Half.** With two hash functions and buckets of one slot, random keys stop fitting at 0.5 of
//! the slots (a random graph with more than half as many edges as vertices has subgraphs with two
//! cycles). Below, all but a handful fit: of a table of any size, the expected number of failures
//! is constant. That is no weakness of this implementation and no search can change it; the paper's
//! load factors of up to 0.9 are those of a table that drops every record it has no place for. A
//! map must not, so that
//!
//! - [`SmartCuckooMap::insert`] grows the map at [`MAX_LOAD`], to twice its buckets;
//! - the few records without a place before go to the [stash](SmartCuckooMap::set_stash_limit), of
//!   four by default. It is read by lookups that found nothing, while it is not empty;
//! - where the stash is full too, the map grows early; or, at less than half of [`MAX_LOAD`], takes
//!   other hash functions first;
//! - [`SmartCuckooMap::insert_within`] never grows: it fills whatever room there is, beyond
//!   [`MAX_LOAD`] too, and gives the record back exactly if no arrangement of all records exists
//!   (and the stash is full).
//!
//! A hasher that gives many keys the same 64 bits leaves them no place at any size. The map stops
//! growing for them at a load of 1/32 and keeps them in the stash, past its limit: slow, and right.
//!
//! # Memory
//!
//! A bucket costs its record, a tag of one byte that also says whether there is one, and what
//! aligns them; where the forest is kept, four bytes more. At the mean load between two growths,
//! 0.34, a record of 8 + 8 bytes costs 71 bytes, against some 25 in `std`'s map. What this map has
//! instead is a bound: two probes for every lookup.
//!
//! # Panics in the user's code
//!
//! `Hash` and `Eq` are called before anything moves. If they panic, the map is as before, with the
//! record that was to be inserted dropped.

mod buckets;
mod entry;
pub(crate) mod forest;
mod insert;
mod iter;
mod map;
#[cfg(test)]
mod oracle_tests;
pub(crate) mod plan;
mod rehash;
mod remove;
#[cfg(feature = "serde")]
mod serde;
mod sizes;
mod stash;
mod traits;

pub(crate) use sizes::{is_hopeless, load_limit};

pub use entry::{Entry, OccupiedEntry, VacantEntry};
pub use forest::{Scenario, Standing};
pub use iter::{Drain, IntoIter, IntoKeys, IntoValues, Iter, IterMut, Keys, Values, ValuesMut};
pub use map::SmartCuckooMap;
pub use sizes::{MAX_LOAD, TooManyRecords};
