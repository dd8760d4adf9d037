//! What only a NIC does, agent and client in one process.

use crate::{at, client, client_with, patient, served};
use farslot_fabric::shm::{Node, ShmEndpoint};
use farslot_fabric::tcp::{self, AgentOptions};
use farslot_fabric::verbs::{Agent, ConnectOptions, VerbsAgentOptions, VerbsOptions};
use farslot_fabric::*;
use std::rc::Rc;

#[test]
fn an_endpoint_that_is_dropped_finishes_what_was_posted() {
    let (_node, agent) = served(1 << 20);
    for round in 0..20u64 {
        let executor = client(&agent);
        let endpoint = Rc::clone(executor.endpoint());
        for index in 0..64u64 {
            let endpoint = Rc::clone(&endpoint);
            drop(executor.spawn(async move {
                let data = endpoint
                    .core()
                    .buffers
                    .copy_of(&round.to_le_bytes())
                    .unwrap();
                endpoint.write(at(index * 8), data).await
            }));
        }
        executor.block_on(async {});
        executor.run_ready();
        drop(executor);
        drop(endpoint);
        let reader = client(&agent);
        let read = reader.block_on(reader.endpoint().read(at(0), 512)).unwrap();
        assert_eq!(read.words(), [round; 64]);
    }
}

#[test]
fn gathers_take_a_request_a_piece_and_more_than_the_queue_holds_are_refused() {
    let (_node, agent) = served(1 << 16);
    let limits = Limits {
        send_queue_depth: 8,
        ..crate::PATIENT
    };
    let executor = client_with(
        &agent,
        &VerbsOptions::from(ConnectOptions {
            limits,
            ..patient().connect
        }),
    );
    let endpoint = Rc::clone(executor.endpoint());
    let pieces = |count: u64| {
        (0..count)
            .map(|index| Piece {
                from: at(index * 16),
                len: 5,
            })
            .collect::<Pieces>()
    };
    executor.block_on(async {
        for index in 0..64u64 {
            let data = endpoint.core().buffers.copy_of(&[index as u8; 16]).unwrap();
            endpoint.write(at(index * 16), data).await.unwrap();
        }
        // Three of these are more requests than the queue holds at once.
        let gathers = (0..30).map(|_| endpoint.read_many(pieces(30)));
        window(30, gathers, |_, gathered| {
            let gathered = gathered.unwrap();
            assert_eq!(gathered.len(), 240);
            for (index, piece) in gathered.chunks_exact(8).enumerate() {
                assert_eq!(piece[..5], [index as u8; 5]);
            }
        })
        .await;
        assert_eq!(
            endpoint.read_many(pieces(65)).await.map(drop),
            Err(FabricError::TooManyPieces {
                pieces: 65,
                limit: 64
            })
        );
        assert!(endpoint.read_many(Pieces::new()).await.unwrap().is_empty());
        let empty = endpoint.core().buffers.take(0).unwrap();
        endpoint.write(at(0), empty).await.unwrap();
        assert!(endpoint.read(at(0), 0).await.unwrap().is_empty());
    });
}

#[test]
fn memory_is_a_nics_or_the_processors_and_never_both() {
    let not_both = |used, wanted| FabricError::NicAndProcessor { used, wanted };
    let (by_nic, by_shm) = ("served over RDMA verbs", "used over shared memory");
    let node = crate::node(4096, Rights::ALL);
    let local = Executor::new(Rc::new(ShmEndpoint::new(
        vec![node.clone()],
        Limits::default(),
    )));
    let endpoint = local.endpoint();
    assert_eq!(local.block_on(endpoint.fetch_add(at(0), 1)), Ok(0));

    let agent = Agent::start(node.clone(), &VerbsAgentOptions::default()).unwrap();
    let refused = Err(not_both(by_nic, by_shm));
    assert_eq!(local.block_on(endpoint.fetch_add(at(0), 1)), refused);
    assert_eq!(local.block_on(endpoint.read(at(0), 8)).map(|_| 0), refused);
    let by_tcp = tcp::Agent::start(node.clone(), &AgentOptions::default()).map(drop);
    assert_eq!(by_tcp, Err(not_both(by_nic, "served over TCP")));
    let twice = Agent::start(node.clone(), &VerbsAgentOptions::default()).map(drop);
    assert_eq!(
        twice,
        Err(not_both("served over RDMA verbs already", by_nic))
    );
    assert!(!node.is_gone());

    // As soon as the NIC does not serve it any more the processors may.
    let executor = client(&agent);
    assert_eq!(
        executor.block_on(executor.endpoint().fetch_add(at(0), 1)),
        Ok(1)
    );
    drop(agent);
    assert_eq!(local.block_on(endpoint.fetch_add(at(0), 1)), Ok(2));
    let by_tcp = tcp::Agent::start(node.clone(), &AgentOptions::default()).unwrap();
    let again = Agent::start(node, &VerbsAgentOptions::default()).map(drop);
    assert_eq!(again, Err(not_both("served over TCP", by_nic)));
    drop(by_tcp);

    let name = format!("verbs-{}", std::process::id());
    let region = farslot_fabric::shm::RegionSpec {
        len: 8,
        rights: Rights::ALL,
    };
    let shared = Node::serve(&name, &[region]).unwrap();
    let refused = Agent::start(shared, &VerbsAgentOptions::default()).map(drop);
    assert_eq!(refused, Err(not_both("served over shared memory", by_nic)));
}
