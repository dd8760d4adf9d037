//! The owner's side: memory registered with a NIC, and the queue pairs of its clients.
//!
//! Once a client is set up the agent takes no part in its verbs. One thread waits for the
//! set-up connections, whose end says that a client has gone; the client's queue pair is then
//! destroyed at once. A second one answers [calls], once a client asks for that, unless the
//! application does.

mod calls;
mod messages;
mod owner;
mod pairing;
mod permitted;
mod registration;

use self::calls::CallResponder;
use self::messages::Messages;
use self::owner::Owner;
use self::pairing::Pairing;
use self::registration::Registration;
use super::device::Device;
use super::options::VerbsAgentOptions;
use crate::event_loop::EventLoop;
use crate::memory::{NicClaim, Node};
use crate::net::admission::{Grant, Issued, Secret};
use crate::net::agent::{Server, Workers};
use crate::net::{AgentCounters, Rate};
use crate::{FabricError, Result};
use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// Serves a node's memory by a NIC for as long as it is held. Dropping it closes every connection.
///
/// While it is held the memory is the NIC's: no processor may use it, over shared memory or TCP
/// ([`NicAndProcessor`](crate::FabricError::NicAndProcessor)), since the NIC's atomics are not
/// atomic against a processor's.
pub struct Agent {
    // In this order: the clients' queue pairs go, then what they use, then the claim.
    setup: Server,
    owner: Arc<Owner>,
    _claim: NicClaim,
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("address", &self.address())
            .field("device", &self.device())
            .finish_non_exhaustive()
    }
}

/// One thread is enough for set-up connections, and it has nothing to poll for.
const SETUP: Workers = Workers {
    threads: 1,
    spin: Duration::ZERO,
    // No frame of the set-up is longer.
    frame_bytes: 4096,
    unsent_bytes: 4096,
};

impl Agent {
    /// Registers the memory of a node of this process and serves it. All of the memory is locked:
    /// the limit of locked memory must allow that, once for each grant.
    ///
    /// # Errors
    /// [`NoRdmaDevice`](crate::FabricError::NoRdmaDevice);
    /// [`LockedMemory`](crate::FabricError::LockedMemory);
    /// [`NicAndProcessor`](crate::FabricError::NicAndProcessor) if the memory is served otherwise
    /// as well; [`Unresolvable`](crate::FabricError::Unresolvable),
    /// [`AddressInUse`](crate::FabricError::AddressInUse),
    /// [`Insecure`](crate::FabricError::Insecure);
    /// [`UnknownRegion`](crate::FabricError::UnknownRegion) or
    /// [`BadName`](crate::FabricError::BadName) of a grant; what the system says.
    pub fn start(node: Node, options: &VerbsAgentOptions) -> Result<Self> {
        if options.serve.tls.is_some() {
            return Err(FabricError::BadTls {
                subject: "an agent for RDMA verbs",
                reason: "a NIC does not encrypt what it moves".into(),
            });
        }
        let device = Device::open(&options.device, local_address(&options.serve.listen))?;
        let messages = Messages::new(&node, &device)?;
        let inbox: Weak<Messages> = Arc::downgrade(&messages);
        let claim = node.claim_for_nic(inbox)?;
        messages.make_room()?;
        let owner = Arc::new(Owner {
            node: node.clone(),
            calls: CallResponder::new(&node, &device, options.serve.audit.clone()),
            device,
            messages,
            registrations: Mutex::default(),
            queue_pairs: Mutex::default(),
        });
        let service = Box::new(Pairing(Arc::clone(&owner)));
        let setup = Server::start(node, &options.serve, &SETUP, service, |setup| {
            let mut grants = options.serve.grants.iter();
            grants.try_for_each(|grant| put_in_force(grant, setup, &owner))
        })?;
        owner.calls.tell_by(setup.bell());
        log::info!(
            "{} port {} serves {} regions by RDMA verbs, in pages of {} bytes, set up at {}",
            owner.device.name,
            owner.device.port.number,
            owner.node.info().regions.len(),
            owner.node.info().page_bytes,
            setup.address()
        );
        Ok(Self {
            setup,
            owner,
            _claim: claim,
        })
    }

    /// The address that it listens at for set-up connections, with its port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.setup.address()
    }

    /// The name of the device that it serves by.
    #[must_use]
    pub fn device(&self) -> &str {
        &self.owner.device.name
    }

    /// The node that it serves. Messages are taken from [its inbox](crate::Inbox), as over any
    /// fabric.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.owner.node
    }

    /// Puts a grant in force, with its own keys: the memory is registered once more, with exactly
    /// the grant's rights. A grant of the same name is revoked.
    ///
    /// # Errors
    /// [`Insecure`](crate::FabricError::Insecure);
    /// [`UnknownRegion`](crate::FabricError::UnknownRegion);
    /// [`BadName`](crate::FabricError::BadName) of more than 64 bytes;
    /// [`LockedMemory`](crate::FabricError::LockedMemory); what the system says.
    pub fn grant(&self, grant: &Grant) -> Result<()> {
        put_in_force(grant, &self.setup, &self.owner)?;
        // Clients of the one before are told.
        self.setup.serve_everybody();
        Ok(())
    }

    /// Has these secrets open a grant in force from now on, as
    /// [`tcp::Agent::change_proof`](crate::tcp::Agent::change_proof) does.
    ///
    /// # Errors
    /// [`Insecure`](crate::FabricError::Insecure) without any secret;
    /// [`LockedMemory`](crate::FabricError::LockedMemory); what the system says.
    pub fn change_proof(&self, name: &str, secrets: &[Secret]) -> Result<bool> {
        let issue = |first: &Issued, by| register(first.by(by), &self.owner);
        let Some(issued) = self.setup.reissued(name, secrets, None, issue)? else {
            return Ok(false);
        };
        self.setup.put_in_force(issued);
        self.setup.serve_everybody();
        self.owner.withdraw_revoked();
        Ok(true)
    }

    /// Ends a grant: its keys are void when this returns, and its clients are notified. Returns
    /// `false` if no grant of that name is in force.
    pub fn revoke(&self, name: &str) -> bool {
        let revoked = self.setup.revoke(name);
        // Told first: a client whose verb the NIC refuses finds the reason on its connection.
        self.setup.serve_everybody();
        self.owner.withdraw_revoked();
        revoked
    }

    /// Queue pairs for calls that are open.
    #[cfg(test)]
    pub(super) fn open_calls(&self) -> usize {
        self.owner.calls.open_channels()
    }

    /// The event loop that answers calls, for a thread of the application: they are answered by its
    /// turns while it is held. Set-up connections are the agent's own all the same. Nothing if the
    /// application has it already.
    ///
    /// # Errors
    /// What the system says.
    pub fn event_loop(&self) -> Result<Option<EventLoop<'_>>> {
        self.owner.calls.event_loop()
    }

    /// Whether all of its threads are at work.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.setup.is_serving() && self.owner.calls.is_serving()
    }

    /// Counters of the set-up connections and of calls. Other verbs are executed by the NIC and not
    /// counted.
    #[must_use]
    pub fn counters(&self) -> AgentCounters {
        self.setup.counters()
    }
}

fn put_in_force(grant: &Grant, setup: &Server, owner: &Owner) -> Result<()> {
    let not_enforceable = |reason| FabricError::NotEnforceable {
        grant: grant.name.clone(),
        reason,
    };
    if grant.rate != Rate::UNLIMITED {
        return Err(not_enforceable(
            "the NIC executes verbs, so nobody can hold clients to a rate",
        ));
    }
    if !grant.by_prefix.is_empty() {
        return Err(not_enforceable(
            "keys with a prefix are opened to calls alone, by which an owner writes to no table \
             that a NIC serves",
        ));
    }
    if !grant.tagged.is_empty() {
        return Err(not_enforceable(
            "the NIC executes verbs, and does not look at what memory says of itself",
        ));
    }
    setup.check_proof(grant)?;
    let issued = Issued::all(grant, owner.node.info(), setup.room_of_a_grant())?;
    let issued = issued.into_iter().map(|one| register(one, owner));
    setup.put_in_force(issued.collect::<Result<_>>()?);
    owner.withdraw_revoked();
    Ok(())
}

/// Registers the memory for what is issued: whoever is admitted finds it.
fn register(issued: Issued, owner: &Owner) -> Result<Arc<Issued>> {
    let registration = Registration::new(&owner.node, &owner.device, &issued)?;
    let issued = Arc::new(issued);
    let entry = (Arc::clone(&issued), Arc::new(registration));
    owner.registrations().push(entry);
    Ok(issued)
}

/// The address that is listened at, if it is one of this machine rather than any of them.
fn local_address(listen: &str) -> Option<IpAddr> {
    let mut addresses = listen.to_socket_addrs().ok()?;
    let address = addresses.next()?.ip();
    (!address.is_unspecified()).then_some(address)
}
