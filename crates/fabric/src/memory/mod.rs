//! The memory of a node: its mapping, header, words and mailbox.
//!
//! Every fabric except the simulator works on this memory. [`shm`](crate::shm) describes the
//! layout, because its clients map it.

mod header;
pub(crate) mod mailbox;
mod mapping;
mod node;
mod owner;

pub(crate) use header::Header;
pub use header::{FORMAT_VERSION, MAGIC, MAX_REGIONS};
pub use mapping::available_memory;
pub(crate) use mapping::{Mapping, check_sealed, read_only, sealed_file, sealed_memfd};
pub(crate) use node::{AgentClaim, MapClaim, NicClaim, NicInbox, lay_out, raise_file_limit};
pub use node::{Node, RegionSpec, WeakNode};
