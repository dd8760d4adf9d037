//! The runs that a client has open, and what it carves from them.

use super::ends::{EndRange, RecordEnd};
use super::layout::{BlockRef, GRANULE, block_bytes, class_for};
use super::pages::{Dead, HeapPages, LeftClaim, PageWord, reserve_of};
use farslot_fabric::Nanos;

/// Runs that a client appends to for each purpose: a record that does not fit into the rest of one
/// leaves that to smaller ones.
const MOST_OPEN: usize = 2;
/// The same where records that live for about as long lie together, of a heap of enough pages.
const MOST_OPEN_OF_SPANS: usize = 8;
/// For each further one it has so many pages.
const PAGES_A_SPAN: u64 = 256;

/// What a block is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// A record that somebody writes.
    Write,
    /// A record that moves out of a run that is cleaned.
    Move,
    /// A record that moves, for it was read, out of a run whose others are forgotten.
    Keep,
}

impl Purpose {
    /// What the block is for of a write that changes only the record in that block, if it is one.
    #[inline(always)]
    pub(crate) const fn of(only_in: Option<BlockRef>) -> Self {
        match only_in {
            Some(_) => Self::Move,
            None => Self::Write,
        }
    }
}

/// A run of pages that this client has open.
pub(super) struct OpenRun {
    pub(super) first: u64,
    /// What the word of its first page is.
    pub(super) word: PageWord,
    /// Bytes from the heap's start of its first page, and of what is not carved yet.
    pub(super) start: u64,
    pub(super) next: u64,
    pub(super) end: u64,
    /// Where the block starts that was carved last.
    pub(super) last: u64,
    /// Records carved from it since its pages were free, and how many of these when it was claimed.
    pub(super) records: u64,
    pub(super) records_before: u64,
    /// Those that no slot names yet and that were not given back.
    pub(super) pending: u64,
    pub(super) purpose: Purpose,
    /// Which records it was opened for.
    pub(super) span: u16,
    /// When its records end.
    pub(super) ends: EndRange,
    /// When this client began to claim it, last.
    pub(super) claimed_at: Nanos,
}

impl OpenRun {
    pub(super) const fn room(&self) -> u64 {
        self.end - self.next
    }

    fn has(&self, block: BlockRef) -> bool {
        let at = block.granule * GRANULE;
        (self.start..self.end).contains(&at) && self.word.generation() == block.generation
    }

    fn carve(&mut self, bytes: u64, class: usize, end: RecordEnd) -> Option<BlockRef> {
        if self.room() < bytes {
            return None;
        }
        self.ends.add(end);
        let granule = self.next / GRANULE;
        self.last = self.next;
        self.next += bytes;
        self.records += 1;
        self.pending += 1;
        Some(BlockRef {
            granule,
            generation: self.word.generation(),
            class,
        })
    }

    /// What its claim is, once it is left: used so far by so many records.
    pub(super) const fn left(&self) -> LeftClaim {
        LeftClaim {
            used: self.next - self.start,
            records: self.records,
        }
    }
}

/// The runs of a client.
#[derive(Default)]
pub(super) struct Runs {
    /// Those that it appends to.
    pub(super) open: Vec<OpenRun>,
    /// Those that are full, or were given up, and have records that no slot names yet, perhaps.
    pub(super) closing: Vec<OpenRun>,
    /// With so many open for a purpose, records that live longer or shorter lie together as well.
    most_spans: usize,
}

impl Runs {
    /// None yet, of a heap of so many pages.
    pub(super) fn of(pages: u64) -> Self {
        let most = (pages / PAGES_A_SPAN).clamp(1, MOST_OPEN_OF_SPANS as u64);
        Self {
            most_spans: most as usize,
            ..Self::default()
        }
    }

    /// A block for so many bytes, if some run has room: one of records that live for about as long,
    /// or any, where too many are open for another.
    #[inline]
    pub(super) fn carve(
        &mut self,
        record: usize,
        purpose: Purpose,
        end: RecordEnd,
    ) -> Option<BlockRef> {
        let (class, bytes) = (class_for(record)?, carved_bytes(record));
        let mut of_purpose = 0;
        for run in self.open.iter_mut().filter(|run| run.purpose == purpose) {
            of_purpose += 1;
            if run.span == end.span
                && let Some(block) = run.carve(bytes, class, end)
            {
                return Some(block);
            }
        }
        match of_purpose < self.most_spans {
            true => None,
            false => self.carve_anywhere(record, purpose, end),
        }
    }

    /// A block for so many bytes of any run of that purpose, whatever lies there.
    pub(super) fn carve_anywhere(
        &mut self,
        bytes: usize,
        purpose: Purpose,
        end: RecordEnd,
    ) -> Option<BlockRef> {
        let (class, bytes) = (class_for(bytes)?, carved_bytes(bytes));
        let mut open = self.open.iter_mut();
        open.find_map(|run| match run.purpose == purpose {
            true => run.carve(bytes, class, end),
            false => None,
        })
    }

    /// How many blocks for so many bytes there is room for.
    pub(super) fn blocks_for(&self, record: usize, purpose: Purpose) -> usize {
        let of_purpose = self.open.iter().filter(|run| run.purpose == purpose);
        let blocks = of_purpose.map(|run| run.room() / carved_bytes(record));
        blocks.sum::<u64>() as usize
    }

    /// Whether some run has room for such a block.
    pub(super) fn have_room(&self, bytes: u64, purpose: Purpose, span: u16) -> bool {
        let of_purpose = || self.open.iter().filter(|run| run.purpose == purpose);
        let may_be_any = of_purpose().count() >= self.most_spans;
        of_purpose().any(|run| run.room() >= bytes && (may_be_any || run.span == span))
    }

    fn with(&mut self, block: BlockRef) -> Option<&mut OpenRun> {
        let mut runs = self.open.iter_mut().chain(&mut self.closing);
        runs.find(|run| run.has(block))
    }

    pub(super) fn have(&self, block: BlockRef) -> bool {
        let mut runs = self.open.iter().chain(&self.closing);
        runs.any(|run| run.has(block))
    }

    /// Notes that a slot names this block now, or that none will; false if it was carved from a run
    /// that another client has taken over.
    #[inline]
    pub(super) fn is_named(&mut self, block: BlockRef) -> bool {
        let run = self.with(block);
        run.is_some_and(|run| {
            run.pending = run.pending.saturating_sub(1);
            true
        })
    }

    /// Takes a block back to which nothing was written, if it was carved last.
    pub(super) fn take_back(&mut self, block: BlockRef) -> bool {
        let start = block.granule * GRANULE;
        let Some(run) = self.with(block) else {
            return false;
        };
        let is_last = start == run.last && start < run.next;
        if is_last {
            run.next = start;
            run.records -= 1;
            run.pending -= 1;
        }
        is_last
    }

    /// Appends to this run too from now on; of too many the one with the least room is closed.
    pub(super) fn open(&mut self, run: OpenRun) {
        let (purpose, span) = (run.purpose, run.span);
        let full = self
            .open
            .extract_if(.., |run| run.room() < block_bytes(0) as u64);
        self.closing.extend(full);
        self.open.push(run);
        let of_span = |run: &OpenRun| run.purpose == purpose && run.span == span;
        self.keep_open(MOST_OPEN, of_span);
        self.keep_open(self.most_spans.max(MOST_OPEN), |run| run.purpose == purpose);
    }

    /// Closes the one with the least room of those, if they are more than so many.
    fn keep_open(&mut self, most: usize, of: impl Fn(&OpenRun) -> bool) {
        if self.open.iter().filter(|run| of(run)).count() <= most {
            return;
        }
        let fullest = (self.open.iter().enumerate())
            .filter(|(_, run)| of(run))
            .min_by_key(|(_, run)| run.room());
        if let Some((at, _)) = fullest {
            self.closing.push(self.open.remove(at));
        }
    }

    /// When the oldest claim of any of them was made.
    pub(super) fn oldest_claim(&self) -> Option<Nanos> {
        let runs = self.open.iter().chain(&self.closing);
        runs.map(|run| run.claimed_at).min()
    }
}

/// Bytes that the block of a record of so many bytes takes.
pub(super) const fn carved_bytes(bytes: usize) -> u64 {
    (bytes as u64).next_multiple_of(GRANULE)
}

/// Whether a heap of so many bytes has room for a record of so many.
pub(crate) fn holds(heap_bytes: u64, record_bytes: usize) -> bool {
    let pages = HeapPages::of(heap_bytes, true, 0);
    pages.hold(carved_bytes(record_bytes), reserve_of(pages.count))
}

/// About how much died with a block.
pub(super) const fn dead_of(block: BlockRef) -> Dead {
    Dead {
        records: 1,
        granules: block_bytes(block.class) as u64 / GRANULE,
    }
}
