//! The owner's event loop, over every fabric: in threads of its own, or of the application.

use farslot_fabric::{AnyEndpoint, Endpoint, Executor, NodeId, RegionId, Rights, window};
use farslot_rpc::{Client, ClientOptions, Effect, Request, RpcServerOptions, Server, put};
use farslot_testbed::{Fabric, TestNode};
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

farslot_testbed::suites! {
    every fabric
    {
        event_loops {
            run_where_the_application_says
            and_clients_may_share_a_thread
        }
    }
}

const COUNT: u16 = 1;

/// The threads in which requests were answered since it was taken last.
type Threads = Arc<Mutex<HashSet<ThreadId>>>;

/// Each request counts in the node's memory, and gets what it counted to.
fn served(fabric: Fabric) -> (TestNode, Threads) {
    let node = fabric.start(&[(4096, Rights::READ.and(Rights::CALL))]);
    let threads = Threads::default();
    let noted = Arc::clone(&threads);
    node.serve_calls(move || {
        let noted = Arc::clone(&noted);
        let mut server = Server::new(RpcServerOptions::default());
        let count = move |request: Request<'_>, reply: &mut [u8]| {
            let mut threads = noted.lock().unwrap();
            threads.insert(std::thread::current().id());
            let count = request.memory.load(64)? + 1;
            request.memory.store(64, count)?;
            put(reply, &count.to_le_bytes())
        };
        server.register(COUNT, Effect::Once, count);
        Arc::new(server)
    });
    (node, threads)
}

/// Counts so often, eight requests at a time; returns the sum of what was counted to.
async fn count(endpoint: Rc<AnyEndpoint>, times: usize) -> u64 {
    let to = (NodeId(0), RegionId(0));
    let client = Client::new(endpoint, to, ClientOptions::default());
    let mut sum = 0;
    let calls = (0..times).map(|_| client.call(COUNT, &[], 8));
    window(8, calls, |_, counted| sum += counted.unwrap().words()[0]).await;
    sum
}

/// Two clients that count so often each: all they count to together, and their threads.
fn count_twice(node: &TestNode, times: usize) -> (u64, HashSet<ThreadId>) {
    let client = async move |_, endpoint| {
        let sum = count(endpoint, times).await;
        (sum, std::thread::current().id())
    };
    let ends = node.run_clients(2, Fabric::limits(), client);
    let sum = ends.iter().map(|(sum, _)| sum).sum();
    (sum, ends.into_iter().map(|(_, thread)| thread).collect())
}

struct SetWhenDropped<'b>(&'b AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

mod event_loops {
    use super::*;

    pub fn run_where_the_application_says(fabric: Fabric) {
        let (node, threads) = served(fabric);
        let times = fabric.cases(400) as usize;
        let mut before = 0;
        // Taken and given back again and again: nothing that is under way gets lost.
        for _ in 0..3 {
            let is_over = AtomicBool::new(false);
            let (counted, clients, owner) = std::thread::scope(|scope| {
                let owner = node.event_loop().map(|mut event_loop| {
                    let is_over = &is_over;
                    scope.spawn(move || {
                        while !is_over.load(Ordering::Acquire) {
                            event_loop.turn(Duration::from_millis(1)).unwrap();
                        }
                        std::thread::current().id()
                    })
                });
                // Whatever becomes of the clients, or the scope would never end.
                let ending = SetWhenDropped(&is_over);
                let (counted, clients) = count_twice(&node, times);
                drop(ending);
                let owner = owner.map(|owner| owner.join().unwrap());
                (counted, clients, owner)
            });
            let all = 2 * times as u64;
            assert_eq!(counted, (before + 1..=before + all).sum::<u64>());
            before += all;
            // The application's own, whichever fabric it is.
            let ran = std::mem::take(&mut *threads.lock().unwrap());
            match owner {
                Some(owner) => assert_eq!(ran, HashSet::from([owner])),
                None => assert!(ran.is_subset(&clients), "{ran:?} {clients:?}"),
            }

            // Now a thread of the fabric's, if it has one.
            let (counted, clients) = count_twice(&node, times);
            assert_eq!(counted, (before + 1..=before + all).sum::<u64>());
            before += all;
            let ran = std::mem::take(&mut *threads.lock().unwrap());
            if let Some(owner) = owner {
                assert!(!ran.contains(&owner) && ran.is_disjoint(&clients));
            }
        }
    }

    pub fn and_clients_may_share_a_thread(fabric: Fabric) {
        let (node, threads) = served(fabric);
        let endpoint = node.connect(Fabric::limits());
        let executor = Executor::new(Rc::clone(&endpoint));
        let mut event_loop = node.event_loop();
        let times = fabric.cases(400) as usize;
        let counted = executor.spawn(count(endpoint, times));
        // One thread does both sides' work, and waits for neither.
        let sum = loop {
            let is_idle = !executor.turn();
            match &mut event_loop {
                Some(event_loop) => {
                    event_loop.turn(Duration::ZERO).unwrap();
                }
                None if is_idle => executor.endpoint().wait(executor.next_deadline(), 0),
                None => {}
            }
            if let Some(sum) = counted.try_take() {
                break sum;
            }
        };
        assert_eq!(sum, (1..=times as u64).sum::<u64>());
        let own = HashSet::from([std::thread::current().id()]);
        assert_eq!(*threads.lock().unwrap(), own);
    }
}
