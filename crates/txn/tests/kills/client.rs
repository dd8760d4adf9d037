//! A client's process; and the last look at everything, by the process that has killed them.

use crate::layout::{GENERATION, KEYS, LONGEST, MAP, SHARED, TABLE, map, now, table};
use crate::log::{Key, Log, begin_line};
use farslot_check::serial::ListOp;
use farslot_fabric::shm::{ShmEndpoint, attach};
use farslot_fabric::tcp::{ConnectOptions, TcpEndpoint};
use farslot_fabric::{
    AnyEndpoint, EndpointExt, Executor, Limits, NodeId, RegionId, Rights, window,
};
use farslot_rpc::{Client, ClientOptions};
use farslot_txn::{Database, DatabaseOptions, Locking, TableId, Transaction, TxnError};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::Cell;
use std::io::Write;
use std::rc::Rc;
use std::time::Duration;

type Open<'d> = Transaction<'d, AnyEndpoint>;

/// Coroutines of a client.
const COROUTINES: u64 = 4;

/// Machines that run tests have other things to do.
const LIMITS: Limits = Limits {
    verb_timeout: 60_000_000_000,
    send_queue_depth: 1024,
    largest_buffer: 4 << 20,
    buffer_budget: 1 << 30,
};

fn connect(addresses: &[String]) -> Rc<AnyEndpoint> {
    let names: Vec<&str> = addresses
        .iter()
        .filter_map(|address| address.strip_prefix(SHARED))
        .collect();
    if !names.is_empty() {
        let nodes = names.iter().map(|name| attach(name, Rights::ALL));
        let nodes = nodes.collect::<Result<_, _>>().expect("the nodes");
        return Rc::new(AnyEndpoint::Shm(ShmEndpoint::new(nodes, LIMITS)));
    }
    let options = ConnectOptions {
        connect_timeout: Duration::from_secs(60),
        limits: LIMITS,
        ..ConnectOptions::default()
    };
    let endpoint = TcpEndpoint::connect(addresses, &options).expect("the nodes");
    Rc::new(AnyEndpoint::Tcp(endpoint))
}

fn database(endpoint: &Rc<AnyEndpoint>, nodes: usize, seed: u64) -> Database<AnyEndpoint> {
    let clients = (0..nodes as u16).map(|node| {
        let to = (NodeId(node), RegionId(0));
        Rc::new(Client::new(
            Rc::clone(endpoint),
            to,
            ClientOptions::default(),
        ))
    });
    let options = DatabaseOptions {
        locking: if seed.is_multiple_of(2) {
            Locking::Execution
        } else {
            Locking::Commit
        },
        seed,
        ..DatabaseOptions::default()
    };
    let database = Database::new(clients.collect(), options).expect("nodes");
    for node in 0..nodes {
        database
            .add_table(node as u8, TABLE, table())
            .expect("a node");
    }
    for node in 0..nodes {
        database.add_table(node as u8, MAP, map()).expect("a node");
    }
    database
}

fn list(value: Option<&[u8]>) -> Vec<u64> {
    let (words, rest) = value.unwrap_or_default().as_chunks::<8>();
    assert!(rest.is_empty(), "half a word");
    words.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

/// One transaction of a client.
struct Run<'r> {
    nodes: u16,
    client: u64,
    values: &'r Cell<u64>,
    ops: Vec<ListOp<Key>>,
}

impl Run<'_> {
    async fn execute(
        &mut self,
        open: &mut Open<'_>,
        random: &mut ChaCha8Rng,
    ) -> Result<(), TxnError> {
        let first = (now() / GENERATION.as_nanos() as u64) as u32 * KEYS;
        for _ in 0..random.random_range(1..=4) {
            let table = random.random_range(0..2 * self.nodes);
            if table >= self.nodes && random.random_bool(0.3) {
                self.scan(open, table, first).await?;
                continue;
            }
            let key = first + random.random_range(0..KEYS);
            let bytes = key.to_be_bytes();
            let mut value = open
                .read(TableId(table.into()), &bytes)
                .await?
                .unwrap_or_default();
            let known = list(Some(&value));
            let is_full = known.len() == LONGEST;
            self.ops.push(ListOp::Read((table, key), known));
            if !is_full && random.random_bool(0.6) {
                self.values.set(self.values.get() + 1);
                let own = self.client << 32 | self.values.get();
                value.extend_from_slice(&own.to_le_bytes());
                self.ops.push(ListOp::Append((table, key), own));
                open.write(TableId(table.into()), &bytes, &value).await?;
            }
        }
        Ok(())
    }

    /// A scan of a generation's keys: a read of all of them, of those that are not there as well.
    async fn scan(&mut self, open: &mut Open<'_>, table: u16, first: u32) -> Result<(), TxnError> {
        let pairs = open
            .scan(TableId(table.into()), &first.to_be_bytes(), KEYS as usize)
            .await?;
        for key in first..first + KEYS {
            let found = pairs.iter().find(|(other, _)| **other == key.to_be_bytes());
            let value = found.map(|(_, value)| &**value);
            self.ops.push(ListOp::Scanned((table, key), list(value)));
        }
        Ok(())
    }
}

/// Says something that nobody may miss: before this returns it is in the pipe, whatever becomes of
/// this process.
fn say(line: &str) {
    std::io::stdout()
        .lock()
        .write_all(line.as_bytes())
        .expect("a pipe");
    std::io::stdout().lock().flush().expect("a pipe");
}

/// Runs transactions until it is killed.
pub fn run(number: u64, addresses: &[String]) {
    let endpoint = connect(addresses);
    let database = database(&endpoint, addresses.len(), number);
    let (values, transactions) = (Cell::new(0), Cell::new(0_u64));
    let coroutines = (0..COROUTINES).map(async |coroutine| {
        let mut random = ChaCha8Rng::seed_from_u64(number << 8 | coroutine);
        loop {
            let start = now();
            let mut open = database.begin();
            let mut run = Run {
                nodes: addresses.len() as u16,
                client: number,
                values: &values,
                ops: Vec::new(),
            };
            if run.execute(&mut open, &mut random).await.is_err() {
                // Nothing was decided, and nothing of it can be seen.
                continue;
            }
            transactions.set(transactions.get() + 1);
            let own = transactions.get();
            say(&begin_line(own, start, &run.ops));
            if random.random_bool(0.02) {
                endpoint.sleep(random.random_range(0..150_000_000)).await;
            }
            let how = if random.random_bool(0.1) {
                open.abort().await;
                'a'
            } else {
                match open.commit().await {
                    Ok(()) => 'c',
                    Err(TxnError::InDoubt { .. }) => 'u',
                    Err(_) => 'a',
                }
            };
            say(&format!("e {own} {how} {}\n", now()));
        }
    });
    let executor = Executor::new(Rc::clone(&endpoint));
    executor.block_on(window(COROUTINES as usize, coroutines, |_, ()| ()));
}

/// Reads all keys that were written, once their leases are over: first each alone, then all in one
/// transaction.
pub fn read_all(addresses: &[String], log: &mut Log) {
    /// What the comment of `farslot_txn` promises is about three calls; the last attempt reads.
    const ATTEMPTS: usize = 3;
    let endpoint = connect(addresses);
    let database = database(&endpoint, addresses.len(), 0);
    let keys = log.keys();
    let executor = Executor::new(Rc::clone(&endpoint));
    executor.block_on(async {
        for (table, key) in &keys {
            let mut attempt = 1;
            loop {
                let mut open = database.begin();
                match open
                    .read(TableId((*table).into()), &key.to_be_bytes())
                    .await
                {
                    Ok(_) => break,
                    Err(error) if error.is_retryable() && attempt < ATTEMPTS => attempt += 1,
                    Err(error) => panic!("after its lease: {error}"),
                }
            }
        }
        let start = now();
        let mut open = database.begin();
        let bytes: Vec<_> = keys.iter().map(|(_, key)| key.to_be_bytes()).collect();
        let wanted = keys.iter().zip(&bytes);
        let wanted: Vec<_> = wanted
            .map(|((table, _), bytes)| (TableId((*table).into()), &bytes[..]))
            .collect();
        let values = open.read_many(&wanted).await.expect("no lock is left");
        open.commit().await.expect("nobody else is there");
        let read = keys.iter().zip(values);
        let ops = read.map(|(key, value)| ListOp::Read(*key, list(value.as_deref())));
        log.push(start, ops.collect(), now());
    });
}
