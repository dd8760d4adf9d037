//! The memory of a store, as each fabric holds it.

use crate::catalog::check_size;
use crate::error::bad_option;
use crate::profile::nic_profile;
use crate::{Address, OpenOptions, Result, StoreError};
use farslot_fabric::shm::{self, RegionSpec, ShmEndpoint};
use farslot_fabric::sim::World;
use farslot_fabric::tcp::{ConnectOptions, TcpEndpoint};
use farslot_fabric::verbs::{VerbsEndpoint, VerbsOptions};
use farslot_fabric::{AnyEndpoint, Endpoint, FabricError, Limits, Rights};
use std::sync::{Mutex, PoisonError};

/// The memory, as each fabric holds it.
pub(crate) enum Fabric {
    Shm(MappedNodes),
    Tcp(Box<RemoteNodes<TcpEndpoint>>),
    Verbs(Box<RemoteNodes<VerbsEndpoint>>),
    Sim(World),
}

/// An endpoint that connects to where nodes are served.
pub(crate) trait Connect: Endpoint + Sized {
    type Options;

    /// Connects to all nodes, of which some may be down.
    fn connect(authorities: &[String], options: &Self::Options) -> farslot_fabric::Result<Self>;
}

impl Connect for TcpEndpoint {
    type Options = ConnectOptions;

    fn connect(authorities: &[String], options: &ConnectOptions) -> farslot_fabric::Result<Self> {
        Self::connect_available(authorities, options)
    }
}

impl Connect for VerbsEndpoint {
    type Options = VerbsOptions;

    fn connect(authorities: &[String], options: &VerbsOptions) -> farslot_fabric::Result<Self> {
        Self::connect_available(authorities, options)
    }
}

/// Nodes behind a network: each endpoint has connections of its own.
pub(crate) struct RemoteNodes<E: Connect> {
    authorities: Vec<String>,
    options: E::Options,
}

impl<E: Connect> RemoteNodes<E> {
    /// Connects once, so that whoever opens a store learns whether he can.
    fn new(authorities: &[String], options: E::Options) -> Result<Self> {
        E::connect(authorities, &options)?;
        Ok(Self {
            authorities: authorities.into(),
            options,
        })
    }

    /// An endpoint of the nodes that are served there now.
    pub(crate) fn endpoint(&self) -> Result<E> {
        Ok(E::connect(&self.authorities, &self.options)?)
    }
}

/// Nodes whose memory is mapped into this process.
pub(crate) struct MappedNodes {
    nodes: Mutex<Vec<shm::Node>>,
    /// What they are served under, and how they are used; an embedded one has no name.
    names: Vec<String>,
    rights: Rights,
}

impl MappedNodes {
    fn attached(names: &[String], rights: Rights) -> Result<Self> {
        let nodes = names.iter().map(|name| shm::attach(name, rights));
        Ok(Self {
            nodes: Mutex::new(nodes.collect::<farslot_fabric::Result<Vec<_>>>()?),
            names: names.into(),
            rights,
        })
    }

    /// The nodes that are served there now; of one that has gone, and that nobody serves again, the
    /// memory that it had.
    pub(crate) fn nodes(&self) -> Vec<shm::Node> {
        let nodes = || self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let known = nodes().clone();
        for (number, name) in self.names.iter().enumerate() {
            // While this is tried, which may take seconds, others go on.
            if known[number].is_gone()
                && let Ok(back) = shm::attach(name, self.rights)
            {
                nodes()[number] = back;
            }
        }
        nodes().clone()
    }
}

/// Bytes of an embedded store: address space, of which only what is used becomes memory.
fn embedded_bytes() -> u64 {
    shm::available_memory() / 2
}

pub(crate) fn region_of(bytes: u64) -> RegionSpec {
    RegionSpec {
        len: bytes,
        rights: Rights::ALL,
    }
}

/// Refuses simulated memory that the machine does not have.
fn check_machine(bytes: u64) -> Result<()> {
    let limit = shm::available_memory();
    if bytes <= limit {
        return Ok(());
    }
    Err(StoreError::Fabric(FabricError::Memory {
        requested: bytes,
        limit,
    }))
}

impl Fabric {
    /// Whether a round trip to the memory crosses a real network.
    pub(crate) const fn is_networked(&self) -> bool {
        matches!(self, Self::Tcp(_) | Self::Verbs(_))
    }

    /// A new endpoint, whatever the fabric is.
    pub(crate) fn endpoint(&self, limits: Limits) -> Result<AnyEndpoint> {
        Ok(match self {
            Self::Shm(nodes) => AnyEndpoint::Shm(ShmEndpoint::new(nodes.nodes(), limits)),
            Self::Tcp(nodes) => AnyEndpoint::Tcp(nodes.endpoint()?),
            Self::Verbs(nodes) => AnyEndpoint::Verbs(nodes.endpoint()?),
            Self::Sim(world) => AnyEndpoint::Sim(world.endpoint(limits)),
        })
    }

    /// A node of this process.
    pub(crate) fn mapped(node: shm::Node) -> Self {
        Self::Shm(MappedNodes {
            rights: Rights::ALL,
            nodes: Mutex::new(vec![node]),
            names: Vec::new(),
        })
    }

    /// So many bytes of this process.
    pub(crate) fn embedded(bytes: u64) -> Result<Self> {
        check_size(bytes)?;
        let node = shm::Node::embedded(&[region_of(bytes)])?;
        Ok(Self::mapped(node))
    }

    /// What there is at an address, which `text` is.
    pub(crate) fn open(address: &Address, text: &str, options: &OpenOptions) -> Result<Self> {
        if let Some(bytes) = options.memory
            && *address != Address::Embedded
        {
            let limit = "for the address \"embedded\": others have what is served there";
            return Err(bad_option("memory", bytes, limit));
        }
        match address {
            Address::Embedded => Self::embedded(options.memory.unwrap_or_else(embedded_bytes)),
            Address::Shm { names } => {
                let nodes = MappedNodes::attached(names, options.rights)?;
                Ok(Self::Shm(nodes))
            }
            Address::Tcp { tls, authorities } => {
                let connect = match tls {
                    false => options.connect(),
                    true => options.connect_under_tls(text)?,
                };
                let nodes = RemoteNodes::new(authorities, connect)?;
                Ok(Self::Tcp(Box::new(nodes)))
            }
            Address::Verbs {
                authorities,
                device,
            } => {
                let nodes = RemoteNodes::new(authorities, options.verbs(device))?;
                Ok(Self::Verbs(Box::new(nodes)))
            }
            Address::Sim {
                profile,
                seed,
                memory,
                nodes,
            } => {
                let profile = nic_profile(profile).map_err(|error| StoreError::BadAddress {
                    address: text.into(),
                    reason: error.to_string(),
                })?;
                let bytes = memory.unwrap_or(256 << 20);
                check_size(bytes)?;
                check_machine(bytes.saturating_mul(u64::from(*nodes)))?;
                let world = World::new(*seed, profile);
                for _ in 0..*nodes {
                    world.add_node(&[(bytes, options.rights)]);
                }
                Ok(Self::Sim(world))
            }
        }
    }
}
