//! Where a new key goes (paper 001, sections III-B and III-C).

use super::batch::Body;
use super::bytes::{SlotNumber, bucket_entry, hash_in, stash_entry};
use super::changes::Batch;
use super::placement::{Candidates, Entry, Path, Placement};
use super::state::DuoTable;
use super::write::{DuoWriteAim, DuoWriteSlowPath, DuoWriteState, InsertionPlace, Write, Writes};
use crate::IndexError;
use crate::client::locks::Held;
use crate::step::{NextStep, Reads, failed};
use farslot_fabric::Endpoint;

/// Paths that others were faster on, after which an insertion waits until it is alone.
const MOST_SEARCHES: usize = 8;

impl<'t, E: Endpoint> Writes<'t, E> {
    /// Whether anything is in doubt, which who is alone has settled.
    pub(super) fn is_in_doubt(&self, of: &DuoWriteState<'t>) -> bool {
        !of.alone && !self.table.is_settled()
    }

    /// Finds the path by which a new key would enter, holds it, and adds the slots whose records it
    /// moves to those that are to be read. A path on which another thread has been faster is
    /// abandoned, and the search goes on.
    pub(super) fn find_path(index: &Placement, of: &mut DuoWriteState<'t>) {
        let held = of.held.as_ref().expect("a write that looks holds buckets");
        let roots = index.roots(&of.of, index.entry(&of.of, &[]));
        let matches = &of.slots[..of.matches];
        let mut paths = (0..MOST_SEARCHES)
            .map_while(|_| index.path(&roots, matches, |bucket| held.can_add(bucket)));
        let path = paths.find(|path| {
            let buckets = path.slots.iter().filter_map(|slot| index.bucket_of(*slot));
            held.try_add_all(buckets)
        });
        let moved = path.as_ref().map_or(&[][..], Path::sources);
        of.slots.extend_from_slice(moved);
        of.path = Some(path);
    }

    /// Finds the place of a key that none of its matches is.
    pub(super) fn find_place(
        &self,
        write: &Write<'_>,
        of: &mut DuoWriteState<'t>,
    ) -> NextStep<DuoWriteSlowPath> {
        if of.path.is_none() {
            Self::find_path(&self.table.index.borrow(), of);
            if of.looked < of.slots.len() && self.is_in_doubt(of) {
                return NextStep::SlowPath(DuoWriteSlowPath::Hold { alone: true });
            }
            if of.looked < of.slots.len() {
                return self.read_slots(write, of);
            }
        }
        if let Some(at) = of.heads.iter().position(|head| *head == 0) {
            return failed(self.table.lost(of.slots[at]));
        }
        let entry = self.table.entry_beside(of);
        let path = of.path.take().flatten();
        let held = of.held.as_ref().expect("a write that looks holds buckets");
        // So may the slot of the stash.
        match (self.table.place(path, entry, held), of.alone) {
            (None, true) => NextStep::SlowPath(DuoWriteSlowPath::Full),
            (None, false) => NextStep::SlowPath(DuoWriteSlowPath::Hold { alone: true }),
            (Some(place), _) if place.entry == Entry::Stash && self.is_in_doubt(of) => {
                NextStep::SlowPath(DuoWriteSlowPath::Hold { alone: true })
            }
            (Some(place), _) => self.insert_at(write, of, place),
        }
    }

    /// Inserts the key at this place, which is held.
    #[inline]
    pub(super) fn insert_at(
        &self,
        write: &Write<'_>,
        of: &mut DuoWriteState<'t>,
        place: InsertionPlace,
    ) -> NextStep<DuoWriteSlowPath> {
        of.aim = DuoWriteAim::Insert;
        match of.place.insert(place).path.moves() > 0 && self.table.counts_moves() {
            true => NextStep::SlowPath(DuoWriteSlowPath::CountMoves),
            false => self.write_record(write, of),
        }
    }

    /// Moves the records of the path on by one, the last first, and fills its first slot.
    pub(super) fn insert(
        &self,
        write: &Write<'_>,
        of: &mut DuoWriteState<'t>,
        body: Body,
    ) -> NextStep<DuoWriteSlowPath> {
        let (table, head) = (self.table, write.key.head());
        let InsertionPlace { path, entry } = of.place.as_ref().expect("a place was found");
        let batch = &mut of.batch;
        for (pair, moved) in path
            .slots
            .windows(2)
            .zip(std::mem::take(&mut of.moved))
            .rev()
        {
            let (fingerprint, backup) = table.index.borrow().fingerprint_at(pair[0]);
            let entry = bucket_entry(fingerprint, backup, table.layout.fingerprint_bits);
            table.publish(batch, &[(pair[1], entry)]);
            if let Err(error) = table.fill(batch, pair[1], moved.head, moved.body) {
                return failed(error);
            }
            table.kill(batch, pair[0], moved.head, moved.second);
        }
        table.publish_entry(batch, write.key.hash, &of.of, path.slots[0], *entry);
        match table.fill(batch, path.slots[0], head, body) {
            Ok(()) => NextStep::Change(Reads::NONE),
            Err(error) => failed(error),
        }
    }

    /// The new key is there.
    #[inline]
    pub(super) fn inserted(
        &self,
        write: &Write<'_>,
        of: &mut DuoWriteState<'t>,
    ) -> NextStep<DuoWriteSlowPath> {
        let table = self.table;
        let InsertionPlace { path, entry } = of.place.take().expect("a place was found");
        table.change_index(|index| match entry {
            Entry::Stash => index.assign(path.slots[0], write.key.hash),
            entry => index.enter(&path, &of.of, entry),
        });
        let adjusts = matches!(entry, Entry::Backup | Entry::InsteadOf(..));
        if path.moves() > 0 || adjusts {
            table.worked(|work| {
                work.moved += path.moves() as u64;
                work.adjusted += u64::from(adjusts);
            });
        }
        table.counts.change(1, 1);
        self.ended(write, of, false)
    }
}

impl InsertionPlace {
    /// A free slot of one of the key's buckets, of a key without matches.
    pub(super) fn free(slot: SlotNumber) -> Self {
        Self {
            path: Path::to(slot),
            entry: Entry::Primary,
        }
    }
}

impl<E: Endpoint> DuoTable<E> {
    /// How the key enters beside the keys that match it.
    fn entry_beside(&self, of: &DuoWriteState<'_>) -> Entry {
        if of.matches == 0 {
            return Entry::Primary;
        }
        let index = self.index.borrow();
        let matches = of.slots[..of.matches].iter().zip(&of.heads);
        let known: Vec<(SlotNumber, Candidates)> = matches
            .map(|(slot, head)| (*slot, index.candidates(hash_in(*head))))
            .collect();
        index.entry(&of.of, &known)
    }

    /// The place at the path's end, or in the stash. Should that be full, a key whose fingerprints
    /// collide enters by an ambiguous one, and is found with a READ more.
    fn place(&self, path: Option<Path>, entry: Entry, held: &Held<'_>) -> Option<InsertionPlace> {
        match (path, entry) {
            (Some(path), Entry::Stash) => {
                let ambiguous = || InsertionPlace {
                    path,
                    entry: Entry::Primary,
                };
                Some(self.stash_place(held).unwrap_or_else(ambiguous))
            }
            (Some(path), entry) => Some(InsertionPlace { path, entry }),
            (None, _) => self.stash_place(held),
        }
    }

    /// A free slot of the stash, held.
    fn stash_place(&self, held: &Held<'_>) -> Option<InsertionPlace> {
        // No bucket has a number as high as theirs.
        let index = self.index.borrow();
        let slot = index.stash_room(|slot| held.try_add(slot.0))?;
        Some(InsertionPlace {
            path: Path::to(slot),
            entry: Entry::Stash,
        })
    }

    /// There is no path to a free slot, and the stash is full.
    pub(super) fn full(&self) -> IndexError {
        let shape = self.index.borrow().shape();
        let slots = shape.slots();
        IndexError::Full {
            probed: shape.most_searched().min(slots),
            slots,
        }
    }

    /// Publishes by what a new key with this hash stands in its slot.
    fn publish_entry(
        &self,
        batch: &mut Batch,
        hash: u64,
        of: &Candidates,
        slot: SlotNumber,
        entry: Entry,
    ) {
        let by =
            |fingerprint, backup| bucket_entry(fingerprint, backup, self.layout.fingerprint_bits);
        match entry {
            Entry::Primary => self.publish(batch, &[(slot, by(of.primary, false))]),
            Entry::Backup => self.publish(batch, &[(slot, by(of.backup, true))]),
            Entry::InsteadOf(twin_slot, twin) => {
                let twin = (twin_slot, by(twin.backup, true));
                self.publish(batch, &[twin, (slot, by(of.primary, false))]);
            }
            Entry::Stash => self.publish(batch, &[(slot, stash_entry(hash))]),
        }
    }
}
