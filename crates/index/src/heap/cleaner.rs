//! Freeing runs: those of whose records none lives, and those out of which what lives is moved.
//!
//! A client that finds no free pages for a record makes room: it frees runs of whose records all
//! are counted as dead, and else moves the few that live out of runs that are mostly dead. A move
//! writes a record into another block and swaps its slot's word, if that still names the block: by
//! the scheme's own writes ([`Relocate`]), so that it disturbs nobody. A run is cleaned by one
//! client at a time; nobody else appends to it.
//!
//! **Why no record is lost.** A run is cleaned only when nobody appends to it: its client has
//! closed it, when slots named all of its records that any slot would ever name; or that client has
//! not claimed it for [`TAKEN_AFTER`]. So no slot comes to name a record in it any more. Records
//! are found by their bytes: one that a slot names is whole. When a move has answered for each, no
//! slot names any, and the run is free. If a move fails, the run stays as it is.
//!
//! **What it relies on.** No client decides that another one is dead: a client whose last claim is
//! too old by its own clock may no longer use the run. How old a claim is, the heap's ticks say: a
//! word that clients which look for room raise by one when they have seen it stand for a second. So
//! clients count together, and none has to live as long as a claim may stand; one that does knows
//! it by itself. The clocks need not agree; they must run at about the same rate. A verb that takes
//! effect more than 20 s after its client looked at its clock could do harm: one of a process that
//! was stopped just then (by a signal, a debugger, a suspended machine), or one that waited in
//! front of a node that was stopped. For the latter who takes a run over lets the node run for
//! [`RUN_ON`] before it reads the records. Such a late WRITE may overwrite the record of another
//! key. The checksum and the generation reveal it, so lookups of that key fail with an error and
//! return nothing wrong; but the record is lost. So a process must not be continued after a stop of
//! 20 s or more if it was writing to a table whose heap is full.

use super::client::{CLAIM_LASTS, Heap};
use super::ends::{EndClock, EndRange};
use super::layout::{BlockRef, GRANULE, Record, RecordView, class_for};
use super::pages::{Kind, LeftClaim, PageWord, ticks_since};
use super::relocation::{Relocate, Relocation};
use super::runs::carved_bytes;
use super::scan::records_in;
use super::seen::{FREE_OR_AWAY, PageWindow, SeenRun};
use super::standing::{Interrupted, RecordFate};
use crate::client::{check_turn, pause};
use crate::{IndexError, Result, UPKEEP};
use farslot_fabric::{Buffer, Endpoint, EndpointExt, Nanos};
use std::cell::RefCell;

/// How long a claim has to stand before another client takes the run over: its client may use it
/// for [`CLAIM_LASTS`], and its verbs take effect within the rest.
pub(super) const TAKEN_AFTER: Nanos = 3 * CLAIM_LASTS;
/// Between two ticks of a heap, at least.
const TICK: Nanos = 1_000_000_000;
/// Runs that are taken over at a time.
const MOST_TAKEN: usize = 64;
/// How long the node has to run before a run is read that was taken over: verbs that waited in
/// front of one that was stopped have taken effect then.
const RUN_ON: Nanos = 1_000_000_000;
/// Bytes of runs cleaned at a time, of which nobody knows that anything is dead; and how long one
/// operation does so: the next one that finds no room goes on.
const MOST_EXPLORED: u64 = 4 << 20;
const EXPLORES_FOR: Nanos = 500_000_000;
/// How often a pause is doubled in which other clients free what they are cleaning.
const WAIT_FOR_OTHERS: u32 = 10;
/// How long a client waits for memory that somebody is about to give back, longer than that takes;
/// and how long it does not look, meanwhile.
const WAITS_FOR_MEMORY: Nanos = 4_000_000_000;
const LOOKS_FOR_MEMORY_AFTER: Nanos = 16_000_000;
/// How long a client that has found nothing in those does not look again, at first, and how often
/// that is doubled.
const EXPLORE_AFTER: Nanos = 100_000_000;
const MOST_DOUBLED: u32 = 4;
/// Bytes of a run whose records are moved at a time, and by an operation of a call.
const PIECE: u64 = 256 << 10;
const CALLS_PIECE: u64 = 4 << 10;

impl<E: Endpoint> Heap<E> {
    /// Makes room for a record of so many bytes, which this heap has refused; true if it may be
    /// there now.
    ///
    /// # Errors
    /// [`IndexError::TurnOver`] for an operation of a call, whose turn is over before there is
    /// room: the next one goes on. Or what the fabric says.
    pub(crate) async fn clean(&self, table: &impl Relocate, refused: usize) -> Result<bool> {
        if class_for(refused).is_none() {
            return Ok(false);
        }
        let room = carved_bytes(refused);
        if !self.pages.hold(room, self.reserve()) {
            return Ok(false);
        }
        let cleaned = self.cleaning.cleaned.get();
        let _guard = self.cleaning.lock.take(self.endpoint.core()).await;
        let cleaning = async {
            // Another coroutine has made room meanwhile.
            if self.cleaning.cleaned.get() != cleaned && self.has_room_for(room).await? {
                return Ok(true);
            }
            self.cleaning.lost.set(false);
            let made = self.clean_for(table, room).await;
            let is_cut = matches!(made, Err(IndexError::TurnOver { .. }));
            self.cleaning.is_cut.set(is_cut);
            if !is_cut {
                self.close_moved().await;
            }
            match made {
                Ok(false) => self.wait_for_others(room).await,
                made => made,
            }
        };
        let made = self.endpoint.operation(UPKEEP, cleaning).await;
        self.cleaning.cleaned.set(self.cleaning.cleaned.get() + 1);
        made
    }

    async fn clean_for(&self, table: &impl Relocate, room: u64) -> Result<bool> {
        let interrupted = self.cleaning.interrupted.take();
        if let Some(interrupted) = interrupted {
            self.go_on(interrupted, table).await?;
        }
        let pages = self.pages.fewest_for(room);
        while let Some(plan) = self.take_planned() {
            let least = pages + self.reserve();
            self.follow(plan, least, table).await?;
            if self.has_room_for(room).await? {
                return Ok(true);
            }
            // Others may have cleaned what was planned.
            self.cleaning.lost.set(false);
        }
        if self.endpoint.core().may_wait() {
            self.tell_dead(true).await;
        }
        let mut seen = self.look_at_all().await?;
        self.take_over(&seen, table).await?;
        while self.clean_dead(&seen, pages, table).await? {
            seen = self.look_at_all().await?;
            if self.has_room_in(&seen, room) {
                return Ok(true);
            }
        }
        if self.gain(pages).await? {
            return Ok(true);
        }
        if self.evicts() {
            return self.evict(table, room, seen).await;
        }
        // What died in its own runs frees them as well.
        self.close_open(|run| run.room() < room).await;
        if pages > 1 {
            let row = |kinds| self.clean_in_a_row(pages, kinds, table, RecordFate::Moved);
            if row(&[Kind::Free]).await? && self.has_room_for(room).await? {
                return Ok(true);
            }
            if self.segment > 0 && row(FREE_OR_AWAY).await? && self.gain(pages).await? {
                return Ok(true);
            }
        }
        let until = self.endpoint.now() + EXPLORES_FOR;
        while self.explore(until, table).await? {
            if self.has_room_for(room).await? {
                return Ok(true);
            }
        }
        // Others may have told of what died meanwhile, and have been faster to take what was freed.
        let seen = self.look_at_all().await?;
        Ok(self.has_room_in(&seen, room) || self.clean_dead(&seen, pages, table).await?)
    }

    /// Waits for pages that other clients are freeing or giving back; false if nothing comes of it.
    async fn wait_for_others(&self, room: u64) -> Result<bool> {
        let until = self.endpoint.now() + WAITS_FOR_MEMORY;
        let mut has_waited = false;
        loop {
            let seen = self.look_at_all().await?;
            if self.has_room_in(&seen, room) {
                return Ok(true);
            }
            let are_any = |kind| seen.runs().any(|run| run.word.kind() == kind);
            if !are_any(Kind::Withdrawn) {
                let is_cleaned = self.cleaning.lost.take() || are_any(Kind::Cleaned);
                if is_cleaned {
                    pause(&*self.endpoint, WAIT_FOR_OTHERS).await?;
                }
                return Ok(is_cleaned || has_waited);
            }
            if self.endpoint.now() >= until {
                return Ok(false);
            }
            pause(&*self.endpoint, WAIT_FOR_OTHERS).await?;
            self.endpoint.sleep(LOOKS_FOR_MEMORY_AFTER).await;
            has_waited = true;
        }
    }

    /// Whether a record of so many bytes finds room now.
    pub(super) async fn has_room_for(&self, room: u64) -> Result<bool> {
        let seen = self.look_at_all().await?;
        Ok(self.has_room_in(&seen, room))
    }

    pub(super) fn has_room_in(&self, seen: &PageWindow, room: u64) -> bool {
        let pages = self.pages.fewest_for(room);
        let is_left = |run: &SeenRun| !run.is_dead() && !run.is_kept() && self.has_left(run, room);
        let spare = seen.free().checked_sub(self.reserve_among(seen));
        spare.is_some_and(|spare| {
            let is_free = spare >= pages && seen.free_run(pages, 0, &(0..0)).is_some();
            is_free || seen.runs().any(|run| is_left(&run))
        })
    }

    /// Whether a record has ended, of a table whose records may.
    fn has_ended(&self, record: &RecordView<'_>) -> bool {
        let ends = self.ends.as_ref();
        ends.is_some_and(|ends| ends.has_ended(record))
    }

    /// The moment by which records end, where they do.
    pub(super) fn now_of_ends(&self) -> u64 {
        self.ends.as_ref().map_or(0, EndClock::now)
    }

    /// About which part of a run is known to be dead, or has ended by now, of 1,024.
    pub(super) fn dead_part(&self, run: &SeenRun, now: u64) -> u64 {
        let dead = ((run.dead.granules * GRANULE) << 10) / self.bytes_of_run(run);
        match run.stamp.filter(|_| self.stamps_ends()) {
            Some(stamp) => dead.max((EndRange::of(stamp).ended(now) * self.used_part(run)) >> 10),
            None => dead,
        }
    }

    /// About which part of a run lives, of 1,024.
    pub(super) fn living_part(&self, run: &SeenRun, now: u64) -> u64 {
        self.used_part(run).saturating_sub(self.dead_part(run, now))
    }

    /// Which part of a run has records, of 1,024: behind one that was left with little in it
    /// another is better.
    fn used_part(&self, run: &SeenRun) -> u64 {
        match run.word.kind() {
            Kind::Left => (LeftClaim::unpack(run.word.claim()).used << 10) / self.bytes_of_run(run),
            _ => 1024,
        }
    }

    /// Cleans the row of so many pages with the fewest living bytes, among rows whose pages can be
    /// freed or are of these kinds; false if there is no such row.
    pub(super) async fn clean_in_a_row(
        &self,
        pages: u64,
        kinds: &[Kind],
        table: &impl Relocate,
        fate: RecordFate,
    ) -> Result<bool> {
        let seen = self.look_at_all().await?;
        let now = self.now_of_ends();
        // What lives in each page, with nothing for those that cannot be freed.
        let mut living = vec![Some(0); seen.words.len()];
        for (page, word) in living.iter_mut().zip(&seen.words) {
            if !kinds.contains(&word.kind()) {
                *page = None;
            }
        }
        let runs: Vec<_> = seen.runs().collect();
        for run in runs.iter().filter(|run| run.word.is_cleanable()) {
            let of_run = (self.living_part(run, now) * self.pages.bytes) >> 10;
            let first = run.first as usize;
            for page in &mut living[first..first + run.word.pages() as usize] {
                *page = Some(of_run);
            }
        }
        let total = |row: &[Option<u64>]| row.iter().copied().sum::<Option<u64>>();
        let rows = living.windows(pages as usize).enumerate();
        let best = rows
            .filter_map(|(at, row)| Some((total(row)?, at as u64)))
            .min();
        let Some((bytes, first)) = best else {
            return Ok(false);
        };
        let row = first..first + pages;
        let of_row = &seen.words[first as usize..row.end as usize];
        let is_free = |word: &&PageWord| word.kind() == Kind::Free;
        let elsewhere = seen.free() - of_row.iter().filter(is_free).count() as u64;
        if fate != RecordFate::Forgotten && bytes > elsewhere * self.pages.bytes {
            return Ok(false);
        }
        let _row = self.cleaning.keep_free(row.clone());
        for run in runs.iter().filter(|run| run.word.is_cleanable()) {
            if run.overlaps(&row) && !self.clean_run(*run, table, fate).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Cleans some runs of which nobody knows that anything in them is dead: what a client that was
    /// killed had not told of is found so. True if anything was.
    async fn explore(&self, until: Nanos, table: &impl Relocate) -> Result<bool> {
        let cleaning = &self.cleaning;
        if !(cleaning.explores_at.get()..until).contains(&self.endpoint.now()) {
            return Ok(false);
        }
        let seen = self.look_at_all().await?;
        let from = cleaning.explored.get();
        let runs: Vec<_> = seen.runs().filter(|run| run.word.is_cleanable()).collect();
        let mut bytes = 0;
        for run in runs.iter().filter(|run| run.first >= from) {
            if bytes >= MOST_EXPLORED || self.endpoint.now() >= until {
                break;
            }
            check_turn(&*self.endpoint)?;
            cleaning.explored.set(run.first + 1);
            self.clean_run(*run, table, RecordFate::Moved).await?;
            bytes += self.bytes_of_run(run);
        }
        let now = self.look_at_all().await?;
        let has_gained = now.free() > seen.free();
        if has_gained {
            cleaning.in_vain.set(0);
        } else if runs.iter().all(|run| run.first < cleaning.explored.get()) {
            // All were looked at in vain.
            let wait = EXPLORE_AFTER << cleaning.in_vain.get().min(MOST_DOUBLED);
            cleaning.in_vain.set(cleaning.in_vain.get() + 1);
            cleaning.explored.set(0);
            cleaning.explores_at.set(self.endpoint.now() + wait);
        }
        Ok(has_gained)
    }

    /// The heap's ticks, one more if they have stood for long enough.
    async fn tick(&self) -> Result<u64> {
        let (seen, now) = (self.ticks().await?, self.endpoint.now());
        let known = self.cleaning.tick.get().filter(|(ticks, _)| *ticks == seen);
        let since = known.map_or(now, |(_, since)| since);
        self.cleaning.tick.set(Some((seen, since)));
        if now.saturating_sub(since) < TICK {
            return Ok(seen);
        }
        let more = seen.wrapping_add(1);
        let swap = self.endpoint.compare_swap(self.ticks_at(), seen, more);
        Ok(if swap.await? == seen { more } else { seen })
    }

    /// Takes runs over that other clients have open or clean, and have not claimed for so long that
    /// they are gone; and cleans them.
    async fn take_over(&self, seen: &PageWindow, table: &impl Relocate) -> Result<()> {
        let may_wait = self.endpoint.core().may_wait();
        let due = self.to_take_over(seen, self.tick().await?);
        let most = if may_wait { MOST_TAKEN } else { 1 };
        let mut taken = Vec::new();
        for run in due.into_iter().take(most) {
            let claim = self.new_claim(run.first).await?;
            let mine = run.word.as_kind(Kind::Cleaned, claim);
            if self.swap_word(run.first, run.word, mine).await? {
                taken.push((run, mine));
            }
        }
        if may_wait && !taken.is_empty() {
            self.endpoint.sleep(RUN_ON).await;
        }
        for (run, mine) in taken {
            // Nobody knows how many records it had.
            let sealed = run.word.as_kind(Kind::Sealed, u64::MAX);
            let moved = self.begin_to_move_out(run, (mine, sealed), table, RecordFate::Moved);
            moved.await?;
        }
        Ok(())
    }

    /// Runs that other clients have open or clean, and have not claimed for so long that they may
    /// be taken over.
    fn to_take_over(&self, seen: &PageWindow, ticks: u64) -> Vec<SeenRun> {
        let now = self.endpoint.now();
        // Clients with slower verbs than this one's have to allow for that themselves.
        let verb = self.endpoint.core().limits.verb_timeout;
        let wait = TAKEN_AFTER.max(CLAIM_LASTS + 2 * verb);
        let before = self.cleaning.standing.take();
        let standing = &mut *self.cleaning.standing.borrow_mut();
        let mut due = Vec::new();
        for run in seen.runs().filter(|run| self.is_of_another(run)) {
            let known = before.get(&run.first).filter(|(word, _)| *word == run.word);
            let since = known.map_or(now, |(_, since)| *since);
            standing.insert(run.first, (run.word, since));
            // Who cannot wait does not know whether the node was stopped in between; of ticks there
            // is one at most while it is.
            let has_stood = now.saturating_sub(since) >= wait && self.endpoint.core().may_wait();
            if has_stood || ticks_since(run.word.claim(), ticks) > wait.div_ceil(TICK) {
                due.push(run);
            }
        }
        due
    }

    /// Whether another client has this run open, or cleans it.
    fn is_of_another(&self, run: &SeenRun) -> bool {
        let runs = self.runs.borrow();
        let mut claimed = runs.open.iter().chain(&runs.closing);
        let is_claimed = matches!(
            run.word.kind(),
            Kind::Open | Kind::Cleaned | Kind::Withdrawn
        );
        is_claimed && !claimed.any(|claimed| claimed.first == run.first && claimed.word == run.word)
    }

    /// Has the runs cleaned some time that other clients have open: of a table that this client
    /// alone writes from now on. False if it cannot tell them from its own just now.
    ///
    /// # Errors
    /// What the fabric says.
    pub(crate) async fn inherit(&self) -> Result<bool> {
        // What another coroutine opens or cleans just now is this client's.
        let cleaning = self.cleaning.lock.take(self.endpoint.core()).await;
        let opening = self.opening.take(self.endpoint.core()).await;
        if !cleaning.is_alone() || !opening.is_alone() {
            return Ok(false);
        }
        let seen = self.look_at_all().await?;
        for run in seen.runs().filter(|run| self.is_of_another(run)) {
            let sealed = run.word.as_kind(Kind::Sealed, u64::MAX);
            self.swap_word(run.first, run.word, sealed).await?;
        }
        Ok(true)
    }

    /// Moves out of a run what lives in it, and frees it; false if that could not be, or another
    /// client was faster.
    pub(super) async fn clean_run(
        &self,
        run: SeenRun,
        table: &impl Relocate,
        fate: RecordFate,
    ) -> Result<bool> {
        let claim = self.new_claim(run.first).await?;
        let mine = run.word.as_kind(Kind::Cleaned, claim);
        if !self.swap_word(run.first, run.word, mine).await? {
            self.cleaning.lost.set(true);
            return Ok(false);
        }
        let sealed = match run.word.kind() {
            Kind::Left => {
                let left = LeftClaim::unpack(run.word.claim());
                run.word.as_kind(Kind::Sealed, left.records)
            }
            _ => run.word,
        };
        self.begin_to_move_out(run, (mine, sealed), table, fate)
            .await
    }

    async fn begin_to_move_out(
        &self,
        run: SeenRun,
        (mine, sealed): (PageWord, PageWord),
        table: &impl Relocate,
        fate: RecordFate,
    ) -> Result<bool> {
        let begun = Interrupted {
            run: SeenRun { word: mine, ..run },
            sealed,
            fate,
            done: 0,
        };
        self.move_out(begun, table).await
    }

    /// Goes on to clean a run, if no other client has done so.
    pub(super) async fn go_on(&self, mut of: Interrupted, table: &impl Relocate) -> Result<()> {
        let claim = self.new_claim(of.run.first).await?;
        let again = of.run.word.as_kind(Kind::Cleaned, claim);
        if self.swap_word(of.run.first, of.run.word, again).await? {
            of.run.word = again;
            self.move_out(of, table).await?;
        }
        Ok(())
    }

    /// Moves out of a run that this client has claimed what still lives in it, and frees it.
    async fn move_out(&self, mut of: Interrupted, table: &impl Relocate) -> Result<bool> {
        self.set_fate(of.fate, of.run.is_kept());
        let moved = self.move_records(&mut of, table).await;
        self.set_fate(RecordFate::Moved, false);
        match moved {
            Ok(()) => self.free_run(of.run).await,
            Err(error) => {
                // As it was: what has moved is counted as dead there.
                self.swap_word(of.run.first, of.run.word, of.sealed).await?;
                if !matches!(error, IndexError::TurnOver { .. }) {
                    return Ok(false);
                }
                of.run.word = of.sealed;
                self.cleaning.interrupted.replace(Some(of));
                Err(error)
            }
        }
    }

    async fn move_records(&self, of: &mut Interrupted, table: &impl Relocate) -> Result<()> {
        let Interrupted { run, fate, .. } = *of;
        let bytes = self.pages.bytes_of(run.first, run.word.pages());
        let len = bytes.end - bytes.start;
        let may_wait = self.endpoint.core().may_wait();
        let longest = carved_bytes(self.longest).min(len);
        let buffer = self.endpoint.core().limits.largest_buffer as u64;
        // A call's turn is short.
        let piece = if may_wait { PIECE } else { CALLS_PIECE };
        let piece = piece.min(buffer.saturating_sub(longest)).max(GRANULE) / GRANULE * GRANULE;
        while of.done < len {
            // As much behind the piece as the last record that begins in it may have.
            let end = len.min(of.done + piece + longest);
            let from = bytes.start + of.done;
            let read = self.read_run(from..bytes.start + end).await?;
            let begins_in = piece.min(len - of.done);
            let place = (from, run.word.generation());
            let ended = RefCell::new(Vec::new());
            let stays = |record: &RecordView<'_>| {
                let has_ended = self.has_ended(record);
                ended.borrow_mut().push(has_ended);
                !has_ended && self.stays(record, fate)
            };
            let records = records_in(&read, place, begins_in, stays)?;
            let ended = ended.take();
            let (mut failed, mut evicted) = (Ok(()), 0);
            let mut relocated = |number: usize, was: Result<bool>| match was {
                Ok(true) if records[number].value.is_none() && !ended[number] => evicted += 1,
                // What the table has not admitted no slot names.
                Ok(_) | Err(IndexError::KeyLength { .. } | IndexError::ValueLength { .. }) => {}
                Err(error) => failed = Err(error),
            };
            table.relocate(&records, &mut relocated).await;
            self.count_evicted(evicted).await;
            failed?;
            of.done += begins_in;
            if of.done < len && !self.endpoint.core().may_work(|| self.endpoint.now()) {
                return Err(IndexError::TurnOver { in_doubt: false });
            }
        }
        Ok(())
    }

    /// How often pages were used again.
    pub(crate) async fn pages_reused(&self) -> Result<u64> {
        let seen = self.look_at_all().await?;
        let reused = |word: &PageWord| word.uses().saturating_sub(1);
        Ok(seen.words.iter().map(reused).sum())
    }

    /// The records that are whole in pages that are in use, with their blocks.
    pub(crate) async fn records(&self) -> Result<Vec<(BlockRef, Record)>> {
        let seen = self.look_at_all().await?;
        let mut records = Vec::new();
        for run in seen.runs() {
            let bytes = self.pages.bytes_of(run.first, run.word.pages());
            let piece = self.read_run(bytes.clone()).await?;
            let place = (bytes.start, run.word.generation());
            let found = records_in(&piece, place, piece.len() as u64, |_| true)?;
            for Relocation { block, .. } in found {
                records.extend(self.read(block).await?.map(|record| (block, record)));
            }
        }
        Ok(records)
    }

    async fn read_run(&self, bytes: std::ops::Range<u64>) -> Result<Buffer> {
        let len = (bytes.end - bytes.start) as usize;
        Ok(self.endpoint.read(self.at_byte(bytes.start), len).await?)
    }
}
