//! What an owner does under the locks of leaves, against a plain map.

use crate::local::{ask, call, read};
use farslot_fabric::OwnerMemory;
use farslot_remote::ordered::{LeafDirectory, Tree, TreeShape};
use farslot_remote::{Lock, LookupVerdict};
use farslot_rpc::Fault;
use farslot_testbed::PlainMemory;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const SHAPE: TreeShape = TreeShape {
    at: 64,
    key_bytes: 2,
    value_bytes: 3,
    leaf_pairs: 2,
    children: 4,
    nodes: 80,
};

const NAMES: [Lock; 2] = [Lock { owner: 7, epoch: 1 }, Lock { owner: 7, epoch: 2 }];

/// What one transaction holds: low keys of leaves, and what was promised.
type Held = BTreeMap<Vec<u8>, u64>;

fn release(tree: &Tree, memory: &mut PlainMemory, held: &mut Held, lock: Lock) {
    for (low, promised) in std::mem::take(held) {
        tree.unlock(memory, &low, lock, promised).unwrap();
    }
}

/// All pairs, leaf by leaf; and who holds each.
fn all(tree: &Tree, memory: &mut PlainMemory) -> (BTreeMap<Vec<u8>, Vec<u8>>, BTreeSet<u64>) {
    let (mut pairs, mut locks, mut from) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
    loop {
        let leaf = tree.look(memory, &from).unwrap();
        assert!(leaf.covers(&from));
        if leaf.version > 0 {
            // The word that READs are compared with.
            assert_eq!(memory.load(leaf.at).unwrap(), leaf.word);
        }
        locks.extend(leaf.lock.map(Lock::word));
        pairs.extend(leaf.pairs);
        match leaf.high {
            Some(high) => from = high,
            None => return (pairs, locks),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// Two transactions change keys side by side. What each was promised is enough, whatever the
    /// other uses.
    #[test]
    fn leaves_that_are_held_are_changed_by_their_holder_alone(
        steps in proptest::collection::vec((0u8..2, 0u8..12, 0u8..40, any::<u8>()), 1..200),
    ) {
        let tree = Tree::new(SHAPE).unwrap();
        let mut memory = PlainMemory::of(SHAPE.at + SHAPE.bytes());
        let (mut held, mut model) = ([Held::new(), Held::new()], BTreeMap::new());
        for (who, step, number, value) in steps {
            let (lock, own, key) = (NAMES[usize::from(who)], &mut held[usize::from(who)], vec![number]);
            let before = tree.look(&mut memory, &key).unwrap();
            match step {
                0..9 => match tree.try_lock(&mut memory, &key, lock) {
                    Ok(hold) => {
                        prop_assert_eq!(hold.leaf.lock, before.lock.or(Some(lock)));
                        let is_own = hold.leaf.lock == Some(lock);
                        prop_assert_eq!(hold.promised > 0, is_own);
                        if is_own {
                            *own.entry(hold.leaf.low).or_default() += hold.promised;
                            let value = (step < 6).then(|| vec![value; usize::from(value % 4)]);
                            let done = tree.change(&mut memory, &key, lock, value.as_deref());
                            prop_assert_eq!(done, Ok(true));
                            match value {
                                Some(value) => model.insert(key.clone(), value),
                                None => model.remove(&key),
                            };
                            let after = tree.look(&mut memory, &key).unwrap();
                            prop_assert!(after.version >= before.version);
                            prop_assert_eq!(after.lock, Some(lock));
                        }
                    }
                    // Full: nothing was changed.
                    Err(error) => {
                        prop_assert!(matches!(error, Fault::Refused(_)), "{:?}", error);
                        if before.version > 0 {
                            prop_assert_eq!(tree.look(&mut memory, &key).unwrap(), before);
                        }
                    }
                },
                9 => release(&tree, &mut memory, own, lock),
                10 if before.lock != Some(lock) => {
                    prop_assert_eq!(tree.change(&mut memory, &key, lock, Some(&[1])), Ok(false));
                }
                // A change outside of transactions is refused where somebody holds the leaf.
                _ => {
                    const PUT: u8 = 1;
                    let end = call(&tree, &mut memory, &[PUT, 0, 1, 0, number, value]);
                    if before.lock.is_some() {
                        prop_assert!(matches!(end, Err(Fault::Refused(_))), "{:?}", end);
                    } else if end.is_ok() {
                        model.insert(key, vec![value]);
                    }
                }
            }
            let (pairs, locks) = all(&tree, &mut memory);
            prop_assert_eq!(&pairs, &model);
            let holders = (0..2).filter(|who| !held[*who].is_empty());
            prop_assert_eq!(locks, holders.map(|who| NAMES[who].word()).collect());
        }
        for (own, lock) in held.iter_mut().zip(NAMES) {
            release(&tree, &mut memory, own, lock);
        }
        let (pairs, locks) = all(&tree, &mut memory);
        prop_assert_eq!(pairs, model);
        prop_assert!(locks.is_empty());
        // All promises were taken back.
        prop_assert_eq!(memory.load(SHAPE.at + 24), Ok(0));
    }
}

#[test]
fn a_read_sees_a_lock_and_a_change_of_version() {
    let tree = Tree::new(SHAPE).unwrap();
    let mut memory = PlainMemory::of(SHAPE.at + SHAPE.bytes());
    let empty = tree.look(&mut memory, b"a").unwrap();
    assert_eq!((empty.version, empty.word, empty.at), (0, 0, SHAPE.at));
    assert_eq!(memory.load(empty.at), Ok(0));
    let hold = tree.try_lock(&mut memory, b"a", NAMES[0]).unwrap();
    // What an empty map was read by has changed.
    assert_ne!(memory.load(empty.at), Ok(0));
    tree.change(&mut memory, b"a", NAMES[0], Some(b"x"))
        .unwrap();
    tree.unlock(&mut memory, &hold.leaf.low, NAMES[0], hold.promised)
        .unwrap();
    let one = tree.look(&mut memory, b"a").unwrap();
    assert_eq!((one.lock, one.get(b"a")), (None, Some(&b"x"[..])));
    // Back to the same pairs, and yet another leaf.
    for value in [None, Some(&b"x"[..])] {
        let hold = tree.try_lock(&mut memory, b"a", NAMES[0]).unwrap();
        tree.change(&mut memory, b"a", NAMES[0], value).unwrap();
        tree.unlock(&mut memory, &hold.leaf.low, NAMES[0], hold.promised)
            .unwrap();
    }
    let again = tree.look(&mut memory, b"a").unwrap();
    assert_eq!(again.pairs, one.pairs);
    assert_ne!((again.version, again.word), (one.version, one.word));
    let mut cache = LeafDirectory::new(4);
    assert_eq!(
        ask(&tree, &mut memory, b"a", &mut cache),
        LookupVerdict::Found(b"x".to_vec())
    );
    assert_eq!(
        read(&tree, &memory, b"a", &mut cache),
        LookupVerdict::Found(b"x".to_vec())
    );
}

#[test]
fn an_unlock_goes_no_further_than_was_promised() {
    let shape = TreeShape {
        nodes: 500,
        ..SHAPE
    };
    let tree = Tree::new(shape).unwrap();
    let mut memory = PlainMemory::of(shape.at + shape.bytes());
    for number in 0..40u8 {
        const PUT: u8 = 1;
        call(&tree, &mut memory, &[PUT, 0, 1, 0, number, 1]).unwrap();
    }
    let mut held = Held::new();
    for number in 0..40 {
        let hold = tree.try_lock(&mut memory, &[number], NAMES[0]).unwrap();
        *held.entry(hold.leaf.low).or_default() += hold.promised;
    }
    // All follow one another, and so does what is split off them.
    for number in 0..40 {
        assert!(
            tree.change(&mut memory, &[number, 0], NAMES[0], Some(b"2"))
                .unwrap()
        );
    }
    let locked = |memory: &mut PlainMemory| {
        let keys = 0..40u8;
        keys.filter(|key| tree.look(memory, &[*key]).unwrap().lock.is_some())
            .count()
    };
    let before = locked(&mut memory);
    let (low, _) = held.first_key_value().unwrap();
    let low = low.clone();
    tree.unlock(&mut memory, &low, NAMES[0], 0).unwrap();
    let after = locked(&mut memory);
    assert!(after < before && after > 0, "{before} {after}");
    release(&tree, &mut memory, &mut held, NAMES[0]);
    assert_eq!(locked(&mut memory), 0);
}

/// Whatever has become of the nodes that it was promised.
#[test]
fn a_change_under_a_lock_that_has_no_nodes_is_refused_before_it_begins() {
    const PUT: u8 = 1;
    let tree = Tree::new(SHAPE).unwrap();
    let mut memory = PlainMemory::of(SHAPE.at + SHAPE.bytes());
    let mut model = BTreeMap::new();
    let mut refused = BTreeSet::new();
    for key in (0..=250_u8).rev().step_by(2) {
        let Ok(hold) = tree.try_lock(&mut memory, &[key, 1], NAMES[0]) else {
            break;
        };
        for left in 0..6 {
            let mut then = PlainMemory(memory.0.clone());
            // The words of the map's header: nodes in use.
            then.store(SHAPE.at + 8, u64::from(SHAPE.nodes) - left)
                .unwrap();
            let end = tree.change(&mut then, &[key, 1], NAMES[0], Some(&[9]));
            let mut expected = model.clone();
            match end {
                Ok(is_done) => {
                    assert!(is_done);
                    expected.insert(vec![key, 1], vec![9]);
                }
                Err(Fault::Refused(_)) => drop(refused.insert(left)),
                Err(other) => panic!("{other:?}"),
            }
            assert_eq!(all(&tree, &mut then).0, expected, "{key} {left}");
        }
        tree.unlock(&mut memory, &hold.leaf.low, NAMES[0], hold.promised)
            .unwrap();
        if call(&tree, &mut memory, &[PUT, 0, 1, 0, key, 7]).is_ok() {
            model.insert(vec![key], vec![7]);
        }
    }
    // One for each node on the way at least.
    assert!(refused.contains(&0) && refused.contains(&2), "{refused:?}");
}
