//! What no table can store is refused with the value and the limit, and changes nothing.

use crate::common::{
    HEAP, INLINE, PAIR, PAIR_SHORT, Reads, SLOTS, Slot, WORD, WORD_SET, new_table, scan_all,
};
use farslot_fabric::Endpoint;
use farslot_index::hash::derive;
use farslot_index::linear::LinearTable;
use farslot_index::{FieldSize, Index, IndexError, IndexExt, Result};
use farslot_testbed::{AnyEndpoint, Fabric};

const SEED: u64 = 11;

/// What a key or a record is refused with, by every operation that takes it.
async fn is_refused(
    table: &LinearTable<AnyEndpoint>,
    key: &[u8],
    value: &[u8],
    error: &IndexError,
) {
    let refused = Err(error.clone());
    assert_eq!(table.put(key, value).await, refused);
    assert_eq!(table.update(key, value).await, refused);
    assert_eq!(table.find_or_put(key, value).await.map(|_| false), refused);
    assert!(!error.may_have_taken_effect());
}

async fn key_is_refused(
    table: &LinearTable<AnyEndpoint>,
    key: &[u8],
    value: &[u8],
    error: &IndexError,
) {
    is_refused(table, key, value, error).await;
    let refused = Err(error.clone());
    assert_eq!(table.get(key).await.map(|_| ()), refused);
    assert_eq!(table.get_all(key).await.map(|_| ()), refused);
    assert_eq!(table.remove(key).await.map(|_| ()), refused);
}

/// Runs the refusals on a table that holds some records and must hold them still, and must not have
/// posted a verb for any of them.
fn on_a_table(fabric: Fabric, slot: Slot, refusals: impl AsyncFnOnce(&LinearTable<AnyEndpoint>)) {
    let (_node, executor, table) = new_table(fabric, &slot.options(16, SEED), Reads::fixed(4));
    executor.block_on(async {
        for number in 0..5 {
            table
                .put(&slot.key(number), &slot.value(number))
                .await
                .unwrap();
        }
        table.flush().await.unwrap();
        let (before, counted) = state(&table).await.unwrap();
        let verbs = table.endpoint().core().counters.snapshot().verbs;
        refusals(&table).await;
        assert_eq!(table.endpoint().core().counters.snapshot().verbs, verbs);
        assert_eq!(state(&table).await.unwrap(), (before, counted));
    });
}

type Records = Vec<(Vec<u8>, Vec<u8>)>;

async fn state(table: &impl Index) -> Result<(Records, farslot_index::Occupancy)> {
    Ok((scan_all(table).await?, table.occupancy().await?))
}

pub fn empty_keys(fabric: Fabric) {
    for slot in SLOTS {
        on_a_table(fabric, slot, async |table| {
            key_is_refused(table, &[], &slot.value(1), &IndexError::EmptyKey).await;
        });
    }
    assert_eq!(
        IndexError::EmptyKey.to_string(),
        "a key must have at least 1 byte"
    );
}

pub fn lengths_that_a_table_does_not_hold(fabric: Fabric) {
    for slot in SLOTS {
        on_a_table(fabric, slot, async |table| {
            let most = slot.key.most();
            let shorter = matches!(slot.key, FieldSize::Fixed(2..)).then_some(most - 1);
            for len in shorter.into_iter().chain([most + 1, 5_000]) {
                let error = IndexError::KeyLength {
                    len,
                    allowed: slot.key,
                };
                key_is_refused(table, &vec![1; len], &slot.value(1), &error).await;
            }
            let most = slot.value.most();
            let shorter = matches!(slot.value, FieldSize::Fixed(1..)).then(|| most - 1);
            for len in shorter.into_iter().chain([most + 1, 5_000]) {
                let error = IndexError::ValueLength {
                    len,
                    allowed: slot.value,
                };
                is_refused(table, &slot.key(2), &vec![1; len], &error).await;
                is_refused(table, &slot.key(9), &vec![1; len], &error).await;
            }
        });
    }
    let error = IndexError::KeyLength {
        len: 3,
        allowed: PAIR.key,
    };
    assert_eq!(
        error.to_string(),
        "a key of 3 bytes does not fit: the table's keys have exactly 8 bytes"
    );
    let error = IndexError::ValueLength {
        len: 301,
        allowed: HEAP.value,
    };
    assert_eq!(
        error.to_string(),
        "a value of 301 bytes does not fit: the table's values have at most 300 bytes"
    );
}

pub fn the_longest_and_the_shortest_that_fit(fabric: Fabric) {
    let (_node, executor, table) = new_table(fabric, &HEAP.options(16, SEED), Reads::fixed(4));
    executor.block_on(async {
        for (key, value) in [(1, 0), (1, 300), (40, 0), (40, 300)] {
            let (key, value) = (vec![key; key as usize], vec![7; value]);
            table.put(&key, &value).await.unwrap();
            assert_eq!(table.get(&key).await.unwrap().as_deref(), Some(&value[..]));
        }
    });
}

pub fn records_of_64_bits_in_word_slots(fabric: Fabric) {
    on_a_table(fabric, WORD_SET, async |table| {
        for record in [1 << 63, u64::MAX] {
            let error = IndexError::SixtyThreeBits { record };
            key_is_refused(table, &record.to_le_bytes(), &[], &error).await;
        }
    });
    let eight = Slot {
        value: FieldSize::Fixed(4),
        ..WORD
    };
    let (_node, executor, table) = new_table(fabric, &eight.options(16, SEED), Reads::fixed(4));
    executor.block_on(async {
        let key = 0x0403_0201_u32.to_le_bytes();
        table
            .put(&key, &0x7fff_ffff_u32.to_le_bytes())
            .await
            .unwrap();
        let record = 0x8000_0005_0403_0201;
        let error = IndexError::SixtyThreeBits { record };
        is_refused(&table, &key, &0x8000_0005_u32.to_le_bytes(), &error).await;
        assert!(error.to_string().contains("0x8000000504030201"));
        let got = table.get(&key).await.unwrap();
        assert_eq!(got.as_deref(), Some(&0x7fff_ffff_u32.to_le_bytes()[..]));
    });
}

/// The masks are what the seed derives for purposes 1 (keys) and 2 (values): the table's mark for
/// "nothing here" is the record that they cancel.
pub fn the_one_pattern_that_stands_for_nothing(fabric: Fabric) {
    let (key_mask, value_mask) = (derive(SEED, 1), derive(SEED, 2));
    on_a_table(fabric, PAIR, async |table| {
        let error = IndexError::ReservedPattern {
            field: "key",
            bits: key_mask,
        };
        key_is_refused(table, &key_mask.to_le_bytes(), &PAIR.value(1), &error).await;
        let error = IndexError::ReservedPattern {
            field: "value",
            bits: value_mask,
        };
        is_refused(table, &PAIR.key(2), &value_mask.to_le_bytes(), &error).await;
        is_refused(table, &PAIR.key(9), &value_mask.to_le_bytes(), &error).await;
        assert!(error.to_string().contains(&format!("{value_mask:#018x}")));
    });
    on_a_table(fabric, WORD_SET, async |table| {
        let bits = key_mask & !(1 << 63);
        let error = IndexError::ReservedPattern { field: "key", bits };
        key_is_refused(table, &bits.to_le_bytes(), &[], &error).await;
    });
}

/// Where a field has fewer bytes than its mask, every pattern of it can be stored.
pub fn short_fields_have_no_reserved_pattern(fabric: Fabric) {
    for (slot, key_len, value_len) in [(PAIR_SHORT, 5, 3), (WORD, 4, 3), (INLINE, 12, 20)] {
        let (_node, executor, table) = new_table(fabric, &slot.options(16, SEED), Reads::fixed(4));
        executor.block_on(async {
            for bytes in [0, 0xff] {
                let (key, value) = (vec![bytes; key_len], vec![bytes; value_len]);
                assert!(table.put(&key, &value).await.unwrap());
                assert_eq!(table.get(&key).await.unwrap().as_deref(), Some(&value[..]));
                assert!(table.remove(&key).await.unwrap());
                assert!(table.get(&key).await.unwrap().is_none());
            }
        });
    }
}
