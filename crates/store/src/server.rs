//! A process that lends its memory, and does nothing else.

mod ending;
pub(crate) mod grants;
mod keeper;
mod kept;

use self::ending::once_free;
use crate::calls::owner::later::LongCall;
use crate::calls::owner::registry::serve_all;
use crate::calls::owner::service::{CallService, ServedCalls};
use crate::catalog::{Phase, TableRecord, check_size};
use crate::fabrics::region_of;
use crate::{Address, Occupancy, OpenOptions, Result, Store, StoreError, Survey, Sweeper};
use farslot_fabric::tcp::Secret;
use farslot_fabric::tcp::{
    Agent, AgentCounters, AgentOptions, Audit, Clients, Grant, Network, ServeOptions, TlsServer,
};
use farslot_fabric::verbs::{self, VerbsAgentOptions};
use farslot_fabric::{EventLoop, RegionId, Rights, shm};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How memory is served over TCP, where the defaults do not fit. Over shared memory there is
/// nothing to choose: nobody serves, and the kernel knows whose the clients are.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Threads of each address's agent; connections are spread over them.
    pub threads: usize,
    /// How long such a thread goes on looking for verbs before it sleeps. It uses a whole core
    /// meanwhile.
    pub spin: Duration,
    /// What clients must prove that they know: any one of these.
    pub secrets: Vec<Secret>,
    /// Certificates that do instead of a secret, at `tcps://` addresses.
    pub clients: Option<Clients>,
    /// What clients must prove that they know who may only read: those that ask for the grant
    /// [`READ_ONLY`]. Without any there is no such grant.
    pub read_only_secrets: Vec<Secret>,
    /// How `tcps://` addresses prove themselves, and whose certificates clients may prove
    /// themselves by.
    pub tls: Option<TlsServer>,
    /// Networks beyond loopback whose clients need no secret where none is set.
    pub trusted: Vec<Network>,
    /// Whether all networks are trusted so.
    pub insecure: bool,
    /// Where to write down who came, what was refused them, and which grants came and went.
    pub audit: Option<Arc<Audit>>,
    /// Whether tables are to be restored first: clients that come before
    /// [`Server::open_to_clients`] get [`Restoring`](farslot_fabric::FabricError::Restoring),
    /// whatever they ask of the tables.
    pub restoring: bool,
}

impl Default for ServerOptions {
    fn default() -> Self {
        let agent = AgentOptions::default();
        Self {
            threads: agent.threads,
            spin: agent.spin,
            secrets: Vec::new(),
            clients: None,
            read_only_secrets: Vec::new(),
            tls: None,
            trusted: Vec::new(),
            insecure: agent.serve.insecure,
            audit: None,
            restoring: false,
        }
    }
}

/// The name of the grant of clients that name none: it opens everything.
pub const DEFAULT_GRANT: &str = Grant::DEFAULT;

/// The name of the grant to read everything and to write nothing.
pub const READ_ONLY: &str = "read-only";

/// All of a store is in one region.
const REGION: RegionId = RegionId(0);

/// Memory that is served to other processes for as long as this is held. When the process ends,
/// `kill -9` included, every operation of its clients fails, and the memory is gone with the last
/// of them that lets go of it. Over shared memory the process takes no part in any operation; over
/// TCP its agents do, who know nothing of tables either. A thread removes records that have expired
/// ([`Store::sweeper`]).
pub struct Server {
    /// It ends first: it uses the memory.
    sweeper: Arc<Sweeper>,
    // They stop before the memory goes.
    agents: Vec<Agent>,
    nic: Option<verbs::Agent>,
    addresses: Vec<Address>,
    store: Store,
    keeper: Store,
    calls: ServedCalls,
    node: shm::Node,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Serves `bytes` of this process's memory at an address: `shm://NAME`, or `tcp://HOST:PORT`,
    /// `tcps://HOST:PORT` or `verbs://HOST:PORT`, with port 0 for any that is free. What is not
    /// used takes no memory, except where the machine has set enough 2 MiB pages aside: for
    /// `shm://` these are taken at once.
    ///
    /// # Errors
    /// As [`Server::start_with`].
    ///
    /// ```
    /// # use farslot::{Server, Store};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let server = Server::start("tcp://127.0.0.1:0", 64 << 20)?;
    /// // Another process would do the same.
    /// let store = Store::open(&server.addresses()[0].to_string())?;
    /// assert!(store.tables()?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn start(address: &str, bytes: u64) -> Result<Self> {
        Self::start_with(&[address], bytes, &ServerOptions::default())
    }

    /// Serves the same memory at several addresses, at most one of them `shm://NAME`, with options.
    /// Clients of all of them work on the same tables at the same time. Memory at a `verbs://`
    /// address has no other: a NIC's atomics are not atomic against a processor's.
    ///
    /// # Errors
    /// [`StoreError::NotServable`] for other schemes; [`StoreError::BadAddress`] for a second name;
    /// [`NameTaken`](farslot_fabric::FabricError::NameTaken),
    /// [`AddressInUse`](farslot_fabric::FabricError::AddressInUse),
    /// [`Insecure`](farslot_fabric::FabricError::Insecure),
    /// [`Memory`](farslot_fabric::FabricError::Memory), [`StoreError::TooSmall`].
    ///
    /// ```
    /// # use farslot::{Server, ServerOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// // At two addresses at once: programs on this machine take the shorter way.
    /// let options = ServerOptions {
    ///     threads: 2,
    ///     ..ServerOptions::default()
    /// };
    /// let addresses = ["shm://farslot-doc-start-with", "tcp://127.0.0.1:0"];
    /// let server = Server::start_with(&addresses, 64 << 20, &options)?;
    /// assert_eq!(server.addresses().len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_with(addresses: &[&str], bytes: u64, options: &ServerOptions) -> Result<Self> {
        let parsed = checked(addresses, bytes, options)?;
        let regions = [region_of(bytes)];
        let prepare = |node: &shm::Node| match options.restoring {
            true => Store::of_node(Address::Embedded, node.clone()).begin_phase(Phase::Restoring),
            false => Ok(()),
        };
        let node = match name_in(&parsed) {
            Some(name) => shm::Node::serve_prepared(name, &regions, prepare)?,
            None => {
                let node = shm::Node::embedded(&regions)?;
                prepare(&node)?;
                node
            }
        };
        Self::of_node(parsed, node, options)
    }

    /// Serves a node at all of these addresses but the name, at which it is served.
    fn of_node(mut parsed: Vec<Address>, node: shm::Node, options: &ServerOptions) -> Result<Self> {
        let by_nic = matches!(parsed[0], Address::Verbs { .. });
        let service = match by_nic {
            true => CallService::beside_nic(node.downgrade()),
            false => CallService::of_node(node.downgrade()),
        };
        let calls = ServedCalls::new(Arc::clone(&service));
        // No two servers of one memory number their sessions alike.
        let first_session = rand::random::<u64>() >> 8;
        node.serve_calls(Arc::new(serve_all(service, first_session)));
        let grants = grants_to_all(
            &node,
            &options.secrets,
            options.clients.as_ref(),
            &options.read_only_secrets,
        );
        let serve = |listen: &str, tls| serve_options(listen, tls, &grants, options);
        let mut agents = Vec::new();
        let mut nic = None;
        for address in &mut parsed {
            match address {
                Address::Tcp { tls, authorities } => {
                    let agent_options = AgentOptions {
                        serve: serve(&authorities[0], *tls),
                        threads: options.threads,
                        spin: options.spin,
                        ..AgentOptions::default()
                    };
                    let agent = once_free(&node, || Agent::start(node.clone(), &agent_options))?;
                    set_port(&mut authorities[0], agent.address().port());
                    agents.push(agent);
                }
                Address::Verbs {
                    authorities,
                    device,
                } => {
                    let agent = verbs::Agent::start(
                        node.clone(),
                        &VerbsAgentOptions {
                            serve: serve(&authorities[0], false),
                            device: device.clone(),
                        },
                    )?;
                    set_port(&mut authorities[0], agent.address().port());
                    nic = Some(agent);
                }
                Address::Embedded | Address::Shm { .. } | Address::Sim { .. } => {}
            }
        }
        let open = || match &nic {
            None => Ok(Store::of_node(parsed[0].clone(), node.clone())),
            // No processor may touch what the NIC's atomics do.
            Some(_) => {
                let options = OpenOptions {
                    secret: options.secrets.first().cloned(),
                    ..OpenOptions::default()
                };
                Store::open_with(&parsed[0].to_string(), options)
            }
        };
        let (store, keeper) = (open()?, open()?.for_keeper()?);
        let sweeper = store.sweeper()?;
        Ok(Self {
            sweeper,
            agents,
            nic,
            store,
            keeper,
            addresses: parsed,
            calls,
            node,
        })
    }

    /// Refuses what [`Server::start_with`] would refuse, as far as that shows without serving: it
    /// takes no memory, listens nowhere, and uses no device.
    ///
    /// # Errors
    /// As [`Server::start_with`]; [`Unresolvable`](farslot_fabric::FabricError::Unresolvable).
    ///
    /// ```
    /// # use farslot::{Server, ServerOptions};
    /// // Other machines reach it, and clients would have to prove nothing.
    /// let addresses = ["tcp://0.0.0.0:7000"];
    /// assert!(Server::check(&addresses, 64 << 20, &ServerOptions::default()).is_err());
    /// let options = ServerOptions {
    ///     trusted: vec!["10.0.0.0/8".parse().unwrap()],
    ///     ..ServerOptions::default()
    /// };
    /// Server::check(&addresses, 64 << 20, &options).unwrap();
    /// ```
    pub fn check(addresses: &[&str], bytes: u64, options: &ServerOptions) -> Result<()> {
        let to_all = [grant_to_all(&options.secrets, options.clients.as_ref())];
        for address in checked(addresses, bytes, options)? {
            match address {
                Address::Tcp { tls, authorities } => AgentOptions {
                    serve: serve_options(&authorities[0], tls, &to_all, options),
                    threads: options.threads,
                    ..AgentOptions::default()
                }
                .check()?,
                Address::Verbs { authorities, .. } => {
                    serve_options(&authorities[0], false, &to_all, options).check()?;
                }
                Address::Embedded | Address::Shm { .. } | Address::Sim { .. } => {}
            }
        }
        Ok(())
    }

    fn put_in_force(&self, grant: &Grant) -> Result<()> {
        for agent in &self.agents {
            agent.grant(&grant_at(grant, agent.is_tls()))?;
        }
        if let Some(nic) = &self.nic {
            nic.grant(grant)?;
        }
        Ok(())
    }

    /// Has these secrets and certificates open everything from now on, and the others reading
    /// everything, each instead of those that did. Clients that came by one that stays notice
    /// nothing; those that came by another are refused, disconnected, and connect anew with one
    /// that is valid.
    ///
    /// # Errors
    /// As [`Server::start_with`] says of grants;
    /// [`Insecure`](farslot_fabric::FabricError::Insecure) if nothing is to be proved any more.
    pub fn change_proofs(
        &self,
        all: &[Secret],
        clients: Option<&Clients>,
        read_only: &[Secret],
    ) -> Result<()> {
        let node = match (self.agents.first(), &self.nic) {
            (Some(agent), _) => agent.node(),
            (None, Some(nic)) => nic.node(),
            (None, None) => return Ok(()),
        };
        for grant in grants_to_all(node, all, clients, read_only) {
            if !self.change_proof(&grant.name, &grant.secrets, grant.clients.as_ref())? {
                self.put_in_force(&grant)?;
            }
        }
        if read_only.is_empty() {
            self.revoke(READ_ONLY);
        }
        Ok(())
    }

    /// Has these secrets and certificates open a grant in force from now on, instead of those that
    /// did. Returns `false` if no grant of that name is in force.
    ///
    /// # Errors
    /// As [`Agent::change_proof`].
    pub fn change_proof(
        &self,
        name: &str,
        secrets: &[Secret],
        clients: Option<&Clients>,
    ) -> Result<bool> {
        let mut changed = false;
        for agent in &self.agents {
            let clients = clients.filter(|_| agent.is_tls() || secrets.is_empty());
            changed |= agent.change_proof(name, secrets, clients)?;
        }
        if let Some(nic) = &self.nic {
            changed |= nic.change_proof(name, secrets)?;
        }
        Ok(changed)
    }

    /// Has `tcps://` addresses prove themselves so to those who connect from now on. If another
    /// client authority is trusted, those who were admitted by certificates have to come again.
    ///
    /// # Errors
    /// As [`Agent::change_tls`].
    pub fn change_tls(&self, tls: &TlsServer) -> Result<()> {
        let mut under_tls = self.agents.iter().filter(|agent| agent.is_tls());
        Ok(under_tls.try_for_each(|agent| agent.change_tls(tls))?)
    }

    /// Ends a grant: verbs of its clients that are begun after this returned are refused. False if
    /// there is none in force by that name.
    pub fn revoke(&self, name: &str) -> bool {
        // Of every agent, not only of the first that has it.
        let over_tcp = self.agents.iter().map(|agent| agent.revoke(name));
        let revoked = over_tcp.chain(self.nic.iter().map(|nic| nic.revoke(name)));
        revoked.fold(false, std::ops::BitOr::bitor)
    }

    /// The served store, as this process uses it itself: without any connection, unless a NIC
    /// serves it.
    ///
    /// ```
    /// # use farslot::{Server, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let server = Server::start("shm://farslot-doc-store", 64 << 20)?;
    /// server.store().create("stock", &TableOptions::default())?;
    /// let table = &server.store().tables()?[0];
    /// assert_eq!(server.occupancy(table)?.entries, 0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Where it is served, in the order given; a port that was free has its number.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// What was counted at each address that a network reaches, in the order of the addresses. Over
    /// shared memory and RDMA verbs no processor sees the verbs: there only clients are counted, of
    /// RDMA verbs.
    #[must_use]
    pub fn counters(&self) -> Vec<(&Address, AgentCounters)> {
        let mut agents = self.agents.iter();
        let counters = self.addresses.iter().map(|address| {
            let counters = match address {
                Address::Tcp { .. } => agents.next().map(Agent::counters),
                Address::Verbs { .. } => self.nic.as_ref().map(verbs::Agent::counters),
                Address::Embedded | Address::Shm { .. } | Address::Sim { .. } => None,
            };
            Some((address, counters?))
        });
        counters.flatten().collect()
    }

    /// How many calls to tables did not end in their turn so far, by the reason: the node goes on
    /// with them beside others, and answers later. `many`: the call had more than a turn is for.
    /// `long`: single operations took the turn, as chains are long or the heap is cleaned; the log
    /// names the table and the grant. `waits`: an operation would have had to wait.
    #[must_use]
    pub fn later_calls(&self) -> [(&'static str, u64); 3] {
        self.calls.later().counts()
    }

    /// The last calls that did not end in their turn because single operations took it, the
    /// latest first: at most 128.
    #[must_use]
    pub fn long_calls(&self) -> Vec<LongCall> {
        self.calls.later().long()
    }

    /// Whether every address is served: no thread of an agent has panicked.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        let mut nic = self.nic.iter();
        self.agents.iter().all(Agent::is_serving) && nic.all(verbs::Agent::is_serving)
    }

    /// The event loop of one of the server's threads, for a thread of the program: while it is
    /// held, its turns serve the clients of that thread. At `verbs://` and `shm://` addresses these
    /// are their calls. Nothing if the program has all of them already.
    ///
    /// # Errors
    /// What the system says.
    pub fn event_loop(&self) -> Result<Option<EventLoop<'_>>> {
        if let Some(taken) = self.agents.iter().find_map(Agent::event_loop) {
            return Ok(Some(taken));
        }
        Ok(match &self.nic {
            Some(nic) => nic.event_loop()?,
            None => self.node.event_loop()?,
        })
    }

    /// What a table of the catalog holds, or the part of one that lies here, as its clients have
    /// counted it.
    ///
    /// # Errors
    /// [`NotBuilt`](farslot_index::IndexError::NotBuilt); that the table was changed since its
    /// record was read; what the fabric says.
    pub fn occupancy(&self, of: &TableRecord) -> Result<Occupancy> {
        self.store.own_part(of)?.occupancy()
    }

    /// A look at every slot of a table of the catalog, or of the part of one that lies here, for
    /// any thread to take: it outlives the server. It fails as [`Server::occupancy`] does.
    pub fn surveyor(
        &self,
        of: &TableRecord,
    ) -> impl FnOnce() -> Result<Survey> + Send + 'static + use<> {
        let (store, of) = (self.store.clone(), of.clone());
        move || store.own_part(&of)?.survey()
    }

    /// How many records were removed because they had expired.
    #[must_use]
    pub fn expired(&self) -> u64 {
        self.sweeper.removed()
    }

    /// Those who serve it over TCP.
    #[must_use]
    pub fn agents(&self) -> &[Agent] {
        &self.agents
    }
}

/// The grants that open all tables: everything, and where there is a secret for that, to read
/// everything.
fn grants_to_all(
    node: &shm::Node,
    all: &[Secret],
    clients: Option<&Clients>,
    read_only: &[Secret],
) -> Vec<Grant> {
    let everything = grant_to_all(all, clients);
    let limited = (!read_only.is_empty()).then(|| Grant {
        secrets: read_only.into(),
        ..Grant::limited(READ_ONLY, None, node.info(), Rights::READ)
    });
    std::iter::once(everything).chain(limited).collect()
}

/// The grant to do everything.
fn grant_to_all(secrets: &[Secret], clients: Option<&Clients>) -> Grant {
    Grant {
        secrets: secrets.into(),
        clients: clients.cloned(),
        ..Grant::everything(None)
    }
}

/// How one address is served.
fn serve_options(
    listen: &str,
    tls: bool,
    grants: &[Grant],
    options: &ServerOptions,
) -> ServeOptions {
    ServeOptions {
        listen: listen.into(),
        grants: grants.iter().map(|grant| grant_at(grant, tls)).collect(),
        tls: options.tls.clone().filter(|_| tls),
        trusted: options.trusted.clone(),
        insecure: options.insecure,
        audit: options.audit.clone(),
        ..ServeOptions::default()
    }
}

/// The name among addresses.
fn name_in(addresses: &[Address]) -> Option<&str> {
    addresses.iter().find_map(|address| match address {
        Address::Shm { names } => names.first().map(String::as_str),
        _ => None,
    })
}

/// The addresses, if memory of this size can be served at all of them.
fn checked(addresses: &[&str], bytes: u64, options: &ServerOptions) -> Result<Vec<Address>> {
    let mut parsed = Vec::with_capacity(addresses.len());
    let mut name = None;
    for text in addresses {
        let address: Address = text.parse()?;
        let bad = |reason: String| StoreError::BadAddress {
            address: (*text).into(),
            reason,
        };
        match &address {
            Address::Tcp { tls, authorities } if authorities.len() == 1 => {
                if *tls && options.tls.is_none() {
                    return Err(bad("there is no certificate to serve it with".into()));
                }
            }
            Address::Verbs { authorities, .. } if authorities.len() == 1 => {
                if addresses.len() > 1 {
                    let reason = "memory that a NIC serves can have no other address";
                    return Err(bad(reason.into()));
                }
            }
            Address::Shm { names } if names.len() == 1 => {
                if let Some(name) = name.replace(names[0].clone()) {
                    return Err(bad(format!("the memory has the name {name:?} already")));
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
    Ok(parsed)
}

/// A grant as an agent can give it: without TLS, clients with a certificate need a secret as well.
/// One that only certificates open is refused there.
fn grant_at(grant: &Grant, tls: bool) -> Grant {
    let mut grant = grant.clone();
    if !tls && !grant.secrets.is_empty() {
        grant.clients = None;
    }
    grant
}

/// Puts the port that was chosen in place of any.
fn set_port(authority: &mut String, port: u16) {
    if let Some(host) = authority.strip_suffix(":0") {
        *authority = format!("{host}:{port}");
    }
}

fn not_servable(address: &str) -> StoreError {
    StoreError::NotServable {
        address: address.into(),
    }
}
