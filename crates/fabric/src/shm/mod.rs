//! Shared memory of one host, within a process (embedded, the default) or between processes.
//!
//! A [`Node`] owns memory: anonymous for one process, or a sealed memfd. Processes of the same user
//! [`attach`] to a memfd by name and receive it over an abstract Unix socket. The verbs are loads,
//! stores and atomics of the client's own CPU; the owner takes no part in them. Posting a READ
//! prefetches and completing it copies, so interleaved coroutines hide memory latency.
//!
//! The kernel owns memory and name, so nothing is left behind. The name disappears with the owner,
//! even after `kill -9`, and the memory with the last client that maps it. Clients see the socket
//! close and fail every later verb; those of [kept](crate::keep) memory, until it has an owner
//! again.
//!
//! Calls are the exception: a thread of the owner answers those of other processes, through memory
//! that each client shares with the owner alone.
//!
//! ```text
//! byte 0        8         16            24      32        40           48     56
//!      +--------+---------+-------------+-------+---------+------------+------+----
//!      | magic  | version | incarnation | bytes | regions | page bytes | kept |
//!      +--------+---------+-------------+-------+---------+------------+------+----
//!   64 | offset | length | rights |  one such row a region, at most 16       |
//!      +--------+--------+--------+------------------------------------------
//! 4096 | mailbox: head, tail, entries (see mailbox.rs)                       |
//!      +----------------------------------------------------------------------
//! 2 Mi | region 0 | region 1 | ...     each starting at a multiple of 2 MiB  |
//!      +----------------------------------------------------------------------
//! ```
//! All words are little-endian. The owner writes the header once, before it serves the name; it
//! never changes afterwards. Every client may use the mailbox. Each region has its own rights.

mod attach;
mod calls;
mod endpoint;
mod fd_passing;
mod limit;
mod mapped;
mod parked;
mod promised;
mod serve;
mod settled;

pub use crate::memory::{
    FORMAT_VERSION, MAGIC, MAX_REGIONS, Node, NodeMemory, RegionSpec, WeakNode, available_memory,
};
pub use attach::attach;
pub use endpoint::{ShmEndpoint, ShmPosted};
pub use limit::LINE;
pub use mapped::MappedWords;
