//! Nodes that go and come back: what their clients see, and what those of other nodes do not.

use crate::bed::{nobody, wait_until};
use crate::proxy::Proxy;
use crate::raw::RawClient;
use farslot_fabric::shm::{Node, RegionSpec};
use farslot_fabric::tcp::{
    Agent, AgentOptions, ConnectOptions, Grant, Refusal, ServeOptions, TcpEndpoint, wire,
};
use farslot_fabric::*;
use std::rc::Rc;
use std::time::{Duration, Instant};

const FIRST: NodeId = NodeId(0);
const SECOND: NodeId = NodeId(1);

fn at(node: NodeId, offset: u64) -> RemoteAddr {
    RemoteAddr {
        node,
        region: RegionId(0),
        offset,
    }
}

fn node() -> Node {
    let region = RegionSpec {
        len: 1 << 16,
        rights: Rights::ALL,
    };
    Node::embedded(&[region]).unwrap()
}

fn serve_at(node: &Node, listen: &str) -> Agent {
    let options = AgentOptions {
        serve: ServeOptions {
            listen: listen.into(),
            ..ServeOptions::default()
        },
        threads: 2,
        ..AgentOptions::default()
    };
    Agent::start(node.clone(), &options).unwrap()
}

fn serve(node: &Node) -> Agent {
    serve_at(node, "127.0.0.1:0")
}

fn options() -> ConnectOptions {
    ConnectOptions {
        reconnect: Backoff {
            first: Duration::from_millis(5),
            longest: Duration::from_millis(20),
        },
        limits: Limits {
            verb_timeout: 20_000_000_000,
            ..Limits::default()
        },
        ..ConnectOptions::default()
    }
}

fn connect(addresses: &[String], options: &ConnectOptions) -> Executor<TcpEndpoint> {
    Executor::new(Rc::new(TcpEndpoint::connect(addresses, options).unwrap()))
}

/// Waits until a node's state is as it has to become.
fn wait_for(endpoint: &TcpEndpoint, node: NodeId, is: impl Fn(&NodeState) -> bool) -> NodeState {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let state = endpoint.node_state(node).unwrap();
        if is(&state) {
            return state;
        }
        assert!(Instant::now() < until, "it stays {state:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn is_down(state: &NodeState) -> bool {
    matches!(state, NodeState::Down(_))
}

fn is_up(state: &NodeState) -> bool {
    *state == NodeState::Up
}

fn is_restarted(state: &NodeState) -> bool {
    matches!(state, NodeState::Restarted { .. })
}

#[test]
fn a_node_that_was_cut_off_works_again_and_nobody_else_sees_anything() {
    let nodes = [node(), node()];
    let agents = nodes.each_ref().map(serve);
    let proxy = Proxy::to(agents[0].address());
    let addresses = [proxy.address(), agents[1].address().to_string()];
    let executor = connect(&addresses, &options());
    let endpoint = Rc::clone(executor.endpoint());
    let before = endpoint.node(FIRST).unwrap();
    executor.block_on(async {
        for round in 0..20 {
            assert_eq!(endpoint.fetch_add(at(FIRST, 0), 1).await, Ok(round));
            proxy.cut();
            let mut others = 0;
            // Verbs fail with one error until they do not, and the other node never waits for that.
            while let Err(error) = endpoint.fetch_add(at(FIRST, 8), 1).await {
                assert!(
                    matches!(error, FabricError::NodeStopped { node: FIRST, .. }),
                    "{error:?}"
                );
                let before = endpoint.fetch_add(at(SECOND, round * 8), 1).await;
                assert_eq!(before, Ok(others));
                others += 1;
            }
        }
        assert_eq!(endpoint.fetch_add(at(FIRST, 0), 0).await, Ok(20));
    });
    assert_eq!(endpoint.node(FIRST), Ok(before.clone()));
    assert_eq!(endpoint.adopt(FIRST), Ok(before));
}

#[test]
fn an_idle_connection_that_ends_is_made_anew_before_any_verb_is_lost() {
    let node = node();
    let agent = serve(&node);
    let proxy = Proxy::to(agent.address());
    let executor = connect(&[proxy.address()], &options());
    let endpoint = Rc::clone(executor.endpoint());
    for round in 0..10 {
        // Nobody posts anything meanwhile.
        proxy.lead_to(None);
        proxy.cut();
        let down = wait_for(&endpoint, FIRST, is_down);
        let stopped = FabricError::NodeStopped {
            node: FIRST,
            sent: true,
        };
        assert_eq!(down, NodeState::Down(stopped.clone()));
        assert_eq!(endpoint.adopt(FIRST), Err(stopped));
        proxy.lead_to(Some(agent.address()));
        wait_for(&endpoint, FIRST, is_up);
        let added = executor.block_on(endpoint.fetch_add(at(FIRST, 0), 1));
        assert_eq!(added, Ok(round));
    }
}

#[test]
fn a_connection_that_ends_before_it_is_used_is_made_once_more() {
    let node = node();
    let agent = serve(&node);
    let proxy = Proxy::to(agent.address());
    let executor = connect(&[proxy.address()], &options());
    let endpoint = Rc::clone(executor.endpoint());
    for round in 2..10 {
        proxy.cut();
        // Each is made, and cut before the endpoint looks.
        let until = Instant::now() + Duration::from_secs(20);
        while agent.counters().admitted < round {
            assert!(Instant::now() < until, "{:?}", agent.counters());
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    wait_for(&endpoint, FIRST, is_up);
    let added = executor.block_on(endpoint.fetch_add(at(FIRST, 0), 1));
    assert_eq!(added, Ok(0));
}

#[test]
fn a_node_that_came_back_empty_is_told_apart_until_it_is_adopted() {
    let nodes = [node(), node(), node()];
    let [before, after, other] = nodes.each_ref().map(serve);
    let proxy = Proxy::to(before.address());
    let addresses = [proxy.address(), other.address().to_string()];
    let executor = connect(&addresses, &options());
    let endpoint = Rc::clone(executor.endpoint());
    let known = endpoint.node(FIRST).unwrap();
    executor
        .block_on(endpoint.fetch_add(at(FIRST, 0), 7))
        .unwrap();

    proxy.lead_to(Some(after.address()));
    proxy.cut();
    let state = wait_for(&endpoint, FIRST, is_restarted);
    let incarnation = nodes[1].info().incarnation;
    assert_eq!(state, NodeState::Restarted { incarnation });
    let restarted = FabricError::NodeRestarted {
        node: FIRST,
        expected: known.incarnation,
    };
    executor.block_on(async {
        for _ in 0..3 {
            let read = endpoint.read(at(FIRST, 0), 8).await;
            assert_eq!(read.map(drop), Err(restarted.clone()));
            assert_eq!(endpoint.fetch_add(at(SECOND, 0), 0).await, Ok(0));
        }
        assert_eq!(endpoint.node(FIRST), Ok(known));
        assert_eq!(endpoint.node_state(FIRST), Ok(state));

        let adopted = endpoint.adopt(FIRST).unwrap();
        assert_eq!(adopted.incarnation, incarnation);
        assert_eq!(endpoint.node(FIRST), Ok(adopted));
        assert_eq!(endpoint.node_state(FIRST), Ok(NodeState::Up));
        let read = endpoint.read(at(FIRST, 0), 8).await.unwrap();
        assert_eq!(read.words(), [0]);
    });
    // The agent's thread notices in its next turn.
    wait_until("the connection to the node before to end", || {
        before.counters().connections == 0
    });
}

#[test]
fn nodes_that_are_down_from_the_start_are_connected_to_when_they_can_be() {
    let nodes = [node(), node()];
    let first = serve(&nodes[0]);
    let (_held, late) = nobody();
    let (_also_held, other) = nobody();
    let addresses = [first.address().to_string(), late.clone()];
    let refused = FabricError::ConnectionRefused {
        address: late.clone(),
    };
    let all = TcpEndpoint::connect(&addresses, &options());
    assert_eq!(all.err(), Some(refused.clone()));
    let none = TcpEndpoint::connect_available(&[&late, &other], &options());
    assert_eq!(none.err(), Some(refused.clone()));

    let some = TcpEndpoint::connect_available(&addresses, &options()).unwrap();
    let executor = Executor::new(Rc::new(some));
    let endpoint = Rc::clone(executor.endpoint());
    assert_eq!(endpoint.node_state(FIRST), Ok(NodeState::Up));
    let down = NodeState::Down(refused.clone());
    assert_eq!(endpoint.node_state(SECOND), Ok(down));
    let unknown = endpoint.node(SECOND).unwrap();
    assert_eq!((unknown.incarnation, unknown.regions.len()), (0, 0));
    assert!(!refused.may_have_taken_effect());
    executor.block_on(async {
        let failed = endpoint.fetch_add(at(SECOND, 0), 1).await;
        assert_eq!(failed, Err(refused));
        assert_eq!(endpoint.fetch_add(at(FIRST, 0), 1).await, Ok(0));
    });

    let _second = serve_at(&nodes[1], &late);
    wait_for(&endpoint, SECOND, is_up);
    assert_eq!(endpoint.node(SECOND).as_ref(), Ok(nodes[1].info()));
    let added = executor.block_on(endpoint.fetch_add(at(SECOND, 0), 1));
    assert_eq!(added, Ok(0));
}

#[test]
fn one_node_is_not_two() {
    let nodes = [node(), node()];
    let [agent, other] = nodes.each_ref().map(serve);
    let proxies = [Proxy::to(agent.address()), Proxy::to(other.address())];
    let again = Proxy::to(agent.address());
    let [first, second] = proxies.each_ref().map(Proxy::address);
    let duplicate = FabricError::DuplicateNode {
        address: again.address(),
        other: first.clone(),
        incarnation: nodes[0].info().incarnation,
    };
    let addresses = [first, second.clone(), again.address()];
    for connected in [
        TcpEndpoint::connect(&addresses, &options()),
        TcpEndpoint::connect_available(&addresses, &options()),
    ] {
        assert_eq!(connected.err(), Some(duplicate.clone()));
    }

    // Nor does one become another later.
    let executor = connect(&addresses[..2], &options());
    let endpoint = executor.endpoint();
    proxies[1].lead_to(Some(agent.address()));
    proxies[1].cut();
    let duplicate = FabricError::DuplicateNode {
        address: second,
        other: addresses[0].clone(),
        incarnation: nodes[0].info().incarnation,
    };
    let is_duplicate = |state: &NodeState| *state == NodeState::Down(duplicate.clone());
    wait_for(endpoint, SECOND, is_duplicate);
    assert_eq!(endpoint.adopt(SECOND), Err(duplicate.clone()));
    let failed = executor.block_on(endpoint.fetch_add(at(SECOND, 0), 1));
    assert_eq!(failed, Err(duplicate));
    assert_eq!(
        executor.block_on(endpoint.fetch_add(at(FIRST, 0), 1)),
        Ok(0)
    );
}

#[test]
fn what_waiting_does_not_heal_is_told_at_once_or_when_it_comes_about() {
    let nodes = [node(), node()];
    let [first, second] = nodes.each_ref().map(serve);
    let addresses = [&first, &second].map(|agent| agent.address().to_string());
    let unnamed = ["no-such-host.invalid:1", &addresses[0]];
    let error = TcpEndpoint::connect_available(&unnamed, &options()).err();
    assert!(
        matches!(
            error,
            Some(FabricError::Unresolvable { .. } | FabricError::ConnectTimedOut { .. })
        ),
        "{error:?}"
    );
    let unknown = ConnectOptions {
        grant: "none".into(),
        ..options()
    };
    let refused = |address: &String, reason| FabricError::NotAdmitted {
        address: address.clone(),
        reason,
    };
    let error = TcpEndpoint::connect_available(&addresses, &unknown).err();
    assert_eq!(error, Some(refused(&addresses[0], Refusal::NoSuchGrant)));

    let executor = connect(&addresses, &options());
    let endpoint = executor.endpoint();
    let address = first.address().to_string();
    drop(first);
    let secret = tcp::Secret::new([7; 16]).unwrap();
    let guarded = AgentOptions::from(ServeOptions {
        listen: address.clone(),
        grants: vec![Grant::everything(Some(secret))],
        ..ServeOptions::default()
    });
    let _first = Agent::start(nodes[0].clone(), &guarded).unwrap();
    let needed = NodeState::Down(refused(&address, Refusal::SecretNeeded));
    wait_for(endpoint, FIRST, |state| *state == needed);
    assert_eq!(
        executor.block_on(endpoint.fetch_add(at(SECOND, 0), 1)),
        Ok(0)
    );
}

/// What a client has sent and the network still holds must not happen to the node after the client
/// was told that it is lost, and has gone on.
#[test]
fn nothing_of_a_lost_connection_takes_effect_behind_what_follows_it() {
    let node = node();
    let agent = serve(&node);
    let proxy = Proxy::to(agent.address());
    let hurried = ConnectOptions {
        limits: Limits {
            verb_timeout: 50_000_000,
            ..Limits::default()
        },
        ..options()
    };
    let executor = connect(&[proxy.address()], &hurried);
    let endpoint = Rc::clone(executor.endpoint());
    let patient = connect(&[agent.address().to_string()], &options());
    for round in 0..20 {
        proxy.hold();
        let lost = executor.block_on(endpoint.fetch_add(at(FIRST, 0), 1));
        let error = lost.unwrap_err();
        assert!(matches!(error, FabricError::TimedOut { .. }), "{error}");
        // It is still held when the next connection is made, or arrives at about the same time.
        if round % 2 == 0 {
            wait_for(&endpoint, FIRST, is_up);
        }
        proxy.let_go();
        wait_for(&endpoint, FIRST, is_up);
        let seen = loop {
            if let Ok(seen) = executor.block_on(endpoint.fetch_add(at(FIRST, 0), 0)) {
                break seen;
            }
        };
        // From here on it stays as it is, whatever still arrives.
        std::thread::sleep(Duration::from_millis(20));
        let later = patient.block_on(patient.endpoint().fetch_add(at(FIRST, 0), 0));
        assert_eq!(later, Ok(seen));
    }
}

#[test]
fn a_node_is_not_used_again_before_every_loss_is_known() {
    let node = node();
    let agent = serve(&node);
    let proxy = Proxy::to(agent.address());
    let executor = connect(&[proxy.address()], &options());
    let endpoint = Rc::clone(executor.endpoint());
    executor.block_on(async {
        proxy.hold();
        // A task that posts a second verb and relies on the first, which it has not asked about
        // yet.
        let mut first = Box::pin(endpoint.fetch_add(at(FIRST, 0), 1));
        let first_ends = std::future::poll_fn(|cx| {
            let polled = first.as_mut().poll(cx);
            std::task::Poll::Ready(polled.is_ready())
        });
        assert!(!first_ends.await);
        endpoint.sleep(20_000_000).await;
        proxy.cut();
        proxy.let_go();
        for _ in 0..20 {
            endpoint.sleep(2_000_000).await;
            let second = endpoint.fetch_add(at(FIRST, 8), 1).await;
            assert!(matches!(
                second,
                Err(FabricError::NodeStopped { node: FIRST, .. })
            ));
        }
        let lost = FabricError::NodeStopped {
            node: FIRST,
            sent: true,
        };
        assert_eq!(first.await, Err(lost));
        while endpoint.fetch_add(at(FIRST, 8), 0).await.is_err() {
            endpoint.sleep(1_000_000).await;
        }
    });
}

#[test]
fn keys_of_a_node_as_it_was_are_void_for_what_it_is_now() {
    let nodes = [node(), node()];
    let agents = nodes.each_ref().map(serve);
    let [old, mut new] = agents
        .each_ref()
        .map(|agent| RawClient::connect(agent, &options()));
    let old = old.span(0, 0, 8);
    let own = new.span(0, 0, 8);
    let wrong = Err(FabricError::WrongKey { at: at(FIRST, 0) });
    assert_eq!(new.ask(|out| wire::put_fetch_add(out, old, 1)), wrong);
    assert_eq!(new.ask(|out| wire::put_fetch_add(out, own, 0)), Ok(vec![0]));
}
