//! Clients that remember clusters: the same answers from fewer READs, however old what they remember.

#![cfg(not(feature = "broken-insert"))]

mod common;

use common::chaos::{Tally, limits, open, run_with_hints, world};
use common::{PAIR, Reads, SLOTS, Slot, shm_client, shm_node};
use farslot_fabric::shm::{Node, ShmEndpoint};
use farslot_fabric::sim::{
    ClientId, FaultPlan, HostId, Partition, RunEnd, Side, SimEndpoint, Simulation,
};
use farslot_fabric::{Endpoint, Executor, Nanos, NodeId};
use farslot_index::linear::{KeyRule, LinearLayout, LinearOptions, LinearTable};
use farslot_index::{GET_ALL, Index};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Seeds of each slot kind that go through the simulator's faults.
const SEEDS: u64 = 300;

#[test]
fn histories_with_hints_are_linearizable() {
    let mut total = Tally::default();
    for slot in SLOTS {
        for seed in 0..SEEDS {
            let most = [1, 3, 1000][seed as usize % 3];
            match run_with_hints(slot, seed, most) {
                Ok((tally, _)) => total += tally,
                Err(failure) => panic!("{} {seed}, {most} hints: {}", slot.name, failure.error),
            }
        }
    }
    assert!(
        total.seen > 3 * total.runs && total.in_doubt > total.runs / 10,
        "{total:?}"
    );
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// By the client with hints, or by the other one.
    Put {
        key: u64,
        value: u64,
        other: bool,
    },
    Remove {
        key: u64,
        other: bool,
    },
    Look(u64),
    LookAtAll,
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0..8u64;
    prop_oneof![
        6 => (key(), 0..100u64, any::<bool>())
            .prop_map(|(key, value, other)| Step::Put { key, value, other }),
        1 => (key(), any::<bool>()).prop_map(|(key, other)| Step::Remove { key, other }),
        4 => key().prop_map(Step::Look),
        1 => Just(Step::LookAtAll),
    ]
}

/// Two clients of one table, of which one has hints, and what the table must be.
struct Pair<'t> {
    slot: Slot,
    keys: KeyRule,
    hinted: &'t LinearTable<ShmEndpoint>,
    other: &'t LinearTable<ShmEndpoint>,
    records: BTreeMap<u64, Vec<Vec<u8>>>,
}

impl Pair<'_> {
    fn client(&self, other: bool) -> &LinearTable<ShmEndpoint> {
        if other { self.other } else { self.hinted }
    }

    async fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Put { key, value, other } => {
                let value = self.slot.value(value);
                let new = self.client(other).put(&self.slot.key(key), &value).await;
                let records = self.records.entry(key).or_default();
                if self.keys == KeyRule::Unique && !records.is_empty() {
                    records.clear();
                    prop_assert!(!new.unwrap());
                } else {
                    prop_assert!(new.unwrap());
                }
                records.push(value);
                records.sort();
            }
            Step::Remove { key, other } => {
                let removed = self
                    .client(other)
                    .remove(&self.slot.key(key))
                    .await
                    .unwrap();
                let records = self.records.remove(&key).unwrap_or_default();
                prop_assert_eq!(removed, !records.is_empty());
            }
            Step::Look(key) => self.look(key).await?,
            Step::LookAtAll => {
                let keys: Vec<_> = (0..8).map(|key| self.slot.key(key)).collect();
                let mut got = vec![None; keys.len()];
                let done = |number: usize, value: farslot_index::Result<Option<_>>| {
                    let value = value
                        .unwrap()
                        .map(|value: farslot_index::Value| value.to_vec());
                    got[number] = Some(value);
                };
                self.hinted
                    .get_many(keys.iter().map(|key| &key[..]), done)
                    .await;
                for (key, value) in (0..).zip(got) {
                    self.is_one_of(key, value.expect("each key has an answer"))?;
                }
            }
        }
        Ok(())
    }

    async fn look(&self, number: u64) -> Result<(), TestCaseError> {
        let key = self.slot.key(number);
        let mut found = vec![];
        let all = self
            .hinted
            .get_all(&key, |value| found.push(value.to_vec()));
        prop_assert_eq!(all.await.unwrap(), found.len());
        found.sort();
        let there = self.records.get(&number).cloned().unwrap_or_default();
        prop_assert_eq!(found, there);
        let got = self.hinted.get(&key).await.unwrap();
        self.is_one_of(number, got.map(|value| value.to_vec()))
    }

    fn is_one_of(&self, key: u64, got: Option<Vec<u8>>) -> Result<(), TestCaseError> {
        let records = self.records.get(&key);
        match got {
            Some(value) => prop_assert!(records.is_some_and(|records| records.contains(&value))),
            None => prop_assert!(records.is_none_or(Vec::is_empty)),
        }
        Ok(())
    }
}

/// Others put and remove records behind the back of a client with hints, in a table so small that its
/// clusters run into each other and round its end.
#[test]
fn old_hints_change_no_answer() {
    for slot in SLOTS {
        for keys in [KeyRule::Unique, KeyRule::Multi] {
            let fixed = prop_oneof![Just(None), Just(Some(1)), Just(Some(3)), Just(Some(64))];
            let case = (
                vec(step(), 1..60),
                fixed,
                any::<bool>(),
                1usize..6,
                any::<u64>(),
            );
            let checked = TestRunner::new(ProptestConfig::with_cases(48)).run(&case, |case| {
                let (steps, fixed, look_ahead, most, seed) = case;
                let reads = Reads { fixed, look_ahead };
                let options = LinearOptions {
                    keys,
                    ..slot.options(64, seed)
                };
                let layout = options.layout().unwrap();
                let node = shm_node(&layout);
                let (executor, hinted) = shm_client(&node, &layout, reads);
                let hinted = hinted.with_hints(most);
                let (others, other) = shm_client(&node, &layout, reads);
                let records = BTreeMap::new();
                let mut pair = Pair {
                    slot,
                    keys,
                    hinted: &hinted,
                    other: &other,
                    records,
                };
                for step in steps {
                    let by_other = matches!(
                        step,
                        Step::Put { other: true, .. } | Step::Remove { other: true, .. }
                    );
                    let executor = if by_other { &others } else { &executor };
                    executor.block_on(pair.step(step))?;
                }
                Ok(())
            });
            checked.unwrap_or_else(|error| panic!("{} {keys:?}: {error}", slot.name));
        }
    }
}

const MODELLED: Reads = Reads {
    fixed: None,
    look_ahead: false,
};

/// A table of `slots` slots with 8-byte keys and values, that any number of clients may attach to.
struct Shared {
    node: Node,
    layout: LinearLayout,
}

struct Client {
    executor: Executor<ShmEndpoint>,
    table: LinearTable<ShmEndpoint>,
}

impl Shared {
    fn new(slots: u64) -> Self {
        let options = LinearOptions {
            keys: KeyRule::Multi,
            ..PAIR.options(slots, 9)
        };
        let layout = options.layout().unwrap();
        Self {
            node: shm_node(&layout),
            layout,
        }
    }

    fn client(&self, reads: Reads, hints: usize) -> Client {
        let (executor, table) = shm_client(&self.node, &self.layout, reads);
        let table = table.with_hints(hints);
        Client { executor, table }
    }

    /// Puts `count` records under each key.
    fn fill(&self, keys: std::ops::Range<u64>, count: u64) {
        let Client { executor, table } = self.client(MODELLED, 0);
        executor.block_on(async {
            for key in keys {
                for number in 0..count {
                    let (key, value) = (key.to_le_bytes(), number.to_le_bytes());
                    assert!(table.put(&key, &value).await.unwrap());
                }
            }
            table.flush().await.unwrap();
        });
    }
}

/// READs of the table and their bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Spent {
    reads: u64,
    bytes: u64,
}

impl Client {
    /// Looks up all records of each key; all have `count`.
    fn get_all(&self, keys: impl IntoIterator<Item = u64>, count: usize) -> Spent {
        let counters = || self.executor.endpoint().core().counters.snapshot();
        let before = counters();
        self.executor.block_on(async {
            for key in keys {
                let bytes = key.to_le_bytes();
                let found = self.table.get_all(&bytes, |_| {}).await.unwrap();
                assert_eq!(found, count, "key {key}");
            }
        });
        let spent = counters().since(&before).operation(GET_ALL);
        Spent {
            reads: spent.verbs,
            bytes: spent.bytes,
        }
    }
}

const RECORDS: u64 = 200;
/// Keys of many records, with keys of one record around them.
const LARGE: std::ops::Range<u64> = 0..20;
const SMALL: std::ops::Range<u64> = 1_000..5_000;

fn skewed() -> Shared {
    let shared = Shared::new(1 << 14);
    shared.fill(SMALL, 1);
    shared.fill(LARGE, RECORDS);
    shared
}

#[test]
fn a_known_cluster_is_read_at_once() {
    let shared = skewed();
    let lookups = LARGE.count() as u64;
    let oblivious = shared.client(MODELLED, 0).get_all(LARGE, RECORDS as usize);
    assert!(oblivious.reads >= 9 * lookups, "{oblivious:?}");

    let client = shared.client(MODELLED, 1000);
    assert_eq!(client.table.known_clusters(), 0);
    let first = client.get_all(LARGE, RECORDS as usize);
    let second = client.get_all(LARGE, RECORDS as usize);
    println!("without hints {oblivious:?}, first {first:?}, then {second:?}");
    // The first lookups may have met the clusters that others of them lie in.
    assert!(first.reads <= oblivious.reads && client.table.known_clusters() > 1);
    assert_eq!(second.reads, lookups, "one READ each");
    assert!(
        second.bytes < oblivious.bytes,
        "and nothing behind the empty slot"
    );
}

#[test]
fn a_fixed_read_size_is_lengthened_too() {
    let shared = skewed();
    for look_ahead in [false, true] {
        let reads = Reads {
            look_ahead,
            ..Reads::fixed(8)
        };
        let client = shared.client(reads, 1000);
        let first = client.get_all(LARGE, RECORDS as usize);
        client.get_all(LARGE, RECORDS as usize);
        let known = client.get_all(LARGE, RECORDS as usize);
        assert!(first.reads > 20 * LARGE.count() as u64, "{first:?}");
        // Looking ahead, too: nobody asks for what lies behind the empty slot.
        assert_eq!(known.reads, LARGE.count() as u64);
    }
}

/// A READ is 16 KiB at most: what is longer is read in as few as that takes.
#[test]
fn long_clusters_are_split() {
    let shared = Shared::new(1 << 13);
    shared.fill(0..1, 2_500);
    let client = shared.client(MODELLED, 4);
    client.get_all([0, 0], 2_500);
    let known = client.get_all([0], 2_500);
    assert_eq!(
        known,
        Spent {
            reads: 3,
            bytes: 2_501 * 16
        }
    );
}

#[test]
fn an_old_hint_costs_one_more_read() {
    let shared = skewed();
    let client = shared.client(MODELLED, 1000);
    for _ in 0..3 {
        client.get_all(LARGE, RECORDS as usize);
    }
    // Others lengthen all clusters.
    shared.fill(LARGE, 1);
    let count = RECORDS as usize + 1;
    let lookups = LARGE.count() as u64;
    let stale = client.get_all(LARGE, count);
    assert!(
        stale.reads > lookups && stale.reads <= 2 * lookups,
        "{stale:?}"
    );
    client.get_all(LARGE, count);
    assert_eq!(client.get_all(LARGE, count).reads, lookups);
}

#[test]
fn the_largest_clusters_are_kept() {
    let shared = skewed();
    let client = shared.client(MODELLED, 5);
    for _ in 0..3 {
        client.get_all(SMALL, 1);
        client.get_all(LARGE, RECORDS as usize);
        assert!((1..=5).contains(&client.table.known_clusters()));
    }
    let known = client.get_all(LARGE, RECORDS as usize);
    let oblivious = shared.client(MODELLED, 0).get_all(LARGE, RECORDS as usize);
    assert!(known.reads < oblivious.reads, "{known:?} {oblivious:?}");
}

/// Section 5.8: "there is no impact [...] when the distribution is uniform". That is so where few of the
/// clusters are known; the more there are, the fewer READs and bytes it takes.
#[test]
fn short_clusters_are_read_as_before() {
    let shared = Shared::new(1 << 17);
    let keys = (1u64 << 17) * 13 / 20;
    shared.fill(0..keys, 1);
    let lookups = || (0..keys).step_by(3);
    let oblivious = shared.client(MODELLED, 0).get_all(lookups(), 1);
    for (most, least) in [(10, -0.02), (1000, -0.5)] {
        let client = shared.client(MODELLED, most);
        client.get_all(lookups(), 1);
        assert_eq!(client.table.known_clusters(), most);
        let hinted = client.get_all(lookups(), 1);
        let change = |of: fn(Spent) -> u64| of(hinted) as f64 / of(oblivious) as f64 - 1.0;
        let (reads, bytes) = (change(|spent| spent.reads), change(|spent| spent.bytes));
        println!("{most} clusters: READs {reads:+.4}, bytes {bytes:+.4}");
        assert!((least..0.001).contains(&reads) && (least..0.001).contains(&bytes));
    }
}

/// A record of a multi-key table: when it came, and when it went. What has not ended is in doubt.
#[derive(Clone, Copy, Debug)]
struct Life {
    put_begun: Nanos,
    put_ended: Option<Nanos>,
    remove_begun: Option<Nanos>,
    remove_ended: Option<Nanos>,
}

impl Life {
    fn must_be_seen(&self, from: Nanos, until: Nanos) -> bool {
        self.put_ended.is_some_and(|ended| ended < from)
            && self.remove_begun.is_none_or(|begun| begun > until)
    }

    fn may_be_seen(&self, from: Nanos, until: Nanos) -> bool {
        let removed = self.remove_ended.is_some_and(|ended| ended < from);
        self.put_begun <= until && !(removed && self.put_ended.is_some())
    }
}

/// What became of all records, by key and value.
type Lives = RefCell<BTreeMap<(u64, u64), Life>>;

/// Puts records under few keys, and now and then removes all of one.
async fn write(table: &LinearTable<SimEndpoint>, lives: &Lives, mut rng: ChaCha8Rng) {
    for number in 1..=50 {
        let key: u64 = rng.random_range(0..3);
        let bytes = key.to_le_bytes();
        if rng.random_ratio(1, 12) {
            let of_key = |life: &dyn Fn(&mut Life)| {
                let mut lives = lives.borrow_mut();
                let all = lives.range_mut((key, 0)..(key + 1, 0));
                all.filter(|(_, life)| life.remove_ended.is_none())
                    .for_each(|(_, of)| life(of));
            };
            let begun = table.now();
            of_key(&|life| {
                life.remove_begun.get_or_insert(begun);
            });
            if table.remove(&bytes).await.is_ok() {
                let ended = table.now();
                of_key(&|life| life.remove_ended = Some(ended));
            }
            continue;
        }
        let put_begun = table.now();
        let life = Life {
            put_begun,
            put_ended: None,
            remove_begun: None,
            remove_ended: None,
        };
        lives.borrow_mut().insert((key, number), life);
        let put = table.put(&bytes, &number.to_le_bytes()).await;
        if put.is_ok() {
            let mut lives = lives.borrow_mut();
            let life = lives
                .get_mut(&(key, number))
                .expect("it was inserted above");
            life.put_ended = Some(table.now());
        }
    }
}

/// Looks up all records of a key, and judges what was found; returns how many there were.
async fn look(table: &LinearTable<SimEndpoint>, lives: &Lives, key: u64) -> Option<usize> {
    let from = table.now();
    let mut found = vec![];
    let number = |value: &[u8]| u64::from_le_bytes(value.try_into().expect("8 bytes"));
    let bytes = key.to_le_bytes();
    let all = table.get_all(&bytes, |value| found.push(number(value)));
    all.await.ok()?;
    let until = table.now();
    for (&(_, value), life) in lives.borrow().range((key, 0)..(key + 1, 0)) {
        let seen = found.iter().filter(|&&other| other == value).count();
        let may_be = u8::from(life.may_be_seen(from, until));
        let must_be = u8::from(life.must_be_seen(from, until));
        assert!(
            (usize::from(must_be)..=usize::from(may_be)).contains(&seen),
            "{value} of {key}: {seen} times from {from} until {until}, {life:?}"
        );
    }
    Some(found.len())
}

/// Multi-key tables under faults: a lookup finds what is there all the while, and nothing else, while
/// others make its hints wrong.
#[test]
fn records_that_stay_are_found_under_faults() {
    let (mut found, mut lookups, mut failed) = (0, 0, 0);
    for seed in 0..300 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let options = LinearOptions {
            keys: KeyRule::Multi,
            ..PAIR.options(64, seed)
        };
        let layout = options.layout().unwrap();
        let world = world(seed, &layout);
        let mut faults = FaultPlan::chaos(seed, rng.random_range(0.0..=1.0));
        let from = rng.random_range(0..200_000);
        faults.partitions.push(Partition {
            side: Side::Client(ClientId(rng.random_range(0..3))),
            node: NodeId(0),
            from,
            until: from + rng.random_range(0..50_000),
        });
        world.set_faults(faults);
        let reads = Reads {
            fixed: [None, Some(2)][rng.random_range(0..2)],
            look_ahead: rng.random_bool(0.3),
        };
        let lives = Rc::new(Lives::default());
        let tally = Rc::new(RefCell::new(vec![]));
        let mut simulation = Simulation::new(world);
        for client in 0..3 {
            let most = rng.random_range(1..6);
            let mut rng = ChaCha8Rng::seed_from_u64(rng.random());
            let (layout, lives, tally) = (layout.clone(), Rc::clone(&lives), Rc::clone(&tally));
            let number = simulation.add_client(HostId(0), limits());
            simulation.spawn(number, async move |endpoint| {
                let table = open(endpoint, &layout, reads).await.with_hints(most);
                if client == 0 {
                    return write(&table, &lives, rng).await;
                }
                for _ in 0..60 {
                    let seen = look(&table, &lives, rng.random_range(0..3)).await;
                    tally.borrow_mut().push(seen);
                }
            });
        }
        assert_eq!(simulation.run_until(10_000_000_000), RunEnd::Done, "{seed}");
        lookups += tally.borrow().len();
        failed += tally.borrow().iter().filter(|seen| seen.is_none()).count();
        found += tally.borrow().iter().flatten().sum::<usize>();
    }
    println!("{lookups} lookups, {failed} failed, {found} records found");
    assert!(failed > lookups / 1000 && failed < lookups / 2 && found > lookups);
}
