//! One client's part of a heap: blocks that it allocates, names and frees.
//!
//! A client appends records to runs of pages that it has open. What it frees is counted as dead,
//! and comes back when its run is free as a whole: a [cleaner](super::cleaner) sees to that.
//!
//! **A client owns an open run for a limited time only.** It must have claimed the run within
//! [`CLAIM_LASTS`] when it allocates a block and when it makes a slot name one; it claims all again
//! by a swap when that time is over. Another client that has seen a claim stand for
//! [`TAKEN_AFTER`](super::cleaner::TAKEN_AFTER) takes the run over.

use super::coroutine_lock::CoroutineLock;
use super::ends::{EndClock, RecordEnd};
use super::layout::{
    BlockRef, GRANULE, HeapPlace, LARGEST_RECORD, NewRecord, Record, block_bytes, class_for, seal,
    too_large,
};
use super::pages::{HeapPages, Kind, PageWord, claim_at, reserve_of};
use super::runs::{Purpose, Runs, dead_of};
use super::seen::PageWindow;
use super::standing::{CleanerState, Eviction};
use super::uncounted::Uncounted;
use crate::Result;
use crate::hash::checksum;
use farslot_fabric::{
    Buffer, Endpoint, EndpointExt, Fetched, Nanos, Piece, Pieces, RemoteAddr, VerbFuture,
};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// How long a client may use a run without another claim.
pub(super) const CLAIM_LASTS: Nanos = 10_000_000_000;

/// How much of a heap is in use.
#[derive(Clone, Copy, Default)]
pub(crate) struct HeapUse {
    /// Bytes of what is not free.
    pub(crate) used: u64,
    /// About how many of these are of records that died.
    pub(crate) dead: u64,
    pub(crate) bytes: u64,
    /// Records that were evicted.
    pub(crate) evicted: u64,
}

/// One client's part of a heap.
pub struct Heap<E> {
    pub(super) endpoint: Rc<E>,
    pub(super) place: HeapPlace,
    pub(super) pages: HeapPages,
    /// Bytes of the segments that its memory is made of; 0 where it is in one piece.
    pub(super) segment: u64,
    /// The most bytes that have to be read of a block, a multiple of 8.
    pub(super) longest: usize,
    pub(super) runs: RefCell<Runs>,
    /// When the oldest claim of them was made.
    oldest_claim: Cell<Option<Nanos>>,
    /// How often runs had been opened when this client looked last.
    pub(super) openings: Cell<Option<u64>>,
    /// How many claims this client has made.
    claims: Cell<u64>,
    /// Bytes of the heap that were ever handed out, as this client saw them last.
    pub(super) mark: Cell<u64>,
    /// Pages by which this client has raised the mark, and that it has not opened yet.
    pub(super) ahead: Cell<(u64, u64)>,
    /// The first page of a reserve beyond the mark that is known to have memory, of a heap that is
    /// made of segments.
    pub(super) reserved_from: Cell<u64>,
    /// The page from which on it looks for free ones.
    pub(super) cursor: Cell<u64>,
    /// Taken by the coroutine that opens a run, so that the others do not open one each.
    pub(super) opening: CoroutineLock,
    pub(super) uncounted: RefCell<Uncounted>,
    /// How many more writes are taken for puts of new keys, and how many were at last.
    pub(super) taken_for_new: Cell<(usize, usize)>,
    pub(super) cleaning: CleanerState,
    /// Of one that evicts.
    pub(super) eviction: Option<Eviction>,
    /// Of one whose records end.
    pub(super) ends: Option<EndClock>,
}

impl<E: Endpoint> Heap<E> {
    /// A client of the heap at `place`, in which no record is longer than so many bytes: it reads
    /// no more of any block.
    #[must_use]
    pub fn new(endpoint: Rc<E>, place: HeapPlace, longest: usize) -> Self {
        let pages = HeapPages::of(place.bytes, false, 0);
        Self {
            endpoint,
            place,
            pages,
            segment: 0,
            longest: longest.min(LARGEST_RECORD).next_multiple_of(8),
            runs: RefCell::new(Runs::of(pages.count)),
            oldest_claim: Cell::new(None),
            openings: Cell::new(None),
            claims: Cell::new(0),
            mark: Cell::new(0),
            ahead: Cell::new((0, 0)),
            reserved_from: Cell::new(u64::MAX),
            cursor: Cell::new(0),
            opening: CoroutineLock::default(),
            uncounted: RefCell::default(),
            taken_for_new: Cell::default(),
            cleaning: CleanerState::default(),
            eviction: None,
            ends: None,
        }
    }

    /// The same client of a heap whose values begin with the moment at which their records end, if
    /// they do.
    #[must_use]
    pub(crate) fn ending(mut self, records_end: bool) -> Self {
        self.ends = records_end.then(|| EndClock::by(None));
        self.lay_out();
        self
    }

    /// The same client of a heap whose memory is made of segments of so many bytes, if of any: as
    /// its [endpoint provides](Endpoint::provide) them.
    #[must_use]
    pub(crate) fn of_segments(mut self, segment: u64) -> Self {
        self.segment = segment;
        self.lay_out();
        self
    }

    pub(super) fn lay_out(&mut self) {
        self.pages = HeapPages::of(self.place.bytes, self.has_stamps(), self.segment);
    }

    /// How many pages it has: of one whose memory is made of segments those that were handed out,
    /// as far as this client knows.
    pub(super) fn size(&self) -> u64 {
        match self.segment {
            0 => self.pages.count,
            _ => self.pages.below(self.mark.get()),
        }
    }

    /// Pages that are left to those that move records.
    pub(super) fn reserve(&self) -> u64 {
        reserve_of(self.size())
    }

    /// The same where all pages were seen: those that are away do not count.
    pub(super) fn reserve_among(&self, all: &PageWindow) -> u64 {
        reserve_of(self.size().saturating_sub(all.of_kind(Kind::Away)))
    }

    /// Has records that have ended forgotten, by this clock in milliseconds, where records end.
    pub(crate) fn set_clock(&mut self, now: impl Fn() -> u64 + 'static) {
        if let Some(ends) = &mut self.ends {
            *ends = EndClock::by(Some(Box::new(now)));
        }
    }

    pub(super) const fn has_stamps(&self) -> bool {
        self.eviction.is_some() || self.ends.is_some()
    }

    /// Whether the stamps of runs say when their records end.
    pub(super) const fn stamps_ends(&self) -> bool {
        self.ends.is_some() && self.eviction.is_none()
    }

    /// When a record with this value ends, of a heap that keeps such records together.
    #[inline]
    pub(super) fn end_of(&self, value: &[u8]) -> RecordEnd {
        match &self.ends {
            Some(ends) if self.eviction.is_none() => ends.of(value),
            _ => RecordEnd::default(),
        }
    }

    /// Where the heap lies.
    #[must_use]
    pub fn place(&self) -> HeapPlace {
        self.place
    }

    pub(crate) fn at(&self, granule: u64) -> RemoteAddr {
        self.place.start.plus(granule * GRANULE)
    }

    pub(super) fn at_byte(&self, byte: u64) -> RemoteAddr {
        self.place.start.plus(byte)
    }

    /// Reads the record that a slot names; nothing if the block has had another use since, or is
    /// not yet visible whole.
    ///
    /// # Errors
    /// What the fabric says.
    #[inline]
    pub async fn read(&self, block: BlockRef) -> Result<Option<Record>> {
        let look = |fetched: &mut Fetched<'_>| Record::fetched(fetched, 0, block);
        self.endpoint
            .look(Pieces::from_elem(self.piece(block), 1), look)
            .await?
    }

    /// What has to be read of a block to have its record.
    #[inline]
    pub(crate) fn piece(&self, block: BlockRef) -> Piece {
        let room = self.place.bytes.saturating_sub(block.granule * GRANULE);
        let room = usize::try_from(room).unwrap_or(usize::MAX) / 8 * 8;
        Piece {
            from: self.at(block.granule),
            len: block_bytes(block.class).min(self.longest).min(room.max(16)),
        }
    }

    /// Writes an encoded record into a block of its own. No slot names it yet.
    ///
    /// # Errors
    /// [`HeapFull`](crate::IndexError::HeapFull), or what the fabric says.
    pub async fn write(&self, mut record: Buffer) -> Result<BlockRef> {
        let block = self.assign(&mut record).await?;
        // If this fails, the write may come yet: the block is not used again.
        self.write_at(block, record).await?;
        Ok(block)
    }

    /// A record that goes into this block.
    pub(crate) fn new_record<'k>(
        &self,
        block: BlockRef,
        (key, value): (&'k [u8], &'k [u8]),
    ) -> NewRecord<'k> {
        NewRecord {
            at: self.at(block.granule),
            block: Some(block),
            key,
            value,
        }
    }

    /// Finds a block for an encoded record, and makes the record that of the block. It is still to
    /// be [written there](Self::write_at).
    ///
    /// # Errors
    /// [`HeapFull`](crate::IndexError::HeapFull), or what the fabric says.
    pub(crate) async fn assign(&self, record: &mut Buffer) -> Result<BlockRef> {
        self.check_not_down()?;
        let end = RecordEnd::default();
        let from_runs = || self.allocate_own(record.len(), Purpose::Write, end);
        let block = match (!self.is_claim_due()).then(from_runs).flatten() {
            Some(block) => block,
            // Boxed, for it is rare: every write would be as large.
            None => Box::pin(self.allocate(record.len(), Purpose::Write, end)).await?,
        };
        seal(record, block);
        Ok(block)
    }

    /// Writes the record that this block was assigned to.
    pub(crate) fn write_at(&self, block: BlockRef, record: Buffer) -> VerbFuture<'_, E, ()> {
        self.endpoint.write(self.at(block.granule), record)
    }

    /// What is written to a node that is down fails, and a block that a failed WRITE was for is not
    /// used again: who tries on and on would use up the heap.
    pub(crate) fn check_not_down(&self) -> Result<()> {
        Ok(self.endpoint.check_not_down(self.place.header.node)?)
    }

    /// A block for so many bytes, which nobody else writes until it is freed.
    pub(super) async fn allocate(
        &self,
        bytes: usize,
        purpose: Purpose,
        end: RecordEnd,
    ) -> Result<BlockRef> {
        self.check_not_down()?;
        let full = || too_large(bytes, self.place.bytes);
        class_for(bytes).ok_or_else(full)?;
        loop {
            self.claim_if_due().await?;
            if let Some(block) = self.allocate_own(bytes, purpose, end) {
                return Ok(block);
            }
            let purpose = self.purpose(purpose);
            if !self.open(bytes, purpose, end).await? {
                let block = self.runs.borrow_mut().carve_anywhere(bytes, purpose, end);
                return block.ok_or_else(full);
            }
        }
    }

    /// A block for so many bytes of those runs that this client has open: for a slot that is made
    /// to name it before anything is awaited. Nothing if none has room. To be called only while no
    /// [claim](Heap::is_claim_due) is due.
    #[inline]
    pub(super) fn allocate_own(
        &self,
        bytes: usize,
        purpose: Purpose,
        end: RecordEnd,
    ) -> Option<BlockRef> {
        let purpose = self.purpose(purpose);
        self.runs.borrow_mut().carve(bytes, purpose, end)
    }

    /// Whether a block that was allocated is still this client's, as far as it knows: to be asked
    /// only while no [claim](Heap::is_claim_due) is due.
    #[inline]
    pub(crate) fn holds(&self, block: BlockRef) -> bool {
        self.runs.borrow().have(block)
    }

    /// Whether a slot may be made to name the block, by a verb that is posted at once.
    ///
    /// # Errors
    /// What the fabric says.
    pub(crate) async fn still_holds(&self, block: BlockRef) -> Result<bool> {
        self.claim_if_due().await?;
        Ok(self.holds(block))
    }

    /// Notes that a slot names this block, which was allocated.
    #[inline]
    pub(crate) fn is_named(&self, block: BlockRef) {
        self.runs.borrow_mut().is_named(block);
    }

    /// Gives back a block that was allocated and to which nothing was written.
    #[inline]
    pub(crate) fn take_back(&self, block: BlockRef) {
        if !self.runs.borrow_mut().take_back(block) {
            self.bury(block);
        }
    }

    /// Gives back a block that was allocated and written, and that no slot has come to name. It is
    /// not carved again before its run was free: others may have seen this use of it.
    #[inline]
    pub(crate) fn bury(&self, block: BlockRef) {
        if self.runs.borrow_mut().is_named(block) {
            self.free(block);
        }
    }

    /// Frees a block that no slot names any more.
    #[inline]
    pub(crate) fn free(&self, block: BlockRef) {
        let page = self.pages.page_of(block.granule);
        // Memory that was damaged may name a block anywhere.
        if block.granule * GRANULE >= self.pages.start && page < self.pages.count {
            let mut uncounted = self.uncounted.borrow_mut();
            if uncounted.is_empty() {
                uncounted.since = self.endpoint.now();
                uncounted.openings = self.openings.get();
            }
            uncounted.add(page, block.generation, dead_of(block));
        }
    }

    /// Forgets what this client holds: none of it will be named by a slot.
    pub(crate) fn forget_all(&self) {
        *self.runs.borrow_mut() = Runs::of(self.pages.count);
        self.note_claims();
    }

    /// Whether the claims of this client's runs are to be made again before it uses them.
    #[inline]
    pub(crate) fn is_claim_due(&self) -> bool {
        let oldest = self.oldest_claim.get();
        oldest.is_some_and(|at| self.endpoint.now().saturating_sub(at) >= CLAIM_LASTS)
    }

    /// Whether blocks of a table's heap, if it has one, may be used without a claim: asked once
    /// where the memory is mapped, and for certain elsewhere.
    #[inline]
    pub(crate) fn may_use_blocks(heap: Option<&Self>, is_mapped: bool) -> bool {
        is_mapped && heap.is_some_and(|heap| !heap.is_claim_due())
    }

    /// Claims the runs again that this client appends to, if that is due. Those that it cannot
    /// close, for operations were dropped, are left to others.
    pub(super) async fn claim_if_due(&self) -> Result<()> {
        if !self.is_claim_due() {
            return Ok(());
        }
        let _guard = self.opening.take(self.endpoint.core()).await;
        if !self.is_claim_due() {
            return Ok(());
        }
        // Before what died is too old to be counted.
        self.tell_dead(true).await;
        let now = self.endpoint.now();
        let open: Vec<_> = {
            let runs = &mut *self.runs.borrow_mut();
            let lasts = |at: Nanos| now.saturating_sub(at) < CLAIM_LASTS;
            runs.closing.retain(|run| lasts(run.claimed_at));
            // What records rarely come to others may have.
            let idle = runs
                .open
                .extract_if(.., |run| run.records == run.records_before && run.span != 0);
            runs.closing.extend(idle);
            runs.open.iter().map(|run| (run.first, run.word)).collect()
        };
        self.close_idle().await;
        for (first, word) in open {
            self.claim_again(first, word).await?;
        }
        self.note_claims();
        Ok(())
    }

    /// Claims a run again that this client appends to; if another has taken it over, forgets it.
    async fn claim_again(&self, first: u64, word: PageWord) -> Result<()> {
        let began = self.endpoint.now();
        let new = word.as_kind(Kind::Open, self.new_claim(first).await?);
        let is_own = self.swap_word(first, word, new).await?;
        let runs = &mut *self.runs.borrow_mut();
        let at = runs.open.iter().position(|run| run.first == first);
        match at {
            Some(at) if is_own => {
                let run = &mut runs.open[at];
                (run.word, run.claimed_at, run.records_before) = (new, began, run.records);
            }
            Some(at) => drop(runs.open.swap_remove(at)),
            None => {}
        }
        Ok(())
    }

    /// How much of a table's heap is in use, if it has one, by the words of its pages.
    pub(crate) async fn in_use(heap: Option<&Self>) -> Result<HeapUse> {
        match heap {
            Some(heap) => heap.own_use().await,
            None => Ok(HeapUse::default()),
        }
    }

    async fn own_use(&self) -> Result<HeapUse> {
        // Designs that are compared ask for their occupancy by the same verbs.
        let bytes = if self.evicts() { 32 } else { 8 };
        let header = self.endpoint.read(self.place.header, bytes).await?;
        let (mark, evicted) = (header.words()[0], header.words().get(3));
        let evicted = evicted.copied().unwrap_or(0);
        let of_pages = self.use_of_pages(self.pages.below(mark)).await?;
        Ok(HeapUse {
            bytes: match self.segment {
                0 => self.place.bytes,
                _ => of_pages.bytes,
            },
            evicted,
            ..of_pages
        })
    }

    /// Notes when the oldest claim was made, after a change of the runs.
    pub(super) fn note_claims(&self) {
        self.oldest_claim.set(self.runs.borrow().oldest_claim());
    }

    /// A claim of a page, another than all before. Who uses it for [`CLAIM_LASTS`] begins to count
    /// before.
    pub(super) async fn new_claim(&self, page: u64) -> Result<u64> {
        self.claims.set(self.claims.get() + 1);
        let claim = (page ^ self.claims.get().rotate_left(32)).to_le_bytes();
        let drawn = u64::from(checksum(&claim, self.endpoint.now()));
        let words = self.endpoint.read(self.ticks_at(), 16).await?;
        let [ticks, openings] = [0, 1].map(|word| words.words()[word]);
        self.openings.set(Some(openings));
        Ok(claim_at(ticks, drawn))
    }

    /// Where the openings of runs are counted.
    pub(super) fn openings_at(&self) -> RemoteAddr {
        self.place.header.plus(16)
    }

    /// Where the records are counted that were evicted.
    pub(super) fn evicted_at(&self) -> RemoteAddr {
        self.place.header.plus(24)
    }

    /// Where the heap's ticks are counted, and behind them how often runs were opened.
    pub(super) fn ticks_at(&self) -> RemoteAddr {
        self.place.header.plus(8)
    }

    pub(super) async fn ticks(&self) -> Result<u64> {
        Ok(self.endpoint.read(self.ticks_at(), 8).await?.words()[0])
    }

    /// Replaces the word of a page by another; false if it was another meanwhile.
    pub(super) async fn swap_word(&self, page: u64, from: PageWord, to: PageWord) -> Result<bool> {
        let at = self.at_byte(self.pages.word_at(page));
        let seen = self.endpoint.compare_swap(at, from.0, to.0).await?;
        Ok(seen == from.0)
    }
}
