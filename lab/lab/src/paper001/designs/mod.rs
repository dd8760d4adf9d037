//! Paper 001's designs side by side: placements that are counted ([`cost`]), and tables that are
//! used ([`trial`]).

mod cached;
pub(crate) mod cost;
mod design;
pub(crate) mod growth;
mod inline_race;
pub(crate) mod ours;
pub(crate) mod published;
pub(crate) mod race;
mod running;
pub(crate) mod schemes;
pub(crate) mod split;
pub(crate) mod trial;
mod zipf;

#[cfg(test)]
mod tests;
