//! A node that is killed again and again while clients write.

use super::Keep;
use farslot::{Store, StoreError, Table};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Tables, and how each is made.
const TABLES: [(&str, &[&str]); 4] = [
    ("growing", &[]),
    ("fixed", &["--scheme", "cuckoo", "--capacity", "4000"]),
    ("chained", &["--scheme", "chained", "--capacity", "4000"]),
    ("ordered", &["--scheme", "ordered", "--capacity", "4000"]),
];
/// Keys of a writer in each table.
const KEYS: usize = 64;

/// What a key may have: what was acknowledged last, and what was in doubt since.
type Allowed = Vec<Vec<u8>>;

/// What a writer knows of its keys, table by table.
type Known = Vec<Vec<Allowed>>;

struct Writer {
    known: Arc<Mutex<Known>>,
    /// Nanoseconds, from the start of the storm, of the last acknowledgement.
    acknowledged: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

/// What all writers have in common.
struct Storm {
    begun: Instant,
    /// Whether writers are to wait at the barrier.
    pauses: AtomicBool,
    ends: AtomicBool,
    barrier: Barrier,
}

fn key(writer: usize, number: usize) -> Vec<u8> {
    format!("{writer}-{number}").into_bytes()
}

impl Writer {
    fn start(number: usize, address: &str, tables: &'static [usize], storm: &Arc<Storm>) -> Self {
        let known = vec![vec![vec![Vec::new()]; KEYS]; TABLES.len()];
        let known = Arc::new(Mutex::new(known));
        let acknowledged = Arc::new(AtomicU64::new(0));
        let writer = (
            Arc::clone(&known),
            Arc::clone(&acknowledged),
            Arc::clone(storm),
        );
        let address = address.to_owned();
        let thread = std::thread::spawn(move || write(number, &address, tables, writer));
        Self {
            known,
            acknowledged,
            thread,
        }
    }
}

fn write(
    number: usize,
    address: &str,
    tables: &[usize],
    (known, acknowledged, storm): (Arc<Mutex<Known>>, Arc<AtomicU64>, Arc<Storm>),
) {
    let store = Store::open(address).unwrap();
    let open = |table: &usize| store.table(TABLES[*table].0).unwrap();
    let open: Vec<Table> = tables.iter().map(open).collect();
    for step in 1_usize.. {
        if storm.pauses.load(Ordering::Acquire) {
            storm.barrier.wait();
            storm.barrier.wait();
        }
        if storm.ends.load(Ordering::Acquire) {
            return;
        }
        let which = step % tables.len();
        let at = step / tables.len() % KEYS;
        let value = step.to_string().into_bytes();
        let put = open[which].put(&key(number, at), &value);
        let mut known = known.lock().unwrap();
        let allowed = &mut known[tables[which]][at];
        match put {
            Ok(_) => {
                *allowed = vec![value];
                let now = storm.begun.elapsed().as_nanos() as u64;
                acknowledged.store(now, Ordering::Release);
            }
            Err(error) => {
                if error.may_have_taken_effect() {
                    allowed.push(value);
                }
                drop(known);
                check_outage(&error);
                std::thread::sleep(Duration::from_micros(500));
            }
        }
    }
}

/// Nothing but that the node is away may be in the way.
fn check_outage(error: &StoreError) {
    let text = error.to_string();
    let is_outage = error.kind() == farslot::ErrorKind::NodeDown || error.may_have_taken_effect();
    assert!(is_outage, "{text}");
}

/// Every key has what its writer knows.
fn check(store: &Store, writers: &[Writer], round: u32) {
    for (table, (name, _)) in TABLES.iter().enumerate() {
        let opened = store.table(name).unwrap();
        for (number, writer) in writers.iter().enumerate() {
            let mut known = writer.known.lock().unwrap();
            for (at, allowed) in known[table].iter_mut().enumerate() {
                let found = opened.get(&key(number, at)).unwrap().unwrap_or_default();
                assert!(
                    allowed.contains(&found),
                    "round {round}: {name}: writer {number}, key {at}: {:?} is none of {:?}",
                    String::from_utf8_lossy(&found),
                    allowed
                        .iter()
                        .map(|one| String::from_utf8_lossy(one))
                        .collect::<Vec<_>>()
                );
                // What was in doubt has happened or not.
                *allowed = vec![found];
            }
        }
    }
}

/// Kills a node so often, `between` so many milliseconds after all writers go on, and prints for
/// how long they could not.
fn storm(rounds: u32, seed: u64, between: u64) {
    println!("seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let keep = Keep::new();
    let mut node = keep.start();
    for (name, options) in TABLES {
        node.ok([&["create", name][..], options].concat());
    }
    // Clients that are one-sided in memory of their own process, and those of a network. A table
    // of one writer has that of shared memory.
    const ALL: [&[usize]; 4] = [&[0, 1, 2, 3], &[0, 2, 3], &[0, 2, 3], &[0, 2, 3]];
    let storm = Arc::new(Storm {
        begun: Instant::now(),
        pauses: AtomicBool::new(false),
        ends: AtomicBool::new(false),
        barrier: Barrier::new(ALL.len() + 1),
    });
    let writers = ALL
        .iter()
        .enumerate()
        .map(|(number, tables)| Writer::start(number, &keep.addresses[number % 2], tables, &storm));
    let writers: Vec<_> = writers.collect();
    let all_since = |since: u64| {
        let mut writers = writers.iter();
        writers.all(|writer| writer.acknowledged.load(Ordering::Acquire) > since)
    };
    let now = || storm.begun.elapsed().as_nanos() as u64;
    let wait_for_all = |since: u64| {
        let patience = Instant::now() + Duration::from_secs(60);
        while !all_since(since) {
            assert!(Instant::now() < patience, "a writer does not go on");
            for writer in &writers {
                assert!(!writer.thread.is_finished(), "a writer has failed");
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    };
    let (mut serving, mut downtimes) = (Vec::new(), Vec::new());
    wait_for_all(0);
    for round in 0..rounds {
        std::thread::sleep(Duration::from_millis(random.next_u64() % between));
        node.kill();
        let killed = now();
        node = keep.start();
        serving.push(now() - killed);
        wait_for_all(killed);
        downtimes.push(now() - killed);
        if round % 10 == 9 || round + 1 == rounds {
            storm.pauses.store(true, Ordering::Release);
            storm.barrier.wait();
            storm.pauses.store(false, Ordering::Release);
            for address in &keep.addresses {
                check(&Store::open(address).unwrap(), &writers, round);
            }
            storm.barrier.wait();
        }
    }
    storm.ends.store(true, Ordering::Release);
    for writer in writers {
        writer.thread.join().unwrap();
    }
    for (event, times) in [
        ("serving", &mut serving),
        ("all writers go on", &mut downtimes),
    ] {
        times.sort_unstable();
        let at = |part: usize| times[(times.len() - 1) * part / 100] as f64 / 1e6;
        println!(
            "{rounds} kills; from the kill to {event}: median {:.1} ms, p99 {:.1} ms, longest {:.1} ms",
            at(50),
            at(99),
            at(100)
        );
    }
    drop(node);
}

#[test]
fn all_that_was_acknowledged_is_there_after_each_of_twenty_kills() {
    storm(20, 1, 60);
}

/// `cargo test --release -p farslot-cli --test suites -- --ignored --nocapture thousand_kills`
#[test]
#[ignore = "some minutes"]
fn all_that_was_acknowledged_is_there_after_a_thousand_kills() {
    storm(1_000, 2, 100);
}
