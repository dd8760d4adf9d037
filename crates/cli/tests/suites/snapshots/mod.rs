//! `farslot snapshot`, `restore` and `serve --snapshot-every --restore`: nodes are killed, and
//! their tables come back.

mod lost;
mod matrix;
mod planted;
mod reused;

use crate::common::{
    ANY_PORT, Node, assert_fails, error_of, farslot, fresh_address, lines, one_object,
};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn load(node: &Node, table: &str, numbers: std::ops::Range<u32>) {
    let args = ["load", table, "--format", "csv", "--no-header", "--strict"];
    let loaded = node.feed(args, lines(numbers).as_bytes());
    assert!(loaded.status.success(), "{}", error_of(&loaded));
}

#[test]
fn tables_of_a_node_that_was_killed_come_back() {
    for mut node in Node::of_each_fabric() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().join("new");
        let path = directory.to_str().unwrap();
        node.ok(["create", "growing"]);
        node.ok(["create", "fixed", "-c", "3000", "--scheme", "cuckoo"]);
        load(&node, "growing", 0..2_000);
        load(&node, "fixed", 0..1_000);
        let said = node.json(["snapshot", path]);
        assert_eq!(said["snapshots"].as_array().unwrap().len(), 2);
        assert_eq!(said["snapshots"][0]["records"], 2_000);
        load(&node, "growing", 2_000..2_100);
        let before = ["growing", "fixed"].map(|table| node.sorted_dump(table));
        node.ok(["snapshot", path, "growing"]);
        node.kill();

        let node = Node::start();
        let checked = node.json(["restore", path, "--check"]);
        assert_eq!(checked["checked"].as_array().unwrap().len(), 2);
        node.ok(["restore", path, "fixed"]);
        let said = node.json(["restore", path]);
        assert_eq!(said["restored"][0]["table"], "growing");
        assert_eq!(said["left"][0], "fixed");
        assert_eq!(
            before,
            ["growing", "fixed"].map(|table| node.sorted_dump(table))
        );
        let taken = node.run(["restore", path, "fixed"]);
        assert_fails(&taken, 1, &["there is a table \"fixed\" already"]);
        // It can be written as before.
        load(&node, "fixed", 1_000..1_100);
        assert_eq!(node.count("fixed"), 1_100);
    }
}

#[test]
fn damaged_files_are_refused_by_name_and_place() {
    let (node, directory) = (Node::start(), tempfile::tempdir().unwrap());
    let path = directory.path().to_str().unwrap();
    node.ok(["create", "t", "--capacity", "100"]);
    node.ok(["create", "whole", "--capacity", "100"]);
    load(&node, "t", 0..50);
    node.ok(["snapshot", path]);
    let file = directory.path().join("t.snapshot");
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let other = Node::start();
    for args in [&["restore", path, "t"][..], &["restore", path, "--check"]] {
        let refused = other.run(args);
        assert_fails(&refused, 1, &["t.snapshot is damaged at byte", "expected"]);
    }
    // The others are restored all the same.
    let partly = other.run(["restore", path]);
    assert_fails(
        &partly,
        1,
        &["t.snapshot is damaged", "1 snapshot could not"],
    );
    assert_eq!(other.ok(["tables"]), b"whole\n");
    let empty = tempfile::tempdir().unwrap();
    let nothing = other.run(["restore", empty.path().to_str().unwrap()]);
    assert_fails(&nothing, 1, &["has no snapshots"]);
    let missing = other.run(["snapshot", path, "nobody"]);
    assert_fails(&missing, 1, &["no table \"nobody\""]);
}

fn serve(address: &str, directory: &Path, args: &[&str]) -> Command {
    let mut command = farslot(["serve", address, "--memory", "256MiB", "--while-stdin"]);
    command.arg("--snapshot-dir").arg(directory).args(args);
    command
}

fn wait_for(condition: &str, is_there: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_there() {
        assert!(since.elapsed() < Duration::from_secs(60), "{condition}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_node_starts_from_its_last_snapshots() {
    let (address, directory) = (fresh_address(), tempfile::tempdir().unwrap());
    let start = |args: &[&str]| Node::start_command(serve(&address, directory.path(), args));
    let file = |table: &str| directory.path().join(format!("{table}.snapshot"));
    // There is nothing to start from.
    let mut node = start(&["--snapshot-every", "50ms", "--restore"]);
    node.ok(["create", "users"]);
    load(&node, "users", 0..1_000);
    node.ok(["create", "gone"]);
    wait_for("snapshots", || {
        file("users").exists() && file("gone").exists()
    });
    node.ok(["drop", "gone"]);
    wait_for("the end of a dropped table", || !file("gone").exists());
    // The one that is written now may have begun before.
    let records = || -> u64 {
        let checked = node.json(["restore", directory.path().to_str().unwrap(), "--check"]);
        checked["checked"][0]["records"].as_u64().unwrap()
    };
    wait_for("all records", || records() == 1_000);
    let before = node.sorted_dump("users");
    node.kill();

    // A node that does not start from them leaves them alone.
    let refused = serve(&address, directory.path(), &["--snapshot-every", "1h"]).output();
    assert_fails(&refused.unwrap(), 2, &["has snapshots", "--restore"]);
    let mut node = start(&["--snapshot-every", "1h", "--restore"]);
    assert_eq!(node.sorted_dump("users"), before);
    load(&node, "users", 1_000..1_200);
    // Told to end, it writes a last one.
    drop(node.process.stdin.take());
    assert!(node.process.wait().unwrap().success());

    let node = start(&["--restore"]);
    assert_eq!(node.count("users"), 1_200);
}

/// Each node of a table over several writes its own part, and has it again when it starts: the
/// others have what they had, and a client that has the table open goes on with it.
#[test]
fn nodes_of_a_table_over_several_start_from_their_parts() {
    let directories = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let start = |number: usize, address: &str| {
        let every = ["--snapshot-every", "50ms", "--restore"];
        Node::start_command(serve(address, directories[number].path(), &every))
    };
    let mut nodes = [0, 1, 2].map(|number| start(number, ANY_PORT));
    let hosts = nodes
        .each_ref()
        .map(|node| node.address.strip_prefix("tcp://").unwrap().to_owned());
    let all = format!("tcp://{}", hosts.join(","));
    let run = |args: &[&str]| farslot(args).args(["-a", &all]).output().unwrap();
    let dump = || {
        let dump = run(&["dump", "t"]);
        assert!(dump.status.success(), "{}", error_of(&dump));
        let mut lines: Vec<_> = String::from_utf8(dump.stdout)
            .unwrap()
            .lines()
            .map(String::from)
            .collect();
        lines.sort();
        lines
    };
    assert!(run(&["create", "t"]).status.success());
    let records = tempfile::tempdir().unwrap();
    let file = records.path().join("records.csv");
    std::fs::write(&file, lines(0..3_000)).unwrap();
    let loaded = run(&["load", "t", file.to_str().unwrap(), "--no-header"]);
    assert!(loaded.status.success(), "{}", error_of(&loaded));
    let before = dump();
    let in_files = || -> u64 {
        let checks = directories.iter().map(|directory| {
            let check = farslot(["restore", directory.path().to_str().unwrap(), "--check"]);
            let checked = { check }.arg("--json").output().unwrap();
            match checked.status.success() {
                true => one_object(&checked)["checked"][0]["records"]
                    .as_u64()
                    .unwrap_or(0),
                false => 0,
            }
        });
        checks.sum()
    };
    wait_for("all records", || in_files() == 3_000);
    // One of them, and then all.
    for killed in [&[1][..], &[0, 1, 2]] {
        killed.iter().for_each(|number| nodes[*number].kill());
        for number in killed {
            nodes[*number] = start(*number, &format!("tcp://{}", hosts[*number]));
        }
        assert_eq!(dump(), before);
        let put = run(&["put", "t", "key-7", "value of 7"]);
        assert!(put.status.success(), "{}", error_of(&put));
    }
    let shown = run(&["nodes", "--json"]);
    for node in one_object(&shown)["nodes"].as_array().unwrap() {
        assert_eq!(node["lost"].as_array().unwrap().len(), 0);
    }
    // A part by itself is no table.
    let refused = farslot(["restore", directories[0].path().to_str().unwrap(), "t"]);
    let refused = { refused }.args(["-a", &all]).output().unwrap();
    assert_fails(&refused, 1, &["one of them has written it", "--restore"]);
}

/// Ends a command after a while, by SIGINT or by SIGKILL, if it has not ended by then.
fn end(mut command: Child, after: Duration, by_signal: bool) {
    std::thread::sleep(after);
    if by_signal {
        // It may be gone already.
        let number = command.id().to_string();
        let _ = Command::new("kill").args(["-s", "INT", &number]).status();
    } else {
        let _ = command.kill();
    }
    let output = command.wait_with_output().unwrap();
    if by_signal && !output.status.success() {
        // It may have been too early for it.
        let said = error_of(&output);
        assert!(
            said.is_empty() || said.contains("the next attempt continues"),
            "{said}"
        );
    }
}

#[test]
fn commands_that_are_killed_at_any_moment_go_on() {
    let (node, other) = (Node::start(), Node::start());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    node.ok(["create", "t", "--capacity", "60k", "--max-value", "100"]);
    load(&node, "t", 0..50_000);
    for (node, args) in [(&node, ["snapshot", path]), (&other, ["restore", path])] {
        for attempt in 0..8 {
            let after = Duration::from_millis(15 * attempt);
            end(node.spawn(args), after, attempt % 2 == 0);
        }
        if other.json(["tables"])["tables"]
            .as_array()
            .unwrap()
            .iter()
            .all(|of| of["table"] != "t")
        {
            node.ok(args);
        }
    }
    assert!(other.sorted_dump("t") == node.sorted_dump("t"));
    assert!(!directory.path().join("t.snapshot.part").exists());
}

/// How many records a table has but for those that are written meanwhile, and a sum over them in
/// which their order does not matter.
fn digest(node: &Node, table: &str) -> (u64, u64) {
    let mut dump = node.spawn(["dump", table]);
    let lines = BufReader::new(dump.stdout.take().unwrap()).lines();
    let lines = lines
        .map(Result::unwrap)
        .filter(|line| !line.starts_with(BESIDE));
    let sums = lines.map(|line| BuildHasherDefault::<DefaultHasher>::default().hash_one(line));
    let digest = sums.fold((0, 0_u64), |(count, sum), one| {
        (count + 1, sum.wrapping_add(one))
    });
    assert!(dump.wait().unwrap().success());
    digest
}

/// What keys begin with that are written while a snapshot is.
const BESIDE: &str = "beside-";

/// Loads records into a table, the same keys again and again, until it is told to end. Returns how
/// many it has given to the program.
fn load_beside(node: &Node, table: &str, done: &AtomicBool) -> u64 {
    let mut load = node.spawn(["load", table, "--no-header", "--threads", "1"]);
    let mut input = std::io::BufWriter::new(load.stdin.take().unwrap());
    let mut given = 0;
    while !done.load(Ordering::Relaxed) {
        let key = given % 1_000;
        writeln!(input, "{BESIDE}{key},{given}").unwrap();
        given += 1;
    }
    drop(input);
    assert!(load.wait().unwrap().success());
    given
}

/// Of so many records: all are there that were before the snapshot began, whatever else was written
/// meanwhile.
fn come_back_after_a_snapshot_under_load(records: u32, memory: &str) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let start = || Node::start_at(&fresh_address(), memory);
    let mut node = start();
    let capacity = (records + records / 10).to_string();
    node.ok([
        "create",
        "t",
        "--capacity",
        &capacity,
        "--max-key",
        "16",
        "--max-value",
        "24",
    ]);
    let piece = records.min(1_000_000);
    let numbers = (0..records).step_by(piece as usize);
    numbers.for_each(|first| load(&node, "t", first..first + piece));
    let before = digest(&node, "t");
    // With the line that names the columns.
    assert_eq!(before.0, u64::from(records) + 1);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| load_beside(&node, "t", &done));
        let since = Instant::now();
        let taken = node.json(["snapshot", path]);
        done.store(true, Ordering::Relaxed);
        let beside = beside.join().unwrap();
        println!(
            "{taken} after {:?}, {beside} records beside it",
            since.elapsed()
        );
        assert!(beside > 0);
    });
    node.kill();
    let node = start();
    let since = Instant::now();
    node.ok(["restore", path]);
    println!("restored after {:?}", since.elapsed());
    assert_eq!(digest(&node, "t"), before);
}

#[test]
fn records_come_back_that_were_there_before_a_snapshot_under_load() {
    come_back_after_a_snapshot_under_load(20_000, "64MiB");
}

#[test]
#[ignore = "ten million records: scripts/test --all"]
fn ten_million_records_of_a_node_that_was_killed_come_back() {
    come_back_after_a_snapshot_under_load(10_000_000, "2GiB");
}
