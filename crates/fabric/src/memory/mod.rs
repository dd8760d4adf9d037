//! The memory of a node: its mapping, header, words and mailbox.
//!
//! Every fabric except the simulator works on this memory. [`shm`](crate::shm) describes the
//! layout, because its clients map it.

mod file;
mod header;
mod journal;
pub(crate) mod mailbox;
mod mapping;
mod node;
mod owner;

pub use file::NodeMemory;
pub(crate) use file::{FileId, id_of, is_claimed};
pub(crate) use header::Header;
pub use header::{FORMAT_VERSION, MAGIC, MAX_REGIONS};
pub use mapping::available_memory;
pub(crate) use mapping::{Mapping, check_sealed, read_only, sealed_file};
pub(crate) use node::{AgentClaim, MapClaim, NicClaim, NicInbox, raise_file_limit};
pub use node::{Node, RegionSpec, WeakNode};
