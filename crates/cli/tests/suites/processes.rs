//! Nodes and clients that are killed, and clients side by side.

use crate::common::{
    ANY_PORT, Node, assert_fails, error_of, farslot, fresh_address, one_object, start_serving,
};
use std::io::Write;
use std::process::{ChildStdin, Command, Stdio};

/// Writes records until nobody reads them; each value follows from its key.
fn write_records(mut input: ChildStdin, first: u64, most: u64) {
    for number in first..first + most {
        if writeln!(input, "key-{number},{}", value_of(number)).is_err() {
            return;
        }
    }
}

fn value_of(number: u64) -> String {
    format!("{number:x}-").repeat(1 + (number % 20) as usize)
}

/// Every record of a table, checked to be whole.
fn whole_records(node: &Node, table: &str) -> u64 {
    let dump = String::from_utf8(node.ok(["dump", table])).unwrap();
    let mut records = 0;
    for line in dump.lines().skip(1) {
        let (key, value) = line.split_once(',').unwrap();
        let number = key.strip_prefix("key-").unwrap().parse().unwrap();
        assert_eq!(value, value_of(number), "{key}");
        records += 1;
    }
    records
}

fn wait_for_records(node: &Node, table: &str, least: u64) {
    while node.count(table) < least {
        std::thread::yield_now();
    }
}

const CREATE: [&str; 8] = [
    "create",
    "t",
    "-c",
    "500000",
    "--max-key",
    "16",
    "--max-value",
    "200",
];

#[test]
fn a_client_that_is_killed_while_it_loads_leaves_only_whole_records() {
    let node = Node::start();
    node.ok(CREATE);
    let mut loader = node
        .command(["load", "t"])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let input = loader.stdin.take().unwrap();
    let writer = std::thread::spawn(move || write_records(input, 0, u64::MAX / 2));
    wait_for_records(&node, "t", 2_000);
    loader.kill().unwrap();
    loader.wait().unwrap();
    writer.join().unwrap();

    let count = node.count("t");
    assert!(count >= 2_000);
    assert_eq!(whole_records(&node, "t"), count);
    node.ok(["put", "t", "key-7", &value_of(7)]);
    node.ok(["put", "t", "key-999999999", &value_of(999_999_999)]);
    assert_eq!(
        node.ok(["get", "t", "key-7", "--raw"]),
        value_of(7).into_bytes()
    );
    assert_eq!(whole_records(&node, "t"), count + 1);
}

#[test]
fn a_client_whose_node_is_killed_says_so_and_the_name_can_be_served_again() {
    for address in [&fresh_address(), ANY_PORT] {
        kill_the_node_of_a_client(Node::start_at(address, "256MiB"));
    }
}

fn kill_the_node_of_a_client(mut node: Node) {
    let address = node.address.clone();
    node.ok(CREATE);
    let mut loader = node.spawn(["load", "t"]);
    let input = loader.stdin.take().unwrap();
    let writer = std::thread::spawn(move || write_records(input, 0, u64::MAX / 2));
    wait_for_records(&node, "t", 2_000);
    node.kill();
    let output = loader.wait_with_output().unwrap();
    writer.join().unwrap();
    assert_fails(&output, 1, &["has stopped", "had been put", &address]);

    let again = Node::start_at(&address, "64MiB");
    assert_eq!(again.json(["stat"])["tables"].as_array().unwrap().len(), 0);
    again.ok(["create", "t", "-c", "100"]);
    again.ok(["put", "t", "a", "b"]);
    assert_eq!(again.ok(["get", "t", "a"]), b"b\n");
}

#[test]
fn two_clients_load_at_once() {
    let node = Node::start();
    node.ok(CREATE);
    let loaders: Vec<_> = (0..2)
        .map(|half| {
            let mut loader = node.spawn(["load", "t", "--json"]);
            let input = loader.stdin.take().unwrap();
            // The halves overlap by 1000 keys.
            let writer = std::thread::spawn(move || write_records(input, half * 4_000, 5_000));
            (loader, writer)
        })
        .collect();
    let mut new = 0;
    for (loader, writer) in loaders {
        writer.join().unwrap();
        let output = loader.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", error_of(&output));
        new += one_object(&output)["new"].as_u64().unwrap();
    }
    assert_eq!(new, 9_000);
    assert_eq!(whole_records(&node, "t"), 9_000);
    assert_eq!(node.json(["count", "t", "--approximate"])["count"], 9_000);
}

#[test]
fn serving_ends_at_a_signal_and_when_its_parent_is_gone() {
    for signal in ["-TERM", "-INT"] {
        let mut node = Node::start();
        let pid = node.process.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status();
        assert!(sent.unwrap().success());
        assert!(node.process.wait().unwrap().success());
    }
    let mut node = Node::start();
    drop(node.process.stdin.take());
    assert!(node.process.wait().unwrap().success());
}

#[test]
fn serving_says_one_line_for_machines() {
    let address = fresh_address();
    let command = farslot([
        "serve",
        &address,
        "--memory",
        "4MiB",
        "--json",
        "--while-stdin",
    ]);
    let (mut serving, line) = start_serving(command);
    let object: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(object["address"], address);
    assert_eq!(object["memory_bytes"], 4 << 20);
    assert_eq!(object["pid"], serving.id());
    assert_eq!(object["addresses"], serde_json::json!([address]));
    drop(serving.stdin.take());
    assert!(serving.wait().unwrap().success());
}

/// As a client in another container that shares the network: the kernel gives neither side the
/// number of the other's process.
#[test]
fn clients_in_another_pid_namespace_use_the_same_memory() {
    let apart = || {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork"]);
        command
    };
    let allowed = apart().arg("true").output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        eprintln!("NOT TESTED: needs the right to make a PID namespace");
        return;
    }
    let node = Node::start();
    for args in [&["create", "t"][..], &["put", "t", "key", "value"]] {
        let mut command = apart();
        command.arg(env!("CARGO_BIN_EXE_farslot")).args(args);
        let output = command.env("FARSLOT_ADDRESS", &node.address).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", error_of(&output));
    }
    assert_eq!(node.ok(["get", "t", "key"]), b"value\n");
}
