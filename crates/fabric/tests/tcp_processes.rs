//! TCP between real processes, one of which stops. A test that needs a second one starts this file again.

use farslot_fabric::shm::{Node, RegionSpec, ShmEndpoint, attach};
use farslot_fabric::tcp::{Agent, AgentOptions, TcpEndpoint, TcpOptions};
use farslot_fabric::*;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

const LISTEN: &str = "FARSLOT_TEST_LISTEN";
const NAME: &str = "FARSLOT_TEST_NAME";

fn at(offset: u64) -> RemoteAddr {
    RemoteAddr {
        node: NodeId(0),
        region: RegionId(0),
        offset,
    }
}

/// Not a test of its own: what the second process does. It serves over both fabrics.
#[test]
fn agent_process() {
    let (Ok(listen), Ok(name)) = (std::env::var(LISTEN), std::env::var(NAME)) else {
        return;
    };
    let region = RegionSpec {
        len: 1 << 20,
        rights: Rights::ALL,
    };
    let node = Node::serve(&name, &[region]).unwrap();
    let options = AgentOptions {
        listen,
        ..AgentOptions::default()
    };
    let agent = Agent::start(node, &options).unwrap();
    println!("serving {}", agent.address());
    std::thread::sleep(Duration::from_secs(60));
}

struct Served {
    process: Child,
    address: String,
}

impl Served {
    fn start(listen: &str, name: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "agent_process", "--nocapture"])
            .env(LISTEN, listen)
            .env(NAME, name)
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

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.process.id() as i32).unwrap();
        kill_process(pid, signal).unwrap();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn name(test: &str) -> String {
    format!("tcp-{test}-{}", std::process::id())
}

fn client(address: &str, verb_timeout: Nanos) -> Executor<TcpEndpoint> {
    let options = TcpOptions {
        limits: Limits {
            verb_timeout,
            ..Limits::default()
        },
        ..TcpOptions::default()
    };
    Executor::new(Rc::new(TcpEndpoint::connect(&[address], &options).unwrap()))
}

#[test]
fn one_process_serves_its_memory_over_both_fabrics() {
    let name = name("both");
    let served = Served::start("127.0.0.1:0", &name);
    let executor = client(&served.address, 20_000_000_000);
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
    let served = Served::start("127.0.0.1:0", &name("hang"));
    let executor = client(&served.address, TIMEOUT);
    let endpoint = executor.endpoint();
    assert_eq!(executor.block_on(endpoint.fetch_add(at(0), 1)), Ok(0));
    served.stop();
    let since = Instant::now();
    let node = NodeId(0);
    let lost = FabricError::TimedOut {
        node,
        after: TIMEOUT,
    };
    let stopped = FabricError::NodeStopped { node };
    executor.block_on(async {
        let first = async { endpoint.fetch_add(at(0), 1).await };
        let second = async { endpoint.fetch_add(at(8), 1).await };
        assert_eq!(both(first, second).await, (Err(lost.clone()), Err(lost)));
        assert!(since.elapsed() >= Duration::from_nanos(TIMEOUT));
        for _ in 0..10 {
            assert_eq!(endpoint.fetch_add(at(16), 1).await, Err(stopped.clone()));
        }
    });
    assert_eq!(endpoint.node_state(node), Ok(NodeState::Down(stopped)));
    served.signal(Signal::CONT);
    // Lost verbs may have taken effect, in order; those behind them have not.
    while endpoint.node_state(node) != Ok(NodeState::Up) {
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
fn a_killed_agent_is_told_and_one_that_came_back_empty_has_another_incarnation() {
    let name = name("kill");
    let mut served = Served::start("127.0.0.1:0", &name);
    let executor = client(&served.address, 20_000_000_000);
    let endpoint = Rc::clone(executor.endpoint());
    let node = NodeId(0);
    let before = endpoint.node(node).unwrap();
    let mut killed = false;
    let mut outcomes = Vec::new();
    executor.block_on(async {
        let reads = (0..500).map(|_| endpoint.read(at(0), 1 << 20));
        window(100, reads, |number, read| {
            outcomes.push((number, read.map(drop)));
            if !std::mem::replace(&mut killed, true) {
                served.process.kill().unwrap();
                served.process.wait().unwrap();
            }
        })
        .await;
    });
    // The end may be known while answers that came before it still have to be fetched: in the order in
    // which they were posted, all verbs from some on have failed.
    outcomes.sort_by_key(|(number, _)| *number);
    let outcomes: Vec<_> = outcomes.into_iter().map(|(_, outcome)| outcome).collect();
    let stopped = Err(FabricError::NodeStopped { node });
    assert_eq!(outcomes[0], Ok(()));
    assert_eq!(outcomes.last(), Some(&stopped));
    let ends = outcomes.iter().position(|outcome| *outcome == stopped);
    let behind = &outcomes[ends.unwrap()..];
    assert!(behind.iter().all(|outcome| *outcome == stopped));

    let address = served.address.clone();
    drop(served);
    let _again = Served::start(&address, &name);
    while !matches!(endpoint.node_state(node), Ok(NodeState::Restarted { .. })) {
        std::thread::yield_now();
    }
    let after = endpoint.adopt(node).unwrap();
    assert_ne!(after.incarnation, before.incarnation);
    assert_eq!(endpoint.node(node), Ok(after));
    assert_eq!(executor.block_on(endpoint.fetch_add(at(0), 1)), Ok(0));
}

#[test]
fn one_of_three_nodes_is_killed_and_the_others_serve_on() {
    let names = ["a", "b", "c"].map(name);
    let mut served: Vec<_> = names
        .iter()
        .map(|name| Some(Served::start("127.0.0.1:0", name)))
        .collect();
    let addresses: Vec<_> = served
        .iter()
        .map(|one| one.as_ref().unwrap().address.clone())
        .collect();
    let options = TcpOptions {
        limits: Limits {
            verb_timeout: 20_000_000_000,
            ..Limits::default()
        },
        ..TcpOptions::default()
    };
    let endpoint = TcpEndpoint::connect(&addresses, &options).unwrap();
    let executor = Executor::new(Rc::new(endpoint));
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
                (_, Err(FabricError::NodeStopped { node })) => {
                    assert_eq!(node, killed);
                    failed += 1;
                    if failed == 1000 {
                        again = Some(Served::start(&addresses[1], &names[1]));
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
