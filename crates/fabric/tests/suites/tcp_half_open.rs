//! Connections whose other side is gone without a word: no end of the stream, no reset, no
//! acknowledgements.
//!
//! A socket filter of the kernel that lets no packet through stands for the network that was lost:
//! what arrives at that socket is thrown away before TCP sees it.

use crate::proxy::Proxy;
use crate::raw::{RawClient, frame};
use farslot_fabric::shm::{Node, RegionSpec};
use farslot_fabric::tcp::{Agent, AgentOptions, ConnectOptions, ServeOptions, TcpEndpoint, wire};
use farslot_fabric::*;
use socket2::{SockFilter, SockRef};
use std::net::TcpStream;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Short, so that the tests are; the kernel counts in seconds.
const PEER_TIMEOUT: Duration = Duration::from_secs(2);
/// Long enough for any machine, and far less than what a connection takes that nobody asks after.
const PATIENCE: Duration = Duration::from_secs(30);
const NODE: NodeId = NodeId(0);
const LEN: u64 = 4 << 20;

fn at(offset: u64) -> RemoteAddr {
    RemoteAddr {
        node: NODE,
        region: RegionId(0),
        offset,
    }
}

fn serve() -> Agent {
    let region = RegionSpec {
        len: LEN,
        rights: Rights::ALL,
    };
    let node = Node::embedded(&[region]).unwrap();
    let options = AgentOptions::from(ServeOptions {
        peer_timeout: PEER_TIMEOUT,
        ..ServeOptions::default()
    });
    Agent::start(node, &options).unwrap()
}

fn connect(proxy: &Proxy, verb_timeout: Nanos) -> Executor<TcpEndpoint> {
    let options = ConnectOptions {
        peer_timeout: PEER_TIMEOUT,
        limits: Limits {
            verb_timeout,
            ..Limits::default()
        },
        ..ConnectOptions::default()
    };
    let endpoint = TcpEndpoint::connect(&[proxy.address()], &options).unwrap();
    Executor::new(Rc::new(endpoint))
}

/// Loses everything that arrives at a socket from now on, acknowledgements included.
fn lose_what_arrives(stream: &TcpStream) {
    const RETURN: u16 = 0x06;
    let nothing = SockFilter::new(RETURN, 0, 0, 0);
    SockRef::from(stream).attach_filter(&[nothing]).unwrap();
}

fn wait_until(condition: &str, is: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < until, "{condition}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_silent_node_is_noticed_without_any_verbs_and_reached_again() {
    let agent = serve();
    let proxy = Proxy::to(agent.address());
    let executor = connect(&proxy, 20_000_000_000);
    let endpoint = Rc::clone(executor.endpoint());
    let before = endpoint.node(NODE);
    let [[to_client, _]] = &proxy.ends()[..] else {
        panic!("one connection")
    };
    // The way is closed for new connections as well, until the loss is noticed.
    proxy.lead_to(None);
    lose_what_arrives(to_client);
    let stopped = NodeState::Down(FabricError::NodeStopped {
        node: NODE,
        sent: true,
    });
    wait_until("it is noticed", || {
        endpoint.node_state(NODE) == Ok(stopped.clone())
    });
    proxy.lead_to(Some(agent.address()));
    wait_until("it is reached again", || endpoint.is_up(NODE));
    assert_eq!(endpoint.node(NODE), before);
    assert_eq!(executor.block_on(endpoint.fetch_add(at(0), 1)), Ok(0));
}

#[test]
fn a_silent_node_is_noticed_by_the_verbs_on_their_way() {
    const TIMEOUT: Nanos = 100_000_000;
    let agent = serve();
    let proxy = Proxy::to(agent.address());
    let executor = connect(&proxy, TIMEOUT);
    let endpoint = Rc::clone(executor.endpoint());
    let [[to_client, _]] = &proxy.ends()[..] else {
        panic!("one connection")
    };
    lose_what_arrives(to_client);
    let lost = FabricError::TimedOut {
        node: NODE,
        after: TIMEOUT,
    };
    executor.block_on(async {
        let all = (0..10).map(|_| endpoint.fetch_add(at(0), 1));
        window(10, all, |_, outcome| assert_eq!(outcome, Err(lost.clone()))).await;
        while endpoint.fetch_add(at(8), 1).await.is_err() {
            endpoint.sleep(1_000_000).await;
        }
        assert_eq!(endpoint.fetch_add(at(0), 0).await, Ok(0));
    });
}

#[test]
fn an_agent_lets_go_of_clients_that_the_network_has_lost() {
    let agent = serve();
    let proxy = Proxy::to(agent.address());
    let _idle = connect(&proxy, 20_000_000_000);
    let busy = connect(&proxy, 20_000_000_000);
    wait_until("both are there", || agent.counters().connections == 2);
    for [_, to_agent] in proxy.ends() {
        lose_what_arrives(&to_agent);
    }
    // One of them has asked for more than the sockets hold, and its answers get no acknowledgement.
    let endpoint = Rc::clone(busy.endpoint());
    for _ in 0..8 {
        let endpoint = Rc::clone(&endpoint);
        drop(busy.spawn(async move { endpoint.read(at(0), LEN as usize / 2).await.map(drop) }));
    }
    busy.run_ready();
    endpoint.ring_doorbell();
    wait_until("both are let go", || agent.counters().connections == 0);
}

/// As one whose process was stopped: its kernel answers for it, but nobody takes anything.
#[test]
fn an_agent_lets_go_of_clients_that_take_no_answers() {
    let agent = serve();
    let mut client = RawClient::connect(&agent, &ConnectOptions::default());
    let span = client.span(0, 0, LEN as u32 / 2);
    let mut verbs = Vec::new();
    (0..32).for_each(|_| wire::put_read(&mut verbs, span));
    client.send(&frame(32, &verbs));
    wait_until("it is served", || agent.counters().verbs > 0);
    wait_until("it is let go", || agent.counters().connections == 0);
}

#[test]
fn a_client_that_is_only_idle_stays() {
    let agent = serve();
    let proxy = Proxy::to(agent.address());
    let executor = connect(&proxy, 20_000_000_000);
    std::thread::sleep(2 * PEER_TIMEOUT);
    assert_eq!(agent.counters().accepted, 1);
    assert_eq!(executor.endpoint().node_state(NODE), Ok(NodeState::Up));
    let added = executor.block_on(executor.endpoint().fetch_add(at(0), 1));
    assert_eq!((added, agent.counters().accepted), (Ok(0), 1));
}
