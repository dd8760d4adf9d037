//! What the map predetermines, against the judge: exhaustively for tiny tables, at random for
//! larger.

use super::{Scenario, SmartCuckooMap, Standing};
use crate::oracle::{AsChosen, is_placeable};
use proptest::prelude::*;
use std::hash::{Hash, Hasher};

/// A key that chooses its hash, and so its candidates; the second number tells equal ones apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chosen {
    hash: u64,
    id: u32,
}

impl Hash for Chosen {
    fn hash<H: Hasher>(&self, to: &mut H) {
        to.write_u64(self.hash);
    }
}

type Map = SmartCuckooMap<Chosen, u32, AsChosen>;

/// An empty map of fixed size, without a stash, that keeps its forest from the start or once it has
/// to.
fn map_of(side: u32, tracks: bool) -> Map {
    let mut map = Map::with_slots_and_hasher(2 * side as usize, AsChosen).unwrap();
    map.set_stash_limit(0);
    if tracks {
        map.track_subgraphs();
    }
    map
}

/// A hash for each pair of candidates.
fn hashes_of_pairs(map: &Map) -> Vec<u64> {
    let side = map.buckets.side();
    let mut hashes = vec![None; (side * side) as usize];
    let mut left = hashes.len();
    for hash in 0.. {
        let candidates = map.buckets.candidates(hash);
        let pair = candidates.first * side + candidates.second - side;
        let known = &mut hashes[pair as usize];
        if known.is_none() {
            *known = Some(hash);
            left -= 1;
        }
        if left == 0 {
            break;
        }
    }
    hashes.into_iter().flatten().collect()
}

fn candidates(map: &Map, hash: u64) -> Vec<u32> {
    let candidates = map.buckets.candidates(hash);
    vec![candidates.first, candidates.second]
}

/// Whether all of the map's keys and one more can be placed.
fn fits(map: &Map, keys: &[Chosen], hash: u64) -> bool {
    let mut all: Vec<_> = keys.iter().map(|key| candidates(map, key.hash)).collect();
    all.push(candidates(map, hash));
    is_placeable(&all, map.slots() as u32, 1)
}

/// The vertices that a bucket is connected with, and the edges among them.
fn subgraph(map: &Map, keys: &[Chosen], bucket: u32) -> (usize, usize) {
    let edges: Vec<_> = keys.iter().map(|key| candidates(map, key.hash)).collect();
    let mut members = vec![bucket];
    let mut at = 0;
    while at < members.len() {
        let here = members[at];
        for edge in edges.iter().filter(|edge| edge.contains(&here)) {
            let there = edge[0] + edge[1] - here;
            if !members.contains(&there) {
                members.push(there);
            }
        }
        at += 1;
    }
    let inside = edges.iter().filter(|edge| members.contains(&edge[0]));
    (members.len(), inside.count())
}

/// All that must be so between any two operations.
fn check(map: &mut Map, keys: &[Chosen], hashes: &[u64]) {
    assert_eq!(map.len(), keys.len());
    for key in keys {
        assert_eq!(map.get(key), Some(&key.id));
    }
    for bucket in 0..map.slots() as u32 {
        let (vertices, edges) = subgraph(map, keys, bucket);
        let (standing, size) = map.forest.standing(bucket);
        match standing {
            Standing::Tree => assert_eq!((size as usize, edges), (vertices, vertices - 1)),
            Standing::Maximal => assert_eq!((size as usize, edges), (vertices, vertices)),
            Standing::Unknown => assert!(size as usize >= vertices),
        }
    }
    for &hash in hashes {
        let fits = fits(map, keys, hash);
        let absent = Chosen { hash, id: u32::MAX };
        assert_eq!(map.has_place(&absent), fits, "{keys:?} and {hash}");
        match map.scenario(&absent).unwrap() {
            Scenario::OneMaximal | Scenario::TwoMaximal => assert!(!fits),
            Scenario::Unknown => {}
            _ => assert!(fits),
        }
    }
}

/// Every operation from here on, to a depth, each on a copy of the map.
fn explore(map: &Map, keys: &[Chosen], hashes: &[u64], depth: u32, states: &mut u64) {
    *states += 1;
    if depth == 0 {
        return;
    }
    for &hash in hashes {
        let (mut map, mut keys) = (map.clone(), keys.to_vec());
        let key = Chosen { hash, id: depth };
        let fits = fits(&map, &keys, hash);
        let before = map.counters();
        let inserted = map.insert_within(key, depth);
        assert_eq!(inserted.is_ok(), fits, "{keys:?} and {key:?}");
        if fits {
            keys.push(key);
        } else {
            assert_eq!((map.counters() - before).kick_outs, 0);
        }
        check(&mut map, &keys, hashes);
        explore(&map, &keys, hashes, depth - 1, states);
    }
    for index in 0..keys.len() {
        let (mut map, mut keys) = (map.clone(), keys.to_vec());
        let key = keys.remove(index);
        assert_eq!(map.remove(&key), Some(key.id));
        check(&mut map, &keys, hashes);
        explore(&map, &keys, hashes, depth - 1, states);
    }
}

fn exhaustively(side: u32, depth: u32, tracks: bool) -> u64 {
    let map = map_of(side, tracks);
    let hashes = hashes_of_pairs(&map);
    let mut states = 0;
    explore(&map, &[], &hashes, depth, &mut states);
    states
}

#[test]
fn all_short_histories_of_four_buckets_end_as_the_judge_says() {
    assert!(exhaustively(2, 7, true) > 50_000);
    assert!(exhaustively(2, 6, false) > 5_000);
}

#[test]
fn all_short_histories_of_six_buckets_end_as_the_judge_says() {
    assert!(exhaustively(3, 5, true) > 50_000);
    assert!(exhaustively(3, 4, false) > 5_000);
}

/// Ids are unique, so that no key is inserted twice.
fn run(side: u32, tracks: bool, steps: &[(bool, u16, u16)]) {
    let mut map = map_of(side, tracks);
    let hashes = hashes_of_pairs(&map);
    let mut keys: Vec<Chosen> = Vec::new();
    for (id, &(inserts, pair, which)) in steps.iter().enumerate() {
        let hash = hashes[usize::from(pair) % hashes.len()];
        if inserts || keys.is_empty() {
            let fits = fits(&map, &keys, hash);
            let key = Chosen {
                hash,
                id: id as u32,
            };
            let before = map.counters();
            let inserted = map.insert_within(key, key.id);
            assert_eq!(inserted.is_ok(), fits);
            if fits {
                keys.push(key);
            } else {
                assert_eq!((map.counters() - before).kick_outs, 0);
            }
        } else {
            let key = keys.swap_remove(usize::from(which) % keys.len());
            assert_eq!(map.remove(&key), Some(key.id));
        }
        check(&mut map, &keys, &hashes[..hashes.len().min(40)]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// As many removals as insertions keep all subgraphs mixed up; few leave large maximal ones.
    #[test]
    fn long_histories_end_as_the_judge_says(
        side in 2u32..12,
        tracks in any::<bool>(),
        steps in prop::collection::vec((prop::bool::weighted(0.62), any::<u16>(), any::<u16>()), 1..160),
    ) {
        run(side, tracks, &steps);
    }

    #[test]
    fn full_tables_end_as_the_judge_says(
        side in 2u32..12,
        tracks in any::<bool>(),
        steps in prop::collection::vec((prop::bool::weighted(0.9), any::<u16>(), any::<u16>()), 1..160),
    ) {
        run(side, tracks, &steps);
    }
}

#[test]
fn a_forest_that_knows_too_little_is_built_anew() {
    let mut map = map_of(64, false);
    let mut refused = 0;
    let mut state = 1u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state >> 16
    };
    let mut keys = Vec::new();
    for id in 0..20_000 {
        let key = Chosen { hash: random(), id };
        match map.insert_within(key, id) {
            Ok(_) => keys.push(key),
            Err(_) => refused += 1,
        }
        if id % 16 == 0 {
            let gone = keys.swap_remove(random() as usize % keys.len());
            assert_eq!(map.remove(&gone), Some(gone.id));
        }
    }
    let counters = map.counters();
    assert!(
        counters.rebuilds > 0 && counters.known_failures > 0,
        "{counters:?}"
    );
    assert_eq!(counters.failures, refused);
    assert!(keys.iter().all(|key| map.get(key) == Some(&key.id)));
}
