//! What every fabric over the memory of a [`Node`] does alike.

use farslot_fabric::endpoint::Inbox;
use farslot_fabric::shm::{Node, RegionSpec};
use farslot_fabric::*;
use std::rc::Rc;

/// A way to reach nodes of this process.
pub trait Fabric {
    /// Its endpoints.
    type Endpoint: Endpoint;

    /// An executor whose endpoint is connected to the nodes, numbered in this order.
    fn executor(nodes: &[&Node], limits: Limits) -> Executor<Self::Endpoint>;
}

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

/// Makes a test of each of the functions here, over one fabric.
macro_rules! test_verbs_over {
    ($fabric:ty) => {
        $crate::common::test_verbs_over! { $fabric:
            every_verb_does_what_it_says
            bounds_rights_and_alignment_are_checked
            a_full_send_queue_waits_and_one_doorbell_carries_many_verbs
            round_trips_are_the_longest_chain_of_completions
            dropped_verbs_and_timeouts_leave_everything_usable
            a_mailbox_that_nobody_empties_refuses_in_time
            a_gather_into_too_small_a_buffer_is_refused
            a_gather_goes_to_one_node
        }
    };
    ($fabric:ty: $($name:ident)*) => {$(
        #[test]
        fn $name() {
            $crate::common::$name::<$fabric>();
        }
    )*};
}
pub(crate) use test_verbs_over;

pub fn every_verb_does_what_it_says<F: Fabric>() {
    let node = node(1 << 16, Rights::ALL);
    let executor = F::executor(&[&node], Limits::default());
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

pub fn bounds_rights_and_alignment_are_checked<F: Fabric>() {
    let node = node(4096, Rights::READ);
    let executor = F::executor(&[&node], Limits::default());
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

pub fn a_full_send_queue_waits_and_one_doorbell_carries_many_verbs<F: Fabric>() {
    let node = node(4096, Rights::ALL);
    let limits = Limits {
        send_queue_depth: 4,
        ..Limits::default()
    };
    let executor = F::executor(&[&node], limits);
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

pub fn round_trips_are_the_longest_chain_of_completions<F: Fabric>() {
    let node = node(4096, Rights::ALL);
    let executor = F::executor(&[&node], Limits::default());
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

pub fn dropped_verbs_and_timeouts_leave_everything_usable<F: Fabric>() {
    let node = node(4096, Rights::ALL);
    let executor = F::executor(&[&node], Limits::default());
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

pub fn a_mailbox_that_nobody_empties_refuses_in_time<F: Fabric>() {
    let node = node(4096, Rights::ALL);
    let limits = Limits {
        verb_timeout: 400_000_000,
        ..Limits::default()
    };
    let executor = F::executor(&[&node], limits);
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

pub fn a_gather_into_too_small_a_buffer_is_refused<F: Fabric>() {
    let node = node(4096, Rights::ALL);
    let executor = F::executor(&[&node], Limits::default());
    let endpoint = executor.endpoint();
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

pub fn a_gather_goes_to_one_node<F: Fabric>() {
    let nodes = [node(4096, Rights::ALL), node(4096, Rights::ALL)];
    let executor = F::executor(&[&nodes[0], &nodes[1]], Limits::default());
    let endpoint = executor.endpoint();
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
