//! The tests' judge: whether an arrangement of all keys exists, by maximum bipartite matching; and
//! keys that choose their hashes.

use std::hash::{BuildHasher, Hasher};

/// Whether each key can have a slot of its own, by Kuhn's augmenting paths. `candidates` are the
/// buckets of each key, each of `slots` slots.
pub(crate) fn is_placeable(candidates: &[Vec<u32>], buckets: u32, slots: u32) -> bool {
    let mut owners = vec![None; (buckets * slots) as usize];
    (0..candidates.len()).all(|key| {
        let mut seen = vec![false; owners.len()];
        augment(key, candidates, slots, &mut owners, &mut seen)
    })
}

fn augment(
    key: usize,
    candidates: &[Vec<u32>],
    slots: u32,
    owners: &mut [Option<usize>],
    seen: &mut [bool],
) -> bool {
    let buckets = candidates[key].iter();
    let own = buckets.flat_map(|bucket| bucket * slots..(bucket + 1) * slots);
    for slot in own {
        let slot = slot as usize;
        if std::mem::replace(&mut seen[slot], true) {
            continue;
        }
        let is_free = match owners[slot] {
            None => true,
            Some(owner) => augment(owner, candidates, slots, owners, seen),
        };
        if is_free {
            owners[slot] = Some(key);
            return true;
        }
    }
    false
}

#[test]
fn the_judge_knows_what_fits() {
    let [a, b] = [vec![0, 1], vec![1, 2]];
    assert!(is_placeable(&[a.clone(), a.clone(), b.clone()], 3, 1));
    assert!(!is_placeable(&[a.clone(), a.clone(), a.clone()], 3, 1));
    assert!(is_placeable(
        &[a.clone(), a.clone(), a.clone(), a.clone()],
        3,
        2
    ));
    assert!(!is_placeable(
        &[a.clone(), a.clone(), a.clone(), a.clone(), a],
        3,
        2
    ));
}

/// Hashes a key that is one word to that word.
#[derive(Clone, Debug, Default)]
pub(crate) struct AsChosen;

pub(crate) struct IdentityHasher(u64);

impl BuildHasher for AsChosen {
    type Hasher = IdentityHasher;

    fn build_hasher(&self) -> IdentityHasher {
        IdentityHasher(0)
    }
}

impl Hasher for IdentityHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are hashed as one word");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
