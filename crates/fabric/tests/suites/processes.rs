//! Agents in processes of their own, which stop. A test that needs one starts this program again.

use crate::bed::{Asking, Network, PATIENT, Tcp, Verbs, at, nobody, wait_until};
use crate::served::Served;
use farslot_fabric::shm::{Node, RegionSpec, ShmEndpoint, attach};
use farslot_fabric::tcp::Grant;
use farslot_fabric::*;
use rustix::process::{Pid, Signal, kill_process};
use std::rc::Rc;
use std::time::{Duration, Instant};

const FABRIC: &str = "FARSLOT_TEST_FABRIC";
const LISTEN: &str = "FARSLOT_TEST_LISTEN";
/// Under which the memory is served to processes of this machine as well.
const NAME: &str = "FARSLOT_TEST_NAME";

/// Not a test of its own: what the second process does.
#[test]
fn agent_process() {
    match std::env::var(FABRIC).as_deref() {
        Ok(Tcp::NAME) => serve_until_killed::<Tcp>(),
        Ok(Verbs::NAME) => serve_until_killed::<Verbs>(),
        _ => {}
    }
}

fn serve_until_killed<N: Network>() {
    let region = RegionSpec {
        len: 1 << 20,
        rights: Rights::ALL,
    };
    let node = match std::env::var(NAME) {
        Ok(name) => Node::serve(&name, &[region]).unwrap(),
        Err(_) => Node::embedded(&[region]).unwrap(),
    };
    let listen = std::env::var(LISTEN).unwrap();
    let agent = N::serve(&node, &listen, vec![Grant::everything(None)]);
    println!("serving {}", N::address(&agent));
    std::thread::sleep(Duration::from_secs(300));
}

fn start<N: Network>(listen: &str) -> Served {
    start_with::<N>(listen, None)
}

fn start_with<N: Network>(listen: &str, name: Option<&str>) -> Served {
    let name = name.map(|name| (NAME, name));
    let environment = [(FABRIC, N::NAME), (LISTEN, listen)];
    Served::start(
        "processes::agent_process",
        environment.into_iter().chain(name),
    )
}

impl Served {
    /// Stops all of its threads, and returns when they are.
    fn stop(&self) {
        self.signal(Signal::STOP);
        let tasks = format!("/proc/{}/task", self.process.id());
        let is_stopped = |stat: String| stat.rsplit(')').next().unwrap().starts_with(" T");
        let all_stopped = || {
            let tasks = std::fs::read_dir(&tasks).unwrap();
            let stats = tasks.map(|task| task.unwrap().path().join("stat"));
            let mut stats = stats.map(|stat| std::fs::read_to_string(stat).unwrap());
            stats.all(is_stopped)
        };
        while !all_stopped() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.process.id() as i32).unwrap();
        kill_process(pid, signal).unwrap();
    }
}

fn client<N: Network>(addresses: &[String], verb_timeout: Nanos) -> Executor<N::Endpoint> {
    let asking = Asking {
        limits: Limits {
            verb_timeout,
            ..Limits::default()
        },
        ..Asking::default()
    };
    Executor::new(Rc::new(N::connect(addresses, &asking, false).unwrap()))
}

pub fn a_killed_node_is_noticed_at_once_and_its_successor_is_told_apart<N: Network>() {
    let mut served = start::<N>("127.0.0.1:0");
    let mut other = start::<N>("127.0.0.1:0");
    let addresses = [served.address.clone(), other.address.clone()];
    let executor = client::<N>(&addresses, PATIENT);
    let endpoint = Rc::clone(executor.endpoint());
    let (node, kept) = (NodeId(0), NodeId(1));
    let of_kept = RemoteAddr {
        node: kept,
        ..at(8)
    };
    let before = endpoint.node(node).unwrap();
    assert_eq!(executor.block_on(endpoint.fetch_add(at(8), 5)), Ok(0));
    let mut killed = false;
    let mut outcomes = Vec::new();
    let since = Instant::now();
    executor.block_on(async {
        let reads = (0..200).map(|_| endpoint.read(at(0), 256 << 10));
        window(100, reads, |number, read| {
            outcomes.push((number, read.map(drop)));
            if !std::mem::replace(&mut killed, true) {
                served.kill();
            }
        })
        .await;
        // Those of the other node know nothing of it.
        for turn in 0..50 {
            assert_eq!(endpoint.fetch_add(of_kept, 1).await, Ok(turn));
        }
    });
    let stopped = |sent| Err(FabricError::NodeStopped { node, sent });
    // In the order of their posting: none was done behind one that was lost, nor sent behind one
    // that was not.
    outcomes.sort_by_key(|(number, _)| *number);
    let lost = outcomes.iter().position(|(_, outcome)| outcome.is_err());
    let (done, lost) = outcomes.split_at(lost.unwrap());
    assert!(!done.is_empty() && done.iter().all(|(_, outcome)| *outcome == Ok(())));
    let sent = lost
        .iter()
        .take_while(|(_, outcome)| *outcome == stopped(true));
    let (_, unsent) = lost.split_at(sent.count());
    assert!(unsent.iter().all(|(_, outcome)| *outcome == stopped(false)));
    assert!(
        since.elapsed() < Duration::from_nanos(PATIENT),
        "not by the verb timeout"
    );
    assert_eq!(
        endpoint.node_state(node),
        Ok(NodeState::Down(FabricError::NodeStopped {
            node,
            sent: true
        }))
    );
    assert_eq!(endpoint.node_state(kept), Ok(NodeState::Up));

    let _again = start::<N>(&served.address);
    let mut incarnation = 0;
    wait_until("it is back", || match endpoint.node_state(node) {
        Ok(NodeState::Restarted { incarnation: new }) => {
            incarnation = new;
            true
        }
        _ => false,
    });
    assert_ne!(incarnation, before.incarnation);
    let expected = before.incarnation;
    let restarted = Err(FabricError::NodeRestarted { node, expected });
    assert_eq!(executor.block_on(endpoint.fetch_add(at(8), 1)), restarted);
    let adopted = endpoint.adopt(node).unwrap();
    assert_eq!(adopted.incarnation, incarnation);
    assert_eq!(endpoint.node(node), Ok(adopted));
    assert_eq!(
        executor.block_on(endpoint.fetch_add(at(8), 1)),
        Ok(0),
        "it is empty"
    );
    other.kill();
}

pub fn an_idle_client_knows_that_its_node_was_killed<N: Network>() {
    let mut served = start::<N>("127.0.0.1:0");
    let executor = client::<N>(std::slice::from_ref(&served.address), PATIENT);
    let endpoint = executor.endpoint();
    assert_eq!(executor.block_on(endpoint.fetch_add(at(8), 5)), Ok(0));
    served.kill();
    let node = NodeId(0);
    let down = Ok(NodeState::Down(FabricError::NodeStopped {
        node,
        sent: true,
    }));
    wait_until("it is known", || endpoint.node_state(node) == down);
    let stopped = Err(FabricError::NodeStopped { node, sent: false });
    assert_eq!(executor.block_on(endpoint.fetch_add(at(8), 1)), stopped);
}

pub fn some_nodes_may_be_down_at_first_and_come_later<N: Network>() {
    let mut first = start::<N>("127.0.0.1:0");
    let (_held, late) = nobody();
    let addresses = [first.address.clone(), late.clone()];
    let connect =
        |addresses: &[String], available| N::connect(addresses, &Asking::default(), available);
    assert!(matches!(
        connect(&addresses, false).map(drop),
        Err(FabricError::ConnectionRefused { .. })
    ));
    let endpoint = Rc::new(connect(&addresses, true).unwrap());
    let executor = Executor::new(Rc::clone(&endpoint));
    let of_late = RemoteAddr {
        node: NodeId(1),
        ..at(8)
    };
    assert_eq!(endpoint.node(NodeId(1)).unwrap().incarnation, 0);
    assert!(matches!(
        executor.block_on(endpoint.fetch_add(of_late, 1)),
        Err(FabricError::ConnectionRefused { .. })
    ));
    assert_eq!(executor.block_on(endpoint.fetch_add(at(8), 1)), Ok(0));
    let mut second = start::<N>(&late);
    wait_until("it is up", || endpoint.is_up(NodeId(1)));
    assert_eq!(executor.block_on(endpoint.fetch_add(of_late, 1)), Ok(0));
    let twice = connect(&[first.address.clone(), first.address.clone()], false).map(drop);
    assert!(
        matches!(twice, Err(FabricError::DuplicateNode { .. })),
        "{twice:?}"
    );
    first.kill();
    second.kill();
}

#[test]
fn one_process_serves_its_memory_over_both_fabrics() {
    let name = format!("tcp-both-{}", std::process::id());
    let served = start_with::<Tcp>("127.0.0.1:0", Some(&name));
    let executor = client::<Tcp>(std::slice::from_ref(&served.address), PATIENT);
    let endpoint = executor.endpoint();
    assert_eq!(executor.block_on(endpoint.fetch_add(at(8), 5)), Ok(0));
    let attached = attach(&name, Rights::ALL).unwrap();
    let incarnation = attached.info().incarnation;
    let shm = Executor::new(Rc::new(ShmEndpoint::new(vec![attached], Limits::default())));
    assert_eq!(shm.block_on(shm.endpoint().fetch_add(at(8), 1)), Ok(5));
    assert_eq!(endpoint.node(NodeId(0)).unwrap().incarnation, incarnation);
}

#[test]
fn a_hanging_agent_times_out_and_nothing_takes_effect_behind_what_was_lost() {
    const TIMEOUT: Nanos = 300_000_000;
    let served = start::<Tcp>("127.0.0.1:0");
    let executor = client::<Tcp>(std::slice::from_ref(&served.address), TIMEOUT);
    let endpoint = executor.endpoint();
    assert_eq!(executor.block_on(endpoint.fetch_add(at(0), 1)), Ok(0));
    served.stop();
    let since = Instant::now();
    let node = NodeId(0);
    let lost = FabricError::TimedOut {
        node,
        after: TIMEOUT,
    };
    let stopped = FabricError::NodeStopped { node, sent: false };
    executor.block_on(async {
        let first = async { endpoint.fetch_add(at(0), 1).await };
        let second = async { endpoint.fetch_add(at(8), 1).await };
        assert_eq!(both(first, second).await, (Err(lost.clone()), Err(lost)));
        assert!(since.elapsed() >= Duration::from_nanos(TIMEOUT));
        for _ in 0..10 {
            assert_eq!(endpoint.fetch_add(at(16), 1).await, Err(stopped.clone()));
        }
    });
    let down = FabricError::NodeStopped { node, sent: true };
    assert_eq!(endpoint.node_state(node), Ok(NodeState::Down(down)));
    served.signal(Signal::CONT);
    // Lost verbs may have taken effect, in order; those behind them have not.
    while !endpoint.is_up(node) {
        std::thread::yield_now();
    }
    executor.block_on(async {
        let first = endpoint.fetch_add(at(0), 0).await.unwrap();
        let second = endpoint.fetch_add(at(8), 0).await.unwrap();
        assert!(
            first == 1 + second || (first, second) == (2, 0),
            "{first} {second}"
        );
        assert_eq!(endpoint.fetch_add(at(16), 0).await, Ok(0));
    });
}

#[test]
fn one_of_three_nodes_is_killed_and_the_others_serve_on() {
    let mut served = [(); 3].map(|()| Some(start::<Tcp>("127.0.0.1:0")));
    let addresses = served
        .each_ref()
        .map(|one| one.as_ref().unwrap().address.clone());
    let executor = client::<Tcp>(&addresses, PATIENT);
    let endpoint = executor.endpoint();
    let killed = NodeId(1);
    let word = |node| RemoteAddr { node, ..at(0) };
    let before = endpoint.node(killed).unwrap().incarnation;
    // Every round asks all three at once, and looks at the answers of each.
    let round = async || {
        let first = endpoint.fetch_add(word(NodeId(0)), 1);
        let last = endpoint.fetch_add(word(NodeId(2)), 1);
        let others = both(first, last);
        both(others, async { endpoint.fetch_add(word(killed), 1).await }).await
    };
    let mut again = None;
    let mut failed = 0;
    let mut rounds = 0;
    executor.block_on(async {
        for number in 0.. {
            let (others, answer) = round().await;
            assert_eq!(others, (Ok(number), Ok(number)), "the others never fail");
            rounds += 1;
            match (number, answer) {
                (..1000, answer) => assert_eq!(answer, Ok(number)),
                (1000, _) => drop(served[1].take()),
                (_, Err(FabricError::NodeStopped { node, .. })) => {
                    assert_eq!(node, killed);
                    failed += 1;
                    if failed == 1000 {
                        again = Some(start::<Tcp>(&addresses[1]));
                    }
                }
                (_, Err(FabricError::NodeRestarted { node, expected })) => {
                    assert_eq!((node, expected), (killed, before));
                    break;
                }
                (_, answer) => panic!("{answer:?}"),
            }
        }
        assert_ne!(endpoint.adopt(killed).unwrap().incarnation, before);
        let empty = endpoint.read(word(killed), 64).await.unwrap();
        assert_eq!(empty.words(), [0; 8]);
        assert_eq!(round().await, ((Ok(rounds), Ok(rounds)), Ok(0)));
    });
    assert!(failed >= 1000 && again.is_some());
}

#[test]
#[ignore = "needs an RDMA device: scripts/test-verbs runs it"]
fn a_hung_process_is_served_from_over_verbs_by_its_nic() {
    let served = start::<Verbs>("127.0.0.1:0");
    let executor = client::<Verbs>(std::slice::from_ref(&served.address), PATIENT);
    let endpoint = executor.endpoint();
    served.signal(Signal::STOP);
    executor.block_on(async {
        for turn in 0..100 {
            assert_eq!(endpoint.fetch_add(at(8), 1).await, Ok(turn));
        }
    });
    served.signal(Signal::CONT);
}
