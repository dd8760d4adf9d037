//! `farslot serve --keep`: nodes are killed, and go on with the memory that they had.

mod banks;
mod manager;
mod queues;
mod refused;
mod storm;

use crate::common::{Node, error_of, farslot, fresh_address, wait_until};
use farslot::keeper::{Keeper, Place, Taken};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output};
use tempfile::TempDir;

/// A name under which memory is kept, for as long as this is held.
struct Keep {
    name: String,
    directory: TempDir,
    /// Where the node is served: over shared memory, and over TCP at a port of its own.
    addresses: [String; 2],
}

impl Keep {
    fn new() -> Self {
        let shm = fresh_address();
        let port = TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp = format!("tcp://{}", port.local_addr().unwrap());
        Self {
            name: shm.rsplit('/').next().unwrap().into(),
            directory: tempfile::tempdir().unwrap(),
            addresses: [shm, tcp],
        }
    }

    /// Where the keeper is found; it is made for that.
    fn path(&self) -> PathBuf {
        self.directory.path().join("keepers")
    }

    /// The command that serves, and goes on.
    fn command(&self, more: &[&str]) -> Command {
        let [shm, tcp] = &self.addresses;
        let mut command = farslot(["serve", shm, "--also", tcp, "--while-stdin"]);
        command.args(["--keep", &self.name, "--keep-dir"]);
        command.arg(self.path()).args(more);
        command
    }

    fn start(&self) -> Node {
        Node::start_command(self.command(&["--memory", "128MiB"]))
    }

    /// `farslot keep NAME`, with these options.
    fn keep(&self, more: &[&str]) -> Output {
        let mut command = farslot(["keep", &self.name, "--dir"]);
        command.arg(self.path()).args(more).output().unwrap()
    }

    /// Whether somebody holds the memory.
    fn is_held(&self) -> bool {
        std::os::unix::net::UnixStream::connect(self.socket()).is_ok()
    }

    fn socket(&self) -> PathBuf {
        self.path().join(format!("{}.keeper", self.name))
    }

    /// Whether there is a keeper that has the memory.
    fn has_memory(&self) -> bool {
        let place = Place::new(&self.path(), &self.name).unwrap();
        let keeper = Keeper::connect(&place).unwrap();
        keeper.is_some_and(|mut keeper| matches!(keeper.take(), Ok(Taken::Memory(_))))
    }

    /// The process that holds the memory.
    fn keeper(&self) -> i32 {
        let socket = std::os::unix::net::UnixStream::connect(self.socket()).unwrap();
        let peer = rustix::net::sockopt::socket_peercred(&socket).unwrap();
        peer.pid.as_raw_nonzero().get()
    }
}

impl Drop for Keep {
    fn drop(&mut self) {
        // The node of the test is killed by now, or is killed with what is dropped next.
        for _ in 0..100 {
            if !self.is_held() || self.keep(&["--end"]).status.success() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// A keeper ends with what it holds, and leaves nothing.
fn end(keep: &Keep) {
    let ended = keep.keep(&["--end"]);
    assert!(ended.status.success(), "{}", error_of(&ended));
    wait_until(|| !keep.is_held(), || "the keeper runs still".into());
}

#[test]
fn a_node_that_ended_goes_on_with_what_it_had_until_that_is_given_up() {
    let keep = Keep::new();
    let mut node = keep.start();
    node.ok(["create", "t"]);
    node.ok(["put", "t", "key", "value"]);
    let incarnation = |node: &Node| node.json(["nodes"])["nodes"][0]["incarnation"].clone();
    let first = incarnation(&node);
    // By a signal, and by kill -9; without a size, and with that which it has.
    node.end();
    let mut node = Node::start_command(keep.command(&[]));
    assert_eq!(node.ok(["get", "t", "key"]), b"value\n");
    assert_eq!(incarnation(&node), first);
    node.kill();
    let mut node = keep.start();
    assert_eq!(node.ok(["get", "t", "key"]), b"value\n");
    assert_eq!(incarnation(&node), first);
    node.end();
    end(&keep);
    let node = keep.start();
    assert_ne!(incarnation(&node), first);
    assert!(!node.run(["get", "t", "key"]).status.success());
}

#[test]
fn a_keeper_that_was_killed_is_replaced_while_the_node_runs() {
    let keep = Keep::new();
    let mut node = keep.start();
    node.ok(["create", "t"]);
    node.ok(["put", "t", "key", "value"]);
    let before = keep.keeper();
    let pid = rustix::process::Pid::from_raw(before).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    // The node has handed it over.
    wait_until(|| keep.has_memory(), || "no other keeper".into());
    assert_ne!(keep.keeper(), before);
    node.kill();
    assert_eq!(keep.start().ok(["get", "t", "key"]), b"value\n");
}

#[test]
fn snapshots_beside_kept_memory_are_for_when_that_is_gone() {
    let keep = Keep::new();
    let directory = tempfile::tempdir().unwrap();
    let snapshots = [
        "--snapshot-dir",
        directory.path().to_str().unwrap(),
        "--restore",
    ];
    let start =
        || Node::start_command(keep.command(&[&snapshots[..], &["--memory", "128MiB"]].concat()));
    let mut node = start();
    node.ok(["create", "t"]);
    node.ok([
        "create",
        "other",
        "--scheme",
        "chained",
        "--capacity",
        "100",
    ]);
    node.ok(["put", "t", "key", "in the snapshot"]);
    node.ok(["put", "other", "key", "first"]);
    // It took no writes while it wrote them, and takes them again.
    node.end();
    let mut node = start();
    node.ok(["put", "t", "key", "after it"]);
    node.ok(["put", "other", "key", "second"]);
    node.kill();
    let mut node = start();
    assert_eq!(node.ok(["get", "t", "key"]), b"after it\n");
    assert_eq!(node.ok(["get", "other", "key"]), b"second\n");
    node.kill();
    end(&keep);
    let node = start();
    assert_eq!(node.ok(["get", "t", "key"]), b"in the snapshot\n");
    assert_eq!(node.ok(["get", "other", "key"]), b"first\n");
}
