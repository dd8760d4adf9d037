//! Inserters that are killed, over three nodes that live on: exactly once over TCP.
//!
//! The nodes are processes that lend memory, nothing else. The inserters are processes without
//! memory of their own, each with a map of 64-byte elements over the nodes.

use super::{ELEMENTS, ROLE, elements, whole_lines};
use farslot_fabric::shm::{Node, RegionSpec};
use farslot_fabric::tcp::{Agent, AgentOptions, ConnectOptions, TcpEndpoint};
use farslot_fabric::{Executor, Limits, NodeId, Rights};
use farslot_set::shared::{ChunkSizes, Part, Reach, SharedDataSet};
use farslot_set::{DataShape, Layout};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

const NODES: u32 = 3;
const INSERTERS: u32 = 3;
/// Elements that an inserter has under way at a time.
const WIDTH: usize = 16;
/// Every so many-th of the elements is inserted here.
const STEP: usize = 10;
const NODES_AT: &str = "FARSLOT_SET_TEST_NODES";
const INSERTER: &str = "FARSLOT_SET_TEST_INSERTER";

fn layout() -> Layout {
    let elements = ELEMENTS / STEP as u64;
    // Each node has room for all elements, with their values: a killed inserter's blocks are lost.
    Layout::new(u64::from(NODES), elements, 2 * 9 * elements).unwrap()
}

/// The bytes of an element, all of which its number decides, and so does its value.
fn bytes_of(number: u64) -> Vec<u8> {
    (0..8u64)
        .flat_map(|at| {
            (number * 8 + at)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .to_le_bytes()
        })
        .collect()
}

fn map_over(addresses: &[String], rank: usize) -> SharedDataSet<TcpEndpoint> {
    let limits = Limits {
        verb_timeout: 60_000_000_000,
        ..Limits::default()
    };
    let options = ConnectOptions {
        limits,
        connect_timeout: Duration::from_secs(60),
        ..ConnectOptions::default()
    };
    let endpoint = Rc::new(TcpEndpoint::connect(addresses, &options).unwrap());
    let parts = (0..NODES).map(|node| Part::of_node(NodeId(node as u16)));
    let reach = Reach::new(endpoint, layout(), rank, parts.collect()).unwrap();
    let chunks = ChunkSizes::fixed(32, 32).unwrap();
    SharedDataSet::new(DataShape::fixed(64).with_values(1), reach, chunks).unwrap()
}

/// A process that lends memory until its parent closes its standard input.
pub fn node() {
    let region = RegionSpec {
        len: layout().region_bytes(),
        rights: Rights::ALL,
    };
    let node = Node::embedded(&[region]).unwrap();
    let agent = Agent::start(node, &AgentOptions::default()).unwrap();
    println!("{}", agent.address());
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// A process that inserts all elements, from a start of its own, and prints those that it was told
/// it has inserted.
pub fn inserter() {
    let addresses: Vec<String> = std::env::var(NODES_AT)
        .unwrap()
        .split(',')
        .map(String::from)
        .collect();
    let rank: u32 = std::env::var(INSERTER).unwrap().parse().unwrap();
    let map = map_over(&addresses, rank as usize);
    let executor = Executor::new(Rc::clone(map.reach().endpoint()));
    let numbers: Vec<u64> = elements(rank).step_by(STEP).collect();
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let out = RefCell::new(std::io::stdout().lock());
    let inserts = numbers.iter().map(|number| {
        let (map, out) = (&map, &out);
        async move {
            let element = bytes_of(*number);
            let put = map.find_or_put_with(&element, |value| value[0] = *number);
            let put = put.await.unwrap();
            assert!(put.place().is_some(), "the map has room");
            if put.is_inserted() {
                // One write for each line: what a killed process has printed is whole, but for its
                // last line.
                let line = format!("{number}\n");
                out.borrow_mut().write_all(line.as_bytes()).unwrap();
            }
        }
    });
    executor.block_on(farslot_fabric::window::window(WIDTH, inserts, |_, ()| ()));
    out.borrow_mut().write_all(b"end\n").unwrap();
}

fn start(role: &str, set: impl Fn(&mut Command)) -> (Child, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(ROLE, role);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    set(&mut command);
    let mut child = command.spawn().unwrap();
    // Byte by byte: what comes behind the line is for others to read.
    let mut line = String::new();
    let mut one_byte = BufReader::with_capacity(1, child.stdout.as_mut().unwrap());
    one_byte.read_line(&mut line).unwrap();
    (child, line.trim().to_owned())
}

/// Kills inserters at moments that a seed decides. Of all others together, each element is
/// `Inserted` exactly once, unless a killed one had it under way; whatever is in the map is there
/// whole, once.
fn killed(seed: u64) {
    println!("seed {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let nodes: Vec<(Child, String)> = (0..NODES).map(|_| start("node", |_| ())).collect();
    let addresses: Vec<String> = nodes.iter().map(|(_, address)| address.clone()).collect();
    let mut inserters: Vec<Child> = (0..INSERTERS)
        .map(|rank| {
            let (child, _) = start("inserter", |command| {
                command.env(NODES_AT, addresses.join(","));
                command.env(INSERTER, rank.to_string());
            });
            child
        })
        .collect();
    for inserter in &mut inserters {
        inserter.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    }
    let victim = rng.random_range(0..INSERTERS as usize);
    let after = rng.random_range(0..400);
    let mut lines: Vec<Vec<String>> = Vec::new();
    std::thread::scope(|scope| {
        let readers: Vec<_> = inserters
            .iter_mut()
            .enumerate()
            .map(|(rank, inserter)| {
                let most = (rank == victim).then_some(after);
                scope.spawn(move || whole_lines(inserter, most))
            })
            .collect();
        lines.extend(readers.into_iter().map(|reader| reader.join().unwrap()));
    });
    let mut times = HashMap::<u64, u32>::new();
    for lines in &lines {
        for line in lines.iter().filter(|line| *line != "end") {
            *times.entry(line.parse().unwrap()).or_default() += 1;
        }
    }
    let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "inserted twice: {twice:?}");
    // All elements are there: the survivors have asked for all. Those that nobody claims the victim
    // had under way.
    let map = map_over(&addresses, 0);
    let executor = Executor::new(Rc::clone(map.reach().endpoint()));
    let mut unclaimed = 0;
    executor.block_on(async {
        for number in (0..ELEMENTS).step_by(STEP) {
            let index = map.find(&bytes_of(number)).await.unwrap();
            let index = index.unwrap_or_else(|| panic!("{number} is not there"));
            assert_eq!(map.get(index).await.unwrap(), bytes_of(number));
            assert_eq!(map.value(index, 0).await.unwrap(), number);
            unclaimed += usize::from(!times.contains_key(&number));
        }
    });
    assert!(unclaimed <= WIDTH, "{unclaimed} that nobody has inserted");
    for (mut node, _) in nodes {
        drop(node.stdin.take());
        assert!(node.wait().unwrap().success());
    }
}

pub fn killed_inserters_hurt_no_other_over_three_tcp_nodes() {
    for seed in super::seeds() {
        killed(seed);
    }
}
