//! The list of splits, of which the directory is made.
//!
//! Invariant: the header counts a split after its entry is there, and the place of the entry's chunk, and before anything
//! is in the new sub-table. An owner that does not know whether its last splits were counted has put nothing there, and
//! sees before it begins others. So of the memory that the header names as spare, all is zeros that no split in the list
//! names.

use super::super::client::DuoTable;
use super::super::growth::{
    ENTRY_BYTES, GROWTH_LOCK, GrowthMemory, MOST_EXTENTS, Place, Step, entry_at, place_of,
};
use super::super::layout::EXTENTS_AT;
use super::super::placement::MOST_DEPTH;
use super::spare::Run;
use crate::client::side_by_side;
use crate::slot::{bad_option, slots_for};
use crate::{BATCH_WIDTH, IndexError, Result};
use farslot_fabric::{Buffer, Endpoint, EndpointExt, RemoteAddr};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Entries of the first chunk.
const FIRST_CHUNK: u64 = 128;
/// Entries read at once.
const ENTRIES_A_READ: u64 = 1024;
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

/// The chunk of an entry, and its place in that.
const fn chunk_of(number: u64) -> (u64, u64) {
    let chunk = (number / FIRST_CHUNK + 1).ilog2() as u64;
    (chunk, number - FIRST_CHUNK * ((1 << chunk) - 1))
}

/// Entries of a chunk.
const fn entries_of(chunk: u64) -> u64 {
    FIRST_CHUNK << chunk
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
        let Place::Memory(memory) = place else {
            let limit = "memory that is shared with others";
            return Err(bad_option(
                "growth of sub-tables",
                "behind the table",
                limit,
            ));
        };
        self.check_node(memory)?;
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
        let mut begun = self.splits_to_begin(subtable)?;
        if begun.is_empty() {
            // It has begun already, as has been learnt now.
            return Ok(());
        }
        self.take_memory(&mut begun, memory).await?;
        self.append(&begun).await
    }

    /// The sub-tables whose splits are to begin: this one first; none if it is being split.
    fn splits_to_begin(&self, subtable: u64) -> Result<Vec<u64>> {
        let index = self.index.borrow();
        let depth = index.depth_of(subtable) + 1;
        if depth > MOST_DEPTH {
            let limit = format!("{MOST_DEPTH} bits at most");
            return Err(bad_option("depth of a sub-table", depth, limit));
        }
        if !index.can_be_split(subtable) {
            return Ok(Vec::new());
        }
        let others: Vec<u64> = self.splits.known().wanted.keys().copied().collect();
        let others = others.into_iter();
        let others = others.filter(|other| *other != subtable && index.can_be_split(*other));
        let mut begun = vec![subtable];
        begun.extend(others.take(BATCH_WIDTH - 1));
        let slots = self.layout.slots().saturating_mul(begun.len() as u64);
        slots_for(index.shape().slots().saturating_add(slots), 1.0)?;
        Ok(begun)
    }

    /// Has memory for the new sub-tables, and for their entries in the list; if it is scarce, for the first one at least.
    async fn take_memory(&self, begun: &mut Vec<u64>, memory: &GrowthMemory) -> Result<()> {
        let each = Run::each(&self.layout);
        loop {
            let chunk = self.chunk_to_take(begun.len() as u64);
            let chunk_bytes = chunk.map_or(0, |chunk| entries_of(chunk) * ENTRY_BYTES);
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
        for (number, (subtable, at)) in (known..).zip(begun.iter().zip(&places)) {
            let (chunk, place) = chunk_of(number);
            let chunk_at = self.splits.known().chunks[chunk as usize];
            if place == 0 {
                let entry = self.list_entry(0, chunk_at)?;
                steps.push(Step::Write(entry_at(self.table, chunk), entry));
            }
            let entry = self.list_entry(*subtable, *at)?;
            let at = chunk_at.plus(place * ENTRY_BYTES);
            steps.push(Step::Write(at, entry));
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
        for (subtable, at) in begun.iter().zip(places) {
            self.add_subtable(*subtable, at);
        }
        Ok(())
    }

    fn list_entry(&self, number: u64, at: RemoteAddr) -> Result<Buffer> {
        let mut entry = self.endpoint.core().buffers.take(ENTRY_BYTES as usize)?;
        let words = [number, u64::from(at.region.0), at.offset];
        entry.words_mut().copy_from_slice(&words);
        Ok(entry)
    }

    /// Has the sub-table that lies at `at`, split from this one, from now on.
    fn add_subtable(&self, from: u64, at: RemoteAddr) {
        self.splits.known().spare.retain(|spare| *spare != at);
        self.vault.add_subtable(&self.layout, at);
        self.change_index(|index| index.split_subtable(from));
        self.counts.set_slots(self.slots());
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
            let (chunk, place) = chunk_of(next);
            let chunk_at = self.chunk_at(chunk).await?;
            let entries = (entries_of(chunk) - place).min(counted - next);
            let entries = entries.min(ENTRIES_A_READ);
            let from = chunk_at.plus(place * ENTRY_BYTES);
            let read = self.endpoint.read(from, (entries * ENTRY_BYTES) as usize);
            let read = read.await?;
            for entry in read.words().chunks_exact(ENTRY_BYTES as usize / 8) {
                self.learn_split(entry[0], entry[1], entry[2])?;
            }
            next += entries;
        }
        Ok(())
    }

    /// Where a chunk of the list is.
    async fn chunk_at(&self, chunk: u64) -> Result<RemoteAddr> {
        let known = self.splits.known().chunks.get(chunk as usize).copied();
        if let Some(at) = known {
            return Ok(at);
        }
        if chunk >= u64::from(MOST_EXTENTS) {
            let limit = format!("{MOST_EXTENTS} chunks of a list at most");
            return Err(bad_option("splits", format!("chunk {chunk}"), limit));
        }
        let entry = entry_at(self.table, chunk);
        let entry = self.endpoint.read(entry, ENTRY_BYTES as usize).await?;
        let at = place_of(self.table, entry.words()[1], entry.words()[2])?;
        self.splits.known().chunks.push(at);
        Ok(at)
    }

    /// Learns of a split that is in the list.
    fn learn_split(&self, subtable: u64, region: u64, offset: u64) -> Result<()> {
        let at = place_of(self.table, region, offset)?;
        let known = subtable < self.subtables();
        if known {
            // The one before, that it took part in, is over.
            self.change_index(|index| index.finish_split(subtable));
        }
        if !known || !self.index.borrow().can_be_split(subtable) {
            let limit = "one that there is and that can be split";
            return Err(bad_option("sub-table of a split", subtable, limit));
        }
        self.add_subtable(subtable, at);
        Ok(())
    }
}
