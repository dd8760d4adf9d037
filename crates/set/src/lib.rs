//! Sets and maps that many processes fill together with one operation, find-or-put (paper 002).
//!
//! *Find-or-put* looks for an element, inserts it if it is absent, and says which of the two it
//! was: each element is [`Inserted`](Outcome::Inserted) exactly once, by whomever. That is what
//! graph searches, model checkers and deduplication need of a hash table, and all that they need.
//!
//! * [`WordSet`]: elements of 63 bits, one 64-bit bucket each (paper 002, section 3).
//! * [`DataSet`]: longer elements, beside the table; with values it is a map.
//! * [`PairSet`]: pairs of words, the nodes of decision diagrams.
//! * [`TreeSet`]: state vectors, compressed without loss to about one bucket each.
//!
//! An inserter that is killed, or whose verb fails, between its compare-and-swap and the answer may
//! have inserted an element that nobody is told `Inserted` for. It is there whole, once, and all
//! others find it; nothing else is lost but the space that it had taken.
//!
//! A table belongs to p *ranks*, each of which owns k consecutive buckets of it. These types reach
//! all of its memory by loads and compare-and-swap: one process with any number of threads, or
//! several processes that have mapped each other's memory. Those of [`shared`] reach other ranks'
//! memory by the verbs of any fabric. A [`Job`](job::Job) is the processes that do so together.

#![forbid(unsafe_code)]

mod agreement;
mod data;
mod error;
mod hash;
pub mod job;
mod layout;
mod pairs;
mod segments;
mod shape;
pub mod shared;
mod tree;
mod words;

pub use data::{DataSet, Spare};
pub use error::SetError;
pub use layout::{Layout, MAX_ELEMENTS, MAX_RANKS};
pub use pairs::{PairSet, Share};
pub use segments::Segments;
pub use shape::DataShape;
pub use tree::{StateId, StateTree, StateTreeShape, TreeSet};
pub use words::{MAX_WORD, WordSet};

/// What find-or-put did; `I` says where the element is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outcome<I = u64> {
    /// The element was there.
    Found(I),
    /// The element was absent and is there now.
    Inserted(I),
    /// The element is absent, and there is no room for it within the buckets that are searched, or
    /// among the elements.
    Full,
}

impl<I> Outcome<I> {
    /// Where the element is, unless there was no room.
    pub fn place(self) -> Option<I> {
        match self {
            Self::Found(place) | Self::Inserted(place) => Some(place),
            Self::Full => None,
        }
    }

    /// Whether the element is new.
    #[must_use]
    pub const fn is_inserted(&self) -> bool {
        matches!(self, Self::Inserted(_))
    }

    /// The same outcome with its place replaced.
    pub fn map<J>(self, place: impl FnOnce(I) -> J) -> Outcome<J> {
        match self {
            Self::Found(at) => Outcome::Found(place(at)),
            Self::Inserted(at) => Outcome::Inserted(place(at)),
            Self::Full => Outcome::Full,
        }
    }
}
