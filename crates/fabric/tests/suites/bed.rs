//! The fabrics that serve the memory of a node, for tests of what they do alike.

use crate::authority::Authority;
use farslot_fabric::shm::{self, Node, RegionSpec, ShmEndpoint};
use farslot_fabric::tcp::{
    self, AgentCounters, AgentOptions, ConnectOptions, Grant, Secret, ServeOptions, TcpEndpoint,
    TlsClient, TlsServer, Trust,
};
use farslot_fabric::verbs::{self, VerbsAgentOptions, VerbsEndpoint, VerbsOptions};
use farslot_fabric::*;
use socket2::{Domain, Socket, Type};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

/// A way to reach nodes of this process.
pub trait Fabric {
    /// Its endpoints.
    type Endpoint: Endpoint;

    /// A node that it can reach.
    fn node(len: u64, rights: Rights) -> Node {
        node(len, rights)
    }

    /// An executor whose endpoint is connected to the nodes, numbered in this order.
    fn executor(nodes: &[&Node], limits: Limits) -> Executor<Self::Endpoint>;
}

/// A fabric by which an agent serves a node to whoever connects.
pub trait Network: Fabric {
    /// Serves for as long as it is held.
    type Agent: Send + Sync;

    /// Another way to the same memory, at the same time.
    type Beside: Endpoint;

    /// What the environment of a second process calls it.
    const NAME: &'static str;

    /// A verb takes about this many times as long as over the loopback's TCP.
    const SLOWNESS: u64;

    /// Serves a node; under TLS where the network has that.
    fn serve_with(node: &Node, serve: ServeOptions) -> Self::Agent;

    /// Serves a node at an address of this machine.
    fn serve(node: &Node, listen: &str, grants: Vec<Grant>) -> Self::Agent {
        let serve = ServeOptions {
            listen: listen.into(),
            grants,
            ..ServeOptions::default()
        };
        Self::serve_with(node, serve)
    }

    fn address(agent: &Self::Agent) -> SocketAddr;

    fn counters(agent: &Self::Agent) -> AgentCounters;

    /// How many clients the agent has refused.
    fn refused(agent: &Self::Agent) -> u64 {
        Self::counters(agent).refused
    }

    fn grant(agent: &Self::Agent, grant: &Grant);

    fn revoke(agent: &Self::Agent, name: &str) -> bool;

    /// An endpoint that is connected to agents; if `available`, to those that there are.
    fn connect(addresses: &[String], asking: &Asking, available: bool) -> Result<Self::Endpoint>;

    /// How many of `full` repetitions are worth their time.
    fn cases(full: u64) -> u64 {
        full.div_ceil(Self::SLOWNESS)
    }

    /// A client as different from those of [`Network::connect`] as there can be.
    fn beside(node: &Node, agent: &Self::Agent) -> Executor<Self::Beside>;
}

/// As whom, and how patiently, a client connects.
#[derive(Clone)]
pub struct Asking {
    pub grant: String,
    pub secret: Option<Secret>,
    pub limits: Limits,
}

impl Default for Asking {
    /// Long enough for machines that have other things to do.
    fn default() -> Self {
        Self {
            grant: Grant::DEFAULT.into(),
            secret: None,
            limits: Limits {
                verb_timeout: PATIENT,
                ..Limits::default()
            },
        }
    }
}

/// How long a verb may take that is not meant to fail.
pub const PATIENT: Nanos = 20_000_000_000;

pub fn node(len: u64, rights: Rights) -> Node {
    Node::embedded(&[RegionSpec { len, rights }]).unwrap()
}

pub fn at(offset: u64) -> RemoteAddr {
    RemoteAddr {
        node: NodeId(0),
        region: RegionId(0),
        offset,
    }
}

/// A node of this process that is served to everybody.
pub fn served<N: Network>(len: u64) -> (Node, N::Agent) {
    let node = node(len, Rights::ALL);
    let agent = N::serve(&node, "127.0.0.1:0", vec![Grant::everything(None)]);
    (node, agent)
}

pub fn client<N: Network>(agent: &N::Agent) -> Executor<N::Endpoint> {
    client_as::<N>(agent, &Asking::default())
}

pub fn client_as<N: Network>(agent: &N::Agent, asking: &Asking) -> Executor<N::Endpoint> {
    let address = N::address(agent).to_string();
    Executor::new(Rc::new(N::connect(&[address], asking, false).unwrap()))
}

/// An address at which nobody listens, and what keeps it from all but a test that listens there
/// itself.
pub fn nobody() -> (Socket, String) {
    let held = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    // One that listens may share it then.
    held.set_reuse_address(true).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    held.bind(&any.into()).unwrap();
    let address = held.local_addr().unwrap().as_socket().unwrap().to_string();
    (held, address)
}

/// Waits until it is so.
pub fn wait_until(condition: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < until, "never: {condition}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Serves nodes of this process until the test ends, and connects to them.
fn executor_of<N: Network>(nodes: &[&Node], limits: Limits) -> Executor<N::Endpoint>
where
    N::Agent: 'static,
{
    thread_local! {
        /// The agents of the test on this thread.
        static AGENTS: RefCell<Vec<Box<dyn std::any::Any>>> = const { RefCell::new(Vec::new()) };
    }
    let serve = |node: &&Node| {
        let agent = N::serve(node, "127.0.0.1:0", vec![Grant::everything(None)]);
        let address = N::address(&agent).to_string();
        AGENTS.with_borrow_mut(|agents| agents.push(Box::new(agent)));
        address
    };
    let addresses: Vec<_> = nodes.iter().map(serve).collect();
    let asking = Asking {
        limits,
        ..Asking::default()
    };
    Executor::new(Rc::new(N::connect(&addresses, &asking, false).unwrap()))
}

/// The processes' own loads and stores.
pub struct Shm;

impl Fabric for Shm {
    type Endpoint = ShmEndpoint;

    fn executor(nodes: &[&Node], limits: Limits) -> Executor<ShmEndpoint> {
        let nodes = nodes.iter().map(|node| (*node).clone()).collect();
        Executor::new(Rc::new(ShmEndpoint::new(nodes, limits)))
    }
}

/// Shared memory as another process has it: attached, by name.
pub struct Attached;

/// The names of nodes that are served, by their incarnations.
static NAMES: Mutex<BTreeMap<u64, String>> = Mutex::new(BTreeMap::new());

impl Fabric for Attached {
    type Endpoint = ShmEndpoint;

    fn node(len: u64, rights: Rights) -> Node {
        let mut names = NAMES.lock().unwrap();
        let name = format!("attached-{}-{}", std::process::id(), names.len());
        let node = Node::serve(&name, &[RegionSpec { len, rights }]).unwrap();
        names.insert(node.info().incarnation, name);
        node
    }

    fn executor(nodes: &[&Node], limits: Limits) -> Executor<ShmEndpoint> {
        let names = NAMES.lock().unwrap();
        let names = nodes.iter().map(|node| &names[&node.info().incarnation]);
        let nodes = names.map(|name| shm::attach(name, Rights::ALL).unwrap());
        Executor::new(Rc::new(ShmEndpoint::new(nodes.collect(), limits)))
    }
}

/// TCP, or TCP under TLS with certificates of an authority of this process.
pub struct OverTcp<const TLS: bool>;

pub type Tcp = OverTcp<false>;
pub type Tls = OverTcp<true>;

/// Who has made all certificates of these tests.
fn authority() -> &'static Authority {
    static AUTHORITY: LazyLock<Authority> = LazyLock::new(Authority::new);
    &AUTHORITY
}

impl<const TLS: bool> Fabric for OverTcp<TLS> {
    type Endpoint = TcpEndpoint;

    fn executor(nodes: &[&Node], limits: Limits) -> Executor<TcpEndpoint> {
        executor_of::<Self>(nodes, limits)
    }
}

impl<const TLS: bool> Network for OverTcp<TLS> {
    type Agent = tcp::Agent;
    type Beside = ShmEndpoint;

    const NAME: &'static str = if TLS { "tls" } else { "tcp" };
    const SLOWNESS: u64 = if TLS { 2 } else { 1 };

    fn serve_with(node: &Node, serve: ServeOptions) -> tcp::Agent {
        let certified = || {
            let own = authority().issue(&["127.0.0.1"]);
            TlsServer::new(own.pem(), own.key(), None).unwrap()
        };
        let serve = ServeOptions {
            tls: TLS.then(certified),
            ..serve
        };
        let options = AgentOptions {
            serve,
            threads: 2,
            ..AgentOptions::default()
        };
        tcp::Agent::start(node.clone(), &options).unwrap()
    }

    fn address(agent: &tcp::Agent) -> SocketAddr {
        agent.address()
    }

    fn counters(agent: &tcp::Agent) -> AgentCounters {
        agent.counters()
    }

    fn grant(agent: &tcp::Agent, grant: &Grant) {
        agent.grant(grant).unwrap();
    }

    fn revoke(agent: &tcp::Agent, name: &str) -> bool {
        agent.revoke(name)
    }

    fn connect(addresses: &[String], asking: &Asking, available: bool) -> Result<TcpEndpoint> {
        let trusting = || {
            let trust = Trust::Authorities(authority().pem().into());
            TlsClient::new(&trust, None)
        };
        let options = ConnectOptions {
            grant: asking.grant.clone(),
            secret: asking.secret.clone(),
            limits: asking.limits,
            tls: TLS.then(trusting).transpose()?,
            ..ConnectOptions::default()
        };
        if available {
            TcpEndpoint::connect_available(addresses, &options)
        } else {
            TcpEndpoint::connect(addresses, &options)
        }
    }

    fn beside(node: &Node, _: &tcp::Agent) -> Executor<ShmEndpoint> {
        Shm::executor(&[node], Limits::default())
    }
}

pub struct Verbs;

/// The agents of nodes that were served last, by the nodes' incarnations: a NIC serves a node by
/// one agent, whichever threads of a test connect to it.
static BY_NIC: Mutex<BTreeMap<u64, Arc<verbs::Agent>>> = Mutex::new(BTreeMap::new());

thread_local! {
    /// The agents that this thread's test uses.
    static USED: RefCell<Vec<Arc<verbs::Agent>>> = const { RefCell::new(Vec::new()) };
}

impl Fabric for Verbs {
    type Endpoint = VerbsEndpoint;

    fn executor(nodes: &[&Node], limits: Limits) -> Executor<VerbsEndpoint> {
        let serve = |node: &&Node| {
            let mut agents = BY_NIC.lock().unwrap();
            // Those of tests that are over.
            agents.retain(|_, agent| Arc::strong_count(agent) > 1);
            let agent = agents.entry(node.info().incarnation).or_insert_with(|| {
                let grants = vec![Grant::everything(None)];
                Arc::new(Self::serve(node, "127.0.0.1:0", grants))
            });
            USED.with_borrow_mut(|used| used.push(Arc::clone(agent)));
            Self::address(agent).to_string()
        };
        let addresses: Vec<_> = nodes.iter().map(serve).collect();
        let asking = Asking {
            limits,
            ..Asking::default()
        };
        Executor::new(Rc::new(Self::connect(&addresses, &asking, false).unwrap()))
    }
}

impl Network for Verbs {
    type Agent = verbs::Agent;
    type Beside = VerbsEndpoint;

    const NAME: &'static str = "verbs";
    /// By the emulated device of an emulated machine, as where `scripts/test-verbs` runs.
    const SLOWNESS: u64 = 5;

    fn serve_with(node: &Node, serve: ServeOptions) -> verbs::Agent {
        verbs::Agent::start(node.clone(), &VerbsAgentOptions::from(serve)).unwrap()
    }

    fn address(agent: &verbs::Agent) -> SocketAddr {
        agent.address()
    }

    fn counters(agent: &verbs::Agent) -> AgentCounters {
        agent.counters()
    }

    fn grant(agent: &verbs::Agent, grant: &Grant) {
        agent.grant(grant).unwrap();
    }

    fn revoke(agent: &verbs::Agent, name: &str) -> bool {
        agent.revoke(name)
    }

    fn connect(addresses: &[String], asking: &Asking, available: bool) -> Result<VerbsEndpoint> {
        let options = VerbsOptions::from(ConnectOptions {
            grant: asking.grant.clone(),
            secret: asking.secret.clone(),
            limits: asking.limits,
            ..ConnectOptions::default()
        });
        if available {
            VerbsEndpoint::connect_available(addresses, &options)
        } else {
            VerbsEndpoint::connect(addresses, &options)
        }
    }

    /// A processor's atomics would not be atomic against the NIC's: another queue pair.
    fn beside(_: &Node, agent: &verbs::Agent) -> Executor<VerbsEndpoint> {
        client::<Self>(agent)
    }
}
