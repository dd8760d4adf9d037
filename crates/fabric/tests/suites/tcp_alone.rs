//! What only TCP does, agent and client in one process.

use crate::bed::{Tcp, at, client, served};
use farslot_fabric::tcp::{Agent, AgentOptions, ServeOptions};
use farslot_fabric::*;
use std::rc::Rc;

/// Also where none of them begins or ends with a word.
#[test]
fn words_are_read_and_written_whole_at_any_offset() {
    let (_node, agent) = served::<Tcp>(1 << 13);
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let executor = client::<Tcp>(&agent);
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
            let executor = client::<Tcp>(&agent);
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

/// Who posts much at once need not have posted all of it, nor have rung the doorbell, for the agent
/// to begin.
#[test]
fn a_large_batch_is_begun_before_its_doorbell() {
    const VERBS: u64 = 64;
    const LEN: usize = 1024;
    let (_node, agent) = served::<Tcp>(VERBS * LEN as u64);
    let executor = client::<Tcp>(&agent);
    let endpoint = executor.endpoint();
    for writes in [true, false] {
        let before = (agent.counters().verbs, endpoint.core().counters.snapshot());
        let verbs: Vec<_> = (0..VERBS)
            .map(|number| {
                let (endpoint, place) = (Rc::clone(endpoint), at(number * LEN as u64));
                executor.spawn(async move {
                    if writes {
                        let mut data = endpoint.core().buffers.take(LEN)?;
                        data.words_mut().fill(number);
                        return endpoint.write(place, data).await;
                    }
                    let read = endpoint.read(place, LEN).await?;
                    assert_eq!(read.words(), [number; LEN / 8]);
                    Ok(())
                })
            })
            .collect();
        executor.run_ready();
        while agent.counters().verbs < before.0 + 8 {
            std::thread::yield_now();
        }
        for verb in verbs {
            assert_eq!(executor.block_on(verb), Ok(()));
        }
        assert_eq!(agent.counters().verbs, before.0 + VERBS);
        let counted = endpoint.core().counters.snapshot().since(&before.1);
        assert_eq!(counted.doorbells, 1, "one batch all the same");
    }
}

#[test]
fn an_agent_counts_the_verbs_and_bytes_that_its_client_counts() {
    let (node, agent) = served::<Tcp>(1 << 20);
    let executor = client::<Tcp>(&agent);
    let endpoint = executor.endpoint();
    executor.block_on(async {
        // Small ones, and ones that are moved in pieces.
        for len in [8, 100, 4096, 300 << 10] {
            let data = endpoint.core().buffers.take(len).unwrap();
            endpoint.write(at(64), data).await.unwrap();
            endpoint.read(at(64), len).await.unwrap();
            let pieces = [0, 1 << 19].map(|offset| Piece {
                from: at(offset),
                len,
            });
            endpoint
                .read_many(pieces.into_iter().collect())
                .await
                .unwrap();
            endpoint.compare_swap(at(0), 1, 1).await.unwrap();
            endpoint.fetch_add(at(0), 1).await.unwrap();
            let data = endpoint.core().buffers.take(len.min(1000)).unwrap();
            endpoint.write_imm(at(8), data, 7).await.unwrap();
            assert!(node.take_message().is_some());
        }
    });
    let (counted, seen) = (agent.counters(), endpoint.core().counters.snapshot());
    assert_eq!(counted.verbs_by, seen.verbs);
    assert_eq!(counted.verbs, 24);
    assert_eq!(
        (counted.bytes_read, counted.bytes_written),
        (seen.bytes_read, seen.bytes_written)
    );
    assert_eq!(
        (counted.failed_by, counted.grants),
        (<[u64; 10]>::default(), 1)
    );
}

#[test]
fn an_endpoint_dropped_amid_a_batch_leaves_the_others_served() {
    let (_node, agent) = served::<Tcp>(1 << 20);
    let good = client::<Tcp>(&agent);
    for round in 0..20 {
        let executor = client::<Tcp>(&agent);
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
    let (node, agent) = served::<Tcp>(1 << 22);
    let executor = client::<Tcp>(&agent);
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
    let stopped = FabricError::NodeStopped {
        node: NodeId(0),
        sent: true,
    };
    assert_eq!(outcomes.len(), 200);
    assert_eq!(outcomes.last(), Some(&Err(stopped.clone())));
    assert!(
        outcomes
            .iter()
            .all(|outcome| *outcome == Ok(()) || *outcome == Err(stopped.clone()))
    );
    let added = executor.block_on(endpoint.fetch_add(at(0), 1));
    let unsent = FabricError::NodeStopped {
        node: NodeId(0),
        sent: false,
    };
    assert_eq!(added, Err(unsent));
    let down = NodeState::Down(stopped);
    assert_eq!(endpoint.node_state(NodeId(0)), Ok(down));

    // The same memory, served again at the same place.
    let options = AgentOptions::from(ServeOptions {
        listen: address,
        ..ServeOptions::default()
    });
    let _agent = Agent::start(node, &options).unwrap();
    while !endpoint.is_up(NodeId(0)) {
        std::thread::yield_now();
    }
    assert_eq!(endpoint.node(NodeId(0)).unwrap().incarnation, incarnation);
    assert_eq!(executor.block_on(endpoint.fetch_add(at(0), 1)), Ok(0));
}

#[test]
fn a_message_waits_for_its_receiver_and_keeps_its_place() {
    use farslot_fabric::endpoint::Inbox;
    let (node, agent) = served::<Tcp>(4096);
    let executor = client::<Tcp>(&agent);
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
    let (_node, agent) = served::<Tcp>(4096);
    let executor = client::<Tcp>(&agent);
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
