//! Three nodes with directories of snapshots, of which each is ended, lost or replaced, in every
//! order: what comes back is compared with what was acknowledged.

use super::lost::Three;
use super::serve;
use crate::common::{Node, assert_fails, lines};
use farslot::{Cursor, Store};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::HashMap;
use tempfile::TempDir;

/// What happens to a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    /// It is told to end, and starts from its own directory.
    Ended,
    /// It is killed and its directory is lost; it comes back empty.
    Lost,
    /// As lost; then it gets its part from the snapshot that a client has made of all nodes.
    Replaced,
}

use Event::{Ended, Lost, Replaced};

/// What happens, in this order: each of the three nodes has one event.
type Sequence = [(usize, Event); 3];

fn every_sequence() -> Vec<Sequence> {
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    let events = [Ended, Lost, Replaced];
    let mut all = Vec::new();
    for order in orders {
        for number in 0..27 {
            let event = |at: usize| (order[at], events[number / 3_usize.pow(at as u32) % 3]);
            all.push([event(0), event(1), event(2)]);
        }
    }
    all
}

/// Records of the client's snapshot, and those that were put after it.
const IN_SNAPSHOT: u32 = 150;
const ALL: u32 = 200;

/// Which node each record is on, by the table's own partition function.
fn nodes_of_records(three: &Three) -> HashMap<String, usize> {
    let store = Store::open(&three.all).unwrap();
    let table = store.table("t").unwrap();
    let (mut found, mut next) = (HashMap::new(), Some(Cursor::default()));
    while let Some(cursor) = next {
        let node = (cursor.to_number() >> 48) as usize;
        let note = |key: &[u8], _: &[u8]| {
            found.insert(String::from_utf8(key.to_vec()).unwrap(), node);
        };
        next = table.scan(cursor, u64::MAX, note).unwrap();
    }
    found
}

struct Tried {
    three: Three,
    own: [TempDir; 3],
    backup: TempDir,
    of_node: HashMap<String, usize>,
    /// Of each node: what it has now.
    has: [Has; 3],
}

/// What a node has of the records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Has {
    All,
    OfSnapshot,
    Nothing,
}

impl Tried {
    fn start() -> Self {
        let own = [(); 3].map(|()| TempDir::new().unwrap());
        let three = Three::start(|number, address| start(&own[number], address));
        let backup = TempDir::new().unwrap();
        three.ok(&[
            "create",
            "t",
            "--capacity",
            "600",
            "--max-key",
            "16",
            "--max-value",
            "24",
        ]);
        three.load("t", 0..IN_SNAPSHOT);
        three.ok(&["snapshot", backup.path().to_str().unwrap()]);
        three.load("t", IN_SNAPSHOT..ALL);
        let of_node = nodes_of_records(&three);
        assert_eq!(of_node.len(), ALL as usize);
        Self {
            three,
            own,
            backup,
            of_node,
            has: [Has::All; 3],
        }
    }

    fn backup(&self) -> &str {
        self.backup.path().to_str().unwrap()
    }

    fn happen(&mut self, node: usize, event: Event) {
        let address = self.three.address(node);
        if event == Ended {
            drop(self.three.nodes[node].process.stdin.take());
            assert!(self.three.nodes[node].process.wait().unwrap().success());
        } else {
            self.three.nodes[node].kill();
            self.own[node] = TempDir::new().unwrap();
            self.has[node] = Has::Nothing;
        }
        self.three.nodes[node] = start(&self.own[node], &address);
        if event == Replaced {
            self.replace(node);
        }
    }

    fn replace(&mut self, node: usize) {
        let number = (node + 1).to_string();
        self.three
            .ok(&["restore", self.backup(), "t", "--node", &number]);
        self.has[node] = Has::OfSnapshot;
    }

    /// Whether no node has anything: then there may be no table.
    fn is_gone(&self) -> bool {
        self.has == [Has::Nothing; 3]
    }

    /// What was acknowledged and is there, is: neither less nor more.
    fn check(&self, label: &str) {
        let is_there = |number: u32| {
            let node = self.of_node[&format!("key-{number}")];
            match self.has[node] {
                Has::All => true,
                Has::OfSnapshot => number < IN_SNAPSHOT,
                Has::Nothing => false,
            }
        };
        let numbers = (0..ALL).filter(|number| is_there(*number));
        let records = numbers.map(|number| lines(number..number + 1).replace(',', "\t"));
        let mut expected: Vec<_> = records.map(|line| line.trim_end().to_owned()).collect();
        expected.sort();
        if self.is_gone() {
            return;
        }
        let mut dump = self.three.dump("t");
        dump.retain(|line| line.starts_with("key-"));
        assert!(
            dump == expected,
            "{label}: {:?}: {} of {}",
            self.has,
            dump.len(),
            expected.len()
        );
    }

    /// A client's snapshot is refused as long as a node has lost its part, and the last one stays.
    fn check_snapshot(&self) {
        let file = self.backup.path().join("t.snapshot");
        let last = std::fs::read(&file).unwrap();
        let taken = self.three.run(&["snapshot", self.backup(), "t"]);
        if self.has.contains(&Has::Nothing) {
            let why = if self.is_gone() {
                ""
            } else {
                "came back empty"
            };
            assert_fails(&taken, 1, &[why]);
            assert!(std::fs::read(&file).unwrap() == last);
            return;
        }
        assert!(taken.status.success(), "{taken:?}");
        assert!(std::fs::read(self.backup.path().join("t.snapshot.1")).unwrap() == last);
    }
}

fn start(own: &TempDir, address: &str) -> Node {
    Node::start_command(serve(address, own.path(), &["--restore"]))
}

fn comes_back(sequence: &Sequence) {
    let mut tried = Tried::start();
    for (node, event) in sequence {
        tried.happen(*node, *event);
        tried.check(&format!("{sequence:?}, node {node}"));
    }
    tried.check_snapshot();
    for node in 0..3 {
        if tried.has[node] == Has::Nothing {
            tried.replace(node);
        }
    }
    tried.check(&format!("{sequence:?}, at the end"));
    tried.check_snapshot();
}

#[test]
fn what_comes_back_is_what_was_acknowledged_in_some_orders() {
    let seed = match std::env::var("FARSLOT_SEED") {
        Ok(seed) => seed.parse().unwrap(),
        Err(_) => rand::random(),
    };
    println!("FARSLOT_SEED={seed}");
    let mut rng = SmallRng::seed_from_u64(seed);
    let all = every_sequence();
    for _ in 0..4 {
        comes_back(&all[rng.random_range(0..all.len())]);
    }
}

#[test]
#[ignore = "162 sequences: scripts/test --all"]
fn what_comes_back_is_what_was_acknowledged_in_every_order() {
    let all = every_sequence();
    assert_eq!(all.len(), 162);
    all.iter().for_each(comes_back);
}
