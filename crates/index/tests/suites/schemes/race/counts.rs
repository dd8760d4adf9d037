//! What operations on a RACE table cost, and how full one gets that does not grow: paper 001, table
//! I, and figure 9.

use crate::common::TABLE;
use crate::common::costs::{cost_of_one, spent};
use crate::common::race::{Dimensions, SHORT, ShmTable, shm_table};
use farslot_fabric::{Endpoint, EndpointExt, Executor, OperationClass, OperationCounters};
use farslot_index::race::RaceTable;
use farslot_index::{FIND_OR_PUT, GET, Index, IndexError, IndexExt, PUT, REMOVE, UPDATE};
use farslot_testbed::AnyEndpoint;
use std::rc::Rc;

struct Client {
    executor: Executor<AnyEndpoint>,
    table: ShmTable,
}

impl Client {
    fn new(dimensions: Dimensions) -> Self {
        let (executor, table) = shm_table(&dimensions.layout(SHORT, 5, None));
        Self { executor, table }
    }

    /// What the operations of a class cost together.
    fn spent(
        &self,
        class: OperationClass,
        operations: impl AsyncFnOnce(&ShmTable),
    ) -> OperationCounters {
        spent(&self.executor, class, operations(&self.table)).0
    }

    /// Verbs of one operation, and its round trips.
    fn cost(&self, class: OperationClass, operation: impl AsyncFnOnce(&ShmTable)) -> (u64, u64) {
        cost_of_one(&self.executor, class, operation(&self.table))
    }
}

/// A key that is a number, and a value that goes with it.
fn record(number: u64) -> ([u8; 8], [u8; 8]) {
    (number.to_le_bytes(), (!number).to_le_bytes())
}

#[test]
fn round_trips() {
    let client = Client::new(Dimensions::fixed(1 << 16, 8));
    client.executor.block_on(async {
        // So that the client has heap memory.
        for number in 100..110 {
            let (key, value) = record(number);
            client.table.put(&key, &value).await.unwrap();
        }
    });
    let (key, value) = record(1);
    let get = async |table: &ShmTable| drop(table.get(&key).await.unwrap());
    let put = async |table: &ShmTable| {
        table.put(&key, &value).await.unwrap();
    };
    let find_or_put = async |table: &ShmTable| drop(table.find_or_put(&key, &value).await.unwrap());
    let update = async |table: &ShmTable| {
        table.update(&key, &value).await.unwrap();
    };
    let remove = async |table: &ShmTable| assert!(table.remove(&key).await.unwrap());
    let remove_absent = async |table: &ShmTable| assert!(!table.remove(&key).await.unwrap());

    // The key's buckets are two READs.
    assert_eq!(client.cost(GET, get), (2, 1));
    assert_eq!(client.cost(REMOVE, remove_absent), (2, 1));
    // With the record, which is in vain.
    assert_eq!(client.cost(UPDATE, update), (3, 1));
    // Buckets and record, swap and buckets, swap.
    assert_eq!(client.cost(PUT, put), (7, 3));
    // Buckets, record.
    assert_eq!(client.cost(GET, get), (3, 2));
    assert_eq!(client.cost(FIND_OR_PUT, find_or_put), (3, 2));
    // Buckets and new record, old record, swap.
    assert_eq!(client.cost(PUT, put), (5, 3));
    assert_eq!(client.cost(UPDATE, update), (5, 3));
    assert_eq!(client.cost(REMOVE, remove), (4, 3));
    // Buckets; record, swap and buckets; swap.
    assert_eq!(client.cost(FIND_OR_PUT, find_or_put), (7, 3));
}

#[test]
fn a_batch_costs_no_more_verbs() {
    let client = Client::new(Dimensions::fixed(1 << 16, 8));
    let keys: Vec<_> = (0..96).map(|number| record(number).0).collect();
    client.executor.block_on(async {
        for number in 0..96 {
            let (key, value) = record(number);
            assert!(client.table.put(&key, &value).await.unwrap());
        }
    });
    let doorbells = || {
        client
            .executor
            .endpoint()
            .core()
            .counters
            .snapshot()
            .doorbells
    };
    let before = doorbells();
    let spent = client.spent(GET, async |table| {
        let keys = keys.iter().map(|key| &key[..]);
        let mut found = 0;
        let done = |_, value: farslot_index::Result<Option<_>>| {
            found += u64::from(value.unwrap().is_some());
        };
        table.get_many(keys, done).await;
        assert_eq!(found, 96);
    });
    assert_eq!((spent.count, spent.round_trips), (96, 192));
    // Two READs of buckets each, one of the record, and now and then one of another key's.
    assert!((288..300).contains(&spent.verbs), "{spent:?}");
    assert!(
        doorbells() - before < 20,
        "32 lookups are under way at once"
    );
}

/// At a load of 0.9 an insertion accesses what paper 001 counts, 32 slots that it reads and a
/// record that it writes, and the 32 slots once more: the paper counts no second look.
#[test]
fn accesses_of_an_insertion_at_load_nine_tenths() {
    let client = Client::new(Dimensions::fixed(30_000, 8));
    let slots = client.table.layout().subtable_slots();
    let full = slots * 9 / 10;
    let put = async |table: &ShmTable, numbers: std::ops::Range<u64>| {
        for number in numbers {
            let (key, value) = record(number);
            assert!(table.put(&key, &value).await.unwrap());
        }
    };
    client.spent(PUT, async |table| put(table, 0..full).await);
    let spent = client.spent(PUT, async |table| put(table, full..full + 300).await);
    let each = |count: u64| count as f64 / spent.count as f64;
    let (verbs, trips) = (each(spent.verbs), each(spent.round_trips));
    println!(
        "{verbs:.3} verbs, {trips:.3} round trips, {:.1} bytes",
        each(spent.bytes)
    );
    // Of 29 other keys, one in nine has the tag of this one: its record is read.
    assert!((7.0..7.3).contains(&verbs), "{verbs}");
    assert!((3.0..3.3).contains(&trips), "{trips}");
    // Two times 32 slots of 8 bytes, two swaps, a record of 32, and the records of others.
    // And what is read of the heap's pages where the next are opened.
    assert!((560.0..600.0).contains(&each(spent.bytes)), "{spent:?}");
}

/// Puts keys until so many were refused; returns the records per slot before the first, and then.
fn load_factors(slots: u64, bucket_slots: u32, refusals: u64) -> (f64, f64) {
    let client = Client::new(Dimensions::fixed(slots, bucket_slots));
    let slots = client.table.layout().subtable_slots();
    client.executor.block_on(async {
        let (mut put, mut refused, mut first) = (0, 0, None);
        for number in 0.. {
            let (key, value) = record(number);
            match client.table.put(&key, &value).await {
                Ok(new) => put += u64::from(new),
                Err(IndexError::Full { .. }) => {
                    first.get_or_insert(put);
                    refused += 1;
                    if refused == refusals {
                        break;
                    }
                }
                Err(error) => panic!("{error}"),
            }
        }
        let survey = client.table.survey().await.unwrap();
        assert_eq!((survey.live, survey.slots), (put, slots));
        let of_slots = |put: u64| put as f64 / slots as f64;
        (of_slots(first.unwrap()), of_slots(put))
    })
}

/// Small tables get fuller than large ones before the first key finds no room: of more buckets,
/// some fill earlier.
#[test]
fn load_factor_at_the_first_refusal() {
    for (bucket_slots, expected) in [(4, 0.835), (8, 0.927), (12, 0.952), (16, 0.964)] {
        let (first, later) = load_factors(30_000, bucket_slots, 33);
        println!("d = {bucket_slots}: {first:.3}, 33 refusals {later:.3}");
        assert!(
            (first - expected).abs() < 0.03,
            "d = {bucket_slots}: {first}"
        );
        assert!(later > first && later < 1.0);
    }
}

/// Paper 001's size. Its comparison (0.817, 0.920, 0.947, 0.961) has a stash of 32 keys: it fails
/// with the 33rd that finds no room. This table has no stash, and says so with the first.
#[test]
#[ignore = "minutes: 12 million insertions"]
fn load_factor_at_three_million_slots() {
    let expected = [(4, 0.817), (8, 0.920), (12, 0.947), (16, 0.961)];
    for (bucket_slots, expected) in expected {
        let (first, later) = load_factors(3_000_000, bucket_slots, 33);
        println!("d = {bucket_slots}: {first:.4}, 33 refusals {later:.4}");
        assert!(
            (later / expected - 1.0).abs() < 0.012,
            "d = {bucket_slots}: {later}"
        );
    }
}

/// A client's directory is never longer than a table of its layout can need, whatever the memory
/// says.
#[test]
fn a_damaged_directory_takes_no_memory() {
    const GROWING: Dimensions = Dimensions {
        bucket_slots: 1,
        groups: 1,
        roots: 1,
        most_subtables: 64,
    };
    /// Splits of one line that the layout has room for: a client's array then has 2^16 entries of 4
    /// bytes.
    const MOST_DEPTH: u64 = 16;
    let client = Client::new(GROWING);
    let entry_at = |number: u64| TABLE.plus(4096 + 8 * number);
    // The first subtable is split, and split again.
    let entry = |number: u64| 1 << 63 | number << 57;
    let endpoint = client.executor.endpoint();
    client.executor.block_on(async {
        for number in 0..MOST_DEPTH {
            let word = endpoint
                .core()
                .buffers
                .copy_of(&entry(number).to_le_bytes());
            let written = endpoint.write(entry_at(number), word.unwrap()).await;
            written.unwrap();
        }
        client.table.occupancy().await.unwrap();
        assert_eq!(client.table.subtables(), 1 + MOST_DEPTH);
        let bytes = client.table.state().client_bytes;
        assert!((4 << 16..5 << 16).contains(&bytes), "{bytes}");
        let word = entry(MOST_DEPTH);
        let written = endpoint.compare_swap(entry_at(MOST_DEPTH), 0, word).await;
        assert_eq!(written.unwrap(), 0);
        let refused = client.table.occupancy().await.unwrap_err();
        let entry = MOST_DEPTH;
        assert_eq!(refused, IndexError::BadDirectory { entry, word });
        assert_eq!(client.table.state().client_bytes, bytes);
        let layout = client.table.layout().clone();
        let opened = RaceTable::open(Rc::clone(endpoint), TABLE, layout).await;
        assert_eq!(opened.map(drop), Err(refused));
    });
}
