//! Batches of writes are many writes: the same outcomes, the same records in the end, and, where
//! they are done in place, the same verbs, booked alike.

use crate::common::{HEAP, PAIR, Reads, SLOTS, Slot, TABLE, new_client, new_node, race};
use farslot_fabric::counters::OperationCounters;
use farslot_fabric::{Endpoint, Executor, VerbKind};
use farslot_index::linear::{KeyRule, LinearTable, SlotKind};
use farslot_index::race::RaceTable;
use farslot_index::{
    FIND_OR_PUT, FieldSize, Index, IndexError, IndexExt, Operation, Outcome, PUT, REMOVE, UPDATE,
};
use farslot_testbed::{AnyEndpoint, Fabric};
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
fn write<T: Index>(
    (executor, table): &(Executor<AnyEndpoint>, T),
    slot: Slot,
    batch: &Batch,
    alone: bool,
) -> Vec<Outcome> {
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
            note(number, executor.block_on(table.run_alone(*operation)));
        }
    } else {
        executor.block_on(table.run_each(&operations, note));
    }
    let refusal = outcomes.remove(refused);
    assert_eq!(refusal, Some(Err(IndexError::EmptyKey)));
    let outcomes = outcomes.into_iter().flatten();
    let outcomes: Vec<_> = outcomes.map(Result::unwrap).collect();
    assert_eq!(outcomes.len(), batch.len(), "one outcome an operation");
    outcomes
}

/// The operations of each class, and the verbs of each kind, that writes take.
fn counted<T>((executor, _): &(Executor<AnyEndpoint>, T)) -> (Vec<OperationCounters>, Vec<u64>) {
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
        // By small READs, what lies far from the table's end is done by the fast path.
        for (multi, read) in [(false, 256), (false, 1), (true, 256)] {
            // So large that no two keys want one slot: which of them then has the longer probe,
            // depends on the order in which they come.
            let mut options = slot.options(1 << 14, 5);
            if multi {
                options.sizing.keys = KeyRule::Multi;
            }
            let layout = options.layout().unwrap();
            let clients = [0, 1].map(|_| {
                let node = new_node(fabric, &layout);
                new_client(&node, &layout, Reads::fixed(read))
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
    // Of so large pages that no other is opened, and nothing is told of what died.
    options.sizing.heap_bytes = Some(1 << 30);
    let layout = options.layout().unwrap();
    let clients = [0, 1].map(|_| {
        let node = new_node(fabric, &layout);
        new_client(&node, &layout, Reads::fixed(5))
    });
    // Until both have a page open.
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
    for batch in batches {
        let left = doorbells_of_what_is_booked_alike(&clients, slot, &batch);
        // The few that go round the table's end, or meet another key's tag.
        assert!(left < batch.len() as u64 / 8, "{left} of {batch:?}");
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

/// Does a batch in one client's table together, and in the other's one after the other. Returns how
/// often the first has rung a doorbell, as for each write that is left to the protocol over verbs.
fn doorbells_of_what_is_booked_alike<T: Index>(
    clients: &[(Executor<AnyEndpoint>, T); 2],
    slot: Slot,
    batch: &Batch,
) -> u64 {
    let written = |(executor, _): &(Executor<AnyEndpoint>, T)| {
        let all = executor.endpoint().core().counters.snapshot();
        (all.verbs_of(VerbKind::Write), all.bytes_written)
    };
    let rung = || clients[0].0.endpoint().core().counters.snapshot().doorbells;
    let before = rung();
    let told = [0, 1].map(|alone| write(&clients[alone], slot, batch, alone == 1));
    assert_eq!(told[0], told[1], "{slot:?}: {batch:?}");
    let doorbells = rung() - before;
    let [many, single] = clients.each_ref().map(counted);
    assert_eq!(many, single, "{slot:?}: {batch:?}");
    let [many, single] = clients.each_ref().map(written);
    assert_eq!(many, single, "{slot:?}: {batch:?}");
    doorbells
}

pub fn keys_of_a_race_table_come_and_go_at_once_and_are_booked_as_single_writes(fabric: Fabric) {
    /// So many of the slots that one in ten shares its tag with another in the key's places.
    const RECORDS: u64 = 200;
    /// With those that are put later. There are no more keys.
    const ALL: u64 = 250;
    if !fabric.is_in_place() {
        return;
    }
    let slot = Slot {
        key: FieldSize::Fixed(16),
        value: FieldSize::Fixed(300),
        ..race::VARIED
    };
    // Of so large pages that no other is opened, and nothing is told of what died.
    let layout = race::Dimensions::fixed(312, 8).layout(slot, 5, Some(1 << 30));
    let clients = [0, 1].map(|_| race::new_client(&race::new_node(fabric, &layout), &layout));
    let all = |kind, value| -> Batch { (0..RECORDS).map(|key| (kind, key, key + value)).collect() };
    // Until both have a page open.
    let later = |kind| -> Batch { (RECORDS..ALL).map(|key| (kind, key, key)).collect() };
    let first = [
        all(Kind::Put, 0),
        later(Kind::Put),
        all(Kind::Update, 1),
        later(Kind::Remove),
    ];
    for batch in first {
        for client in &clients {
            write(client, slot, &batch, true);
        }
    }
    let mixed = (0..RECORDS).map(|key| match key % 2 {
        0 => (Kind::Update, key, key + 4),
        _ => (Kind::Put, key, key + 5),
    });
    for batch in [all(Kind::Update, 2), all(Kind::Put, 3), mixed.collect()] {
        let left = doorbells_of_what_is_booked_alike(&clients, slot, &batch);
        assert!(left < RECORDS / 50, "{left} of {batch:?}");
    }
    // Absent keys, beside some that are there: put, or found or put.
    let absent = |kind, keys: std::ops::Range<u64>| -> Batch {
        keys.map(|key| (kind, key, key + 4 + key % 2)).collect()
    };
    let batches = [
        absent(Kind::FindOrPut, RECORDS - 10..RECORDS + 20),
        absent(Kind::Put, RECORDS + 10..ALL),
        // Of the second, some are absent.
        absent(Kind::Remove, 0..40),
        absent(Kind::Remove, 30..60),
        absent(Kind::Put, 0..60),
    ];
    let counters =
        |(executor, _): &(Executor<AnyEndpoint>, _)| executor.endpoint().core().counters.snapshot();
    for batch in batches {
        let before = clients.each_ref().map(counters);
        let told = [0, 1].map(|alone| write(&clients[alone], slot, &batch, alone == 1));
        assert_eq!(told[0], told[1]);
        let after = clients.each_ref().map(counters);
        let [many, single] = [0, 1].map(|of| after[of].since(&before[of]));
        // Where two of a batch want one slot, one of them looks and swaps once more.
        for (kind, again) in [(VerbKind::Read, 8), (VerbKind::CompareSwap, 2)] {
            let [many, single] = [many, single].map(|of| of.verbs_of(kind));
            assert!(
                (single..=single + again).contains(&many),
                "{kind:?}: {many} for {single}"
            );
        }
        assert_eq!(
            many.verbs_of(VerbKind::Write),
            single.verbs_of(VerbKind::Write)
        );
        assert_eq!(many.bytes_written, single.bytes_written);
        // A put alone is booked with its report of counts, which several of a batch share.
        let [many_took, single_took] = [many, single]
            .map(|of| [PUT, FIND_OR_PUT, REMOVE].map(|class| of.operation(class).round_trips))
            .map(|took| took.iter().sum::<u64>());
        // And who looks once more has two round trips, or three.
        let apart = single_took.abs_diff(many_took);
        assert!(apart < 8, "{many_took} for {single_took}");
        // Of reports, and of the few that are left: one alone rings three times.
        let rung = many.doorbells;
        assert!(rung < batch.len() as u64 / 2, "{rung} of {batch:?}");
    }
    let (executor, table) = &clients[0];
    for key in 0..ALL {
        let got = executor.block_on(table.get(&slot.key(key))).unwrap();
        let expected = slot.value(key + 4 + key % 2);
        assert_eq!(got.as_deref(), Some(&expected[..]), "{key}");
    }
    let survey = executor.block_on(table.survey()).unwrap();
    assert_eq!((survey.live, survey.begun), (ALL, 0));
    executor.block_on(table.flush()).unwrap();
}

pub fn lookups_among_writes_are_answered_and_change_nothing(fabric: Fabric) {
    async fn look<T: Index>(table: &T, slot: Slot) {
        let (key, values) = (slot.key(1), [1, 2].map(|number| slot.value(number)));
        assert!(table.put(&key, &values[0]).await.unwrap());
        let operations = [
            Operation::GetAll(&key),
            Operation::Get(&key),
            Operation::Put(&key, &values[1]),
            Operation::GetAll(&key),
        ];
        for some in [&operations[..1], &operations[..2], &operations] {
            let mut looked = 0;
            table
                .run_each(some, |number, outcome| match outcome.unwrap() {
                    Outcome::Values(found) => {
                        let is_one = found.len() == 1 && values.iter().any(|of| *found[0] == *of);
                        assert!(is_one, "{number}: {found:?}");
                        looked += 1;
                    }
                    Outcome::Value(found) => {
                        assert!(values.iter().any(|of| found.as_deref() == Some(of)));
                        looked += 1;
                    }
                    Outcome::Changed(is_new) => assert!(!is_new),
                })
                .await;
            let expected = some.iter().filter(|of| of.is_lookup()).count();
            assert_eq!(looked, expected);
        }
        assert_eq!(
            table.get(&key).await.unwrap().as_deref(),
            Some(&values[1][..])
        );
    }
    for slot in [PAIR, HEAP] {
        let layout = slot.options(256, 5).layout().unwrap();
        let node = new_node(fabric, &layout);
        let (executor, table) = new_client(&node, &layout, Reads::fixed(4));
        executor.block_on(look(&table, slot));
    }
    let layout = race::Dimensions::fixed(256, 8).layout(race::SHORT, 5, None);
    let node = race::new_node(fabric, &layout);
    let (executor, table) = race::new_client(&node, &layout);
    executor.block_on(look(&table, race::SHORT));
}

pub fn batches_of_several_classes_leave_side_by_side(fabric: Fabric) {
    // By the simulator's clock.
    if !matches!(fabric, Fabric::Sim) {
        return;
    }
    let layout = race::Dimensions::fixed(1 << 12, 8).layout(race::SHORT, 5, None);
    let node = race::new_node(fabric, &layout);
    let client = race::new_client(&node, &layout);
    let took = |batch: Batch| {
        let before = client.0.endpoint().now();
        write(&client, race::SHORT, &batch, false);
        client.0.endpoint().now() - before
    };
    let keys = 0..64;
    took(keys.clone().map(|key| (Kind::Put, key, key)).collect());
    let alike = took(keys.clone().map(|key| (Kind::Update, key, key)).collect());
    let mixed = keys.map(|key| match key % 2 {
        0 => (Kind::Update, key, key),
        _ => (Kind::Put, key, key),
    });
    let mixed = took(mixed.collect());
    assert!(mixed < 2 * alike, "{mixed} ns, and {alike} of one class");
}

/// A RACE table that grows from one small subtable on.
const GROWING: race::Dimensions = race::Dimensions {
    bucket_slots: 8,
    groups: 4,
    roots: 1,
    most_subtables: 64,
};

/// Clients that count up the same numbers by batches of [`Operation::Replace`], each only from what
/// it has read, while records that they put beside that grow the table.
async fn count_up<T: Index>(table: &T, client: u32, counters: u64, rounds: u64) -> u64 {
    let key = |number: u64| number.to_le_bytes();
    let value = |number: u64| number.to_le_bytes();
    let mut counted = 0;
    for round in 0..rounds {
        let mut seen = Vec::new();
        for counter in 0..counters {
            let got = table.get(&key(counter)).await.unwrap().unwrap();
            let number = u64::from_le_bytes((*got).try_into().unwrap());
            seen.push((key(counter), value(number), value(number + 1)));
        }
        let new = 1_000_000 * u64::from(client + 1) + round;
        let (new_key, new_value) = (key(new), value(new));
        let replaces = seen
            .iter()
            .map(|(key, was, new)| Operation::Replace(key, was, new));
        let put = [Operation::Put(&new_key, &new_value)];
        let operations: Vec<_> = replaces.chain(put).collect();
        let last = operations.len() - 1;
        let note = |at, outcome: farslot_index::Result<Outcome>| {
            counted += u64::from(at < last && outcome.unwrap().is_changed());
        };
        table.run_each(&operations, note).await;
    }
    table.flush().await.unwrap();
    counted
}

pub fn replaces_of_several_clients_count_every_success(fabric: Fabric) {
    const CLIENTS: u32 = 3;
    const COUNTERS: u64 = 20;
    let rounds = u64::from(fabric.cases(300));
    let of_race = GROWING.layout(race::SHORT, 7, None);
    let of_linear = race::SHORT.options(4096, 7).layout().unwrap();
    let numbers = |number: u64| number.to_le_bytes();
    // Over RACE, then over linear.
    let node = race::new_node(fabric, &of_race);
    let (executor, table) = race::new_client(&node, &of_race);
    let linear_node = new_node(fabric, &of_linear);
    let (linear_executor, linear) = new_client(&linear_node, &of_linear, Reads::fixed(4));
    for counter in 0..COUNTERS {
        let (key, zero) = (numbers(counter), numbers(0));
        assert!(executor.block_on(table.put(&key, &zero)).unwrap());
        assert!(linear_executor.block_on(linear.put(&key, &zero)).unwrap());
    }
    let counted = node.run_clients(CLIENTS, Fabric::limits(), async move |client, endpoint| {
        let table = RaceTable::open(endpoint, TABLE, of_race.clone())
            .await
            .unwrap();
        count_up(&table, client, COUNTERS, rounds).await
    });
    let sum = |of: &dyn Fn(u64) -> u64| (0..COUNTERS).map(of).sum::<u64>();
    let are_all_counted = |counted: Vec<u64>, there: u64| {
        assert_eq!(counted.into_iter().sum::<u64>(), there);
        assert!(
            there >= COUNTERS * rounds,
            "somebody is always first: {there}"
        );
    };
    let number =
        |got: Option<farslot_index::Value>| u64::from_le_bytes((*got.unwrap()).try_into().unwrap());
    let there = sum(&|key| number(executor.block_on(table.get(&numbers(key))).unwrap()));
    are_all_counted(counted, there);
    let counted =
        linear_node.run_clients(CLIENTS, Fabric::limits(), async move |client, endpoint| {
            let sizes = Reads::fixed(4).sizes(&of_linear);
            let table = LinearTable::open(endpoint, TABLE, of_linear.clone(), sizes);
            count_up(&table.await.unwrap(), client, COUNTERS, rounds).await
        });
    let get = |key| linear_executor.block_on(linear.get(&numbers(key))).unwrap();
    let there = sum(&|key| number(get(key)));
    are_all_counted(counted, there);
}

/// All clients put the same keys, of which the table has none, in batches, while it grows from one
/// small subtable on.
pub fn a_key_that_several_clients_put_is_new_to_one_of_them(fabric: Fabric) {
    let rounds = u64::from(fabric.cases(20));
    let keys = GROWING.groups * 24 * GROWING.most_subtables / 2;
    for round in 0..rounds {
        let layout = GROWING.layout(race::SHORT, round, None);
        let node = race::new_node(fabric, &layout);
        let client = race::new_client(&node, &layout);
        let new = node.run_clients(WRITERS, Fabric::limits(), async move |client, endpoint| {
            let table = RaceTable::open(endpoint, TABLE, layout.clone());
            put_new(&table.await.unwrap(), client, keys).await
        });
        check_new(&client, new, keys, round);
        let survey = client.0.block_on(client.1.survey()).unwrap();
        assert_eq!((survey.live, survey.begun), (keys, 0), "seed {round}");
        assert!(survey.subtables() > 8, "it has grown: {survey:?}");
    }
    // By READs of one slot, what lies far from the table's end is put by the fast path.
    for round in 0..rounds {
        let layout = PAIR.options(2 * PAIRS, round).layout().unwrap();
        let node = new_node(fabric, &layout);
        let client = new_client(&node, &layout, Reads::fixed(1));
        let new = node.run_clients(WRITERS, Fabric::limits(), async move |client, endpoint| {
            let sizes = Reads::fixed(1).sizes(&layout);
            let table = LinearTable::open(endpoint, TABLE, layout.clone(), sizes);
            put_new(&table.await.unwrap(), client, PAIRS).await
        });
        check_new(&client, new, PAIRS, round);
        let counted = client.0.block_on(client.1.occupancy()).unwrap();
        let counted = (counted.entries, counted.used_slots);
        assert_eq!(counted, (PAIRS, PAIRS), "seed {round}");
    }
}

/// Clients that write the same keys.
const WRITERS: u32 = 3;
/// Keys of a table of pairs.
const PAIRS: u64 = 2048;

/// Puts, or finds or puts, the keys 1 to `keys`, a multiple of 4, with the number of the client,
/// from 1; returns those that were new.
async fn put_new<T: Index>(table: &T, client: u32, keys: u64) -> Vec<u64> {
    const BATCH: usize = 48;
    let value = u64::from(client + 1).to_le_bytes();
    let mut new = Vec::new();
    // Each in another order, so that clients meet now and then.
    let keys: Vec<_> = (0..keys)
        .map(|key| ((key ^ u64::from(client)) + 1).to_le_bytes())
        .collect();
    for batch in keys.chunks(BATCH) {
        let puts = batch.iter().map(|key| match client {
            0 => Operation::FindOrPut(key, &value),
            _ => Operation::Put(key, &value),
        });
        let puts: Vec<_> = puts.collect();
        let note = |at: usize, outcome: farslot_index::Result<Outcome>| {
            let is_new = match outcome.unwrap() {
                Outcome::Value(there) => there.is_none(),
                put => put.is_changed(),
            };
            if is_new {
                new.push(u64::from_le_bytes(batch[at]));
            }
        };
        table.run_each(&puts, note).await;
    }
    table.flush().await.unwrap();
    new
}

/// Checks that each of the keys was new to one client, and has the value of one.
fn check_new<T: Index>(
    (executor, table): &(Executor<AnyEndpoint>, T),
    new: Vec<Vec<u64>>,
    keys: u64,
    seed: u64,
) {
    let mut new: Vec<_> = new.into_iter().flatten().collect();
    new.sort_unstable();
    let all: Vec<_> = (1..=keys).collect();
    assert_eq!(new, all, "seed {seed}");
    for key in all {
        let got = executor.block_on(table.get(&key.to_le_bytes())).unwrap();
        let by = got.map(|value| u32::from(value[0]));
        assert!(
            by.is_some_and(|by| (1..=WRITERS).contains(&by)),
            "seed {seed}: {key}"
        );
    }
}
