//! Clients that remember clusters, under faults: the same answers, however old what they remember.

use crate::common::chaos::{ClientKind, Tally, limits, open, run_as, world};
use crate::common::from_sim;
use crate::common::{PAIR, Reads, SLOTS};
use farslot_fabric::sim::{ClientId, FaultPlan, HostId, Partition, RunEnd, Side, Simulation};
use farslot_fabric::{Nanos, NodeId};
use farslot_index::Sizing;
use farslot_index::linear::{KeyRule, LinearOptions, LinearTable};
use farslot_index::{Index, IndexExt, Value};
use farslot_testbed::AnyEndpoint;
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
            let kind = ClientKind {
                clusters: most,
                ..ClientKind::default()
            };
            match run_as(slot, seed, kind) {
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
async fn write(table: &LinearTable<AnyEndpoint>, lives: &Lives, mut rng: ChaCha8Rng) {
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
async fn look(table: &LinearTable<AnyEndpoint>, lives: &Lives, key: u64) -> Option<usize> {
    let from = table.now();
    let number = |value: &Value| u64::from_le_bytes(value[..].try_into().expect("8 bytes"));
    let found = table.get_all(&key.to_le_bytes()).await.ok()?;
    let found: Vec<_> = found.iter().map(number).collect();
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

/// Multi-key tables under faults: a lookup finds what is there all the while, and nothing else,
/// while others make its hints wrong.
#[test]
fn records_that_stay_are_found_under_faults() {
    let (mut found, mut lookups, mut failed) = (0, 0, 0);
    for seed in 0..300 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let options = LinearOptions {
            sizing: Sizing {
                keys: KeyRule::Multi,
                ..PAIR.options(64, seed).sizing
            },
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
                let table = open(from_sim(endpoint), &layout, reads)
                    .await
                    .with_cluster_hints(most);
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
