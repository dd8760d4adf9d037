//! Verbs between real processes, one of which stops. A test that needs a second one starts this file again.

use crate::common::at;
use farslot_fabric::verbs::{Agent, VerbsAgentOptions, VerbsEndpoint, VerbsOptions};
use farslot_fabric::*;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

const LISTEN: &str = "FARSLOT_TEST_LISTEN";

/// Not a test of its own: what the second process does.
#[test]
fn agent_process() {
    let Ok(listen) = std::env::var(LISTEN) else {
        return;
    };
    let node = crate::common::node(1 << 20, Rights::ALL);
    let options = VerbsAgentOptions {
        listen,
        ..VerbsAgentOptions::default()
    };
    let agent = Agent::start(node, &options).unwrap();
    println!("serving {}", agent.address());
    std::thread::sleep(Duration::from_secs(300));
}

struct Served {
    process: Child,
    address: String,
}

impl Served {
    fn start(listen: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "processes::agent_process", "--nocapture"])
            .env(LISTEN, listen)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let address = lines
            .map_while(std::result::Result::ok)
            .find_map(|line| Some(line.split_once("serving ")?.1.to_owned()));
        Self {
            process,
            address: address.expect("the agent says where it serves"),
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.process.id() as i32).unwrap();
        kill_process(pid, signal).unwrap();
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn client(addresses: &[&str], verb_timeout: Nanos) -> Executor<VerbsEndpoint> {
    let options = VerbsOptions {
        limits: Limits {
            verb_timeout,
            ..Limits::default()
        },
        ..VerbsOptions::default()
    };
    Executor::new(Rc::new(
        VerbsEndpoint::connect(addresses, &options).unwrap(),
    ))
}

const PATIENT: Nanos = 20_000_000_000;

#[test]
fn a_process_that_hangs_is_served_from_by_its_nic() {
    let served = Served::start("127.0.0.1:0");
    let executor = client(&[&served.address], PATIENT);
    let endpoint = executor.endpoint();
    served.signal(Signal::STOP);
    executor.block_on(async {
        for turn in 0..100 {
            assert_eq!(endpoint.fetch_add(at(8), 1).await, Ok(turn));
        }
    });
    served.signal(Signal::CONT);
}

#[test]
fn a_killed_node_is_noticed_at_once_and_its_successor_is_told_apart() {
    let mut served = Served::start("127.0.0.1:0");
    let mut other = Served::start("127.0.0.1:0");
    let executor = client(&[&served.address, &other.address], PATIENT);
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
    let stopped = Err(FabricError::NodeStopped { node });
    // In the order of their posting: none was done behind one that was lost.
    outcomes.sort_by_key(|(number, _)| *number);
    let lost = outcomes.iter().position(|(_, outcome)| *outcome == stopped);
    let (done, lost) = outcomes.split_at(lost.unwrap());
    assert!(!done.is_empty() && done.iter().all(|(_, outcome)| *outcome == Ok(())));
    assert!(lost.iter().all(|(_, outcome)| *outcome == stopped));
    assert!(
        since.elapsed() < Duration::from_nanos(PATIENT),
        "not by the verb timeout"
    );
    assert_eq!(
        endpoint.node_state(node),
        Ok(NodeState::Down(FabricError::NodeStopped { node }))
    );
    assert_eq!(endpoint.node_state(kept), Ok(NodeState::Up));

    let _again = Served::start(&served.address);
    let mut incarnation = 0;
    crate::wait_until("it is back", || match endpoint.node_state(node) {
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

#[test]
fn an_idle_client_knows_that_its_node_was_killed() {
    let mut served = Served::start("127.0.0.1:0");
    let executor = client(&[&served.address], PATIENT);
    let endpoint = executor.endpoint();
    assert_eq!(executor.block_on(endpoint.fetch_add(at(8), 5)), Ok(0));
    served.kill();
    let node = NodeId(0);
    let down = Ok(NodeState::Down(FabricError::NodeStopped { node }));
    crate::wait_until("it is known", || endpoint.node_state(node) == down);
    let stopped = Err(FabricError::NodeStopped { node });
    assert_eq!(executor.block_on(endpoint.fetch_add(at(8), 1)), stopped);
}

#[test]
fn some_nodes_may_be_down_at_first_and_come_later() {
    let mut first = Served::start("127.0.0.1:0");
    let late = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let options = VerbsOptions {
        limits: crate::PATIENT,
        ..VerbsOptions::default()
    };
    let addresses = [&first.address, &late];
    assert!(matches!(
        VerbsEndpoint::connect(&addresses, &options).map(drop),
        Err(FabricError::ConnectionRefused { .. })
    ));
    let endpoint = Rc::new(VerbsEndpoint::connect_available(&addresses, &options).unwrap());
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
    let mut second = Served::start(&late);
    crate::wait_until("it is up", || {
        endpoint.node_state(NodeId(1)) == Ok(NodeState::Up)
    });
    assert_eq!(executor.block_on(endpoint.fetch_add(of_late, 1)), Ok(0));
    let twice = VerbsEndpoint::connect(&[&first.address, &first.address], &options).map(drop);
    assert!(
        matches!(twice, Err(FabricError::DuplicateNode { .. })),
        "{twice:?}"
    );
    first.kill();
    second.kill();
}
