//! The options of RDMA verbs beyond those that TCP has as well.

use super::device::DeviceOptions;
use crate::net::{ConnectOptions, ServeOptions};

/// How an [`Agent`](super::Agent) serves.
#[derive(Clone, Default, Debug)]
pub struct VerbsAgentOptions {
    /// Where it listens for the set-up connections of clients, and which clients it accepts.
    pub serve: ServeOptions,
    /// The device to serve by.
    pub device: DeviceOptions,
}

/// How a [`VerbsEndpoint`](super::VerbsEndpoint) connects.
#[derive(Clone, Debug)]
pub struct VerbsOptions {
    /// How the set-up connections are made, and what the endpoint may hold.
    pub connect: ConnectOptions,
    /// The device to connect by; the same for all nodes.
    pub device: DeviceOptions,
    /// Payloads of writes up to this many bytes travel in the request itself, where the device
    /// allows it.
    pub inline_bytes: u32,
}

impl Default for VerbsOptions {
    fn default() -> Self {
        Self {
            connect: ConnectOptions::default(),
            device: DeviceOptions::default(),
            inline_bytes: 128,
        }
    }
}

impl From<ServeOptions> for VerbsAgentOptions {
    fn from(serve: ServeOptions) -> Self {
        Self {
            serve,
            ..Self::default()
        }
    }
}

impl From<ConnectOptions> for VerbsOptions {
    fn from(connect: ConnectOptions) -> Self {
        Self {
            connect,
            ..Self::default()
        }
    }
}
