//! Names that another table had before, and files of another node: what a node starts from is its
//! own, and the last.

use super::serve;
use crate::common::{ANY_PORT, Node, assert_fails, error_of, farslot, lines};
use std::path::Path;
use tempfile::TempDir;

/// Two nodes, each with a directory that it starts from.
struct Two {
    nodes: [Node; 2],
    directories: [TempDir; 2],
    hosts: [String; 2],
}

fn start(address: &str, directory: &Path) -> Node {
    Node::start_command(serve(address, directory, &["--restore"]))
}

impl Two {
    fn start() -> Self {
        let directories = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let nodes = [0, 1].map(|number| start(ANY_PORT, directories[number].path()));
        let hosts = nodes
            .each_ref()
            .map(|node| node.address.strip_prefix("tcp://").unwrap().to_owned());
        Self {
            nodes,
            directories,
            hosts,
        }
    }

    /// Ends both, and starts them from what they have written.
    fn restart(&mut self) {
        self.nodes.iter_mut().for_each(Node::end);
        self.come_back();
    }

    fn come_back(&mut self) {
        for (number, host) in self.hosts.iter().enumerate() {
            let address = format!("tcp://{host}");
            self.nodes[number] = start(&address, self.directories[number].path());
        }
    }

    /// Both, the first of them first or last.
    fn address(&self, is_first: bool) -> String {
        let [one, other] = &self.hosts;
        match is_first {
            true => format!("tcp://{one},{other}"),
            false => format!("tcp://{other},{one}"),
        }
    }

    fn ok(&self, is_first: bool, args: &[&str]) -> String {
        let address = self.address(is_first);
        let output = farslot(args).args(["-a", &address]).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", error_of(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    fn load(&self, is_first: bool, table: &str, numbers: std::ops::Range<u32>) {
        let records = tempfile::NamedTempFile::with_suffix(".csv").unwrap();
        std::fs::write(records.path(), lines(numbers)).unwrap();
        let file = records.path().to_str().unwrap();
        self.ok(
            is_first,
            &["load", table, file, "--create=1000", "--no-header"],
        );
    }

    fn assert_count(&self, is_first: bool, table: &str, records: u32) {
        // The first line names the columns.
        let dump = self.ok(is_first, &["dump", table, "--format", "csv"]);
        assert_eq!(dump.lines().count(), records as usize + 1, "{table}");
    }

    /// The last snapshots of a node's directory.
    fn files(&self, number: usize) -> Vec<String> {
        let entries = std::fs::read_dir(self.directories[number].path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name.ends_with(".snapshot")).collect();
        names.sort();
        names
    }
}

/// The nodes have other parts of the second table, for it was made over them in another order.
#[test]
fn a_table_comes_back_whose_name_another_had_before() {
    let mut two = Two::start();
    two.load(true, "t", 0..100);
    two.restart();
    // Renamed, so that the snapshots that it was restored from are of a table that there is.
    two.ok(true, &["rename", "t", "old"]);
    two.load(false, "t", 500..530);
    two.restart();
    two.assert_count(true, "old", 100);
    two.assert_count(false, "t", 30);
    assert_eq!(two.files(0), ["old@0.snapshot", "t@1.snapshot"]);
    assert_eq!(two.files(1), ["old@1.snapshot", "t@0.snapshot"]);
    // Dropped, and made anew.
    two.ok(true, &["drop", "t"]);
    two.load(true, "t", 700..720);
    two.restart();
    two.assert_count(true, "t", 20);
    assert_eq!(two.ok(true, &["get", "t", "key-701"]), "value of 701\n");
    assert_eq!(two.files(0), ["old@0.snapshot", "t@0.snapshot"]);
}

/// As a node leaves them that is killed before it removes what is of no use any more.
#[test]
fn of_two_parts_that_a_node_had_it_starts_from_the_last() {
    let mut two = Two::start();
    two.load(true, "t", 0..100);
    two.restart();
    let stale = two.directories[0].path().join("t@0.snapshot");
    let kept = std::fs::read(&stale).unwrap();
    two.ok(true, &["drop", "t"]);
    // What the snapshots say of their age is in seconds.
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    two.load(false, "t", 500..530);
    two.nodes.iter_mut().for_each(Node::end);
    std::fs::write(&stale, kept).unwrap();
    assert_eq!(two.files(0), ["t@0.snapshot", "t@1.snapshot"]);
    two.come_back();
    two.assert_count(false, "t", 30);
}

#[test]
fn a_node_does_not_start_from_the_part_of_another() {
    let mut two = Two::start();
    two.load(true, "t", 0..100);
    two.nodes.iter_mut().for_each(Node::end);
    let part = |of: usize| two.directories[of].path().join(format!("t@{of}.snapshot"));
    let wrong = two.directories[1].path().join("t@0.snapshot");
    std::fs::copy(part(0), &wrong).unwrap();
    let own = std::fs::read(part(1)).unwrap();
    std::fs::remove_file(part(1)).unwrap();
    let address = format!("tcp://{}", two.hosts[1]);
    let refused = serve(&address, two.directories[1].path(), &["--restore"])
        .output()
        .unwrap();
    assert_fails(&refused, 1, &[&two.hosts[0], &two.hosts[1], "t@0.snapshot"]);
    // With its own beside it, it takes that; also if it has an address of the other node besides.
    std::fs::write(part(1), own).unwrap();
    two.come_back();
    two.assert_count(true, "t", 100);
    two.nodes[1].end();
    let named = ["--restore", "--restore-as", &two.hosts[0]];
    let again = serve(&address, two.directories[1].path(), &named);
    two.nodes[1] = Node::start_command(again);
    two.assert_count(true, "t", 100);
}

#[test]
fn snapshots_that_are_asked_for_without_names_are_those_that_are_as_old() {
    let (node, directory) = (Node::start(), tempfile::tempdir().unwrap());
    let path = directory.path().to_str().unwrap();
    node.ok(["create", "t", "--capacity", "1000"]);
    let check = |older: &str| farslot(["restore", path, "--check", "--older", older]).output();
    assert_fails(&check("0").unwrap(), 1, &["has no snapshots"]);
    for _ in 0..2 {
        node.ok(["snapshot", path]);
    }
    assert!(check("1").unwrap().status.success());
    let file = directory.path().join("t.snapshot.1");
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() - 5]).unwrap();
    assert!(check("0").unwrap().status.success());
    assert_fails(&check("1").unwrap(), 1, &["t.snapshot.1"]);
    assert_fails(
        &check("7").unwrap(),
        1,
        &["has no snapshots that are 7 older than the last"],
    );
    // One that is the only one comes back by its table's name and without.
    std::fs::write(&file, &whole).unwrap();
    std::fs::remove_file(directory.path().join("t.snapshot")).unwrap();
    node.ok(["drop", "t"]);
    node.ok(["restore", path, "--older", "1"]);
    assert_eq!(node.count("t"), 0);
}
