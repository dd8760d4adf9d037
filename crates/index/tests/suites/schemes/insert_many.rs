//! Batches of writes, which are done at once in mapped memory, beside the same writes one after the
//! other: the same outcomes, the same bytes in the end, booked alike.

use crate::common::cuckoo::{self, ways};
use crate::common::duo::{Dimensions, shm_client, shm_node, shm_reader};
use crate::common::{HEAP, INLINE, INLINE_SHORT, Slot, TABLE, WORD, from_shm};
use farslot_fabric::shm::{MappedWords, Node, RegionSpec};
use farslot_fabric::{Endpoint, Executor, Limits, OperationClass, RegionId, Rights, VerbKind};
use farslot_index::cuckoo::{CuckooTable, LookupOrder};
use farslot_index::{
    FIND_OR_PUT, Index, IndexError, IndexExt, Operation, Outcome, PUT, REMOVE, Result, UPDATE,
};
use farslot_testbed::AnyEndpoint;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// The classes of writes.
const CLASSES: [OperationClass; 4] = [PUT, FIND_OR_PUT, UPDATE, REMOVE];

type Client<T> = (Executor<AnyEndpoint>, T);

/// Writes of so many keys: puts and find-or-puts, of which every tenth is of a key that has come
/// before; updates and removals, mostly of keys that are there; and all keys once more.
fn writes(slot: Slot, count: u64) -> Vec<(u64, Vec<u8>, Vec<u8>)> {
    let write = |number: u64| {
        let key = match number {
            9.. if number % 10 == 9 => number - 5,
            _ => number,
        };
        (number % 3 % 2, slot.key(key), slot.value(number))
    };
    let change = |number: u64| {
        let key = number * 7 % (count + count / 8);
        (2 + number % 2, slot.key(key), slot.value(number + count))
    };
    let first = (0..count).map(write);
    let changed = (0..count / 2).map(change);
    let again = (0..count).map(|number| (number % 3 % 2, slot.key(number), slot.value(number + 1)));
    first.chain(changed).chain(again).collect()
}

fn operations(writes: &[(u64, Vec<u8>, Vec<u8>)]) -> Vec<Operation<'_>> {
    let of = writes.iter().map(|(reason, key, value)| match reason {
        0 => Operation::Put(key, value),
        1 => Operation::FindOrPut(key, value),
        2 => Operation::Update(key, value),
        _ => Operation::Remove(key),
    });
    of.collect()
}

fn run<T: Index>(
    (executor, table): &Client<T>,
    all: &[Operation<'_>],
    alone: bool,
) -> Vec<Result<Outcome>> {
    if alone {
        return all
            .iter()
            .map(|one| executor.block_on(table.run(*one)))
            .collect();
    }
    let mut outcomes: Vec<_> = all.iter().map(|_| None).collect();
    executor.block_on(table.run_each(all, |number, outcome| {
        assert!(outcomes[number].replace(outcome).is_none());
    }));
    outcomes.into_iter().map(Option::unwrap).collect()
}

/// Runs operations in batches that have a key once: of several on one key in a batch, which one
/// takes effect first is not said.
fn run_distinct<T: Index>(client: &Client<T>, all: &[Operation<'_>]) -> Vec<Result<Outcome>> {
    let (mut outcomes, mut left) = (Vec::new(), all);
    while !left.is_empty() {
        let mut keys = HashSet::new();
        let distinct = left.iter().take_while(|one| keys.insert(one.key()));
        let (batch, later) = left.split_at(distinct.count());
        outcomes.extend(run(client, batch, false));
        left = later;
    }
    outcomes
}

/// All words of the region, and what was counted.
fn left_behind<T: Index>(node: &Node, (executor, table): &Client<T>) -> (Vec<u64>, Vec<u64>) {
    executor.block_on(table.flush()).unwrap();
    let words = MappedWords::of(node, RegionId(0)).unwrap();
    let words = words
        .iter()
        .map(|word| word.load(Ordering::Relaxed))
        .collect();
    let counted = executor.endpoint().core().counters.snapshot();
    let mut counts = Vec::new();
    for of in CLASSES.map(|class| counted.operation(class)) {
        counts.extend([of.count, of.verbs, of.bytes, of.round_trips]);
        counts.push(u64::from(of.most_round_trips));
    }
    let kinds = [VerbKind::Write, VerbKind::CompareSwap];
    counts.extend(kinds.map(|kind| counted.verbs_of(kind)));
    (words, counts)
}

#[test]
fn batches_of_an_owner_come_to_what_its_single_writes_come_to_and_are_booked_as_these() {
    for slot in [INLINE, INLINE_SHORT, HEAP] {
        // In the first nothing is in anything's way; the second becomes nearly full. What moves
        // there, and so what is read, depends on the order of the writes. With a heap, a write may
        // have to look at its slot again, as another one of the batch held its bucket.
        for (slots, is_roomy) in [(1_024, true), (192, false)] {
            for dimensions in [
                Dimensions::of_paper(slots),
                Dimensions::of_paper(slots).with_readers(),
            ] {
                let layout = dimensions.layout(slot, 7);
                let is_booked_alike = is_roomy && slot.kind != HEAP.kind;
                let all = writes(slot, 224);
                let all = operations(&all);
                let [many, single] = [false, true].map(|alone| {
                    let node = shm_node(&layout);
                    let client = shm_client(&node, &layout);
                    let outcomes = match alone {
                        true => run(&client, &all, true),
                        false => run_distinct(&client, &all),
                    };
                    assert_eq!(client.1.work().moved > 0, !is_roomy, "{dimensions:?}");
                    let (_, counts) = left_behind(&node, &client);
                    let told = (
                        outcomes,
                        values(&client, &all),
                        is_booked_alike.then_some(counts),
                    );
                    (told, node, client)
                });
                assert_eq!(many.0.2, single.0.2, "{slot:?} {dimensions:?}");
                assert!(many.0 == single.0, "{slot:?} {dimensions:?}");
                if dimensions.readers {
                    let (executor, reader) = shm_reader(&many.1, &layout);
                    for (operation, there) in all.iter().zip(many.0.1) {
                        let seen = executor.block_on(reader.get(operation.key())).unwrap();
                        assert_eq!(seen.map(|value| value.to_vec()), there, "{operation:?}");
                    }
                }
            }
        }
    }
}

/// The second of two writes of a batch finds the slot filled that was free when it was fetched.
#[test]
fn two_writes_of_one_new_key_are_booked_as_single_ones() {
    for dimensions in [
        Dimensions::of_paper(1_024),
        Dimensions::of_paper(1_024).with_readers(),
    ] {
        let layout = dimensions.layout(INLINE, 7);
        let key = INLINE.key(1);
        let values = [INLINE.value(1), INLINE.value(2)];
        let all = values.each_ref().map(|value| Operation::Put(&key, value));
        let [many, single] = [false, true].map(|alone| {
            let node = shm_node(&layout);
            let client = shm_client(&node, &layout);
            client.0.block_on(client.1.start()).unwrap();
            let outcomes = run(&client, &all, alone);
            (outcomes, left_behind(&node, &client).1)
        });
        assert_eq!(many, single, "{dimensions:?}");
    }
}

/// Runs writes of a cuckoo table with so many slots; gives each to `judge` with its outcomes.
fn into_cuckoo_tables(
    slots: impl Fn(u64) -> u64,
    judge: impl Fn(Slot, &[Operation<'_>], [(Node, Client<CuckooTable<AnyEndpoint>>); 2]),
) {
    for (slot, count) in [(INLINE, 224), (INLINE_SHORT, 224), (HEAP, 112), (WORD, 112)] {
        for ways in [ways(2, 4), ways(3, 1), ways(2, 2)] {
            for order in [LookupOrder::Sequential, LookupOrder::Parallel] {
                let layout = cuckoo::options(slot, slots(count), ways, 7);
                let layout = layout.layout().unwrap();
                let all = writes(slot, count);
                let tables = [(); 2].map(|()| {
                    let region = RegionSpec {
                        len: cuckoo::region_bytes(&layout),
                        rights: Rights::ALL,
                    };
                    let node = Node::embedded(&[region]).unwrap();
                    let endpoint = from_shm(&node, Limits::default());
                    let executor = Executor::new(Rc::clone(&endpoint));
                    let opening = CuckooTable::open(endpoint, TABLE, layout.clone(), order);
                    let table = executor.block_on(opening).unwrap();
                    (node, (executor, table))
                });
                judge(slot, &operations(&all), tables);
            }
        }
    }
}

/// The value of each operation's key.
fn values<T: Index>((executor, table): &Client<T>, all: &[Operation<'_>]) -> Vec<Option<Vec<u8>>> {
    let get = |one: &Operation<'_>| executor.block_on(table.get(one.key())).unwrap();
    all.iter()
        .map(|one| get(one).map(|value| value.to_vec()))
        .collect()
}

#[test]
fn batches_into_cuckoo_tables_come_to_what_single_writes_come_to_and_are_booked_as_these() {
    into_cuckoo_tables(
        |count| count * 4,
        |slot, all, [many, single]| {
            let [many, single] = [(many, false), (single, true)].map(|((node, client), alone)| {
                let outcomes = match alone {
                    true => run(&client, all, true),
                    false => run_distinct(&client, all),
                };
                let (_, counts) = left_behind(&node, &client);
                (outcomes, counts, values(&client, all))
            });
            assert_eq!(many, single, "{slot:?}");
        },
    );
}

#[test]
fn batches_into_cuckoo_tables_that_become_full_keep_what_they_acknowledge() {
    into_cuckoo_tables(
        |count| count * 3 / 4,
        |slot, all, [(_, client), _]| {
            let outcomes = run_distinct(&client, all);
            let refused = outcomes.iter().filter(|outcome| outcome.is_err());
            assert!(refused.count() > 0, "it has become full");
            let mut there = HashMap::new();
            for (operation, outcome) in all.iter().zip(outcomes) {
                let key = operation.key();
                let was = there.get(key).copied();
                let case = || format!("{slot:?}: {operation:?}: {was:?}");
                match (*operation, outcome) {
                    (_, Err(IndexError::Full { .. })) => assert_eq!(was, None, "{}", case()),
                    (_, Err(error)) => panic!("{}: {error}", case()),
                    (Operation::FindOrPut(..), Ok(Outcome::Value(Some(value)))) => {
                        assert_eq!(was, Some(&*value), "{}", case());
                    }
                    (Operation::Put(..), Ok(outcome)) => {
                        assert_eq!(outcome.is_changed(), was.is_none(), "{}", case());
                        there.insert(key, operation.value().unwrap());
                    }
                    (Operation::FindOrPut(..), Ok(_)) => {
                        assert_eq!(was, None, "{}", case());
                        there.insert(key, operation.value().unwrap());
                    }
                    (_, Ok(outcome)) => {
                        assert_eq!(outcome.is_changed(), was.is_some(), "{}", case());
                        match operation.value().filter(|_| was.is_some()) {
                            Some(value) => _ = there.insert(key, value),
                            None => _ = there.remove(key),
                        }
                    }
                }
            }
            for (operation, value) in all.iter().zip(values(&client, all)) {
                let acknowledged = there.get(operation.key()).copied();
                assert_eq!(value.as_deref(), acknowledged, "{slot:?}: {operation:?}");
            }
        },
    );
}
