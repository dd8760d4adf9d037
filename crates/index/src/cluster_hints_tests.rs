use super::*;
use proptest::prelude::*;

fn merged(slots: u64, most: usize, notes: &[(u64, u64)]) -> ClusterHints {
    let mut hints = ClusterHints::new(slots, most);
    for &(start, empty) in notes {
        hints.note(start, empty);
        hints.merge();
    }
    hints
}

fn clusters(hints: &ClusterHints) -> Vec<(u64, u64)> {
    hints.clusters().collect()
}

const fn ahead(ahead: u64, len: u64) -> Option<Hint> {
    Some(Hint::Ahead { ahead, len })
}

const fn inside(left: u64) -> Option<Hint> {
    Some(Hint::Inside { left })
}

#[test]
fn a_note_counts_once_it_is_merged() {
    let mut hints = ClusterHints::new(100, 8);
    assert_eq!((hints.at(10), hints.has_notes()), (None, false));
    hints.note(10, 14);
    assert_eq!((hints.at(10), hints.has_notes()), (None, true));
    hints.merge();
    assert!(!hints.has_notes() && !hints.is_empty());
    assert_eq!(hints.at(7), ahead(3, 4));
    assert_eq!(hints.at(10), inside(4));
    assert_eq!(hints.at(13), inside(1));
    // The empty slot itself: the cluster is the next one again, a whole turn ahead.
    assert_eq!(hints.at(14), ahead(96, 4));
}

#[test]
fn later_sights_lengthen_and_correct() {
    // Seen from further in front, and from within.
    assert_eq!(
        clusters(&merged(100, 8, &[(10, 14), (5, 14), (12, 14)])),
        [(5, 9)]
    );
    // The end has moved, and the run has grown into the next one.
    assert_eq!(clusters(&merged(100, 8, &[(10, 14), (12, 17)])), [(10, 7)]);
    assert_eq!(
        clusters(&merged(100, 8, &[(10, 14), (20, 30), (13, 30)])),
        [(10, 20)]
    );
    // A slot within has been freed: two clusters.
    assert_eq!(
        clusters(&merged(100, 8, &[(10, 20), (12, 15)])),
        [(10, 5), (16, 4)]
    );
    assert_eq!(clusters(&merged(100, 8, &[(10, 20), (10, 10)])), [(11, 9)]);
    assert_eq!(clusters(&merged(100, 8, &[(10, 11), (10, 10)])), []);
}

#[test]
fn a_cluster_goes_round_the_tables_end() {
    let hints = merged(100, 8, &[(95, 3)]);
    assert_eq!(clusters(&hints), [(95, 8)]);
    assert_eq!(hints.at(97), inside(6));
    assert_eq!(hints.at(0), inside(3));
    assert_eq!(hints.at(3), ahead(92, 8));
    assert_eq!(hints.at(50), ahead(45, 8));
    // It may end at the very first slot, and be cut on either side.
    assert_eq!(clusters(&merged(100, 8, &[(95, 0)])), [(95, 5)]);
    assert_eq!(
        clusters(&merged(100, 8, &[(95, 3), (97, 98)])),
        [(99, 4), (95, 3)]
    );
    assert_eq!(
        clusters(&merged(100, 8, &[(95, 3), (0, 1)])),
        [(95, 6), (2, 1)]
    );
}

#[test]
fn the_smallest_cluster_goes() {
    let mut hints = merged(100, 2, &[(10, 15), (20, 23), (30, 37)]);
    assert_eq!(clusters(&hints), [(10, 5), (30, 7)]);
    hints.note(50, 54);
    hints.merge();
    assert_eq!(hints.len(), 2, "shorter than all that are kept");
    assert!(merged(100, 0, &[(10, 15)]).is_empty());
}

#[test]
fn what_cannot_be_is_not_noted() {
    let mut hints = ClusterHints::new(10, 4);
    for (start, empty) in [(10, 3), (3, 10), (u64::MAX, u64::MAX)] {
        hints.note(start, empty);
    }
    assert!(!hints.has_notes());
    assert_eq!(hints.at(10), None);
    assert_eq!(ClusterHints::new(0, 4).at(0), None);
    for _ in 0..1_000 {
        hints.note(1, 2);
    }
    assert_eq!(hints.notes.len(), MOST_NOTES);
    hints.merge();
    for (start, empty) in [(1, 2), (4, 4)] {
        hints.note(start, empty);
        assert!(!hints.has_notes(), "{start} to {empty} says nothing new");
    }
}

/// The same by a table of what is believed of every slot.
struct Beliefs {
    /// Whether a slot is in use; of most slots nothing is known.
    in_use: Vec<Option<bool>>,
    most: usize,
}

impl Beliefs {
    fn slots(&self) -> usize {
        self.in_use.len()
    }

    fn learn(&mut self, start: usize, empty: usize) {
        let mut slot = start;
        while slot != empty {
            self.in_use[slot] = Some(true);
            slot = (slot + 1) % self.slots();
        }
        self.in_use[empty] = Some(false);
        while self.clusters().len() > self.most {
            let smallest = self.clusters().into_iter().map(|(start, len)| {
                let end = (start + len) % self.slots();
                (len, end, start)
            });
            let (len, _, start) = smallest.min().unwrap();
            for slot in start..start + len {
                let slot = slot % self.slots();
                self.in_use[slot] = None;
            }
        }
    }

    /// Slots in use from `slot` on.
    fn run(&self, slot: usize) -> usize {
        let is_in_use = |at: &usize| self.in_use[(slot + at) % self.slots()] == Some(true);
        (0..self.slots()).take_while(is_in_use).count()
    }

    fn clusters(&self) -> Vec<(usize, usize)> {
        let begins = |slot: &usize| {
            let before = (slot + self.slots() - 1) % self.slots();
            self.in_use[*slot] == Some(true) && self.in_use[before] != Some(true)
        };
        let starts = (0..self.slots()).filter(begins);
        starts.map(|start| (start, self.run(start))).collect()
    }

    fn at(&self, slot: usize) -> Option<Hint> {
        match self.run(slot) {
            0 => {
                let ahead = (1..=self.slots()).find(|&ahead| self.run(slot + ahead) > 0)?;
                let len = self.run(slot + ahead) as u64;
                Some(Hint::Ahead {
                    ahead: ahead as u64,
                    len,
                })
            }
            left => Some(Hint::Inside { left: left as u64 }),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn hints_are_what_was_seen_last(
        slots in 1usize..50,
        most in 0usize..12,
        runs in proptest::collection::vec((any::<usize>(), 0usize..50, any::<bool>()), 1..60),
    ) {
        let mut hints = ClusterHints::new(slots as u64, most);
        let mut beliefs = Beliefs { in_use: vec![None; slots], most };
        for (start, len, long) in runs {
            // Most runs are short, so that tables have many clusters.
            let len = if long { len } else { len % 4 };
            let (start, empty) = (start % slots, (start % slots + len.min(slots - 1)) % slots);
            hints.note(start as u64, empty as u64);
            hints.merge();
            beliefs.learn(start, empty);

            let mut known: Vec<_> = hints.clusters().collect();
            known.sort_unstable();
            let believed: Vec<_> = beliefs.clusters();
            let believed: Vec<_> = believed.iter().map(|&(at, len)| (at as u64, len as u64)).collect();
            prop_assert_eq!(known, believed);
            prop_assert_eq!(hints.len(), hints.by_length.len());
            for (part, &count) in (0..).zip(&hints.ends_before) {
                let first = part << hints.part_bits;
                let below = hints.ends.iter().filter(|&&end| end < first).count();
                prop_assert_eq!(count as usize, below);
            }
            for slot in 0..slots {
                prop_assert_eq!(hints.at(slot as u64), beliefs.at(slot), "at {}", slot);
            }
        }
    }
}
