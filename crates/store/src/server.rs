//! A process that lends its memory, and does nothing else.

use crate::fabrics::{check_size, region_of};
use crate::{Address, Result, Secret, Store, StoreError};
use farslot_fabric::shm;
use farslot_fabric::tcp::{Agent, AgentOptions, Grant};
use std::time::Duration;

/// How memory is served over TCP, where the defaults do not fit. Over shared memory there is nothing to
/// choose: nobody serves, and the kernel knows whose the clients are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerOptions {
    /// Threads of each address's agent; connections are spread over them.
    pub threads: usize,
    /// How long such a thread goes on looking for verbs before it sleeps. It uses a whole core meanwhile.
    pub spin: Duration,
    /// What clients must prove that they know.
    pub secret: Option<Secret>,
    /// Whether an address that other machines can reach may be served without a secret.
    pub insecure: bool,
}

impl Default for ServerOptions {
    fn default() -> Self {
        let agent = AgentOptions::default();
        Self {
            threads: agent.threads,
            spin: agent.spin,
            secret: None,
            insecure: agent.insecure,
        }
    }
}

/// Memory that is served to other processes for as long as this is held. When the process ends, `kill -9`
/// included, every operation of its clients fails, and the memory is gone with the last of them that lets
/// go of it. Over shared memory the process takes no part in any operation; over TCP its agents do, who
/// know nothing of tables either.
pub struct Server {
    // They stop before the memory goes.
    agents: Vec<Agent>,
    addresses: Vec<Address>,
    store: Store,
}

impl Server {
    /// Serves `bytes` of this process's memory at an address: `shm://NAME`, or `tcp://HOST:PORT`, with port 0
    /// for any that is free. What is not used takes no memory, except where the machine has set enough 2 MiB
    /// pages aside: for `shm://` these are taken at once.
    ///
    /// # Errors
    /// As [`Server::start_with`].
    pub fn start(address: &str, bytes: u64) -> Result<Self> {
        Self::start_with(&[address], bytes, &ServerOptions::default())
    }

    /// Serves the same memory at several addresses, at most one of them `shm://NAME`, with options. Clients
    /// of all of them work on the same tables at the same time.
    ///
    /// # Errors
    /// [`StoreError::NotServable`] for other schemes; [`StoreError::BadAddress`] for a second name;
    /// [`NameTaken`](farslot_fabric::FabricError::NameTaken),
    /// [`AddressInUse`](farslot_fabric::FabricError::AddressInUse),
    /// [`Insecure`](farslot_fabric::FabricError::Insecure),
    /// [`Memory`](farslot_fabric::FabricError::Memory), [`StoreError::TooSmall`].
    pub fn start_with(addresses: &[&str], bytes: u64, options: &ServerOptions) -> Result<Self> {
        let mut parsed = Vec::with_capacity(addresses.len());
        let mut name = None;
        for text in addresses {
            let address: Address = text.parse()?;
            match &address {
                Address::Tcp { authorities } if authorities.len() == 1 => {}
                Address::Shm { names } if names.len() == 1 => {
                    if let Some(name) = name.replace(names[0].clone()) {
                        return Err(StoreError::BadAddress {
                            address: (*text).into(),
                            reason: format!("the memory has the name {name:?} already"),
                        });
                    }
                }
                _ => return Err(not_servable(text)),
            }
            parsed.push(address);
        }
        if parsed.is_empty() {
            return Err(not_servable(""));
        }
        check_size(bytes)?;
        let regions = [region_of(bytes)];
        let node = match &name {
            Some(name) => shm::Node::serve(name, &regions)?,
            None => shm::Node::embedded(&regions)?,
        };
        let mut agents = Vec::new();
        for address in &mut parsed {
            let Address::Tcp { authorities } = address else {
                continue;
            };
            let authority = &mut authorities[0];
            let agent = Agent::start(
                node.clone(),
                &AgentOptions {
                    listen: authority.clone(),
                    threads: options.threads,
                    spin: options.spin,
                    grants: vec![Grant::everything(options.secret.clone())],
                    insecure: options.insecure,
                    ..AgentOptions::default()
                },
            )?;
            if let Some(host) = authority.strip_suffix(":0") {
                *authority = format!("{host}:{}", agent.address().port());
            }
            agents.push(agent);
        }
        Ok(Self {
            agents,
            store: Store::of_node(parsed[0].clone(), node),
            addresses: parsed,
        })
    }

    /// The served store, as this process uses it itself: without any connection.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Where it is served, in the order given; a port that was free has its number.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Those who serve it over TCP.
    #[must_use]
    pub fn agents(&self) -> &[Agent] {
        &self.agents
    }
}

fn not_servable(address: &str) -> StoreError {
    StoreError::NotServable {
        address: address.into(),
    }
}
