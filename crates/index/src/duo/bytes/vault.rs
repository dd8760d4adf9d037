//! Where the buckets of a table are that has grown.

use super::entries::Entry;
use super::layout::{DuoLayout, MOST_EXTENTS, SEGMENTS};
use super::numbers::SlotNumber;
use crate::Result;
use crate::slot::{bad_option, slots_for};
use farslot_fabric::RemoteAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

/// The largest ratio that a table grows by at once.
pub(in super::super) const MOST_RATIO: u64 = 4096;

/// Buckets of both arrays that lie side by side in memory, each array's for itself.
#[derive(Clone, Copy)]
pub(super) struct BucketExtent {
    /// The first bucket of each array.
    pub(super) first: u64,
    /// Buckets of each array.
    pub(super) buckets: u64,
    /// Which of the buckets before are split.
    splits: RemoteAddr,
    /// Where the index is published: the counts of changes of these buckets' segments.
    pub(super) counts: RemoteAddr,
    /// Where the index is published: the pages of these buckets.
    pub(super) pages: RemoteAddr,
    /// The first array's buckets; behind them the second's; behind those of a table as it was made,
    /// its stash.
    arrays: RemoteAddr,
}

/// Buckets of one array, side by side in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct BucketRun {
    /// 0 or 1.
    pub(in super::super) array: u64,
    /// The first one, counted within the array.
    pub(in super::super) first: u64,
    pub(in super::super) buckets: u64,
}

impl BucketRun {
    /// Their numbers through both arrays.
    pub(in super::super) fn numbers(self) -> impl Iterator<Item = u64> + Clone {
        let buckets = self.first..self.first + self.buckets;
        buckets.map(move |bucket| 2 * bucket + self.array)
    }
}

/// Where everything is, for all threads of the owner.
pub(in super::super) struct VaultMap {
    pub(super) table: RemoteAddr,
    /// Where the table started: that of most buckets, known without a lock.
    start: BucketExtent,
    /// At least one: the start.
    extents: RwLock<Vec<BucketExtent>>,
    spare: Mutex<Option<Memory>>,
    /// Whether a growth could not begin for want of memory, or because there were too many. It
    /// never will: memory for growth is not given back.
    pub(in super::super) exhausted: AtomicBool,
    /// Whether buckets that others are to be split into may hold something: what splits that did
    /// not come about have left. If not, they are zeros, as the memory was when it was taken.
    touched: AtomicBool,
}

/// Bytes of memory, and where they are.
type Memory = (u64, RemoteAddr);

impl VaultMap {
    pub(in super::super) fn new(table: RemoteAddr, layout: &DuoLayout) -> Self {
        let start = BucketExtent {
            first: 0,
            buckets: layout.buckets,
            splits: table,
            counts: layout.counts_at(table),
            pages: layout.pages_at(table),
            arrays: layout.arrays_at(table),
        };
        Self {
            table,
            start,
            extents: RwLock::new(vec![start]),
            spare: Mutex::new(None),
            exhausted: AtomicBool::new(false),
            touched: AtomicBool::new(false),
        }
    }

    /// Knows of no growth.
    pub(in super::super) fn forget(&self) {
        self.change(|extents| extents.truncate(1));
        self.set_spare(None);
    }

    /// Whether there may be something in buckets that are not in use yet.
    pub(in super::super) fn is_touched(&self) -> bool {
        self.touched.load(Ordering::Relaxed)
    }

    /// Notes whether there may be. Called by who knows that no split is under way.
    pub(in super::super) fn set_touched(&self, touched: bool) {
        self.touched.store(touched, Ordering::Relaxed);
    }

    /// Memory that was taken for an extent which did not come about.
    pub(in super::super) fn spare(&self) -> Option<Memory> {
        *self.spare_lock()
    }

    pub(in super::super) fn set_spare(&self, spare: Option<Memory>) {
        *self.spare_lock() = spare;
    }

    fn spare_lock(&self) -> MutexGuard<'_, Option<Memory>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn extents(&self) -> RwLockReadGuard<'_, Vec<BucketExtent>> {
        self.extents.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what extents there are.
    fn change(&self, change: impl FnOnce(&mut Vec<BucketExtent>)) {
        change(&mut self.extents.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// The extent of a bucket, counted within its array.
    #[inline]
    fn extent_of(&self, bucket: u64) -> BucketExtent {
        if bucket < self.start.buckets {
            return self.start;
        }
        extent_of(&self.extents(), bucket)
    }

    /// An extent by its number: that of the table as it was made is 0.
    #[inline]
    pub(super) fn extent_numbered(&self, number: u64) -> BucketExtent {
        match number {
            0 => self.start,
            _ => self.extents()[number as usize],
        }
    }

    /// How often the table has grown.
    pub(in super::super) fn growths(&self) -> usize {
        self.extents().len() - 1
    }

    /// Buckets of each array.
    pub(in super::super) fn buckets(&self) -> u64 {
        let extents = self.extents();
        let last = extents[extents.len() - 1];
        last.first + last.buckets
    }

    /// By how much the table grows, or has last: 1 if it never has.
    pub(in super::super) fn ratio(&self) -> u64 {
        let extents = self.extents();
        let last = extents[extents.len() - 1];
        last.buckets
            .checked_div(last.first)
            .map_or(1, |more| more + 1)
    }

    /// Bytes of the extent by which the table would grow now.
    ///
    /// # Errors
    /// [`BadOption`](crate::IndexError::BadOption) for a ratio or a size that is not possible.
    pub(in super::super) fn extent_bytes(&self, layout: &DuoLayout, ratio: u64) -> Result<u64> {
        let (growths, before) = (self.growths() as u64, self.buckets());
        if growths >= u64::from(MOST_EXTENTS) {
            let limit = format!("{MOST_EXTENTS} at most");
            return Err(bad_option("growths", growths + 1, limit));
        }
        check_ratio(ratio)?;
        let bucket_slots = 2 * u64::from(layout.bucket_slots);
        slots_for(
            before.saturating_mul(ratio).saturating_mul(bucket_slots),
            1.0,
        )?;
        let bytes = layout.extent_bytes(before, ratio);
        bytes.ok_or_else(|| bad_option("growth ratio", ratio, "a table of less than 2^64 bytes"))
    }

    /// Bytes from `start` to the end of the last extent within so many bytes behind it.
    pub(in super::super) fn used_of(
        &self,
        start: RemoteAddr,
        bytes: u64,
        layout: &DuoLayout,
    ) -> u64 {
        let extents = self.extents();
        let within = extents[1..].iter().filter(|extent| {
            let at = extent.splits;
            at.region == start.region && (start.offset..start.offset + bytes).contains(&at.offset)
        });
        let ends = within.map(|extent| {
            let arrays = 2 * extent.buckets * layout.bucket_bytes() as u64;
            extent.arrays.offset + arrays - start.offset
        });
        ends.max().unwrap_or(0)
    }

    /// Adds an extent.
    ///
    /// # Errors
    /// As [`VaultMap::extent_bytes`], for an entry of a header that is damaged.
    pub(in super::super) fn add(&self, layout: &DuoLayout, entry: Entry) -> Result<()> {
        let bytes = self.extent_bytes(layout, entry.ratio)?;
        let first = self.buckets();
        let buckets = first * (entry.ratio - 1);
        let counts = entry.at.plus(DuoLayout::splits_bytes(first));
        let arrays = 2 * buckets * layout.bucket_bytes() as u64;
        let extent = BucketExtent {
            first,
            buckets,
            splits: entry.at,
            counts,
            pages: counts.plus(SEGMENTS * 8),
            arrays: entry.at.plus(bytes - arrays),
        };
        self.change(|extents| extents.push(extent));
        Ok(())
    }

    /// The word that has this bit, of those of the extent with this bucket that say what is split,
    /// and the bit's number in it.
    pub(in super::super) fn split_bit_of(&self, bucket: u64, bit: u64) -> (RemoteAddr, u64) {
        let splits = self.extent_of(bucket / 2).splits;
        (splits.plus(bit / 64 * 8), bit % 64)
    }

    /// Where a bucket is, numbered through both arrays.
    #[inline]
    pub(in super::super) fn bucket_at(&self, layout: &DuoLayout, bucket: u64) -> RemoteAddr {
        let at = |extent: &BucketExtent| {
            let behind = bucket / 2 - extent.first + bucket % 2 * extent.buckets;
            extent.arrays.plus(behind * layout.bucket_bytes() as u64)
        };
        match bucket / 2 < self.start.buckets {
            true => at(&self.start),
            false => at(&extent_of(&self.extents(), bucket / 2)),
        }
    }

    /// Where a slot is, of the stash and the journal too.
    #[inline]
    pub(in super::super) fn slot_at(&self, layout: &DuoLayout, slot: SlotNumber) -> RemoteAddr {
        if slot.is_journal() {
            return layout.journal_at(self.table, slot.0 - SlotNumber::JOURNAL.0);
        }
        if let Some(index) = slot.in_stash() {
            let before = layout.slots() + index;
            return self.start.arrays.plus(before * layout.slot_bytes() as u64);
        }
        let slots = u64::from(layout.bucket_slots);
        let bucket = self.bucket_at(layout, slot.0 / slots);
        bucket.plus(slot.0 % slots * layout.slot_bytes() as u64)
    }

    /// All buckets of an array, in their order.
    pub(in super::super) fn runs(&self, array: u64) -> Vec<BucketRun> {
        let extents = self.extents();
        let run = |extent: &BucketExtent| BucketRun {
            array,
            first: extent.first,
            buckets: extent.buckets,
        };
        extents.iter().map(run).collect()
    }

    /// How many buckets of an array lie side by side from this one on, counted within the array.
    pub(in super::super) fn side_by_side(&self, bucket: u64) -> u64 {
        let extent = self.extent_of(bucket);
        extent.first + extent.buckets - bucket
    }

    /// Buckets, numbered through both arrays, as runs.
    pub(in super::super) fn runs_of(&self, buckets: &[u64]) -> Vec<BucketRun> {
        let mut sorted: Vec<(u64, u64)> = buckets.iter().map(|b| (b % 2, b / 2)).collect();
        sorted.sort_unstable();
        let extents = self.extents();
        let mut runs: Vec<BucketRun> = Vec::new();
        for (array, bucket) in sorted {
            let start = extent_of(&extents, bucket).first;
            match runs.last_mut() {
                Some(run)
                    if run.array == array
                        && run.first + run.buckets == bucket
                        && bucket != start =>
                {
                    run.buckets += 1;
                }
                _ => runs.push(BucketRun {
                    array,
                    first: bucket,
                    buckets: 1,
                }),
            }
        }
        runs
    }
}

fn extent_of(extents: &[BucketExtent], bucket: u64) -> BucketExtent {
    extents[extents.partition_point(|extent| extent.first <= bucket) - 1]
}

/// Refuses a ratio that no table grows by.
///
/// # Errors
/// [`BadOption`](crate::IndexError::BadOption).
pub(in super::super) fn check_ratio(ratio: u64) -> Result<()> {
    if (2..=MOST_RATIO).contains(&ratio) {
        return Ok(());
    }
    let limit = format!("a whole number of 2 to {MOST_RATIO}");
    Err(bad_option("growth ratio", ratio, limit))
}
