//! What a reader that finds nothing does about displacements: how often it reads again beside a
//! busy writer.

use crate::common::WORD;
use crate::common::chaos::limits;
use crate::common::cuckoo::{SimTable, open, options, ways, world};
use farslot_fabric::sim::{HostId, RunEnd, Simulation};
use farslot_fabric::{Endpoint, EndpointExt};
use farslot_index::cuckoo::LookupOrder;
use farslot_index::{GET, Index, IndexExt};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::Cell;
use std::rc::Rc;

const SLOTS: u32 = 1 << 10;
/// Of the table's slots, in use.
const LOAD: f64 = 0.94;
const MISSES: u32 = 3_000;

fn key(number: u32) -> [u8; 4] {
    number.to_le_bytes()
}

/// Puts and removes keys in a table that is nearly full, until it is told to stop.
async fn keep_busy(table: &SimTable, reading: &Cell<bool>) {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let held = (f64::from(SLOTS) * LOAD) as u32;
    let mut keys: Vec<u32> = (0..held).collect();
    for number in &keys {
        table.put(&key(*number), &[1; 3]).await.unwrap();
    }
    reading.set(true);
    let mut next = held;
    while reading.get() {
        let gone = rng.random_range(0..keys.len());
        let gone = std::mem::replace(&mut keys[gone], next);
        assert!(table.remove(&key(gone)).await.unwrap());
        table.put(&key(next), &[1; 3]).await.unwrap();
        next += 1;
    }
}

/// The round trips of a miss beside a busy writer, and how often the writer displaced a key for it.
fn misses(pause: u64) -> (f64, f64) {
    let layout = options(WORD, u64::from(SLOTS), ways(2, 4), 5)
        .layout()
        .unwrap();
    let mut simulation = Simulation::new(world(3, &layout));
    let writer = simulation.add_client(HostId(0), limits());
    let reader = simulation.add_client(HostId(0), limits());
    let reading = Rc::new(Cell::new(false));
    let (flag, of) = (Rc::clone(&reading), layout.clone());
    simulation.spawn(writer, async move |endpoint| {
        let table = open(endpoint, &of, LookupOrder::Parallel).await;
        keep_busy(&table, &flag).await;
    });
    let moves = Rc::new(Cell::new(0));
    let counted = Rc::clone(&moves);
    simulation.spawn(reader, async move |endpoint| {
        let table = open(Rc::clone(&endpoint), &layout, LookupOrder::Parallel).await;
        while !reading.get() {
            endpoint.sleep(10_000).await;
        }
        let before = table.displacements().await.unwrap();
        for number in 0..MISSES {
            endpoint.sleep(pause).await;
            let absent = key(0x4000_0000 + number);
            assert!(table.get(&absent).await.unwrap().is_none());
        }
        counted.set(table.displacements().await.unwrap() - before);
        reading.set(false);
    });
    assert_eq!(simulation.run(), RunEnd::Done);
    let spent = simulation.endpoint(reader).core().counters.snapshot();
    let gets = spent.operation(GET);
    assert_eq!(gets.count, u64::from(MISSES));
    let per = |sum: u64| sum as f64 / f64::from(MISSES);
    (per(gets.round_trips), per(moves.get()))
}

/// 2 round trips is what a miss takes that nothing has disturbed: its buckets, and the counts.
#[test]
fn misses_beside_a_busy_writer_seldom_read_again() {
    for (pause, most) in [(0, 2.15), (20_000, 2.4), (100_000, 2.9)] {
        let (round_trips, moves) = misses(pause);
        println!("pause {pause} ns: {round_trips:.3} round trips, {moves:.2} displacements a miss");
        // Or the writer was not busy.
        assert!(moves > 0.2, "{moves}");
        assert!((2.0..most).contains(&round_trips), "{round_trips}");
    }
}
