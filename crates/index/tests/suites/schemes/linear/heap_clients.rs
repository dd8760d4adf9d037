//! Readers of records out of band while they are replaced, under faults: nobody reads another use
//! of a block than the one that a slot names.

use crate::common::chaos::{limits, open, world};
use crate::common::{HEAP, INLINE, Reads, Slot, TORN};
use farslot_fabric::EndpointExt;
use farslot_fabric::sim::{Chance, FaultPlan, HostId, RunEnd, Simulation};
use farslot_index::Sizing;
use farslot_index::internals::pages_reused;
use farslot_index::linear::{LinearOptions, SlotKind};
use farslot_index::{FieldSize, Index, IndexExt};
use std::cell::Cell;
use std::rc::Rc;

/// A lookup's answer was put by somebody, and no lookup goes back behind an earlier one: with one
/// writer that counts up, a reader sees numbers that only ever grow.
#[test]
fn readers_of_a_hot_key_see_whole_values_in_order() {
    let mut seen = 0;
    for (slot, tight) in [(HEAP, None), (HOT, Some(3 * 128)), (INLINE, Some(3 * 48))] {
        for seed in 0..30 {
            // In a heap of some pages, one is written again soon after it was freed.
            let heap_bytes = tight.map(|bytes| 8 * bytes);
            seen += race_updates(slot, heap_bytes, seed);
        }
    }
    println!("{seen} values seen");
    assert!(seen > 10_000);
}

/// Records out of band that are all of one size class.
const HOT: Slot = Slot {
    name: "heap",
    kind: SlotKind::Heap,
    key: FieldSize::Fixed(8),
    value: FieldSize::Fixed(100),
    inline_bytes: None,
};

fn race_updates(slot: Slot, heap_bytes: Option<u64>, seed: u64) -> u64 {
    const UPDATES: u64 = 200;
    let options = LinearOptions {
        sizing: Sizing {
            heap_bytes,
            ..slot.options(8, seed).sizing
        },
        ..slot.options(8, seed)
    };
    let layout = options.layout().unwrap();
    let world = world(seed, &layout);
    let chance = |probability, up_to_ns| Chance {
        probability,
        up_to_ns,
    };
    world.set_faults(FaultPlan {
        torn_reads: chance(0.5, 50_000),
        torn_writes: chance(0.5, 5_000),
        late_writes: chance(0.3, 20_000),
        latency: chance(0.3, 10_000),
        ..FaultPlan::default()
    });
    let mut simulation = Simulation::new(world);
    let done = Rc::new(Cell::new(false));
    let (of_layout, finished) = (layout.clone(), Rc::clone(&done));
    let is_tight = heap_bytes.is_some();
    let writer = simulation.spawn_client(async move |endpoint| {
        let table = open(endpoint, &of_layout, Reads::fixed(2)).await;
        for number in 1..=UPDATES {
            // Without pauses the readers would hardly ever find a record still there.
            table.endpoint().sleep(number % 7 * 2_000).await;
            let (key, value) = (slot.key(1), slot.value(number));
            assert_eq!(table.put(&key, &value).await.unwrap(), number == 1);
        }
        let reused = pages_reused(&table).await.unwrap();
        assert!(reused > 20 || !is_tight, "{reused} pages were used again");
        finished.set(true);
    });
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (layout, done) = (layout.clone(), Rc::clone(&done));
            let client = simulation.add_client(HostId(0), limits());
            simulation.spawn(client, async move |endpoint| {
                let table = open(endpoint, &layout, Reads::fixed(2)).await;
                let (mut last, mut seen) = (0, 0);
                while !done.get() {
                    let got = table.get(&slot.key(1)).await.unwrap();
                    let number = got.map_or(0, |value| slot.number(&value));
                    assert!(number != TORN, "{} {seed}: torn", slot.name);
                    assert!(
                        number >= last,
                        "{} {seed}: {number} after {last}",
                        slot.name
                    );
                    (last, seen) = (number, seen + 1);
                }
                seen
            })
        })
        .collect();
    assert_eq!(simulation.run(), RunEnd::Done);
    writer.try_take().unwrap();
    readers
        .iter()
        .map(|reader| reader.try_take().unwrap())
        .sum()
}
