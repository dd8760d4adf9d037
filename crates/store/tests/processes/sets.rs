//! Processes that put the same elements into one set, some of which are killed at any moment.

use crate::common::{Served, patient};
use crate::roles::{Other, is_whole, value_of};
use farslot::{FieldSize, Store, Table, TableOptions};
use std::collections::HashSet;

/// Elements that each process puts.
const ELEMENTS: u64 = 4_000;
/// Of one batch: what a process that is killed may have put without saying so.
const BATCH: u64 = 40;

fn records(numbers: std::ops::Range<u64>) -> Vec<([u8; 8], [u8; 48])> {
    let record = |number: u64| (number.to_le_bytes(), value_of(number));
    numbers.map(record).collect()
}

/// Finds or puts a batch; returns the numbers of those that are new. `values` are of sets that have
/// any.
fn put_batch(table: &Table, numbers: std::ops::Range<u64>, values: bool) -> Vec<u64> {
    let (records, mut new) = (records(numbers.clone()), Vec::new());
    let borrowed: Vec<_> = records
        .iter()
        .map(|(key, value)| (&key[..], if values { &value[..] } else { &[] }))
        .collect();
    let put = table.find_or_put_many(&borrowed, |at, found| match found {
        None => new.push(numbers.start + at as u64),
        Some(found) => assert_eq!(found, borrowed[at].1, "it is not whole"),
    });
    put.unwrap();
    new
}

/// Puts all elements, and says which were new.
pub fn put_all(address: &str, name: &str) {
    let store = Store::open_with(address, patient()).unwrap();
    let table = store.table(name).unwrap();
    let values = table.scheme().record_sizes().1.most() > 0;
    for first in (0..ELEMENTS).step_by(BATCH as usize) {
        for number in put_batch(&table, first..first + BATCH, values) {
            println!("new {number}");
        }
        println!("under way");
    }
    table.close().unwrap();
    println!("done");
}

pub fn who_is_killed_leaves_whole_elements_that_others_find<S: Served>() {
    let node = S::start(64 << 20);
    let store = node.open();
    let sized = |value| {
        let options = TableOptions::new(ELEMENTS).keys(FieldSize::Fixed(8));
        options.values(FieldSize::Fixed(value)).set()
    };
    for round in 0..2 * S::repeat(3) {
        let name = format!("s{round}");
        let values = round % 2 == 1;
        let options = sized(if values { 48 } else { 0 });
        store.create(&name, &options).unwrap();
        let start = || Other::start("putter", &node.address(), &name);
        let (mut killed, mut others) = (start(), [start(), start()]);
        killed.wait_for("under way");
        for _ in 0..3 * round {
            killed.wait_for("under way");
        }
        killed.kill();
        let mut told = HashSet::new();
        for other in &mut others {
            other.end();
            for number in other.rest("new ") {
                assert!(told.insert(number.parse::<u64>().unwrap()), "put twice");
            }
        }
        // Of what nobody else has put, the one that was killed has put all.
        let table = store.table(&name).unwrap();
        let mut met = HashSet::new();
        let visiting = table.for_each(|key, value| {
            assert!(!values || is_whole(value), "{key:?} has {value:?}");
            let number = u64::from_le_bytes(key.try_into().unwrap());
            assert!(met.insert(number), "{number} is there twice");
        });
        visiting.unwrap();
        assert!(met == (0..ELEMENTS).collect(), "{} elements", met.len());
        let by_killed = ELEMENTS - told.len() as u64;
        assert!(by_killed < ELEMENTS, "the others have put some");
        assert!(put_batch(&table, 0..ELEMENTS, values).is_empty());
        let survey = table.survey().unwrap();
        assert_eq!(survey.live(), ELEMENTS);
        let counted = table.occupancy().unwrap().entries;
        // What it had not reported is put right by the survey, but for less than a report.
        assert!(ELEMENTS - counted <= 1, "{counted}");
        store.drop_table(&name).unwrap();
    }
}
