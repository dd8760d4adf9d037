//! Putting, and finding or putting (paper 001, sections III-B and III-C).
//!
//! Invariant: a coroutine holds the buckets of what it changes. The index says where everything is:
//! so the path to a free slot is known, and held, before anything is read. What must be read, the
//! slots that match the key and those that are to be moved, is read in one batch, and all is
//! written in another.

use super::batch::Batch;
use super::bytes::{SlotNumber, bucket_entry, head_in, stash_entry};
use super::placement::{Candidates, Entry, Path};
use super::records::SlotRead;
use super::state::{DuoTable, Key};
use crate::client::locks::Held;
use crate::client::side_by_side;
use crate::heap::Heap;
use crate::{IndexError, Result, Value};
use farslot_fabric::Endpoint;
use std::collections::HashMap;

/// Paths that others were faster on, after which an insertion waits until it is alone.
const MOST_SEARCHES: usize = 8;

/// What a write does with a key that is there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Put,
    FindOrPut,
}

/// What a write has done.
pub(super) enum Written {
    Inserted,
    Replaced,
    Found(Value),
}

/// A place for a new key, held.
struct Place {
    path: Path,
    entry: Entry,
}

/// Slots that were read.
type Read = HashMap<SlotNumber, SlotRead>;

impl<E: Endpoint> DuoTable<E> {
    pub(super) async fn write_value(
        &self,
        key: &[u8],
        value: &[u8],
        mode: Mode,
    ) -> Result<Written> {
        let write = async || self.write_once(key, value, mode).await;
        Heap::with_room(self.heap.as_ref(), self, write).await
    }

    async fn write_once(&self, key: &[u8], value: &[u8], mode: Mode) -> Result<Written> {
        let key = self.key(key)?;
        self.layout.shape().check_value(value)?;
        let held = self.hold_split(&key).await?;
        let alone = false;
        let mut written = self.write_held(&key, value, mode, held, alone).await?;
        // Two that are in each other's way could be so again and again.
        while written.is_none() {
            let held = self.hold_split_alone(&key).await?;
            written = match self.write_held(&key, value, mode, held, true).await {
                Err(full @ IndexError::Full { .. }) => {
                    self.grow_instead_of(full).await?;
                    None
                }
                other => other?,
            };
        }
        let written = written.expect("the loop ends with it");
        if matches!(written, Written::Inserted) {
            self.grow_a_step().await;
        }
        Ok(written)
    }

    /// Writes; nothing if others hold what may be needed, or something is in doubt.
    async fn write_held(
        &self,
        key: &Key<'_>,
        value: &[u8],
        mode: Mode,
        held: Held<'_>,
        alone: bool,
    ) -> Result<Option<Written>> {
        let (matches, of, path) = self.look(key, &held);
        // What is held since then may be in doubt: who has left it so has said so before it
        // released it.
        let in_doubt = || !alone && !self.is_settled();
        if in_doubt() {
            return Ok(None);
        }
        let moved = path.as_ref().map_or(&[][..], |path| path.sources());
        let mut read = self.read_slots(&matches, moved).await?;
        if let Some(there) = matches.iter().find(|slot| self.is_key(&read[slot], key)) {
            return match mode {
                Mode::FindOrPut => {
                    let bytes = read.remove(there).expect("it was found in there");
                    Ok(Some(Written::Found(self.value_in(bytes))))
                }
                Mode::Put => {
                    let replaced = self.replace(*there, read[there].second, key, value).await?;
                    Ok(replaced.then_some(Written::Replaced))
                }
            };
        }
        let entry = self.entry_beside(&of, &read, &matches)?;
        let Some(place) = self.place(path, entry, &held) else {
            return if alone { Err(self.full()) } else { Ok(None) };
        };
        // So may the slot of the stash.
        if in_doubt() {
            return Ok(None);
        }
        self.insert(key, value, &of, place, &read).await?;
        let enough = self.note_entry(1);
        drop(held);
        self.tell_counts(enough).await;
        Ok(Some(Written::Inserted))
    }

    /// The slots that match a key whose buckets are held, and the path by which it would enter,
    /// held as well. A path on which another thread has been faster is abandoned, and the search
    /// goes on.
    fn look(&self, key: &Key<'_>, held: &Held<'_>) -> (Vec<SlotNumber>, Candidates, Option<Path>) {
        // To the end: what is found here is still so when it is held, for changes wait.
        let index = self.index.borrow();
        let of = index.candidates(key.hash);
        let matches: Vec<SlotNumber> = index.matches_of(key.hash, &of).collect();
        let roots = index.roots(&of, index.entry(&of, &[]));
        for _ in 0..MOST_SEARCHES {
            let Some(path) = index.path(&roots, &matches, |bucket| held.can_add(bucket)) else {
                break;
            };
            let buckets = path.slots.iter().filter_map(|slot| index.bucket_of(*slot));
            if held.try_add_all(buckets) {
                return (matches, of, Some(path));
            }
        }
        (matches, of, None)
    }

    /// Reads slots that match, with their records, and slots that are to be moved, in one batch.
    async fn read_slots(&self, matches: &[SlotNumber], moved: &[SlotNumber]) -> Result<Read> {
        let mut read = Read::new();
        if matches.is_empty() && moved.is_empty() {
            return Ok(read);
        }
        let slots = [matches, moved].concat();
        let reads = slots.iter().enumerate().map(async |(number, slot)| {
            if number < matches.len() {
                self.read_whole(*slot).await
            } else {
                self.read_to_move(*slot).await
            }
        });
        let keep = |number: usize, bytes: SlotRead| {
            read.insert(slots[number], bytes);
        };
        side_by_side(slots.len(), reads, keep).await?;
        Ok(read)
    }

    /// How the key enters beside the keys that match it.
    fn entry_beside(&self, of: &Candidates, read: &Read, matches: &[SlotNumber]) -> Result<Entry> {
        let mut known = Vec::with_capacity(matches.len());
        for slot in matches {
            let record = self.layout.record_in(&read[slot]);
            let record = record.ok_or_else(|| self.lost(*slot))?;
            let hash = self.layout.hash_of(record.key);
            known.push((*slot, self.index.borrow().candidates(hash)));
        }
        Ok(self.index.borrow().entry(of, &known))
    }

    /// The place at the path's end, or in the stash. Should that be full, a key whose fingerprints
    /// collide enters by an ambiguous one, and is found with a READ more.
    fn place(&self, path: Option<Path>, entry: Entry, held: &Held<'_>) -> Option<Place> {
        match (path, entry) {
            (Some(path), Entry::Stash) => {
                let ambiguous = || Place {
                    path,
                    entry: Entry::Primary,
                };
                Some(self.stash_place(held).unwrap_or_else(ambiguous))
            }
            (Some(path), entry) => Some(Place { path, entry }),
            (None, _) => self.stash_place(held),
        }
    }

    /// A free slot of the stash, held.
    fn stash_place(&self, held: &Held<'_>) -> Option<Place> {
        // No bucket has a number as high as theirs.
        let index = self.index.borrow();
        let slot = index.stash_room(|slot| held.try_add(slot.0))?;
        Some(Place {
            path: Path { slots: vec![slot] },
            entry: Entry::Stash,
        })
    }

    /// There is no path to a free slot, and the stash is full.
    fn full(&self) -> IndexError {
        let shape = self.index.borrow().shape();
        let slots = shape.slots();
        IndexError::Full {
            probed: shape.most_searched().min(slots),
            slots,
        }
    }

    /// Moves the records of the path on by one, the last first, and fills its first slot.
    async fn insert(
        &self,
        key: &Key<'_>,
        value: &[u8],
        of: &Candidates,
        place: Place,
        read: &Read,
    ) -> Result<()> {
        let Place { path, entry } = place;
        if path.moves() > 0 {
            self.before_moving().await?;
        }
        let mut batch = self.batch();
        for pair in path.slots.windows(2).rev() {
            let moved = read.get(&pair[0]).filter(|bytes| head_in(bytes) != 0);
            let moved = moved.ok_or_else(|| self.lost(pair[0]))?;
            let (fingerprint, backup) = self.index.borrow().fingerprint_at(pair[0]);
            let entry = bucket_entry(fingerprint, backup, self.layout.fingerprint_bits);
            self.publish(&mut batch, &[(pair[1], entry)]);
            batch.fill(pair[1], head_in(moved), self.body_in(moved)?)?;
            batch.kill(pair[0], head_in(moved), moved.second);
        }
        let pool = &self.endpoint.core().buffers;
        let body = match &self.heap {
            None => self.layout.body_of(pool, key.bytes, value)?,
            Some(heap) => {
                let new = self.new_record(heap, key.bytes, value).await?;
                let body = pool.copy_of(&new.reference.to_le_bytes())?;
                batch.record(new);
                body
            }
        };
        self.publish_entry(&mut batch, key, of, path.slots[0], entry);
        batch.fill(path.slots[0], key.head(), body)?;
        self.run(batch).await?;
        self.worked(|work| {
            work.moved += path.moves() as u64;
            work.adjusted += u64::from(matches!(entry, Entry::Backup | Entry::InsteadOf(..)));
        });
        self.change_index(|index| match entry {
            Entry::Stash => index.assign(path.slots[0], key.hash),
            entry => index.enter(&path, of, entry),
        });
        Ok(())
    }

    /// Publishes by what a new key stands in its slot.
    fn publish_entry(
        &self,
        batch: &mut Batch<'_, E>,
        key: &Key<'_>,
        of: &Candidates,
        slot: SlotNumber,
        entry: Entry,
    ) {
        let by =
            |fingerprint, backup| bucket_entry(fingerprint, backup, self.layout.fingerprint_bits);
        match entry {
            Entry::Primary => self.publish(batch, &[(slot, by(of.primary, false))]),
            Entry::Backup => self.publish(batch, &[(slot, by(of.backup, true))]),
            Entry::InsteadOf(there, twin) => {
                let twin = (there, by(twin.backup, true));
                self.publish(batch, &[twin, (slot, by(of.primary, false))]);
            }
            Entry::Stash => self.publish(batch, &[(slot, stash_entry(key.hash))]),
        }
    }
}
