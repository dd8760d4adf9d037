//! Tables of signatures, used for long: places in their heap buckets come round, and none is lost.

use crate::common::cuckoo::{SIGNATURES, new_table, options, ways};
use crate::common::scan_in_pieces;
use farslot_fabric::Executor;
use farslot_index::cuckoo::{CuckooTable, LookupOrder};
use farslot_index::heap::{block_bytes, class_for};
use farslot_index::{Index, IndexError, IndexExt};
use farslot_testbed::{AnyEndpoint, Fabric, TestNode};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::HashMap;

/// A table of one bucket, so that nothing is ever displaced.
fn one_bucket(
    fabric: Fabric,
    heap_buckets: u64,
) -> (TestNode, Executor<AnyEndpoint>, CuckooTable<AnyEndpoint>) {
    let mut options = options(SIGNATURES, 4, ways(2, 4), 1);
    options.sizing.heap_bytes = Some(heap_bytes(heap_buckets));
    let made = new_table(fabric, &options, LookupOrder::Parallel);
    assert_eq!(made.2.layout().buckets, 1);
    made
}

/// Bytes of a heap with room for so many heap buckets.
fn heap_bytes(heap_buckets: u64) -> u64 {
    let region = (16 + 40 + 300usize).next_multiple_of(8);
    16 + block_bytes(class_for(region * 4).unwrap()) as u64 * heap_buckets
}

/// More writes to a bucket than there are uses of a heap bucket: records that stay must not come to
/// look later than the bucket's word.
pub fn uses_come_round_and_records_stay(fabric: Fabric) {
    for others in 0..4 {
        let (_node, executor, table) = one_bucket(fabric, 2);
        executor.block_on(async {
            for number in 0..=others {
                let (key, value) = (SIGNATURES.key(number), SIGNATURES.value(number));
                assert!(table.put(&key, &value).await.unwrap());
            }
            for turn in 0..u64::from(fabric.cases(5_000)) {
                let value = SIGNATURES.value(turn);
                assert!(table.update(&SIGNATURES.key(0), &value).await.unwrap());
                for number in 1..=others {
                    let got = table.get(&SIGNATURES.key(number)).await.unwrap();
                    assert_eq!(got.as_deref(), Some(&SIGNATURES.value(number)[..]));
                }
                let got = table.get(&SIGNATURES.key(0)).await.unwrap();
                assert_eq!(got.as_deref(), Some(&value[..]));
            }
        });
    }
}

/// A heap of one heap bucket more than the table has buckets is enough for ever.
pub fn churn_leaks_no_heap_bucket(fabric: Fabric) {
    let mut options = options(SIGNATURES, 32, ways(2, 4), 1);
    options.sizing.heap_bytes = Some(heap_bytes(8 + 1));
    let (_node, executor, table) = new_table(fabric, &options, LookupOrder::Parallel);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut model = HashMap::new();
    executor.block_on(async {
        let turns = u64::from(fabric.cases(40_000));
        let (mut full, mut removed) = (0, 0);
        for turn in 0..turns {
            let key = SIGNATURES.key(rng.random_range(0..34));
            if turn % 997 == 0 || rng.random_bool(0.2) {
                removed += 1;
                let there = model.remove(&key).is_some();
                assert_eq!(table.remove(&key).await.unwrap(), there);
                continue;
            }
            let value = SIGNATURES.value(turn);
            match table.put(&key, &value).await {
                Ok(new) => assert_eq!(model.insert(key, value).is_none(), new),
                Err(IndexError::Full { .. }) => full += 1,
                // A chain of displacements of which two copy their heap buckets, for which there is
                // one: it is not begun.
                Err(IndexError::HeapFull { .. }) if !model.contains_key(&key) => {}
                Err(error) => panic!("turn {turn}: {error}"),
            }
            if turn % 1_000 == 0 {
                table.flush().await.unwrap();
                // Empties buckets, whose heap buckets then serve others.
                for (key, _) in model.drain() {
                    assert!(table.remove(&key).await.unwrap());
                }
            }
        }
        assert!(full > 0 && removed > turns / 40, "{full} {removed}");
        assert!(table.displacements().await.unwrap() > turns / 400);
        // New values displace nothing, and are copied one heap bucket at a time: it is there still.
        for round in 0..100 {
            for (key, value) in &mut model {
                *value = SIGNATURES.value(turns + round);
                assert!(!table.put(key, value).await.unwrap());
            }
        }
        for limits in [&[u64::MAX][..], &[1, 9]] {
            let met = scan_in_pieces(&table, limits).await.unwrap();
            assert_eq!(met.len(), model.len());
            assert_eq!(met.into_iter().collect::<HashMap<_, _>>(), model);
        }
    });
}
