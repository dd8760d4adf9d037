//! What a client keeps of a table: the owner what its threads share, and each thread what is its own.

mod doubts;
mod growth;
mod index;
mod journal;
mod owner;
mod stamps;
mod table;

pub(super) use doubts::Doubt;
pub use growth::{DuoGrowth, GrowthMemory};
pub(super) use growth::{Growth, Place};
pub(super) use index::index_shape;
pub use owner::DuoOwner;
pub(super) use stamps::Stamps;
pub(super) use table::Key;
pub use table::{DuoTable, Work};
