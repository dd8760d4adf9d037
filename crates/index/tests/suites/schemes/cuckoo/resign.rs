//! A writer that resigns: not before its operations are done, and as often as it takes.

use crate::common::chaos::limits;
use crate::common::cuckoo::{SIGNATURES, SimTable, open, options, ways, world};
use crate::common::{HEAP, INLINE, Slot, WORD};
use farslot_fabric::sim::{
    FaultPlan, HostId, Partition, RunEnd, Side, SimEndpoint, Simulation, World,
};
use farslot_fabric::{EndpointExt, Executor, Join, NodeId, both};
use farslot_index::cuckoo::LookupOrder;
use farslot_index::{IndexError, IndexExt};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::Cell;
use std::rc::Rc;

const SLOTS: [Slot; 4] = [WORD, INLINE, HEAP, SIGNATURES];

struct Client {
    executor: Executor<SimEndpoint>,
    table: SimTable,
}

/// A world with a table of 64 slots, and a maker of its clients.
fn table(slot: Slot) -> (World, impl Fn() -> Client) {
    let layout = options(slot, 64, ways(3, 4), 7).layout().unwrap();
    let world = world(1, &layout);
    let clients = world.clone();
    let client = move || {
        let executor = Executor::new(clients.endpoint(limits()));
        let endpoint = Rc::clone(executor.endpoint());
        let table = executor.block_on(open(endpoint, &layout, LookupOrder::Parallel));
        Client { executor, table }
    };
    (world, client)
}

impl Client {
    fn put(&self, slot: Slot, key: u64) -> Result<bool, IndexError> {
        let (key, value) = (slot.key(key), slot.value(key));
        self.executor.block_on(self.table.put(&key, &value))
    }
}

#[test]
fn operations_under_way_are_done_first() {
    for slot in SLOTS {
        let (_, client) = table(slot);
        let (first, second) = (client(), client());
        // Also of one that is about to become the writer.
        for round in 0..2 {
            let key = slot.key(round);
            let value = slot.value(1);
            let done = Cell::new(false);
            let put = async {
                assert!(first.table.put(&key, &value).await.unwrap());
                done.set(true);
            };
            let resign = async {
                first.table.resign().await.unwrap();
                assert!(done.get(), "resigned in the middle of a write");
            };
            first.executor.block_on(both(put, resign));
            assert_eq!(second.put(slot, 10 + round), Ok(true));
            let busy = first.put(slot, 20);
            assert!(
                matches!(busy, Err(IndexError::WriterBusy { .. })),
                "{busy:?}"
            );
            second.executor.block_on(second.table.resign()).unwrap();
        }
    }
}

/// An operation that starts while its client resigns writes as the writer, or not at all.
#[test]
fn operations_that_come_later_claim_the_table_again() {
    for slot in SLOTS {
        let (_, client) = table(slot);
        let (first, second) = (client(), client());
        let records: Vec<_> = (0..40)
            .map(|key| (slot.key(key), slot.value(key)))
            .collect();
        let put = first.table.put_many(
            records.iter().map(|(key, value)| (&key[..], &value[..])),
            |_, new| assert_eq!(new, Ok(true)),
        );
        let resign = async { first.table.resign().await.unwrap() };
        first.executor.block_on(both(put, resign));
        let busy = second.put(slot, 50);
        assert!(
            matches!(busy, Err(IndexError::WriterBusy { .. })),
            "{busy:?}"
        );
        first.executor.block_on(first.table.resign()).unwrap();
        assert_eq!(second.put(slot, 50), Ok(true));
    }
}

#[test]
fn a_resignation_that_failed_can_be_repeated() {
    for slot in SLOTS {
        let (world, client) = table(slot);
        let (first, second) = (client(), client());
        assert_eq!(first.put(slot, 1), Ok(true));
        cut_off(&world);
        let failed = first.executor.block_on(first.table.resign()).unwrap_err();
        assert!(failed.may_have_taken_effect(), "{failed}");
        heal(&world);
        first.executor.block_on(first.table.resign()).unwrap();
        assert_eq!(second.put(slot, 2), Ok(true));
        // It is no longer the writer, and says so.
        assert!(matches!(
            first.put(slot, 3),
            Err(IndexError::WriterBusy { .. })
        ));
        first.executor.block_on(first.table.resign()).unwrap();
        assert_eq!(second.put(slot, 3), Ok(true));
    }
}

/// A claim whose answer is lost may have made the client the writer all the same.
#[test]
fn a_claim_that_failed_is_resigned() {
    let (mut failed, mut named) = (0, 0);
    for delay in 0..200 {
        let (world, client) = table(WORD);
        let (first, second) = (client(), client());
        let from = world.now() + delay * 50;
        partition(&world, from);
        failed += u64::from(first.put(WORD, 1).is_err());
        heal(&world);
        named += u64::from(second.put(WORD, 2).is_err());
        first.executor.block_on(first.table.resign()).unwrap();
        assert!(second.put(WORD, 2).is_ok(), "{delay}");
    }
    assert!(failed > 20 && named > 20, "{failed} {named}");
}

fn cut_off(world: &World) {
    partition(world, world.now());
}

fn partition(world: &World, from: u64) {
    world.set_faults(FaultPlan {
        partitions: vec![Partition {
            side: Side::Host(HostId(0)),
            node: NodeId(0),
            from,
            until: u64::MAX,
        }],
        ..FaultPlan::default()
    });
}

fn heal(world: &World) {
    world.set_faults(FaultPlan::default());
    world.advance_to(world.now() + 1_000_000);
}

/// A client that gives up while it takes over may be the writer all the same; then it is its next
/// write, or its resignation, that waits for what the dead one had begun.
#[test]
fn who_gives_up_taking_over_waits_later() {
    let longest = limits().verb_timeout;
    for patience in (0..longest).step_by(700) {
        for resigns in [false, true] {
            let (world, client) = table(WORD);
            let (dead, next, third) = (client(), client(), client());
            assert_eq!(dead.put(WORD, 1), Ok(true));
            let from = world.now();
            let endpoint = next.executor.endpoint();
            let taking = endpoint.timeout(patience, next.table.take_over());
            assert!(next.executor.block_on(taking).is_err());
            let written = if resigns {
                next.executor.block_on(next.table.resign()).unwrap();
                third.put(WORD, 2)
            } else {
                next.put(WORD, 2)
            };
            if written.is_ok() {
                let waited = world.now() - from;
                assert!(waited >= longest, "{patience} {resigns}: {waited}");
            }
        }
    }
}

/// A writer may resign while another client takes over from it, which then claims a table without a
/// writer. Whoever is refused is told who is the writer.
#[test]
fn taking_over_meets_a_resignation_under_way() {
    let (mut taken, mut refused) = (0, 0);
    for seed in 0..400 {
        let layout = options(WORD, 64, ways(3, 4), seed).layout().unwrap();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut simulation = Simulation::new(world(seed, &layout));
        let is_writer = Rc::new(Cell::new(false));
        let (layout_of_writer, told) = (layout.clone(), Rc::clone(&is_writer));
        let before_resigning = rng.random_range(0..8_000);
        let resigned = simulation.spawn_client(async move |endpoint| {
            let table = open(endpoint, &layout_of_writer, LookupOrder::Parallel).await;
            table.start_writing().await.unwrap();
            told.set(true);
            table.endpoint().sleep(before_resigning).await;
            table.resign().await
        });
        // The second and the third race for the table, too.
        let taking: Vec<_> = (0..2)
            .map(|_| {
                let (layout, is_writer) = (layout.clone(), Rc::clone(&is_writer));
                let before_taking = rng.random_range(0..8_000);
                simulation.spawn_client(async move |endpoint| {
                    let table = open(endpoint, &layout, LookupOrder::Parallel).await;
                    while !is_writer.get() {
                        table.endpoint().sleep(100).await;
                    }
                    table.endpoint().sleep(before_taking).await;
                    table.take_over().await
                })
            })
            .collect();
        assert_eq!(simulation.run(), RunEnd::Done);
        assert_eq!(resigned.try_take(), Some(Ok(())), "seed {seed}");
        let outcomes: Vec<_> = taking.iter().filter_map(Join::try_take).collect();
        assert_eq!(outcomes.len(), 2);
        for outcome in &outcomes {
            match outcome {
                Ok(()) => taken += 1,
                Err(IndexError::WriterBusy { writer: 1.. }) => refused += 1,
                Err(other) => panic!("seed {seed}: {other:?}"),
            }
        }
        assert!(outcomes.contains(&Ok(())), "seed {seed}: {outcomes:?}");
    }
    assert!(taken > 400 && refused > 20, "{taken} {refused}");
}
