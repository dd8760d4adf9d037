//! Agent and client in one process.

use crate::common::{self, Fabric, at};
use crate::{client, client_with, patient, served};
use farslot_fabric::shm::{Node, ShmEndpoint};
use farslot_fabric::tcp::{self, AgentOptions};
use farslot_fabric::verbs::{Agent, VerbsAgentOptions, VerbsEndpoint, VerbsOptions};
use farslot_fabric::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

struct Verbs;

thread_local! {
    /// The agents of the test on this thread: they serve until it ends.
    static AGENTS: RefCell<Vec<Agent>> = const { RefCell::new(Vec::new()) };
}

fn serve(node: &Node) -> String {
    let agent = Agent::start(node.clone(), &VerbsAgentOptions::default()).unwrap();
    let address = agent.address().to_string();
    AGENTS.with_borrow_mut(|agents| agents.push(agent));
    address
}

impl Fabric for Verbs {
    type Endpoint = VerbsEndpoint;

    fn executor(nodes: &[&Node], limits: Limits) -> Executor<VerbsEndpoint> {
        let addresses: Vec<_> = nodes.iter().map(|node| serve(node)).collect();
        let options = VerbsOptions {
            limits,
            ..VerbsOptions::default()
        };
        Executor::new(Rc::new(
            VerbsEndpoint::connect(&addresses, &options).unwrap(),
        ))
    }
}

common::test_verbs_over!(Verbs);

#[test]
fn a_batch_of_large_verbs_arrives_whole() {
    const EACH: u64 = 512 << 10;
    const COUNT: u64 = 24;
    let (_node, agent) = served(EACH * COUNT);
    let executor = client(&agent);
    let endpoint = Rc::clone(executor.endpoint());
    let value = |index: u64, word: usize| index << 32 | word as u64;
    executor.block_on(async {
        let writes = (0..COUNT).map(|index| {
            let mut data = endpoint.core().buffers.take(EACH as usize).unwrap();
            for (number, word) in data.words_mut().iter_mut().enumerate() {
                *word = value(index, number);
            }
            endpoint.write(at(index * EACH), data)
        });
        window(COUNT as usize, writes, |_, written| written.unwrap()).await;
        assert_eq!(endpoint.core().counters.snapshot().doorbells, 1);
        let reads =
            (0..COUNT / 8).map(|index| endpoint.read(at(index * 8 * EACH), 8 * EACH as usize));
        window(COUNT as usize, reads, |index, read| {
            let read = read.unwrap();
            let mut words = read.words().iter().enumerate();
            let words_each = EACH as usize / 8;
            assert!(words.all(|(number, word)| {
                *word
                    == value(
                        index as u64 * 8 + (number / words_each) as u64,
                        number % words_each,
                    )
            }));
        })
        .await;
    });
}

#[test]
fn verbs_of_all_kinds_take_effect_in_the_order_of_their_posting() {
    let (_node, agent) = served(1 << 16);
    let executor = client(&agent);
    let endpoint = Rc::clone(executor.endpoint());
    executor.block_on(async {
        for round in 0..20u64 {
            let before = round * 40;
            // Each of them sees exactly those before it.
            let adds = (0..40u64).map(|index| {
                let endpoint = Rc::clone(&endpoint);
                async move {
                    let added = endpoint.fetch_add(at(64), 1);
                    let read = endpoint.read(at(64), 8);
                    let data = endpoint.core().buffers.copy_of(&index.to_le_bytes());
                    let write = endpoint.write(at(128), data.unwrap());
                    let ((added, read), written) = both(both(added, read), write).await;
                    written.unwrap();
                    (index, added.unwrap(), read.unwrap().words()[0])
                }
            });
            window(40, adds, |_, (index, added, read)| {
                assert_eq!((added, read), (before + index, before + index + 1));
            })
            .await;
            assert_eq!(endpoint.read(at(128), 8).await.unwrap().words(), [39]);
        }
    });
}

#[test]
fn atomics_are_atomic_among_queue_pairs() {
    const EACH: u64 = 1_000;
    let (_node, agent) = served(4096);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let executor = client(&agent);
                let endpoint = executor.endpoint();
                executor.block_on(async {
                    let adds = (0..EACH).map(|_| endpoint.fetch_add(at(8), 1));
                    window(32, adds, |_, added| assert!(added.is_ok())).await;
                });
            });
        }
        scope.spawn(|| {
            let executor = client(&agent);
            let endpoint = executor.endpoint();
            executor.block_on(async {
                for _ in 0..EACH {
                    let mut seen = 0;
                    loop {
                        match endpoint.compare_swap(at(8), seen, seen + 1).await.unwrap() {
                            found if found == seen => break,
                            found => seen = found,
                        }
                    }
                }
            });
        });
    });
    let executor = client(&agent);
    let sum = executor.block_on(executor.endpoint().fetch_add(at(8), 0));
    assert_eq!(sum, Ok(4 * EACH));
}

#[test]
fn words_are_read_and_written_whole() {
    let (_node, agent) = served(1 << 13);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let executor = client(&agent);
            let endpoint = executor.endpoint();
            executor.block_on(async {
                for turn in 0..2_000u64 {
                    let mut data = endpoint.core().buffers.take(2048).unwrap();
                    data.words_mut().fill((turn % 2).wrapping_neg());
                    endpoint.write(at(0), data).await.unwrap();
                }
            });
            done.store(true, Ordering::Release);
        });
        scope.spawn(|| {
            let executor = client(&agent);
            let endpoint = executor.endpoint();
            executor.block_on(async {
                while !done.load(Ordering::Acquire) {
                    let read = endpoint.read(at(0), 2048).await.unwrap();
                    let mut words = read.words().iter();
                    assert!(words.all(|word| *word == 0 || *word == u64::MAX));
                }
            });
        });
    });
}

#[test]
fn messages_of_several_clients_arrive_once_in_the_order_of_each() {
    const EACH: u32 = 1_500;
    let (node, agent) = served(4096);
    let taken = std::thread::scope(|scope| {
        for sender in 0..2u32 {
            let agent = &agent;
            scope.spawn(move || {
                let executor = client(agent);
                let endpoint = executor.endpoint();
                executor.block_on(async {
                    let sends = (0..EACH).map(|number| {
                        let bytes = number.to_le_bytes();
                        let data = endpoint
                            .core()
                            .buffers
                            .copy_of(&bytes[..number as usize % 5]);
                        let to = at(u64::from(sender) * 64);
                        endpoint.write_imm(to, data.unwrap(), sender << 16 | number)
                    });
                    window(64, sends, |_, sent| sent.unwrap()).await;
                });
            });
        }
        let mut taken = Vec::new();
        while taken.len() < 2 * EACH as usize {
            match node.take_message() {
                Some(message) => taken.push(message),
                None => std::thread::yield_now(),
            }
        }
        taken
    });
    assert_eq!(node.take_message(), None);
    for sender in 0..2u32 {
        let of_sender = taken.iter().filter(|message| message.imm >> 16 == sender);
        let numbers: Vec<_> = of_sender
            .map(|message| (message.imm & 0xffff, message.len))
            .collect();
        let sent: Vec<_> = (0..EACH).map(|number| (number, number % 5)).collect();
        assert_eq!(numbers, sent);
    }
}

#[test]
fn messages_that_nobody_took_outlast_their_sender_and_the_agent() {
    let (node, agent) = served(4096);
    let executor = client(&agent);
    let endpoint = executor.endpoint();
    executor.block_on(async {
        for imm in 0..10 {
            let data = endpoint.core().buffers.copy_of(b"call").unwrap();
            endpoint.write_imm(at(0), data, imm).await.unwrap();
        }
    });
    drop(executor);
    assert_eq!(node.take_message(), Some(Message { imm: 0, len: 4 }));
    drop(agent);
    let again = Agent::start(node.clone(), &VerbsAgentOptions::default()).unwrap();
    let executor = client(&again);
    let endpoint = executor.endpoint();
    executor.block_on(async {
        let data = endpoint.core().buffers.copy_of(b"").unwrap();
        endpoint.write_imm(at(0), data, 10).await.unwrap();
    });
    for imm in 1..10 {
        assert_eq!(node.take_message(), Some(Message { imm, len: 4 }));
    }
    assert_eq!(node.take_message(), Some(Message { imm: 10, len: 0 }));
    assert_eq!(node.take_message(), None);
}

#[test]
fn dropped_reads_write_into_nobody_elses_buffer() {
    let (_node, agent) = served(1 << 20);
    let executor = client(&agent);
    let endpoint = Rc::clone(executor.endpoint());
    executor.block_on(async {
        let mut data = endpoint.core().buffers.take(1 << 20).unwrap();
        data.words_mut().fill(u64::MAX);
        endpoint.write(at(0), data).await.unwrap();
        for _ in 0..50 {
            // Posted, sent off, and dropped before it can have completed.
            let into = endpoint.core().buffers.take(64 << 10).unwrap();
            let posted = endpoint.post_read(at(0), into);
            endpoint.ring_doorbell();
            drop(posted);
            let mut mine = endpoint.core().buffers.take(64 << 10).unwrap();
            mine.words_mut().fill(7);
            endpoint.read(at(0), 8).await.unwrap();
            assert!(mine.words().iter().all(|word| *word == 7));
        }
    });
}

#[test]
fn an_endpoint_that_is_dropped_finishes_what_was_posted() {
    let (_node, agent) = served(1 << 20);
    for round in 0..20u64 {
        let executor = client(&agent);
        let endpoint = Rc::clone(executor.endpoint());
        for index in 0..64u64 {
            let endpoint = Rc::clone(&endpoint);
            drop(executor.spawn(async move {
                let data = endpoint
                    .core()
                    .buffers
                    .copy_of(&round.to_le_bytes())
                    .unwrap();
                endpoint.write(at(index * 8), data).await
            }));
        }
        executor.block_on(async {});
        executor.run_ready();
        drop(executor);
        drop(endpoint);
        let reader = client(&agent);
        let read = reader.block_on(reader.endpoint().read(at(0), 512)).unwrap();
        assert_eq!(read.words(), [round; 64]);
    }
}

#[test]
fn gathers_take_a_request_a_piece_and_more_than_the_queue_holds_are_refused() {
    let (_node, agent) = served(1 << 16);
    let limits = Limits {
        send_queue_depth: 8,
        ..crate::PATIENT
    };
    let executor = client_with(
        &agent,
        &VerbsOptions {
            limits,
            ..patient()
        },
    );
    let endpoint = Rc::clone(executor.endpoint());
    let pieces = |count: u64| {
        (0..count)
            .map(|index| Piece {
                from: at(index * 16),
                len: 5,
            })
            .collect::<Pieces>()
    };
    executor.block_on(async {
        for index in 0..64u64 {
            let data = endpoint.core().buffers.copy_of(&[index as u8; 16]).unwrap();
            endpoint.write(at(index * 16), data).await.unwrap();
        }
        // Three of these are more requests than the queue holds at once.
        let gathers = (0..30).map(|_| endpoint.read_many(pieces(30)));
        window(30, gathers, |_, gathered| {
            let gathered = gathered.unwrap();
            assert_eq!(gathered.len(), 240);
            for (index, piece) in gathered.chunks_exact(8).enumerate() {
                assert_eq!(piece[..5], [index as u8; 5]);
            }
        })
        .await;
        assert_eq!(
            endpoint.read_many(pieces(65)).await.map(drop),
            Err(FabricError::TooManyPieces {
                pieces: 65,
                limit: 64
            })
        );
        assert!(endpoint.read_many(Pieces::new()).await.unwrap().is_empty());
        let empty = endpoint.core().buffers.take(0).unwrap();
        endpoint.write(at(0), empty).await.unwrap();
        assert!(endpoint.read(at(0), 0).await.unwrap().is_empty());
    });
}

#[test]
fn memory_is_a_nics_or_the_processors_and_never_both() {
    let not_both = |used, wanted| FabricError::NicAndProcessor { used, wanted };
    let (by_nic, by_shm) = ("served over RDMA verbs", "used over shared memory");
    let node = common::node(4096, Rights::ALL);
    let local = Executor::new(Rc::new(ShmEndpoint::new(
        vec![node.clone()],
        Limits::default(),
    )));
    let endpoint = local.endpoint();
    assert_eq!(local.block_on(endpoint.fetch_add(at(0), 1)), Ok(0));

    let agent = Agent::start(node.clone(), &VerbsAgentOptions::default()).unwrap();
    let refused = Err(not_both(by_nic, by_shm));
    assert_eq!(local.block_on(endpoint.fetch_add(at(0), 1)), refused);
    assert_eq!(local.block_on(endpoint.read(at(0), 8)).map(|_| 0), refused);
    let by_tcp = tcp::Agent::start(node.clone(), &AgentOptions::default()).map(drop);
    assert_eq!(by_tcp, Err(not_both(by_nic, "served over TCP")));
    let twice = Agent::start(node.clone(), &VerbsAgentOptions::default()).map(drop);
    assert_eq!(
        twice,
        Err(not_both("served over RDMA verbs already", by_nic))
    );
    assert!(!node.is_gone());

    // As soon as the NIC does not serve it any more the processors may.
    let executor = client(&agent);
    assert_eq!(
        executor.block_on(executor.endpoint().fetch_add(at(0), 1)),
        Ok(1)
    );
    drop(agent);
    assert_eq!(local.block_on(endpoint.fetch_add(at(0), 1)), Ok(2));
    let by_tcp = tcp::Agent::start(node.clone(), &AgentOptions::default()).unwrap();
    let again = Agent::start(node, &VerbsAgentOptions::default()).map(drop);
    assert_eq!(again, Err(not_both("served over TCP", by_nic)));
    drop(by_tcp);

    let name = format!("verbs-{}", std::process::id());
    let region = farslot_fabric::shm::RegionSpec {
        len: 8,
        rights: Rights::ALL,
    };
    let shared = Node::serve(&name, &[region]).unwrap();
    let refused = Agent::start(shared, &VerbsAgentOptions::default()).map(drop);
    assert_eq!(refused, Err(not_both("served over shared memory", by_nic)));
}

/// What the model says that a verb finds.
enum Expected {
    Nothing,
    Word(u64),
    Bytes(Vec<u8>),
}

#[test]
fn random_verbs_do_what_a_model_does() {
    const LEN: usize = 64 << 10;
    let seed =
        std::env::var("FARSLOT_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    println!("FARSLOT_SEED={seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (_node, agent) = served(LEN as u64);
    let executor = client(&agent);
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
fn check(executor: &Executor<VerbsEndpoint>, verbs: Vec<(Verb, Expected)>, context: (usize, u64)) {
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
