//! How many READs lookups take, as the endpoint counts them, against the model.

use crate::common::costs::spent;
use crate::common::sealed::{new_client, new_node};
use farslot_fabric::{Executor, OperationClass};
use farslot_index::Sizing;
use farslot_index::sealed::{ReadPolicy, SealedForm, SealedOptions, SealedTable, SlotOrder};
use farslot_index::{FieldSize, GET, GET_ALL, Index, IndexExt, KeyRule};
use farslot_model::{HitPolicy, NicModel, Objective, ProbeDistribution, TableLoad, Workload};
use farslot_testbed::{AnyEndpoint, Fabric, TestNode};

/// Home slots of a table.
const HOMES: u64 = 1 << 20;
/// Lookups of each kind.
const LOOKUPS: u64 = 100_000;

/// What lookups took, each.
#[derive(Clone, Copy, Default, Debug)]
struct Spent {
    verbs: f64,
    bytes: f64,
    round_trips: f64,
}

struct Built {
    node: TestNode,
    executor: Executor<AnyEndpoint>,
    table: SealedTable<AnyEndpoint>,
    records: u64,
}

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

fn build(options: &SealedOptions, homes: u64, policy: ReadPolicy) -> Built {
    let records = (homes as f64 * options.sizing.load_factor.unwrap()) as u64;
    let keys: Vec<[u8; 8]> = (0..records).map(key).collect();
    let value = vec![7; options.sizing.value.most()];
    let pairs: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&key[..], &value[..])).collect();
    let layout = options.layout_for(&pairs).unwrap();
    let node = new_node(Fabric::Shm, &layout);
    let (executor, table) = new_client(&node, &layout, policy);
    executor.block_on(table.build(&pairs)).unwrap();
    Built {
        node,
        executor,
        table,
        records,
    }
}

impl Built {
    /// The same table, and a client with another policy.
    fn with(self, policy: ReadPolicy) -> Self {
        let (executor, table) = new_client(&self.node, self.table.layout(), policy);
        Self {
            executor,
            table,
            ..self
        }
    }

    fn spent(&self, class: OperationClass, lookups: impl Future<Output = ()>) -> Spent {
        let (of, ()) = spent(&self.executor, class, lookups);
        let per = |sum: u64| sum as f64 / of.count as f64;
        Spent {
            verbs: per(of.verbs),
            bytes: per(of.bytes),
            round_trips: per(of.round_trips),
        }
    }

    /// What lookups of keys that are there, or not, take.
    fn get(&self, hits: bool) -> Spent {
        let first = if hits { 0 } else { 1 << 40 };
        self.spent(GET, async {
            for lookup in 0..LOOKUPS {
                let number = first + lookup * self.records / LOOKUPS;
                let got = self.table.get(&key(number)).await.unwrap();
                assert_eq!(got.is_some(), hits);
            }
        })
    }

    fn get_all(&self) -> Spent {
        self.spent(GET_ALL, async {
            for lookup in 0..LOOKUPS {
                let number = lookup * self.records / LOOKUPS;
                let found = self.table.get_all(&key(number)).await.unwrap();
                assert_eq!(found.len(), 1);
            }
        })
    }
}

fn options(form: SealedForm, order: SlotOrder, load_factor: f64, seed: u64) -> SealedOptions {
    SealedOptions {
        form: Some(form),
        order,
        ..SealedOptions::new(Sizing {
            load_factor: Some(load_factor),
            ..Sizing::new(0, FieldSize::Fixed(8), FieldSize::Fixed(0), seed)
        })
    }
}

fn modelled() -> ReadPolicy {
    ReadPolicy::Modelled {
        nic: NicModel::connectx5_edr(),
        objective: Objective::Throughput,
        hit_ratio: 0.5,
        capped: false,
    }
}

fn distances(order: SlotOrder, load: f64, hits: bool) -> ProbeDistribution {
    let table = TableLoad::from_load(HOMES, load).unwrap();
    let workload = if hits {
        Workload::hits(HitPolicy::StopAtMatch)
    } else {
        Workload::misses()
    };
    match order {
        SlotOrder::Arrival => ProbeDistribution::lookup(table, workload).unwrap(),
        SlotOrder::ByHash => ProbeDistribution::ordered(table, workload).unwrap(),
        SlotOrder::Perfect => unreachable!("it is not probed"),
    }
}

#[test]
fn reads_per_lookup_are_those_of_the_model() {
    let policies = [modelled(), ReadPolicy::Fixed(16)];
    for (load, tables) in [(0.5, 1), (0.9, 2), (0.95, 6)] {
        for order in [SlotOrder::Arrival, SlotOrder::ByHash] {
            // By policy: slots of a READ, and READs of hits and of misses.
            let mut counted = [(0, [0.0; 2]); 2];
            for seed in 0..tables {
                let options = options(SealedForm::Inline, order, load, seed);
                let mut built = build(&options, HOMES, policies[0]);
                for (policy, (read_size, sums)) in policies.into_iter().zip(&mut counted) {
                    built = built.with(policy);
                    *read_size = built.table.read_size();
                    for (sum, hits) in sums.iter_mut().zip([true, false]) {
                        *sum += built.get(hits).verbs / tables as f64;
                    }
                }
            }
            for (read_size, sums) in counted {
                for (counted, hits) in sums.into_iter().zip([true, false]) {
                    let model = distances(order, load, hits).expected_reads(read_size as usize);
                    let reason = if hits { "hit" } else { "miss" };
                    println!(
                        "{load} {order:?} R = {read_size}: {counted:.4} READs a {reason}, model {model:.4}"
                    );
                    assert!((counted / model - 1.0).abs() < 0.02);
                }
            }
        }
    }
}

/// Out of band a hit takes one READ more, and so does every record whose signature is right by
/// chance: one in 256 of the slots that are looked at, or next to none where slots say their homes.
#[test]
fn out_of_band_the_order_saves_the_records_of_others() {
    let of_order = |order| {
        let options = options(SealedForm::OutOfBand, order, 0.9, 3);
        let built = build(&options, HOMES, modelled());
        let layout = built.table.layout();
        let chunk = built.table.read_size() as usize * layout.slot_bytes();
        let extra = [true, false].map(|hits| {
            let spent = built.get(hits);
            // Each READ is one of slots or one of a record of 8 bytes.
            let of_slots = (spent.bytes - 8.0 * spent.verbs) / (chunk as f64 - 8.0);
            println!("{order:?}, hits: {hits}: {spent:.3?}, of slots {of_slots:.3}");
            spent.verbs - of_slots - f64::from(u8::from(hits))
        });
        println!("{order:?}: records of others per hit and per miss: {extra:.3?}");
        extra
    };
    let [_, arrival] = of_order(SlotOrder::Arrival);
    // 49.5 slots in front of the first empty one.
    assert!((arrival - 49.5 / 256.0).abs() < 0.02, "{arrival}");
    for extra in of_order(SlotOrder::ByHash) {
        assert!((-1e-6..0.01).contains(&extra), "{extra}");
    }
}

/// Who wants all records of a key reads on: to the first empty slot, or to the key that comes
/// after.
#[test]
fn all_matches_of_an_ordered_table_end_behind_the_key() {
    let load = 0.9;
    let multi = |order| SealedOptions {
        sizing: Sizing {
            keys: KeyRule::Multi,
            ..options(SealedForm::Inline, order, load, 3).sizing
        },
        ..options(SealedForm::Inline, order, load, 3)
    };
    for order in [SlotOrder::Arrival, SlotOrder::ByHash] {
        let built = build(&multi(order), HOMES, ReadPolicy::Fixed(16));
        let table = TableLoad::from_load(HOMES, load).unwrap();
        let workload = Workload::hits(HitPolicy::AllMatches);
        let model = match order {
            SlotOrder::Arrival => ProbeDistribution::lookup(table, workload),
            SlotOrder::ByHash => ProbeDistribution::ordered(table, workload),
            SlotOrder::Perfect => unreachable!("its keys are unique"),
        };
        let (counted, model) = (built.get_all().verbs, model.unwrap().expected_reads(16));
        println!("{order:?}: {counted:.4} READs, model {model:.4}");
        assert!(
            (counted / model - 1.0).abs() < 0.03,
            "{order:?}: {counted}, {model}"
        );
    }
}

/// Half full, nearly every key is found with its first READ, and its record with the next.
#[test]
fn a_lookup_is_one_read_where_its_slots_fit() {
    for form in [SealedForm::Inline, SealedForm::OutOfBand] {
        let built = build(
            &options(form, SlotOrder::ByHash, 0.5, 3),
            1 << 10,
            ReadPolicy::Fixed(64),
        );
        let hit = built.get(true);
        let expected = match form {
            SealedForm::Inline => 1.0,
            SealedForm::OutOfBand => 2.0,
        };
        assert!((hit.round_trips - expected).abs() < 0.01, "{hit:?}");
    }
}

/// With a perfect hash function every lookup reads one slot and nothing else, in a table of which
/// one slot in a hundred is empty; and with a filter hardly any absent key is looked for.
#[test]
fn one_slot_is_read_where_each_key_has_one() {
    let records = 200_000.0;
    for (value, filter) in [(0, false), (92, false), (0, true)] {
        let options = SealedOptions {
            filter,
            sizing: Sizing {
                value: FieldSize::Fixed(value),
                ..options(SealedForm::Inline, SlotOrder::Perfect, 0.99, 3).sizing
            },
            ..options(SealedForm::Inline, SlotOrder::Perfect, 0.99, 3)
        };
        let built = build(&options, (records / 0.99) as u64, modelled());
        let layout = built.table.layout();
        assert!(built.records as f64 >= 0.99 * layout.slots as f64 - 1.0);
        let slot = f64::from(8 + value);
        let [hit, miss] = [true, false].map(|hits| built.get(hits));
        assert_eq!((hit.verbs, hit.round_trips, hit.bytes), (1.0, 1.0, slot));
        match filter {
            // One in 256 is 0.0039; the deviation of 100,000 lookups is 0.0002.
            true => assert!(miss.verbs < 0.005, "{miss:?}"),
            false => assert_eq!((miss.verbs, miss.bytes), (1.0, slot)),
        }
        let client = built.table.state().client_bytes as f64 / built.records as f64;
        // A filter of so few keys takes 9.4 bits for each.
        let most = if filter { 1.5 } else { 0.3 };
        assert!(client < most, "{client} bytes a key");
    }
}
