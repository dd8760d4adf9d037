//! What a cache promises, against histories of clients that write and read at once under simulated
//! faults: answers no older than the bound, own writes at once, and nothing that goes back in time.

use crate::common::chaos::{Record, limits, perform};
use crate::common::cuckoo::{open as open_cuckoo, options as cuckoo_options, ways, world};
use crate::common::duo::{Dimensions, growing_node, memory_behind, shm_client_with};
use crate::common::from_sim;
use crate::common::{HEAP, INLINE, Slot, TABLE, WORD};
use farslot_check::{OpId, RegisterMap, TableOp, TableRet, check};
use farslot_fabric::sim::{FaultPlan, HostId, NicProfile, RunEnd, SimEndpoint, Simulation, World};
use farslot_fabric::{Endpoint, EndpointExt, Executor, Limits, Nanos, Rights, window};
use farslot_index::CacheCounts;
use farslot_index::Sizing;
use farslot_index::cache::{CacheOptions, Cached};
use farslot_index::cuckoo::{CuckooTable, LookupOrder};
use farslot_index::linear::{LinearTable, ReadPolicy};
use farslot_index::sealed::SealedOptions;
use farslot_index::{FieldSize, GET, Index, IndexError, IndexExt};
use farslot_testbed::AnyEndpoint;
use farslot_testbed::Fabric;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

const KEYS: u64 = 5;
const LONGEST_RUN: Nanos = 10_000_000_000;

/// What the runs of a test have come to.
#[derive(Clone, Copy, Default, Debug)]
struct Total {
    hits: u64,
    misses: u64,
    /// Hits that said what was not so any more.
    stale: u64,
}

/// A client with a cache, whose lookups are taken to be as old as they may be.
struct Caller<'r, T> {
    table: Cached<T>,
    slot: Slot,
    record: &'r Record,
    client: u32,
    bound: Nanos,
    /// By key, when this client's last write of it ended.
    written: RefCell<HashMap<u64, Nanos>>,
}

impl<T: Index> Caller<'_, T> {
    async fn run(&self, key: u64, op: TableOp<u64>) {
        let now = self.table.now();
        // A lookup may answer with what was so at any moment since then.
        let start = match op {
            TableOp::Get => {
                let own = self.written.borrow().get(&key).copied().unwrap_or(0);
                now.saturating_sub(self.bound).max(own)
            }
            _ => now,
        };
        let started = self.record.invoke(self.client, key, op.clone(), start);
        let is_write = op != TableOp::Get;
        let outcome = perform(&self.table, self.slot, key, op).await;
        if is_write && outcome.is_ok() {
            self.written.borrow_mut().insert(key, self.table.now());
        }
        self.ended(started, outcome);
    }

    fn ended(&self, id: OpId, outcome: Result<TableRet<u64>, IndexError>) {
        let now = self.table.now();
        match outcome {
            Ok(ret) => self.record.complete(id, ret, now),
            Err(error) if error.may_have_taken_effect() => self.record.in_doubt(id, now),
            Err(error) => panic!("{error}"),
        }
    }

    async fn get_many(&self) {
        let now = self.table.now();
        let ids: Vec<OpId> = (0..KEYS)
            .map(|key| {
                let own = self.written.borrow().get(&key).copied().unwrap_or(0);
                let start = now.saturating_sub(self.bound).max(own);
                self.record.invoke(self.client, key, TableOp::Get, start)
            })
            .collect();
        let keys: Vec<_> = (0..KEYS).map(|key| self.slot.key(key)).collect();
        let done = |number: usize, got: Result<Option<farslot_index::Value>, IndexError>| {
            let got = got.map(|value| TableRet::Got(value.map(|value| self.slot.number(&value))));
            self.ended(ids[number], got);
        };
        self.table
            .get_many(keys.iter().map(|key| &key[..]), done)
            .await;
    }

    /// Reads and writes at random.
    async fn work(&self, mut rng: ChaCha8Rng, writes: bool, coroutine: u64) {
        for turn in 0..40 {
            let key = rng.random_range(0..KEYS);
            let number = 1 + turn + 50 * coroutine + 200 * u64::from(self.client);
            let value = self.slot.fitted(number);
            let op = match rng.random_range(0..10) {
                0 if writes => TableOp::Put(value),
                1 if writes => TableOp::FindOrPut(value),
                2 if writes => TableOp::Update(value),
                3 if writes => TableOp::Remove,
                4 => {
                    self.get_many().await;
                    continue;
                }
                _ => TableOp::Get,
            };
            self.run(key, op).await;
        }
    }
}

/// Opens a table that lies in a world, and says whether this client may write it.
trait Opening: Clone + 'static {
    type Table: Index + 'static;

    fn world(&self, seed: u64) -> World;

    async fn open(&self, endpoint: Rc<SimEndpoint>, number: u32) -> (Self::Table, bool);
}

#[derive(Clone)]
struct Linear(Slot);

impl Opening for Linear {
    type Table = LinearTable<AnyEndpoint>;

    fn world(&self, seed: u64) -> World {
        crate::common::chaos::world(seed, &self.0.options(32, 7).layout().unwrap())
    }

    async fn open(&self, endpoint: Rc<SimEndpoint>, _: u32) -> (Self::Table, bool) {
        let layout = self.0.options(32, 7).layout().unwrap();
        let reads = crate::common::Reads::fixed(4);
        (
            crate::common::chaos::open(from_sim(endpoint), &layout, reads).await,
            true,
        )
    }
}

#[derive(Clone)]
struct Cuckoo(Slot);

impl Opening for Cuckoo {
    type Table = CuckooTable<AnyEndpoint>;

    fn world(&self, seed: u64) -> World {
        let options = cuckoo_options(self.0, 32, ways(2, 2), 7);
        world(seed, &options.layout().unwrap())
    }

    async fn open(&self, endpoint: Rc<SimEndpoint>, number: u32) -> (Self::Table, bool) {
        let options = cuckoo_options(self.0, 32, ways(2, 2), 7);
        let layout = options.layout().unwrap();
        let table = open_cuckoo(endpoint, &layout, LookupOrder::Parallel).await;
        // One writer.
        (table, number == 0)
    }
}

/// A run of answers that may be as old as they may, and whether its history says that they were no
/// older than `claimed` of that.
fn run<O: Opening>(
    opening: &O,
    slot: Slot,
    seed: u64,
    claimed: f64,
) -> (Total, Result<(), String>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let world = opening.world(seed);
    let bound = [2_000, 20_000, 200_000][seed as usize % 3];
    // One set in a third of the runs, so that answers displace each other.
    let bytes = [1_200, 4_000, 40_000][seed as usize / 3 % 3];
    let options = CacheOptions::new(bytes, 60).stale_for(bound);
    let record = Record::new();
    let counted = Rc::new(Cell::new(CacheCounts::default()));
    let mut simulation = Simulation::new(world.clone());
    world.set_faults(FaultPlan::chaos(seed, [0.0, 0.5][seed as usize % 2]));
    for number in 0..3 {
        let client = simulation.add_client(HostId(0), limits());
        let (opening, record, counted) = (opening.clone(), record.clone(), Rc::clone(&counted));
        let seeds = [(); 2].map(|()| rng.random());
        simulation.spawn(client, async move |endpoint| {
            let (table, writes) = opening.open(endpoint, number).await;
            let caller = Caller {
                table: Cached::new(Rc::new(table), options).unwrap(),
                slot,
                record: &record,
                client: number,
                bound: (bound as f64 * claimed) as Nanos,
                written: RefCell::default(),
            };
            let caller = &caller;
            let coroutines = (0..).zip(seeds).map(async |(coroutine, seed)| {
                let rng = ChaCha8Rng::seed_from_u64(seed);
                caller.work(rng, writes, coroutine).await;
            });
            window(2, coroutines, |_, ()| {}).await;
            let (mut sum, counts) = (counted.get(), caller.table.counts());
            sum.hits += counts.hits;
            sum.misses += counts.misses;
            assert!(counts.bytes <= bytes);
            counted.set(sum);
        });
    }
    assert_eq!(simulation.run_until(LONGEST_RUN), RunEnd::Done);
    let counts = counted.get();
    let total = Total {
        hits: counts.hits,
        misses: counts.misses,
        stale: 0,
    };
    let checked = check(&record.take(), &RegisterMap::new());
    (total, checked.map(drop).map_err(|error| error.to_string()))
}

fn runs<O: Opening>(of: impl Fn(Slot) -> O) {
    for slot in [WORD, HEAP] {
        let mut total = Total::default();
        for seed in 0..150 {
            let (one, checked) = run(&of(slot), slot, seed, 1.0);
            if let Err(error) = checked {
                panic!("{} {seed}: {error}", slot.name);
            }
            total.hits += one.hits;
            total.misses += one.misses;
        }
        println!("{}: {total:?}", slot.name);
        assert!(total.hits > 3_000 && total.misses > 3_000, "{total:?}");
    }
}

#[test]
fn answers_of_linear_tables_are_no_older_than_the_bound() {
    runs(Linear);
}

#[test]
fn answers_of_cuckoo_tables_are_no_older_than_the_bound() {
    runs(Cuckoo);
}

/// The judge is not blind: that answers were of the present, or a tenth as old as they may be, is
/// not so.
#[test]
fn histories_show_that_answers_are_old() {
    for (claimed, least) in [(0.0, 30), (0.1, 10)] {
        let wrong = |seed: &u64| run(&Linear(WORD), WORD, *seed, claimed).1.is_err();
        let shown = (0..90).filter(wrong).count();
        assert!(shown >= least, "{claimed}: {shown} of 90");
    }
}

/// A writer counts up; what a client of many coroutines reads never goes back, and is stale at
/// times.
#[test]
fn time_does_not_go_back() {
    let mut total = Total::default();
    for seed in 0..90 {
        let slot = HEAP;
        let opening = Linear(slot);
        let world = opening.world(seed);
        world.set_faults(FaultPlan::chaos(seed, 0.5));
        let mut simulation = Simulation::new(world.clone());
        let [writer, reader] = [(); 2].map(|()| simulation.add_client(HostId(0), limits()));
        let (written, seen, last) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)), 60);
        let (now_at, of) = (Rc::clone(&written), opening.clone());
        simulation.spawn(writer, async move |endpoint| {
            let (table, _) = of.open(endpoint, 0).await;
            for number in 1..=last {
                while table.put(&slot.key(1), &slot.value(number)).await.is_err() {}
                now_at.set(number);
            }
        });
        let sum = Rc::new(Cell::new(Total::default()));
        let (counted, latest) = (Rc::clone(&sum), Rc::clone(&written));
        simulation.spawn(reader, async move |endpoint| {
            let (table, _) = opening.open(endpoint, 1).await;
            let options = CacheOptions::new(4_000, 60).stale_for(8_000);
            let table = &Cached::new(Rc::new(table), options).unwrap();
            let (seen, latest, counted) = (&seen, &latest, &counted);
            let coroutines = (0..3).map(async |_| {
                while latest.get() < last {
                    let (began_with, written) = (seen.get(), latest.get());
                    let hits = table.counts().hits;
                    let Ok(got) = table.get(&slot.key(1)).await else {
                        continue;
                    };
                    let got = got.map_or(0, |value| slot.number(&value));
                    assert!(got >= began_with, "{got} after {began_with}");
                    seen.set(seen.get().max(got));
                    let mut total = counted.get();
                    total.hits += u64::from(table.counts().hits > hits);
                    total.stale += u64::from(got < written);
                    counted.set(total);
                    table.index().endpoint().sleep(700).await;
                }
            });
            window(3, coroutines, |_, ()| {}).await;
        });
        assert_eq!(simulation.run_until(LONGEST_RUN), RunEnd::Done);
        total.hits += sum.get().hits;
        total.stale += sum.get().stale;
    }
    assert!(total.hits > 1_500 && total.stale > 300, "{total:?}");
}

/// By default only what cannot change is kept: of a table that is sealed, from then on.
#[test]
fn exact_answers_are_those_that_cannot_change() {
    let options = cuckoo_options(WORD, 64, ways(3, 4), 7);
    let (node, executor, table) =
        crate::common::cuckoo::new_table(Fabric::Shm, &options, LookupOrder::Parallel);
    let cached = Cached::new(Rc::new(table), CacheOptions::new(10_000, 8)).unwrap();
    let gets = || {
        executor
            .endpoint()
            .core()
            .counters
            .snapshot()
            .operation(GET)
            .count
    };
    let (key, other, value) = (WORD.key(1), WORD.key(2), WORD.value(1));
    executor.block_on(async {
        for _ in 0..3 {
            assert!(cached.get(&key).await.unwrap().is_none());
        }
        assert_eq!((gets(), cached.counts().hits), (3, 0));
        cached.index().build(&[(&key, &value)]).await.unwrap();
        for _ in 0..3 {
            assert_eq!(cached.get(&key).await.unwrap().as_deref(), Some(&value[..]));
            assert!(cached.get(&other).await.unwrap().is_none());
        }
        assert_eq!((gets(), cached.counts().hits), (5, 4));
        cached.clear();
        assert!(cached.get(&key).await.unwrap().is_some());
        assert_eq!(gets(), 6);
        let put = cached.put(&key, &value).await;
        assert!(matches!(put, Err(IndexError::Sealed { .. })));
    });
    drop(node);
}

#[test]
fn answers_of_a_sealed_table_are_kept_for_ever() {
    let records: Vec<_> = (0..40)
        .map(|key| (HEAP.key(key), HEAP.value(key)))
        .collect();
    let records: Vec<_> = records
        .iter()
        .map(|(key, value)| (&key[..], &value[..]))
        .collect();
    let options = SealedOptions::new(Sizing::new(0, HEAP.key, HEAP.value, 5));
    let layout = options.layout_for(&records).unwrap();
    let bytes = TABLE.offset + u64::try_from(layout.table_bytes()).unwrap();
    let world = World::new(1, NicProfile::connectx5_edr());
    world.add_node(&[(bytes, Rights::ALL)]);
    let executor = Executor::new(world.endpoint(limits()));
    executor.block_on(async {
        let endpoint = Rc::clone(executor.endpoint());
        let policy = ReadPolicy::Fixed(4);
        let opening =
            farslot_index::sealed::SealedTable::open(from_sim(endpoint), TABLE, layout, policy);
        let table = opening.await.unwrap();
        table.build(&records).await.unwrap();
        let cached = Cached::new(Rc::new(table), CacheOptions::new(100_000, 350)).unwrap();
        for round in 0..2 {
            let mut answers = 0;
            let keys = records.iter().map(|(key, _)| *key);
            let done = |number: usize, value: Result<Option<farslot_index::Value>, IndexError>| {
                let value = value.unwrap().expect("it is there");
                assert_eq!(*value, *records[number].1);
                answers += 1;
            };
            cached.get_many(keys, done).await;
            assert_eq!(answers, records.len());
            let counts = cached.counts();
            assert_eq!((counts.hits, counts.misses), (round * 40, 40));
            world.advance_to(world.now() + 1_000_000_000);
        }
    });
}

/// As the index grows, answers make room for it.
#[test]
fn answers_make_room_for_an_index_that_grows() {
    const BYTES: u64 = 30_000;
    let record = Slot {
        key: FieldSize::Fixed(8),
        value: FieldSize::Fixed(8),
        ..INLINE
    };
    let dimensions = Dimensions {
        slots: 1 << 10,
        bucket_slots: 4,
        fingerprint_bits: 16,
        longest_path: 3,
        stash: 4,
        readers: false,
    };
    let layout = dimensions.layout(record, 1);
    let memory = memory_behind(&layout, 4 << 20);
    let node = growing_node(&memory);
    let (executor, table) = shm_client_with(&node, &layout, Limits::default());
    let options = CacheOptions::new(BYTES, 16).stale_for(Nanos::MAX);
    let cached = Cached::within(Rc::new(table), options).unwrap();
    let keys = 500_u64;
    let get_all = async || {
        for key in 0..keys {
            let key = key.to_le_bytes();
            assert_eq!(cached.get(&key).await.unwrap().as_deref(), Some(&key[..]));
            assert!(cached.state().client_bytes <= BYTES);
        }
        cached.counts().entries
    };
    executor.block_on(async {
        for key in 0..keys {
            let key = key.to_le_bytes();
            assert!(cached.put(&key, &key).await.unwrap());
        }
        let at_first = get_all().await;
        assert!(at_first > 100);
        cached.index().grow(&memory, 8).await.unwrap();
        let of_index = cached.index().state().client_bytes;
        assert!((16_000..22_000).contains(&of_index), "{of_index}");
        let then = get_all().await;
        assert!((10..at_first).contains(&then), "{then} of {at_first}");
        // More than there is for both: the index has it.
        cached.index().grow(&memory, 4).await.unwrap();
        assert!(cached.index().state().client_bytes > BYTES);
        for key in 0..2 * keys {
            let key = key.to_le_bytes();
            cached.get(&key).await.unwrap();
        }
        assert_eq!(cached.counts().entries, 0);
    });
}

/// Index and cache share a budget.
#[test]
fn the_cache_takes_what_the_index_leaves() {
    let options = cuckoo_options(WORD, 1 << 10, ways(3, 4), 7);
    let graph = options.layout().unwrap().predetermination_bytes();
    let new = |bytes| {
        let (_node, _, table) =
            crate::common::cuckoo::new_table(Fabric::Shm, &options, LookupOrder::Parallel);
        let table = table.with_predetermination().unwrap();
        assert_eq!(table.state().client_bytes, graph);
        Cached::within(Rc::new(table), CacheOptions::new(bytes, 8))
            .map(|cached| cached.counts().bytes)
    };
    assert!(new(graph + 10_000).unwrap() <= 10_000);
    for too_little in [graph + 100, graph - 1, 0] {
        let refused = new(too_little).unwrap_err();
        assert!(matches!(refused, IndexError::BadOption { .. }), "{refused}");
    }
}
