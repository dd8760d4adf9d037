//! Ranks that are processes: over mapped memory with one killed at a random moment, and as three nodes over TCP.
//!
//! The test runs itself again as each rank, which the environment says that it is.

use farslot_fabric::shm::{self, MappedWords, Node, RegionSpec};
use farslot_fabric::tcp::{Agent, AgentOptions, ConnectOptions, TcpEndpoint};
use farslot_fabric::{Executor, Limits, NodeId, RegionId, Rights};
use farslot_set::job::{Job, JobError, Launch};
use farslot_set::shared::{ChunkSizes, Part, Reach, SharedDataSet, SharedTreeSet, SharedWordSet};
use farslot_set::{DataShape, Layout, Segments, WordSet};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

const RANKS: u32 = 3;
const ELEMENTS: u64 = 30_000;
/// Says which of the tests a process is a rank of.
const ROLE: &str = "FARSLOT_SET_TEST_ROLE";
const RENDEZVOUS: &str = "FARSLOT_SET_TEST_RENDEZVOUS";

fn main() {
    match std::env::var(ROLE).as_deref() {
        Ok("mapped") => mapped_rank(),
        Ok("tcp") => tcp_rank(),
        _ => {
            println!("running 2 tests");
            a_killed_process_hurts_no_other();
            println!("test a_killed_process_hurts_no_other ... ok");
            three_tcp_nodes_insert_each_element_once();
            println!("test three_tcp_nodes_insert_each_element_once ... ok");
            println!("test result: ok. 2 passed; 0 failed");
        }
    }
}

/// Starts the ranks of a job, as `mpirun` does.
fn start(role: &str) -> Vec<Child> {
    // A loopback address of this process's own, on which nobody else takes ports.
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let address = format!("127.{}.{middle}.{low}:7002", 1 + high % 250);
    let program = std::env::current_exe().unwrap();
    (0..RANKS)
        .map(|rank| {
            let mut rank_of = Command::new(&program);
            rank_of.env(ROLE, role).env(RENDEZVOUS, &address);
            rank_of.env("OMPI_COMM_WORLD_RANK", rank.to_string());
            rank_of.env("OMPI_COMM_WORLD_SIZE", RANKS.to_string());
            rank_of.stdin(Stdio::piped()).stdout(Stdio::piped());
            rank_of.spawn().unwrap()
        })
        .collect()
}

fn join() -> Job {
    let launch = Launch::from_environment(std::env::var(RENDEZVOUS).ok()).unwrap();
    Job::join(launch).unwrap()
}

/// The elements of a rank, in an order of its own: all ranks have all, from different starts.
fn elements(rank: u32) -> impl Iterator<Item = u64> {
    let start = u64::from(rank) * ELEMENTS / u64::from(RANKS);
    (0..ELEMENTS).map(move |at| (start + at) % ELEMENTS)
}

/// The lines that a rank has printed, each an element that it was told it has inserted.
fn lines_of(child: &mut Child) -> Vec<String> {
    let out = BufReader::new(child.stdout.take().unwrap());
    out.lines().map_while(Result::ok).collect()
}

fn mapped_rank() {
    let mut job = join();
    let (rank, layout) = (
        job.rank(),
        Layout::new(u64::from(RANKS), 12_000, 0).unwrap(),
    );
    let region = RegionSpec {
        len: layout.region_bytes(),
        rights: Rights::ALL,
    };
    let name = format!("set-test-{}", std::process::id());
    let own = Node::serve(&name, &[region]).unwrap();
    let names = job.all_gather(name.as_bytes()).unwrap();
    let nodes = names.iter().zip(0..).map(|(name, of)| {
        if of == rank {
            return own.clone();
        }
        shm::attach(std::str::from_utf8(name).unwrap(), Rights::ALL).unwrap()
    });
    let parts = nodes.map(|node| MappedWords::of(&node, RegionId(0)).unwrap());
    let set = WordSet::over(Segments::mapped(layout, rank as usize, parts.collect()).unwrap());
    job.barrier().unwrap();
    // One write for each line: what a killed process has printed is whole, but for its last line.
    let mut out = std::io::stdout().lock();
    for element in elements(rank) {
        if set.find_or_put(element).unwrap().is_inserted() {
            out.write_all(format!("{element}\n").as_bytes()).unwrap();
        }
    }
    if rank == 1 {
        // Whenever it is killed, it has not come to the barrier. Without a parent it ends.
        let _ = std::io::stdin().read_line(&mut String::new());
        return;
    }
    // The survivors learn who has died, and have everything all the same.
    let end = job.barrier();
    assert!(
        matches!(end, Err(JobError::RankDied { rank: 1 })),
        "{end:?}"
    );
    if rank == 0 {
        let all = (0..ELEMENTS).filter(|element| set.contains(*element).unwrap());
        assert_eq!(all.count() as u64, ELEMENTS);
        assert_eq!(
            set.iter().count() as u64,
            ELEMENTS,
            "an element is there twice"
        );
    }
    out.write_all(b"end\n").unwrap();
}

fn a_killed_process_hurts_no_other() {
    for round in 0..3u64 {
        let mut ranks = start("mapped");
        let mut printed = Vec::new();
        let victim = BufReader::new(ranks[1].stdout.take().unwrap());
        let mut inserted_by_victim = Vec::new();
        for line in victim.lines().map_while(Result::ok) {
            inserted_by_victim.push(line);
            if inserted_by_victim.len() as u64 == 1 + round * 1000 {
                ranks[1].kill().unwrap();
            }
        }
        assert!(!ranks[1].wait().unwrap().success());
        for survivor in [0, 2] {
            let mut lines = lines_of(&mut ranks[survivor]);
            assert!(
                ranks[survivor].wait().unwrap().success(),
                "rank {survivor} failed"
            );
            assert_eq!(lines.pop().as_deref(), Some("end"));
            printed.extend(lines);
        }
        let mut times = HashMap::new();
        printed.extend(
            inserted_by_victim
                .iter()
                .filter(|line| line.parse::<u64>().is_ok())
                .cloned(),
        );
        for line in &printed {
            *times.entry(line.parse::<u64>().unwrap()).or_insert(0) += 1;
        }
        // The victim's last line may be cut short, and what it inserted last it may not have said.
        let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.len() <= 1, "inserted twice: {twice:?}");
        assert!(
            times.len() as u64 + 1 >= ELEMENTS,
            "only {} were inserted",
            times.len()
        );
    }
}

fn tcp_rank() {
    const BYTES: usize = 64;
    let mut job = join();
    let (rank, ranks) = (job.rank(), u64::from(RANKS));
    let nodes = Layout::new(ranks, 4_000, 4_000).unwrap();
    let roots = Layout::new(ranks, 2_000, 0).unwrap();
    let regions = [nodes, roots].map(|layout| RegionSpec {
        len: layout.region_bytes(),
        rights: Rights::ALL,
    });
    let node = Node::embedded(&regions).unwrap();
    let agent = Agent::start(node.clone(), &AgentOptions::default()).unwrap();
    let addresses = job
        .all_gather(agent.address().to_string().as_bytes())
        .unwrap();
    let addresses: Vec<_> = addresses
        .into_iter()
        .map(|address| String::from_utf8(address).unwrap())
        .collect();
    let limits = Limits {
        verb_timeout: 60_000_000_000,
        ..Limits::default()
    };
    let options = ConnectOptions {
        limits,
        connect_timeout: Duration::from_secs(60),
        ..ConnectOptions::default()
    };
    let endpoint = Rc::new(TcpEndpoint::connect(&addresses, &options).unwrap());
    let reach = |layout: Layout, region: u16| {
        let region = RegionId(region);
        let parts = (0..RANKS).map(|of| {
            if of == rank {
                return Part::Mapped(MappedWords::of(&node, region).unwrap());
            }
            match Part::of_node(NodeId(of as u16)) {
                Part::Remote(at) => Part::Remote(farslot_fabric::RemoteAddr { region, ..at }),
                part => part,
            }
        });
        Reach::new(Rc::clone(&endpoint), layout, rank as usize, parts.collect()).unwrap()
    };
    let chunks = ChunkSizes::fixed(32, 32).unwrap();
    let nodes = SharedDataSet::new(DataShape::fixed(8), reach(nodes, 0), chunks.clone()).unwrap();
    let roots = SharedWordSet::new(reach(roots, 1), chunks);
    let set = SharedTreeSet::new(BYTES, nodes, roots).unwrap();
    job.barrier().unwrap();
    let state = |number: u64| -> Vec<u8> {
        (0..BYTES as u64)
            .map(|at| (number >> (at % 12)) as u8 & 3)
            .collect()
    };
    let states: Vec<_> = elements(rank)
        .step_by(10)
        .map(|number| state(number % 4096))
        .collect();
    let mut inserted = 0u64;
    let executor = Executor::new(Rc::clone(&endpoint));
    executor.block_on(async {
        let mut ids = vec![None; states.len()];
        set.find_or_put_all(&states, 64, |at, put| {
            let put = put.unwrap();
            inserted += u64::from(put.is_inserted());
            ids[at] = put.place();
        })
        .await;
        let mut tree = set.tree();
        for (id, state) in ids.into_iter().zip(&states).step_by(7) {
            set.load(id.unwrap(), &mut tree).await.unwrap();
            assert_eq!(tree.bytes(), state);
        }
    });
    let counts = job.all_gather(&inserted.to_le_bytes()).unwrap();
    let counts = counts
        .into_iter()
        .map(|count| u64::from_le_bytes(count.try_into().unwrap()));
    let all = (0..RANKS).flat_map(|rank| {
        elements(rank)
            .step_by(10)
            .map(|number| state(number % 4096))
    });
    let distinct = all.collect::<std::collections::HashSet<_>>().len() as u64;
    assert_eq!(counts.sum::<u64>(), distinct);
}

fn three_tcp_nodes_insert_each_element_once() {
    for (rank, mut child) in start("tcp").into_iter().enumerate() {
        assert!(child.wait().unwrap().success(), "rank {rank} failed");
    }
}
