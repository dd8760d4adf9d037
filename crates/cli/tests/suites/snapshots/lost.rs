//! Snapshots and nodes that came back empty: what the last snapshot has is not replaced by less,
//! and can be put back.

use super::{load, serve, wait_for};
use crate::common::{
    ANY_PORT, Node, assert_fails, error_of, farslot, fresh_address, lines, one_object,
};
use serde_json::json;
use std::path::Path;
use std::process::Output;
use tempfile::TempDir;

/// Three nodes, and commands on all of them.
pub struct Three {
    pub nodes: [Node; 3],
    pub hosts: [String; 3],
    pub all: String,
}

impl Three {
    pub fn start(start: impl Fn(usize, &str) -> Node) -> Self {
        let nodes = [0, 1, 2].map(|number| start(number, ANY_PORT));
        let hosts = nodes.each_ref().map(|node| {
            let host = node.address.strip_prefix("tcp://");
            host.unwrap().to_owned()
        });
        let all = format!("tcp://{}", hosts.join(","));
        Self { nodes, hosts, all }
    }

    pub fn address(&self, number: usize) -> String {
        format!("tcp://{}", self.hosts[number])
    }

    pub fn run(&self, args: &[&str]) -> Output {
        farslot(args).args(["-a", &self.all]).output().unwrap()
    }

    pub fn ok(&self, args: &[&str]) -> Output {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", error_of(&output));
        output
    }

    pub fn load(&self, table: &str, numbers: std::ops::Range<u32>) {
        let records = tempfile::NamedTempFile::with_suffix(".csv").unwrap();
        std::fs::write(records.path(), lines(numbers)).unwrap();
        self.ok(&[
            "load",
            table,
            records.path().to_str().unwrap(),
            "--no-header",
        ]);
    }

    /// The lines of what can be reached of a table, sorted.
    pub fn dump(&self, table: &str) -> Vec<String> {
        let dump = self.ok(&["dump", table, "--partial", "--format", "tsv"]);
        let dump = String::from_utf8(dump.stdout).unwrap();
        let mut lines: Vec<_> = dump.lines().map(String::from).collect();
        lines.sort();
        lines
    }
}

fn alone(_: usize, address: &str) -> Node {
    Node::start_at(address, "64MiB")
}

/// Three nodes with table `t` and a snapshot of it, of which the second came back empty; and the
/// lines that the table had.
fn with_a_part_lost() -> (Three, TempDir, Vec<String>) {
    let mut three = Three::start(alone);
    let directory = tempfile::tempdir().unwrap();
    three.ok(&["create", "t", "--capacity", "5000"]);
    three.load("t", 0..1_000);
    three.ok(&["snapshot", directory.path().to_str().unwrap()]);
    let before = three.dump("t");
    three.nodes[1].kill();
    three.nodes[1] = alone(1, &three.address(1));
    (three, directory, before)
}

#[test]
fn a_snapshot_without_what_a_node_lost_does_not_replace_the_last() {
    let (three, directory, before) = with_a_part_lost();
    let path = directory.path().to_str().unwrap();
    let file = directory.path().join("t.snapshot");
    let last = std::fs::read(&file).unwrap();
    let untouched = three.run(&["snapshot", path, "t"]);
    let parts = [
        "came back empty",
        &three.hosts[1],
        "--node",
        "snapshot DIRECTORY t --force",
    ];
    assert_fails(&untouched, 1, &parts);
    // Clients may use what is there, or be refused.
    three.run(&["get", "t", "key-1"]);
    three.run(&["put", "t", "key-1", "another"]);
    let touched = three.run(&["snapshot", path, "t"]);
    assert_fails(&touched, 1, &parts);
    assert!(std::fs::read(&file).unwrap() == last);

    // All that is not there: the table is, and lacks a part.
    let named = format!("--node tcp://{}", three.hosts[1]);
    assert_fails(&three.run(&["restore", path]), 1, &[&named]);

    // The part comes back from that very file, by its node's number or address.
    let of_another = three.run(&["restore", path, "t", "--node", "1"]);
    assert_fails(&of_another, 1, &["there is a table \"t\" already"]);
    let nowhere = three.run(&["restore", path, "t", "--node", "elsewhere:1"]);
    assert_fails(&nowhere, 1, &["none of the store's nodes", &three.hosts[2]]);
    let restored = three.ok(&["restore", path, "--node", &three.hosts[1], "--json"]);
    let restored = one_object(&restored);
    assert_eq!(restored["restored"][0]["part"], 1);
    let records = restored["restored"][0]["records"].as_u64().unwrap();
    assert!((200..500).contains(&records), "{records}");
    let put_since = |line: &&String| !line.starts_with("key-1\t");
    let after = three.dump("t");
    assert_eq!(after.len(), before.len());
    assert!(
        before
            .iter()
            .filter(put_since)
            .eq(after.iter().filter(put_since))
    );
    let nodes = one_object(&three.ok(&["nodes", "--json"]));
    for node in nodes["nodes"].as_array().unwrap() {
        assert_eq!(node["lost"].as_array().unwrap().len(), 0, "{node}");
    }
    three.ok(&["put", "t", "key-1", "again"]);
    three.ok(&["snapshot", path]);
    assert!(std::fs::read(directory.path().join("t.snapshot.1")).unwrap() == last);
}

/// It says what it lacks, that stays lost, and the one before has it still.
#[test]
fn a_forced_snapshot_is_of_what_is_there() {
    let (three, directory, before) = with_a_part_lost();
    let path = directory.path().to_str().unwrap();
    let file = |name: &str| std::fs::read(directory.path().join(name)).unwrap();
    let last = file("t.snapshot");
    let left = three.dump("t");
    let lost = before.len() - left.len();
    assert!((200..500).contains(&lost), "{lost}");
    let forced = one_object(&three.ok(&["snapshot", path, "t", "--force", "--json"]));
    let forced = &forced["snapshots"][0];
    let of_node = format!("tcp://{}", three.hosts[1]);
    assert_eq!(forced["missing"], json!([of_node]));
    // Beside the line with the names of the columns.
    assert_eq!(forced["records"], left.len() - 1);
    assert!(file("t.snapshot.1") == last);
    let nodes = one_object(&three.ok(&["nodes", "--json"]));
    assert_eq!(nodes["nodes"][1]["lost"], json!(["t"]));
    let lacks = format!("WITHOUT what {of_node} had of it and lost");
    let checked = three.ok(&["restore", path, "--check"]);
    assert!(error_of(&checked).contains(&lacks));
    // Forced once is not forced for good.
    let refused = three.run(&["snapshot", path]);
    assert_fails(&refused, 1, &["came back empty", "--force"]);

    let restore = ["restore", path, "t", "--node", &three.hosts[1]];
    let lacking = three.run(&restore);
    assert_fails(&lacking, 1, &["lacks what", &of_node, "--older 1"]);
    // The whole of it comes back without the part, as often as it is tried.
    for older in ["0", "1"] {
        three.ok(&["drop", "t"]);
        let whole = three.ok(&["restore", path, "t"]);
        assert!(error_of(&whole).contains(&lacks), "{}", error_of(&whole));
        assert!(three.dump("t") == left);
        // And the part from the snapshot that has it.
        let part = three.run(&[&restore[..], &["--older", older]].concat());
        assert_eq!(part.status.success(), older == "1", "{}", error_of(&part));
    }
    assert!(three.dump("t") == before);
    let whole = one_object(&three.ok(&["snapshot", path, "--json"]));
    assert_eq!(whole["snapshots"][0]["missing"], json!([]));
    assert_eq!(whole["snapshots"][0]["records"], before.len() - 1);
}

/// What clients have put since the loss was accepted stays, and the other keys come back.
#[test]
fn a_part_whose_loss_was_accepted_can_still_be_put_back() {
    let (three, directory, before) = with_a_part_lost();
    let path = directory.path().to_str().unwrap();
    three.ok(&["accept-loss", "t"]);
    let refused = three.run(&["snapshot", path]);
    assert_fails(&refused, 1, &["came back empty", "--force"]);
    three.ok(&["snapshot", path, "--force"]);
    let lost = before.len() - three.dump("t").len();
    assert!((200..500).contains(&lost), "{lost}");
    // Of these some were lost, whichever.
    for number in 0..20 {
        three.ok(&["put", "t", &format!("key-{number}"), "newer"]);
    }
    // The snapshot before the one without it has it.
    three.ok(&["restore", path, "--older", "1", "--node", &three.hosts[1]]);
    let after = three.dump("t");
    assert_eq!(after.len(), before.len());
    for number in 0..20 {
        assert!(after.contains(&format!("key-{number}\tnewer")), "{number}");
    }
    let old = before.iter().filter(|line| after.contains(line)).count();
    assert_eq!(old, before.len() - 20);
}

/// One that was killed leaves a part that has not ended, which the next one removes, also if it is
/// from another snapshot: killed in that as well, it leaves the other nodes' parts as they were.
#[test]
fn a_restore_of_a_part_that_is_killed_again_and_again_goes_on() {
    let mut three = Three::start(alone);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let create = ["create", "t", "-c", "120k", "--max-key", "16"];
    three.ok(&[&create[..], &["--max-value", "24"]].concat());
    three.load("t", 0..60_000);
    three.ok(&["snapshot", path]);
    three.ok(&["snapshot", path]);
    let before = three.dump("t");
    three.nodes[1].kill();
    three.nodes[1] = alone(1, &three.address(1));
    let lost = &three.nodes[1];
    let is_left = || {
        let tables = String::from_utf8(lost.ok(["tables"])).unwrap();
        tables.contains("restoring-")
    };
    let restore = ["restore", path, "--node", &three.hosts[1], "-a", &three.all];
    let kill_when = |older: &str, condition: &str, is_so: &dyn Fn() -> bool| {
        let mut restoring = farslot(restore).args(["--older", older]).spawn().unwrap();
        wait_for(condition, is_so);
        restoring.kill().unwrap();
        restoring.wait().unwrap();
    };
    kill_when("0", "a part that is being restored", &is_left);
    assert!(is_left(), "it was faster");
    let refused = three.run(&["accept-loss", "t"]);
    assert_fails(
        &refused,
        1,
        &["restoring-part-", "restore again", "drop restoring-"],
    );
    let nodes = one_object(&three.ok(&["nodes", "--json"]));
    let of_node = |node: usize| nodes["nodes"][node]["lost"].clone();
    assert_eq!([0, 1, 2].map(of_node), [json!([]), json!(["t"]), json!([])]);
    kill_when("1", "the part to be removed", &|| !is_left());
    let left = three.run(&["count", "t", "--partial"]);
    assert!(left.status.success(), "{}", error_of(&left));
    assert!(farslot(restore).status().unwrap().success());
    assert!(three.dump("t") == before);
}

#[test]
fn parts_of_every_scheme_are_put_back() {
    let mut three = Three::start(alone);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let records = tempfile::NamedTempFile::with_suffix(".csv").unwrap();
    std::fs::write(records.path(), lines(0..600)).unwrap();
    let file = records.path().to_str().unwrap();
    let schemes = ["linear", "cuckoo", "race", "duo", "sealed"];
    for scheme in schemes {
        three.ok(&[
            "load",
            scheme,
            file,
            "--create",
            "--no-header",
            "--scheme",
            scheme,
        ]);
    }
    three.ok(&["snapshot", path]);
    let before = schemes.map(|scheme| three.dump(scheme));
    three.nodes[1].kill();
    three.nodes[1] = alone(1, &three.address(1));
    let left = schemes.map(|scheme| three.dump(scheme));
    // Of what is left there is a snapshot too.
    let forced = tempfile::tempdir().unwrap();
    three.ok(&["snapshot", forced.path().to_str().unwrap(), "--force"]);
    three.ok(&["restore", path, "--node", &three.hosts[1]]);
    for (scheme, before) in schemes.iter().zip(&before) {
        assert_eq!((three.dump(scheme), scheme), (before.clone(), scheme));
        three.ok(&["drop", scheme]);
    }
    three.ok(&["restore", forced.path().to_str().unwrap()]);
    for (scheme, left) in schemes.iter().zip(&left) {
        assert_eq!((three.dump(scheme), scheme), (left.clone(), scheme));
    }
}

#[test]
fn a_table_made_anew_on_a_node_that_restarted_does_not_replace_the_last() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let file = directory.path().join("t.snapshot");
    let mut node = Node::start();
    let address = node.address.clone();
    node.ok(["create", "t", "--capacity", "1000"]);
    load(&node, "t", 0..500);
    node.ok(["snapshot", path]);
    // Of a table that a user has dropped and made anew, there is a snapshot.
    node.ok(["drop", "t"]);
    node.ok(["create", "t", "--capacity", "1000"]);
    load(&node, "t", 0..400);
    node.ok(["snapshot", path]);
    let last = std::fs::read(&file).unwrap();
    node.kill();

    let node = Node::start_at(&address, "256MiB");
    node.ok(["create", "t", "--capacity", "1000"]);
    load(&node, "t", 0..3);
    let refused = node.run(["snapshot", path]);
    assert_fails(&refused, 1, &["came back empty", "--force"]);
    assert!(std::fs::read(&file).unwrap() == last);
    // Forced, it is written, and the last one is kept.
    node.ok(["snapshot", path, "--force"]);
    node.ok(["rename", "t", "new"]);
    node.ok(["restore", path, "t", "--older", "1"]);
    assert_eq!(node.count("t"), 400);
    // What was restored is no loss.
    node.ok(["snapshot", path, "t"]);
    node.ok(["snapshot", path, "t"]);
}

#[test]
fn the_last_snapshots_are_kept() {
    let (node, directory) = (Node::start(), tempfile::tempdir().unwrap());
    let path = directory.path().to_str().unwrap();
    node.ok(["create", "t", "--capacity", "1000"]);
    let kept = || {
        let file = |older: usize| match older {
            0 => directory.path().join("t.snapshot"),
            older => directory.path().join(format!("t.snapshot.{older}")),
        };
        (0..9).take_while(|older| file(*older).exists()).count()
    };
    for (number, keep, expected) in [
        (1, None, 1),
        (2, None, 2),
        (3, None, 2),
        (4, Some("4"), 3),
        (5, Some("4"), 4),
        (6, Some("4"), 4),
        (7, Some("3"), 3),
        (8, Some("1"), 1),
        (9, None, 2),
    ] {
        load(&node, "t", 0..number * 10);
        let keep: Vec<_> = keep.into_iter().flat_map(|keep| ["--keep", keep]).collect();
        node.ok([&["snapshot", path][..], &keep].concat());
        assert_eq!(kept(), expected, "snapshot {number}");
        if number == 6 {
            for older in 0..4_u64 {
                let check = [
                    "restore",
                    path,
                    "t",
                    "--check",
                    "--older",
                    &older.to_string(),
                ];
                let records = &node.json(check)["checked"][0]["records"];
                assert_eq!(records.as_u64().unwrap(), 60 - 10 * older);
            }
        }
    }
    let none = node.run(["snapshot", path, "--keep", "0"]);
    assert_fails(&none, 2, &["--keep"]);
    // One that is damaged is not kept in place of one that is whole.
    let last = std::fs::read(directory.path().join("t.snapshot.1")).unwrap();
    std::fs::write(directory.path().join("t.snapshot"), "nothing").unwrap();
    node.ok(["snapshot", path]);
    assert!(std::fs::read(directory.path().join("t.snapshot.1")).unwrap() == last);
}

#[test]
fn a_snapshot_of_one_node_is_restored_on_three_and_back() {
    let (node, three) = (Node::start(), Three::start(alone));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let cuckoo = ["create", "cuckoo", "-c", "1000", "--scheme", "cuckoo"];
    node.ok(["create", "growing"]);
    node.ok(["create", "linear", "-c", "1000"]);
    node.ok(cuckoo);
    let tables = ["growing", "linear", "cuckoo"];
    tables.iter().for_each(|table| load(&node, table, 0..800));
    node.ok(["snapshot", path]);
    three.ok(&["restore", path]);
    let dumped = |table: &str| -> Vec<String> {
        let dump = node.ok(["dump", table, "--format", "tsv"]);
        let mut lines: Vec<_> = String::from_utf8(dump)
            .unwrap()
            .lines()
            .map(String::from)
            .collect();
        lines.sort();
        lines
    };
    for table in tables {
        assert!(three.dump(table) == dumped(table), "{table}");
    }
    let back = tempfile::tempdir().unwrap();
    let back = back.path().to_str().unwrap();
    three.ok(&["snapshot", back]);
    let other = Node::start();
    let refused = other.run(["restore", back, "linear"]);
    assert_fails(&refused, 1, &["over 3 nodes", "--fewer-nodes", "--node"]);
    other.ok(["restore", back, "--fewer-nodes"]);
    for table in tables {
        assert!(
            other.sorted_dump(table) == node.sorted_dump(table),
            "{table}"
        );
    }
}

/// Copies the last snapshots of a directory.
pub fn copy_snapshots(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

#[test]
fn a_node_starts_from_its_part_of_a_snapshot_of_all() {
    let backup = tempfile::tempdir().unwrap();
    let path = backup.path().to_str().unwrap();
    let mut three = Three::start(alone);
    three.ok(&["create", "t", "--capacity", "5000"]);
    three.load("t", 0..1_000);
    three.ok(&["snapshot", path]);
    let before = three.dump("t");
    let address = three.address(2);
    three.nodes[2].kill();

    let own = tempfile::tempdir().unwrap();
    copy_snapshots(backup.path(), own.path());
    // At an address that the table's creator has not named, it does not know what it had.
    let elsewhere = serve("tcp://127.0.0.1:0", own.path(), &["--restore"]).output();
    let parts = ["is none of these nodes", &three.hosts[2], "--restore-as"];
    assert_fails(&elsewhere.unwrap(), 1, &parts);
    three.nodes[2] = Node::start_command(serve(&address, own.path(), &["--restore"]));
    assert!(three.dump("t") == before);
    three.load("t", 1_000..1_100);
    let after = three.dump("t");
    // It writes its own part, and leaves the whole alone.
    drop(three.nodes[2].process.stdin.take());
    assert!(three.nodes[2].process.wait().unwrap().success());
    let file = |name: &str| std::fs::read(own.path().join(name));
    assert!(
        file("t.snapshot").unwrap() == std::fs::read(backup.path().join("t.snapshot")).unwrap()
    );
    file("t@2.snapshot").unwrap();
    // And starts from it.
    let named = ["--restore", "--restore-as", &three.hosts[2]];
    three.nodes[2] = Node::start_command(serve(&address, own.path(), &named));
    assert!(three.dump("t") == after);
}

#[test]
fn a_node_with_a_directory_writes_snapshots_when_it_is_told_to_end() {
    let (address, directory) = (fresh_address(), tempfile::tempdir().unwrap());
    let log = directory.path().join("log");
    let start = |args: &[&str]| {
        let mut command = serve(&address, &directory.path().join("kept"), args);
        command.stderr(std::fs::File::create(&log).unwrap());
        Node::start_command(command)
    };
    let says = || std::fs::read_to_string(&log).unwrap();
    let mut node = start(&["--restore"]);
    assert!(says().contains("at the end alone"), "{}", says());
    node.ok(["create", "t", "--capacity", "2000"]);
    load(&node, "t", 0..1_000);
    node.end();
    // Without --restore, it would replace them.
    let refused = serve(&address, &directory.path().join("kept"), &[]).output();
    assert_fails(&refused.unwrap(), 2, &["has snapshots", "--restore"]);
    let mut node = start(&["--restore"]);
    assert_eq!(node.count("t"), 1_000);
    drop(node.process.stdin.take());
    assert!(node.process.wait().unwrap().success());
    let node = start(&["--restore", "--snapshot-every", "1h"]);
    assert!(says().contains("every 3600s, and at the end"), "{}", says());
    assert_eq!(node.count("t"), 1_000);
}

/// The snapshot of a table that has another name by now is kept for as long as there is none under
/// the new name.
#[test]
fn the_snapshot_of_a_renamed_table_stays_until_there_is_another() {
    let (address, directory) = (fresh_address(), tempfile::tempdir().unwrap());
    let every = ["--snapshot-every", "50ms", "--restore"];
    let node = Node::start_command(serve(&address, directory.path(), &every));
    let file = |table: &str| directory.path().join(format!("{table}.snapshot"));
    node.ok(["create", "before", "--capacity", "1000"]);
    load(&node, "before", 0..500);
    wait_for("a snapshot", || file("before").exists());
    // A directory is in the way of the new one.
    std::fs::create_dir(directory.path().join("after.snapshot.part")).unwrap();
    node.ok(["rename", "before", "after"]);
    node.ok(["create", "later", "--capacity", "10"]);
    wait_for("a round of snapshots", || file("later").exists());
    let round = std::fs::read(file("later")).unwrap();
    wait_for("another round", || {
        std::fs::read(file("later")).unwrap() != round
    });
    assert!(file("before").exists() && !file("after").exists());
    std::fs::remove_dir(directory.path().join("after.snapshot.part")).unwrap();
    wait_for("the snapshot under the new name", || {
        file("after").exists() && !file("before").exists()
    });
}

/// A table that was dropped and made anew since the node has started is no loss.
#[test]
fn a_table_made_anew_since_the_node_has_started_is_in_its_snapshots() {
    let (address, directory) = (fresh_address(), tempfile::tempdir().unwrap());
    let start = || Node::start_command(serve(&address, directory.path(), &["--restore"]));
    for records in [40, 30, 20] {
        let mut node = start();
        if records < 40 {
            assert_eq!(node.count("t"), u64::from(records) + 10);
            node.ok(["drop", "t"]);
        }
        node.ok(["create", "t", "--capacity", "100"]);
        load(&node, "t", 0..records);
        drop(node.process.stdin.take());
        assert!(node.process.wait().unwrap().success());
    }
    assert_eq!(start().count("t"), 20);
    assert!(directory.path().join("t.snapshot.1").exists());
}

#[test]
fn what_a_killed_copy_has_left_is_gone_after_the_next() {
    let node = Node::start();
    node.ok(["create", "t", "--capacity", "30k", "--max-value", "100"]);
    load(&node, "t", 0..25_000);
    let is_left = || {
        let tables = String::from_utf8(node.ok(["tables"])).unwrap();
        tables.contains("copying-")
    };
    for attempt in 0..100 {
        let to = format!("copy-{attempt}");
        let mut copy = node.spawn(["copy", "t", &to]);
        wait_for("a copy that has begun, or ended", || {
            is_left()
                || String::from_utf8(node.ok(["tables"]))
                    .unwrap()
                    .contains(&to)
        });
        copy.kill().unwrap();
        copy.wait().unwrap();
        if is_left() {
            break;
        }
        node.ok(["drop", &to]);
    }
    assert!(is_left());
    node.ok(["copy", "t", "other"]);
    assert!(!is_left());
    assert_eq!(node.count("other"), 25_000);
}
