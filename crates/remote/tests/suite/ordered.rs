//! The ordered map against a plain one, and under faults.

use crate::local::{ask, call, check_of, read};
use crate::sim::{NODE, OBJECT, client, faults, limits, world};
use farslot_check::{Recorder, RegisterMap, TableOp, TableRet, check};
use farslot_fabric::sim::{HostId, RunEnd, SimEndpoint, Simulation};
use farslot_fabric::{Endpoint, EndpointExt, Executor, window};
use farslot_remote::ordered::{KeyRange, LeafDirectory, OrderedMap, Tree, TreeShape};
use farslot_remote::{LookupVerdict, PolicyOptions, RemoteError};
use farslot_rpc::Fault;
use farslot_testbed::PlainMemory;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

const SHAPE: TreeShape = TreeShape {
    at: 128,
    key_bytes: 10,
    value_bytes: 20,
    leaf_pairs: 3,
    children: 4,
    nodes: 300,
};

/// Keys of 0 to 9 bytes, some of them beginnings of others.
fn key(number: u8) -> Vec<u8> {
    vec![number / 10; usize::from(number % 10)]
}

fn keys() -> Vec<Vec<u8>> {
    (0..100).map(key).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn does_what_a_map_does(
        few in any::<bool>(),
        steps in proptest::collection::vec(
            (0u8..8, 0u8..100, proptest::collection::vec(any::<u8>(), 0..=20)), 1..250,
        ),
    ) {
        let shape = TreeShape { nodes: if few { 12 } else { 300 }, ..SHAPE };
        let tree = Tree::new(shape).unwrap();
        let world = world(1, &tree, shape.at + shape.bytes());
        let endpoint = world.endpoint(limits());
        let map = OrderedMap::new(tree, OBJECT, client(&endpoint), 30, PolicyOptions::default());
        Executor::new(Rc::clone(&endpoint)).block_on(async {
            let mut model = BTreeMap::new();
            for (step, number, value) in steps {
                let key = key(number);
                let was = model.contains_key(&key);
                match step {
                    0 | 1 => {
                        let end = match step {
                            0 => map.put(&key, &value).await,
                            _ => map.insert(&key, &value).await,
                        };
                        match end {
                            Err(RemoteError::Full) => assert!(few && !was),
                            end => {
                                assert_eq!(end.unwrap(), !was);
                                if step == 0 || !was {
                                    model.insert(key, value);
                                }
                            }
                        }
                    }
                    2 => {
                        assert_eq!(map.update(&key, &value).await.unwrap(), was);
                        if was {
                            model.insert(key, value);
                        }
                    }
                    3 => assert_eq!(map.remove(&key).await.unwrap(), model.remove(&key).is_some()),
                    4 | 5 => assert_eq!(map.get(&key).await.unwrap().as_ref(), model.get(&key)),
                    _ => {
                        let most = value.len() * 3;
                        let to = value.first().filter(|byte| **byte < 200);
                        let to = to.map(|byte| self::key(byte % 100));
                        let to = to.as_deref();
                        let range = KeyRange { from: &key, to, is_reversed: step == 7 };
                        let found = map.scan(range, most).await.unwrap();
                        let expected = model.iter().filter(|(key, _)| range.has(key));
                        let expected = expected.map(|(key, value)| (key.clone(), value.clone()));
                        let mut expected: Vec<_> = expected.collect();
                        if range.is_reversed {
                            expected.reverse();
                        }
                        expected.truncate(most);
                        assert_eq!(found, expected);
                    }
                }
            }
            assert_eq!(map.len().await.unwrap(), model.len() as u64);
            let all = map.scan(KeyRange::default(), usize::MAX).await.unwrap();
            assert_eq!(all, model.clone().into_iter().collect::<Vec<_>>());
            let all = map.scan(KeyRange::default().reversed(), usize::MAX).await.unwrap();
            assert_eq!(all, model.into_iter().rev().collect::<Vec<_>>());
        });
    }

    #[test]
    fn no_stale_directory_leads_to_a_wrong_answer(
        steps in proptest::collection::vec((0u8..100, any::<bool>()), 1..200),
    ) {
        let tree = Tree::new(SHAPE).unwrap();
        let mut memory = PlainMemory::of(SHAPE.at + SHAPE.bytes());
        let mut model = BTreeMap::new();
        let mut directories: Vec<_> = (0..5).map(|_| LeafDirectory::new(20)).collect();
        for (turn, (number, remove)) in steps.into_iter().enumerate() {
            let key = key(number);
            let head = [if remove { 4 } else { 1 }, 0, key.len() as u8, 0];
            let value = if remove { vec![] } else { vec![number; 4] };
            call(&tree, &mut memory, &[&head[..], &key, &value].concat()).unwrap();
            if remove { model.remove(&key); } else { model.insert(key.clone(), value); }
            let asking = turn % directories.len();
            ask(&tree, &mut memory, &key, &mut directories[asking]);
            for (key, directory) in keys().into_iter().zip((0..5).cycle()) {
                match read(&tree, &memory, &key, &mut directories[directory]) {
                    LookupVerdict::Unknown => {}
                    LookupVerdict::Absent => prop_assert!(!model.contains_key(&key), "{key:?}"),
                    LookupVerdict::Found(value) => prop_assert_eq!(Some(&value), model.get(&key)),
                }
            }
        }
    }

    #[test]
    fn no_bytes_break_the_owner(
        requests in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 1..20),
        valid in proptest::collection::vec((0u8..6, 0u8..100), 1..80),
        damage in proptest::collection::vec((any::<u16>(), any::<u64>()), 0..8),
    ) {
        let tree = Tree::new(SHAPE).unwrap();
        let mut memory = PlainMemory::of(SHAPE.at + SHAPE.bytes());
        let run = |memory: &mut PlainMemory| {
            for (operation, number) in &valid {
                let key = key(*number);
                let request = [&[*operation, 0, key.len() as u8, 0], &key[..], &[7; 9]].concat();
                let _ = call(&tree, memory, &request);
            }
        };
        run(&mut memory);
        for (place, word) in damage {
            let place = usize::from(place) % memory.0.len();
            memory.0[place] = if word % 2 == 0 { word } else { word % 30 };
        }
        run(&mut memory);
        for request in requests {
            let _ = call(&tree, &mut memory, &request);
        }
    }
}

#[test]
fn a_forged_level_breaks_nothing() {
    let tree = Tree::new(SHAPE).unwrap();
    let mut memory = PlainMemory::of(SHAPE.at + SHAPE.bytes());
    for number in 0..40u8 {
        call(&tree, &mut memory, &[1, 0, 1, 0, number, number]).unwrap();
    }
    let root = memory.0[SHAPE.at as usize / 8];
    let node_words = (SHAPE.bytes() - 64) / u64::from(SHAPE.nodes) / 8;
    let at = SHAPE.at + 64 + (root - 1) * node_words * 8;
    let first = at as usize / 8;
    // A key of 10 bytes has 3 words with its length: 5 words, low and high key, 4 children.
    let words = first..first + 5 + 2 * 3 + 4 * 4;
    let level = memory.0[first + 1] & 0xffff;
    assert!(level > 1);
    memory.0[first + 1] |= 0xffff;
    memory.0[first] = check_of(at, &memory.0[words][1..]);
    let end = call(&tree, &mut memory, &[1, 0, 1, 0, 7, 7]);
    assert_eq!(end, Err(Fault::Damaged));
    // Below another root, which is at a level that it can have.
    memory.0[first + 1] = memory.0[first + 1] & !0xffff | level;
    let child = memory.0[first + 5 + 2 * 3 + 3];
    let at = SHAPE.at + 64 + (child - 1) * node_words * 8;
    let second = at as usize / 8;
    let words = second..second + 5 + 2 * 3 + 4 * 4;
    memory.0[second + 1] |= 0xffff;
    memory.0[second] = check_of(at, &memory.0[words][1..]);
    let words = first..first + 5 + 2 * 3 + 4 * 4;
    let at = first as u64 * 8;
    memory.0[first] = check_of(at, &memory.0[words][1..]);
    let end = call(&tree, &mut memory, &[1, 0, 1, 0, 0, 7]);
    assert_eq!(end, Err(Fault::Damaged));
}

/// Whoever may write the map's memory can lead from its last leaf back to its first.
#[test]
fn a_visit_of_forged_leaves_ends() {
    let tree = Tree::new(SHAPE).unwrap();
    let world = world(1, &tree, SHAPE.at + SHAPE.bytes());
    let endpoint = world.endpoint(limits());
    let policy = PolicyOptions::default();
    let map = OrderedMap::new(tree, OBJECT, client(&endpoint), 30, policy);
    let visit_all = async || {
        let (mut leaves, mut next) = (0, None);
        loop {
            next = map.visit(next, |_, _| ()).await?;
            leaves += 1;
            if next.is_none() || leaves > SHAPE.nodes {
                return Ok::<_, RemoteError>(leaves);
            }
        }
    };
    Executor::new(Rc::clone(&endpoint)).block_on(async {
        for key in keys() {
            map.put(&key, b"1").await.unwrap();
        }
        let leaves = visit_all().await.unwrap();
        assert!((10..SHAPE.nodes).contains(&leaves));
        let node_words = SHAPE.leaf_bytes() / 8;
        let first = (SHAPE.at as usize + 64) / 8;
        // Of all leaves, each alone: nodes of the lowest level with a check.
        for at in (first..).step_by(node_words).take(SHAPE.nodes as usize) {
            let forge = |next: u64| {
                world.node_handle(NODE.0).with_region_mut(NODE.1, |words| {
                    let leaf = &mut words[at..at + node_words];
                    if leaf[0] == 0 || leaf[1] & 0xffff != 0 {
                        return None;
                    }
                    let before = std::mem::replace(&mut leaf[2], next);
                    leaf[0] = check_of(at as u64 * 8, &leaf[1..]);
                    Some(before)
                })
            };
            if let Some(next) = forge(1) {
                let end = visit_all().await;
                assert_eq!(end, Err(RemoteError::BadReply), "{at}");
                forge(next);
            }
        }
        assert_eq!(visit_all().await, Ok(leaves));
    });
}

#[test]
fn one_read_a_leaf_once_the_upper_levels_are_known() {
    let shape = TreeShape {
        nodes: 2000,
        leaf_pairs: 8,
        children: 16,
        ..SHAPE
    };
    let tree = Tree::new(shape).unwrap();
    let world = world(1, &tree, shape.at + shape.bytes());
    let endpoint = world.endpoint(limits());
    let client = client(&endpoint);
    let map = |leaves| {
        let policy = PolicyOptions::default();
        OrderedMap::new(tree, OBJECT, Rc::clone(&client), leaves, policy)
    };
    Executor::new(Rc::clone(&endpoint)).block_on(async {
        let writer = map(0);
        for number in 0..1000u32 {
            let number = (number * 617 % 1000).to_be_bytes();
            assert!(writer.insert(&number, &number).await.unwrap());
        }
        let reader = map(1000);
        for _ in 0..2 {
            for number in 0..1000u32 {
                let value = reader.get(&number.to_be_bytes()).await.unwrap();
                assert_eq!(value.as_deref(), Some(&number.to_be_bytes()[..]));
            }
        }
        let counts = reader.remote().counts();
        // A call for each node right above the leaves, of which there are some 1000 / 4 / 8.
        assert!(counts.by_call + counts.by_both < 60, "{counts:?}");
        let before = endpoint.core().counters.snapshot();
        let middle = 500u32.to_be_bytes();
        for (range, first) in [
            (KeyRange::from(&middle), 500u32),
            (KeyRange::default().to(&middle).reversed(), 499),
        ] {
            let found = reader.scan(range, 100).await.unwrap();
            assert_eq!(found.len(), 100);
            assert_eq!(found[0].0, first.to_be_bytes());
        }
        let verbs = endpoint.core().counters.snapshot().since(&before);
        assert_eq!(verbs.verbs_of(farslot_fabric::VerbKind::Call), 0);
    });
}

async fn perform(
    map: &OrderedMap<SimEndpoint>,
    key: u64,
    operation: TableOp<u64>,
) -> Result<TableRet<u64>, RemoteError> {
    let bytes = key.to_be_bytes();
    let number = |value: &[u8]| u64::from_le_bytes(value[..8].try_into().unwrap());
    let value = |number: u64| [number.to_le_bytes(), number.to_le_bytes()].concat();
    Ok(match operation {
        TableOp::Get if key.is_multiple_of(2) => {
            let next = (key + 1).to_be_bytes();
            let range = match key.is_multiple_of(4) {
                true => KeyRange::from(&bytes),
                false => KeyRange::default().to(&next).reversed(),
            };
            let found = map.scan(range, 1).await?;
            let pair = found.into_iter().find(|(found, _)| *found == bytes);
            TableRet::Got(pair.map(|(_, value)| number(&value)))
        }
        TableOp::Get => TableRet::Got(map.get(&bytes).await?.map(|value| number(&value))),
        TableOp::Put(new) => TableRet::Put {
            inserted: Some(map.put(&bytes, &value(new)).await?),
        },
        TableOp::Update(new) => TableRet::Updated(map.update(&bytes, &value(new)).await?),
        TableOp::Remove => TableRet::Removed(map.remove(&bytes).await?),
        TableOp::Replace(..) | TableOp::RemoveIf(_) => unreachable!("none is drawn"),
        TableOp::FindOrPut(_) => unreachable!("it is not drawn"),
    })
}

fn run(seed: u64, by_read: &Rc<Cell<u64>>) {
    let tree = Tree::new(SHAPE).unwrap();
    let world = world(seed, &tree, SHAPE.at + SHAPE.bytes());
    world.set_faults(faults(seed));
    let record = Recorder::<u64, TableOp<u64>, TableRet<u64>>::new();
    let mut sim = Simulation::new(world);
    for number in 0..4u32 {
        let id = sim.add_client(HostId(0), limits());
        let (record, by_read) = (record.clone(), Rc::clone(by_read));
        sim.spawn(id, async move |endpoint| {
            let policy = PolicyOptions::default();
            let map = OrderedMap::new(tree, OBJECT, client(&endpoint), 40, policy);
            let coroutines = (0..2u32).map(|coroutine| {
                let number = number * 2 + coroutine;
                let mut rng = ChaCha8Rng::seed_from_u64(seed << 8 | u64::from(number));
                let (map, record, endpoint) = (&map, &record, &endpoint);
                async move {
                    for _ in 0..25 {
                        // Few keys are judged; the others split and fill the leaves between them.
                        let key = rng.random_range(0..24);
                        let operation = match rng.random_range(0..10) {
                            0..5 => TableOp::Get,
                            5..8 => TableOp::Put(rng.random_range(0..1000)),
                            8 => TableOp::Update(rng.random_range(0..1000)),
                            _ => TableOp::Remove,
                        };
                        let begun = record.invoke(number, key, operation.clone(), endpoint.now());
                        match perform(map, key, operation).await {
                            Ok(ret) => record.complete(begun, ret, endpoint.now()),
                            Err(error) => {
                                assert!(error.may_have_taken_effect(), "seed {seed}: {error}");
                                record.in_doubt(begun, endpoint.now());
                                endpoint.sleep(20_000).await;
                            }
                        }
                    }
                }
            });
            window(2, coroutines, |_, ()| ()).await;
            by_read.set(by_read.get() + map.remote().counts().by_read);
        });
    }
    assert_eq!(sim.run_until(1_000_000_000), RunEnd::Done, "seed {seed}");
    if let Err(error) = check(&record.take(), &RegisterMap::new()) {
        panic!("seed {seed}:\n{error}");
    }
}

#[test]
fn histories_under_faults_are_linearizable() {
    let by_read = Rc::default();
    (0..150).for_each(|seed| run(seed, &by_read));
    assert!(by_read.get() > 1000, "{}", by_read.get());
}
