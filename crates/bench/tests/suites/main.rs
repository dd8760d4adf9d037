//! What the crate measures, small. One test program, for each would link the store.

mod advise;
mod advise_check;
mod advise_in_place;
mod experiment;
mod find_or_put;
mod lookup;
mod raw;
