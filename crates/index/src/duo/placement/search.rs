//! The shortest way to a free slot, breadth first (paper 001, section III-B).
//!
//! Invariant: a path is found whole before anything is moved, its slots are all different, and all
//! but the last hold a primary fingerprint, which says where its record may go.

use super::index::Placement;
use super::path::Path;
use crate::duo::bytes::SlotNumber;
use smallvec::smallvec;
use std::cell::RefCell;

/// A bucket that the search has reached: which of the reached ones it came from, and by which slot.
struct SearchedBucket {
    bucket: u64,
    from: Option<(u32, u32)>,
}

thread_local! {
    /// What a thread's searches have reached, kept so that they allocate nothing.
    static REACHED: RefCell<Vec<SearchedBucket>> = const { RefCell::new(Vec::new()) };
}

impl Placement {
    /// The shortest path from one of the buckets `roots`, of which the roomier one is taken if
    /// there is a free slot in either: that keeps buckets from filling up early. Buckets that are
    /// not `usable` are gone round, and slots of `fixed` stay where they are.
    pub fn path(
        &self,
        roots: &[u64],
        fixed: &[SlotNumber],
        usable: impl Fn(u64) -> bool,
    ) -> Option<Path> {
        let roomiest = roots.iter().copied().filter(|root| usable(*root));
        // Of equally roomy ones the first.
        if let Some(slot) = self.room_in(roomiest.rev()) {
            return Some(Path::to(slot));
        }
        let mut reached = REACHED.take();
        let path = self.search(&mut reached, roots, fixed, usable);
        REACHED.set(reached);
        path
    }

    fn search(
        &self,
        reached: &mut Vec<SearchedBucket>,
        roots: &[u64],
        fixed: &[SlotNumber],
        usable: impl Fn(u64) -> bool,
    ) -> Option<Path> {
        reached.clear();
        let roots = roots.iter().filter(|root| usable(**root));
        reached.extend(roots.map(|root| SearchedBucket {
            bucket: *root,
            from: None,
        }));
        let mut level = 0..reached.len();
        for _ in 0..self.shape.longest_path {
            for at in level.clone() {
                let bucket = reached[at].bucket;
                let mut movable = self.movable_in(bucket);
                while movable != 0 {
                    let slot = movable.trailing_zeros();
                    movable &= movable - 1;
                    let here = self.slot(bucket, slot);
                    let Some(next) = self.other_bucket(here) else {
                        continue;
                    };
                    if fixed.contains(&here) || on_the_way(reached, at, next) || !usable(next) {
                        continue;
                    }
                    reached.push(SearchedBucket {
                        bucket: next,
                        from: Some((at as u32, slot)),
                    });
                    let free = self.free_in(next);
                    if free != 0 {
                        let end = self.slot(next, free.trailing_zeros());
                        return Some(self.path_to(reached, end));
                    }
                }
            }
            level = level.end..reached.len();
        }
        None
    }

    /// The path whose last bucket is the one reached last.
    fn path_to(&self, reached: &[SearchedBucket], end: SlotNumber) -> Path {
        let mut slots = smallvec![end];
        let mut at = reached.len() - 1;
        while let Some((parent, slot)) = reached[at].from {
            at = parent as usize;
            slots.push(self.slot(reached[at].bucket, slot));
        }
        slots.reverse();
        Path { slots }
    }
}

/// Whether the way to the bucket reached as number `at` has been to `bucket`: from there it could
/// take a slot twice.
fn on_the_way(reached: &[SearchedBucket], mut at: usize, bucket: u64) -> bool {
    loop {
        if reached[at].bucket == bucket {
            return true;
        }
        match reached[at].from {
            Some((parent, _)) => at = parent as usize,
            None => return false,
        }
    }
}
