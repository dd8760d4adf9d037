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
mod fd_passing;
mod limit;
mod serve;

pub use crate::memory::{FORMAT_VERSION, MAGIC, MAX_REGIONS, Node, RegionSpec, available_memory};
pub use attach::attach;
pub use endpoint::{ShmEndpoint, ShmPosted};
pub use limit::LINE;
