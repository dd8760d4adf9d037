//! Nodes that end, and that start from snapshots, while clients write: what was acknowledged is there.

use crate::common::{ANY_PORT, Node, error_of, farslot, fresh_address};
use farslot::{Access, ErrorKind, FieldSize, OpenOptions, Store, StoreError, Table, TableOptions};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Nothing takes longer than this that is going to happen.
const LONG: Duration = Duration::from_secs(60);

/// A node that writes a snapshot at its end and starts from it.
fn start(address: &str, directory: &Path) -> Node {
    let mut command = farslot(["serve", address, "--memory", "256MiB", "--while-stdin"]);
    command.arg("--snapshot-dir").arg(directory);
    command.args(["--snapshot-every", "1h", "--restore"]);
    Node::start_command(command)
}

fn terminate(node: &mut Node) {
    let pid = node.process.id().to_string();
    assert!(Command::new("kill").arg(&pid).status().unwrap().success());
    assert!(node.process.wait().unwrap().success());
}

/// A table whose snapshot takes a while.
fn fill(store: &Store) {
    let options = TableOptions::new(300_000)
        .keys(FieldSize::UpTo(16))
        .values(FieldSize::UpTo(32));
    store.create("t", &options).unwrap();
    let table = store.table("t").unwrap();
    let keys: Vec<_> = (0..60_000).map(|key| format!("old-{key}")).collect();
    let records: Vec<_> = keys
        .iter()
        .map(|key| (key.as_bytes(), &b"value"[..]))
        .collect();
    table.put_many(&records, |_, put| assert!(put.unwrap()));
}

fn is_retryable(error: &StoreError) -> bool {
    let kind = error.kind();
    [
        ErrorKind::NodeDown,
        ErrorKind::NodeRestarted,
        ErrorKind::TimedOut,
    ]
    .contains(&kind)
}

/// Writers that put new keys until they are told to stop; each returns how many were acknowledged. A
/// key that failed is put again, unless the writer `gives_up` with it.
struct Writers {
    stop: AtomicBool,
    acknowledged: [AtomicU64; 3],
    gives_up: bool,
}

fn key_of(writer: usize, number: u64) -> String {
    format!("new-{writer}-{number}")
}

impl Writers {
    fn new(gives_up: bool) -> Self {
        Self {
            stop: AtomicBool::new(false),
            acknowledged: Default::default(),
            gives_up,
        }
    }

    fn start<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        store: &Store,
    ) -> Vec<ScopedJoinHandle<'s, ()>> {
        let writers = self.acknowledged.iter().enumerate();
        let writers = writers.map(|(writer, acknowledged)| {
            let store = store.clone();
            scope.spawn(move || {
                let table = store.table("t").unwrap();
                while !self.stop.load(Relaxed) {
                    let number = acknowledged.load(Relaxed);
                    match table.put(key_of(writer, number).as_bytes(), b"value") {
                        Ok(_) => acknowledged.store(number + 1, Relaxed),
                        Err(error) => {
                            assert!(is_retryable(&error), "{error}");
                            if self.gives_up {
                                return;
                            }
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    }
                }
            })
        });
        writers.collect()
    }

    /// Waits until each has put so many more.
    fn wait_for(&self, more: u64) {
        let since = Instant::now();
        let aims = self
            .acknowledged
            .each_ref()
            .map(|of| of.load(Relaxed) + more);
        while self
            .acknowledged
            .iter()
            .zip(aims)
            .any(|(of, aim)| of.load(Relaxed) < aim)
        {
            assert!(since.elapsed() < LONG, "the writers stand still");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// All that was acknowledged is there.
    fn check(&self, table: &Table) {
        for (writer, acknowledged) in self.acknowledged.iter().enumerate() {
            let count = acknowledged.load(Relaxed);
            let is_lost = |number: &u64| !table.exists(key_of(writer, *number).as_bytes()).unwrap();
            let mut lost = (0..count).filter(is_lost);
            if let Some(first) = lost.next() {
                let lost = 1 + lost.count();
                panic!("{lost} of {count} are lost, the first is {first}");
            }
        }
        for key in 0..60_000 {
            assert!(table.exists(format!("old-{key}").as_bytes()).unwrap());
        }
    }
}

/// Over shared memory clients write by themselves; over TCP by calls and by verbs.
#[test]
fn what_was_acknowledged_when_a_node_ended_is_there_when_it_is_back() {
    for (address, access) in [
        (fresh_address(), Access::Auto),
        (ANY_PORT.into(), Access::Auto),
        (ANY_PORT.into(), Access::Reads),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let mut node = start(&address, directory.path());
        let options = || OpenOptions {
            access,
            ..OpenOptions::default()
        };
        let store = Store::open_with(&node.address, options()).unwrap();
        fill(&store);
        let writers = Writers::new(true);
        std::thread::scope(|scope| {
            let started = writers.start(scope, &store);
            writers.wait_for(50);
            terminate(&mut node);
            started
                .into_iter()
                .for_each(|writer| writer.join().unwrap());
        });
        let node = start(&node.address, directory.path());
        let store = Store::open_with(&node.address, options()).unwrap();
        writers.check(&store.table("t").unwrap());
    }
}

/// Handles of a table over several nodes go on when the node is back, and their writers need no more
/// than to try again.
#[test]
fn writers_of_a_table_over_several_nodes_go_on_when_one_has_ended_and_is_back() {
    let directories = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let mut nodes = directories
        .each_ref()
        .map(|directory| start(ANY_PORT, directory.path()));
    let hosts = nodes
        .each_ref()
        .map(|node| node.address["tcp://".len()..].to_owned());
    let all = format!("tcp://{}", hosts.join(","));
    let store = Store::open(&all).unwrap();
    fill(&store);
    let table = store.table("t").unwrap();
    let writers = Writers::new(false);
    std::thread::scope(|scope| {
        let started = writers.start(scope, &store);
        for turn in 0..2 {
            writers.wait_for(50);
            terminate(&mut nodes[turn]);
            nodes[turn] = start(&nodes[turn].address.clone(), directories[turn].path());
            writers.wait_for(50);
        }
        writers.stop.store(true, Relaxed);
        started
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
    });
    let since = Instant::now();
    while table.get(b"old-1").and(table.for_each(|_, _| ())).is_err() {
        assert!(since.elapsed() < LONG, "{:?}", table.get(b"old-1"));
    }
    writers.check(&table);
    assert!(
        store
            .nodes()
            .unwrap()
            .iter()
            .all(|node| node.lost.is_empty())
    );
}

/// A client that makes its tables where they are not there, as fast as it can.
fn make_and_put(address: &str, ended: &AtomicBool) -> u64 {
    let mut acknowledged = 0;
    let mut put = || -> farslot::Result<()> {
        let store = Store::open(address)?;
        // It would take half of the memory.
        for name in ["t", "large"] {
            match store.table(name) {
                Err(StoreError::NoSuchTable { .. }) => {
                    store.create(name, &TableOptions::default())?
                }
                found => found.map(|table| table.record().clone())?,
            };
        }
        let table = store.table("t")?;
        table.put(key_of(0, acknowledged).as_bytes(), b"value")?;
        acknowledged += 1;
        Ok(())
    };
    while !ended.load(Relaxed) {
        match put() {
            Ok(()) => {}
            Err(error) => assert!(is_retryable(&error) || is_not_served(&error), "{error}"),
        }
    }
    acknowledged
}

/// Whether nobody serves there yet.
fn is_not_served(error: &StoreError) -> bool {
    use farslot::fabric::FabricError::NoSuchRegion;
    matches!(error, StoreError::Fabric(NoSuchRegion { .. }))
}

#[test]
fn clients_that_make_tables_while_a_node_restores_do_it_no_harm() {
    for address in [fresh_address(), ANY_PORT.into()] {
        let directory = tempfile::tempdir().unwrap();
        let mut node = start(&address, directory.path());
        fill(&Store::open(&node.address).unwrap());
        terminate(&mut node);
        let address = node.address.clone();
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let client = scope.spawn(|| make_and_put(&address, &ended));
            let node = start(&address, directory.path());
            // It serves, and has what it had.
            let store = Store::open(&node.address).unwrap();
            let table = store.table("t").unwrap();
            std::thread::sleep(Duration::from_millis(50));
            ended.store(true, Relaxed);
            let writers = Writers::new(true);
            writers.acknowledged[0].store(client.join().unwrap(), Relaxed);
            writers.check(&table);
            let tables = farslot(["tables", "-a", &address]).output().unwrap();
            assert!(tables.status.success(), "{}", error_of(&tables));
        });
    }
}
