//! RDMA verbs: other machines, by their NICs. InfiniBand and RoCE, over rdma-core.
//!
//! An [`Agent`] registers the memory of a [`Node`](crate::memory::Node) with a NIC, and from then on the NIC
//! executes the verbs of its clients: the processor of the machine that lends the memory takes no part. A
//! [`VerbsEndpoint`] has one reliable queue pair to each of its nodes, shared with nobody (paper 003, section
//! 3.4). All verbs of a doorbell leave as one list for each node, its last request signaled (paper 000, section
//! 4.1); as many READs are under way as both NICs can have; small payloads go inline. Buffers are carved
//! out of slabs that are registered once, in large pages where the kernel has them.
//!
//! What is promised beyond [the verbs](crate):
//!
//! * *Memory is a NIC's or the processors'.* The atomics of most NICs are not atomic against those of a
//!   processor: as long as an agent holds a node, endpoints of shared memory fail with
//!   [`NicAndProcessor`](crate::FabricError::NicAndProcessor), and an agent of TCP is refused with it; nor
//!   may a node be served that other processes can attach to.
//! * *Admission* is that of TCP: a client connects to the agent by TCP, both prove that they know the grant's
//!   secret, and only then is there a queue pair. Each grant has a protection domain of its own,
//!   where the memory is registered with exactly the grant's rights, and each queue pair has no more than
//!   its client's: the NIC refuses a key of another grant, a write under a read-only one, and whatever
//!   reaches past the end of a region. Revoking a grant takes its memory from the NIC before it returns.
//!   The keys are the NIC's, of 32 bits, some of them counted up: it is the domains that tell grants apart.
//! * *The set-up connection stays.* When a process ends its kernel closes it, and the other side knows at once,
//!   however idle; a machine or a network that is lost is noticed within the peer timeout. An agent that hangs
//!   or is stopped is not noticed at all: its NIC goes on serving.
//! * *A failed verb ends its queue pair*, as the standard has it; those posted behind it have no effect or
//!   are not known to have any. The endpoint makes another connection in the background.
//! * A message is a WRITE with immediate data. All clients of a node share one receive queue, with as much room as
//!   the node's inbox has; where there is none the sender's NIC tries again for half of its verb timeout.
//!
//! There is no encryption: whoever can reach the NICs' network can read the data, and whoever can send packets
//! there can pose as a client. Keep others out of it.
//!
//! # libibverbs at run time
//!
//! The library is [opened when it is first needed](libloading), so that building needs Rust and a C linker, and
//! a machine without RDMA an error that says what to install. The crates that bind it either link to it
//! (`rdma-sys`, `ibverbs`) or build a stand-in with CMake and libclang (`rdma-mummy-sys`, and `sideway` on it).
//! So the few dozen functions and structures of its stable interface that are used here are declared by hand, in
//! one file, and every offset, size and constant in it is compared with the C header by a test.
//!
//! # Limits
//!
//! A device counts queue pairs, registered regions and completion queues, and the kernel the memory that is locked
//! (`RLIMIT_MEMLOCK`): a node once for each grant, an endpoint what its buffers take. Each is an error of its own.
//! Every endpoint opens the device for itself, since the doorbells of one opening are shared and locked.
//! On-demand paging, memory windows, extended atomics and shared (XRC) queue pairs are not used. A process that
//! forks while it holds an endpoint or an agent needs a kernel that copies pinned pages on fork (5.12 or newer).

mod abi;
mod agent;
mod device;
mod endpoint;
mod library;
mod memory;
mod options;
mod path;
mod resource;
#[cfg(test)]
mod tests;

pub use crate::net::{ConnectOptions, Posted, ServeOptions};
pub use agent::Agent;
pub use device::DeviceOptions;
pub use endpoint::VerbsEndpoint;
pub use options::{VerbsAgentOptions, VerbsOptions};
