//! Batches of writes are many writes: the same outcomes, the same records in the end, and, where
//! they are done in place, the same verbs, booked alike.

use crate::common::{Client, HEAP, Reads, SLOTS, Slot, new_client, new_node};
use farslot_fabric::counters::OperationCounters;
use farslot_fabric::{Endpoint, VerbKind};
use farslot_index::linear::{KeyRule, SlotKind};
use farslot_index::{
    FIND_OR_PUT, FieldSize, Index, IndexError, IndexExt, Operation, Outcome, PUT, REMOVE, UPDATE,
};
use farslot_testbed::Fabric;
use std::collections::BTreeMap;

const KEYS: u64 = 120;

/// The values of each key by its number.
type Model = BTreeMap<u64, Vec<Vec<u8>>>;

/// What is written, and of which keys: no key twice.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Put,
    FindOrPut,
    Update,
    Remove,
}

/// A batch: kinds and numbers of keys and values.
type Batch = Vec<(Kind, u64, u64)>;

fn batches(multi: bool) -> Vec<Batch> {
    let of = |kind, keys: std::ops::Range<u64>, step, value| -> Batch {
        let keys = keys.step_by(step);
        keys.map(|key| (kind, key, key + value)).collect()
    };
    let mut batches = vec![
        of(Kind::Put, 0..90, 1, 0),
        of(Kind::FindOrPut, 60..KEYS, 1, 1),
        of(Kind::Remove, 0..KEYS, 4, 0),
        of(Kind::Put, 0..60, 3, 2),
        of(Kind::FindOrPut, 0..KEYS, 5, 3),
        Vec::new(),
    ];
    if !multi {
        batches.push(of(Kind::Update, 0..KEYS, 1, 4));
        // Of several classes.
        let mixed = (0..KEYS).map(|key| match key % 4 {
            0 => (Kind::Put, key, key + 5),
            1 => (Kind::Remove, key, 0),
            2 => (Kind::Update, key, key + 6),
            _ => (Kind::FindOrPut, key, key + 7),
        });
        batches.push(mixed.collect());
    }
    batches
}

/// Does a write to the model; whether an outcome is what it must be.
fn fits(
    model: &mut Model,
    multi: bool,
    slot: Slot,
    write: (Kind, u64, u64),
    told: &Outcome,
) -> bool {
    let (kind, key, value) = write;
    let value = slot.value(value);
    let there = model.entry(key).or_default();
    match kind {
        Kind::Put => {
            let is_new = there.is_empty() || multi;
            if !multi {
                there.clear();
            }
            there.push(value);
            *told == Outcome::Changed(is_new)
        }
        Kind::FindOrPut if there.is_empty() => {
            there.push(value);
            *told == Outcome::Value(None)
        }
        Kind::FindOrPut => {
            matches!(told, Outcome::Value(Some(found)) if there.iter().any(|one| *one == **found))
        }
        Kind::Update => {
            let was_there = !there.is_empty();
            if was_there {
                *there = vec![value];
            }
            *told == Outcome::Changed(was_there)
        }
        Kind::Remove => *told == Outcome::Changed(!std::mem::take(there).is_empty()),
    }
}

/// Writes a batch, side by side or one after the other, with one write in it whose key is empty.
fn write((executor, table): &Client, slot: Slot, batch: &Batch, alone: bool) -> Vec<Outcome> {
    let records = batch.iter();
    let records = records.map(|(kind, key, value)| (*kind, slot.key(*key), slot.value(*value)));
    let records: Vec<_> = records.collect();
    let operations = records.iter().map(|(kind, key, value)| match kind {
        Kind::Put => Operation::Put(key, value),
        Kind::FindOrPut => Operation::FindOrPut(key, value),
        Kind::Update => Operation::Update(key, value),
        Kind::Remove => Operation::Remove(key),
    });
    let mut operations: Vec<_> = operations.collect();
    let refused = operations.len() / 2;
    operations.insert(refused, Operation::Remove(b""));
    let mut outcomes: Vec<_> = operations.iter().map(|_| None).collect();
    let mut note = |number: usize, outcome| {
        assert!(outcomes[number].replace(outcome).is_none());
    };
    if alone {
        for (number, operation) in operations.iter().enumerate() {
            note(number, executor.block_on(table.run(*operation)));
        }
    } else {
        executor.block_on(table.run_many(&operations, note));
    }
    let refusal = outcomes.remove(refused);
    assert_eq!(refusal, Some(Err(IndexError::EmptyKey)));
    let outcomes = outcomes.into_iter().flatten();
    let outcomes: Vec<_> = outcomes.map(Result::unwrap).collect();
    assert_eq!(outcomes.len(), batch.len(), "one outcome an operation");
    outcomes
}

/// The operations of each class, and the verbs of each kind, that writes take.
fn counted((executor, _): &Client) -> (Vec<OperationCounters>, Vec<u64>) {
    let all = executor.endpoint().core().counters.snapshot();
    let classes = [PUT, FIND_OR_PUT, UPDATE, REMOVE].map(|class| all.operation(class));
    let kinds = [VerbKind::Read, VerbKind::ReadMany, VerbKind::CompareSwap];
    let verbs = kinds.map(|kind| all.verbs_of(kind));
    (classes.into(), verbs.into())
}

pub fn outcomes_and_records_are_those_of_a_map(fabric: Fabric) {
    for slot in SLOTS {
        for multi in [false, true] {
            let mut options = slot.options(256, 5);
            // Every record may be replaced.
            options.sizing.heap_bytes = slot.has_heap().then_some(1 << 20);
            if multi {
                options.sizing.keys = KeyRule::Multi;
            }
            let layout = options.layout().unwrap();
            for look_ahead in [false, true] {
                let reads = Reads {
                    look_ahead,
                    ..Reads::fixed(5)
                };
                let node = new_node(fabric, &layout);
                let client = new_client(&node, &layout, reads);
                let mut model = Model::new();
                for batch in batches(multi) {
                    let outcomes = write(&client, slot, &batch, false);
                    for (write, told) in batch.into_iter().zip(&outcomes) {
                        let fits = fits(&mut model, multi, slot, write, told);
                        assert!(fits, "{slot:?}: {write:?} {told:?}");
                    }
                }
                let (executor, table) = &client;
                for (key, values) in &mut model {
                    let got = executor.block_on(table.get_all(&slot.key(*key))).unwrap();
                    let mut got: Vec<_> = got.iter().map(|value| value.to_vec()).collect();
                    got.sort();
                    values.sort();
                    assert_eq!(got, *values, "{slot:?}: {key}");
                }
                executor.block_on(table.flush()).unwrap();
                let entries = executor.block_on(table.occupancy()).unwrap().entries;
                let there: usize = model.values().map(Vec::len).sum();
                assert_eq!(entries, there as u64, "{slot:?}");
            }
        }
    }
}

pub fn what_is_done_in_place_is_booked_as_single_writes(fabric: Fabric) {
    if !fabric.is_in_place() {
        // Writes that are under way together meet each other at slots.
        return;
    }
    let of_words = |slot: &Slot| matches!(slot.kind, SlotKind::Word | SlotKind::Pair);
    for slot in SLOTS.into_iter().filter(of_words) {
        for multi in [false, true] {
            let mut options = slot.options(256, 5);
            if multi {
                options.sizing.keys = KeyRule::Multi;
            }
            let layout = options.layout().unwrap();
            let clients = [0, 1].map(|_| {
                let node = new_node(fabric, &layout);
                new_client(&node, &layout, Reads::fixed(256))
            });
            for batch in batches(multi) {
                let told = [0, 1].map(|alone| write(&clients[alone], slot, &batch, alone == 1));
                assert_eq!(told[0], told[1], "{slot:?}: {batch:?}");
                // Not how often counts were reported: several writes share a report.
                let [many, single] = clients.each_ref().map(counted);
                assert_eq!(many, single, "{slot:?}: {batch:?}");
            }
        }
    }
}

pub fn records_out_of_band_are_written_at_once_and_booked_as_single_writes(fabric: Fabric) {
    if !fabric.is_in_place() {
        return;
    }
    let of = |kind, keys: std::ops::Range<u64>, value| -> Batch {
        keys.map(|key| (kind, key, key + value)).collect()
    };
    // Of one size, so that blocks of it are at hand soon.
    let slot = Slot {
        key: FieldSize::Fixed(16),
        value: FieldSize::Fixed(300),
        ..HEAP
    };
    let mut options = slot.options(256, 5);
    options.sizing.heap_bytes = Some(1 << 20);
    let layout = options.layout().unwrap();
    let clients = [0, 1].map(|_| {
        let node = new_node(fabric, &layout);
        new_client(&node, &layout, Reads::fixed(5))
    });
    // Until both hold blocks of their own.
    for batch in [of(Kind::Put, 0..90, 0), of(Kind::Update, 0..90, 1)] {
        for client in &clients {
            write(client, slot, &batch, true);
        }
    }
    let batches = [
        // Those behind are absent.
        of(Kind::Update, 0..KEYS, 2),
        of(Kind::Put, 0..90, 3),
        of(Kind::Remove, 80..KEYS, 0),
        // One of each class in turn.
        (0..80)
            .map(|key| match key % 3 {
                0 => (Kind::Update, key, key + 4),
                1 => (Kind::Put, key, key + 5),
                _ => (Kind::Remove, key, 0),
            })
            .collect(),
    ];
    let written = |(executor, _): &Client| {
        let all = executor.endpoint().core().counters.snapshot();
        (all.verbs_of(VerbKind::Write), all.bytes_written)
    };
    for batch in batches {
        let rung = |client: &Client| client.0.endpoint().core().counters.snapshot().doorbells;
        let before = rung(&clients[0]);
        let told = [0, 1].map(|alone| write(&clients[alone], slot, &batch, alone == 1));
        assert_eq!(told[0], told[1], "{slot:?}: {batch:?}");
        // But for the few that go round the table's end, or meet another key's tag.
        let left = rung(&clients[0]) - before;
        assert!(
            left < batch.len() as u64 / 8,
            "{slot:?}: {left} of {batch:?}"
        );
        let [many, single] = clients.each_ref().map(counted);
        assert_eq!(many, single, "{slot:?}: {batch:?}");
        let [many, single] = clients.each_ref().map(written);
        assert_eq!(many, single, "{slot:?}: {batch:?}");
    }
    let (executor, table) = &clients[0];
    for key in 0..KEYS {
        let [many, single] = clients.each_ref().map(|(executor, table)| {
            let got = executor.block_on(table.get(&slot.key(key))).unwrap();
            got.map(|value| value.to_vec())
        });
        assert_eq!(many, single, "{slot:?}: {key}");
    }
    executor.block_on(table.flush()).unwrap();
}
