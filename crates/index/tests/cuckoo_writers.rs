//! Who may write a cuckoo table, and what everybody else is told.

mod common;

use common::chaos::limits;
use common::cuckoo::{SIGNATURES, ShmTable, open, options, shm_client, shm_node, ways, world};
use common::{HEAP, INLINE, Slot, WORD, scan_all};
use farslot_fabric::Executor;
use farslot_fabric::shm::{Node, ShmEndpoint};
use farslot_index::cuckoo::{CuckooLayout, CuckooOptions, LookupOrder};
use farslot_index::{Index, IndexError, KeyRule};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Waker};

struct Client {
    executor: Executor<ShmEndpoint>,
    table: ShmTable,
    slot: Slot,
}

type Done<T> = Result<T, IndexError>;

impl Client {
    fn new(node: &Node, layout: &CuckooLayout, slot: Slot) -> Self {
        let (executor, table) = shm_client(node, layout, LookupOrder::Parallel);
        Self {
            executor,
            table,
            slot,
        }
    }

    fn run<T>(&self, operation: impl Future<Output = T>) -> T {
        self.executor.block_on(operation)
    }

    fn put(&self, key: u64, value: u64) -> Done<bool> {
        self.run(self.table.put(&self.slot.key(key), &self.slot.value(value)))
    }

    fn update(&self, key: u64, value: u64) -> Done<bool> {
        let (key, value) = (self.slot.key(key), self.slot.value(value));
        self.run(self.table.update(&key, &value))
    }

    fn remove(&self, key: u64) -> Done<bool> {
        self.run(self.table.remove(&self.slot.key(key)))
    }

    fn get(&self, key: u64) -> Option<u64> {
        let got = self.run(self.table.get(&self.slot.key(key))).unwrap();
        got.map(|value| self.slot.number(&value))
    }

    fn get_all(&self, key: u64) -> Vec<u64> {
        let mut found = Vec::new();
        let all = |value: &[u8]| found.push(self.slot.number(value));
        let count = self.run(self.table.get_all(&self.slot.key(key), all));
        assert_eq!(count.unwrap(), found.len());
        found.sort_unstable();
        found
    }

    /// Builds a table of these keys and values.
    fn build(&self, records: impl IntoIterator<Item = (u64, u64)>) -> Done<()> {
        let records: Vec<_> = records
            .into_iter()
            .map(|(key, value)| (self.slot.key(key), self.slot.value(value)))
            .collect();
        let records: Vec<_> = records
            .iter()
            .map(|(key, value)| (&key[..], &value[..]))
            .collect();
        self.run(self.table.build(&records))
    }

    fn records(&self) -> usize {
        self.run(scan_all(&self.table)).unwrap().len()
    }
}

/// A table of 64 slots and a maker of its clients.
fn table(slot: Slot, change: impl Fn(&mut CuckooOptions)) -> impl Fn() -> Client {
    let mut options = options(slot, 64, ways(3, 4), 7);
    change(&mut options);
    let layout = options.layout().unwrap();
    let node = shm_node(&layout);
    move || Client::new(&node, &layout, slot)
}

/// The mark that a refused writer was told.
fn busy<T: std::fmt::Debug>(refused: Done<T>) -> u64 {
    match refused {
        Err(IndexError::WriterBusy { writer }) => writer,
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_one_client_writes_until_it_resigns() {
    for slot in [WORD, INLINE, HEAP, SIGNATURES] {
        let client = table(slot, |_| {});
        let (first, second, third) = (client(), client(), client());
        assert_eq!(first.put(1, 1), Ok(true));
        let mark = busy(second.put(2, 2));
        assert_eq!(mark, busy(second.remove(1)));
        assert_eq!(mark, busy(third.update(1, 3)));
        assert_eq!(mark, busy(third.build([])));
        assert_eq!((second.get(1), second.get(2)), (Some(1), None));
        first.run(first.table.resign()).unwrap();
        assert_eq!(second.put(2, 2), Ok(true));
        assert_ne!(busy(first.put(3, 3)), mark);
        // To resign what one does not hold changes nothing.
        first.run(first.table.resign()).unwrap();
        assert_eq!(second.put(3, 3), Ok(true));
        second.run(second.table.resign()).unwrap();
        assert_eq!(first.put(4, 4), Ok(true));
        assert_eq!(busy(third.put(5, 5)), mark, "a client's mark stays its own");
        let occupancy = third.run(third.table.occupancy()).unwrap();
        assert!(occupancy.entries >= 3, "a writer that resigns has reported");
    }
}

#[test]
fn coroutines_of_one_client_become_the_writer_together() {
    let client = table(WORD, |_| {});
    let (writer, other) = (client(), client());
    let records: Vec<_> = (0..32)
        .map(|key| (WORD.key(key), WORD.value(key)))
        .collect();
    let records = records.iter().map(|(key, value)| (&key[..], &value[..]));
    let mut put = 0;
    let done = |_, new: Done<bool>| put += u64::from(new.unwrap());
    writer.run(writer.table.put_many(records, done));
    assert_eq!(put, 32);
    assert_eq!(busy(other.remove(1)), busy(other.put(40, 1)));
}

/// Operations that are given up at any point leave no lock behind.
#[test]
fn an_operation_may_be_dropped() {
    for slot in [WORD, INLINE, HEAP, SIGNATURES] {
        let client = table(slot, |_| {})();
        for polls in 0..40 {
            for key in 0..32 {
                let (key, value) = (slot.key(key), slot.value(polls));
                let mut put = pin!(client.table.put(&key, &value));
                let mut cx = Context::from_waker(Waker::noop());
                for _ in 0..polls % 10 {
                    if put.as_mut().poll(&mut cx).is_ready() {
                        break;
                    }
                    client.executor.turn();
                }
            }
            for key in 0..32 {
                client.put(key, 1_000).unwrap();
                assert_eq!(client.get(key), Some(slot.fitted(1_000)));
                assert_eq!(client.remove(key), Ok(true));
                assert_eq!(client.get(key), None);
            }
        }
    }
}

#[test]
fn a_writer_that_was_taken_for_dead_notices() {
    for slot in [WORD, INLINE, HEAP, SIGNATURES] {
        let layout = options(slot, 64, ways(3, 4), 7).layout().unwrap();
        let world = world(1, &layout);
        let client = || {
            let executor = Executor::new(world.endpoint(limits()));
            let endpoint = Rc::clone(executor.endpoint());
            let table = executor.block_on(open(endpoint, &layout, LookupOrder::Parallel));
            (executor, table)
        };
        let ((executor, first), (successor, second)) = (client(), client());
        let value = |number| slot.value(number);
        for key in 0..8 {
            let (key, value) = (slot.key(key), value(key));
            assert!(executor.block_on(first.put(&key, &value)).unwrap());
        }
        successor.block_on(second.take_over()).unwrap();
        // The first has read the slot when the second changes it.
        let (key, own) = (slot.key(5), value(50));
        let mut late = pin!(first.put(&key, &own));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(late.as_mut().poll(&mut cx).is_pending());
        executor.turn();
        world.advance_to(world.now() + 10_000);
        successor.block_on(second.put(&key, &value(60))).unwrap();
        let lost = executor.block_on(late).unwrap_err();
        assert!(matches!(lost, IndexError::WriterLost { .. }), "{lost}");
        assert!(lost.may_have_taken_effect());
        let refused = executor.block_on(first.put(&slot.key(20), &own));
        assert_eq!(busy(refused), 2);
        assert!(successor.block_on(second.put(&slot.key(20), &own)).unwrap());
        let got = executor.block_on(first.get(&key)).unwrap();
        if slot == SIGNATURES {
            // Both have written into the same free position: a deposed writer that lives can do harm.
            assert!(got.is_some_and(|got| *got == own[..] || *got == value(60)[..]));
            continue;
        }
        assert_eq!(got.as_deref(), Some(&value(60)[..]));
    }
}

/// Nothing that the dead has under way takes effect behind a write of its successor.
#[test]
fn who_takes_over_waits_for_the_verbs_of_the_dead() {
    let layout = options(WORD, 64, ways(3, 4), 7).layout().unwrap();
    let world = world(1, &layout);
    let executor = Executor::new(world.endpoint(limits()));
    let endpoint = Rc::clone(executor.endpoint());
    let table = executor.block_on(open(endpoint, &layout, LookupOrder::Parallel));
    // From nobody, or from itself, there is nothing to wait for.
    for _ in 0..2 {
        let before = world.now();
        executor.block_on(table.take_over()).unwrap();
        assert!(world.now() - before < limits().verb_timeout);
    }
    let next = Executor::new(world.endpoint(limits()));
    let endpoint = Rc::clone(next.endpoint());
    let table = next.block_on(open(endpoint, &layout, LookupOrder::Parallel));
    let before = world.now();
    next.block_on(table.take_over()).unwrap();
    assert!(world.now() - before >= limits().verb_timeout);
}

#[test]
fn a_sealed_table_refuses_writes_and_serves() {
    for slot in [WORD, INLINE, HEAP, SIGNATURES] {
        let client = table(slot, |_| {});
        let (builder, early) = (client(), client());
        builder.build((0..60).map(|key| (key, key + 1))).unwrap();
        let late = client();
        assert!(builder.table.is_sealed() && late.table.is_sealed());
        for key in 0..70 {
            let there = (key < 60).then(|| slot.fitted(key + 1));
            for reader in [&builder, &early, &late] {
                assert_eq!(reader.get(key), there);
                assert_eq!(reader.get_all(key), Vec::from_iter(there));
            }
        }
        let sealed = |operation| Err(IndexError::Sealed { operation });
        for writer in [&builder, &late] {
            assert_eq!(writer.put(1, 5), sealed("put"));
            assert_eq!(writer.update(1, 5), sealed("update"));
            assert_eq!(writer.remove(1), sealed("remove"));
            let operation = "build";
            assert_eq!(writer.build([]), Err(IndexError::Sealed { operation }));
        }
        // Who has opened the table before it was sealed is told as soon as it could be the writer.
        builder.run(builder.table.resign()).unwrap();
        assert_eq!(early.put(70, 5), sealed("put"));
        assert_eq!(early.remove(1), sealed("remove"));
        assert!(early.table.is_sealed());
        assert_eq!(late.records(), 60);
        let occupancy = late.run(late.table.occupancy()).unwrap();
        assert_eq!((occupancy.entries, occupancy.used_slots), (60, 60));
    }
}

#[test]
fn several_records_of_a_key_are_built_and_never_put() {
    for slot in [WORD, INLINE, HEAP, SIGNATURES] {
        let client = table(slot, |options| options.keys = KeyRule::Multi);
        let builder = client();
        let multi = |operation| Err(IndexError::MultiKey { operation });
        assert_eq!(builder.put(1, 1), multi("put"));
        let records = (0..20).flat_map(|key| (0..1 + key % 3).map(move |value| (key, value)));
        builder.build(records).unwrap();
        for reader in [&builder, &client()] {
            for key in 0..25 {
                let there = if key < 20 { 1 + key % 3 } else { 0 };
                assert_eq!(reader.get_all(key), Vec::from_iter(0..there));
            }
            assert_eq!(reader.put(1, 1), multi("put"));
            assert_eq!(reader.remove(1), multi("remove"));
        }
    }
}

#[test]
fn only_an_empty_table_is_built() {
    for slot in [WORD, INLINE, HEAP, SIGNATURES] {
        // So many slots that counts of their use are reported late.
        let client = table(slot, |options| options.capacity = 1 << 15);
        let writer = client();
        assert_eq!(writer.put(1, 1), Ok(true));
        let full = Err(IndexError::NotEmpty { slots: 1 });
        assert_eq!(writer.build([(2, 2)]), full);
        let next = client();
        next.run(next.table.take_over()).unwrap();
        assert_eq!(next.build([(2, 2)]), full);
        assert_eq!((next.get(1), next.get(2)), (Some(1), None));
        assert_eq!(next.remove(1), Ok(true));
        assert_eq!(next.build([(2, 2)]), Ok(()));
        assert_eq!((writer.get(1), writer.get(2)), (None, Some(2)));
    }
}

#[test]
fn what_cannot_be_built_leaves_the_table_as_it_was() {
    for slot in [WORD, INLINE, HEAP, SIGNATURES] {
        let heap_bytes = match slot.kind {
            // Less than its 16 heap buckets need, and more than 4.
            farslot_index::SlotKind::Signatures => 16 << 10,
            _ => 4096,
        };
        let client = table(slot, |options| options.heap_bytes = Some(heap_bytes))();
        let too_many = client.build((0..100).map(|key| (key, key)));
        match slot.kind {
            farslot_index::SlotKind::Heap | farslot_index::SlotKind::Signatures => {
                // Records that fit into the heap, of which the second build needs some again.
                let heap_full = client.build((0..60).map(|key| (key, key)));
                assert!(
                    matches!(heap_full, Err(IndexError::HeapFull { .. })),
                    "{heap_full:?}"
                );
            }
            _ => assert!(
                matches!(too_many, Err(IndexError::Full { .. })),
                "{too_many:?}"
            ),
        }
        let odd = [(&b""[..], &b"value"[..])];
        assert_eq!(
            client.run(client.table.build(&odd)),
            Err(IndexError::EmptyKey)
        );
        assert!(!client.table.is_sealed());
        assert_eq!(client.records(), 0);
        // By itself or by a build, it can still be filled.
        for _ in 0..20 {
            for key in 0..4 {
                assert_eq!(client.put(key, key), Ok(true));
            }
            assert!((0..4).all(|key| client.remove(key) == Ok(true)));
        }
        client.build((0..4).map(|key| (key, key))).unwrap();
        assert!((0..4).all(|key| client.get(key) == Some(key)));
    }
}
