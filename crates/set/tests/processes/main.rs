//! Ranks that are processes: over mapped memory with one killed at a random moment, as three nodes
//! over TCP, and as [`inserters`] over three nodes.
//!
//! The test runs itself again as each rank, which the environment says that it is.

mod inserters;

use farslot_fabric::shm::{self, MappedWords, Node, RegionSpec};
use farslot_fabric::tcp::{Agent, AgentOptions, ConnectOptions, TcpEndpoint};
use farslot_fabric::{Executor, Limits, NodeId, RegionId, Rights};
use farslot_set::job::{Job, JobError, Launch};
use farslot_set::shared::{ChunkSizes, Part, Reach, SharedDataSet, SharedTreeSet, SharedWordSet};
use farslot_set::{DataShape, Layout, Segments, WordSet};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
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
        Ok("node") => inserters::node(),
        Ok("inserter") => inserters::inserter(),
        _ => {
            println!("running 3 tests");
            a_killed_process_hurts_no_other();
            println!("test a_killed_process_hurts_no_other ... ok");
            three_tcp_nodes_insert_each_element_once();
            println!("test three_tcp_nodes_insert_each_element_once ... ok");
            inserters::killed_inserters_hurt_no_other_over_three_tcp_nodes();
            println!("test killed_inserters_hurt_no_other_over_three_tcp_nodes ... ok");
            println!("test result: ok. 3 passed; 0 failed");
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
        out.write_all(b"end\n").unwrap();
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

/// The whole lines that a process prints, the last of which is `end`; with `most`, the process is
/// killed behind that many of them, or at its end.
fn whole_lines(child: &mut Child, most: Option<usize>) -> Vec<String> {
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut lines = Vec::new();
    if most == Some(0) {
        child.kill().unwrap();
    }
    loop {
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        // Of a killed process the last line may be cut short.
        let Some(line) = line.strip_suffix('\n') else {
            break;
        };
        lines.push(line.to_owned());
        if Some(lines.len()) == most || (most.is_some() && line == "end") {
            child.kill().unwrap();
        }
    }
    let ended = lines.last().is_some_and(|line| line == "end");
    let well = child.wait().unwrap().success();
    assert!(if most.is_none() {
        well && ended
    } else {
        !well || ended
    });
    lines
}

/// The seeds of what is random here: those of `FARSLOT_SEED`, or a few.
fn seeds() -> Vec<u64> {
    let given = std::env::var("FARSLOT_SEED").ok();
    given.map_or_else(|| (0..4).collect(), |seed| vec![seed.parse().unwrap()])
}

fn a_killed_process_hurts_no_other() {
    for seed in seeds() {
        println!("seed {seed}");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut ranks = start("mapped");
        let most = rng.random_range(1..4000);
        let mut times = HashMap::new();
        std::thread::scope(|scope| {
            let readers: Vec<_> = ranks
                .iter_mut()
                .zip(0..)
                .map(|(child, rank)| {
                    scope.spawn(move || whole_lines(child, (rank == 1).then_some(most)))
                })
                .collect();
            for reader in readers {
                let lines = reader.join().unwrap();
                for line in lines.iter().filter(|line| *line != "end") {
                    *times.entry(line.parse::<u64>().unwrap()).or_insert(0) += 1;
                }
            }
        });
        let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.is_empty(), "inserted twice: {twice:?}");
        // What the victim inserted last it may not have said.
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
    // A node lies in the part of the rank that inserts it, and the fastest may insert nearly all.
    let nodes = Layout::new(ranks, 8_000, 12_000).unwrap();
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
