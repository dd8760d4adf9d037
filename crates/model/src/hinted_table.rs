//! Read sizes by load factor and hint, for a client that must choose one on every lookup.

use crate::probe::Builder;
use crate::read_table::{CELLS, cell_of, cell_table, extent};
use crate::{Hint, ModelError, ProbeDistribution, ReadSizeModel, ReadSizeTable, Workload};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The best read size for every load factor and every hint, worked out when it is first asked for
/// and remembered. May be shared by all threads of a process.
///
/// A load factor is rounded as in a [`ReadSizeTable`]. A cluster that begins further ahead than two
/// READs without a hint reach is left to the READs that follow, which have hints of their own. Eq.
/// 10 takes all READs of a lookup to be equally long, and so would lengthen this one for the sake
/// of those: leaving them to themselves is as good on average, up to 10 % better in front of long
/// clusters, and never more than 4 % worse.
#[derive(Debug)]
pub struct HintedReadSizes {
    oblivious: Arc<ReadSizeTable>,
    model: ReadSizeModel,
    capacity: u64,
    workload: Workload,
    cells: Box<[OnceLock<Cell>]>,
}

/// Clusters further ahead than so many READs without a hint are ignored.
const REACH: u64 = 2;

/// What is known for one cell of load factors.
#[derive(Debug)]
struct Cell {
    distances: ProbeDistribution,
    memo: Memo,
}

impl HintedReadSizes {
    /// Read sizes by hint, beside those without: `oblivious` is the table of the same model,
    /// capacity (in slots) and workload.
    ///
    /// Costs next to nothing; the first hint at a new load factor takes about 0.1 ms, the first of
    /// a cluster's length and distance a few us, and all others a few ns.
    ///
    /// # Errors
    /// [`ModelError::NoSlots`] or [`ModelError::TooManySlots`] for a bad `capacity`.
    pub fn new(
        oblivious: Arc<ReadSizeTable>,
        model: ReadSizeModel,
        capacity: u64,
        workload: Workload,
    ) -> Result<Self, ModelError> {
        cell_table(0, capacity)?;
        Ok(Self {
            oblivious,
            model,
            capacity,
            workload,
            cells: (0..CELLS).map(|_| OnceLock::new()).collect(),
        })
    }

    /// The read size for a table filled to `load`, in slots, at least 1. Loads out of range count
    /// as in [`ReadSizeTable::read_size`].
    ///
    /// Within a cluster it reaches exactly to the empty slot behind it, whatever the model's limit
    /// is: the caller splits what is too long for one READ.
    #[must_use]
    #[inline]
    pub fn read_size(&self, load: f64, hint: Hint) -> usize {
        let (ahead, len) = hint.parts();
        if ahead == 0 {
            return usize::try_from(len.saturating_add(1)).unwrap_or(usize::MAX);
        }
        let oblivious = self.oblivious.read_size(load);
        if ahead >= REACH * oblivious as u64 {
            return oblivious;
        }
        self.in_front(load, oblivious, ahead, len)
    }

    fn in_front(&self, load: f64, oblivious: usize, ahead: u64, len: u64) -> usize {
        let number = cell_of(load);
        let cell = self.cells[number].get_or_init(|| self.cell(number, oblivious));
        cell.memo.get_or(ahead, len, || {
            let hint = Hint::Ahead { ahead, len };
            self.model.choose_hinted(&cell.distances, hint).read_size
        })
    }

    fn cell(&self, number: usize, oblivious: usize) -> Cell {
        let mut builder = Builder::to_extent(extent(u32::try_from(oblivious).unwrap_or(u32::MAX)));
        let distances = cell_table(number, self.capacity)
            .and_then(|table| builder.lookup(table, self.workload))
            .expect("the capacity was checked when this was made, and every cell has a key");
        Cell {
            distances,
            memo: Memo::default(),
        }
    }
}

/// Read sizes by hint that were worked out before: a cache, in which a later hint may take an
/// earlier one's place. Each entry is one word, so that threads may share it without a lock.
#[derive(Debug)]
struct Memo(Box<[AtomicU64]>);

/// 8 KiB of entries for each load factor in use.
const MEMO_BITS: u32 = 10;
/// An entry: how far ahead the cluster is, its length, and the read size; 0 if it is vacant.
const LEN_BITS: u32 = 22;
const SIZE_BITS: u32 = 21;

impl Default for Memo {
    fn default() -> Self {
        Self((0..1 << MEMO_BITS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Memo {
    fn get_or(&self, ahead: u64, len: u64, work_out: impl FnOnce() -> usize) -> usize {
        if len >> LEN_BITS != 0 || ahead >> (64 - LEN_BITS - SIZE_BITS) != 0 {
            return work_out();
        }
        let key = ahead << LEN_BITS | len;
        // Fibonacci hashing.
        let place = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - MEMO_BITS);
        let entry = &self.0[place as usize];
        let known = entry.load(Ordering::Relaxed);
        if known >> SIZE_BITS == key && known != 0 {
            return (known & ((1 << SIZE_BITS) - 1)) as usize;
        }
        let size = work_out();
        if size >> SIZE_BITS == 0 {
            entry.store(key << SIZE_BITS | size as u64, Ordering::Relaxed);
        }
        size
    }
}

#[cfg(test)]
#[path = "hinted_table_tests.rs"]
mod tests;
