//! Nodes that end, and that start from snapshots, while clients write: what was acknowledged is
//! there.

use crate::common::{ANY_PORT, Node, error_of, farslot, fresh_address};
use farslot::{
    Access, ErrorKind, FieldSize, Handle, HandleOptions, OpenOptions, Store, StoreError, Table,
    TableOptions,
};
use farslot_testbed::block_on;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Nothing takes longer than this that is going to happen.
const LONG: Duration = Duration::from_secs(60);

/// Records that are there before.
const OLD: u64 = 30_000;

/// A node that writes a snapshot at its end and starts from it.
fn start(address: &str, directory: &Path) -> Node {
    let mut command = farslot(["serve", address, "--memory", "256MiB", "--while-stdin"]);
    command.arg("--snapshot-dir").arg(directory);
    command.args(["--snapshot-every", "1h", "--restore"]);
    Node::start_command(command)
}

/// A table whose snapshot takes a while.
fn fill(store: &Store) {
    let options = TableOptions::new(300_000)
        .keys(FieldSize::UpTo(16))
        .values(FieldSize::UpTo(32));
    store.create("t", &options).unwrap();
    let table = store.table("t").unwrap();
    let keys: Vec<_> = (0..OLD).map(|key| format!("old-{key}")).collect();
    let records: Vec<_> = keys
        .iter()
        .map(|key| (key.as_bytes(), &b"value"[..]))
        .collect();
    table.put_many(&records, |_, put| assert!(put)).unwrap();
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

/// Writers that put new keys until they are told to stop; each counts what was acknowledged. What
/// one does with a key that failed, the manner says.
struct Writers {
    stop: AtomicBool,
    acknowledged: [AtomicU64; 3],
    manner: Manner,
}

#[derive(Clone, Copy, PartialEq)]
enum Manner {
    /// Puts it again, in the same table.
    TriesAgain,
    /// The same, in a table that it opens again; the first by a handle, which does that by itself.
    OpensAgain,
}

fn key_of(writer: usize, number: u64) -> String {
    format!("new-{writer}-{number}")
}

impl Writers {
    fn new(manner: Manner) -> Self {
        Self {
            stop: AtomicBool::new(false),
            acknowledged: Default::default(),
            manner,
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
                let mut table = store.table("t").unwrap();
                let by_handle = writer == 0 && self.manner == Manner::OpensAgain;
                let handle =
                    by_handle.then(|| Handle::open(&store, "t", HandleOptions::default()).unwrap());
                while !self.stop.load(Relaxed) {
                    let number = acknowledged.load(Relaxed);
                    let key = key_of(writer, number);
                    let put = match &handle {
                        Some(handle) => block_on(handle.put(key.as_bytes(), b"value")),
                        None => table.put(key.as_bytes(), b"value"),
                    };
                    let Err(error) = put else {
                        acknowledged.store(number + 1, Relaxed);
                        continue;
                    };
                    assert!(is_retryable(&error), "{error}");
                    if self.manner == Manner::OpensAgain
                        && let Ok(again) = store.table("t")
                    {
                        table = again;
                    }
                    std::thread::sleep(Duration::from_millis(1));
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
            let is_lost = |number: &u64| {
                !table
                    .contains_key(key_of(writer, *number).as_bytes())
                    .unwrap()
            };
            let mut lost = (0..count).filter(is_lost);
            if let Some(first) = lost.next() {
                let lost = 1 + lost.count();
                panic!("{lost} of {count} are lost, the first is {first}");
            }
        }
        for key in 0..OLD {
            assert!(table.contains_key(format!("old-{key}").as_bytes()).unwrap());
        }
    }
}

/// Handles of a table over several nodes go on when the node is back, and their writers need no
/// more than to try again.
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
    let writers = Writers::new(Manner::TriesAgain);
    std::thread::scope(|scope| {
        let started = writers.start(scope, &store);
        for turn in 0..2 {
            writers.wait_for(50);
            nodes[turn].end();
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

/// The store that was open opens its table again, and a handle by itself. Over shared memory
/// clients write by themselves; over TCP by calls and by verbs.
#[test]
fn what_was_acknowledged_when_a_node_ended_is_there_when_it_is_back_and_its_writers_go_on() {
    for (address, access) in [
        (fresh_address(), Access::Auto),
        (ANY_PORT.into(), Access::Auto),
        (ANY_PORT.into(), Access::Reads),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let mut node = start(&address, directory.path());
        let options = OpenOptions {
            access,
            ..OpenOptions::default()
        };
        let store = Store::open_with(&node.address, options.clone()).unwrap();
        fill(&store);
        let writers = Writers::new(Manner::OpensAgain);
        std::thread::scope(|scope| {
            let started = writers.start(scope, &store);
            writers.wait_for(50);
            node.end();
            node = start(&node.address.clone(), directory.path());
            writers.wait_for(50);
            writers.stop.store(true, Relaxed);
            started
                .into_iter()
                .for_each(|writer| writer.join().unwrap());
        });
        let store = Store::open_with(&node.address, options).unwrap();
        writers.check(&store.table("t").unwrap());
    }
}

/// A client that makes its tables where they are not there, as fast as it can.
fn make_and_put(address: &str, ended: &AtomicBool) -> u64 {
    let mut acknowledged = 0;
    let mut put = || -> farslot::Result<()> {
        let store = Store::open(address)?;
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
    use farslot::FabricError::NoSuchRegion;
    matches!(error, StoreError::Fabric(NoSuchRegion { .. }))
}

#[test]
fn clients_that_make_tables_while_a_node_restores_do_it_no_harm() {
    for address in [fresh_address(), ANY_PORT.into()] {
        let directory = tempfile::tempdir().unwrap();
        let mut node = start(&address, directory.path());
        fill(&Store::open(&node.address).unwrap());
        node.end();
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
            let writers = Writers::new(Manner::TriesAgain);
            writers.acknowledged[0].store(client.join().unwrap(), Relaxed);
            writers.check(&table);
            let tables = farslot(["tables", "-a", &address]).output().unwrap();
            assert!(tables.status.success(), "{}", error_of(&tables));
        });
    }
}
