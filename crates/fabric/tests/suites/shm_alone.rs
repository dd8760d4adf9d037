//! What only shared memory does, within one process.

use crate::bed::{Fabric, Shm, at, node};
use farslot_fabric::endpoint::Inbox;
use farslot_fabric::shm::{Node, RegionSpec};
use farslot_fabric::*;
use std::future::Future;
use std::rc::Rc;
use std::task::{Context, Waker};

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
    let executor = Shm::executor(&[&node], limits);
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

/// How often this thread has given its processor away of its own accord.
fn gave_way() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let mut lines = status.lines();
    let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.unwrap().trim().parse().unwrap()
}

#[test]
fn a_thread_that_only_sleeps_wakes_up_seldom() {
    let node = node(4096, Rights::ALL);
    let executor = Shm::executor(&[&node], Limits::default());
    let endpoint = Rc::clone(executor.endpoint());
    let before = gave_way();
    let since = endpoint.now();
    executor.block_on(endpoint.sleep(500_000_000));
    assert!(endpoint.now() - since >= 500_000_000);
    let times = gave_way() - before;
    // Every 50 us it would be some 5,000 times.
    assert!(times < 200, "{times}");
}
