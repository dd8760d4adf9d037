//! The paper's own placements, to be counted beside ours: backup slots that are set aside, filled
//! first or last; and a walk in place of the search.
//!
//! Of the d slots of a bucket of the first array, d2 are for backup fingerprints, and what is in
//! them is never moved. Which of a key's places is taken first decides what the table can do, and
//! the paper has its figures from both orders: filled first, they let the table get full, but each
//! insertion reads the keys of a bucket; filled last, insertions are cheap, but the table is full
//! early.

use super::cost::{Cost, CountedTable};
use farslot::index::hash::{derive, scale};

/// Which slots are filled first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SlotPriority {
    /// Backup slots before primary ones, as the published code does.
    BackupFirst,
    /// Primary slots of both buckets before backup slots, as the paper's text says.
    PrimaryFirst,
}

/// How a free slot is found where both buckets are full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Search {
    /// Breadth first, moving at most so many records.
    Breadth(u32),
    /// Depth first: a random slot of the bucket, and if a record is in it, a random slot of that
    /// one's other bucket, and so on, at most so many. Free slots beside the one that is drawn are
    /// not seen.
    Depth(u32),
}

/// What is to be placed how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SplitShape {
    /// Buckets of each array: m.
    pub(crate) buckets: u64,
    /// Slots of a bucket: d.
    pub(crate) bucket_slots: usize,
    /// Of those, slots for backup fingerprints in the first array: d2. 0 is a single fingerprint.
    pub(crate) backup_slots: usize,
    pub(crate) fingerprint_bits: u32,
    /// Slots of the stash: s.
    pub(crate) stash: u64,
    /// Whether keys whose fingerprints collide take no slot of the stash: for figures of paths
    /// alone.
    pub(crate) collisions_aside: bool,
    pub(crate) order: SlotPriority,
    pub(crate) search: Search,
}

/// An index with the hash of the key of each slot, 0 if it is free.
pub(crate) struct SplitIndex {
    shape: SplitShape,
    hashes: Vec<u64>,
    /// Full buckets of each array.
    full: [u64; 2],
    stashed: u64,
    drawn: u64,
}

/// A key's places.
#[derive(Clone, Copy)]
struct SplitCandidates {
    /// Its bucket in the first array.
    first: usize,
    /// Its bucket in the second, numbered through both arrays.
    second: usize,
    primary: u64,
    backup: u64,
}

impl SplitIndex {
    pub(crate) fn new(shape: SplitShape) -> Self {
        Self {
            hashes: vec![0; 2 * shape.buckets as usize * shape.bucket_slots],
            full: [0; 2],
            stashed: 0,
            drawn: 0,
            shape,
        }
    }

    fn places(&self, hash: u64) -> SplitCandidates {
        let m = self.shape.buckets;
        let (first, primary) = (derive(hash, 1) % m, self.fingerprint(hash, 2));
        SplitCandidates {
            first: first as usize,
            second: (m + (first + derive(primary, 4) % m) % m) as usize,
            primary,
            backup: self.fingerprint(hash, 3),
        }
    }

    fn fingerprint(&self, hash: u64, number: u64) -> u64 {
        scale(derive(hash, number), 1 << self.shape.fingerprint_bits)
    }

    fn slots_of(&self, bucket: usize) -> std::ops::Range<usize> {
        let d = self.shape.bucket_slots;
        bucket * d..(bucket + 1) * d
    }

    /// The slots of a bucket that hold records by their primary fingerprints.
    fn primary_slots(&self, bucket: usize) -> std::ops::Range<usize> {
        let all = self.slots_of(bucket);
        if bucket < self.shape.buckets as usize {
            all.start..all.end - self.shape.backup_slots
        } else {
            all
        }
    }

    fn backup_slots(&self, first: usize) -> std::ops::Range<usize> {
        self.primary_slots(first).end..self.slots_of(first).end
    }

    fn free(&self, slots: std::ops::Range<usize>) -> Option<usize> {
        slots.into_iter().find(|slot| self.hashes[*slot] == 0)
    }

    fn used(
        &self,
        slots: std::ops::Range<usize>,
    ) -> impl Iterator<Item = (usize, SplitCandidates)> {
        let used = slots.filter(|slot| self.hashes[*slot] != 0);
        used.map(|slot| (slot, self.places(self.hashes[slot])))
    }

    fn set(&mut self, slot: usize, hash: u64) {
        let bucket = slot / self.shape.bucket_slots;
        let was_full = self.free(self.slots_of(bucket)).is_none();
        self.hashes[slot] = hash;
        let is_full = self.free(self.slots_of(bucket)).is_none();
        let full = &mut self.full[bucket / self.shape.buckets as usize];
        *full = *full + u64::from(is_full) - u64::from(was_full);
    }

    /// The share of buckets without a free slot in each array: the paper's beta, of both apart.
    pub(crate) fn full_buckets(&self) -> [f64; 2] {
        self.full
            .map(|full| full as f64 / self.shape.buckets as f64)
    }

    /// The slot by whose primary fingerprint a key would be taken for another.
    fn primary_twin(&self, of: &SplitCandidates) -> Option<usize> {
        let slots = [of.first, of.second].map(|bucket| self.primary_slots(bucket));
        let mut all = slots.into_iter().flat_map(|slots| self.used(slots));
        all.find(|(_, other)| other.primary == of.primary)
            .map(|(slot, _)| slot)
    }

    /// The backup slot by whose fingerprint a key would be taken for another.
    fn backup_twin(&self, of: &SplitCandidates) -> Option<usize> {
        let mut backups = self.used(self.backup_slots(of.first));
        backups
            .find(|(_, other)| other.backup == of.backup)
            .map(|(slot, _)| slot)
    }

    /// Whether a key of this bucket could stand by its backup fingerprint: no other that is there
    /// has the same.
    fn may_back_up(&self, hash: u64) -> bool {
        let of = self.places(hash);
        let others = self.slots_of(of.first).map(|slot| self.hashes[slot]);
        others
            .filter(|other| *other != 0 && *other != hash)
            .all(|other| self.places(other).backup != of.backup)
    }

    /// Whether a key that stands by its backup fingerprint could stand by its primary one, beside
    /// `other`.
    fn may_stand(&self, hash: u64, other: u64) -> bool {
        let (of, other) = (self.places(hash), self.places(other));
        self.primary_twin(&of).is_none() && of.primary != other.primary
    }

    /// Lets a key in whose fingerprints collide, by adjustments within its bucket; gives what is
    /// then to be placed, which collides no more, or nothing if the key cannot be let in.
    fn resolve(&mut self, hash: u64, cost: &mut Cost) -> Option<Resolved> {
        let of = self.places(hash);
        cost.access(self.shape.bucket_slots as u64);
        if let Some(slot) = self.backup_twin(&of) {
            // Whoever stands there stands by its primary fingerprint from now on, in the place of
            // another.
            let other = self.hashes[slot];
            if self.primary_twin(&of).is_some() || !self.may_stand(other, hash) {
                return None;
            }
            let primaries: Vec<usize> = self.primary_slots(of.first).collect();
            let swap = primaries.into_iter().find(|with| {
                let with = self.hashes[*with];
                with == 0 || self.may_back_up(with) && self.places(with).backup != of.backup
            })?;
            let with = self.hashes[swap];
            self.set(swap, other);
            self.set(slot, with);
            self.moved(cost, 1 + u64::from(with != 0));
            return Some(Resolved::ToPlace(hash));
        }
        let twin = self.primary_twin(&of)?;
        let twin_hash = self.hashes[twin];
        if self.may_back_up(hash) {
            return self.back_up(hash, cost);
        }
        // The other of the two, whose first bucket is the same one, stands by its backup
        // fingerprint.
        if !self.may_back_up(twin_hash) || self.places(twin_hash).backup == of.backup {
            return None;
        }
        let slots: Vec<usize> = self.backup_slots(of.first).collect();
        let swap = slots.into_iter().find(|slot| {
            let there = self.hashes[*slot];
            there == 0 || self.may_stand(there, hash)
        })?;
        let there = self.hashes[swap];
        self.set(swap, twin_hash);
        self.moved(cost, 1);
        if twin / self.shape.bucket_slots == of.first {
            self.set(twin, there);
            self.moved(cost, u64::from(there != 0));
            return Some(Resolved::ToPlace(hash));
        }
        // In the second array: the key takes its slot.
        self.set(twin, hash);
        cost.access(1);
        Some(match there {
            0 => Resolved::Done,
            there => Resolved::ToPlace(there),
        })
    }

    /// Puts a key into a backup slot; who was there is to be placed.
    fn back_up(&mut self, hash: u64, cost: &mut Cost) -> Option<Resolved> {
        let first = self.places(hash).first;
        let slots: Vec<usize> = self.backup_slots(first).collect();
        let slot = slots.into_iter().find(|slot| {
            let there = self.hashes[*slot];
            there == 0 || self.may_stand(there, hash)
        })?;
        let there = self.hashes[slot];
        self.set(slot, hash);
        cost.access(1);
        if there == 0 {
            return Some(Resolved::Done);
        }
        cost.moved += 1;
        Some(Resolved::ToPlace(there))
    }

    fn moved(&self, cost: &mut Cost, records: u64) {
        cost.moved += records;
        (0..records).for_each(|_| cost.access(1));
    }

    /// A free slot of a key's own buckets, in the order of the shape.
    fn own_slot(&self, hash: u64, cost: &mut Cost) -> Option<usize> {
        let of = self.places(hash);
        let (primary, second) = (self.primary_slots(of.first), self.slots_of(of.second));
        let mut backup = || {
            let slot = self.free(self.backup_slots(of.first))?;
            cost.access(self.shape.bucket_slots as u64);
            self.may_back_up(hash).then_some(slot)
        };
        match self.shape.order {
            SlotPriority::BackupFirst => {
                let count = |slots: std::ops::Range<usize>| {
                    slots.filter(|slot| self.hashes[*slot] == 0).count()
                };
                let (here, there) = (count(self.slots_of(of.first)), count(second.clone()));
                if there > 0 && here <= there {
                    return self.free(second);
                }
                backup().or_else(|| self.free(primary))
            }
            SlotPriority::PrimaryFirst => {
                let first_free = self.free(primary).or_else(|| self.free(second));
                first_free.or_else(backup)
            }
        }
    }

    /// The slots that change, a free one last, on the shortest way of at most so many moves.
    fn path(&self, hash: u64, most_moves: u32, barred: &[usize]) -> Option<Vec<usize>> {
        let of = self.places(hash);
        let mut reached: Vec<(usize, usize)> = Vec::new();
        let roots = [self.slots_of(of.second), self.primary_slots(of.first)];
        reached.extend(roots.into_iter().flatten().map(|slot| (slot, usize::MAX)));
        let mut level = 0..reached.len();
        for _ in 0..most_moves {
            for at in level.clone() {
                let slot = reached[at].0;
                let next = self.other_bucket(slot);
                if self.is_on_the_way(&reached, at, next) {
                    continue;
                }
                let slots = self.primary_slots(next);
                let free = slots
                    .clone()
                    .find(|slot| self.hashes[*slot] == 0 && !barred.contains(slot));
                if let Some(free) = free {
                    let mut path = vec![free];
                    let mut from = at;
                    while from != usize::MAX {
                        path.push(reached[from].0);
                        from = reached[from].1;
                    }
                    path.reverse();
                    return Some(path);
                }
                reached.extend(slots.map(|slot| (slot, at)));
            }
            level = level.end..reached.len();
        }
        None
    }

    fn is_on_the_way(&self, reached: &[(usize, usize)], mut at: usize, bucket: usize) -> bool {
        loop {
            if reached[at].0 / self.shape.bucket_slots == bucket {
                return true;
            }
            match reached[at].1 {
                usize::MAX => return false,
                from => at = from,
            }
        }
    }

    /// The bucket of the other array that the record of a slot could go to.
    fn other_bucket(&self, slot: usize) -> usize {
        let of = self.places(self.hashes[slot]);
        if slot / self.shape.bucket_slots == of.first {
            of.second
        } else {
            of.first
        }
    }

    /// Whether a record may arrive in a slot: no backup of the bucket would be taken for it.
    fn may_arrive(&self, hash: u64, slot: usize) -> bool {
        let of = self.places(hash);
        slot / self.shape.bucket_slots != of.first || self.backup_twin(&of).is_none()
    }

    fn searched(&self, hash: u64, most_moves: u32) -> Option<Vec<usize>> {
        let mut barred = Vec::new();
        loop {
            let path = self.path(hash, most_moves, &barred)?;
            let mut arrivals = path.windows(2).map(|pair| (self.hashes[pair[0]], pair[1]));
            match arrivals.find(|(hash, slot)| !self.may_arrive(*hash, *slot)) {
                None => return Some(path),
                // Its last slot stands for the whole path.
                Some(_) => barred.extend(path.last()),
            }
        }
    }

    /// A walk from a random slot; nothing if it does not meet a free one soon enough.
    fn walked(&mut self, hash: u64, longest: u32) -> Option<Vec<usize>> {
        let of = self.places(hash);
        let mut bucket = [of.first, of.second][self.draw(2)];
        let mut path: Vec<usize> = Vec::new();
        for _ in 0..=longest {
            let slot = bucket * self.shape.bucket_slots + self.draw(self.shape.bucket_slots);
            if path.contains(&slot) {
                return None;
            }
            path.push(slot);
            if self.hashes[slot] == 0 {
                return Some(path);
            }
            bucket = self.other_bucket(slot);
        }
        None
    }

    fn draw(&mut self, range: usize) -> usize {
        self.drawn += 1;
        scale(derive(self.drawn, 5), range as u64) as usize
    }

    /// Places a key whose fingerprints collide with none; whether there was a way.
    fn place(&mut self, hash: u64, cost: &mut Cost) -> bool {
        let path = match self.shape.search {
            Search::Depth(longest) => self.walked(hash, longest),
            Search::Breadth(most_moves) => match self.own_slot(hash, cost) {
                Some(slot) => Some(vec![slot]),
                None => self.searched(hash, most_moves),
            },
        };
        let Some(path) = path else {
            return false;
        };
        for pair in path.windows(2).rev() {
            let moved = self.hashes[pair[0]];
            self.set(pair[1], moved);
            cost.access(1);
        }
        self.moved(cost, path.len() as u64 - 1);
        self.set(path[0], hash);
        cost.access(1);
        true
    }
}

/// What has come of a collision.
enum Resolved {
    Done,
    ToPlace(u64),
}

impl CountedTable for SplitIndex {
    fn slots(&self) -> u64 {
        self.hashes.len() as u64
    }

    fn insert(&mut self, hash: u64) -> Option<Cost> {
        // 0 is a free slot.
        let hash = hash | 1;
        let mut cost = Cost::begun();
        let of = self.places(hash);
        let collides = self.primary_twin(&of).is_some() || self.backup_twin(&of).is_some();
        let to_place = match collides {
            false => Some(Resolved::ToPlace(hash)),
            true if self.shape.backup_slots == 0 => None,
            true => self.resolve(hash, &mut cost),
        };
        let stands = match to_place {
            None => {
                cost.collided += 1;
                false
            }
            Some(resolved) => {
                cost.adjusted += u64::from(collides);
                let placed = match resolved {
                    Resolved::Done => true,
                    Resolved::ToPlace(hash) => self.place(hash, &mut cost),
                };
                cost.pathless += u64::from(!placed);
                placed
            }
        };
        // A batch of READs, where anything is read; and one of WRITEs.
        let writes = 1 + cost.moved;
        cost.round_trips = 1 + u64::from(cost.accesses > writes);
        let aside = cost.collided > 0 && self.shape.collisions_aside;
        if !stands && !aside {
            if self.stashed >= self.shape.stash {
                return None;
            }
            self.stashed += 1;
        }
        Some(cost)
    }
}
