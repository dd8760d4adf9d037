//! What a client keeps: the state that the threads of an owner share (`owner.rs`), and that of one
//! thread (`table.rs`).
//!
//! This floor runs no protocol; the files above it do.

mod doubts;
mod growth;
mod index;
mod journal;
mod owner;
mod table;
mod versions;

pub(super) use doubts::Doubt;
pub use growth::{DuoGrowth, GrowthMemory};
pub(super) use growth::{ExtentSource, GrowthPolicy};
pub(super) use index::index_shape;
pub use owner::DuoOwner;
pub(super) use table::Key;
pub use table::{DuoTable, DuoWork};
pub(super) use versions::PageVersions;
