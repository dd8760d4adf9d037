//! What every fabric over the memory of a [`Node`] does alike.

use crate::bed::{Fabric, PATIENT, at, node};
use farslot_fabric::endpoint::Inbox;
use farslot_fabric::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

pub fn every_verb_does_what_it_says<F: Fabric>() {
    let node = node(1 << 16, Rights::ALL);
    let executor = F::executor(&[&node], Limits::default());
    let endpoint = Rc::clone(executor.endpoint());
    executor.block_on(async {
        let data = endpoint.core().buffers.copy_of(b"0123456789").unwrap();
        endpoint.write(at(3), data).await.unwrap();
        assert_eq!(&*endpoint.read(at(4), 5).await.unwrap(), b"12345");

        assert_eq!(endpoint.compare_swap(at(64), 0, 7).await.unwrap(), 0);
        assert_eq!(endpoint.compare_swap(at(64), 0, 8).await.unwrap(), 7);
        assert_eq!(endpoint.fetch_add(at(64), 5).await.unwrap(), 7);
        assert_eq!(endpoint.read(at(64), 8).await.unwrap().words(), [12]);

        let pieces = [(3, 3), (64, 8)].map(|(offset, len)| Piece {
            from: at(offset),
            len,
        });
        let gathered = endpoint
            .read_many(pieces.into_iter().collect())
            .await
            .unwrap();
        assert_eq!(&gathered[..3], b"012");
        assert_eq!(gathered[8], 12);

        let data = endpoint.core().buffers.copy_of(b"call").unwrap();
        endpoint.write_imm(at(128), data, 99).await.unwrap();
    });
    assert_eq!(node.take_message(), Some(Message { imm: 99, len: 4 }));
    assert_eq!(node.take_message(), None);
}

pub fn bounds_rights_and_alignment_are_checked<F: Fabric>() {
    let node = node(4096, Rights::READ);
    let executor = F::executor(&[&node], Limits::default());
    let endpoint = Rc::clone(executor.endpoint());
    executor.block_on(async {
        assert!(matches!(
            endpoint.read(at(4090), 7).await,
            Err(FabricError::OutOfBounds { len: 7, .. })
        ));
        assert!(matches!(
            endpoint.read(at(u64::MAX), 8).await,
            Err(FabricError::OutOfBounds { .. })
        ));
        let data = endpoint.core().buffers.copy_of(b"x").unwrap();
        assert!(matches!(
            endpoint.write(at(0), data).await,
            Err(FabricError::AccessDenied {
                needed: Rights::WRITE,
                granted: Rights::READ,
                ..
            })
        ));
        assert!(matches!(
            endpoint.fetch_add(at(0), 1).await,
            Err(FabricError::AccessDenied { .. })
        ));
        assert_eq!(
            endpoint.compare_swap(at(4), 0, 1).await,
            Err(FabricError::Misaligned { at: at(4) })
        );
        let elsewhere = RemoteAddr {
            node: NodeId(3),
            ..at(0)
        };
        assert!(matches!(
            endpoint.read(elsewhere, 8).await,
            Err(FabricError::UnknownNode { connected: 1, .. })
        ));
        let elsewhere = RemoteAddr {
            region: RegionId(1),
            ..at(0)
        };
        assert!(matches!(
            endpoint.read(elsewhere, 8).await,
            Err(FabricError::UnknownRegion { regions: 1, .. })
        ));
    });
}

pub fn a_full_send_queue_waits_and_one_doorbell_carries_many_verbs<F: Fabric>() {
    let node = node(4096, Rights::ALL);
    let limits = Limits {
        send_queue_depth: 4,
        ..Limits::default()
    };
    let executor = F::executor(&[&node], limits);
    let endpoint = Rc::clone(executor.endpoint());
    let tasks: Vec<_> = (0..10)
        .map(|_| {
            let endpoint = Rc::clone(&endpoint);
            executor.spawn(async move { endpoint.fetch_add(at(0), 1).await.unwrap() })
        })
        .collect();
    let mut seen = executor.block_on(async {
        let mut seen = Vec::new();
        for task in tasks {
            seen.push(task.await);
        }
        seen
    });
    seen.sort_unstable();
    assert_eq!(seen, (0..10).collect::<Vec<_>>());
    let counters = endpoint.core().counters.snapshot();
    assert_eq!(counters.verbs_of(VerbKind::FetchAdd), 10);
    assert!(counters.queue_full > 0);
    assert_eq!(counters.doorbells, 3, "4 + 4 + 2 verbs");
}

pub fn round_trips_are_the_longest_chain_of_completions<F: Fabric>() {
    let node = node(4096, Rights::ALL);
    let executor = F::executor(&[&node], Limits::default());
    let endpoint = Rc::clone(executor.endpoint());
    let class = OperationClass(3);
    executor.block_on(async {
        let chain = async {
            let side_by_side = (0..3).map(|_| endpoint.read(at(0), 8));
            window(3, side_by_side, |_, read| drop(read.unwrap())).await;
            endpoint.fetch_add(at(0), 1).await.unwrap();
        };
        endpoint.operation(class, chain).await;
    });
    let counted = endpoint.core().counters.snapshot().operation(class);
    assert_eq!((counted.count, counted.verbs), (1, 4));
    assert_eq!((counted.round_trips, counted.doorbells), (2, 2));
    assert_eq!(counted.bytes, 32);
}

pub fn what_is_read_with_a_change_is_read_behind_it_and_booked_with_it<F: Fabric>() {
    let node = node(4096, Rights::ALL);
    let executor = F::executor(&[&node], Limits::default());
    let endpoint = Rc::clone(executor.endpoint());
    let class = OperationClass(3);
    let pieces = [(64, 16), (128, 12)].map(|(offset, len)| Piece {
        from: at(offset),
        len,
    });
    // Alone, and beside others.
    for (turn, width) in [(0, 1), (1, 3)] {
        let change = |number: u64| Change {
            write: (number == 0).then(|| {
                let data = endpoint.core().buffers.copy_of(b"0123456789ab").unwrap();
                (at(128), data)
            }),
            swap: Some((at(64), turn + number, turn + number + 1)),
        };
        let looks = (0..width as u64).map(|number| {
            let reading = endpoint.change_and_read(change(number), pieces.into());
            endpoint.operation(class, reading)
        });
        executor.block_on(window(width, looks, |number, done| {
            let (seen, read) = done.unwrap();
            let read = read.unwrap();
            let (words, bytes) = (read[0].words(), &read[1]);
            let was = turn + number as u64;
            assert_eq!(seen, was);
            assert!(words[0] > was && words[1] == 0, "{words:?} behind {was}");
            assert_eq!(&**bytes, b"0123456789ab");
        }));
    }
    let counted = endpoint.core().counters.snapshot().operation(class);
    assert_eq!((counted.count, counted.verbs), (4, 4 * 3 + 2));
    assert_eq!((counted.round_trips, counted.doorbells), (4, 4));
    assert_eq!(counted.bytes, 4 * (8 + 16 + 12) + 2 * 12);
    let beyond = Piece {
        from: at(4090),
        len: 8,
    };
    let refused = endpoint.look(Pieces::from_elem(beyond, 1), |_| ());
    let refused = executor.block_on(refused).unwrap_err();
    assert!(
        matches!(refused, FabricError::OutOfBounds { .. }),
        "{refused}"
    );
}

pub fn dropped_verbs_and_timeouts_leave_everything_usable<F: Fabric>() {
    let node = node(4096, Rights::ALL);
    let executor = F::executor(&[&node], Limits::default());
    let endpoint = Rc::clone(executor.endpoint());
    executor.block_on(async {
        for _ in 0..100 {
            let never = std::future::pending::<()>();
            let lost = endpoint.timeout(1_000, async {
                endpoint.fetch_add(at(8), 1).await.unwrap();
                let read = endpoint.read(at(0), 512);
                drop(read);
                never.await;
            });
            assert_eq!(lost.await, Err(TimedOut { after: 1_000 }));
        }
        assert_eq!(endpoint.fetch_add(at(8), 0).await.unwrap(), 100);
        assert_eq!(endpoint.timeout(1 << 40, async { 5 }).await, Ok(5));
    });
}

pub fn only_time_that_is_waited_counts_as_waiting<F: Fabric>() {
    let node = node(4096, Rights::ALL);
    let executor = F::executor(&[&node], Limits::default());
    let endpoint = Rc::clone(executor.endpoint());
    let left = Cell::new(1_000_000);
    let waits = endpoint.timeout_of_waiting(&left, std::future::pending::<()>());
    let lost = Err(TimedOut { after: 1_000_000 });
    assert_eq!((executor.block_on(waits), left.get()), (lost, 0));

    left.set(2_000_000);
    let has_waited = endpoint.timeout_of_waiting(&left, async {
        // As if the machine had something else to run.
        std::thread::sleep(Duration::from_millis(10));
        endpoint.sleep(1_000_000).await;
        std::thread::sleep(Duration::from_millis(10));
    });
    assert_eq!(executor.block_on(has_waited), Ok(()));
    assert!(left.get() >= 1_000_000, "{left:?} are left");
}

pub fn a_mailbox_that_nobody_empties_refuses_in_time<F: Fabric>() {
    let node = node(4096, Rights::ALL);
    let limits = Limits {
        // It is refused after half of that: a machine that is busy may be late by the other half.
        verb_timeout: 4_000_000_000,
        ..Limits::default()
    };
    let executor = F::executor(&[&node], limits);
    let endpoint = Rc::clone(executor.endpoint());
    let refused = executor.block_on(async {
        for imm in 0.. {
            let data = endpoint.core().buffers.copy_of(b"").unwrap();
            if let Err(error) = endpoint.write_imm(at(0), data, imm).await {
                return (imm, error);
            }
        }
        unreachable!()
    });
    let full = FabricError::ReceiverNotReady {
        node: NodeId(0),
        capacity: 1024,
    };
    assert_eq!(refused, (1024, full));
    assert_eq!(node.take_message().map(|message| message.imm), Some(0));
}

pub fn a_gather_into_too_small_a_buffer_is_refused<F: Fabric>() {
    let node = node(4096, Rights::ALL);
    let executor = F::executor(&[&node], Limits::default());
    let endpoint = executor.endpoint();
    let pieces = [0, 64].map(|offset| Piece {
        from: at(offset),
        len: 5,
    });
    let gather = Verb::ReadMany {
        pieces: pieces.into_iter().collect(),
        into: endpoint.core().buffers.take(8).unwrap(),
    };
    assert!(matches!(
        endpoint.post(gather),
        Err(PostError::Rejected(FabricError::BufferTooLarge {
            requested: 16,
            limit: 8
        }))
    ));
}

pub fn a_gather_goes_to_one_node<F: Fabric>() {
    let nodes = [node(4096, Rights::ALL), node(4096, Rights::ALL)];
    let executor = F::executor(&[&nodes[0], &nodes[1]], Limits::default());
    let endpoint = executor.endpoint();
    let pieces = [0, 1].map(|node| Piece {
        from: RemoteAddr {
            node: NodeId(node),
            ..at(0)
        },
        len: 8,
    });
    let gathered = executor.block_on(endpoint.read_many(pieces.into_iter().collect()));
    assert_eq!(
        gathered.map(|_| ()),
        Err(FabricError::SeveralNodes {
            node: NodeId(0),
            other: NodeId(1)
        })
    );
}

/// What the model says that a verb finds.
enum Expected {
    Nothing,
    Word(u64),
    Bytes(Vec<u8>),
}

/// Not over shared memory, where a read copies its bytes when it completes, behind writes that were
/// posted later.
pub fn random_verbs_do_what_a_model_does<F: Fabric>() {
    const LEN: usize = 64 << 10;
    let seed =
        std::env::var("FARSLOT_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    println!("FARSLOT_SEED={seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let node = node(LEN as u64, Rights::ALL);
    let limits = Limits {
        verb_timeout: PATIENT,
        ..Limits::default()
    };
    let executor = F::executor(&[&node], limits);
    let endpoint = Rc::clone(executor.endpoint());
    let mut model = vec![0u8; LEN];
    for _ in 0..60 {
        let mut verbs = Vec::new();
        for _ in 0..rng.random_range(1..100) {
            let len = 1usize << rng.random_range(0..13);
            let len = rng.random_range(0..=len);
            let offset = rng.random_range(0..=LEN - len);
            let aligned = rng.random_range(0..LEN / 8) * 8;
            let word =
                |model: &[u8]| u64::from_le_bytes(model[aligned..aligned + 8].try_into().unwrap());
            let put = |model: &mut [u8], word: u64| {
                model[aligned..aligned + 8].copy_from_slice(&word.to_le_bytes());
            };
            let buffers = &endpoint.core().buffers;
            verbs.push(match rng.random_range(0..5) {
                0 => {
                    let verb = Verb::Read {
                        from: at(offset as u64),
                        into: buffers.take(len).unwrap(),
                    };
                    (verb, Expected::Bytes(model[offset..offset + len].to_vec()))
                }
                1 => {
                    let bytes: Vec<u8> = (0..len).map(|_| rng.random()).collect();
                    model[offset..offset + len].copy_from_slice(&bytes);
                    let verb = Verb::Write {
                        to: at(offset as u64),
                        data: buffers.copy_of(&bytes).unwrap(),
                    };
                    (verb, Expected::Nothing)
                }
                2 => {
                    let (found, add) = (word(&model), rng.random());
                    put(&mut model, found.wrapping_add(add));
                    let at = at(aligned as u64);
                    (Verb::FetchAdd { at, add }, Expected::Word(found))
                }
                3 => {
                    let found = word(&model);
                    let expected = if rng.random() { found } else { rng.random() };
                    let new = rng.random();
                    if found == expected {
                        put(&mut model, new);
                    }
                    let at = at(aligned as u64);
                    let verb = Verb::CompareSwap { at, expected, new };
                    (verb, Expected::Word(found))
                }
                _ => {
                    let spans = [(offset, len), (aligned, 8), (0, 3)];
                    let pieces = spans.map(|(offset, len)| Piece {
                        from: at(offset as u64),
                        len,
                    });
                    let mut expected = Vec::new();
                    for (offset, len) in spans {
                        expected.extend(&model[offset..offset + len]);
                        expected.resize(expected.len().next_multiple_of(8), 0);
                    }
                    let verb = Verb::ReadMany {
                        pieces: pieces.into_iter().collect(),
                        into: buffers.take(expected.len()).unwrap(),
                    };
                    (verb, Expected::Bytes(expected))
                }
            });
        }
        check(&executor, verbs, (LEN, seed));
    }
    let all = executor.block_on(endpoint.read(at(0), LEN)).unwrap();
    assert!(*all == model[..], "seed {seed}");
}

/// Posts verbs in one batch, and checks what each finds.
fn check<E: Endpoint>(executor: &Executor<E>, verbs: Vec<(Verb, Expected)>, context: (usize, u64)) {
    let endpoint = executor.endpoint();
    let mut posted = Vec::new();
    for (verb, expected) in verbs {
        let padded: Vec<usize> = match &verb {
            Verb::ReadMany { pieces, .. } => pieces.iter().map(|piece| piece.len).collect(),
            Verb::Read { into, .. } => vec![into.len()],
            _ => Vec::new(),
        };
        posted.push((endpoint.post(verb).unwrap(), expected, padded));
    }
    executor.block_on(async {
        for (mut posted, expected, lens) in posted {
            let completed = std::future::poll_fn(|cx| endpoint.poll_posted(&mut posted, cx));
            match (completed.await.unwrap(), expected) {
                (Completion::Placed, Expected::Nothing) => {}
                (Completion::Word(found), Expected::Word(word)) => {
                    assert_eq!(found, word, "{context:?}");
                }
                (Completion::Filled(read), Expected::Bytes(bytes)) => {
                    let mut start = 0;
                    for len in lens {
                        // What lies between the pieces is nobody's.
                        assert!(
                            read[start..start + len] == bytes[start..start + len],
                            "{context:?}"
                        );
                        start += len.next_multiple_of(8);
                    }
                }
                (other, _) => panic!("{other:?}, {context:?}"),
            }
        }
    });
}
