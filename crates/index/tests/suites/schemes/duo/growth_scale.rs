//! A table that starts with 1,000 slots and takes many keys, under concurrent readers and under
//! faults: every key that was acknowledged is found, by the owner's coroutines and by readers on
//! another machine, at once and to the end, and nobody waits long.
//!
//! `FARSLOT_KEYS=<count>` decides how many; `ten_million_keys`, which is ignored by default, takes
//! 10 million.

use crate::common::duo::{Dimensions, SimTable, growing, growing_world, memory_behind};
use crate::common::from_sim;
use crate::common::{INLINE, Slot, TABLE};
use farslot_fabric::sim::{FaultPlan, HostId, Partition, RunEnd, Side, Simulation};
use farslot_fabric::{Endpoint, EndpointExt, Limits, Nanos, NodeId, window};
use farslot_index::duo::{DuoGrowth, DuoLayout, DuoReader};
use farslot_index::{FieldSize, GET, Index, IndexError, IndexExt};
use farslot_testbed::AnyEndpoint;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

const RECORD: Slot = Slot {
    name: "short",
    key: FieldSize::Fixed(8),
    value: FieldSize::Fixed(8),
    ..INLINE
};
const WRITERS: u64 = 24;
const READERS: u64 = 8;
/// Readers on another machine, threads of it.
const BESIDE: u64 = 3;
/// Numbers from here on are of keys that nobody puts.
const ABSENT: u64 = 1 << 40;

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
}

fn value(number: u64) -> [u8; 8] {
    (number ^ 0x5555).to_le_bytes()
}

/// What a run has seen.
#[derive(Default)]
struct Seen {
    /// The next key to put.
    next: Cell<u64>,
    /// Keys that are acknowledged.
    there: RefCell<Vec<u64>>,
    lookups: Cell<u64>,
    /// How long all of them took together.
    looked_up: Cell<Nanos>,
    /// Operations that failed and were tried again.
    failed: Cell<u64>,
    /// The longest that an operation has taken.
    longest_put: Cell<Nanos>,
    longest_get: Cell<Nanos>,
    /// Lookups of readers on another machine, and the most round trips of one.
    beside: Cell<u64>,
    most_beside: Cell<u32>,
}

impl Seen {
    /// The number of a key that is acknowledged.
    fn any(&self, rng: &mut ChaCha8Rng) -> Option<u64> {
        let there = self.there.borrow();
        (!there.is_empty()).then(|| there[rng.random_range(0..there.len())])
    }

    /// An operation has failed: because of the fabric.
    fn failed(&self, error: &IndexError) {
        assert!(error.may_have_taken_effect(), "{error}");
        self.failed.set(self.failed.get() + 1);
    }

    /// What a round trip takes where so many operations are under way: nearly every lookup is one.
    fn round_trip(&self) -> Nanos {
        self.looked_up.get() / self.lookups.get()
    }
}

fn later<T: Copy + Ord>(longest: &Cell<T>, span: T) {
    longest.set(longest.get().max(span));
}

async fn put_keys(table: &SimTable, keys: u64, seen: &Seen) {
    while seen.next.get() < keys {
        let number = seen.next.replace(seen.next.get() + 1);
        loop {
            let begun = table.now();
            match table.put(&key(number), &value(number)).await {
                Ok(_) => {
                    later(&seen.longest_put, table.now() - begun);
                    break;
                }
                Err(error) => seen.failed(&error),
            }
        }
        seen.there.borrow_mut().push(number);
    }
}

async fn get_keys(table: &SimTable, keys: u64, seen: &Seen, seed: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    while (seen.there.borrow().len() as u64) < keys {
        let Some(number) = seen.any(&mut rng) else {
            table.endpoint().sleep(1_000).await;
            continue;
        };
        let begun = table.now();
        match table.get(&key(number)).await {
            Ok(found) => {
                assert_eq!(found.as_deref(), Some(&value(number)[..]), "key {number}");
                let span = table.now() - begun;
                later(&seen.longest_get, span);
                seen.looked_up.set(seen.looked_up.get() + span);
                seen.lookups.set(seen.lookups.get() + 1);
            }
            Err(error) => seen.failed(&error),
        }
    }
}

/// Looks keys up from another machine: those that are there, and now and then one that is not.
/// Nobody tells the reader that the table grows.
async fn get_beside(reader: &DuoReader<AnyEndpoint>, keys: u64, seen: &Seen, seed: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    while (seen.there.borrow().len() as u64) < keys {
        let Some(number) = seen.any(&mut rng) else {
            reader.endpoint().sleep(1_000).await;
            continue;
        };
        let absent = rng.random_bool(0.1);
        let asked = if absent { ABSENT + number } else { number };
        match reader.get(&key(asked)).await {
            Ok(found) => {
                let expected = (!absent).then(|| value(number));
                assert_eq!(
                    found.as_deref(),
                    expected.as_ref().map(|value| &value[..]),
                    "key {asked}"
                );
                seen.beside.set(seen.beside.get() + 1);
            }
            Err(error) => seen.failed(&error),
        }
    }
    let counters = reader.endpoint().core().counters.snapshot();
    later(&seen.most_beside, counters.operation(GET).most_round_trips);
    assert!(reader.slots() >= keys / 2, "{} slots", reader.slots());
}

/// Bytes that a table of so many keys may grow by.
fn room_for(keys: u64, layout: &DuoLayout) -> u64 {
    (keys * 8 * layout.slot_bytes() as u64).next_power_of_two()
}

/// As in the paper, of 1,000 slots at first, with readers on other machines.
const WHOLE: Dimensions = Dimensions::of_paper(1_000).with_readers();

/// Puts so many keys; then another owner reads the vault and finds them all.
fn grow_to(dimensions: Dimensions, keys: u64, faults: FaultPlan) -> Rc<Seen> {
    let layout = dimensions.layout(RECORD, 1);
    let memory = memory_behind(&layout, room_for(keys, &layout));
    let world = growing_world(2, &memory);
    world.set_faults(faults);
    let seen = Rc::new(Seen::default());
    let limits = Limits {
        verb_timeout: 100_000,
        ..Limits::default()
    };
    let mut simulation = Simulation::new(world.clone());
    let client = simulation.add_client(HostId(0), limits);
    let (its, of_layout) = (Rc::clone(&seen), layout.clone());
    simulation.spawn(client, async move |endpoint| {
        let table = growing(&of_layout, endpoint, DuoGrowth::from(memory));
        let (table, seen) = (&table, &*its);
        let writer = |_| async { put_keys(table, keys, seen).await };
        let writers =
            async { window(WRITERS as usize, (0..WRITERS).map(writer), |_, ()| {}).await };
        let reader = |seed| async move { get_keys(table, keys, seen, seed).await };
        let readers =
            async { window(READERS as usize, (0..READERS).map(reader), |_, ()| {}).await };
        farslot_fabric::both(writers, readers).await;
        println!("{} slots, {:?}", table.slots(), table.work());
        assert!(table.slots() >= keys);
    });
    let beside = if dimensions.readers { BESIDE } else { 0 };
    for number in 0..beside {
        let client = simulation.add_client(HostId(1), limits);
        let (seen, layout) = (Rc::clone(&seen), layout.clone());
        simulation.spawn(client, async move |endpoint| {
            let reader = DuoReader::open(from_sim(endpoint), TABLE, layout).unwrap();
            get_beside(&reader, keys, &seen, 100 + number).await;
        });
    }
    assert_eq!(simulation.run(), RunEnd::Done);
    world.set_faults(FaultPlan::default());
    let mut simulation = Simulation::new(world);
    let client = simulation.add_client(HostId(1), limits);
    simulation.spawn(client, async move |endpoint| {
        let table = growing(&layout, endpoint, DuoGrowth::from(memory));
        table.take_over().await.unwrap();
        let all = (0..keys).map(|number| {
            let table = &table;
            async move { (number, table.get(&key(number)).await) }
        });
        let found =
            |_, (number, found): (u64, farslot_index::Result<Option<farslot_index::Value>>)| {
                assert_eq!(found.unwrap().as_deref(), Some(&value(number)[..]));
            };
        window(64, all, found).await;
        table.flush().await.unwrap();
        assert_eq!(table.occupancy().await.unwrap().entries, keys);
    });
    assert_eq!(simulation.run(), RunEnd::Done);
    println!(
        "{keys} keys, {} lookups of {} ns, {} failed; a put took {} ns at most, a lookup {} ns; \
         {} lookups beside the owner, of {} round trips at most",
        seen.lookups.get(),
        seen.round_trip(),
        seen.failed.get(),
        seen.longest_put.get(),
        seen.longest_get.get(),
        seen.beside.get(),
        seen.most_beside.get(),
    );
    seen
}

fn asked(otherwise: u64) -> u64 {
    let keys = std::env::var("FARSLOT_KEYS").ok();
    keys.map_or(otherwise, |keys| keys.parse().expect("a number of keys"))
}

/// What goes wrong: torn and late words, latencies, and a while without a connection now and then.
fn trouble() -> FaultPlan {
    let mut plan = FaultPlan::chaos(3, 0.2);
    let partition = |number: u64| Partition {
        side: Side::Host(HostId(u32::from(number.is_multiple_of(3)))),
        node: NodeId(0),
        from: number * 3_000_000,
        until: number * 3_000_000 + 5_000,
    };
    plan.partitions.extend((1..40).map(partition));
    plan
}

#[test]
fn nobody_waits_ten_round_trips_while_a_table_grows() {
    let keys = asked(100_000);
    nobody_waits(WHOLE, keys);
}

fn nobody_waits(dimensions: Dimensions, keys: u64) {
    let seen = grow_to(dimensions, keys, FaultPlan::default());
    assert_eq!(seen.failed.get(), 0);
    assert!(seen.lookups.get() > keys / 10);
    let most = 10 * seen.round_trip();
    assert!(seen.longest_put.get() <= most, "{most}");
    assert!(seen.longest_get.get() <= most, "{most}");
    if dimensions.readers {
        assert!(seen.beside.get() > keys / 10);
        let most_beside = seen.most_beside.get();
        assert!((2..=10).contains(&most_beside), "{most_beside}");
    }
}

#[test]
fn every_key_is_found_under_faults() {
    let keys = asked(50_000);
    found_under_faults(WHOLE, keys);
}

fn found_under_faults(dimensions: Dimensions, keys: u64) {
    let seen = grow_to(dimensions, keys, trouble());
    assert!(seen.failed.get() > 0);
    assert!(seen.lookups.get() > keys / 10);
    assert!(!dimensions.readers || seen.beside.get() > keys / 10);
}

/// Takes some minutes in a release build, and 3 GB.
#[test]
#[ignore = "takes minutes"]
fn ten_million_keys() {
    grow_to(WHOLE, asked(10_000_000), trouble());
}
