//! A RACE table grows from a thousand slots while several threads put into it and others read: no
//! operation fails, no acknowledged key is ever missed, and none takes long.

use crate::common::race::{SHORT, region_bytes, shm_client};
use farslot_fabric::Endpoint;
use farslot_fabric::shm::{Node, RegionSpec};
use farslot_fabric::{OperationCounters, Rights};
use farslot_index::Sizing;
use farslot_index::race::{RaceLayout, RaceOptions};
use farslot_index::{Cursor, GET, Index, IndexExt, Operation, Outcome, PUT, UPDATE};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const WRITERS: u64 = 2;
/// Keys put at once.
const BATCH: u64 = 64;
/// Round trips of a put on average, splits included. What one put takes at most is counted in the
/// simulator (`linearizable.rs`): here it depends on how often the scheduler lets other threads be
/// faster.
const MEAN_ROUND_TRIPS: u64 = 6;

fn layout(keys: u64) -> RaceLayout {
    let options = RaceOptions {
        most_capacity: Some(keys),
        subtable_slots: Some(1_000),
        ..RaceOptions::new(Sizing::new(800, SHORT.key, SHORT.value, 3))
    };
    let layout = options.layout().unwrap();
    assert_eq!((layout.roots, layout.subtable_slots()), (1, 1_008));
    layout
}

fn record(number: u64) -> ([u8; 8], [u8; 8]) {
    let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (key.to_le_bytes(), number.to_le_bytes())
}

/// Puts every key of a writer, a batch at a time, and says how far it has come. Every 16th batch is
/// updated too.
fn write(
    node: &Node,
    layout: &RaceLayout,
    keys: u64,
    writer: u64,
    come: &AtomicU64,
) -> [OperationCounters; 2] {
    let (executor, table) = shm_client(node, layout);
    executor.block_on(async {
        for first in (0..keys).step_by(BATCH as usize) {
            let numbers = (first..keys.min(first + BATCH)).map(|number| number * WRITERS + writer);
            let records: Vec<_> = numbers.map(record).collect();
            let pairs = || records.iter().map(|(key, value)| (&key[..], &value[..]));
            let put = |_, new: farslot_index::Result<bool>| assert!(new.unwrap());
            table.put_many(pairs(), put).await;
            if (first / BATCH).is_multiple_of(16) {
                let updated =
                    |_, there: farslot_index::Result<Outcome>| assert!(there.unwrap().is_changed());
                let updates = pairs().map(|(key, value)| Operation::Update(key, value));
                table.run_each(&Vec::from_iter(updates), updated).await;
            }
            come.store(first + records.len() as u64, Ordering::Release);
        }
        table.flush().await.unwrap();
    });
    let counters = executor.endpoint().core().counters.snapshot();
    [PUT, UPDATE].map(|class| counters.operation(class))
}

/// Looks up keys that have been put, until all have.
fn read(node: &Node, layout: &RaceLayout, keys: u64, come: &[AtomicU64]) -> OperationCounters {
    let (executor, table) = shm_client(node, layout);
    let mut random = 1u64;
    let mut ended = false;
    while !ended {
        let come: Vec<u64> = come
            .iter()
            .map(|come| come.load(Ordering::Acquire))
            .collect();
        ended = come.iter().all(|come| *come == keys);
        let numbers = (0..BATCH).filter_map(|_| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let writer = (random >> 33) % WRITERS;
            let put = come[writer as usize];
            (put > 0).then(|| (random >> 34) % put * WRITERS + writer)
        });
        let records: Vec<_> = numbers.map(record).collect();
        let found = |at: usize, value: farslot_index::Result<Option<farslot_index::Value>>| {
            let (key, expected) = records[at];
            let value = value.unwrap();
            let value = value.unwrap_or_else(|| panic!("{key:?} was put and is not found"));
            assert_eq!(*value, expected);
        };
        let keys = records.iter().map(|(key, _)| &key[..]);
        executor.block_on(table.get_many(keys, found));
    }
    let counters = executor.endpoint().core().counters.snapshot();
    counters.operation(GET)
}

fn grows_to(keys: u64) {
    let layout = layout(keys);
    let region = RegionSpec {
        len: region_bytes(&layout),
        rights: Rights::ALL,
    };
    let node = Node::embedded(&[region]).unwrap();
    let come: Vec<AtomicU64> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
    let share = keys / WRITERS;
    thread::scope(|scope| {
        let reader = scope.spawn(|| read(&node, &layout, share, &come));
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (node, layout, come) = (&node, &layout, &come[writer as usize]);
                scope.spawn(move || write(node, layout, share, writer, come))
            })
            .collect();
        for writer in writers {
            let [put, update] = writer.join().unwrap();
            println!("put {put:?}\nupdate {update:?}");
            assert!(put.round_trips <= MEAN_ROUND_TRIPS * put.count, "{put:?}");
        }
        let get = reader.join().unwrap();
        println!("get {get:?}");
        // It is not the reader who splits.
        assert!(
            get.count > share / 8 && get.most_round_trips <= 10,
            "{get:?}"
        );
    });
    let (executor, table) = shm_client(&node, &layout);
    executor.block_on(async {
        let survey = table.survey().await.unwrap();
        println!("{survey:?}, load {:.3}", survey.load_factor());
        assert_eq!((survey.live, survey.begun), (keys, 0));
        assert_eq!((survey.moving, survey.behind), (0, 0));
        assert_eq!(table.occupancy().await.unwrap().entries, keys);
        let (mut met, mut cursor) = (0, Some(Cursor(0)));
        while let Some(from) = cursor {
            let mut visit = |key: &[u8], value: &[u8]| {
                let number = u64::from_le_bytes(value.try_into().unwrap());
                assert_eq!(record(number).0, key);
                met += 1;
            };
            cursor = table.scan(from, 1_000, &mut visit).await.unwrap();
        }
        assert_eq!(met, keys);
    });
}

#[test]
fn a_thousand_slots_become_room_for_a_hundred_thousand_keys() {
    grows_to(100_000);
}

#[test]
#[ignore = "a minute"]
fn a_thousand_slots_become_room_for_a_million_keys() {
    grows_to(1_000_000);
}
