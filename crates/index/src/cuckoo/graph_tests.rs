//! The graph against the judge of all arrangements, maximum bipartite matching: every verdict, at
//! every moment of histories with removals and take-overs.

use super::*;
use crate::FieldSize;
use crate::Sizing;
use crate::cuckoo::CuckooOptions;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Whether each key can have a slot of its own, by Kuhn's augmenting paths.
fn is_placeable(keys: &[CandidateBuckets], layout: &CuckooLayout) -> bool {
    let mut owners = vec![None; layout.slots() as usize];
    (0..keys.len()).all(|key| {
        let mut seen = vec![false; owners.len()];
        augment(key, keys, layout, &mut owners, &mut seen)
    })
}

fn augment(
    key: usize,
    keys: &[CandidateBuckets],
    layout: &CuckooLayout,
    owners: &mut [Option<usize>],
    seen: &mut [bool],
) -> bool {
    let slots = layout.bucket_slots as usize;
    for bucket in keys[key].as_slice() {
        for slot in (*bucket as usize * slots..).take(slots) {
            if std::mem::replace(&mut seen[slot], true) {
                continue;
            }
            let is_free = match owners[slot] {
                None => true,
                Some(owner) => augment(owner, keys, layout, owners, seen),
            };
            if is_free {
                owners[slot] = Some(key);
                return true;
            }
        }
    }
    false
}

fn layout(ways: u32, bucket_slots: u32, slots: u64, seed: u64) -> CuckooLayout {
    let options = CuckooOptions {
        ways,
        bucket_slots,
        ..CuckooOptions::new(Sizing {
            load_factor: Some(1.0),
            ..Sizing::new(slots, FieldSize::Fixed(4), FieldSize::Fixed(3), seed)
        })
    };
    options.layout().unwrap()
}

/// A table that does what the graph says, and nothing else.
struct Table {
    layout: CuckooLayout,
    graph: CuckooGraph,
    records: BTreeMap<u64, CuckooSlot>,
}

impl Table {
    fn new(layout: CuckooLayout) -> Self {
        Self {
            graph: CuckooGraph::new(&layout),
            layout,
            records: BTreeMap::new(),
        }
    }

    fn fits(&self, key: u64) -> bool {
        let keys = self.records.keys().chain([&key]);
        let keys: Vec<_> = keys.map(|key| self.layout.buckets_of(*key)).collect();
        is_placeable(&keys, &self.layout)
    }

    fn insert(&mut self, key: u64) -> bool {
        let candidates = self.layout.buckets_of(key);
        let Some(way) = self.graph.way(&candidates) else {
            return false;
        };
        for pair in way.windows(2).rev() {
            let moved = self.records.iter().find(|(_, place)| **place == pair[0]);
            let moved = *moved.expect("a way leads over records").0;
            let buckets = self.layout.buckets_of(moved);
            assert!(buckets.as_slice().contains(&pair[1].bucket));
            self.put(moved, pair[1]);
            self.graph.move_record(pair[0], pair[1]);
        }
        assert!(candidates.as_slice().contains(&way[0].bucket));
        self.put(key, way[0]);
        self.graph.fill(way[0], &candidates);
        true
    }

    fn put(&mut self, key: u64, place: CuckooSlot) {
        let is_taken = self.records.values().any(|other| *other == place);
        assert!(!is_taken, "{place:?} is not vacant");
        self.records.insert(key, place);
    }

    fn remove(&mut self, key: u64) {
        self.graph.vacate(self.records.remove(&key).unwrap());
    }

    /// What a survey of the table makes.
    fn surveyed(&self) -> CuckooGraph {
        let mut graph = CuckooGraph::new(&self.layout);
        for (key, place) in &self.records {
            graph.fill(*place, &self.layout.buckets_of(*key));
        }
        graph
    }

    fn check(&self) -> std::result::Result<(), TestCaseError> {
        prop_assert_eq!(&self.graph.edges, &self.surveyed().edges);
        for (key, place) in &self.records {
            let buckets = self.layout.buckets_of(*key);
            prop_assert!(self.graph.may_hold(place.bucket, &buckets));
        }
        Ok(())
    }
}

fn run(
    mut table: Table,
    steps: &[(f64, u16)],
    removals: f64,
) -> std::result::Result<(), TestCaseError> {
    for (number, &(chance, which)) in steps.iter().enumerate() {
        if chance < 0.02 {
            table.graph = table.surveyed();
        } else if chance >= removals || table.records.is_empty() {
            let key = u64::from(which) << 32 | number as u64;
            let fits = table.fits(key);
            let has_place = table.graph.way(&table.layout.buckets_of(key)).is_some();
            prop_assert_eq!(has_place, fits);
            prop_assert_eq!(table.insert(key), fits);
        } else {
            let at = usize::from(which) % table.records.len();
            let key = *table.records.keys().nth(at).unwrap();
            table.remove(key);
        }
        table.check()?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn every_insertion_ends_as_the_judge_says(
        (ways, bucket_slots) in (2u32..=4, 1u32..=4),
        slots in 1u64..40,
        seed in any::<u64>(),
        removals in 0.02..0.45,
        steps in prop::collection::vec((0.0..1.0, any::<u16>()), 1..120),
    ) {
        run(Table::new(layout(ways, bucket_slots, slots, seed)), &steps, removals)?;
    }
}

/// A search that has failed is not repeated: the second one comes to no bucket.
#[test]
fn failures_are_searched_for_once() {
    let mut table = Table::new(layout(2, 1, 64, 5));
    let (mut refused, mut known) = (0, 0);
    for key in 0..400 {
        if !table.insert(key) {
            refused += 1;
            known += u64::from(table.graph.reached.is_empty());
            assert!(!table.insert(key) && table.graph.reached.is_empty());
        }
    }
    assert!(refused > 200 && known > refused / 2, "{known} of {refused}");
    // What is vacant again is found again.
    let gone = *table.records.keys().next().unwrap();
    table.remove(gone);
    assert!(table.insert(gone));
}

#[test]
fn a_record_of_which_nothing_is_known_stays_and_may_be_any() {
    let layout = layout(2, 1, 8, 3);
    let mut graph = CuckooGraph::new(&layout);
    for bucket in 0..layout.buckets {
        graph.fill_unknown(CuckooSlot { bucket, slot: 0 });
    }
    let candidates = layout.buckets_of(1);
    assert!(graph.way(&candidates).is_none());
    assert!(graph.may_hold(candidates.as_slice()[0], &candidates));
    graph.vacate(CuckooSlot { bucket: 0, slot: 0 });
    let key = (0..).find(|key| layout.buckets_of(*key).as_slice()[0] == 0);
    let candidates = layout.buckets_of(key.unwrap());
    assert_eq!(
        graph.way(&candidates),
        Some(vec![CuckooSlot { bucket: 0, slot: 0 }])
    );
    assert!(!graph.may_hold(0, &candidates));
}

#[test]
fn tables_that_are_too_large_are_named() {
    let mut large = layout(2, 1, 8, 3);
    large.buckets = u64::from(u32::MAX);
    let refused = CuckooGraph::check(&large).unwrap_err();
    assert!(
        refused.to_string().contains("buckets = 4294967295"),
        "{refused}"
    );
    assert_eq!(CuckooGraph::bytes(&layout(3, 4, 400, 3)), 400 * 8 + 100 * 8);
}
