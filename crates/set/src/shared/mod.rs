//! Sets over the verbs: each rank owns a part of the table, and reaches the others' by reads and
//! compare-and-swap.
//!
//! * [`SharedWordSet`]: paper 002's table, figure 1.
//! * [`SharedDataSet`]: elements over 63 bits and maps.
//! * [`SharedTreeSet`]: compressed state vectors.
//!
//! What holds where inserters or their verbs fail: every element is `Inserted` at most once,
//! whatever fails, and all others of its inserters are told `Found`. If an inserter dies, or is
//! told an error, between the posting of its compare-and-swap and the answer, the element may be in
//! the set although nobody was told `Inserted`. It is never there in part: who finds it finds all
//! of it.
//!
//! Operations fail with the fabric's errors while a rank that owns buckets of their walk is away;
//! the others go on. A rank that comes back empty has lost its part: then the set is void, which a
//! [`NodeRestarted`](farslot_fabric::FabricError::NodeRestarted) says.

mod chunks;
mod data;
mod reach;
mod table;
mod tree;
mod words;

pub use chunks::ChunkSizes;
pub use data::SharedDataSet;
pub use reach::{Part, Reach};
pub use tree::SharedTreeSet;
pub use words::SharedWordSet;
