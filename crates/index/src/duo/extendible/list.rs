//! The list of splits, of which the directory is made.
//!
//! Invariant: the header counts a split after its entry is there, and the place of the entry's chunk, and before anything
//! is in the new sub-table. An owner that does not know whether its last splits were counted has put nothing there, and
//! sees before it begins others. So of the memory that the header names as spare, all is zeros that no split in the list
//! names.

use super::super::client::DuoTable;
use super::super::growth::{ENTRY_BYTES, GROWTH_LOCK, GrowthMemory, Place, Step, entry_at};
use super::super::layout::EXTENTS_AT;
use super::super::placement::MOST_DEPTH;
use super::entries::{Split, chunk_bytes, chunk_of, counts_of, entry_of, read_splits};
use super::reserve::{Reserve, bytes_of_each};
use super::spare::Run;
use crate::client::side_by_side;
use crate::slot::{bad_option, slots_for};
use crate::{BATCH_WIDTH, IndexError, Result};
use farslot_fabric::{Buffer, Endpoint, RemoteAddr};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Memory is taken for as many sub-tables at once as this has room for, if it is more than one.
const TAKEN_AT_ONCE: u64 = 64 << 10;

/// What the threads of the owner know of the list, and what they have for the next splits.
#[derive(Default)]
pub(in super::super) struct SplitList(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Where the chunks of the list are.
    chunks: Vec<RemoteAddr>,
    /// Whether the list may have splits that this owner does not know to be there.
    in_doubt: bool,
    /// Memory for sub-tables that was taken and is not in use, in the order in which it is to be used.
    spare: VecDeque<RemoteAddr>,
    /// Of that what was taken last, if the header does not say so yet.
    to_note: Option<Run>,
    /// Sub-tables whose splits are wanted, and by how many.
    wanted: BTreeMap<u64, usize>,
}

/// Somebody waits for the split of a sub-table to begin, until this is dropped.
pub(super) struct Wanted<'l>(&'l SplitList, u64);

impl SplitList {
    /// Knows of no split.
    pub(in super::super) fn forget(&self) {
        let wanted = std::mem::take(&mut self.known().wanted);
        *self.known() = Known {
            wanted,
            ..Known::default()
        };
    }

    /// For a moment: no verb runs meanwhile.
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the split of a sub-table begun by whoever begins any.
    pub(super) fn want(&self, subtable: u64) -> Wanted<'_> {
        *self.known().wanted.entry(subtable).or_default() += 1;
        Wanted(self, subtable)
    }
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        let wanted = &mut self.0.known().wanted;
        if let Some(by) = wanted.get_mut(&self.1) {
            *by -= 1;
            if *by == 0 {
                wanted.remove(&self.1);
            }
        }
    }
}

impl<E: Endpoint> DuoTable<E> {
    /// Begins the split of a sub-table, if it can be split, and those that others wait for. Called by the owner, who holds
    /// [`GROWTH_LOCK`].
    ///
    /// # Errors
    /// [`IndexError::OutOfMemory`], [`IndexError::BadOption`] for one that is as deep as can be, or for memory on another
    /// node, or what the fabric says.
    pub(in super::super) async fn begin_splits(&self, subtable: u64, place: &Place) -> Result<()> {
        debug_assert!(self.locks.is_held(GROWTH_LOCK));
        let most_depth = match place {
            Place::Memory(memory) => {
                self.check_node(memory)?;
                MOST_DEPTH
            }
            Place::Reserve => Reserve::of(&self.layout, self.table).depth,
        };
        self.check_one_split(2)?;
        if self.index.borrow().unsplit() == 0 {
            self.vault.set_touched(false);
        }
        let in_doubt = self.splits.known().in_doubt;
        if in_doubt {
            let counted = self.counted().await?;
            self.learn_up_to(counted).await?;
            self.splits.known().in_doubt = false;
        }
        let mut begun = self.splits_to_begin(subtable, most_depth)?;
        if begun.is_empty() {
            // It has begun already, as has been learnt now.
            return Ok(());
        }
        match place {
            Place::Memory(memory) => self.take_memory(&mut begun, memory).await?,
            Place::Reserve => self.use_reserve(&begun)?,
        }
        self.append(&begun).await
    }

    /// The sub-tables whose splits are to begin, and which get no deeper than this: this one first; none if it is being
    /// split.
    fn splits_to_begin(&self, subtable: u64, most_depth: u32) -> Result<Vec<u64>> {
        let index = self.index.borrow();
        let depth = index.depth_of(subtable) + 1;
        if depth > most_depth {
            let limit = format!("{most_depth} bits at most");
            return Err(bad_option("depth of a sub-table", depth, limit));
        }
        if !index.can_be_split(subtable) {
            return Ok(Vec::new());
        }
        let others: Vec<u64> = self.splits.known().wanted.keys().copied().collect();
        let others = others.into_iter();
        let can_be = |other| index.can_be_split(other) && index.depth_of(other) < most_depth;
        let others = others.filter(|other| *other != subtable && can_be(*other));
        let mut begun = vec![subtable];
        begun.extend(others.take(BATCH_WIDTH - 1));
        let slots = self.layout.slots().saturating_mul(begun.len() as u64);
        slots_for(index.shape().slots().saturating_add(slots), 1.0)?;
        Ok(begun)
    }

    /// Has memory for the new sub-tables, and for their entries in the list; if it is scarce, for the first one at least.
    async fn take_memory(&self, begun: &mut Vec<u64>, memory: &GrowthMemory) -> Result<()> {
        let each = bytes_of_each(&self.layout);
        loop {
            let chunk = self.chunk_to_take(begun.len() as u64);
            let chunk_bytes = chunk.map_or(0, |chunk| chunk_bytes(&self.layout, chunk));
            let missing = begun.len().saturating_sub(self.splits.known().spare.len()) as u64;
            if missing == 0 && chunk.is_none() {
                return Ok(());
            }
            let roomy = match missing {
                0 => 0,
                _ => missing.max(TAKEN_AT_ONCE / each),
            };
            let (mut outcome, mut free) = (Ok(()), u64::MAX);
            for count in [roomy, missing] {
                let bytes = count.saturating_mul(each).saturating_add(chunk_bytes);
                if bytes > free {
                    continue;
                }
                match memory.take(&*self.endpoint, bytes).await {
                    Ok(at) => {
                        let first = at.plus(chunk_bytes);
                        let mut known = self.splits.known();
                        if let Some(run) = Run::new(first, count) {
                            known.spare.extend(run.places(&self.layout));
                            known.to_note = Some(run);
                        }
                        known.chunks.extend(chunk.map(|_| at));
                        return Ok(());
                    }
                    Err(error) => match error {
                        IndexError::OutOfMemory { free: left, .. } => {
                            (outcome, free) = (Err(error), left);
                        }
                        other => return Err(other),
                    },
                }
            }
            if begun.len() == 1 {
                return outcome;
            }
            begun.truncate(1);
        }
    }

    /// Has the places of the next sub-tables in the table's own memory, and of the chunks that their entries are in.
    fn use_reserve(&self, begun: &[u64]) -> Result<()> {
        let reserve = Reserve::of(&self.layout, self.table);
        let first = self.vault.growths() as u64;
        let places: Option<Vec<RemoteAddr>> = (first..first + begun.len() as u64)
            .map(|split| reserve.subtable_at(split))
            .collect();
        let places = places.ok_or_else(|| IndexError::OutOfMemory {
            requested: bytes_of_each(&self.layout) * begun.len() as u64,
            free: 0,
        })?;
        let chunk = self.chunk_to_take(begun.len() as u64);
        let mut known = self.splits.known();
        known
            .chunks
            .extend(chunk.map(|chunk| reserve.chunk_at(chunk)));
        known.spare = places.into();
        Ok(())
    }

    /// The chunk that the list needs to have so many entries more, if it has not got it.
    fn chunk_to_take(&self, more: u64) -> Option<u64> {
        let last = self.vault.growths() as u64 + more - 1;
        let chunk = chunk_of(last).0;
        (chunk >= self.splits.known().chunks.len() as u64).then_some(chunk)
    }

    /// Writes the entries of splits, and counts them.
    async fn append(&self, begun: &[u64]) -> Result<()> {
        let known = self.vault.growths() as u64;
        let (places, to_note) = {
            let known = self.splits.known();
            let spare = known.spare.iter().take(begun.len()).copied();
            (spare.collect::<Vec<_>>(), known.to_note)
        };
        let mut steps = Vec::with_capacity(begun.len() + 3);
        if let Some(run) = to_note {
            steps.push(self.note_spare(run)?);
        }
        let mut splits = Vec::with_capacity(begun.len());
        for (number, (from, at)) in (known..).zip(begun.iter().zip(places)) {
            let (chunk, place) = chunk_of(number);
            let chunk_at = self.splits.known().chunks[chunk as usize];
            if place == 0 {
                let entry = self.list_entry(0, chunk_at)?;
                steps.push(Step::Write(entry_at(self.table, chunk), entry));
            }
            let entry = self.list_entry(*from, at)?;
            steps.push(Step::Write(entry_of(chunk_at, place), entry));
            splits.push(Split {
                from: *from,
                at,
                counts: counts_of(&self.layout, chunk, chunk_at, place),
            });
        }
        let count_at = self.table.plus(EXTENTS_AT);
        let counted = known + begun.len() as u64;
        steps.push(Step::Count(count_at, known, counted));
        // If that fails, another thread must not write other entries before it is known to be over.
        let doubt = self.doubt(Vec::new());
        self.splits.known().in_doubt = true;
        self.run_steps(steps).await?;
        doubt.resolve();
        {
            let mut known = self.splits.known();
            (known.in_doubt, known.to_note) = (false, None);
        }
        splits.into_iter().try_for_each(|split| self.add(split))
    }

    fn list_entry(&self, number: u64, at: RemoteAddr) -> Result<Buffer> {
        let mut entry = self.endpoint.core().buffers.take(ENTRY_BYTES as usize)?;
        let words = [number, u64::from(at.region.0), at.offset];
        entry.words_mut().copy_from_slice(&words);
        Ok(entry)
    }

    /// Has the new sub-table of a split from now on.
    fn add(&self, split: Split) -> Result<()> {
        self.splits.known().spare.retain(|spare| *spare != split.at);
        self.change_index(|index| {
            if let Some(stamps) = &self.stamps {
                // Before other threads split anything.
                let subtables = index.subtables() + 1;
                let stash = subtables * u64::from(self.layout.stash);
                stamps.grow_to(subtables * self.layout.buckets, stash);
            }
            split.add(&self.layout, index, &self.vault)
        })?;
        self.counts.set_slots(self.slots());
        Ok(())
    }

    /// Learns of all splits that there were, and what is done of those that are not over: for an index that is empty.
    pub(in super::super) async fn learn_subtables(&self) -> Result<()> {
        let counted = self.counted().await?;
        self.learn_up_to(counted).await?;
        let spare = self.learn_spare().await?;
        self.splits.known().spare = spare.into();
        let splits: Vec<(u64, u64)> = self.index.borrow().splits().collect();
        let learning = splits.into_iter().map(|(from, _)| {
            let first = self.index.borrow().first_bucket(from);
            self.learn_bits(first, 2 * self.layout.buckets)
        });
        side_by_side(BATCH_WIDTH, learning, |_, ()| {}).await
    }

    /// Learns of the splits that the list has, up to this one, and that are not known.
    async fn learn_up_to(&self, counted: u64) -> Result<()> {
        let mut next = self.vault.growths() as u64;
        while next < counted {
            let mut chunks = self.splits.known().chunks.clone();
            let span = (next, counted);
            let read = read_splits(&*self.endpoint, self.table, &self.layout, &mut chunks, span);
            let splits = read.await?;
            self.splits.known().chunks = chunks;
            next += splits.len() as u64;
            for split in splits {
                // The one before, that the sub-table took part in, is over.
                self.change_index(|index| index.finish_split(split.from));
                self.add(split)?;
            }
        }
        Ok(())
    }
}
