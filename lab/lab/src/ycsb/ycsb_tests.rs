//! The workloads against what they are to be; systems that lie; a peer that is left as it was.

use super::record::{Key, Records};
use super::round::{self, Plan, YcsbClient};
use super::system::{Answer, Client, Request, WorkloadSystem};
use super::workload::{Batch, Generator};
use super::*;
use farslot::Store;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

const LOADED: u32 = 1_000;
const DRAWS: usize = 200_000;

fn generator(workload: Workload, thread: u64, threads: u64) -> Generator {
    Generator::new(workload, Zipf::new(LOADED, SKEW), thread, threads, 5)
}

/// Whether so many of the draws are what a probability gives, within five standard deviations.
fn is_about(counted: usize, draws: usize, probability: f64) -> bool {
    let expected = probability * draws as f64;
    (counted as f64 - expected).abs() < 5.0 * (expected * (1.0 - probability)).sqrt() + 1.0
}

#[test]
fn operations_are_mixed_as_the_workload_says() {
    for workload in Workload::ALL {
        let mut generator = generator(workload, 0, 1);
        let (mut all, mut batch) = (Batch::default(), Batch::default());
        let mut scans = 0;
        while (all.operations as usize) < DRAWS {
            generator.fill(1, &mut batch);
            assert_eq!(batch.operations, 1, "{workload}");
            all.operations += 1;
            all.updates.append(&mut batch.updates);
            all.inserts.append(&mut batch.inserts);
            all.rewrites.append(&mut batch.rewrites);
            let expected = workload.mix().scan == 0.0;
            assert!(!expected || batch.reads.len() <= 1);
            scans += usize::from(!expected && !batch.reads.is_empty());
        }
        let mix = workload.mix();
        for (counted, part) in [
            (all.updates.len(), mix.update),
            (all.inserts.len(), mix.insert),
            (all.rewrites.len(), mix.read_modify_write),
            (scans, mix.scan),
        ] {
            assert!(
                is_about(counted, DRAWS, part),
                "{workload}: {counted} of {part}"
            );
        }
    }
}

#[test]
fn popular_records_are_as_popular_as_zipf_says_and_lie_anywhere() {
    let zipf = Zipf::new(LOADED, SKEW);
    // What the scattered ranks add up to, by record; ranks may meet.
    let mut probability: HashMap<u64, f64> = HashMap::new();
    for rank in 0..LOADED {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in u64::from(rank).to_le_bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        *probability.entry(hash % u64::from(LOADED)).or_default() += zipf.probability(rank);
    }
    let mut drawn: HashMap<u64, usize> = HashMap::new();
    let mut generator = generator(Workload::C, 0, 1);
    let mut batch = Batch::default();
    for _ in 0..DRAWS / 100 {
        generator.fill(100, &mut batch);
        assert_eq!((batch.operations, batch.reads.len()), (100, 100));
        for record in &batch.reads {
            *drawn.entry(*record).or_default() += 1;
        }
    }
    for record in 0..u64::from(LOADED) {
        let probability = probability.get(&record).copied().unwrap_or_default();
        let counted = drawn.get(&record).copied().unwrap_or_default();
        assert!(is_about(counted, DRAWS, probability), "{record}: {counted}");
    }
    let popular = drawn.iter().max_by_key(|(_, counted)| **counted).unwrap();
    assert!(*popular.0 > 10, "the most popular record is {}", popular.0);
}

#[test]
fn the_latest_records_are_read_and_only_those_that_are_known_to_be_there() {
    let zipf = Zipf::new(LOADED, SKEW);
    for threads in [1, 3] {
        for thread in 0..threads {
            let mut generator = generator(Workload::D, thread, threads);
            let mut batch = Batch::default();
            // The records that this thread knows, in the order in which they came.
            let mut known: Vec<u64> = (0..u64::from(LOADED)).collect();
            let (mut latest, mut reads) = (0, 0);
            while reads < DRAWS / 10 {
                generator.fill(8, &mut batch);
                for record in &batch.reads {
                    assert!(known.contains(record), "{record} is not there yet");
                    latest += usize::from(known.last() == Some(record));
                    reads += 1;
                }
                for record in &batch.inserts {
                    assert_eq!(
                        record % threads,
                        (u64::from(LOADED) % threads + thread) % threads
                    );
                    assert!(!known.contains(record));
                    known.push(*record);
                }
            }
            assert!(
                is_about(latest, reads, zipf.probability(0)),
                "{latest} of {reads}"
            );
        }
    }
}

#[test]
fn scans_have_all_lengths_and_end_with_the_records() {
    let mut generator = generator(Workload::E, 0, 1);
    let mut batch = Batch::default();
    let mut lengths = vec![0; LONGEST_SCAN as usize + 1];
    let mut known = u64::from(LOADED);
    for _ in 0..DRAWS / 4 {
        generator.fill(1, &mut batch);
        if let Some(first) = batch.reads.first() {
            let consecutive: Vec<u64> = (*first..first + batch.reads.len() as u64).collect();
            assert_eq!(batch.reads, consecutive);
            assert!(batch.reads.iter().all(|record| *record < known));
            if first + LONGEST_SCAN < known {
                lengths[batch.reads.len()] += 1;
            }
        }
        known += batch.inserts.len() as u64;
    }
    assert_eq!(lengths[0], 0);
    let all = lengths.iter().sum();
    for counted in &lengths[1..] {
        assert!(
            is_about(*counted, all, 1.0 / LONGEST_SCAN as f64),
            "{lengths:?}"
        );
    }
}

/// How a store can be wrong.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Lie {
    None,
    /// Two reads of a batch get each other's values.
    Swap,
    /// A read is not answered.
    Silence,
    /// A record that was loaded is gone.
    Absence,
    /// A value with a bit changed.
    Tear,
}

/// A map in this process, which may lie once in a while.
#[derive(Clone)]
struct Map {
    lie: Lie,
    records: Arc<Mutex<HashMap<Key, Vec<u8>>>>,
}

impl WorkloadSystem for Map {
    fn name(&self) -> &'static str {
        "map"
    }

    fn version(&self) -> &str {
        "0"
    }

    fn process(&self) -> Option<u32> {
        Some(std::process::id())
    }

    fn connect(&self) -> Result<Box<dyn Client>> {
        Ok(Box::new(self.clone()))
    }
}

impl Client for Map {
    fn ask(&mut self, request: &Request, answer: Answer<'_>) -> Result<bool> {
        let mut records = self.records.lock().unwrap();
        let mut values: Vec<Option<Vec<u8>>> = request
            .reads
            .iter()
            .map(|key| records.get(key).cloned())
            .collect();
        let count = values.len();
        match self.lie {
            Lie::Swap if count > 1 => values.swap(0, count - 1),
            Lie::Absence if count > 0 => values[0] = None,
            Lie::Silence => drop(values.pop()),
            Lie::Tear if count > 0 => {
                if let Some(value) = &mut values[0] {
                    value[30] ^= 1;
                }
            }
            _ => {}
        }
        for (number, value) in values.iter().enumerate() {
            answer(number, value.as_deref());
        }
        let mut expected = true;
        for (place, (key, value)) in request.records().enumerate() {
            let before = records.insert(*key, value.to_vec());
            expected &= before.is_some() == (place < request.updates);
        }
        Ok(expected)
    }
}

#[test]
fn stores_that_lie_are_found_out() {
    for lie in [Lie::None, Lie::Swap, Lie::Silence, Lie::Absence, Lie::Tear] {
        for workload in Workload::ALL {
            let system = Map {
                lie,
                records: Arc::default(),
            };
            let plan = Plan {
                records: Records::new(1, 64),
                width: 16,
                time: Duration::from_millis(1),
                inserts: 100,
                is_scan: false,
            };
            round::load(&system, &plan.records, LOADED.into(), 1).unwrap();
            let mut clients = [YcsbClient {
                generator: generator(workload, 0, 1),
                written: 0,
            }];
            let outcome = round::run(&system, &mut clients, &plan);
            match (lie, outcome) {
                (Lie::None, Ok(round)) => {
                    assert!(round.operations > 0 && round.operations == round.latency.len());
                    assert!(round.server_cpu_seconds.is_some());
                }
                (Lie::None, Err(error)) => panic!("{workload}: {error}"),
                (_, Err(LabError::Bench(BenchError::WrongAnswers { wrong, .. }))) => {
                    assert!(wrong > 0)
                }
                (_, outcome) => panic!("{workload}, {lie:?}: {:?}", outcome.map(|_| ()).err()),
            }
        }
    }
}

fn small() -> Options {
    Options {
        records: 2_000,
        value_bytes: 64,
        threads: 2,
        pipeline: 8,
        time: Duration::from_millis(20),
        rounds: 2,
        ..Options::default()
    }
}

fn embedded(bytes: u64) -> Result<ServedStore> {
    Ok(ServedStore {
        store: Store::embedded_with(bytes, farslot::OpenOptions::default())?,
        process: None,
        guard: Box::new(()),
    })
}

/// A server that runs already is used if it is empty, and is empty again afterwards.
#[test]
fn a_peer_that_runs_is_left_as_it_was() {
    if !PeerKind::Redis.is_installed() {
        eprintln!("SKIPPED: redis is not installed (scripts/peers install)");
        return;
    }
    let resources = PeerResources {
        memory: 64 << 20,
        threads: 1,
        evicts: None,
    };
    let peer = PeerServer::<RedisClient>::open(None, resources).unwrap();
    let options = Options {
        against: vec![PeerAddress {
            kind: PeerKind::Redis,
            at: Some(peer.address()),
        }],
        workloads: vec![Workload::C],
        ..small()
    };
    run(&options, embedded, &|_| {}).unwrap();
    let mut client = RedisClient::connect(peer.address()).unwrap();
    client.command(&["SET", "somebody's", "record"]).unwrap();
    let error = run(&options, embedded, &|_| {}).unwrap_err();
    assert!(
        matches!(error, LabError::PeerInUse { records: 1, .. }),
        "{error}"
    );
    // It is gone with its owner.
    let (address, process) = (peer.address(), peer.process().unwrap());
    drop(peer);
    assert!(RedisClient::connect(address).is_err());
    assert!(farslot_bench::process::cpu_seconds(process).is_err());
}
