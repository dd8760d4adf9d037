//! The chained table against a plain map: its callbacks alone, and its client over a fabric without
//! faults.

use crate::local::{ask, call, read};
use crate::sim::{OBJECT, client, limits, world};
use farslot_fabric::Executor;
use farslot_fabric::sim::World;
use farslot_remote::chained::{Cache, Chained, Shape, Table};
use farslot_remote::{Lock, LookupVerdict, PolicyOptions, RemoteError, RemoteStructure};
use farslot_rpc::Fault;
use farslot_testbed::PlainMemory;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::rc::Rc;

pub const SHAPE: Shape = Shape {
    at: 64,
    key_bytes: 10,
    value_bytes: 20,
    slots: 1,
    buckets: 4,
    most_buckets: 64,
    overflow: 100,
    split_after: 0,
    seed: 7,
};

fn run<T>(
    world: &World,
    shape: Shape,
    policy: PolicyOptions,
    test: impl AsyncFnOnce(Chained<farslot_fabric::sim::SimEndpoint>) -> T,
) -> T {
    let endpoint = world.endpoint(limits());
    let table = Table::new(shape).unwrap();
    let chained = Chained::new(table, OBJECT, client(&endpoint), 100, policy);
    Executor::new(Rc::clone(&endpoint)).block_on(test(chained))
}

fn served(shape: Shape) -> World {
    world(1, &Table::new(shape).unwrap(), shape.at + shape.bytes())
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, Vec<u8>),
    Insert(u8, Vec<u8>),
    Update(u8, Vec<u8>),
    Remove(u8),
    Get(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let value = || proptest::collection::vec(any::<u8>(), 0..=20);
    let key = || 0u8..40;
    prop_oneof![
        (key(), value()).prop_map(|(key, value)| Step::Put(key, value)),
        (key(), value()).prop_map(|(key, value)| Step::Insert(key, value)),
        (key(), value()).prop_map(|(key, value)| Step::Update(key, value)),
        key().prop_map(Step::Remove),
        key().prop_map(Step::Get),
    ]
}

fn shapes() -> impl Strategy<Value = Shape> {
    (
        1u8..=4,
        0u32..3,
        0u32..8,
        prop_oneof![Just(100u32), Just(6)],
    )
        .prop_map(|(slots, doublings, split_after, overflow)| Shape {
            slots,
            buckets: 1 << doublings,
            most_buckets: 30,
            overflow,
            split_after,
            ..SHAPE
        })
}

/// A key of 1 to 10 bytes.
fn key(number: u8) -> Vec<u8> {
    vec![number; usize::from(number % 10) + 1]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn does_what_a_map_does(shape in shapes(), steps in proptest::collection::vec(step(), 1..150)) {
        let world = served(shape);
        run(&world, shape, PolicyOptions::default(), async |table| {
            let mut model = BTreeMap::new();
            for step in steps {
                let at = match &step {
                    Step::Put(key, _) | Step::Insert(key, _) | Step::Update(key, _)
                    | Step::Remove(key) | Step::Get(key) => *key,
                };
                let bytes = key(at);
                let was = model.get(&at).cloned();
                let full = match step {
                    Step::Get(_) => {
                        let item = table.get(&bytes).await.unwrap();
                        assert_eq!(item.map(|item| item.value), was);
                        continue;
                    }
                    Step::Remove(_) => {
                        assert_eq!(table.remove(&bytes).await.unwrap(), was.is_some());
                        model.remove(&at);
                        continue;
                    }
                    Step::Update(_, value) => {
                        assert_eq!(table.update(&bytes, &value).await.unwrap(), was.is_some());
                        if was.is_some() {
                            model.insert(at, value);
                        }
                        continue;
                    }
                    Step::Put(_, value) => {
                        let end = table.put(&bytes, &value).await;
                        if end != Err(RemoteError::Full) {
                            model.insert(at, value);
                        }
                        end
                    }
                    Step::Insert(_, value) => {
                        let end = table.insert(&bytes, &value).await;
                        if end == Ok(true) {
                            model.insert(at, value);
                        }
                        end
                    }
                };
                match full {
                    Err(RemoteError::Full) => assert!(was.is_none() && shape.overflow == 6),
                    new => assert_eq!(new.unwrap(), was.is_none()),
                }
            }
            for number in 0..40 {
                let item = table.get(&key(number)).await.unwrap();
                assert_eq!(item.map(|item| item.value), model.remove(&number));
            }
        });
    }

    /// READs answer rightly or not at all, whatever the client believes of the number of buckets.
    #[test]
    fn no_stale_idea_leads_to_a_wrong_answer(
        shape in shapes(),
        steps in proptest::collection::vec((0u8..40, any::<bool>()), 1..120),
    ) {
        let table = Table::new(shape).unwrap();
        let mut memory = PlainMemory::of(shape.at + shape.bytes());
        let mut model = BTreeMap::new();
        // Clients that ask the owner seldom, and so know old numbers of buckets.
        let mut caches: Vec<_> = (0..6).map(|_| Cache::new(8)).collect();
        for (turn, (number, remove)) in steps.into_iter().enumerate() {
            let bytes = key(number);
            let value = [number; 5];
            let operation = if remove { 4 } else { 1 };
            let request = request(operation, 0, &bytes, if remove { &[] } else { &value });
            if call(&table, &mut memory, &request).is_ok() {
                if remove { model.remove(&number); } else { model.insert(number, value.to_vec()); }
            }
            let asking = turn % caches.len();
            ask(&table, &mut memory, &bytes, &mut caches[asking]);
            for (number, cache) in (0..40).zip((0..6).cycle()) {
                match read(&table, &memory, &key(number), &mut caches[cache]) {
                    LookupVerdict::Unknown => {}
                    LookupVerdict::Absent => unreachable!("an absent key is observed"),
                    LookupVerdict::Found(seen) => {
                        let value = seen.item.map(|item| item.value);
                        prop_assert_eq!(value.as_ref(), model.get(&number), "{}", number);
                    }
                }
            }
        }
    }

    /// Neither requests nor what clients may have written to the memory break the owner.
    #[test]
    fn no_bytes_break_the_owner(
        shape in shapes(),
        requests in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 1..20),
        valid in proptest::collection::vec((0u8..9, 0u8..20, any::<u8>()), 1..60),
        damage in proptest::collection::vec((any::<u16>(), any::<u64>()), 0..20),
    ) {
        let table = Table::new(shape).unwrap();
        let mut memory = PlainMemory::of(shape.at + shape.bytes());
        for (operation, number, lock) in &valid {
            let request = request(*operation, (*lock % 3).into(), &key(*number), &[7; 9]);
            let _ = call(&table, &mut memory, &request);
        }
        for (place, word) in damage {
            let place = usize::from(place) % memory.0.len();
            memory.0[place] = if word % 2 == 0 { word } else { word % 200 };
        }
        for request in requests {
            let _ = call(&table, &mut memory, &request);
        }
        let mut cache = Cache::new(4);
        for (operation, number, lock) in valid {
            let request = request(operation, (lock % 3).into(), &key(number), &[8; 9]);
            let _ = call(&table, &mut memory, &request);
            let _ = read(&table, &memory, &key(number), &mut cache);
        }
    }
}

fn request(operation: u8, lock: u64, key: &[u8], value: &[u8]) -> Vec<u8> {
    let head = u64::from(operation) | (key.len() as u64) << 16 | (value.len() as u64) << 32;
    [&head.to_le_bytes(), &lock.to_le_bytes(), key, value].concat()
}

#[test]
fn one_read_answers_while_the_table_is_oversubscribed() {
    let shape = Shape {
        buckets: 1024,
        most_buckets: 1024,
        ..SHAPE
    };
    let world = served(shape);
    run(&world, shape, PolicyOptions::default(), async |table| {
        for number in 0..100u32 {
            table.put(&number.to_le_bytes(), b"there").await.unwrap();
        }
        for number in 0..200u32 {
            let item = table.get(&number.to_le_bytes()).await.unwrap();
            assert_eq!(item.is_some(), number < 100);
        }
        let counts = table.remote().counts();
        assert_eq!(counts.by_call, 0);
        assert!(counts.by_read > 180, "{counts:?}");
    });
}

#[test]
fn chains_are_called_for_once_and_then_read_where_they_were() {
    let shape = Shape {
        buckets: 1,
        most_buckets: 1,
        ..SHAPE
    };
    let world = served(shape);
    run(&world, shape, PolicyOptions::default(), async |table| {
        for number in 0..5u8 {
            table.put(&[number], &[number]).await.unwrap();
        }
        for round in 0..3 {
            for number in 0..5u8 {
                let item = table.get(&[number]).await.unwrap().unwrap();
                assert_eq!(item.value, [number]);
            }
            let counts = table.remote().counts();
            assert_eq!((counts.by_both, counts.by_read), (4, 1 + 5 * round));
        }
        // A place that is not the key's any more is noticed.
        assert!(table.remove(&[3]).await.unwrap());
        table.put(&[9], b"instead").await.unwrap();
        assert_eq!(table.get(&[3]).await.unwrap(), None);
    });
}

#[test]
fn calls_that_become_too_many_make_the_table_grow_until_reads_answer_again() {
    let shape = Shape {
        buckets: 4,
        most_buckets: 512,
        overflow: 300,
        split_after: 4,
        seed: 7,
        ..SHAPE
    };
    let world = served(shape);
    run(&world, shape, PolicyOptions::default(), async |table| {
        for number in 0..200u32 {
            table.put(&number.to_le_bytes(), b"there").await.unwrap();
        }
        let lookups = async || {
            let before = table.remote().counts();
            for number in 0..200u32 {
                assert!(table.get(&number.to_le_bytes()).await.unwrap().is_some());
            }
            table.remote().counts().by_read - before.by_read
        };
        let first = lookups().await;
        for _ in 0..30 {
            lookups().await;
        }
        let last = lookups().await;
        assert!(last > 190 && first < last, "{first} {last}");
    });
}

#[test]
fn reads_that_fail_too_often_give_way_to_calls() {
    let shape = Shape {
        buckets: 1,
        most_buckets: 1,
        ..SHAPE
    };
    let world = served(shape);
    let endpoint = world.endpoint(limits());
    let table = Table::new(shape).unwrap();
    let policy = PolicyOptions::default();
    let table = Chained::new(table, OBJECT, client(&endpoint), 0, policy);
    Executor::new(Rc::clone(&endpoint)).block_on(async {
        for number in 0..50u8 {
            table.put(&[number], &[number]).await.unwrap();
        }
        for round in 0..10 {
            for number in 0..50u8 {
                let item = table.get(&[number]).await.unwrap().unwrap();
                assert_eq!(item.value, [number], "{round}");
            }
        }
        let counts = table.remote().counts();
        assert!(counts.by_call > 350, "{counts:?}");
        assert!(!table.remote().policy().prefers_reads());
    });
}

#[test]
fn a_lock_keeps_others_out_and_only_its_owner_in_its_epoch_releases_it() {
    let world = served(SHAPE);
    run(&world, SHAPE, PolicyOptions::default(), async |table| {
        let mine = Lock { owner: 1, epoch: 5 };
        let by = mine;
        let late = Lock { owner: 1, epoch: 4 };
        table.put(b"key", b"old").await.unwrap();
        let item = table.lock(b"key", mine).await.unwrap().unwrap();
        assert_eq!((&*item.value, item.lock), (&b"old"[..], Some(mine)));
        assert!(table.lock(b"key", mine).await.unwrap().is_some());
        for other in [late, Lock { owner: 2, epoch: 5 }] {
            let locked = table.lock(b"key", other).await.unwrap_err();
            assert_eq!(locked, RemoteError::Locked { by });
            let lock = other;
            let not_held = RemoteError::NotHeld { lock };
            assert_eq!(table.unlock(b"key", other).await.unwrap_err(), not_held);
            let commit = table.commit(b"key", other, Some(b"no")).await;
            assert_eq!(commit.unwrap_err(), not_held);
        }
        let put = table.put(b"key", b"no").await.unwrap_err();
        assert_eq!(put, RemoteError::Locked { by });
        assert!(matches!(
            table.remove(b"key").await,
            Err(RemoteError::Locked { .. })
        ));
        // Readers see the old value, and that it is locked.
        let seen = table.get(b"key").await.unwrap().unwrap();
        assert_eq!((&*seen.value, seen.lock), (&b"old"[..], Some(mine)));
        table.commit(b"key", mine, Some(b"new")).await.unwrap();
        let seen = table.get(b"key").await.unwrap().unwrap();
        assert_eq!((&*seen.value, seen.lock), (&b"new"[..], None));
        assert!(seen.version > item.version);
        assert!(table.unlock(b"key", mine).await.is_err());

        // An absent key is locked as well, and is absent until it is committed.
        assert_eq!(table.lock(b"other", mine).await.unwrap(), None);
        assert_eq!(table.get(b"other").await.unwrap(), None);
        assert!(matches!(
            table.insert(b"other", b"no").await,
            Err(RemoteError::Locked { .. })
        ));
        table.unlock(b"other", mine).await.unwrap();
        assert!(table.insert(b"other", b"yes").await.unwrap());
        assert_eq!(table.lock(b"third", mine).await.unwrap(), None);
        table.commit(b"third", mine, Some(b"3")).await.unwrap();
        assert_eq!(table.get(b"third").await.unwrap().unwrap().value, b"3");
        table.lock(b"third", mine).await.unwrap().unwrap();
        table.commit(b"third", mine, None).await.unwrap();
        assert_eq!(table.get(b"third").await.unwrap(), None);
    });
}

#[test]
fn what_has_no_room_is_refused() {
    let world = served(SHAPE);
    run(&world, SHAPE, PolicyOptions::default(), async |table| {
        let long = table.put(&[1; 11], b"").await.unwrap_err();
        let (subject, bytes, limit) = ("a key", 11, 10);
        assert_eq!(
            long,
            RemoteError::TooLong {
                subject,
                bytes,
                limit
            }
        );
        let long = table.put(&[1; 10], &[2; 21]).await.unwrap_err();
        assert!(matches!(
            long,
            RemoteError::TooLong {
                subject: "a value",
                ..
            }
        ));
        assert!(table.put(&[], &[]).await.unwrap());
        assert!(table.get(&[]).await.unwrap().unwrap().value.is_empty());
    });
    assert!(Table::new(Shape { slots: 0, ..SHAPE }).is_err());
    let table = Table::new(SHAPE).unwrap();
    assert!(table.reply_bytes() > 20);
}

/// A table of one bucket, and room for chains of any length.
const ONE_BUCKET: Shape = Shape {
    buckets: 1,
    most_buckets: 1,
    overflow: 1000,
    ..SHAPE
};

#[test]
fn a_chain_has_so_many_entries_and_no_more() {
    let table = Table::new(ONE_BUCKET).unwrap();
    let mut memory = PlainMemory::of(ONE_BUCKET.at + ONE_BUCKET.bytes());
    let mut put = |number: u16| {
        let request = request(1, 0, &number.to_le_bytes(), b"v");
        call(&table, &mut memory, &request)
    };
    let fit = (0..1000).take_while(|number| put(*number).is_ok()).count();
    assert_eq!(fit, 257);
    // Those that are there are changed, and make room.
    assert!(put(3).is_ok());
    assert!(matches!(put(999), Err(Fault::Refused(_))));
    call(
        &table,
        &mut memory,
        &request(4, 0, &3u16.to_le_bytes(), &[]),
    )
    .unwrap();
    let request = request(1, 0, &999u16.to_le_bytes(), b"v");
    assert!(call(&table, &mut memory, &request).is_ok());
}

#[test]
fn a_chain_that_was_made_longer_is_damaged() {
    let table = Table::new(ONE_BUCKET).unwrap();
    let mut memory = PlainMemory::of(ONE_BUCKET.at + ONE_BUCKET.bytes());
    for number in 0..3u16 {
        let request = request(1, 0, &number.to_le_bytes(), b"v");
        call(&table, &mut memory, &request).unwrap();
    }
    // Each entry names the next one, as far as there are any.
    let entry_words = 1 + 4 + 2 + 3;
    let first = memory.0.len() - 1000 * entry_words;
    for entry in 1..1000 {
        memory.0[first + (entry - 1) * entry_words] = entry as u64 + 1;
    }
    memory.0[(ONE_BUCKET.at as usize + 64) / 8 + 1] |= 1;
    for request in [
        request(0, 0, b"absent", &[]),
        request(1, 0, b"absent", b"v"),
        request(9, 0, &[], &[]),
    ] {
        let end = call(&table, &mut memory, &request);
        assert_eq!(end, Err(Fault::Damaged), "{request:?}");
    }
}

#[test]
fn a_key_without_room_has_few_buckets_split_for_it() {
    let shape = Shape {
        overflow: 0,
        most_buckets: 4000,
        ..ONE_BUCKET
    };
    let table = Table::new(shape).unwrap();
    let mut memory = PlainMemory::of(shape.at + shape.bytes());
    let keys = (0..2000u16).map(u16::to_le_bytes);
    for key in keys {
        let extra = memory.0[shape.at as usize / 8];
        let _ = call(&table, &mut memory, &request(1, 0, &key, b"v"));
        let splits = memory.0[shape.at as usize / 8] - extra;
        assert!(splits <= 16, "{splits}");
    }
    assert!(memory.0[shape.at as usize / 8] > 100);
}

#[test]
fn a_visit_goes_on_within_a_bucket_that_is_larger_than_a_reply() {
    let shape = Shape {
        value_bytes: 16_000,
        overflow: 64,
        ..ONE_BUCKET
    };
    let world = served(shape);
    run(&world, shape, PolicyOptions::default(), async |table| {
        for number in 0..30u8 {
            table.put(&[number], &[number; 16_000]).await.unwrap();
        }
        let (mut met, mut from, mut pieces) = (Vec::new(), 0, 0u8);
        loop {
            let visit = |key: &[u8], value: &[u8]| met.push((key[0], value.len()));
            let next = table.visit(from, visit).await.unwrap();
            pieces += 1;
            // Others come and go, and change places.
            table.put(&[100 + pieces], b"new").await.unwrap();
            assert!(table.remove(&[pieces]).await.unwrap());
            match next {
                Some(next) => from = next,
                None => break,
            }
            assert!(from < 1 << 48, "{from}");
        }
        assert!(pieces > 10, "{pieces}");
        met.sort_unstable();
        assert!(met.windows(2).all(|pair| pair[0].0 != pair[1].0), "{met:?}");
        for number in pieces + 1..30 {
            assert!(met.contains(&(number, 16_000)), "{number}: {met:?}");
        }
    });
}
