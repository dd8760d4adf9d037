//! RDMA verbs: other machines, by their NICs (InfiniBand and RoCE).

mod abi;
mod agent;
mod device;
mod endpoint;
mod library;
mod memory;
mod options;
mod path;
mod resource;

pub use agent::Agent;
pub use device::DeviceOptions;
pub use endpoint::{VerbsEndpoint, VerbsPosted};
pub use options::{VerbsAgentOptions, VerbsOptions};
