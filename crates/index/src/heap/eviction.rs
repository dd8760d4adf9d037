//! Evicting records: a cache whose heap is full forgets some.
//!
//! They go by whole runs, the oldest first; but a record that was read since it came to its run is
//! moved to a run of such records. While the runs of records that nobody has moved so have more
//! than a [part](YOUNG) of the heap, the oldest of them is emptied next, and else the oldest of the
//! others. So what is read once passes through a part of the heap, and what is read again stays
//! (lazy promotion and quick demotion: S3-FIFO, SOSP 2023, by runs and with one bit a record).
//!
//! A [small](SMALL) record is moved once as though it had been read: for the room of one large
//! record many small ones stay, each of which may be asked for again (GreedyDual-Size, 1997).
//!
//! Whether a record was read stands in its head. Readers put it there: by a swap that expects the
//! head as it was read, so that one that comes late changes nothing else. A reader that finds the
//! bit has nothing to do; the others remember some heads and report them together. A hint that is
//! lost, for its reader may not write or has ended, costs a record its place, and no more.
//!
//! ```text
//! head of a record | checksum, 32 bits | generation, 16 | 0 | was read, 1 bit |
//! stamp of a run  | kept, 1 bit | number of its opening, 63 bits |
//! ```

use super::client::Heap;
use super::layout::{BlockRef, Record, RecordView, WAS_READ};
use super::pages::Kind;
use super::relocation::{Relocate, Relocation};
use super::runs::Purpose;
use super::seen::{PageWindow, SeenRun};
use super::standing::{Evicting, Eviction, RecordFate};
use crate::client::check_turn;
use crate::{Result, UPKEEP};
use farslot_fabric::{Endpoint, EndpointExt, Rights, both, window};

/// Runs of records that nobody has kept have at most so many tenths of the heap: the fewer, the
/// longer what is read again stays, and the later popularity that shifts is followed
/// (`farslot-lab caches`).
const YOUNG: u64 = 2;
/// Records are small that have at most one of so many parts of what those have on average that
/// nobody has moved.
const SMALL: u64 = 4;
/// Hints that a reader reports together.
const HINTS: usize = 32;
/// Runs that are emptied for one record, at most.
const MOST_EMPTIED: u32 = 256;
/// Of those, runs of which what was read is kept: so many, and of so many bytes, at least.
const MOST_KEPT: u32 = 16;
const MOST_KEPT_BYTES: u64 = 4 << 20;
/// Runs of one kind that are emptied in vain before the other kind has its turn, where there are
/// records that are never forgotten.
const IN_VAIN: u32 = 8;
/// The part of the pages that are free behind an eviction, besides what it was for.
const GOAL: u64 = 4096;

impl<E: Endpoint> Heap<E> {
    /// The same client of a heap that evicts records, if it does.
    #[must_use]
    pub(crate) fn evicting(mut self, of: Option<Evicting>) -> Self {
        let place = self.place.start;
        let may_hint = || {
            let info = self.endpoint.node(place.node).ok()?;
            // One that is made of segments of the first has the rights of that.
            let region = info.regions.get(usize::from(place.region.0));
            let region = region.or(info.regions.first())?;
            Some(region.rights.allow(Rights::ATOMIC))
        };
        self.eviction = of.map(|of| Eviction::new(of, may_hint().unwrap_or(false)));
        self.lay_out();
        self
    }

    pub(crate) const fn evicts(&self) -> bool {
        self.eviction.is_some()
    }

    /// Notes that the record in a block was read, whose head was this.
    #[inline]
    pub(crate) fn was_read(&self, block: BlockRef, head: u64) {
        let Some(eviction) = &self.eviction else {
            return;
        };
        if head & WAS_READ == 0 && eviction.may_hint {
            let read = &mut *eviction.read.borrow_mut();
            match read.contains(&(block.granule, head)) {
                true => eviction.again.set(eviction.again.get() + 1),
                false if read.len() < HINTS => read.push((block.granule, head)),
                false => {}
            }
        }
    }

    /// Whether so much was read that it is to be reported.
    #[inline]
    pub(crate) fn has_hints(&self) -> bool {
        (self.eviction.as_ref()).is_some_and(|eviction| {
            eviction.again.get() >= HINTS || eviction.read.borrow().len() >= HINTS
        })
    }

    pub(super) fn has_any_hint(&self) -> bool {
        (self.eviction.as_ref()).is_some_and(|eviction| !eviction.read.borrow().is_empty())
    }

    /// Says of the records that were read that they were.
    pub(crate) async fn report_hints(&self) {
        let Some(eviction) = &self.eviction else {
            return;
        };
        let read = eviction.read.take();
        eviction.again.set(0);
        let swaps = read.iter().map(|(granule, head)| {
            (self.endpoint).compare_swap(self.at(*granule), *head, head | WAS_READ)
        });
        let reporting = window(HINTS, swaps, |_, _| {});
        self.endpoint.operation(UPKEEP, reporting).await;
    }

    /// What a block is for that a write asks for.
    pub(super) fn purpose(&self, asked: Purpose) -> Purpose {
        let keeps = |eviction: &Eviction| eviction.keeps.get();
        match asked {
            Purpose::Move if self.eviction.as_ref().is_some_and(keeps) => Purpose::Keep,
            asked => asked,
        }
    }

    /// Says what becomes of the records that are moved from now on, out of a run of kept ones or
    /// not.
    pub(super) fn set_fate(&self, fate: RecordFate, is_kept: bool) {
        if let Some(eviction) = &self.eviction {
            eviction.keeps.set(is_kept || fate != RecordFate::Moved);
        }
    }

    /// Whether a record stays, of a run that is emptied so.
    pub(super) fn stays(&self, record: &RecordView<'_>, fate: RecordFate) -> bool {
        let keeps = |eviction: &Eviction| eviction.keeps(record, fate);
        fate == RecordFate::Moved || self.eviction.as_ref().is_none_or(keeps)
    }

    /// Makes room for a record of so many bytes: runs are emptied until it is there.
    ///
    /// # Errors
    /// [`TurnOver`](crate::IndexError::TurnOver), or what the fabric says.
    pub(super) async fn evict(
        &self,
        table: &impl Relocate,
        room: u64,
        mut seen: PageWindow,
    ) -> Result<bool> {
        let pages = self.pages.fewest_for(room);
        let enough = pages + self.reserve();
        let emptied = &self.cleaning.emptied;
        self.report_hints().await;
        // Runs that could not be emptied, by their first pages, and whether that has failed for the
        // last one only as long as what was read was to be kept.
        let (mut passed_over, mut again) = (Vec::new(), false);
        let (mut free, mut in_vain) = (0, 0);
        while emptied.get() < MOST_EMPTIED {
            let has_goal = seen.free() >= enough + self.size() / GOAL;
            if has_goal && self.has_room_in(&seen, room) {
                emptied.set(0);
                return Ok(true);
            }
            let is_in_pieces = pages > 1 && has_goal;
            let row = |fate| self.clean_in_a_row(pages, &[Kind::Free], table, fate);
            let read = RecordFate::MovedIfRead { small: 0 };
            if is_in_pieces && (row(RecordFate::Moved).await? || row(read).await?) {
                emptied.set(emptied.get() + 1);
                seen = self.look_at_all().await?;
                continue;
            }
            // Where emptying runs of the one kind brings nothing, for all in them stays, the other
            // kind goes first.
            in_vain = if seen.free() > free { 0 } else { in_vain + 1 };
            free = seen.free();
            let prefers_other = !self.forgets_any() && in_vain / IN_VAIN % 2 == 1;
            let young = self.has_many_young(&seen) != prefers_other;
            let oldest = self.oldest(&seen, young, &passed_over);
            let Some(oldest) = oldest else {
                break;
            };
            let kept_bytes = u64::from(emptied.get()) * self.pages.bytes;
            let may_keep = emptied.get() < MOST_KEPT || kept_bytes < MOST_KEPT_BYTES;
            let fate = match !again && may_keep {
                // A small one that was kept once has to be read to be kept again.
                true if is_young(&oldest) => RecordFate::MovedIfRead {
                    small: small_bytes(&seen, self.pages.bytes),
                },
                true => read,
                false => RecordFate::Forgotten,
            };
            let is_emptied = self.clean_run(oldest, table, fate).await?;
            // What lives may have no room elsewhere; or another client was faster.
            if !is_emptied && fate == RecordFate::Forgotten {
                passed_over.push(oldest.first);
            }
            again = !is_emptied && fate != RecordFate::Forgotten;
            emptied.set(emptied.get() + 1);
            check_turn(&*self.endpoint)?;
            seen = self.look_at_all().await?;
        }
        emptied.set(0);
        Ok(self.has_room_in(&seen, room))
    }

    /// Forgets one of the records in these blocks, if it can: the oldest of those that were not
    /// read, if there are some.
    pub(crate) async fn evict_one_of(
        &self,
        blocks: &[BlockRef],
        table: &impl Relocate,
    ) -> Result<bool> {
        let mut looked = Vec::with_capacity(blocks.len());
        let looks = blocks.iter().map(|block| {
            let page = self.pages.page_of(block.granule).min(self.pages.count - 1);
            let stamp = self.at_byte(self.pages.stamp_at(page));
            let head = self.endpoint.read(self.at(block.granule), 8);
            both(head, self.endpoint.read(stamp, 8))
        });
        let mut failed: Result<()> = Ok(());
        window(HINTS, looks, |number, (head, stamp)| match (head, stamp) {
            (Ok(head), Ok(stamp)) => {
                let was_read = head.words()[0] & WAS_READ != 0;
                looked.push((was_read, stamp.words()[0], blocks[number]));
            }
            (Err(error), _) | (_, Err(error)) => failed = Err(error.into()),
        })
        .await;
        failed?;
        looked.sort_by_key(|(was_read, stamp, _)| (*was_read, *stamp));
        for (_, _, block) in looked {
            let Some(record) = self.read(block).await? else {
                continue;
            };
            let may_forget = |eviction: &Eviction| eviction.may_forget(record.value());
            if self.eviction.as_ref().is_some_and(may_forget)
                && self.forget(block, &record, table).await
            {
                return Ok(true);
            }
            check_turn(&*self.endpoint)?;
        }
        Ok(false)
    }

    /// Forgets a record; false if that failed.
    async fn forget(&self, block: BlockRef, record: &Record, table: &impl Relocate) -> bool {
        let (key, value) = (record.key(), None);
        let mut was = Ok(false);
        table
            .relocate(&[Relocation { key, value, block }], &mut |_, outcome| {
                was = outcome
            })
            .await;
        self.count_evicted(u64::from(was == Ok(true))).await;
        // If another has changed it, there may be room as well.
        was.is_ok()
    }

    /// Counts records that were evicted. If that fails, the count lags.
    pub(super) async fn count_evicted(&self, evicted: u64) {
        if evicted > 0 {
            let _ = self.endpoint.fetch_add(self.evicted_at(), evicted).await;
        }
    }

    fn forgets_any(&self) -> bool {
        (self.eviction.as_ref()).is_some_and(|eviction| eviction.of == Evicting::All)
    }

    /// Whether the runs of records that nobody has kept have more of the heap than is theirs.
    fn has_many_young(&self, seen: &PageWindow) -> bool {
        let of_young = seen.runs().filter(is_young).map(|run| run.word.pages());
        of_young.sum::<u64>() * 10 > self.size() * YOUNG
    }

    /// The run that is emptied next, but for some: the oldest young one, or of the others, or of
    /// those that there are.
    fn oldest(&self, seen: &PageWindow, young: bool, passed_over: &[u64]) -> Option<SeenRun> {
        let oldest = |young: bool| {
            let runs = seen.runs().filter(|run| {
                is_young(run) == young
                    && run.word.is_cleanable()
                    && !passed_over.contains(&run.first)
            });
            runs.min_by_key(|run| run.stamp)
        };
        oldest(young).or_else(|| oldest(!young))
    }
}

/// Bytes of the largest small record, by the runs of records that nobody has moved.
fn small_bytes(seen: &PageWindow, page_bytes: u64) -> u64 {
    let (mut bytes, mut records) = (0, 0);
    let young = seen.runs().filter(is_young);
    for written in young.filter_map(|run| run.written(page_bytes)) {
        bytes += written.used;
        records += written.records;
    }
    bytes / records.max(1) / SMALL
}

fn is_young(run: &SeenRun) -> bool {
    !run.is_kept()
}
