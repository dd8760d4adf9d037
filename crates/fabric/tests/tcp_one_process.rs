//! The verbs over TCP, agent and client in one process.

mod common;

use common::{Fabric, at, test_verbs_over};
use farslot_fabric::shm::{Node, RegionSpec, ShmEndpoint};
use farslot_fabric::tcp::{Agent, AgentOptions, TcpEndpoint, TcpOptions};
use farslot_fabric::*;
use std::cell::RefCell;
use std::rc::Rc;

struct Tcp;

thread_local! {
    /// The agents of the test on this thread: they serve until it ends.
    static AGENTS: RefCell<Vec<Agent>> = const { RefCell::new(Vec::new()) };
}

fn serve(node: &Node) -> String {
    let agent = Agent::start(node.clone(), &AgentOptions::default()).unwrap();
    let address = agent.address().to_string();
    AGENTS.with_borrow_mut(|agents| agents.push(agent));
    address
}

impl Fabric for Tcp {
    type Endpoint = TcpEndpoint;

    fn executor(nodes: &[&Node], limits: Limits) -> Executor<TcpEndpoint> {
        let addresses: Vec<_> = nodes.iter().map(|node| serve(node)).collect();
        let options = TcpOptions {
            limits,
            ..TcpOptions::default()
        };
        Executor::new(Rc::new(TcpEndpoint::connect(&addresses, &options).unwrap()))
    }
}

test_verbs_over!(Tcp);

/// A node of this process that is served, until the test ends, by an agent with two threads.
fn served(len: u64) -> (Node, Agent) {
    let region = RegionSpec {
        len,
        rights: Rights::ALL,
    };
    let node = Node::embedded(&[region]).unwrap();
    let options = AgentOptions {
        threads: 2,
        ..AgentOptions::default()
    };
    let agent = Agent::start(node.clone(), &options).unwrap();
    (node, agent)
}

fn client(agent: &Agent) -> Executor<TcpEndpoint> {
    // Long enough for machines that have other things to do.
    let limits = Limits {
        verb_timeout: 20_000_000_000,
        ..Limits::default()
    };
    let options = TcpOptions {
        limits,
        ..TcpOptions::default()
    };
    let address = agent.address().to_string();
    Executor::new(Rc::new(TcpEndpoint::connect(&[address], &options).unwrap()))
}

#[test]
fn a_batch_larger_than_all_socket_buffers_arrives_whole() {
    const EACH: u64 = 512 << 10;
    const COUNT: u64 = 48;
    let (_node, agent) = served(EACH * COUNT);
    let executor = client(&agent);
    let endpoint = Rc::clone(executor.endpoint());
    let value = |index: u64, word: usize| index << 32 | word as u64;
    executor.block_on(async {
        let writes = (0..COUNT).map(|index| {
            let mut data = endpoint.core().buffers.take(EACH as usize).unwrap();
            for (number, word) in data.words_mut().iter_mut().enumerate() {
                *word = value(index, number);
            }
            endpoint.write(at(index * EACH), data)
        });
        window(COUNT as usize, writes, |_, written| written.unwrap()).await;
        assert_eq!(endpoint.core().counters.snapshot().doorbells, 1);
        let reads = (0..COUNT).map(|index| endpoint.read(at(index * EACH), EACH as usize));
        window(COUNT as usize, reads, |index, read| {
            let read = read.unwrap();
            let mut words = read.words().iter().enumerate();
            assert!(words.all(|(number, word)| *word == value(index as u64, number)));
        })
        .await;
    });
}

#[test]
fn many_verbs_of_all_kinds_complete_in_the_order_of_their_posting() {
    let (_node, agent) = served(1 << 16);
    let executor = client(&agent);
    let endpoint = Rc::clone(executor.endpoint());
    executor.block_on(async {
        for round in 0..50u64 {
            let before = round * 40;
            // Each of them sees exactly those before it.
            let adds = (0..40u64).map(|index| {
                let endpoint = Rc::clone(&endpoint);
                async move {
                    let added = endpoint.fetch_add(at(64), 1);
                    let read = endpoint.read(at(64), 8);
                    let data = endpoint.core().buffers.copy_of(&index.to_le_bytes());
                    let write = endpoint.write(at(128), data.unwrap());
                    let ((added, read), written) = both(both(added, read), write).await;
                    written.unwrap();
                    (index, added.unwrap(), read.unwrap().words()[0])
                }
            });
            window(40, adds, |_, (index, added, read)| {
                assert_eq!((added, read), (before + index, before + index + 1));
            })
            .await;
            assert_eq!(endpoint.read(at(128), 8).await.unwrap().words(), [39]);
        }
    });
}

#[test]
fn atomics_are_atomic_against_those_of_all_clients_of_both_fabrics() {
    const EACH: u64 = 5_000;
    let (node, agent) = served(4096);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let executor = client(&agent);
                let endpoint = executor.endpoint();
                executor.block_on(async {
                    let adds = (0..EACH).map(|_| endpoint.fetch_add(at(8), 1));
                    window(32, adds, |_, added| assert!(added.is_ok())).await;
                });
            });
        }
        scope.spawn(|| {
            let endpoint = ShmEndpoint::new(vec![node.clone()], Limits::default());
            let executor = Executor::new(Rc::new(endpoint));
            let endpoint = executor.endpoint();
            executor.block_on(async {
                for _ in 0..EACH {
                    let mut seen = 0;
                    loop {
                        match endpoint.compare_swap(at(8), seen, seen + 1).await.unwrap() {
                            found if found == seen => break,
                            found => seen = found,
                        }
                    }
                }
            });
        });
    });
    let executor = client(&agent);
    let endpoint = executor.endpoint();
    let sum = executor.block_on(endpoint.fetch_add(at(8), 0));
    assert_eq!(sum, Ok(4 * EACH));
}

#[test]
fn words_are_read_and_written_whole() {
    let (_node, agent) = served(1 << 13);
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let executor = client(&agent);
            let endpoint = executor.endpoint();
            executor.block_on(async {
                for turn in 0..2_000u64 {
                    let mut data = endpoint.core().buffers.take(4096 - 5).unwrap();
                    data.words_mut().fill((turn % 2).wrapping_neg());
                    endpoint.write(at(3), data).await.unwrap();
                }
            });
            done.store(true, std::sync::atomic::Ordering::Release);
        });
        scope.spawn(|| {
            let executor = client(&agent);
            let endpoint = executor.endpoint();
            executor.block_on(async {
                while !done.load(std::sync::atomic::Ordering::Acquire) {
                    let read = endpoint.read(at(8), 4096 - 16).await.unwrap();
                    let mut words = read.words().iter();
                    assert!(words.all(|word| *word == 0 || *word == u64::MAX));
                }
            });
        });
    });
}

#[test]
fn an_endpoint_dropped_amid_a_batch_leaves_the_others_served() {
    let (_node, agent) = served(1 << 20);
    let good = client(&agent);
    for round in 0..20 {
        let executor = client(&agent);
        let endpoint = Rc::clone(executor.endpoint());
        for _ in 0..round {
            let endpoint = Rc::clone(&endpoint);
            let task = async move { endpoint.read(at(0), 1 << 20).await.map(drop) };
            drop(executor.spawn(task));
        }
        executor.run_ready();
        endpoint.ring_doorbell();
        drop((executor, endpoint));
        let added = good.block_on(good.endpoint().fetch_add(at(0), 1));
        assert_eq!(added, Ok(round));
    }
    let counters = agent.counters();
    assert_eq!((counters.malformed, counters.failed_verbs), (0, 0));
    assert_eq!(counters.admitted, 21);
}

#[test]
fn an_agent_that_is_dropped_fails_the_verbs_of_its_clients() {
    let (node, agent) = served(1 << 22);
    let executor = client(&agent);
    let endpoint = Rc::clone(executor.endpoint());
    executor.block_on(endpoint.read(at(0), 8)).unwrap();
    let address = agent.address().to_string();
    let incarnation = endpoint.node(NodeId(0)).unwrap().incarnation;
    let mut agent = Some(agent);
    let mut outcomes = Vec::new();
    executor.block_on(async {
        let reads = (0..200).map(|_| endpoint.read(at(0), 1 << 22));
        window(200, reads, |_, read| {
            // The first that is here ends the agent.
            agent.take();
            outcomes.push(read.map(drop));
        })
        .await;
    });
    let stopped = FabricError::NodeStopped { node: NodeId(0) };
    assert_eq!(outcomes.len(), 200);
    assert_eq!(outcomes.last(), Some(&Err(stopped.clone())));
    assert!(
        outcomes
            .iter()
            .all(|outcome| *outcome == Ok(()) || *outcome == Err(stopped.clone()))
    );
    let added = executor.block_on(endpoint.fetch_add(at(0), 1));
    assert_eq!(added, Err(stopped.clone()));
    let down = NodeState::Down(stopped);
    assert_eq!(endpoint.node_state(NodeId(0)), Ok(down));

    // The same memory, served again at the same place.
    let options = AgentOptions {
        listen: address,
        ..AgentOptions::default()
    };
    let _agent = Agent::start(node, &options).unwrap();
    while endpoint.node_state(NodeId(0)) != Ok(NodeState::Up) {
        std::thread::yield_now();
    }
    assert_eq!(endpoint.node(NodeId(0)).unwrap().incarnation, incarnation);
    assert_eq!(executor.block_on(endpoint.fetch_add(at(0), 1)), Ok(0));
}

#[test]
fn a_message_waits_for_its_receiver_and_keeps_its_place() {
    use farslot_fabric::endpoint::Inbox;
    let (node, agent) = served(4096);
    let executor = client(&agent);
    let endpoint = Rc::clone(executor.endpoint());
    let send = |imm| {
        let endpoint = Rc::clone(&endpoint);
        async move {
            let data = endpoint.core().buffers.copy_of(b"call").unwrap();
            endpoint.write_imm(at(0), data, imm).await
        }
    };
    executor.block_on(async {
        for imm in 0..1024 {
            send(imm).await.unwrap();
        }
    });
    let waiting: Vec<_> = (1024..1034).map(|imm| executor.spawn(send(imm))).collect();
    let behind = {
        let endpoint = Rc::clone(&endpoint);
        executor.spawn(async move { endpoint.read(at(0), 4).await.map(|read| read.to_vec()) })
    };
    let until = std::time::Instant::now() + std::time::Duration::from_millis(50);
    while std::time::Instant::now() < until {
        executor.turn();
    }
    assert!(waiting.iter().all(|sent| sent.try_take().is_none()));
    assert!(behind.try_take().is_none(), "it waits behind the messages");
    for imm in 0..1034 {
        let message = loop {
            match node.take_message() {
                Some(message) => break message,
                None => drop(executor.turn()),
            }
        };
        assert_eq!(message, Message { imm, len: 4 });
    }
    executor.block_on(async {
        for sent in waiting {
            sent.await.unwrap();
        }
        assert_eq!(behind.await.unwrap(), b"call");
    });
}

#[test]
fn a_revoked_grant_ends_the_waiting_of_a_message() {
    let (_node, agent) = served(4096);
    let executor = client(&agent);
    let endpoint = Rc::clone(executor.endpoint());
    let send = |imm| {
        let data = endpoint.core().buffers.copy_of(b"call").unwrap();
        endpoint.write_imm(at(0), data, imm)
    };
    let node = NodeId(0);
    executor.block_on(async {
        for imm in 0..1024 {
            send(imm).await.unwrap();
        }
        let revoke = async {
            endpoint.sleep(20_000_000).await;
            assert!(agent.revoke("default"));
        };
        let (sent, ()) = both(send(1024), revoke).await;
        let capacity = 1024;
        assert_eq!(sent, Err(FabricError::ReceiverNotReady { node, capacity }));
        assert_eq!(send(1025).await, Err(FabricError::GrantRevoked { node }));
    });
}
