//! `get_many` is many `get`s: the same answers, the same READs, booked alike.

use crate::common::{
    Client, HEAP, INLINE, PAIR, Reads, SLOTS, Slot, TABLE, cuckoo, new_client, new_node, race,
};
use farslot_fabric::counters::CounterSnapshot;
use farslot_fabric::{Endpoint, Executor, FabricError, Limits, window};
use farslot_index::cuckoo::{CuckooOptions, LookupOrder};
use farslot_index::linear::{
    KeyRule, LinearLayout, LinearOptions, LinearTable, ReadPolicy, ReadSizes, SlotKind,
};
use farslot_index::race::RaceOptions;
use farslot_index::{BATCH_WIDTH, GET, Got, Index, IndexError, IndexExt, Sizing, UPKEEP};
use farslot_testbed::{AnyEndpoint, Fabric, TestNode};
use std::rc::Rc;

const KEYS: u64 = 120;

type Answers = Vec<Result<Option<Vec<u8>>, IndexError>>;

fn keys(slot: Slot) -> Vec<Vec<u8>> {
    let mut keys: Vec<_> = (0..KEYS).map(|number| slot.key(number)).collect();
    keys.insert(17, Vec::new());
    keys
}

/// A table of which a part was filled, some of it removed, and some replaced.
fn filled(fabric: Fabric, options: &LinearOptions, slot: Slot) -> (TestNode, LinearLayout) {
    let layout = options.layout().unwrap();
    let node = new_node(fabric, &layout);
    let (executor, table) = new_client(&node, &layout, Reads::fixed(4));
    executor.block_on(async {
        for number in 0..100 {
            table
                .put(&slot.key(number), &slot.value(number))
                .await
                .unwrap();
        }
        for number in (0..100).step_by(7) {
            table.remove(&slot.key(number)).await.unwrap();
        }
        for number in (1..100).step_by(9) {
            table
                .put(&slot.key(number), &slot.value(number + 1))
                .await
                .unwrap();
        }
    });
    (node, layout)
}

fn client(node: &TestNode, layout: &LinearLayout, sizes: ReadSizes, limits: Limits) -> Client {
    let endpoint = node.connect(limits);
    let executor = Executor::new(Rc::clone(&endpoint));
    let opening = LinearTable::open(endpoint, TABLE, layout.clone(), sizes);
    let table = executor.block_on(opening).unwrap();
    (executor, table)
}

/// The answers, and what was counted for them.
fn looked_up(
    (executor, table): (Executor<AnyEndpoint>, LinearTable<AnyEndpoint>),
    keys: &[Vec<u8>],
    batched: bool,
) -> (Answers, CounterSnapshot) {
    let mut answers: Vec<_> = keys.iter().map(|_| None).collect();
    let before = executor.endpoint().core().counters.snapshot();
    let slices = keys.iter().map(|key| &key[..]);
    let note = |number: usize, answer: farslot_index::Result<Option<farslot_index::Value>>| {
        let answer = answer.map(|value| value.map(|value| value.to_vec()));
        assert!(answers[number].replace(answer).is_none());
    };
    if batched {
        executor.block_on(table.get_many(slices, note));
    } else {
        executor.block_on(window(BATCH_WIDTH, slices.map(|key| table.get(key)), note));
    }
    let after = executor.endpoint().core().counters.snapshot();
    let answers = answers
        .into_iter()
        .map(|answer| answer.expect("one answer a key"));
    (answers.collect(), after.since(&before))
}

fn sizes(layout: &LinearLayout, slots: u32) -> ReadSizes {
    ReadSizes::new(layout, ReadPolicy::Fixed(slots)).unwrap()
}

pub fn answers_and_counters_are_those_of_single_gets(fabric: Fabric) {
    for slot in SLOTS {
        for multi in [false, true] {
            let mut options = slot.options(128, 5);
            if multi {
                options.sizing.keys = KeyRule::Multi;
            }
            let (node, layout) = filled(fabric, &options, slot);
            for read_size in [1, 2, 5, 128] {
                for ahead in [false, true] {
                    let mut sizes = sizes(&layout, read_size);
                    if ahead {
                        sizes = sizes.looking_ahead();
                    }
                    let client = || client(&node, &layout, sizes.clone(), Fabric::limits());
                    let keys = keys(slot);
                    let (one_by_one, expected) = looked_up(client(), &keys, false);
                    let (batched, counted) = looked_up(client(), &keys, true);
                    assert_eq!(batched, one_by_one, "{slot:?}");
                    let [gets, single_gets] = [counted, expected].map(|all| {
                        let mut gets = all.operation(GET);
                        if ahead && !fabric.is_punctual() {
                            // Which READs have come when one is posted ahead is the fabric's
                            // affair.
                            gets.doorbells = 0;
                            gets.round_trips = 0;
                            gets.most_round_trips = 0;
                        }
                        gets
                    });
                    assert_eq!(gets, single_gets, "{slot:?}");
                    // Many READs bring the next look at the load factor nearer: when that comes
                    // depends on which lookups end first, which it does in place.
                    let mut verbs = [counted, expected].map(|all| all.verbs);
                    for (verbs, all) in verbs.iter_mut().zip([counted, expected]) {
                        if fabric.is_in_place() {
                            verbs[0] -= all.operation(UPKEEP).verbs;
                        }
                    }
                    assert_eq!(verbs[0], verbs[1], "{slot:?}");
                    if fabric.is_punctual() && (!fabric.is_in_place() || ahead) {
                        let mut expected = expected;
                        if fabric.is_in_place() {
                            // Only those ring for which others have their turn: fewer of a batch.
                            assert!(counted.doorbells <= expected.doorbells, "{slot:?}");
                            expected.doorbells = counted.doorbells;
                        }
                        assert_eq!(counted, expected, "{slot:?}");
                    }
                }
            }
        }
    }
}

pub fn a_queue_that_is_too_short_for_the_batch_is_waited_for(fabric: Fabric) {
    for slot in [PAIR, INLINE, HEAP] {
        let (node, layout) = filled(fabric, &slot.options(128, 5), slot);
        let limits = Limits {
            send_queue_depth: 3,
            ..Fabric::limits()
        };
        let narrow = client(&node, &layout, sizes(&layout, 2), limits);
        let wide = client(&node, &layout, sizes(&layout, 2), Fabric::limits());
        let (answers, counted) = looked_up(narrow, &keys(slot), true);
        let (expected, by_wide) = looked_up(wide, &keys(slot), true);
        assert_eq!(answers, expected);
        // What is loaded in place is not posted.
        assert_eq!(counted.queue_full > 0, !fabric.is_in_place());
        // When the load factor is asked for depends on which lookups end first.
        assert_eq!(counted.operation(GET), by_wide.operation(GET));
    }
}

pub fn the_load_factor_is_asked_for_as_often_as_by_single_gets(fabric: Fabric) {
    let (node, layout) = filled(fabric, &PAIR.options(128, 5), PAIR);
    let keys: Vec<_> = (0..30_000).map(|number| PAIR.key(number % KEYS)).collect();
    let client = || client(&node, &layout, sizes(&layout, 4), Fabric::limits());
    let (one_by_one, expected) = looked_up(client(), &keys, false);
    let (batched, counted) = looked_up(client(), &keys, true);
    assert_eq!(batched, one_by_one);
    assert_eq!(counted.operations, expected.operations);
}

pub fn without_memory_for_buffers_every_lookup_says_so(fabric: Fabric) {
    if fabric.is_in_place() {
        // It needs no buffers for words.
        return;
    }
    let (node, layout) = filled(fabric, &PAIR.options(128, 5), PAIR);
    let limits = Limits {
        largest_buffer: 64,
        ..Fabric::limits()
    };
    let (answers, _) = looked_up(
        client(&node, &layout, sizes(&layout, 8), limits),
        &keys(PAIR),
        true,
    );
    let refused = |answer: &Result<_, _>| {
        let error = IndexError::Fabric(FabricError::BufferTooLarge {
            requested: 128,
            limit: 64,
        });
        *answer == Err(error) || *answer == Err(IndexError::EmptyKey)
    };
    assert!(answers.iter().all(refused), "{answers:?}");
}

pub fn a_batch_may_be_dropped_at_any_turn(fabric: Fabric) {
    let (node, layout) = filled(fabric, &HEAP.options(128, 5), HEAP);
    let (executor, table) = client(&node, &layout, sizes(&layout, 2), Fabric::limits());
    let table = Rc::new(table);
    for turns in 0..20 {
        let (table, keys) = (Rc::clone(&table), keys(HEAP));
        executor.spawn(async move {
            let slices = keys.iter().map(|key| &key[..]);
            table.get_many(slices, |_, _| {}).await;
        });
        for _ in 0..turns {
            executor.turn();
        }
        executor.abandon();
    }
    let value = executor.block_on(table.get(&HEAP.key(2))).unwrap();
    assert_eq!(value.as_deref(), Some(&HEAP.value(2)[..]));
}

/// Keys and values that are words, each beside the key in its slot.
const WORDS: Slot = Slot {
    kind: SlotKind::Inline,
    ..PAIR
};

/// Some keys, of which a part is put by this, some of it replaced, and some removed.
async fn fill(table: &impl Index) -> Vec<Vec<u8>> {
    for number in 0..200 {
        let (key, value) = (WORDS.key(number), WORDS.value(number));
        table.put(&key, &value).await.unwrap();
    }
    for number in (0..200).step_by(5) {
        let (key, value) = (WORDS.key(number), WORDS.value(number + 1));
        assert!(table.update(&key, &value).await.unwrap());
    }
    for number in (0..200).step_by(7) {
        assert!(table.remove(&WORDS.key(number)).await.unwrap());
    }
    (0..260).map(|number| WORDS.key(number)).collect()
}

/// Looks keys up by a client, one by one or as a batch: the answers, and what was counted of the
/// gets.
fn looked_up_by(
    (executor, table): (Executor<AnyEndpoint>, impl Index),
    keys: &[Vec<u8>],
    batched: bool,
) -> (Answers, [u64; 4]) {
    let mut answers: Vec<_> = keys.iter().map(|_| None).collect();
    let note = |number: usize, answer: Got| {
        let answer = answer.map(|value| value.map(|value| value.to_vec()));
        assert!(answers[number].replace(answer).is_none());
    };
    let slices = keys.iter().map(|key| &key[..]);
    let before = executor.endpoint().core().counters.snapshot();
    if batched {
        executor.block_on(table.get_many(slices, note));
    } else {
        executor.block_on(window(1, slices.map(|key| table.get(key)), note));
    }
    let after = executor.endpoint().core().counters.snapshot();
    let gets = after.since(&before).operation(GET);
    let counted = [gets.count, gets.verbs, gets.bytes, gets.round_trips];
    let answers = answers
        .into_iter()
        .map(|answer| answer.expect("one answer a key"));
    (answers.collect(), counted)
}

pub fn other_schemes_read_in_batches_as_by_single_gets(fabric: Fabric) {
    let sizing = Sizing::new(400, WORDS.key, WORDS.value, 5);
    for order in [
        LookupOrder::Parallel,
        LookupOrder::Sequential,
        LookupOrder::Gathered,
    ] {
        let layout = CuckooOptions::new(sizing).layout().unwrap();
        let node = cuckoo::new_node(fabric, &layout);
        let (executor, table) = cuckoo::new_client(&node, &layout, order);
        let keys = executor.block_on(fill(&table));
        let look = |batched| {
            let client = cuckoo::new_client(&node, &layout, order);
            looked_up_by(client, &keys, batched)
        };
        assert_eq!(look(true), look(false), "cuckoo, {order:?}");
    }
    let layout = RaceOptions::new(sizing).layout().unwrap();
    let node = race::new_node(fabric, &layout);
    let (executor, table) = race::new_client(&node, &layout);
    let keys = executor.block_on(fill(&table));
    let look = |batched| looked_up_by(race::new_client(&node, &layout), &keys, batched);
    assert_eq!(look(true), look(false), "RACE");
}
