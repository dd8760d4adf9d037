//! Opening runs, and closing them.

use super::client::{CLAIM_LASTS, Heap, HeapUse};
use super::ends::{EndClock, EndRange, RecordEnd};
use super::layout::GRANULE;
use super::pages::{Dead, DeadWord, Kind, LeftClaim, PageWord, Stamp};
use super::runs::{OpenRun, Purpose, carved_bytes};
use super::seen::{PageWindow, SeenRun};
use crate::{Result, UPKEEP};
use farslot_fabric::{Endpoint, EndpointExt, both, window};
use std::ops::Range;

/// Pages that are looked at for one that is free, before pages that nobody had yet are taken.
const LOOK_AT: u64 = 128;
/// Pages that a client takes between two such looks, and by how many it raises the mark.
const AHEAD: u64 = 8;
/// Swaps of the words of a run under way at a time.
const WIDTH: usize = 64;
/// Pages of which the words are read at a time.
const PIECE: u64 = 4096;
/// How often others may be faster at the pages that a client has chosen.
const ATTEMPTS: u32 = 16;

impl<E: Endpoint> Heap<E> {
    /// Opens a run that has room for a record of so many bytes, or finds that one is open; false if
    /// the heap has none.
    pub(super) async fn open(
        &self,
        bytes: usize,
        purpose: Purpose,
        end: RecordEnd,
    ) -> Result<bool> {
        let _guard = self.opening.take(self.endpoint.core()).await;
        let room = carved_bytes(bytes);
        // Whoever had the lock before may have opened one.
        if self.runs.borrow().have_room(room, purpose, end.span) {
            return Ok(true);
        }
        // Who cleans goes on before it looks again.
        if purpose == Purpose::Write && self.cleaning.is_cut.get() {
            return Ok(false);
        }
        both(self.tell_dead(false), self.close_idle()).await;
        let mut lost = 0;
        while lost < ATTEMPTS {
            match Box::pin(self.try_open(room, purpose, end.span)).await? {
                OpenAttempt::Opened => {
                    // Another may be full now.
                    self.close_idle().await;
                    return Ok(true);
                }
                OpenAttempt::Freed => {}
                OpenAttempt::LostRace => lost += 1,
                OpenAttempt::None => return Ok(false),
            }
        }
        Ok(false)
    }

    async fn try_open(&self, room: u64, purpose: Purpose, span: u16) -> Result<OpenAttempt> {
        if self.mark.get() == 0 {
            self.read_mark().await?;
        }
        let pages = self.pages.run_for(room, self.size());
        let reserve = match purpose {
            Purpose::Write => self.reserve(),
            Purpose::Move | Purpose::Keep => 0,
        };
        let mut request = RunRequest {
            room,
            pages,
            reserve,
            purpose,
            span,
            may_mix: true,
        };
        if let Some(first) = self.take_ahead(pages) {
            let words = vec![PageWord(0); pages as usize];
            return self.claim_run(first, &words, request).await;
        }
        let handed_out = self.pages.below(self.mark.get());
        if self.pages.count - handed_out >= pages + reserve {
            match self.open_among_some(handed_out, request).await? {
                OpenAttempt::None => {}
                tried => return Ok(tried),
            }
        }
        let all = self.look_at_all().await?;
        request.reserve = request.reserve.min(self.reserve_among(&all));
        let fewest = self.pages.fewest_for(room);
        for pages in [pages, fewest] {
            request.pages = pages;
            let mut tried = self.open_among(&all, request).await?;
            if matches!(tried, OpenAttempt::None) {
                tried = self.bring_back(&all, request).await?;
            }
            if pages == fewest || !matches!(tried, OpenAttempt::None) {
                return Ok(tried);
            }
        }
        Ok(OpenAttempt::None)
    }

    async fn read_mark(&self) -> Result<()> {
        let mark = self.endpoint.read(self.place.header, 8).await?;
        self.mark.set(mark.words()[0]);
        Ok(())
    }

    /// What the words of all pages say.
    pub(super) async fn look_at_all(&self) -> Result<PageWindow> {
        if self.segment > 0 {
            // Behind it there are no words.
            self.read_mark().await?;
        }
        self.look_at_pages(0..self.size()).await
    }

    /// Opens a run somewhere among the pages that were handed out, if a look at some of them finds
    /// one; else raises the mark, if there is memory for more.
    async fn open_among_some(&self, handed_out: u64, request: RunRequest) -> Result<OpenAttempt> {
        let from = match self.cursor.get() {
            cursor if cursor < handed_out => cursor,
            _ => 0,
        };
        let end = (from + LOOK_AT.max(request.pages)).min(handed_out);
        if from < end {
            let seen = self.look_at_pages(from..end).await?;
            // Where there is memory for it, the reserve lies beyond the mark.
            let is_reserved = self.has_reserve(handed_out, request.reserve).await?;
            let tried = RunRequest {
                reserve: if is_reserved { 0 } else { request.reserve },
                may_mix: false,
                ..request
            };
            match self.open_among(&seen, tried).await? {
                OpenAttempt::None => self.cursor.set(end),
                tried => return Ok(tried),
            }
        }
        self.raise_mark(request).await
    }

    /// Opens one among pages that were seen: a run that was left and has room, or free pages,
    /// unless that leaves fewer than the reserve. Where there is none, it frees the runs that are
    /// dead.
    async fn open_among(&self, seen: &PageWindow, request: RunRequest) -> Result<OpenAttempt> {
        let is_enough = seen.free() >= request.reserve;
        let avoid = match request.purpose {
            Purpose::Write => 0..0,
            Purpose::Move | Purpose::Keep => self.cleaning.row.borrow().clone(),
        };
        let suits = |run: &SeenRun| {
            !run.is_dead()
                && !run.overlaps(&avoid)
                && run.is_kept() == (request.purpose == Purpose::Keep)
        };
        let left = |of: &dyn Fn(&SeenRun) -> bool| {
            let mut runs = seen.runs().filter(suits);
            runs.find(|run| is_enough && self.has_left(run, request.room) && of(run))
        };
        if let Some(run) = left(&|run| self.is_of_span(run, request.span)) {
            return self.open_left(run, request).await;
        }
        let free = seen.free_run(request.pages, self.cursor.get(), &avoid);
        let is_enough = seen.free() >= request.pages + request.reserve;
        if let Some((first, words)) = free.filter(|_| is_enough) {
            let end = first + request.pages;
            while self.pages.below(self.mark.get()) < end {
                self.swap_mark(self.pages.page_at(end)).await?;
            }
            self.cursor.set(end);
            return self.claim_run(first, words, request).await;
        }
        let mut freed = false;
        for run in seen.runs().filter(SeenRun::is_dead) {
            freed |= self.free_run(run).await?;
        }
        if freed {
            return Ok(OpenAttempt::Freed);
        }
        match left(&|_| request.may_mix) {
            Some(run) => self.open_left(run, request).await,
            None => Ok(OpenAttempt::None),
        }
    }

    /// Whether the records of a run live for about as long, where such records lie together.
    fn is_of_span(&self, run: &SeenRun, span: u16) -> bool {
        let are_of = |ends: &EndClock| run.stamp.is_some_and(|stamp| ends.are_of(stamp, span));
        !self.stamps_ends() || self.ends.as_ref().is_some_and(are_of)
    }

    /// What the words of these pages say.
    pub(super) async fn look_at_pages(&self, pages: Range<u64>) -> Result<PageWindow> {
        let first = pages.start;
        let stamps = async {
            match self.has_stamps() {
                true => self.words_of(self.pages.stamp_at(first), &pages).await,
                false => Ok(Vec::new()),
            }
        };
        let words = both(
            self.words_of(self.pages.dead_at(first), &pages),
            self.words_of(self.pages.word_at(first), &pages),
        );
        // In whatever order: what is done about a run is done by a swap from its word.
        let ((dead, words), stamps) = both(words, stamps).await;
        let words = words?.into_iter().map(PageWord).collect();
        let dead: Vec<_> = dead?.into_iter().map(DeadWord).collect();
        let stamps: Vec<_> = stamps?.into_iter().map(Stamp).collect();
        Ok(PageWindow::new(first, words, &dead, &stamps))
    }

    /// How much of the first pages, so many, is in use.
    pub(super) async fn use_of_pages(&self, count: u64) -> Result<HeapUse> {
        let seen = self.look_at_pages(0..count).await?;
        let present = count - seen.of_kind(Kind::Away);
        let used = (present - seen.free()) * self.pages.bytes;
        let dead: u64 = seen.runs().map(|run| run.dead.granules * GRANULE).sum();
        Ok(HeapUse {
            used,
            dead: dead.min(used),
            bytes: present * self.pages.bytes,
            evicted: 0,
        })
    }

    /// One word of each of these pages, of which that of the first is so many bytes behind the
    /// heap's start.
    async fn words_of(&self, at: u64, pages: &Range<u64>) -> Result<Vec<u64>> {
        let count = pages.end - pages.start;
        let mut words = Vec::with_capacity(count as usize);
        for first in (0..count).step_by(PIECE as usize) {
            let bytes = ((count - first).min(PIECE) * 8) as usize;
            let read = self.endpoint.read(self.at_byte(at + first * 8), bytes);
            words.extend_from_slice(read.await?.words());
        }
        Ok(words)
    }

    /// Pages that nobody had, so many, of those by which this client has raised the mark.
    fn take_ahead(&self, pages: u64) -> Option<u64> {
        let (first, end) = self.ahead.get();
        if end - first < pages {
            return None;
        }
        self.ahead.set((first + pages, end));
        Some(first)
    }

    /// Raises the mark by some pages, of which the reserve is left: nothing if there is no memory
    /// for both.
    async fn raise_mark(&self, request: RunRequest) -> Result<OpenAttempt> {
        let first = self.pages.below(self.mark.get());
        if self.pages.count - first < request.pages + request.reserve {
            return Ok(OpenAttempt::None);
        }
        let ahead = AHEAD.min(self.size() / 64).max(request.pages);
        let most = self.pages.count - (first + request.reserve);
        let fewest = self.pages.fewest_for(request.room);
        for pages in [ahead.min(most), request.pages, fewest] {
            let end = first + pages;
            if !self.provide(first..end + request.reserve, false).await? {
                continue;
            }
            if !self.swap_mark(self.pages.page_at(end)).await? {
                return Ok(OpenAttempt::LostRace);
            }
            if pages < request.pages {
                let words = vec![PageWord(0); pages as usize];
                return self.claim_run(first, &words, request).await;
            }
            self.ahead.set((first, end));
            return Ok(OpenAttempt::Freed);
        }
        Ok(OpenAttempt::None)
    }

    /// Raises the mark to this, if nobody has since this client saw it.
    async fn swap_mark(&self, to: u64) -> Result<bool> {
        let from = self.mark.get();
        let swap = self.endpoint.compare_swap(self.place.header, from, to);
        let seen = swap.await?;
        self.mark.set(if seen == from { to } else { seen });
        Ok(seen == from)
    }

    /// Claims free pages, which have these words, and opens the run that they form.
    async fn claim_run(
        &self,
        first: u64,
        words: &[PageWord],
        of: RunRequest,
    ) -> Result<OpenAttempt> {
        let (pages, began) = (words.len() as u64, self.endpoint.now());
        let Some(word) = self.claim_pages(first, words, Kind::Open).await? else {
            return Ok(OpenAttempt::LostRace);
        };
        // Whoever died when it gave their memory away has left them free.
        if !self.provide(first..first + pages, false).await? {
            self.give_up_pages(first, word, word.away()).await?;
            return Ok(OpenAttempt::None);
        }
        // Before anything dies there.
        let mut dead = self.endpoint.core().buffers.take(words.len() * 8)?;
        let none = DeadWord::new(word.generation(), Dead::default());
        dead.words_mut().fill(none.0);
        let at = self.at_byte(self.pages.dead_at(first));
        let stamping = self.stamp(first..first + pages, of.purpose);
        let (written, stamped) = both(self.endpoint.write(at, dead), stamping).await;
        written?;
        stamped?;
        let bytes = self.pages.bytes_of(first, pages);
        self.append_to(OpenRun {
            first,
            word,
            start: bytes.start,
            next: bytes.start,
            end: bytes.end,
            last: bytes.end,
            records: 0,
            records_before: 0,
            pending: 0,
            purpose: of.purpose,
            span: of.span,
            ends: EndRange::NONE,
            claimed_at: began,
        });
        Ok(OpenAttempt::Opened)
    }

    /// Claims free pages, which have these words: the word of the first, if nobody was faster.
    pub(super) async fn claim_pages(
        &self,
        first: u64,
        words: &[PageWord],
        kind: Kind,
    ) -> Result<Option<PageWord>> {
        let (pages, uses) = (words.len() as u64, PageWord::next_use(words));
        let word = PageWord::new(kind, pages, uses, self.new_claim(first).await?);
        // The first page before the others: if this client dies, others find a run that is claimed.
        if !self.swap_word(first, words[0], word).await? {
            return Ok(None);
        }
        let behind = word.behind(first);
        let mut claimed = vec![false; words.len() - 1];
        let following = (first + 1..).zip(&words[1..]);
        let swaps = following.map(|(page, free)| self.swap_word(page, *free, behind));
        let mut failed = Ok(());
        window(WIDTH, swaps, |at, swapped| match swapped {
            Ok(swapped) => claimed[at] = swapped,
            Err(error) => failed = Err(error),
        })
        .await;
        if failed.is_ok() && !claimed.contains(&false) {
            return Ok(Some(word));
        }
        let claimed = (first + 1..).zip(claimed).filter(|(_, claimed)| *claimed);
        let frees = claimed.map(|(page, _)| self.swap_word(page, behind, word.freed()));
        window(WIDTH, frees, |_, _| {}).await;
        failed?;
        self.swap_word(first, word, word.freed()).await?;
        Ok(None)
    }

    /// Counts that a run is opened, and notes when it was.
    async fn stamp(&self, pages: Range<u64>, purpose: Purpose) -> Result<()> {
        let opening = self.endpoint.fetch_add(self.openings_at(), 1).await?;
        if self.has_stamps() {
            let stamp = match self.evicts() {
                true => Stamp::new(opening, purpose == Purpose::Keep),
                // Not known before the run is closed.
                false => Stamp(0),
            };
            let bytes = (pages.end - pages.start) as usize * 8;
            let mut stamps = self.endpoint.core().buffers.take(bytes)?;
            stamps.words_mut().fill(stamp.0);
            let at = self.at_byte(self.pages.stamp_at(pages.start));
            self.endpoint.write(at, stamps).await?;
        }
        Ok(())
    }

    /// Whether this run was left with room for so many bytes.
    pub(super) fn has_left(&self, run: &SeenRun, room: u64) -> bool {
        let left = LeftClaim::unpack(run.word.claim());
        run.word.kind() == Kind::Left && left.used + room <= self.bytes_of_run(run)
    }

    pub(super) fn bytes_of_run(&self, run: &SeenRun) -> u64 {
        run.word.pages() * self.pages.bytes
    }

    /// Opens a run that another client has left.
    async fn open_left(&self, run: SeenRun, of: RunRequest) -> Result<OpenAttempt> {
        let began = self.endpoint.now();
        let left = LeftClaim::unpack(run.word.claim());
        let claim = self.new_claim(run.first).await?;
        let word = run.word.as_kind(Kind::Open, claim);
        if !self.swap_word(run.first, run.word, word).await? {
            return Ok(OpenAttempt::LostRace);
        }
        if self.has_stamps() {
            // What is put now is not as old as what is there, or ends later.
            self.stamp(run.first..run.first + word.pages(), of.purpose)
                .await?;
        }
        let bytes = self.pages.bytes_of(run.first, word.pages());
        self.append_to(OpenRun {
            first: run.first,
            word,
            start: bytes.start,
            next: bytes.start + left.used,
            end: bytes.end,
            last: bytes.end,
            records: left.records,
            records_before: left.records,
            pending: 0,
            purpose: of.purpose,
            span: of.span,
            ends: run.stamp.map_or(EndRange::NONE, EndRange::of),
            claimed_at: began,
        });
        Ok(OpenAttempt::Opened)
    }

    fn append_to(&self, run: OpenRun) {
        self.runs.borrow_mut().open(run);
        self.note_claims();
    }

    /// Seals the runs that this client does not append to any more and of whose records all are
    /// named or given back.
    pub(super) async fn close_idle(&self) {
        while let Some(run) = self.take_closing() {
            // If that fails, others find it some time.
            let _ = self.close(run).await;
        }
    }

    fn take_closing(&self) -> Option<OpenRun> {
        let closing = &mut self.runs.borrow_mut().closing;
        let at = closing.iter().position(|run| run.pending == 0)?;
        let run = closing.swap_remove(at);
        Some(run)
    }

    /// Gives up a run, of whose records all are named or given back: to whoever has records for the
    /// room that is left, if that is some.
    async fn close(&self, run: OpenRun) -> Result<()> {
        self.note_claims();
        let is_left = run.room() >= (run.end - run.start) / 8 || run.records == 0;
        let left = run.left().pack().filter(|_| is_left);
        let to = match left {
            _ if run.records == 0 && run.word.pages() == 1 => run.word.unused(),
            Some(claim) => run.word.as_kind(Kind::Left, claim),
            None => run.word.as_kind(Kind::Sealed, run.records),
        };
        // Later whoever has taken it over may have given it a stamp.
        let is_claimed = self.endpoint.now().saturating_sub(run.claimed_at) < 2 * CLAIM_LASTS;
        if self.stamps_ends() && run.records > 0 && is_claimed {
            let mut stamp = self.endpoint.core().buffers.take(8)?;
            stamp.words_mut()[0] = run.ends.stamp().0;
            let at = self.at_byte(self.pages.stamp_at(run.first));
            self.endpoint.write(at, stamp).await?;
        }
        // If another client has taken it over, it is no longer this one's to close.
        self.swap_word(run.first, run.word, to).await?;
        Ok(())
    }

    /// Gives up the runs that this client moves records into.
    pub(super) async fn close_moved(&self) {
        self.close_open(|run| run.purpose != Purpose::Write).await;
    }

    /// Gives up the open runs that `of` selects.
    pub(super) async fn close_open(&self, of: impl Fn(&OpenRun) -> bool) {
        let _guard = self.opening.take(self.endpoint.core()).await;
        {
            let runs = &mut *self.runs.borrow_mut();
            let given_up = runs.open.extract_if(.., |run| of(run));
            runs.closing.extend(given_up);
        }
        self.close_idle().await;
    }

    /// Gives back all that this client holds and does not use, and tells of what died. It may go
    /// on, or be dropped.
    ///
    /// # Errors
    /// What the fabric says; what was being given back comes back once others need it.
    pub async fn flush(&self) -> Result<()> {
        let holds_nothing = {
            let runs = self.runs.borrow();
            let has_run = !runs.open.is_empty() || !runs.closing.is_empty();
            let has_to_tell = !self.uncounted.borrow().is_empty() || self.has_any_hint();
            !has_run && !has_to_tell
        };
        if holds_nothing {
            return Ok(());
        }
        self.endpoint.operation(UPKEEP, self.give_back()).await
    }

    async fn give_back(&self) -> Result<()> {
        let _guard = self.opening.take(self.endpoint.core()).await;
        {
            let runs = &mut *self.runs.borrow_mut();
            runs.closing.append(&mut runs.open);
        }
        self.report_hints().await;
        self.tell_dead(true).await;
        self.close_idle().await;
        self.note_claims();
        Ok(())
    }

    /// Frees a run of whose records none lives and to which nobody appends, if it is still as it
    /// was seen; false if not.
    pub(super) async fn free_run(&self, run: SeenRun) -> Result<bool> {
        let mut word = run.word;
        if word.pages() > 1 {
            // Another may append to a run that was left, or have taken over one that was cleaned.
            let claim = self.new_claim(run.first).await?;
            let mine = word.as_kind(Kind::Cleaned, claim);
            if !self.swap_word(run.first, word, mine).await? {
                return Ok(false);
            }
            word = mine;
        }
        self.give_up_pages(run.first, word, word.freed()).await
    }

    /// Gives the pages of a run with this word, which nobody else claims, another; false if
    /// somebody does.
    pub(super) async fn give_up_pages(
        &self,
        first: u64,
        word: PageWord,
        to: PageWord,
    ) -> Result<bool> {
        // The first page last: who finds a run that was given up in part gives up the rest.
        let behind = first + 1..first + word.pages();
        let swaps = behind.map(|page| (page, word.behind(first), to));
        self.swap_words(swaps).await?;
        self.swap_word(first, word, to).await
    }

    /// Swaps the words of pages, each from one to another, side by side; false if others were
    /// faster at any.
    pub(super) async fn swap_words(
        &self,
        swaps: impl Iterator<Item = (u64, PageWord, PageWord)>,
    ) -> Result<bool> {
        let swaps = swaps.map(|(page, from, to)| self.swap_word(page, from, to));
        let mut outcome = Ok(true);
        window(WIDTH, swaps, |_, swapped| {
            if outcome.is_ok() && !matches!(swapped, Ok(true)) {
                outcome = swapped;
            }
        })
        .await;
        outcome
    }
}

/// What a run is opened for.
#[derive(Clone, Copy)]
pub(super) struct RunRequest {
    /// Bytes of the record's block.
    pub(super) room: u64,
    pub(super) pages: u64,
    /// Free pages that are to be left.
    pub(super) reserve: u64,
    pub(super) purpose: Purpose,
    /// How long the record lives, about, and whether it may lie with others than those that live
    /// for as long.
    pub(super) span: u16,
    pub(super) may_mix: bool,
}

pub(super) enum OpenAttempt {
    Opened,
    /// There is more to be had now.
    Freed,
    /// Another client was faster, or the pages have changed: it may be tried again.
    LostRace,
    None,
}
