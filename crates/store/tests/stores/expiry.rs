//! Records with a time to live.

use farslot::layout::{CuckooShape, DuoShape, RaceShape};
use farslot::{
    ErrorKind, Expiry, FieldSize, IndexError, OpenOptions, Operation, Outcome, Server, Store,
    TableOptions,
};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::HashMap;
use std::time::Duration;

const MIB: u64 = 1 << 20;
const LONG: Duration = Duration::from_secs(100_000);

/// Tables of all kinds that can be made so.
fn kinds() -> [(&'static str, TableOptions); 5] {
    let sized = || TableOptions::new(500).values(FieldSize::UpTo(40));
    [
        ("default", TableOptions::default()),
        ("race", sized().race(RaceShape::default()).expiring(true)),
        ("linear", sized().expiring(true)),
        ("inline", sized().values(FieldSize::Fixed(4)).expiring(true)),
        (
            "heap",
            sized().slots(farslot::SlotKind::Heap).expiring(true),
        ),
    ]
}

fn stores() -> Vec<(Store, Option<Server>)> {
    let server = Server::start("tcp://127.0.0.1:0", 64 * MIB).unwrap();
    let address = server.addresses()[0].to_string();
    vec![
        (
            Store::embedded_with(64 * MIB, OpenOptions::default()).unwrap(),
            None,
        ),
        (
            Store::open("sim://cx5-edr?seed=1&nodes=3&memory=32MiB").unwrap(),
            None,
        ),
        (Store::open(&address).unwrap(), Some(server)),
    ]
}

/// Of 4 bytes, so that all kinds take it.
fn value(number: u32) -> [u8; 4] {
    number.to_le_bytes()
}

/// Whatever is done, in whatever batches, is what a map does whose records may have been put so
/// that they have expired.
#[test]
fn what_has_expired_is_absent_to_every_operation() {
    let seed = rand::random();
    println!("seed {seed}");
    let mut rng = SmallRng::seed_from_u64(seed);
    for (store, server) in stores() {
        for (name, options) in kinds() {
            store.create(name, &options).unwrap();
            let table = store.table(name).unwrap();
            let mut model: HashMap<u32, [u8; 4]> = HashMap::new();
            for step in 0..40 {
                let mut keys: Vec<u32> = (0..30).collect();
                keys.retain(|_| rng.random_bool(0.5));
                for key in &keys {
                    // Others have put these, to live long, for ever, or not at all.
                    let mine = value(rng.random_range(0..4));
                    match rng.random_range(0..6) {
                        0 => {
                            table.put_for(&key.to_le_bytes(), &mine, LONG).unwrap();
                            model.insert(*key, mine);
                        }
                        1 => {
                            let key = &key.to_le_bytes();
                            table.put_for(key, &mine, Duration::ZERO).unwrap();
                            model.remove(&u32::from_le_bytes(*key));
                        }
                        2 => {
                            let span = [None, Some(LONG), Some(Duration::ZERO)];
                            let span = span[rng.random_range(0..3)];
                            let bytes = key.to_le_bytes();
                            let was = table.set_time_to_live(&bytes, span).unwrap();
                            assert_eq!(was, model.contains_key(key));
                            if span == Some(Duration::ZERO) {
                                model.remove(key);
                            }
                        }
                        _ => {}
                    }
                }
                batch(&table, &keys, &mut model, &mut rng);
                let mut seen = HashMap::new();
                table
                    .for_each(|key, value| {
                        let key = u32::from_le_bytes(key.try_into().unwrap());
                        let other = seen.insert(key, <[u8; 4]>::try_from(value).unwrap());
                        assert_eq!(other, None);
                    })
                    .unwrap();
                assert_eq!(seen, model, "{name}, step {step}");
            }
            let all = table.survey().unwrap().live();
            let removed = table.remove_expired().unwrap();
            let live = model.len() as u64;
            // A server sweeps too: what it removes in between, this has not.
            let left = all - removed;
            assert!(
                if server.is_some() {
                    left >= live
                } else {
                    left == live
                },
                "{name}: {left}"
            );
            assert_eq!(table.survey().unwrap().live(), live, "{name}");
        }
    }
}

/// Runs an operation of a random kind on each of these keys, side by side or one after the other.
fn batch(
    table: &farslot::Table,
    keys: &[u32],
    model: &mut HashMap<u32, [u8; 4]>,
    rng: &mut SmallRng,
) {
    let keys: Vec<[u8; 4]> = keys.iter().map(|key| key.to_le_bytes()).collect();
    let values: Vec<_> = keys
        .iter()
        .map(|_| [value(rng.random_range(0..4)), value(rng.random_range(0..4))])
        .collect();
    let (mut operations, mut expected) = (Vec::new(), Vec::new());
    for (key, [one, other]) in keys.iter().zip(&values) {
        let number = u32::from_le_bytes(*key);
        let there = model.get(&number).copied();
        let found = |value: Option<[u8; 4]>| Outcome::Value(value.map(|value| value.to_vec()));
        let (operation, outcome) = match rng.random_range(0..7) {
            0 => (Operation::Get(key), Some(found(there))),
            1 => {
                model.insert(number, *one);
                // Whether it is new is not said where one has expired.
                let outcome = there.map(|_| Outcome::Changed(false));
                (Operation::Put(key, one), outcome)
            }
            2 => {
                model.entry(number).or_insert(*one);
                (Operation::FindOrPut(key, one), Some(found(there)))
            }
            3 => {
                model.entry(number).and_modify(|value| *value = *one);
                let outcome = Outcome::Changed(there.is_some());
                (Operation::Update(key, one), Some(outcome))
            }
            4 => {
                model.remove(&number);
                let outcome = Outcome::Changed(there.is_some());
                (Operation::Remove(key), Some(outcome))
            }
            5 => {
                let is_it = there == Some(*one);
                if is_it {
                    model.insert(number, *other);
                }
                let outcome = Outcome::Changed(is_it);
                (Operation::Replace(key, one, other), Some(outcome))
            }
            _ => {
                let is_it = there == Some(*one);
                if is_it {
                    model.remove(&number);
                }
                (Operation::RemoveIf(key, one), Some(Outcome::Changed(is_it)))
            }
        };
        operations.push(operation);
        expected.push(outcome);
    }
    let mut answered = 0;
    let ran = table.run_many(&operations, |number, outcome| {
        let outcome = outcome.map(|value| value.to_vec());
        if let Some(expected) = &expected[number] {
            assert_eq!(outcome, *expected, "{:?}", operations[number]);
        }
        answered += 1;
    });
    assert_eq!((ran, answered), (Ok(()), operations.len()));
    let slices: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    table
        .get_many(&slices, |number, told| {
            let key = u32::from_le_bytes(keys[number]);
            assert_eq!(told, model.get(&key).map(|value| &value[..]));
        })
        .unwrap();
    for key in &keys {
        let there = model.get(&u32::from_le_bytes(*key));
        assert_eq!(table.get(key).unwrap().as_deref(), there.map(|it| &it[..]));
        assert_eq!(table.contains_key(key).unwrap(), there.is_some());
    }
}

#[test]
fn a_value_that_is_replaced_keeps_its_time_and_one_that_is_put_has_none() {
    let store = Store::embedded_with(64 * MIB, OpenOptions::default()).unwrap();
    store.create("t", &TableOptions::default()).unwrap();
    let table = store.table("t").unwrap();
    let left = |key: &[u8]| table.get_with_time_to_live(key).unwrap().unwrap().1;
    table.put_for(b"n", b"1", LONG).unwrap();
    assert_eq!(table.increment(b"n", 4).unwrap(), 5);
    assert!(table.compare_and_set(b"n", Some(b"5"), b"6").unwrap());
    assert!(table.update(b"n", b"7").unwrap());
    let still = left(b"n").unwrap();
    assert!(still <= LONG && still > LONG / 2, "{still:?}");
    table.put(b"n", b"8").unwrap();
    assert_eq!(left(b"n"), None);
    assert!(table.set_time_to_live(b"n", Some(LONG)).unwrap());
    assert!(left(b"n").is_some());
    assert!(table.set_time_to_live(b"n", None).unwrap());
    assert_eq!(left(b"n"), None);
    table.put_for(b"n", b"9", Duration::ZERO).unwrap();
    assert_eq!(
        table.increment(b"n", 1).unwrap(),
        1,
        "it counts from 0 again"
    );
    let records: [(&[u8], &[u8]); 2] = [(b"a", b"1"), (b"b", b"2")];
    let mut new = 0;
    table
        .put_many_for(&records, LONG, |_, put| new += u32::from(put))
        .unwrap();
    assert!(new == 2 && left(b"b").is_some());
}

#[test]
fn a_batch_with_times_that_nothing_can_have_fails_each_record() {
    let store = Store::embedded_with(64 * MIB, OpenOptions::default()).unwrap();
    let options = TableOptions::new(64).expiring(false);
    store.create("lasting", &options).unwrap();
    store.create("t", &TableOptions::default()).unwrap();
    let records: [(&[u8], &[u8]); 2] = [(b"a", b"1"), (b"b", b"2")];
    let lasting = store.table("lasting").unwrap();
    let until = records.map(|record| (record, Expiry::NEVER));
    let done = |_, _| panic!("nothing is done");
    let long = Expiry::LONGEST + Duration::from_secs(1);
    let refused = [
        (
            lasting.put_many_for(&records, LONG, done),
            ErrorKind::Unsupported,
        ),
        (lasting.put_many_until(&until, done), ErrorKind::Unsupported),
        (
            store.table("t").unwrap().put_many_for(&records, long, done),
            ErrorKind::BadInput,
        ),
    ];
    for (refused, kind) in refused {
        let refused = refused.unwrap_err();
        let kinds = refused.failures().iter();
        let kinds = kinds.map(|(number, error)| (*number, error.kind()));
        assert_eq!(kinds.collect::<Vec<_>>(), [(0, kind), (1, kind)]);
    }
    assert_eq!(lasting.put_many_for(&[], LONG, done), Ok(()));
}

#[test]
fn sizes_and_schemes_that_cannot_expire_are_refused_by_the_users_sizes() {
    let store = Store::embedded_with(64 * MIB, OpenOptions::default()).unwrap();
    let options = TableOptions::new(10)
        .values(FieldSize::Fixed(4))
        .expiring(true);
    let record = store.create("t", &options).unwrap();
    assert_eq!(record.scheme.record_sizes().1, FieldSize::Fixed(4));
    let table = store.table("t").unwrap();
    let refused = [
        table.put(b"k", b"12345").unwrap_err(),
        table.put_for(b"k", b"12345", LONG).unwrap_err(),
        table.find_or_put(b"k", b"").unwrap_err(),
    ];
    for (error, len) in refused.iter().zip([5, 5, 0]) {
        assert_eq!(error.kind(), ErrorKind::DoesNotFit);
        let said = error.to_string();
        assert!(
            said.contains(&len.to_string()) && said.contains("exactly 4"),
            "{said}"
        );
    }
    store.create("plain", &TableOptions::new(10)).unwrap();
    let plain = store.table("plain").unwrap();
    let refused = plain.put_for(b"k", b"v", LONG).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
    assert!(plain.set_time_to_live(b"k", None).is_err());
    assert_eq!(plain.remove_expired().unwrap(), 0);
    for options in [
        TableOptions::new(10).cuckoo(CuckooShape::default()),
        TableOptions::new(10).sealed(),
        TableOptions::new(10).multi_key(),
    ] {
        let refused = store.create("other", &options.expiring(true)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::BadInput, "{refused}");
    }
}

/// A record that is put anew is never taken by those who remove the one that has expired.
#[test]
fn sweeping_takes_nothing_that_was_put_meanwhile() {
    let store = Store::embedded_with(64 * MIB, OpenOptions::default()).unwrap();
    store.create("t", &TableOptions::default()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let table = store.table("t").unwrap();
                for _ in 0..300 {
                    table.remove_expired().unwrap();
                }
            });
        }
        for thread in 0..2_u32 {
            let store = &store;
            scope.spawn(move || {
                let table = store.table("t").unwrap();
                for round in 0..2_000_u32 {
                    let key = [thread as u8, (round % 7) as u8];
                    table.put_for(&key, b"gone", Duration::ZERO).unwrap();
                    assert_eq!(table.get(&key).unwrap(), None);
                    assert_eq!(table.find_or_put(&key, &round.to_le_bytes()).unwrap(), None);
                    assert_eq!(table.get(&key).unwrap().unwrap(), round.to_le_bytes());
                    assert!(table.remove(&key).unwrap());
                }
            });
        }
    });
}

#[test]
fn a_server_removes_what_has_expired_from_its_part_of_every_table() {
    let servers = [(); 2].map(|()| Server::start("tcp://127.0.0.1:0", 64 * MIB).unwrap());
    let hosts = servers
        .each_ref()
        .map(|server| server.addresses()[0].to_string());
    let second = hosts[1].strip_prefix("tcp://").unwrap();
    let both = Store::open(&format!("{},{second}", hosts[0])).unwrap();
    both.create("spread", &TableOptions::default()).unwrap();
    let one = Store::open(&hosts[0]).unwrap();
    one.create("one", &TableOptions::new(1_000).expiring(true))
        .unwrap();
    for (store, name) in [(&both, "spread"), (&one, "one")] {
        let table = store.table(name).unwrap();
        for key in 0..200_u32 {
            let span = if key % 2 == 0 { Duration::ZERO } else { LONG };
            table.put_for(&key.to_le_bytes(), b"v", span).unwrap();
        }
        while table.survey().unwrap().live() > 100 {
            std::thread::yield_now();
        }
        assert_eq!(table.survey().unwrap().live(), 100);
        store.drop_table(name).unwrap();
    }
    assert_eq!(servers.iter().map(Server::expired).sum::<u64>(), 200);
}

/// What a snapshot has, and what a table that is cleared or made anew is, knows of it too.
#[test]
fn times_to_live_come_back_from_a_snapshot() {
    let store = Store::embedded_with(64 * MIB, OpenOptions::default()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    store.create("t", &TableOptions::default()).unwrap();
    let table = store.table("t").unwrap();
    table.put_for(b"short", b"1", Duration::ZERO).unwrap();
    table.put_for(b"long", b"2", LONG).unwrap();
    table.put(b"ever", b"3").unwrap();
    let go_on = |_| std::ops::ControlFlow::Continue(());
    store.snapshot("t", directory.path(), &go_on).unwrap();
    store.drop_table("t").unwrap();
    store.restore("t", directory.path(), &go_on).unwrap();
    let table = store.table("t").unwrap();
    let at = |key: &[u8]| table.get_with_time_to_live(key).unwrap();
    assert_eq!(at(b"short"), None);
    let (value, left) = at(b"long").unwrap();
    assert!(value == b"2" && left.unwrap() > LONG / 2, "{left:?}");
    assert_eq!(at(b"ever"), Some((b"3".to_vec(), None)));
    store.clear("t").unwrap();
    let table = store.table("t").unwrap();
    table.put_for(b"k", b"v", LONG).unwrap();
    let stored = store.stored_table("t").unwrap().get(b"k").unwrap().unwrap();
    let (expiry, value) = Expiry::split(&stored).unwrap();
    assert!(value == b"v" && expiry.left(Expiry::now()).unwrap() <= LONG);
}

#[test]
fn a_time_to_live_over_the_limit_is_refused_by_its_value_and_the_limit() {
    let store = Store::embedded_with(64 * MIB, OpenOptions::default()).unwrap();
    store.create("t", &TableOptions::default()).unwrap();
    let table = store.table("t").unwrap();
    table.put_for(b"k", b"v", Expiry::LONGEST).unwrap();
    let long = Expiry::LONGEST + Duration::from_secs(1);
    let records: [(&[u8], &[u8]); 1] = [(b"k", b"w")];
    for refused in [
        table.put_for(b"k", b"w", long).unwrap_err(),
        table
            .put_many_for(&records, long, |_, _| ())
            .unwrap_err()
            .into_first(),
        table.set_time_to_live(b"k", Some(long)).unwrap_err(),
        table
            .set_time_to_live(b"absent", Some(Duration::MAX))
            .unwrap_err(),
    ] {
        assert_eq!(refused.kind(), ErrorKind::BadInput, "{refused}");
        let said = refused.to_string();
        assert!(said.contains("100000 days"), "{said}");
        let value = [long, Duration::MAX].map(|span| format!("{span:?}"));
        assert!(value.iter().any(|value| said.contains(value)), "{said}");
    }
    assert_eq!(table.get(b"k").unwrap().unwrap(), b"v");
}

#[test]
fn numbers_are_counted_where_a_value_is_replaced_in_one_step_and_nowhere_else() {
    let store = Store::embedded_with(64 * MIB, OpenOptions::default()).unwrap();
    let options = TableOptions::new(64).values(FieldSize::UpTo(8));
    store.create("linear", &options.clone()).unwrap();
    store
        .create("race", &options.clone().race(RaceShape::default()))
        .unwrap();
    store
        .create("cuckoo", &options.clone().cuckoo(CuckooShape::default()))
        .unwrap();
    store
        .create("duo", &options.clone().duo(DuoShape::default()))
        .unwrap();
    for name in ["linear", "race", "cuckoo", "duo"] {
        let table = store.table(name).unwrap();
        if ["linear", "race"].contains(&name) {
            assert_eq!(table.increment(b"k", 41), Ok(41));
            assert_eq!(table.increment(b"k", 1), Ok(42));
            continue;
        }
        // Nothing is put either, so that it does not fail the second time alone.
        let refused = table.increment(b"k", 41).unwrap_err();
        assert_eq!(refused, IndexError::NotAtomic { scheme: name }.into());
        assert_eq!(table.get(b"k"), Ok(None));
    }
}

/// What does not fit is the sum, which no user has given as a value.
#[test]
fn a_sum_that_does_not_fit_is_named_with_the_size_of_the_values() {
    let store = Store::embedded_with(64 * MIB, OpenOptions::default()).unwrap();
    let options = TableOptions::new(10).values(FieldSize::Fixed(8));
    store.create("eight", &options).unwrap();
    let eight = store.table("eight").unwrap();
    let refused = eight.increment(b"k", 1).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::DoesNotFit);
    let said = refused.to_string();
    assert!(
        said.contains("the number 1 takes 1 byte as text") && said.contains("exactly 8 bytes"),
        "{said}"
    );
    assert_eq!(eight.get(b"k").unwrap(), None);
    let options = TableOptions::new(10).values(FieldSize::UpTo(1));
    store.create("digit", &options).unwrap();
    let digit = store.table("digit").unwrap();
    assert_eq!(digit.increment(b"k", 9).unwrap(), 9);
    let said = digit.increment(b"k", 1).unwrap_err().to_string();
    assert!(
        said.contains("10 takes 2 bytes") && said.contains("at most 1 byte:"),
        "{said}"
    );
    let said = digit.put(b"k", b"ab").unwrap_err().to_string();
    assert!(
        said.ends_with("the table's values have at most 1 byte"),
        "{said}"
    );
}
