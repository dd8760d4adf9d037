//! Shared memory of one host: the embedded default, and several processes side by side.
//!
//! A [`Node`] owns memory: anonymous for one process, or a sealed memfd that it hands, over an
//! abstract Unix socket, to processes of the same user that [`attach`] by name. The verbs are loads,
//! stores and atomics of the client's own CPU; the owner takes no part in them. Posting a read
//! prefetches, completing it copies, so that interleaved coroutines hide the latency of memory.
//!
//! Nothing stays behind: the memory and the name are the kernel's. The name is gone when the owner is,
//! `kill -9` included; the memory when the last client that still maps it lets go. Clients see the
//! socket close and fail every verb from then on.
//!
//! ```text
//! byte 0        8         16            24      32        40           48
//!      +--------+---------+-------------+-------+---------+------------+----
//!      | magic  | version | incarnation | bytes | regions | page bytes |
//!      +--------+---------+-------------+-------+---------+------------+----
//!   64 | offset | length | rights |  one such row a region, at most 16       |
//!      +--------+--------+--------+------------------------------------------
//! 4096 | mailbox: head, tail, entries (see mailbox.rs)                       |
//!      +----------------------------------------------------------------------
//! 2 Mi | region 0 | region 1 | ...     each starting at a multiple of 2 MiB  |
//!      +----------------------------------------------------------------------
//! ```
//! All words are little-endian. The owner writes the header once, before the name is served, and
//! nobody writes it afterwards; the mailbox is everybody's; the regions follow their rights.

mod attach;
mod endpoint;
mod header;
mod limit;
mod link;
pub(crate) mod mailbox;
mod mapped;
pub(crate) mod mapping;
pub(crate) mod node;
pub(crate) mod words;

pub use attach::attach;
pub use endpoint::{ShmEndpoint, ShmPosted};
pub use header::{FORMAT_VERSION, MAGIC, MAX_REGIONS};
pub use limit::LINE;
pub use mapped::MappedWords;
pub use mapping::available_memory;
pub(crate) use node::raise_file_limit;
pub use node::{Node, RegionSpec};

/// Regions and the first region's start are multiples of this: a large page of most machines.
const LARGE_PAGE: u64 = 2 << 20;

/// Turns a failed system call into a typed error.
fn os(call: &'static str) -> impl Fn(rustix::io::Errno) -> crate::FabricError {
    move |errno| crate::FabricError::Os {
        call,
        error: errno.to_string(),
    }
}
