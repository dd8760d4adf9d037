//! A cuckoo table's writer that knows before it asks: whether an insertion has a place, for any
//! number of hash functions and slots, after removals and take-overs; what that saves; and what
//! ends its knowledge.

use crate::common::chaos::limits;
use crate::common::costs::spent;
use crate::common::cuckoo::{
    SIGNATURES, SLOTS, SimTable, Ways, new_table, open, options, ways, world,
};
use crate::common::{HEAP, INLINE, Slot, WORD};
use farslot_fabric::sim::{FaultPlan, HostId, Partition, Side, SimEndpoint, World};
use farslot_fabric::{Endpoint, EndpointExt, Executor, NodeId, OperationClass};
use farslot_index::cuckoo::{CuckooLayout, CuckooOptions, CuckooTable, LookupOrder};
use farslot_index::{GET, Index, IndexError, IndexExt, PUT, REMOVE, UPDATE};
use farslot_testbed::{AnyEndpoint, Fabric, TestNode};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeSet;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Waker};

const PARALLEL: LookupOrder = LookupOrder::Parallel;

/// A client of its own of a simulated table.
struct Client {
    executor: Executor<SimEndpoint>,
    table: SimTable,
    slot: Slot,
}

impl Client {
    fn new(world: &World, layout: &CuckooLayout, slot: Slot) -> Self {
        let executor = Executor::new(world.endpoint(limits()));
        let opening = open(Rc::clone(executor.endpoint()), layout, PARALLEL);
        let table = executor.block_on(opening).with_predetermination().unwrap();
        Self {
            executor,
            table,
            slot,
        }
    }

    fn put(&self, key: u64) -> Result<bool, IndexError> {
        let (key, value) = (self.slot.key(key), self.slot.value(key));
        self.executor.block_on(self.table.put(&key, &value))
    }

    fn remove(&self, key: u64) -> Result<bool, IndexError> {
        self.executor
            .block_on(self.table.remove(&self.slot.key(key)))
    }

    fn has(&self, key: u64) -> bool {
        let got = self.executor.block_on(self.table.get(&self.slot.key(key)));
        got.unwrap()
            .is_some_and(|value| *value == self.slot.value(key)[..])
    }

    fn has_place(&self, key: u64) -> Option<bool> {
        self.table.has_place(&self.slot.key(key)).unwrap()
    }
}

/// Verbs and round trips of operations of one class.
fn cost<E: Endpoint, T>(
    executor: &Executor<E>,
    class: OperationClass,
    operation: impl Future<Output = T>,
) -> (T, u64, u64) {
    let (spent, outcome) = spent(executor, class, operation);
    (outcome, spent.verbs, spent.round_trips)
}

/// Whether some arrangement holds all of these keys: a build in an empty table looks through every
/// way that there is.
fn fits(options: &CuckooOptions, slot: Slot, keys: &BTreeSet<u64>) -> bool {
    let (_node, executor, table) = new_table(Fabric::Shm, options, PARALLEL);
    let records: Vec<_> = keys
        .iter()
        .map(|key| (slot.key(*key), slot.value(*key)))
        .collect();
    let records: Vec<_> = records
        .iter()
        .map(|(key, value)| (&key[..], &value[..]))
        .collect();
    match executor.block_on(table.build(&records)) {
        Ok(()) => true,
        Err(IndexError::Full { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Every failure that is predetermined is one, and every one is predetermined: of histories with
/// removals, in which one client takes over from another or from one that has resigned.
#[test]
fn what_is_known_beforehand_is_so() {
    let (mut full, mut unread, mut moved) = (0, 0, 0);
    for slot in SLOTS {
        for seed in 0..24 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let of = ways(2 + seed as u32 % 3, 1 + seed as u32 / 3 % 3);
            let of_bucket = match slot == SIGNATURES {
                true => 4,
                false => u64::from(of.bucket_slots),
            };
            let mut options = options(slot, rng.random_range(3..=8) * of_bucket, of, seed);
            options.sizing.heap_bytes = slot.has_heap().then_some(1 << 18);
            let layout = options.layout().unwrap();
            let world = world(seed, &layout);
            let mut writer = Client::new(&world, &layout, slot);
            let mut held = BTreeSet::new();
            for turn in 0..60 {
                let key = rng.random_range(0..layout.slots() * 3 / 2);
                if rng.random_bool(0.3) {
                    assert_eq!(writer.remove(key), Ok(held.remove(&key)));
                    continue;
                }
                if turn % 20 == 19 {
                    let next = Client::new(&world, &layout, slot);
                    if rng.random_bool(0.5) {
                        writer.executor.block_on(writer.table.resign()).unwrap();
                    }
                    next.executor.block_on(next.table.take_over()).unwrap();
                    assert_eq!(next.has_place(key), None);
                    writer = next;
                }
                writer
                    .executor
                    .block_on(writer.table.start_writing())
                    .unwrap();
                let is_new = held.insert(key);
                let fits = fits(&options, slot, &held);
                if is_new {
                    assert_eq!(writer.has_place(key), Some(fits), "{} {seed}", slot.name);
                }
                let displaced = || writer.executor.block_on(writer.table.displacements());
                let before = displaced().unwrap();
                let (key_bytes, value) = (slot.key(key), slot.value(key));
                let putting = writer.table.put(&key_bytes, &value);
                let (put, verbs, _) = cost(&writer.executor, PUT, putting);
                moved += displaced().unwrap() - before;
                if fits {
                    assert_eq!(put, Ok(is_new));
                } else {
                    assert!(
                        matches!(put, Err(IndexError::Full { probed: 0, .. })),
                        "{put:?}"
                    );
                    held.remove(&key);
                    full += 1;
                    unread += u64::from(verbs == 0);
                }
            }
            let reader = Client::new(&world, &layout, slot);
            let keys = 0..layout.slots() * 3 / 2;
            assert!(
                keys.into_iter()
                    .all(|key| reader.has(key) == held.contains(&key))
            );
        }
    }
    // In so few buckets many a key looks like one that is there.
    println!("{full} full, {unread} unread, {moved} moved");
    assert!(
        full > 300 && unread > full / 2 && moved > 250,
        "{full} {unread} {moved}"
    );
}

/// A table to be filled beyond what it can hold.
struct Filling {
    executor: Executor<AnyEndpoint>,
    table: CuckooTable<AnyEndpoint>,
    _node: TestNode,
}

impl Filling {
    fn new(of: Ways, predetermines: bool) -> Self {
        let (node, executor, mut table) =
            new_table(Fabric::Shm, &options(WORD, 1 << 12, of, 3), PARALLEL);
        if predetermines {
            table = table.with_predetermination().unwrap();
        }
        executor.block_on(table.start_writing()).unwrap();
        Self {
            executor,
            table,
            _node: node,
        }
    }

    /// Puts so many keys: how many were refused, and the verbs and most round trips of those, and
    /// of others.
    fn put(&self, keys: u32) -> [Puts; 2] {
        let mut puts = [Puts::default(); 2];
        for key in 0..keys {
            let key = key.to_le_bytes();
            let putting = self.table.put(&key, &[7; 3]);
            let (put, verbs, round_trips) = cost(&self.executor, PUT, putting);
            let refused = matches!(put, Err(IndexError::Full { .. }));
            assert!(refused || put == Ok(true), "{put:?}");
            let of = &mut puts[usize::from(refused)];
            of.count += 1;
            of.verbs += verbs;
            of.round_trips += round_trips;
            of.most_round_trips = of.most_round_trips.max(round_trips);
        }
        puts
    }
}

#[derive(Clone, Copy, Default, Debug)]
struct Puts {
    count: u64,
    verbs: u64,
    round_trips: u64,
    most_round_trips: u64,
}

/// A refusal needs no round trip, and a place never more than two: where something is to be moved.
#[test]
fn full_tables_refuse_without_a_round_trip() {
    for (of, least_refused) in [
        (ways(2, 1), 1_000),
        (ways(2, 4), 800),
        (ways(3, 1), 800),
        (ways(3, 4), 800),
    ] {
        let keys = 5_000;
        let [placed, refused] = Filling::new(of, true).put(keys);
        let [other_placed, other_refused] = Filling::new(of, false).put(keys);
        println!("{of:?}: {placed:?} {refused:?}, without: {other_placed:?} {other_refused:?}");
        assert!(refused.count >= least_refused, "{refused:?}");
        assert!(refused.round_trips <= refused.count / 20 + 1, "{refused:?}");
        // One READ more for a key that looks like one that is there.
        assert!(placed.most_round_trips <= 3, "{placed:?}");
        assert!(placed.round_trips <= placed.count * 3 / 2, "{placed:?}");
        assert!(
            placed.verbs < other_placed.verbs,
            "{placed:?} {other_placed:?}"
        );
        assert!(other_placed.round_trips >= 2 * other_placed.count);
        assert!(other_refused.round_trips >= other_refused.count);
        // What is searched for to the end finds no less than what gives up.
        assert!(placed.count >= other_placed.count);
    }
}

/// Verbs and round trips of each kind of operation.
#[test]
fn operations_read_no_more_than_they_need() {
    for (slot, new, replaced, removed, hit) in [
        (WORD, (2, 1), (2, 2), (2, 2), (1, 1)),
        // READ of the bucket and of the writer's word; body and head.
        (INLINE, (4, 2), (5, 3), (2, 2), (1, 1)),
        (HEAP, (3, 1), (4, 3), (3, 3), (2, 2)),
        (SIGNATURES, (4, 2), (4, 3), (3, 3), (2, 2)),
    ] {
        let world_of = options(slot, 1 << 10, ways(3, 4), 2).layout().unwrap();
        let world = world(1, &world_of);
        let Client {
            executor, table, ..
        } = Client::new(&world, &world_of, slot);
        let key = |number| slot.key(number);
        executor.block_on(async {
            // The first record out of band opens a run of the heap.
            table.put(&key(0), &slot.value(1)).await.unwrap();
            table.put(&key(2), &slot.value(2)).await.unwrap();
            table.put(&key(2), &slot.value(3)).await.unwrap();
        });
        let put = |number, value| {
            let (key, value) = (key(number), slot.value(value));
            let (put, verbs, round_trips) = cost(&executor, PUT, table.put(&key, &value));
            (put.unwrap(), (verbs, round_trips))
        };
        assert_eq!(put(1, 3), (true, new), "{}", slot.name);
        assert_eq!(put(1, 4), (false, replaced), "{}", slot.name);
        let (got, verbs, round_trips) = cost(&executor, GET, table.get(&key(1)));
        assert_eq!(got.unwrap().as_deref(), Some(&slot.value(4)[..]));
        assert_eq!((verbs, round_trips), hit, "{}", slot.name);
        let remove = || {
            let (key, removed) = (key(1), REMOVE);
            let (gone, verbs, round_trips) = cost(&executor, removed, table.remove(&key));
            (gone.unwrap(), (verbs, round_trips))
        };
        assert_eq!(remove(), (true, removed), "{}", slot.name);
        assert_eq!(remove(), (false, (0, 0)));
        let absent = key(1);
        let value = slot.value(1);
        let (updated, verbs, _) = cost(&executor, UPDATE, table.update(&absent, &value));
        assert_eq!((updated, verbs), (Ok(false), 0));
    }
}

/// A writer that was taken over from while it lives inserts at most once before it notices, and
/// ruins nothing.
#[test]
fn a_deposed_writer_notices_when_it_inserts() {
    for slot in SLOTS {
        for seed in 0..30 {
            let of = ways(2, 1 + seed as u32 % 2);
            let layout = options(slot, 32, of, seed).layout().unwrap();
            let world = world(seed, &layout);
            let [first, second] = [(); 2].map(|()| Client::new(&world, &layout, slot));
            let held: Vec<u64> = (0..11).filter(|key| first.put(*key).is_ok()).collect();
            second.executor.block_on(second.table.take_over()).unwrap();
            // What the first takes for vacant is not any more, and the other way round.
            let (gone, stay) = held.split_at(held.len() / 2);
            assert!(gone.iter().all(|key| second.remove(*key) == Ok(true)));
            let added: Vec<u64> = (20..28).filter(|key| second.put(*key).is_ok()).collect();
            let insertion = (40..)
                .find(|key| first.has_place(*key) == Some(true))
                .unwrap();
            let lost = first.put(insertion).unwrap_err();
            assert!(matches!(lost, IndexError::WriterLost { .. }), "{lost}");
            assert_eq!(first.has_place(insertion), None);
            let busy = first.put(50);
            assert!(
                matches!(busy, Err(IndexError::WriterBusy { .. })),
                "{busy:?}"
            );
            let reader = Client::new(&world, &layout, slot);
            for key in stay.iter().chain(&added) {
                assert!(reader.has(*key), "{} {seed}: {key}", slot.name);
            }
            assert!(!gone.iter().any(|key| reader.has(*key)));
        }
    }
}

/// Whatever is given up or fails in the middle leaves no wrong knowledge, but none.
#[test]
fn what_is_given_up_is_forgotten_and_surveyed_again() {
    for slot in [WORD, INLINE, HEAP, SIGNATURES] {
        for turns in 0..12 {
            let layout = options(slot, 16, ways(2, 4), 5).layout().unwrap();
            let world = world(1, &layout);
            let client = Client::new(&world, &layout, slot);
            assert!((0..8).all(|key| client.put(key).is_ok()));
            let (key, value) = (slot.key(9), slot.value(9));
            {
                let mut given_up = pin!(client.table.put(&key, &value));
                let mut cx = Context::from_waker(Waker::noop());
                for _ in 0..turns {
                    if given_up.as_mut().poll(&mut cx).is_ready() {
                        break;
                    }
                    client.executor.turn();
                    world.advance_to(world.now() + 2_000);
                }
            }
            world.advance_to(world.now() + 100_000);
            // All keys that are there, and no others.
            let put = |key| client.put(key);
            assert!(put(9).is_ok() && (0..8).all(|key| put(key) == Ok(false)));
            assert!(client.has_place(9).is_some());
            assert!((0..10).all(|key| client.has(key) == (key != 8)));
            let survey = client.executor.block_on(client.table.survey()).unwrap();
            assert_eq!(survey.counts.live, 9);
        }
    }
}

#[test]
fn a_change_in_doubt_ends_what_is_known() {
    let layout = options(WORD, 64, ways(2, 1), 5).layout().unwrap();
    let world = world(1, &layout);
    let client = Client::new(&world, &layout, WORD);
    assert_eq!(client.has_place(1), None);
    assert_eq!(client.put(1), Ok(true));
    assert_eq!(client.has_place(2), Some(true));
    world.set_faults(FaultPlan {
        partitions: vec![Partition {
            side: Side::Host(HostId(0)),
            node: NodeId(0),
            from: world.now(),
            until: u64::MAX,
        }],
        ..FaultPlan::default()
    });
    let failed = client.put(2).unwrap_err();
    assert!(failed.may_have_taken_effect(), "{failed}");
    assert_eq!(client.has_place(2), None);
    world.set_faults(FaultPlan::default());
    client
        .executor
        .block_on(client.table.endpoint().sleep(1_000_000));
    assert!(client.put(3).is_ok());
    assert!(client.has_place(2).is_some() && client.has(1) && client.has(3));
}

/// A heap without room is no reason to read the table again.
#[test]
fn a_full_heap_changes_nothing_that_is_known() {
    for slot in [HEAP, SIGNATURES] {
        let mut options = options(slot, 256, ways(3, 4), 5);
        options.sizing.heap_bytes = Some(1 << 14);
        let layout = options.layout().unwrap();
        let client = Client::new(&world(1, &layout), &layout, slot);
        let refused = (0..200).filter(|key| {
            let put = client.put(*key);
            let no_room = matches!(put, Err(IndexError::HeapFull { .. }));
            assert!(no_room || put.is_ok(), "{put:?}");
            assert!(client.has_place(*key).is_some());
            no_room
        });
        assert!(refused.count() > 20, "{}", slot.name);
    }
}
