//! The verbs over shared memory, within one process.

use farslot_fabric::endpoint::Inbox;
use farslot_fabric::shm::{Node, RegionSpec, ShmEndpoint};
use farslot_fabric::*;
use std::future::Future;
use std::rc::Rc;
use std::task::{Context, Waker};

fn node(len: u64, rights: Rights) -> Node {
    Node::embedded(&[RegionSpec { len, rights }]).unwrap()
}

fn executor(node: &Node, limits: Limits) -> Executor<ShmEndpoint> {
    Executor::new(Rc::new(ShmEndpoint::new(vec![node.clone()], limits)))
}

fn at(offset: u64) -> RemoteAddr {
    RemoteAddr {
        node: NodeId(0),
        region: RegionId(0),
        offset,
    }
}

#[test]
fn every_verb_does_what_it_says() {
    let node = node(1 << 16, Rights::ALL);
    let executor = executor(&node, Limits::default());
    let endpoint = Rc::clone(executor.endpoint());
    executor.block_on(async {
        let data = endpoint.core().buffers.copy_of(b"0123456789").unwrap();
        endpoint.write(at(3), data).await.unwrap();
        assert_eq!(&*endpoint.read(at(4), 5).await.unwrap(), b"12345");

        assert_eq!(endpoint.compare_swap(at(64), 0, 7).await.unwrap(), 0);
        assert_eq!(endpoint.compare_swap(at(64), 0, 8).await.unwrap(), 7);
        assert_eq!(endpoint.fetch_add(at(64), 5).await.unwrap(), 7);
        assert_eq!(endpoint.read(at(64), 8).await.unwrap().words(), [12]);

        let pieces = [(3, 3), (64, 8)].map(|(offset, len)| Piece {
            from: at(offset),
            len,
        });
        let gathered = endpoint
            .read_many(pieces.into_iter().collect())
            .await
            .unwrap();
        assert_eq!(&gathered[..3], b"012");
        assert_eq!(gathered[8], 12);

        let data = endpoint.core().buffers.copy_of(b"call").unwrap();
        endpoint.write_imm(at(128), data, 99).await.unwrap();
    });
    assert_eq!(node.take_message(), Some(Message { imm: 99, len: 4 }));
    assert_eq!(node.take_message(), None);
}

#[test]
fn bounds_rights_and_alignment_are_checked() {
    let node = node(4096, Rights::READ);
    let executor = executor(&node, Limits::default());
    let endpoint = Rc::clone(executor.endpoint());
    executor.block_on(async {
        assert!(matches!(
            endpoint.read(at(4090), 7).await,
            Err(FabricError::OutOfBounds { len: 7, .. })
        ));
        assert!(matches!(
            endpoint.read(at(u64::MAX), 8).await,
            Err(FabricError::OutOfBounds { .. })
        ));
        let data = endpoint.core().buffers.copy_of(b"x").unwrap();
        assert!(matches!(
            endpoint.write(at(0), data).await,
            Err(FabricError::AccessDenied {
                needed: Rights::WRITE,
                granted: Rights::READ,
                ..
            })
        ));
        assert!(matches!(
            endpoint.fetch_add(at(0), 1).await,
            Err(FabricError::AccessDenied { .. })
        ));
        assert_eq!(
            endpoint.compare_swap(at(4), 0, 1).await,
            Err(FabricError::Misaligned { at: at(4) })
        );
        let elsewhere = RemoteAddr {
            node: NodeId(3),
            ..at(0)
        };
        assert!(matches!(
            endpoint.read(elsewhere, 8).await,
            Err(FabricError::UnknownNode { connected: 1, .. })
        ));
        let elsewhere = RemoteAddr {
            region: RegionId(1),
            ..at(0)
        };
        assert!(matches!(
            endpoint.read(elsewhere, 8).await,
            Err(FabricError::UnknownRegion { regions: 1, .. })
        ));
    });
}

#[test]
fn a_full_send_queue_waits_and_one_doorbell_carries_many_verbs() {
    let node = node(4096, Rights::ALL);
    let limits = Limits {
        send_queue_depth: 4,
        ..Limits::default()
    };
    let executor = executor(&node, limits);
    let endpoint = Rc::clone(executor.endpoint());
    let tasks: Vec<_> = (0..10)
        .map(|_| {
            let endpoint = Rc::clone(&endpoint);
            executor.spawn(async move { endpoint.fetch_add(at(0), 1).await.unwrap() })
        })
        .collect();
    let mut seen = executor.block_on(async {
        let mut seen = Vec::new();
        for task in tasks {
            seen.push(task.await);
        }
        seen
    });
    seen.sort_unstable();
    assert_eq!(seen, (0..10).collect::<Vec<_>>());
    let counters = endpoint.core().counters.snapshot();
    assert_eq!(counters.verbs_of(VerbKind::FetchAdd), 10);
    assert!(counters.queue_full > 0);
    assert_eq!(counters.doorbells, 3, "4 + 4 + 2 verbs");
}

#[test]
fn round_trips_are_the_longest_chain_of_completions() {
    let node = node(4096, Rights::ALL);
    let executor = executor(&node, Limits::default());
    let endpoint = Rc::clone(executor.endpoint());
    let class = OperationClass(3);
    executor.block_on(async {
        let chain = async {
            let side_by_side = (0..3).map(|_| endpoint.read(at(0), 8));
            window(3, side_by_side, |_, read| drop(read.unwrap())).await;
            endpoint.fetch_add(at(0), 1).await.unwrap();
        };
        endpoint.operation(class, chain).await;
    });
    let counted = endpoint.core().counters.snapshot().operation(class);
    assert_eq!((counted.count, counted.verbs), (1, 4));
    assert_eq!((counted.round_trips, counted.doorbells), (2, 2));
    assert_eq!(counted.bytes, 32);
}

#[test]
fn dropped_verbs_and_timeouts_leave_everything_usable() {
    let node = node(4096, Rights::ALL);
    let executor = executor(&node, Limits::default());
    let endpoint = Rc::clone(executor.endpoint());
    executor.block_on(async {
        for _ in 0..100 {
            let never = std::future::pending::<()>();
            let lost = endpoint.timeout(1_000, async {
                endpoint.fetch_add(at(8), 1).await.unwrap();
                let read = endpoint.read(at(0), 512);
                drop(read);
                never.await;
            });
            assert_eq!(lost.await, Err(TimedOut { after: 1_000 }));
        }
        assert_eq!(endpoint.fetch_add(at(8), 0).await.unwrap(), 100);
        assert_eq!(endpoint.timeout(1 << 40, async { 5 }).await, Ok(5));
    });
}

#[test]
fn a_mailbox_that_nobody_empties_refuses_in_time() {
    let node = node(4096, Rights::ALL);
    let limits = Limits {
        verb_timeout: 2_000_000,
        ..Limits::default()
    };
    let executor = executor(&node, limits);
    let endpoint = Rc::clone(executor.endpoint());
    let refused = executor.block_on(async {
        for imm in 0.. {
            let data = endpoint.core().buffers.copy_of(b"").unwrap();
            if let Err(error) = endpoint.write_imm(at(0), data, imm).await {
                return (imm, error);
            }
        }
        unreachable!()
    });
    let full = FabricError::ReceiverNotReady {
        node: NodeId(0),
        capacity: 1024,
    };
    assert_eq!(refused, (1024, full));
    assert_eq!(node.take_message().map(|message| message.imm), Some(0));
}

fn take_all(node: &Node) -> impl Iterator<Item = u32> {
    std::iter::from_fn(|| node.take_message().map(|message| message.imm))
}

#[test]
fn messages_to_a_full_mailbox_arrive_in_order_their_futures_dropped_or_not() {
    let node = node(4096, Rights::ALL);
    let limits = Limits {
        send_queue_depth: 4,
        verb_timeout: 1 << 60,
        ..Limits::default()
    };
    let executor = executor(&node, limits);
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
    let post_and_drop = |imm| {
        let mut posted = Box::pin(send(imm));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(posted.as_mut().poll(&mut cx).is_pending());
    };
    post_and_drop(1024);
    executor.turn();
    let waiting: Vec<_> = (1025..1035).map(|imm| executor.spawn(send(imm))).collect();
    executor.turn();
    executor.turn();
    let counters = endpoint.core().counters.snapshot();
    assert!(counters.queue_full > 0, "parked messages keep their places");

    // A place for one: the first that was posted gets it, although nobody waits for that.
    assert_eq!(node.take_message().map(|message| message.imm), Some(0));
    executor.turn();
    executor.turn();
    assert!(waiting.iter().all(|sent| sent.try_take().is_none()));
    assert_eq!(
        take_all(&node).collect::<Vec<_>>(),
        Vec::from_iter(1..=1024)
    );

    executor.block_on(async {
        for sent in waiting {
            sent.await.unwrap();
        }
    });
    assert_eq!(
        take_all(&node).collect::<Vec<_>>(),
        Vec::from_iter(1025..1035)
    );

    // With room they are delivered when they are posted.
    post_and_drop(7);
    assert_eq!(take_all(&node).collect::<Vec<_>>(), [7]);
}

#[test]
fn a_gather_into_too_small_a_buffer_is_refused() {
    let node = node(4096, Rights::ALL);
    let endpoint = ShmEndpoint::new(vec![node], Limits::default());
    let pieces = [0, 64].map(|offset| Piece {
        from: at(offset),
        len: 5,
    });
    let gather = Verb::ReadMany {
        pieces: pieces.into_iter().collect(),
        into: endpoint.core().buffers.take(8).unwrap(),
    };
    assert!(matches!(
        endpoint.post(gather),
        Err(PostError::Rejected(FabricError::BufferTooLarge {
            requested: 16,
            limit: 8
        }))
    ));
}

#[test]
fn more_memory_than_there_is_is_refused() {
    let regions = [RegionSpec {
        len: 1 << 60,
        rights: Rights::ALL,
    }];
    for refused in [Node::embedded(&regions), Node::serve("too-large", &regions)] {
        assert!(matches!(
            refused.map(|_| ()),
            Err(FabricError::Memory { requested, limit }) if requested > limit
        ));
    }
}

#[test]
fn a_gather_goes_to_one_node() {
    let nodes = vec![node(4096, Rights::ALL), node(4096, Rights::ALL)];
    let endpoint = Rc::new(ShmEndpoint::new(nodes, Limits::default()));
    let executor = Executor::new(Rc::clone(&endpoint));
    let pieces = [0, 1].map(|node| Piece {
        from: RemoteAddr {
            node: NodeId(node),
            ..at(0)
        },
        len: 8,
    });
    let gathered = executor.block_on(endpoint.read_many(pieces.into_iter().collect()));
    assert_eq!(
        gathered.map(|_| ()),
        Err(FabricError::SeveralNodes {
            node: NodeId(0),
            other: NodeId(1)
        })
    );
}
