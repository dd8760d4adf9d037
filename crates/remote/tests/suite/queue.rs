//! The queue against a plain one, and under faults.

use crate::local::{ask, call, read};
use crate::sim::{OBJECT, client, faults, limits, world};
use farslot_fabric::sim::{HostId, RunEnd, Simulation};
use farslot_fabric::{EndpointExt, Executor};
use farslot_remote::queue::{Fifo, Head, Queue, QueueShape};
use farslot_remote::{End, PolicyOptions, RemoteError};
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

proptest! {
    #[test]
    fn does_what_a_deque_does(
        steps in proptest::collection::vec((0u8..5, proptest::collection::vec(any::<u8>(), 0..=40)), 1..120),
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
        call(&queue, &mut memory, &[1, 7, 7]).unwrap();
        for (place, word) in damage {
            let place = usize::from(place) % memory.0.len();
            memory.0[place] = word % 9;
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
    let mut stale = Head::default();
    assert_eq!(ask(&queue, &mut memory, &(), &mut stale), End::Absent);
    for number in 0..30u8 {
        call(&queue, &mut memory, &[1, number]).unwrap();
        let found = ask(&queue, &mut memory, &(), &mut stale);
        let old = stale;
        assert!(matches!(&found, End::Found(front) if front.value == [number]));
        assert_eq!(read(&queue, &memory, &(), &mut stale), found);
        call(&queue, &mut memory, &[2]).unwrap();
        // Also when its slot is another's.
        for _ in 0..8 {
            assert_eq!(read(&queue, &memory, &(), &mut old.clone()), End::Unknown);
            call(&queue, &mut memory, &[1, 99]).unwrap();
            call(&queue, &mut memory, &[2]).unwrap();
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
                    0 | 1 => fifo.push(&value).await.map(|position| {
                        seen.borrow_mut().added.insert(position, value);
                    }),
                    2 => fifo.pop().await.map(|front| {
                        if let Some(front) = front {
                            assert!(front.position >= newest, "seed {seed}");
                            newest = front.position + 1;
                            let twice = seen.borrow_mut().taken.insert(front.position, front.value);
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
