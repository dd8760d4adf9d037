//! RDMA verbs: other machines by their NICs, InfiniBand or RoCE, over rdma-core.
//!
//! An [`Agent`] registers the memory of a [`Node`](crate::memory::Node) with a NIC, which then
//! executes the verbs of its clients. The owner's processor takes no part. A [`VerbsEndpoint`] has
//! its own reliable queue pair to each node (paper 003, section 3.4). All verbs of a doorbell leave
//! as one list for each node, its last request signaled (paper 000, section 4.1). As many READs are
//! in flight as both NICs support, and small payloads are sent inline. Buffers are carved out of
//! slabs that are registered once, in large pages where the kernel has them.
//!
//! Guarantees beyond those of [the verbs](crate):
//!
//! * *Memory belongs to the NIC or to the processors.* The atomics of most NICs are not atomic
//!   against those of a processor. While an agent holds a node, endpoints of shared memory fail
//!   with [`NicAndProcessor`](crate::FabricError::NicAndProcessor), and so does a TCP agent. A node
//!   that other processes can attach to cannot be served.
//! * *Admission* works as over TCP: a client connects to the agent by TCP, and both prove that they
//!   know the grant's secret before a queue pair exists. Each grant has its own protection domain,
//!   in which the memory is registered with exactly the grant's rights. Each queue pair has only
//!   the rights of its client. So the NIC refuses keys of another grant, writes under a read-only
//!   grant, and accesses past the end of a region. Revoking a grant takes its memory from the NIC
//!   before it returns. Keys are the NIC's: 32 bits, partly sequential. Grants are kept apart by
//!   their domains, not by their keys.
//! * *The set-up connection stays open.* When a process ends, its kernel closes the connection, and
//!   the other side knows at once, even if idle. A lost machine or network is detected within the
//!   peer timeout. An agent that hangs or is stopped goes undetected: its NIC continues to serve.
//! * *A failed verb ends its queue pair*, as the standard requires. Verbs posted behind it have no
//!   effect, or an unknown one. The endpoint reconnects in the background.
//! * A message is a WRITE with immediate data. All clients of a node share one receive queue with
//!   the capacity of the node's inbox. While it is full, the sender's NIC retries for half of the
//!   verb timeout.
//!
//! * *Calls* have a second queue pair, which a client's first call sets up over the set-up
//!   connection. A request is one WRITE with immediate into a room that the agent lends to this
//!   client, the reply one into a room of the client's. Of each client 64 calls are on their way at
//!   most, and both sides have as many receives posted, so that none is ever missing; other calls
//!   wait at the client. One thread of the agent answers all clients by one completion queue, in
//!   turns. Requests and replies have up to 1 MiB less 8 bytes each. The order of calls and other
//!   verbs to each other is unspecified: what must see a call's effects begins after its reply. A
//!   call that is not answered within the verb timeout ends the connection; no call of it begins
//!   once the next connection is made.
//! * The owner's processor and clients' NICs may both *read and write* words. Only atomics do not
//!   mix: a handler must not swap words that clients swap.
//!
//! Traffic is not encrypted. Whoever can read the NICs' network can read the data, and whoever can
//! send packets there can pose as a client. Use it on trusted networks only.
//!
//! # libibverbs at run time
//!
//! The library is [loaded on first use](libloading). So building needs only Rust and a C linker,
//! and a machine without RDMA gets an error that says what to install. The existing bindings either
//! link to the library (`rdma-sys`, `ibverbs`) or build a substitute with CMake and libclang
//! (`rdma-mummy-sys`, and `sideway` on it). The few dozen functions and structures of its stable
//! interface that are used here are therefore declared by hand, in one file. A test compares every
//! offset, size and constant in it with the C header.
//!
//! # Limits
//!
//! A device limits queue pairs, registered regions and completion queues; the kernel limits locked
//! memory (`RLIMIT_MEMLOCK`), which a node takes once for each grant, and an endpoint for its
//! buffers. Calls lock 2 MiB of the agent and 1 MiB of the client for each client that calls, up to
//! 256 of them at a time. Each limit has its own error. Every endpoint opens the device for itself,
//! because the doorbells of one opening are shared and locked. On-demand paging, memory windows,
//! extended atomics and shared (XRC) queue pairs are not used. A process that forks while it holds
//! an endpoint or an agent needs a kernel that copies pinned pages on fork (5.12 or newer).

mod abi;
mod agent;
mod device;
mod endpoint;
mod library;
mod memory;
mod options;
mod path;
mod resource;
mod rooms;
#[cfg(test)]
mod tests;
mod work;

pub use crate::net::{ConnectOptions, Posted, ServeOptions};
pub use agent::Agent;
pub use device::DeviceOptions;
pub use endpoint::VerbsEndpoint;
pub use options::{VerbsAgentOptions, VerbsOptions};
