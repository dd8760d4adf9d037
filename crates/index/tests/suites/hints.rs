//! Clients that remember clusters: the same answers from fewer READs, however old what they
//! remember.

use crate::common::costs::spent;
use crate::common::model::{Checked, run_cases};
use crate::common::{PAIR, Reads, SLOTS, Slot, all_reads, new_client, new_node};
use farslot_fabric::{Executor, window};
use farslot_index::Sizing;
use farslot_index::linear::{KeyRule, LinearLayout, LinearOptions, LinearTable};
use farslot_index::{GET_ALL, Index, IndexExt};
use farslot_testbed::{AnyEndpoint, Fabric, TestNode};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;

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
    hinted: &'t LinearTable<AnyEndpoint>,
    other: &'t LinearTable<AnyEndpoint>,
    records: BTreeMap<u64, Vec<Vec<u8>>>,
}

impl Pair<'_> {
    fn client(&self, other: bool) -> &LinearTable<AnyEndpoint> {
        if other { self.other } else { self.hinted }
    }

    async fn step(&mut self, step: Step) -> Checked {
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

    async fn look(&self, number: u64) -> Checked {
        let key = self.slot.key(number);
        let found = self.hinted.get_all(&key).await.unwrap();
        let mut found: Vec<_> = found.iter().map(|value| value.to_vec()).collect();
        found.sort();
        let there = self.records.get(&number).cloned().unwrap_or_default();
        prop_assert_eq!(found, there);
        let got = self.hinted.get(&key).await.unwrap();
        self.is_one_of(number, got.map(|value| value.to_vec()))
    }

    fn is_one_of(&self, key: u64, got: Option<Vec<u8>>) -> Checked {
        let records = self.records.get(&key);
        match got {
            Some(value) => prop_assert!(records.is_some_and(|records| records.contains(&value))),
            None => prop_assert!(records.is_none_or(Vec::is_empty)),
        }
        Ok(())
    }
}

/// Others put and remove records behind the back of a client with hints, in a table so small that
/// its clusters run into each other and round its end.
pub fn old_hints_change_no_answer(fabric: Fabric) {
    for slot in SLOTS {
        for keys in [KeyRule::Unique, KeyRule::Multi] {
            let name = format!("{} {keys:?}", slot.name);
            let runs = (vec(step(), 1..60), all_reads(), 1usize..6, any::<u64>());
            run_cases(
                fabric.cases(48),
                &name,
                &runs,
                |(steps, reads, most, seed)| {
                    let options = LinearOptions {
                        sizing: Sizing {
                            keys,
                            ..slot.options(64, seed).sizing
                        },
                        ..slot.options(64, seed)
                    };
                    let layout = options.layout().unwrap();
                    let node = new_node(fabric, &layout);
                    let (executor, hinted) = new_client(&node, &layout, reads);
                    let hinted = hinted.with_cluster_hints(most);
                    let (others, other) = new_client(&node, &layout, reads);
                    let mut pair = Pair {
                        slot,
                        keys,
                        hinted: &hinted,
                        other: &other,
                        records: BTreeMap::new(),
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
                },
            );
        }
    }
}

const MODELLED: Reads = Reads {
    fixed: None,
    look_ahead: false,
};

/// A table of `slots` slots with 8-byte keys and values, that any number of clients may attach to.
struct Shared {
    node: TestNode,
    layout: LinearLayout,
}

struct Client {
    executor: Executor<AnyEndpoint>,
    table: LinearTable<AnyEndpoint>,
}

impl Shared {
    fn new(fabric: Fabric, slots: u64) -> Self {
        let options = LinearOptions {
            sizing: Sizing {
                keys: KeyRule::Multi,
                ..PAIR.options(slots, 9).sizing
            },
            ..PAIR.options(slots, 9)
        };
        let layout = options.layout().unwrap();
        Self {
            node: new_node(fabric, &layout),
            layout,
        }
    }

    fn client(&self, reads: Reads, hints: usize) -> Client {
        let (executor, table) = new_client(&self.node, &self.layout, reads);
        let table = table.with_cluster_hints(hints);
        Client { executor, table }
    }

    /// Puts `count` records under each key.
    fn fill(&self, keys: std::ops::Range<u64>, count: u64) {
        let Client { executor, table } = self.client(MODELLED, 0);
        let numbers = keys.flat_map(|key| (0..count).map(move |number| (key, number)));
        let records: Vec<_> = numbers
            .map(|(key, number)| (key.to_le_bytes(), number.to_le_bytes()))
            .collect();
        let pairs = records.iter().map(|(key, value)| (&key[..], &value[..]));
        let done = |_, put: farslot_index::Result<bool>| assert!(put.unwrap());
        executor.block_on(async {
            table.put_many(pairs, done).await;
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
    /// Looks up all records of each key, one after the other; all have `count`.
    fn get_all(&self, keys: impl IntoIterator<Item = u64>, count: usize) -> Spent {
        self.get_all_by(1, keys, count)
    }

    /// The same, by so many side by side.
    fn get_all_by(&self, width: usize, keys: impl IntoIterator<Item = u64>, count: usize) -> Spent {
        let lookups = keys.into_iter().map(async |key| {
            let bytes = key.to_le_bytes();
            let found = self.table.get_all(&bytes).await.unwrap();
            assert_eq!(found.len(), count, "key {key}");
        });
        let lookups = window(width, lookups, |_, ()| {});
        let (spent, ()) = spent(&self.executor, GET_ALL, lookups);
        Spent {
            reads: spent.verbs,
            bytes: spent.bytes,
        }
    }
}

const RECORDS: u64 = 200;
const SMALL: std::ops::Range<u64> = 1_000..5_000;

/// Keys of many records, with keys of one record around them: more than the hints of the client
/// that has few.
fn large(fabric: Fabric) -> std::ops::Range<u64> {
    0..u64::from(fabric.cases(20).max(8))
}

fn skewed(fabric: Fabric) -> Shared {
    let shared = Shared::new(fabric, 1 << 14);
    shared.fill(SMALL, 1);
    shared.fill(large(fabric), RECORDS);
    shared
}

pub fn a_known_cluster_is_read_at_once(fabric: Fabric) {
    let shared = skewed(fabric);
    let lookups = large(fabric).count() as u64;
    let oblivious = shared
        .client(MODELLED, 0)
        .get_all(large(fabric), RECORDS as usize);
    assert!(oblivious.reads >= 9 * lookups, "{oblivious:?}");

    let client = shared.client(MODELLED, 1000);
    assert_eq!(client.table.known_clusters(), 0);
    let first = client.get_all(large(fabric), RECORDS as usize);
    let second = client.get_all(large(fabric), RECORDS as usize);
    println!("without hints {oblivious:?}, first {first:?}, then {second:?}");
    // The first lookups may have met the clusters that others of them lie in.
    assert!(first.reads <= oblivious.reads && client.table.known_clusters() > 1);
    assert_eq!(second.reads, lookups, "one READ each");
    assert!(
        second.bytes < oblivious.bytes,
        "and nothing behind the empty slot"
    );
}

pub fn a_fixed_read_size_is_lengthened_too(fabric: Fabric) {
    let shared = skewed(fabric);
    for look_ahead in [false, true] {
        let reads = Reads {
            look_ahead,
            ..Reads::fixed(8)
        };
        let client = shared.client(reads, 1000);
        let first = client.get_all(large(fabric), RECORDS as usize);
        client.get_all(large(fabric), RECORDS as usize);
        let known = client.get_all(large(fabric), RECORDS as usize);
        assert!(first.reads > 20 * large(fabric).count() as u64, "{first:?}");
        // Looking ahead, too: nobody asks for what lies behind the empty slot.
        assert_eq!(known.reads, large(fabric).count() as u64);
    }
}

/// A READ is 16 KiB at most: what is longer is read in as few as that takes.
pub fn long_clusters_are_split(fabric: Fabric) {
    let shared = Shared::new(fabric, 1 << 13);
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

pub fn an_old_hint_costs_one_more_read(fabric: Fabric) {
    let shared = skewed(fabric);
    let client = shared.client(MODELLED, 1000);
    for _ in 0..3 {
        client.get_all(large(fabric), RECORDS as usize);
    }
    // Others lengthen all clusters.
    shared.fill(large(fabric), 1);
    let count = RECORDS as usize + 1;
    let lookups = large(fabric).count() as u64;
    let stale = client.get_all(large(fabric), count);
    assert!(
        stale.reads > lookups && stale.reads <= 2 * lookups,
        "{stale:?}"
    );
    client.get_all(large(fabric), count);
    assert_eq!(client.get_all(large(fabric), count).reads, lookups);
}

pub fn the_largest_clusters_are_kept(fabric: Fabric) {
    let shared = skewed(fabric);
    let client = shared.client(MODELLED, 5);
    for _ in 0..3 {
        client.get_all(SMALL, 1);
        client.get_all(large(fabric), RECORDS as usize);
        assert!((1..=5).contains(&client.table.known_clusters()));
    }
    let known = client.get_all(large(fabric), RECORDS as usize);
    let oblivious = shared
        .client(MODELLED, 0)
        .get_all(large(fabric), RECORDS as usize);
    assert!(known.reads < oblivious.reads, "{known:?} {oblivious:?}");
}

/// Section 5.8: "there is no impact [...] when the distribution is uniform". That is so where few
/// of the clusters are known; the more there are, the fewer READs and bytes it takes.
pub fn short_clusters_are_read_as_before(fabric: Fabric) {
    let shared = Shared::new(fabric, 1 << 17);
    let keys = (1u64 << 17) * 13 / 20;
    shared.fill(0..keys, 1);
    let lookups = || (0..keys).step_by(3);
    let oblivious = shared.client(MODELLED, 0).get_all_by(32, lookups(), 1);
    for (most, least) in [(10, -0.02), (1000, -0.5)] {
        let client = shared.client(MODELLED, most);
        client.get_all_by(32, lookups(), 1);
        assert_eq!(client.table.known_clusters(), most);
        let hinted = client.get_all_by(32, lookups(), 1);
        let change = |of: fn(Spent) -> u64| of(hinted) as f64 / of(oblivious) as f64 - 1.0;
        let (reads, bytes) = (change(|spent| spent.reads), change(|spent| spent.bytes));
        println!("{most} clusters: READs {reads:+.4}, bytes {bytes:+.4}");
        assert!((least..0.001).contains(&reads) && (least..0.001).contains(&bytes));
    }
}
