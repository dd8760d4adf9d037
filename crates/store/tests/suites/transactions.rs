//! Transactions over the tables of a store.

use crate::common::TestStore;
use farslot::layout::RaceShape;
use farslot::{ErrorKind, FieldSize, KeyRange, Result, Store, StoreError, TableOptions};
use std::thread;

const ACCOUNTS: u8 = 8;
const CENTS: u64 = 1_000;

fn small() -> TableOptions {
    TableOptions::new(500)
        .keys(FieldSize::UpTo(8))
        .values(FieldSize::UpTo(8))
}

fn cents(value: Option<Vec<u8>>) -> u64 {
    let bytes = value.expect("every account is there");
    u64::from_le_bytes(bytes.try_into().expect("8 bytes"))
}

/// The accounts of even numbers are in a chained table, the others in an ordered one.
fn account(number: u8) -> (&'static str, [u8; 1]) {
    (["even", "odd"][usize::from(number % 2)], [number])
}

fn sum(store: &Store) -> Result<u64> {
    store.transaction(|t| {
        let mut sum = 0;
        for number in 0..ACCOUNTS {
            let (table, key) = account(number);
            sum += cents(t.get(table, &key)?);
        }
        Ok(sum)
    })
}

pub fn transfers_keep_the_sum_whoever_looks<S: TestStore>() {
    let node = S::start(64 << 20);
    let store = node.open();
    store.create("even", &small().chained()).unwrap();
    store.create("odd", &small().ordered()).unwrap();
    store
        .transaction(|t| {
            for number in 0..ACCOUNTS {
                let (table, key) = account(number);
                assert!(t.insert(table, &key, &CENTS.to_le_bytes())?);
            }
            Ok(())
        })
        .unwrap();
    let rounds = S::repeat(60);
    let move_cents = |store: &Store, client: u8| {
        for round in 0..rounds {
            let from = account((round as u8).wrapping_mul(5).wrapping_add(client) % ACCOUNTS);
            let to = account((round as u8).wrapping_mul(3) % ACCOUNTS);
            if from == to {
                continue;
            }
            let moved = store.transaction(|t| {
                let has = cents(t.get(from.0, &from.1)?);
                let others = cents(t.get(to.0, &to.1)?);
                let some = has.min(7);
                t.put(from.0, &from.1, &(has - some).to_le_bytes())?;
                t.put(to.0, &to.1, &(others + some).to_le_bytes())
            });
            moved.unwrap();
            assert_eq!(sum(store).unwrap(), u64::from(ACCOUNTS) * CENTS);
        }
    };
    match node.stranger() {
        // All of one simulated world, which one thread drives.
        None => move_cents(&store, 0),
        Some(other) => thread::scope(|scope| {
            scope.spawn(|| move_cents(&other, 1));
            move_cents(&store, 0);
        }),
    }
    assert_eq!(sum(&store).unwrap(), u64::from(ACCOUNTS) * CENTS);
    // Those who use the tables without transactions see the same.
    let tables = ["even", "odd"].map(|name| store.table(name).unwrap());
    let has = |number: u8| {
        let table = &tables[usize::from(number % 2)];
        cents(table.get(&[number]).unwrap())
    };
    assert_eq!(
        (0..ACCOUNTS).map(has).sum::<u64>(),
        u64::from(ACCOUNTS) * CENTS
    );
}

pub fn a_scan_is_a_range_at_one_moment<S: TestStore>() {
    let node = S::start(64 << 20);
    let store = node.open();
    store.create("names", &small().ordered()).unwrap();
    store.create("ages", &small().chained()).unwrap();
    let names = store.table("names").unwrap();
    for number in (0..60_u8).rev() {
        assert!(names.put(&[number], &[number]).unwrap());
    }
    let mut runs = 0;
    let found = store.transaction(|t| {
        runs += 1;
        let found = t.scan("names", &[10], 20)?;
        if runs == 1 {
            // Another client puts a key into the range, and takes one out.
            names.put(&[15, 1], b"new")?;
            names.remove(&[20])?;
        }
        t.put("names", &[99], &[found.len() as u8])?;
        Ok(found)
    });
    let keys: Vec<_> = found.unwrap().into_iter().map(|(key, _)| key).collect();
    let expected = (10..30).filter(|key| *key != 20).map(|key| vec![key]);
    let mut expected: Vec<_> = expected.collect();
    expected.insert(6, vec![15, 1]);
    assert_eq!(keys, expected);
    assert_eq!(runs, 2);
    // It sees what it has changed itself.
    let all = store.transaction(|t| {
        t.remove("names", &[10])?;
        t.insert("names", &[9, 9], b"")?;
        t.scan("names", &[9], 3)
    });
    let keys: Vec<_> = all.unwrap().into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, [vec![9], vec![9, 9], vec![11]]);
    let unordered = store.transaction(|t| t.scan("ages", b"", 1));
    let unordered = unordered.unwrap_err();
    assert!(unordered.to_string().contains("no order"), "{unordered}");
    assert_eq!(unordered.kind(), ErrorKind::Unsupported);
}

pub fn a_scan_goes_down_as_it_goes_up<S: TestStore>() {
    let node = S::start(64 << 20);
    let store = node.open();
    store.create("names", &small().ordered()).unwrap();
    let names = store.table("names").unwrap();
    for number in (0..=255_u8).step_by(3) {
        names.put(&[number], &[number]).unwrap();
    }
    let scan = |range: KeyRange<'_>, most| {
        let found = store.transaction(|t| t.scan("names", range, most));
        let keys = found.unwrap().into_iter().map(|(key, _)| key);
        keys.collect::<Vec<_>>()
    };
    let all = scan(KeyRange::default(), usize::MAX);
    assert_eq!(all.len(), 86);
    for bounds in [
        (&[][..], None),
        (&[30], Some(&[99][..])),
        (&[31], Some(&[100])),
        // No keys that the table can have.
        (&[99, 0, 0, 0, 0, 0, 0, 0, 0], None),
        (&[], Some(&[255, 255, 255, 255, 255, 255, 255, 255, 255])),
        (&[40], Some(&[40])),
        (&[41], Some(&[40])),
    ] {
        let up = KeyRange {
            from: bounds.0,
            to: bounds.1,
            is_reversed: false,
        };
        let expected = all.iter().filter(|key| up.has(key));
        let mut expected: Vec<_> = expected.cloned().collect();
        for most in [0, 1, 7, usize::MAX] {
            let some = &expected[..expected.len().min(most)];
            assert_eq!(scan(up, most), some, "{up:?}");
        }
        expected.reverse();
        for most in [0, 1, 7, usize::MAX] {
            let some = &expected[..expected.len().min(most)];
            assert_eq!(scan(up.reversed(), most), some, "{up:?}");
        }
    }
    // A key that comes into the range is a conflict, and one in another leaf is none.
    for (other, runs) in [([61], 2), ([253], 1)] {
        let mut run = 0;
        store
            .transaction(|t| {
                run += 1;
                let found = t.scan("names", KeyRange::from(&[60]).to(&[70]).reversed(), 9)?;
                if run == 1 {
                    names.put(&other, b"new")?;
                }
                t.put("names", &[200], &[found.len() as u8])
            })
            .unwrap();
        assert_eq!(run, runs);
    }
    // It sees what it has changed itself.
    let last = store.transaction(|t| {
        t.remove("names", &[255])?;
        t.insert("names", &[254, 9], b"")?;
        t.scan("names", KeyRange::default().reversed(), 2)
    });
    let keys: Vec<_> = last.unwrap().into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, [vec![254, 9], vec![253]]);
}

pub fn a_transaction_without_a_closure_ends_with_its_first_conflict<S: TestStore>() {
    let node = S::start(64 << 20);
    let store = node.open();
    store.create("t", &small().chained()).unwrap();
    let table = store.table("t").unwrap();
    let mut beaten = store.begin().unwrap();
    let mut first = store.begin().unwrap();
    for t in [&mut beaten, &mut first] {
        assert_eq!(t.get("t", b"a"), Ok(None));
        t.put("t", b"a", b"1").unwrap();
    }
    first.put("t", b"b", b"2").unwrap();
    first.commit().unwrap();
    let conflict = beaten.commit().unwrap_err();
    assert!(
        matches!(conflict, StoreError::Conflict { .. }),
        "{conflict}"
    );
    assert!(!conflict.may_have_taken_effect());
    let mut left = store.begin().unwrap();
    left.put("t", b"a", b"3").unwrap();
    drop(left);
    let mut given_up = store.begin().unwrap();
    given_up.put("t", b"a", b"4").unwrap();
    given_up.abort();
    assert!(given_up.put("t", b"a", b"5").is_err());
    let mut failed = store.begin().unwrap();
    failed.put("t", b"a", b"6").unwrap();
    failed.put("t", b"a long key", b"6").unwrap_err();
    assert_eq!(failed.commit().unwrap_err().kind(), ErrorKind::DoesNotFit);
    store.close_transactions();
    let both = store.transaction(|t| t.get_many(&[("t", b"a"), ("t", b"b")]));
    assert_eq!(both, Ok(vec![Some(b"1".to_vec()), Some(b"2".to_vec())]));
    // One that was made under the name of another is told from it.
    let record = table.record();
    let mut t = store.begin().unwrap();
    assert_eq!(t.is_table_of(record), Ok(true));
    store.drop_table("t").unwrap();
    store.create("t", &small().chained()).unwrap();
    let mut t = store.begin().unwrap();
    assert_eq!(t.is_table_of(store.table("t").unwrap().record()), Ok(true));
    // Found anew, it has what the transaction has put.
    t.put("t", b"twice", b"1").unwrap();
    assert_eq!(t.is_table_of(record), Ok(false));
    assert_eq!(t.get("t", b"twice").unwrap().as_deref(), Some(&b"1"[..]));
    t.put("t", b"twice", b"2").unwrap();
    assert_eq!(t.is_table_of(record), Ok(false));
    t.put("t", b"a", b"7").unwrap();
    t.commit().unwrap();
    let twice = store.table("t").unwrap().get(b"twice").unwrap();
    assert_eq!(twice.as_deref(), Some(&b"2"[..]));
}

pub fn a_transaction_is_all_or_nothing<S: TestStore>() {
    let node = S::start(64 << 20);
    let store = node.open();
    store.create("chained", &small().chained()).unwrap();
    store
        .create("race", &small().race(RaceShape::default()))
        .unwrap();
    let table = store.table("chained").unwrap();
    // What its body gives up, or fails with, changes nothing.
    let given_up = store.transaction(|t| {
        t.put("chained", b"a", b"1")?;
        t.abort();
        Ok(7)
    });
    assert_eq!(given_up, Ok(7));
    let failed: Result<()> = store.transaction(|t| {
        t.put("chained", b"a", b"1")?;
        Err(StoreError::HandleClosed)
    });
    assert_eq!(failed, Err(StoreError::HandleClosed));
    // Nor does one that hides that a step has failed.
    let hidden = store.transaction(|t| {
        t.put("chained", b"a", b"1")?;
        let _ = t.put("chained", b"a long key", b"1");
        Ok(())
    });
    assert!(hidden.is_err());
    let hidden = store.transaction(|t| {
        t.put("chained", b"a", b"1")?;
        let _ = t.get("nobody", b"a");
        let _ = t.scan("nobody either", b"a", 1);
        t.put("chained", b"b", b"1").unwrap_err();
        Ok(())
    });
    let missing = hidden.unwrap_err();
    assert!(missing.to_string().contains("nobody"), "{missing}");
    assert_eq!(missing.kind(), ErrorKind::NoSuchTable);
    assert_eq!(table.get(b"b"), Ok(None));
    let other_scheme = store
        .transaction(|t| t.put("race", b"a", b"1"))
        .unwrap_err();
    assert_eq!(other_scheme.kind(), ErrorKind::Unsupported);
    assert!(other_scheme.to_string().contains("race"), "{other_scheme}");
    let missing = store.transaction(|t| t.get("nobody", b"a")).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NoSuchTable);
    assert_eq!(table.get(b"a"), Ok(None));
    // Another that changes what was read has it run again.
    let mut runs = 0;
    store
        .transaction(|t| {
            runs += 1;
            let seen = t.get("chained", b"a")?;
            if runs == 1 {
                table.put(b"a", b"other")?;
            }
            t.put("chained", b"b", &seen.unwrap_or_default())
        })
        .unwrap();
    assert_eq!((runs, table.get(b"b")), (2, Ok(Some(b"other".to_vec()))));
    assert!(
        table
            .compare_and_set(b"b", Some(b"other"), b"mine")
            .unwrap()
    );
    assert!(
        !table
            .compare_and_set(b"b", Some(b"other"), b"yours")
            .unwrap()
    );
    assert_eq!(table.get(b"b"), Ok(Some(b"mine".to_vec())));
}

pub fn a_table_that_is_made_again_is_found_again<S: TestStore>() {
    let node = S::start(64 << 20);
    let store = node.open();
    store.create("t", &small().chained()).unwrap();
    store.transaction(|t| t.put("t", b"a", b"1")).unwrap();
    store.drop_table("t").unwrap();
    store.create("t", &small().ordered()).unwrap();
    let gone = store.transaction(|t| t.put("t", b"a", b"2"));
    assert_eq!(gone.unwrap_err().kind(), ErrorKind::TableGone);
    store.transaction(|t| t.put("t", b"a", b"2")).unwrap();
    assert_eq!(store.table("t").unwrap().get(b"a"), Ok(Some(b"2".to_vec())));
    store.clear("t").unwrap();
    assert_eq!(store.table("t").unwrap().get(b"a"), Ok(None));
}

pub fn keys_and_values_are_held_to_the_sizes_of_the_table<S: TestStore>() {
    let node = S::start(64 << 20);
    let store = node.open();
    let (key, value) = (FieldSize::Fixed(4), FieldSize::Fixed(2));
    let options = TableOptions::new(100).keys(key).values(value);
    for (name, options) in [
        ("chained", options.clone().chained()),
        ("ordered", options.ordered()),
    ] {
        store.create(name, &options).unwrap();
        let table = store.table(name).unwrap();
        let put = |key: &[u8], value: &[u8]| {
            let put = store.transaction(|t| t.put(name, key, value));
            assert_eq!(put, table.put(key, value).map(drop));
            let hidden = store.transaction(|t| {
                t.put(name, b"Nora", b"99")?;
                let _ = t.insert(name, key, value);
                Ok(())
            });
            assert_eq!(hidden.is_err(), put.is_err());
            put.map_err(|error| error.to_string())
        };
        assert!(put(b"", b"12").unwrap_err().contains("key"));
        assert!(put(b"Ann", b"12").unwrap_err().contains("exactly 4"));
        assert!(put(b"Annie", b"12").unwrap_err().contains("exactly 4"));
        assert!(put(b"Anna", b"123").unwrap_err().contains("exactly 2"));
        assert_eq!(table.get(b"Nora"), Ok(None));
        assert_eq!(put(b"Anna", b"12"), Ok(()));
        assert_eq!(table.get(b"Nora"), Ok(Some(b"99".to_vec())));
        for read in [
            store.transaction(|t| t.get(name, b"Ann").map(drop)),
            store.transaction(|t| t.get_many(&[(name, b"Anna"), (name, b"")]).map(drop)),
            store.transaction(|t| t.remove(name, b"Annie").map(drop)),
        ] {
            read.unwrap_err();
        }
    }
}
