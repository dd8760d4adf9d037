//! Many connections, and that nothing of them stays. A file of its own: it counts this process's files.

use farslot_fabric::shm::{Node, RegionSpec};
use farslot_fabric::tcp::admission::connect;
use farslot_fabric::tcp::{Agent, AgentOptions, TcpOptions};
use farslot_fabric::*;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

fn count(folder: &str) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

/// Waits until a count is what it must come to: the agent takes and closes connections in its own time.
fn wait_for(what: &str, expected: usize, count: impl Fn() -> usize) {
    let until = Instant::now() + Duration::from_secs(20);
    while count() != expected {
        assert!(
            Instant::now() < until,
            "{what}: {}, not {expected}",
            count()
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_thousand_held_and_ten_thousand_dropped_leave_nothing() {
    const HELD: usize = 1_000;
    const DROPPED: usize = 10_000;
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised).unwrap();
    let region = RegionSpec {
        len: 4096,
        rights: Rights::ALL,
    };
    let node = Node::embedded(&[region]).unwrap();
    let threads_before = count("/proc/self/task");
    let files_before = count("/proc/self/fd");
    let options = AgentOptions {
        threads: 2,
        ..AgentOptions::default()
    };
    let agent = Agent::start(node, &options).unwrap();
    let address = agent.address().to_string();
    let threads = count("/proc/self/task");
    let files = count("/proc/self/fd");
    let asked = TcpOptions::default();

    let held: Vec<_> = (0..HELD)
        .map(|_| connect(&address, &asked).unwrap())
        .collect();
    wait_for("connections", HELD, || agent.counters().connections);
    for number in 0..DROPPED {
        if number % 10 == 0 {
            drop(connect(&address, &asked).unwrap());
        } else {
            let mut stream = TcpStream::connect(agent.address()).unwrap();
            // Some say a little first.
            stream.write_all(&vec![0; number % 8]).unwrap();
        }
    }
    wait_for("accepted", HELD + DROPPED, || {
        agent.counters().accepted as usize
    });
    wait_for("connections", HELD, || agent.counters().connections);
    wait_for("files", files + 2 * HELD, || count("/proc/self/fd"));
    assert_eq!(count("/proc/self/task"), threads);
    drop(held);
    wait_for("connections", 0, || agent.counters().connections);
    wait_for("files", files, || count("/proc/self/fd"));
    let admitted = agent.counters().admitted as usize;
    assert_eq!(admitted, HELD + DROPPED / 10);
    drop(agent);
    assert_eq!(count("/proc/self/task"), threads_before);
    assert_eq!(count("/proc/self/fd"), files_before);
}
