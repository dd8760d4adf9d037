//! Who may write a cuckoo table, and what everybody else is told.

use crate::common::cuckoo::{SIGNATURES, limited_client, new_client, new_node, options, ways};
use crate::common::{HEAP, INLINE, Slot, WORD, scan_all};
use farslot_fabric::{Executor, Limits};
use farslot_index::cuckoo::{CuckooOptions, CuckooTable, LookupOrder};
use farslot_index::{Index, IndexError, IndexExt, KeyRule};
use farslot_testbed::{AnyEndpoint, Fabric};
use std::pin::pin;
use std::task::{Context, Waker};

struct Client {
    executor: Executor<AnyEndpoint>,
    table: CuckooTable<AnyEndpoint>,
    slot: Slot,
}

type Done<T> = Result<T, IndexError>;

impl Client {
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
        let found = self.run(self.table.get_all(&self.slot.key(key))).unwrap();
        let mut found: Vec<_> = found.iter().map(|value| self.slot.number(value)).collect();
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
fn table(fabric: Fabric, slot: Slot, change: impl Fn(&mut CuckooOptions)) -> impl Fn() -> Client {
    table_with(fabric, slot, Fabric::limits(), change)
}

fn table_with(
    fabric: Fabric,
    slot: Slot,
    limits: Limits,
    change: impl Fn(&mut CuckooOptions),
) -> impl Fn() -> Client {
    let mut options = options(slot, 64, ways(3, 4), 7);
    change(&mut options);
    let layout = options.layout().unwrap();
    let node = new_node(fabric, &layout);
    move || {
        let (executor, table) = limited_client(&node, &layout, LookupOrder::Parallel, limits);
        Client {
            executor,
            table,
            slot,
        }
    }
}

/// The mark that a refused writer was told.
fn busy<T: std::fmt::Debug>(refused: Done<T>) -> u64 {
    match refused {
        Err(IndexError::WriterBusy { writer }) => writer,
        other => panic!("{other:?}"),
    }
}

pub fn only_one_client_writes_until_it_resigns(fabric: Fabric) {
    for slot in [WORD, INLINE, HEAP, SIGNATURES] {
        let client = table(fabric, slot, |_| {});
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

pub fn coroutines_of_one_client_become_the_writer_together(fabric: Fabric) {
    let client = table(fabric, WORD, |_| {});
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
pub fn an_operation_may_be_dropped(fabric: Fabric) {
    for slot in [WORD, INLINE, HEAP, SIGNATURES] {
        let open = table(fabric, slot, |_| {});
        let client = open();
        for polls in 0..u64::from(fabric.cases(40).max(10)) {
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

pub fn a_sealed_table_refuses_writes_and_serves(fabric: Fabric) {
    for slot in [WORD, INLINE, HEAP, SIGNATURES] {
        let client = table(fabric, slot, |_| {});
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

pub fn several_records_of_a_key_are_built_and_never_put(fabric: Fabric) {
    for slot in [WORD, INLINE, HEAP, SIGNATURES] {
        let client = table(fabric, slot, |options| options.keys = KeyRule::Multi);
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

pub fn only_an_empty_table_is_built(fabric: Fabric) {
    for slot in [WORD, INLINE, HEAP, SIGNATURES] {
        // Who takes over waits for as long as a verb of the dead may take.
        let limits = Limits {
            verb_timeout: 2_000_000_000,
            ..Fabric::limits()
        };
        // So many slots that counts of their use are reported late.
        let client = table_with(fabric, slot, limits, |options| options.capacity = 1 << 15);
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

pub fn what_cannot_be_built_leaves_the_table_as_it_was(fabric: Fabric) {
    for slot in [WORD, INLINE, HEAP, SIGNATURES] {
        let heap_bytes = match slot.kind {
            // Less than its 16 heap buckets need, and more than 4.
            farslot_index::SlotKind::Signatures => 16 << 10,
            _ => 4096,
        };
        let open = table(fabric, slot, |options| {
            options.heap_bytes = Some(heap_bytes)
        });
        let client = open();
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

/// The next writer finds what this one held of the heap.
pub fn a_resignation_hands_the_heap_over(fabric: Fabric) {
    let mut options = options(HEAP, 64, ways(3, 4), 7);
    options.heap_bytes = Some(1 << 14);
    let layout = options.layout().unwrap();
    let node = new_node(fabric, &layout);
    for _ in 0..fabric.cases(200) {
        let (executor, table) = new_client(&node, &layout, LookupOrder::Parallel);
        executor.block_on(async {
            for key in 0..8 {
                table.put(&HEAP.key(key), &HEAP.value(key)).await.unwrap();
            }
            for key in 0..8 {
                assert!(table.remove(&HEAP.key(key)).await.unwrap());
            }
            table.resign().await.unwrap();
            assert_eq!(table.occupancy().await.unwrap().entries, 0);
        });
    }
}
