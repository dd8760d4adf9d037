//! Hybrid slots: which records stand in them, what that costs, and slots that nobody can have
//! written.

use crate::common::model::{Checked, run_cases};
use crate::common::{
    HYBRID, Reads, Slot, TABLE, cuckoo, new_client, new_node, new_table, scan_all,
};
use farslot_fabric::{Endpoint, EndpointExt, OperationClass};
use farslot_index::Sizing;
use farslot_index::cuckoo::{CuckooOptions, CuckooTable, LookupOrder};
use farslot_index::linear::{LinearTable, SlotKind};
use farslot_index::{FieldSize, GET, Index, IndexError, IndexExt};
use farslot_testbed::{AnyEndpoint, Fabric};
use proptest::prelude::*;
use proptest::sample::Index as Split;

/// Where a table's slots begin.
const SLOTS_AT: u64 = 4096;

/// Verbs of one class that an operation takes.
async fn verbs_of(
    table: &LinearTable<AnyEndpoint>,
    class: OperationClass,
    operation: impl Future<Output = ()>,
) -> u64 {
    let counted = || table.endpoint().core().counters.snapshot().operation(class);
    let before = counted().verbs;
    operation.await;
    counted().verbs - before
}

async fn reads_of(table: &LinearTable<AnyEndpoint>, key: &[u8], value: &[u8]) -> u64 {
    verbs_of(table, GET, async {
        assert_eq!(table.get(key).await.unwrap().as_deref(), Some(value));
    })
    .await
}

fn sized(inline_bytes: u32) -> Slot {
    Slot {
        key: FieldSize::UpTo(1100),
        value: FieldSize::UpTo(1100),
        inline_bytes: Some(inline_bytes),
        ..HYBRID
    }
}

/// A record's first place is its slot wherever it fits, and out of band else; its later ones are
/// always out of band.
pub fn records_stand_in_their_slots_if_they_fit(fabric: Fabric) {
    let inline_bytes = (1..=128u32).prop_map(|words| words * 8);
    let cases = (inline_bytes, -40..40i32, any::<Split>(), any::<u64>());
    run_cases(
        fabric.cases(256),
        fabric.name(),
        &cases,
        |(inline_bytes, excess, split, seed)| {
            let len = (inline_bytes as i32 + excess).max(1) as usize;
            let key_len = 1 + split.index(len);
            stands_in_its_slot_if_it_fits(fabric, inline_bytes, key_len, len - key_len, seed)
        },
    );
}

fn stands_in_its_slot_if_it_fits(
    fabric: Fabric,
    inline_bytes: u32,
    key_len: usize,
    value_len: usize,
    seed: u64,
) -> Checked {
    let (key, value) = (vec![3; key_len], vec![5; value_len]);
    let fits = key_len + value_len <= inline_bytes as usize;
    let options = sized(inline_bytes).options(4, seed);
    let (_node, executor, table) = new_table(fabric, &options, Reads::fixed(4));
    executor.block_on(async {
        prop_assert!(table.put(&key, &value).await.unwrap());
        prop_assert_eq!(
            reads_of(&table, &key, &value).await,
            if fits { 1 } else { 2 }
        );
        prop_assert_eq!(table.occupancy().await.unwrap().heap_used == 0, fits);
        let all = scan_all(&table).await.unwrap();
        prop_assert_eq!(all, [(key.clone(), value.clone())]);
        let survey = table.survey().await.unwrap();
        prop_assert_eq!((survey.live, survey.dead), (1, 0));

        for value in [&[][..], &[9; 1100], &value] {
            prop_assert!(!table.put(&key, value).await.unwrap());
            prop_assert_eq!(reads_of(&table, &key, value).await, 2);
            prop_assert!(table.update(&key, value).await.unwrap());
            prop_assert_eq!(reads_of(&table, &key, value).await, 2);
        }
        prop_assert!(table.remove(&key).await.unwrap());
        prop_assert!(table.get(&key).await.unwrap().is_none());
        let revived = table.find_or_put(&key, &value).await.unwrap();
        prop_assert!(revived.is_none());
        prop_assert_eq!(reads_of(&table, &key, &value).await, 2);
        Ok(())
    })
}

pub fn keys_of_all_lengths_share_a_table(fabric: Fabric) {
    let (_node, executor, table) = new_table(fabric, &sized(64).options(4096, 2), Reads::fixed(4));
    executor.block_on(async {
        let record = |number: usize| {
            let key_len = 2 + number * 7 % 1090;
            let mut key = vec![1; key_len];
            key[..2].copy_from_slice(&(number as u16).to_le_bytes());
            (key, vec![number as u8; number * 13 % 1100])
        };
        let records: Vec<_> = (0..3000).map(record).collect();
        for (key, value) in &records {
            assert!(table.put(key, value).await.unwrap());
        }
        let mut answers = vec![None; records.len()];
        let keys = records.iter().map(|(key, _)| &key[..]);
        let done = |number: usize, got: farslot_index::Result<Option<farslot_index::Value>>| {
            answers[number] = got.unwrap().map(|value| value.to_vec());
        };
        table.get_many(keys, done).await;
        for ((key, value), answer) in records.iter().zip(&answers) {
            assert_eq!(answer.as_ref(), Some(value), "{} bytes of key", key.len());
        }
        let mut met = scan_all(&table).await.unwrap();
        met.sort();
        let mut records = records;
        records.sort();
        assert_eq!(met, records);
    });
}

/// A head whose lengths exceed its slot is not believed, whoever has written it.
pub fn a_head_that_says_more_than_its_slot_holds_is_unreadable(fabric: Fabric) {
    let layout = sized(8).options(1, 2).layout().unwrap();
    let node = new_node(fabric, &layout);
    let (executor, table) = new_client(&node, &layout, Reads::fixed(1));
    executor.block_on(async {
        assert!(table.put(b"key", b"value").await.unwrap());
        let slot = TABLE.plus(SLOTS_AT);
        let head = table.endpoint().read(slot, 8).await.unwrap().words()[0];
        assert_eq!(head >> 61, 5);
        // Lengths of 1024 and 1023 bytes.
        let damaged = head | 0xf_ffff << 32;
        assert_eq!(
            table.endpoint().compare_swap(slot, head, damaged).await,
            Ok(head)
        );
        let unreadable = |error| matches!(error, Some(IndexError::Unreadable { slot: 0, .. }));
        assert!(unreadable(table.get(b"key").await.err()));
        assert!(unreadable(table.put(b"key", b"other").await.err()));
        assert!(unreadable(scan_all(&table).await.err()));
    });
}

/// A cuckoo table moves its slots, and its buckets are read whole.
pub fn a_cuckoo_table_has_no_hybrid_slots(fabric: Fabric) {
    let options = CuckooOptions::new(Sizing::new(
        100,
        FieldSize::Fixed(8),
        FieldSize::Fixed(16),
        1,
    ));
    let mut layout = options.layout().unwrap();
    let hybrid = CuckooOptions {
        slot: Some(SlotKind::Hybrid),
        ..options.clone()
    };
    let refused = IndexError::BadOption {
        option: "slot",
        value: "Hybrid".into(),
        limit: "Word, Inline, Heap or Signatures: an insertion moves slots whole".into(),
    };
    assert_eq!(hybrid.layout().err(), Some(refused.clone()));

    let node = cuckoo::new_node(fabric, &layout);
    let (executor, table) = cuckoo::new_client(&node, &layout, LookupOrder::Parallel);
    let endpoint = std::rc::Rc::clone(table.endpoint());
    layout.kind = SlotKind::Hybrid;
    let opening = CuckooTable::open(endpoint, TABLE, layout, LookupOrder::Parallel);
    assert_eq!(executor.block_on(opening).err(), Some(refused));
}
