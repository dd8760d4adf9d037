//! The memory of a node: its mapping, its header, its words, its mailbox.
//!
//! All fabrics but the simulator work on this memory. The layout is in [`shm`](crate::shm), whose clients map it.

mod header;
pub(crate) mod mailbox;
mod mapping;
mod node;
mod words;

pub(crate) use header::Header;
pub use header::{FORMAT_VERSION, MAGIC, MAX_REGIONS};
pub use mapping::available_memory;
pub(crate) use mapping::{Mapping, check_sealed, read_only, sealed_memfd};
pub(crate) use node::{AgentClaim, NicClaim, NicInbox, lay_out, raise_file_limit};
pub use node::{Node, RegionSpec};
pub(crate) use words::SharedWords;
