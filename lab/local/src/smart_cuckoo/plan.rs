//! Where a new record goes, decided before anything moves (paper 004, sections 3.2 and 3.3).

use super::forest::{Forest, Scenario, Standing};
use crate::hash::TaggedCandidates;

/// The directed pseudoforest as the records define it: each occupied bucket leads to its record's
/// other candidate.
pub(crate) trait Backups {
    /// Whether no record is in the bucket.
    fn is_vacant(&self, bucket: u32) -> bool;
    /// The other candidate of the record in an occupied bucket.
    fn backup(&self, bucket: u32) -> u32;
}

/// What is to be done for a new record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// It goes to this vacant bucket.
    Direct(u32),
    /// It goes to the first bucket of [`Planner::path`], after every record on that path has moved
    /// on by one, the last one into this vacant bucket.
    KickOut(u32),
    /// There is no place for all records.
    Fails,
}

/// Decides, and keeps the last path. What it has read is counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Planner {
    walks: [BackupWalk; 2],
    /// Which of the walks has found a vacant bucket.
    found: usize,
    /// Buckets read, the candidates apart.
    pub(crate) steps: u64,
    /// Failures that the forest alone told.
    pub(crate) known_failures: u64,
    /// Failures that paths through groups of unknown kind told.
    pub(crate) read_failures: u64,
}

/// A path of backups from a candidate, with Brent's detection of cycles ("An improved Monte Carlo
/// factorization algorithm", 1980).
#[derive(Clone, Debug, Default)]
struct BackupWalk {
    path: Vec<u32>,
    /// Where the path was `since` steps ago; meeting it again is a cycle.
    mark: u32,
    since: u32,
    window: u32,
    /// Steps that may be taken: more vertices its subgraph has not.
    most: u32,
}

enum Step {
    On,
    Vacant(u32),
    Cycle,
}

impl BackupWalk {
    /// A path whose first step has been taken.
    fn start(&mut self, bucket: u32, next: u32, most: u32) {
        self.path.clear();
        self.path.extend([bucket, next]);
        (self.mark, self.since, self.window, self.most) = (next, 0, 2, most);
    }

    #[inline]
    fn step(&mut self, backups: &impl Backups) -> Step {
        let at = self.path[self.path.len() - 1];
        let next = backups.backup(at);
        if backups.is_vacant(next) {
            return Step::Vacant(next);
        }
        // The second condition is only met if a `Hash` contradicts itself.
        if next == self.mark || self.path.len() >= self.most as usize {
            return Step::Cycle;
        }
        self.since += 1;
        if self.since == self.window {
            (self.mark, self.since, self.window) = (next, 0, self.window * 2);
        }
        self.path.push(next);
        Step::On
    }
}

/// From which of two occupied candidates a path is followed: each with the most vertices that the
/// path can have. Nothing if both are known to lead nowhere.
#[inline]
fn entered(forest: &mut Forest, candidates: [u32; 2]) -> Option<[Option<u32>; 2]> {
    let known = candidates.map(|bucket| forest.standing(bucket));
    if known.iter().all(|(is, _)| *is == Standing::Maximal) {
        return None;
    }
    // In turns, so that no more is read than twice the shorter path. Where one of the two surely
    // ends, and the other may not, only that one is entered.
    let is_sure = known.iter().any(|(is, _)| *is == Standing::Tree);
    Some(known.map(|(is, most)| match is {
        Standing::Tree => Some(most),
        Standing::Maximal => None,
        Standing::Unknown => (!is_sure).then_some(most),
    }))
}

impl Planner {
    /// The occupied buckets of the last path, from the candidate on.
    pub(crate) fn path(&self) -> &[u32] {
        &self.walks[self.found].path
    }

    /// Decides where a record with these candidates goes. Moves nothing, and leaves the forest's
    /// edges as they are: the caller places the record and connects its candidates.
    #[inline]
    pub(crate) fn plan(
        &mut self,
        forest: &mut Forest,
        candidates: TaggedCandidates,
        backups: &impl Backups,
    ) -> Plan {
        let TaggedCandidates { first, second, .. } = candidates;
        if backups.is_vacant(first) {
            return Plan::Direct(first);
        }
        if backups.is_vacant(second) {
            return Plan::Direct(second);
        }
        self.plan_kick_out(forest, [first, second], backups)
    }

    /// Both are occupied: the case v+0, or after deletions also the others.
    #[inline]
    fn plan_kick_out(
        &mut self,
        forest: &mut Forest,
        candidates: [u32; 2],
        backups: &impl Backups,
    ) -> Plan {
        let Some(entered) = entered(forest, candidates) else {
            self.known_failures += 1;
            return Plan::Fails;
        };
        // Below half of the slots most paths are of one record, and are found here, by little code.
        let starts = candidates.into_iter().zip(entered).enumerate();
        for (number, (bucket, most)) in starts {
            let Some(most) = most else { continue };
            self.steps += 1;
            let next = backups.backup(bucket);
            let walk = &mut self.walks[number];
            if backups.is_vacant(next) {
                self.found = number;
                walk.path.clear();
                walk.path.push(bucket);
                return Plan::KickOut(next);
            }
            walk.start(bucket, next, most);
        }
        self.walk_on(forest, entered.map(|most| most.is_some()), backups)
    }

    /// Follows the paths that were begun from the candidates that say so.
    #[inline(never)]
    fn walk_on(
        &mut self,
        forest: &mut Forest,
        mut goes: [bool; 2],
        backups: &impl Backups,
    ) -> Plan {
        let mut futile = 0;
        while goes != [false; 2] {
            for (number, walk) in self.walks.iter_mut().enumerate() {
                if !goes[number] {
                    continue;
                }
                self.steps += 1;
                match walk.step(backups) {
                    Step::On => {}
                    Step::Vacant(bucket) => {
                        self.found = number;
                        forest.note_futile_steps(futile);
                        return Plan::KickOut(bucket);
                    }
                    Step::Cycle => {
                        goes[number] = false;
                        futile += walk.path.len() as u64;
                    }
                }
            }
        }
        forest.note_futile_steps(futile);
        self.read_failures += 1;
        Plan::Fails
    }

    /// Whether a record whose bucket leads to `backup` is on the cycle of a maximal subgraph, as
    /// far as a few steps tell: a cycle that is longer counts as none.
    pub(crate) fn is_on_short_cycle(
        &mut self,
        bucket: u32,
        backup: u32,
        backups: &impl Backups,
    ) -> bool {
        /// Cycles are short: two buckets are the most frequent, and few have more than ten.
        const MOST: usize = 16;
        let mut at = backup;
        for _ in 0..MOST {
            if at == bucket {
                return true;
            }
            if backups.is_vacant(at) {
                return false;
            }
            self.steps += 1;
            at = backups.backup(at);
        }
        false
    }

    /// What a record with these candidates would meet, all told: also where it must be read off the
    /// records. `None` if they say that it fails.
    pub(crate) fn fails(
        &mut self,
        forest: &mut Forest,
        candidates: TaggedCandidates,
        backups: &impl Backups,
    ) -> bool {
        match forest.scenario(candidates.first, candidates.second) {
            Scenario::OneMaximal | Scenario::TwoMaximal => true,
            Scenario::Unknown => self.plan(forest, candidates, backups) == Plan::Fails,
            _ => false,
        }
    }
}
