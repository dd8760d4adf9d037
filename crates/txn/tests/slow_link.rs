//! Transactions over two nodes by a client whose link to their home is slower than a lease, beside
//! one with a fast link, over TCP.

use farslot_fabric::tcp::{Agent, AgentOptions, ConnectOptions, TcpEndpoint};
use farslot_fabric::{Executor, Limits, NodeId, RegionId, Rights, shm};
use farslot_remote::ObjectId;
use farslot_remote::chained::{Shape, Table};
use farslot_rpc::{Client, ClientOptions, RpcServerOptions, Server};
use farslot_txn::{
    Database, DatabaseOptions, Locking, OwnerOptions, TableId, Transaction, TxnError, serve,
};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_millis(20);
/// How long bytes take from a client to a node.
const DELAY: Duration = Duration::from_millis(120);
const TABLE: ObjectId = ObjectId(0);
const SHAPE: Shape = Shape {
    at: 0,
    key_bytes: 4,
    value_bytes: 8,
    slots: 2,
    buckets: 16,
    most_buckets: 16,
    overflow: 16,
    split_after: 0,
    seed: 7,
};
const KEYS: [(TableId, &[u8]); 2] = [(TableId(0), b"a"), (TableId(1), b"b")];

fn start() -> Agent {
    let region = shm::RegionSpec {
        len: SHAPE.bytes(),
        rights: Rights::READ.and(Rights::CALL),
    };
    let memory = shm::Node::embedded(&[region]).unwrap();
    let mut server = Server::new(RpcServerOptions::default());
    let options = OwnerOptions {
        lease: LEASE.as_nanos() as u64,
        ..OwnerOptions::default()
    };
    let table = Table::new(SHAPE).unwrap();
    serve(&mut server, vec![(TABLE, table.into())], options);
    memory.serve_calls(Arc::new(server));
    Agent::start(memory, &AgentOptions::default()).unwrap()
}

/// Passes bytes on, each some time after it came, until one side is closed.
fn pass_on(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let (sender, receiver) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        for (due, bytes) in receiver {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
    thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if sender
                .send((Instant::now() + delay, bytes[..count].to_vec()))
                .is_err()
            {
                break;
            }
        }
    });
}

/// An address under which a node is far away.
fn slow_link(to: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (client, node) = (client.unwrap(), TcpStream::connect(&to).unwrap());
            for socket in [&client, &node] {
                socket.set_nodelay(true).unwrap();
            }
            pass_on(
                client.try_clone().unwrap(),
                node.try_clone().unwrap(),
                DELAY,
            );
            pass_on(node, client, Duration::ZERO);
        }
    });
    address
}

/// Has a client of these nodes do something.
fn run<T>(
    addresses: &[String],
    locking: Locking,
    work: impl AsyncFnOnce(&Database<TcpEndpoint>) -> T,
) -> T {
    // The machine may have other things to do.
    let options = ConnectOptions {
        connect_timeout: Duration::from_secs(60),
        limits: Limits {
            verb_timeout: 60_000_000_000,
            ..Limits::default()
        },
        ..ConnectOptions::default()
    };
    let endpoint = Rc::new(TcpEndpoint::connect(addresses, &options).unwrap());
    let clients = (0..2).map(|node| {
        let to = (NodeId(node), RegionId(0));
        Rc::new(Client::new(
            Rc::clone(&endpoint),
            to,
            ClientOptions::default(),
        ))
    });
    let options = DatabaseOptions {
        locking,
        ..DatabaseOptions::default()
    };
    let database = Database::new(clients.collect(), options).unwrap();
    for node in 0..2 {
        let table = Table::new(SHAPE).unwrap();
        database.add_table(node, TABLE, table).unwrap();
    }
    Executor::new(endpoint).block_on(work(&database))
}

/// Sets both keys, which are locked side by side.
async fn set_both(database: &Database<TcpEndpoint>, value: u64) -> Result<(), TxnError> {
    let mut open = database.begin();
    open.read_for_update(&KEYS).await?;
    for (table, key) in KEYS {
        open.write(table, key, &value.to_le_bytes()).await?;
    }
    open.commit().await
}

async fn read_both(database: &Database<TcpEndpoint>) -> Vec<u64> {
    let read = async |open: &mut Transaction<'_, _>| open.read_many(&KEYS).await;
    let values = database.run(read).await.unwrap();
    let word = |value: Option<Vec<u8>>| {
        value.map_or(0, |value| u64::from_le_bytes(value.try_into().unwrap()))
    };
    values.into_iter().map(word).collect()
}

/// The home's lock is under way for longer than a lease, while the other node's is met.
fn judge(locking: Locking) {
    const ROUNDS: u64 = 3;
    let agents = [(); 2].map(|()| start());
    let near = agents.each_ref().map(|agent| agent.address().to_string());
    let far = [slow_link(near[0].clone()), near[1].clone()];
    let is_done = AtomicBool::new(false);
    let ends = thread::scope(|scope| {
        scope.spawn(|| {
            run(&near, locking, async |database| {
                while !is_done.load(Relaxed) {
                    // Nobody waits for a lock: who meets one is told so, and sees to it.
                    let _ = database.begin().read(KEYS[1].0, KEYS[1].1).await;
                    thread::sleep(LEASE / 10);
                }
            });
        });
        let ends = run(&far, locking, async |database| {
            let mut ends = Vec::new();
            for value in 1..=ROUNDS {
                ends.push(set_both(database, value).await);
            }
            ends
        });
        is_done.store(true, Relaxed);
        ends
    });
    let committed = ends.iter().rposition(Result::is_ok);
    let expected = committed.map_or(0, |round| round as u64 + 1);
    let found = run(&near, locking, read_both);
    assert_eq!(found, [expected; 2], "{locking:?}: {ends:?}");
    let is_broken = |end: &Result<(), TxnError>| matches!(end, Err(TxnError::LeaseOver { .. }));
    assert!(ends.iter().any(is_broken), "{locking:?}: {ends:?}");
    // A slow client gets through where nobody is in its way.
    run(&far, locking, async |database| {
        set_both(database, 7).await.unwrap()
    });
    assert_eq!(run(&near, locking, read_both), [7; 2]);
}

#[test]
fn what_a_client_on_a_slow_link_commits_is_applied_at_both_nodes_or_at_none() {
    judge(Locking::Execution);
    judge(Locking::Commit);
}
