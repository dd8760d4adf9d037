//! The queue against a plain one, and under faults.

use crate::local::{ask, call, read};
use crate::sim::{OBJECT, client, faults, limits, world};
use farslot_fabric::sim::{HostId, RunEnd, Simulation};
use farslot_fabric::{EndpointExt, Executor};
use farslot_remote::queue::{Fifo, FrontHint, Queue, QueueShape};
use farslot_remote::{LookupVerdict, PolicyOptions, RemoteError};
use farslot_testbed::PlainMemory;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

const SHAPE: QueueShape = QueueShape {
    at: 8,
    slots: 7,
    value_bytes: 40,
};

/// A request to add an item, and one to take one.
fn push(value: &[u8]) -> Vec<u8> {
    [&[1][..], &(value.len() as u32).to_le_bytes(), value].concat()
}
const POP: [u8; 5] = [2, 1, 0, 0, 0];

proptest! {
    #[test]
    fn does_what_a_deque_does(
        steps in proptest::collection::vec((0u8..8, proptest::collection::vec(any::<u8>(), 0..=40)), 1..120),
    ) {
        let queue = Queue::new(SHAPE).unwrap();
        let world = world(1, &queue, SHAPE.at + SHAPE.bytes());
        let endpoint = world.endpoint(limits());
        let fifo = Fifo::new(queue, OBJECT, client(&endpoint), PolicyOptions::default());
        Executor::new(Rc::clone(&endpoint)).block_on(async {
            let (mut model, mut added) = (VecDeque::new(), 0);
            for (step, value) in steps {
                match step {
                    0 | 1 => match fifo.push(&value).await {
                        Ok(position) => {
                            assert_eq!(position, added);
                            added += 1;
                            model.push_back(value);
                        }
                        Err(error) => assert_eq!((error, model.len()), (RemoteError::Full, 7)),
                    },
                    2 => {
                        let front = fifo.pop().await.unwrap();
                        assert_eq!(front.map(|front| front.value), model.pop_front());
                    }
                    3 => {
                        let front = fifo.front().await.unwrap();
                        assert_eq!(front.map(|front| front.value).as_ref(), model.front());
                    }
                    4 => {
                        let values: Vec<_> = value.chunks(9).collect();
                        let fits = values.len() + model.len() <= 7;
                        match fifo.push_all(&values).await {
                            Ok(position) => {
                                assert!(fits && position == added);
                                added += values.len() as u64;
                                model.extend(values.into_iter().map(<[u8]>::to_vec));
                            }
                            Err(error) => assert_eq!((error, fits), (RemoteError::Full, false)),
                        }
                    }
                    5 => {
                        let most = value.len() as u32 % 4;
                        let taken = fifo.pop_many(most).await.unwrap();
                        let first = added - model.len() as u64;
                        let expected = model.drain(..model.len().min(most as usize));
                        let expected = (first..).zip(expected);
                        assert!(taken.into_iter().map(|item| (item.position, item.value)).eq(expected));
                    }
                    6 => {
                        let (mut seen, mut next) = (Vec::new(), Some(0));
                        while let Some(from) = next {
                            let most = 1 + value.len() as u32 % 3;
                            let from = (from != 0).then_some(from);
                            next = fifo.visit(from, most, |item| seen.push(item.value)).await.unwrap();
                        }
                        assert_eq!(seen, Vec::from(model.clone()));
                    }
                    _ => {
                        assert_eq!(fifo.len().await.unwrap(), model.len() as u64);
                        assert_eq!(fifo.is_empty().await.unwrap(), model.is_empty());
                    }
                }
            }
        });
    }

    #[test]
    fn no_bytes_break_the_owner(
        requests in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 1..20),
        damage in proptest::collection::vec((any::<u16>(), any::<u64>()), 0..8),
    ) {
        let queue = Queue::new(SHAPE).unwrap();
        let mut memory = PlainMemory::of(SHAPE.at + SHAPE.bytes());
        call(&queue, &mut memory, &push(&[7, 7])).unwrap();
        for (place, word) in damage {
            let place = usize::from(place) % memory.0.len();
            memory.0[place] = if word % 5 == 0 { u64::MAX - word % 3 } else { word % 9 };
        }
        for mut request in requests {
            let _ = call(&queue, &mut memory, &request);
            if let Some(first) = request.first_mut() {
                *first %= 4;
            }
            let _ = call(&queue, &mut memory, &request);
        }
    }
}

#[test]
fn the_front_is_read_where_it_was_and_never_an_item_that_was_taken() {
    let queue = Queue::new(SHAPE).unwrap();
    let mut memory = PlainMemory::of(SHAPE.at + SHAPE.bytes());
    let mut stale = FrontHint::default();
    assert_eq!(
        ask(&queue, &mut memory, &(), &mut stale),
        LookupVerdict::Absent
    );
    for number in 0..30u8 {
        call(&queue, &mut memory, &push(&[number])).unwrap();
        let found = ask(&queue, &mut memory, &(), &mut stale);
        let old = stale;
        assert!(matches!(&found, LookupVerdict::Found(front) if front.value == [number]));
        assert_eq!(read(&queue, &memory, &(), &mut stale), found);
        call(&queue, &mut memory, &POP).unwrap();
        // Also when its slot is another's.
        for _ in 0..8 {
            assert_eq!(
                read(&queue, &memory, &(), &mut old.clone()),
                LookupVerdict::Unknown
            );
            call(&queue, &mut memory, &push(&[99])).unwrap();
            call(&queue, &mut memory, &POP).unwrap();
        }
    }
}

/// What became of all items of a run.
#[derive(Default)]
struct Seen {
    added: BTreeMap<u64, Vec<u8>>,
    taken: BTreeMap<u64, Vec<u8>>,
    in_doubt: u32,
    by_read: u64,
}

fn run(seed: u64) -> Seen {
    let shape = QueueShape { slots: 16, ..SHAPE };
    let queue = Queue::new(shape).unwrap();
    let world = world(seed, &queue, shape.at + shape.bytes());
    world.set_faults(faults(seed));
    let seen = Rc::new(RefCell::new(Seen::default()));
    let mut sim = Simulation::new(world);
    for number in 0..4u64 {
        let id = sim.add_client(HostId(0), limits());
        let seen = Rc::clone(&seen);
        sim.spawn(id, async move |endpoint| {
            let fifo = Fifo::new(queue, OBJECT, client(&endpoint), PolicyOptions::default());
            // No client sees the front go back.
            let mut newest = 0;
            for turn in 0..30u64 {
                let value = (number << 32 | turn).to_le_bytes().repeat(5);
                let end = match (number + turn) % 4 {
                    0 => fifo.push(&value).await.map(|position| {
                        seen.borrow_mut().added.insert(position, value);
                    }),
                    // Two by one call.
                    1 => {
                        let other = (number << 32 | 99 << 16 | turn).to_le_bytes().repeat(5);
                        fifo.push_all(&[&value, &other]).await.map(|position| {
                            let added = &mut seen.borrow_mut().added;
                            added.insert(position, value);
                            added.insert(position + 1, other);
                        })
                    }
                    2 => fifo.pop_many(1 + turn as u32 % 3).await.map(|items| {
                        for item in items {
                            assert!(item.position >= newest, "seed {seed}");
                            newest = item.position + 1;
                            let twice = seen.borrow_mut().taken.insert(item.position, item.value);
                            assert_eq!(twice, None, "seed {seed}: taken twice");
                        }
                    }),
                    _ => fifo.front().await.map(|front| {
                        if let Some(front) = front {
                            assert!(front.position >= newest, "seed {seed}");
                            newest = front.position;
                            assert!(front.value.chunks(8).all(|word| word == &front.value[..8]));
                        }
                    }),
                };
                match end {
                    Ok(()) | Err(RemoteError::Full) => {}
                    Err(error) => {
                        assert!(error.may_have_taken_effect(), "seed {seed}: {error}");
                        seen.borrow_mut().in_doubt += 1;
                        endpoint.sleep(20_000).await;
                    }
                }
            }
            seen.borrow_mut().by_read += fifo.remote().counts().by_read;
        });
    }
    assert_eq!(sim.run_until(1_000_000_000), RunEnd::Done, "seed {seed}");
    drop(sim);
    Rc::into_inner(seen).unwrap().into_inner()
}

#[test]
fn under_faults_every_item_is_taken_once_in_its_order() {
    let (mut by_read, mut taken, mut in_doubt) = (0, 0, 0);
    for seed in 0..120 {
        let seen = run(seed);
        for (position, value) in &seen.taken {
            // One whose adding is in doubt may be taken all the same.
            let added = seen.added.get(position);
            assert!(
                added.is_none_or(|added| added == value),
                "seed {seed}: {position}"
            );
        }
        let values: BTreeSet<_> = seen.taken.values().collect();
        assert_eq!(values.len(), seen.taken.len(), "seed {seed}: added twice");
        by_read += seen.by_read;
        taken += seen.taken.len();
        in_doubt += seen.in_doubt;
    }
    assert!(
        by_read > 200 && taken > 1000 && in_doubt > 10,
        "{by_read} {taken} {in_doubt}"
    );
}

#[test]
fn a_visit_ends_where_the_back_was_when_it_began_whatever_comes_and_goes() {
    let shape = QueueShape { slots: 64, ..SHAPE };
    let queue = Queue::new(shape).unwrap();
    let world = world(1, &queue, shape.at + shape.bytes());
    let endpoint = world.endpoint(limits());
    let fifo = Fifo::new(queue, OBJECT, client(&endpoint), PolicyOptions::default());
    Executor::new(Rc::clone(&endpoint)).block_on(async {
        for number in 0..30u64 {
            fifo.push(&number.to_le_bytes()).await.unwrap();
        }
        let (mut seen, mut next) = (Vec::new(), None);
        for turn in 0.. {
            next = fifo
                .visit(next, 4, |item| seen.push(item.position))
                .await
                .unwrap();
            if next.is_none() {
                break;
            }
            assert!(turn < 30, "it goes on and on");
            // Seven come and seven go, for every four that are visited.
            for number in 0..7u64 {
                fifo.push(&number.to_le_bytes()).await.unwrap();
                fifo.pop().await.unwrap();
            }
        }
        assert!(seen.iter().all(|position| *position < 30), "{seen:?}");
        assert!(seen.is_sorted_by(|one, other| one < other), "{seen:?}");
        // Of a place that is no place, nothing.
        for place in [1, 77, 5 << 32 | 9_999, u64::MAX, 1 << 63] {
            let _ = fifo.visit(Some(place), 4, |_| ()).await;
        }
    });
}

#[test]
fn what_is_too_much_for_a_call_is_named() {
    let queue = Queue::new(SHAPE).unwrap();
    let world = world(1, &queue, SHAPE.at + SHAPE.bytes());
    let endpoint = world.endpoint(limits());
    let fifo = Fifo::new(queue, OBJECT, client(&endpoint), PolicyOptions::default());
    Executor::new(Rc::clone(&endpoint)).block_on(async {
        let refused = fifo.push(&[0; 41]).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            "an item of 41 bytes is over the limit of 40"
        );
        let refused = fifo.push_all(&[&[0; 8][..]; 1025]).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the items of one push are 1025, over the limit of 1024"
        );
        assert_eq!(
            fifo.push_all(&[&[][..]; 1024]).await,
            Err(RemoteError::Full)
        );
        assert!(fifo.is_empty().await.unwrap());
    });
}
