//! How full a cuckoo table can be, and what its operations cost on the way there, as the endpoint
//! counts it: verbs, and round trips one after the other.

use crate::common::costs::spent;
use crate::common::cuckoo::{Ways, new_client, new_node, new_table, options, ways};
use crate::common::{INLINE, WORD};
use farslot_fabric::OperationCounters;
use farslot_index::cuckoo::{CuckooTable, LookupOrder};
use farslot_index::{GET, Index, IndexError, IndexExt, PUT};
use farslot_testbed::{AnyEndpoint, Fabric};

const SLOTS: u64 = 1 << 16;
const VALUE: [u8; 3] = [7; 3];

fn key(number: u64) -> [u8; 4] {
    (number as u32).to_le_bytes()
}

/// However often the values of Inline records are replaced, the table needs no memory for it, and a
/// hit stays one READ.
#[test]
fn replaced_values_stay_in_their_slots() {
    const RECORDS: u64 = 200;
    const ROUNDS: u64 = 40;
    let mut options = options(INLINE, RECORDS + 56, ways(3, 4), 1);
    // A hundredth of what is replaced.
    options.sizing.heap_bytes = Some(RECORDS * ROUNDS * 64 / 100);
    let (_node, executor, table) = new_table(Fabric::Shm, &options, LookupOrder::Sequential);
    let value = |number: u64, round: u64| INLINE.value(number + round);
    for round in 0..ROUNDS {
        for number in 0..RECORDS {
            let (key, value) = (INLINE.key(number), value(number, round));
            let put = executor.block_on(table.put(&key, &value));
            assert_eq!(put, Ok(round == 0));
        }
    }
    for number in 0..RECORDS {
        let (key, last) = (INLINE.key(number), value(number, ROUNDS - 1));
        let (spent, got) = spent(&executor, GET, table.get(&key));
        assert_eq!(got.unwrap().as_deref(), Some(&last[..]));
        let buckets = 3;
        assert!(spent.verbs <= buckets, "{spent:?}");
    }
}

/// Verbs and round trips of an operation, on average.
fn per_operation(spent: OperationCounters) -> (f64, f64) {
    let per = |sum: u64| sum as f64 / spent.count as f64;
    (per(spent.verbs), per(spent.round_trips))
}

/// Puts keys from `held` on until so many are held; returns how many there are, at the latest when
/// the table is full.
async fn fill(table: &CuckooTable<AnyEndpoint>, held: u64, wanted: u64) -> u64 {
    for number in held..wanted {
        match table.put(&key(number), &VALUE).await {
            Ok(new) => assert!(new),
            Err(IndexError::Full { probed, slots }) => {
                assert!(probed <= slots && slots == table.layout().slots());
                return number;
            }
            Err(error) => panic!("{error}"),
        }
    }
    wanted
}

/// Fills a table in steps of 5% until it is full, and prints what the insertions of each step cost;
/// returns the load factor.
fn load_by_insertion(of: Ways, order: LookupOrder) -> f64 {
    let (_node, executor, table) = new_table(Fabric::Shm, &options(WORD, SLOTS, of, 3), order);
    let slots = table.layout().slots();
    let mut held = 0;
    for step in 1..=20 {
        let (before, wanted) = (held, slots * step / 20);
        let moves = executor.block_on(table.displacements()).unwrap();
        let (spent, ()) = spent(&executor, PUT, async {
            held = fill(&table, before, wanted).await;
        });
        let moves = executor.block_on(table.displacements()).unwrap() - moves;
        let (verbs, round_trips) = per_operation(spent);
        println!(
            "{of:?} to {:.2}: {verbs:6.2} verbs, {round_trips:5.2} round trips, {:.3} moves",
            held as f64 / slots as f64,
            moves as f64 / spent.count as f64,
        );
        // A READ of the key's buckets, a level of the search each, the chain.
        assert!(spent.most_round_trips <= 2 + 16, "{spent:?}");
        if step <= 5 && of.bucket_slots >= 4 {
            assert!(
                verbs <= f64::from(of.ways) + 1.1 && round_trips < 2.1,
                "{spent:?}"
            );
        }
        if held < wanted {
            break;
        }
    }
    executor.block_on(async {
        for number in 0..held {
            let got = table.get(&key(number)).await.unwrap();
            assert_eq!(got.as_deref(), Some(&VALUE[..]), "{number}");
        }
        assert!(table.get(&key(held)).await.unwrap().is_none());
    });
    held as f64 / slots as f64
}

#[test]
fn insertion_alone_fills_a_table_nearly_to_its_threshold() {
    let parallel = LookupOrder::Parallel;
    // Thresholds: 0.9990, 0.9804, 0.9768, 0.9179, 0.5.
    assert!(load_by_insertion(ways(3, 4), parallel) >= 0.95);
    assert!(load_by_insertion(ways(2, 4), LookupOrder::Sequential) >= 0.94);
    assert!(load_by_insertion(ways(4, 1), parallel) >= 0.9);
    assert!(load_by_insertion(ways(3, 1), parallel) >= 0.85);
    let two = load_by_insertion(ways(2, 1), LookupOrder::Gathered);
    assert!((0.4..0.55).contains(&two), "{two}");
}

#[test]
fn a_build_fills_a_table_nearly_to_its_threshold() {
    for (of, load) in [
        (ways(3, 4), 0.99),
        (ways(2, 4), 0.96),
        (ways(4, 1), 0.96),
        (ways(3, 1), 0.9),
        (ways(2, 1), 0.46),
    ] {
        let layout = options(WORD, SLOTS, of, 3).layout().unwrap();
        let node = new_node(Fabric::Shm, &layout);
        let (executor, table) = new_client(&node, &layout, LookupOrder::Parallel);
        let held = (layout.slots() as f64 * load) as u64;
        let keys: Vec<[u8; 4]> = (0..held).map(key).collect();
        let records: Vec<_> = keys.iter().map(|key| (&key[..], &VALUE[..])).collect();
        executor.block_on(table.build(&records)).unwrap();
        let (executor, table) = new_client(&node, &layout, LookupOrder::Parallel);
        executor.block_on(async {
            for key in &keys {
                let got = table.get(key).await.unwrap();
                assert_eq!(got.as_deref(), Some(&VALUE[..]));
            }
            let occupancy = table.occupancy().await.unwrap();
            assert_eq!(occupancy.used_slots, held);
        });
    }
}

/// The last records look at thousands of buckets each: a search whose time grows with the square of
/// that makes this the slowest test of the file.
#[test]
fn a_build_fills_the_last_slots() {
    let layout = options(WORD, 1 << 15, ways(4, 8), 3).layout().unwrap();
    let node = new_node(Fabric::Shm, &layout);
    let (executor, table) = new_client(&node, &layout, LookupOrder::Parallel);
    let keys: Vec<[u8; 4]> = (0..layout.slots()).map(key).collect();
    let records: Vec<_> = keys.iter().map(|key| (&key[..], &VALUE[..])).collect();
    executor.block_on(table.build(&records)).unwrap();
    let occupancy = executor.block_on(table.occupancy()).unwrap();
    assert_eq!(occupancy.used_slots, layout.slots());
}

/// A bulk build looks through every way that there is. Where one insertion after the other says
/// full, no other arrangement of the same records holds the new one either.
#[test]
fn an_insertion_that_says_full_is_right() {
    let mut full = 0;
    for seed in 0..400 {
        let of = ways(2 + seed as u32 % 3, 1 + seed as u32 / 3 % 2);
        let slots = 1 + seed % 6 * u64::from(of.bucket_slots);
        let shape = options(WORD, slots, of, seed);
        let (_node, executor, table) = new_table(Fabric::Shm, &shape, LookupOrder::Parallel);
        let mut held: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for number in 0..30 {
            let record = (WORD.key(number), WORD.value(number));
            let put = executor.block_on(table.put(&record.0, &record.1));
            let mut with = held.clone();
            with.push(record);
            let (_other, builder, other) = new_table(Fabric::Shm, &shape, LookupOrder::Parallel);
            let records: Vec<_> = with
                .iter()
                .map(|(key, value)| (&key[..], &value[..]))
                .collect();
            let built = builder.block_on(other.build(&records));
            if put.is_ok() {
                assert_eq!(built, Ok(()), "seed {seed}");
                held = with;
            } else {
                assert!(matches!(put, Err(IndexError::Full { .. })), "{put:?}");
                assert!(matches!(built, Err(IndexError::Full { .. })), "{built:?}");
                full += 1;
            }
        }
    }
    assert!(full > 1_000, "{full}");
}
