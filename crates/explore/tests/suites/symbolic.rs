//! Symbolic explorations by several processes, and of nets with more markings than could be
//! visited.

use crate::agreement::symbolic_options;
use crate::nets::{kanban, manufacturing, philosophers};
use crate::ranks::in_jobs;
use farslot_explore::explicit::Progress;
use farslot_explore::net::Net;
use farslot_explore::symbolic::{
    SymbolicallyExplored, explore_symbolically, explore_symbolically_together, share_memory,
};
use farslot_explore::{ExploreError, RankError, Terms};
use farslot_set::job::{Job, Launch};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Where the test program, started by itself as a rank, meets the others.
const CHILD: &str = "FARSLOT_EXPLORE_TEST_RENDEZVOUS";
const CHILD_TEST: &str = "symbolic::is_rank_1_of_two";

/// What ranks find that are threads of this process, each with `threads` workers.
fn by_ranks(net: &Net, ranks: u32, threads: usize, memory: u64) -> SymbolicallyExplored {
    let found = in_jobs(ranks, |mut job| {
        let options = symbolic_options(threads, memory);
        let memory = share_memory(&mut job, &options, Terms::of_net(net, None)).unwrap();
        let found =
            explore_symbolically_together(net, None, &memory, &Progress::default()).unwrap();
        job.barrier().unwrap();
        found
    });
    let mut found = found.into_iter();
    let first = found.next().unwrap().unwrap();
    assert!(found.all(|other| other.is_none()), "only rank 0 tells");
    first
}

fn numbers(explored: SymbolicallyExplored) -> SymbolicallyExplored {
    SymbolicallyExplored {
        bytes: 0,
        seconds: 0.0,
        preparation: 0.0,
        ..explored
    }
}

#[test]
fn workers_of_several_processes_find_what_one_finds() {
    for net in [kanban(8), manufacturing(6), philosophers(12)] {
        let options = symbolic_options(1, 1 << 28);
        let alone = explore_symbolically(&net, None, &options, &Progress::default());
        let alone = numbers(alone.unwrap());
        for (ranks, threads) in [(1, 2), (2, 1), (3, 2)] {
            let found = numbers(by_ranks(&net, ranks, threads, 1 << 28));
            assert_eq!(found, alone, "{} {ranks} x {threads}", net.name());
        }
    }
}

/// From 10^9 markings to beyond 2^64. Philosophers have 3^n; the others' numbers are those that the
/// Model Checking Contest publishes to five digits.
#[test]
fn numbers_of_markings_far_beyond_what_can_be_visited_are_exact() {
    let known = [
        (philosophers(20), "3486784401"),
        (philosophers(50), "717897987691852588770249"),
        (kanban(20), "805422366595"),
        (kanban(50), "10425941194901336"),
        (kanban(100), "17263002294682342171"),
        (manufacturing(20), "6029168852784"),
    ];
    for (net, states) in known {
        let options = symbolic_options(2, 1 << 29);
        let found = explore_symbolically(&net, None, &options, &Progress::default()).unwrap();
        assert_eq!(found.states.to_string(), states, "{}", net.name());
    }
}

#[test]
fn too_little_memory_ends_all_workers() {
    let net = manufacturing(30);
    let options = symbolic_options(3, 3 << 20);
    let end = explore_symbolically(&net, None, &options, &Progress::default());
    assert!(
        matches!(end, Err(ExploreError::OutOfMemory { .. })),
        "{end:?}"
    );
}

fn killed_terms() -> Terms {
    Terms::of_net(&manufacturing(30), None)
}

/// Not a test of its own: what the next one starts as another process.
#[test]
fn is_rank_1_of_two() {
    let Ok(rendezvous) = std::env::var(CHILD) else {
        return;
    };
    let launch = Launch {
        rank: 1,
        ranks: 2,
        rendezvous: Some(rendezvous),
        timeout: Duration::from_secs(120),
    };
    let mut job = Job::join(launch).unwrap();
    let memory = share_memory(&mut job, &symbolic_options(1, 1 << 28), killed_terms()).unwrap();
    println!("met");
    std::io::stdout().flush().unwrap();
    let found =
        explore_symbolically_together(&manufacturing(30), None, &memory, &Progress::default());
    assert!(found.unwrap().is_none());
    job.barrier().unwrap();
}

/// Rank 0 has the answer, or says which rank it has lost; it never waits for ever.
#[test]
fn a_killed_process_is_named() {
    for delay in [0, 20] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", CHILD_TEST, "--nocapture"])
            .env(CHILD, &address)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let launch = Launch {
            rank: 0,
            ranks: 2,
            rendezvous: Some(address),
            timeout: Duration::from_secs(120),
        };
        let mut job = Job::join_over(launch, Some(listener)).unwrap();
        let memory = share_memory(&mut job, &symbolic_options(1, 1 << 28), killed_terms()).unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap().ends_with("met")));
        let killer = std::thread::spawn(move || {
            // Any moment will do.
            std::thread::sleep(Duration::from_millis(delay));
            child.kill().unwrap();
            child.wait().unwrap();
        });
        let net = manufacturing(30);
        let found = explore_symbolically_together(&net, None, &memory, &Progress::default());
        killer.join().unwrap();
        match found {
            Ok(found) => assert_eq!(found.unwrap().states.to_string(), "773701966099328"),
            Err(ExploreError::Rank(RankError::Job(error))) => {
                assert_eq!(error.to_string(), "rank 1 has ended");
            }
            Err(error) => panic!("{error}"),
        }
        assert!(job.barrier().is_err(), "rank 1 is gone");
    }
}
