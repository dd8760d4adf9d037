//! Which runs are cleaned, and in which order: those of whose records none lives, then those of
//! which most is known to be dead.

use super::client::Heap;
use super::relocation::Relocate;
use super::seen::PageWindow;
use super::standing::{CleaningPlan, RecordFate};
use crate::client::check_turn;
use crate::{IndexError, Result, UPKEEP};
use farslot_fabric::{Endpoint, EndpointExt, Nanos};

/// A run is cleaned for what is known to be dead in it if that is at least so many 64ths: of a heap
/// that evicts, in which the other runs go anyhow, most of it.
const LEAST_DEAD: u64 = 4;
const LEAST_DEAD_OF_CACHE: u64 = 48;
/// The part of the pages that a cleaning frees, so that the next is not needed soon.
const GOAL: u64 = 256;
/// For how long a call's operations clean what was chosen once.
const PLANNED_FOR: Nanos = 100_000_000;
/// The part of the pages that an owner frees before they are needed.
const AHEAD: u64 = 32;
/// The most bytes of runs that one operation cleans.
const MOST_CLEANED_BYTES: u64 = 1 << 20;

impl<E: Endpoint> Heap<E> {
    /// Frees pages before they are needed, until a [part](AHEAD) of them is free: in a call as far
    /// as its turn is for that. A heap that evicts frees them when it needs some.
    ///
    /// # Errors
    /// What the fabric says.
    pub(crate) async fn clean_ahead(&self, table: &impl Relocate) -> Result<()> {
        if self.evicts() {
            return Ok(());
        }
        let _guard = self.cleaning.lock.take(self.endpoint.core()).await;
        let cleaning = async {
            if let Some(interrupted) = self.cleaning.interrupted.take() {
                self.go_on(interrupted, table).await?;
            }
            let pages = self.size() / AHEAD;
            if let Some(plan) = self.take_planned() {
                return self.follow(plan, pages + self.reserve(), table).await;
            }
            let seen = self.look_at_all().await?;
            self.clean_dead(&seen, pages, table).await
        };
        let cleaned = self.endpoint.operation(UPKEEP, cleaning).await;
        self.close_moved().await;
        // A look for room is not in vain any more.
        self.cleaning.is_cut.set(false);
        match cleaned {
            Ok(_) | Err(IndexError::TurnOver { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What a call's turn has left to clean, if it was chosen lately.
    pub(super) fn take_planned(&self) -> Option<CleaningPlan> {
        let age = |plan: &CleaningPlan| self.endpoint.now().saturating_sub(plan.since);
        let planned = self.cleaning.planned.take();
        planned.filter(|plan| age(plan) < PLANNED_FOR)
    }

    /// Frees runs until more than so many pages are free: those of whose records none lives, then
    /// those of which a good part is known to be dead. Returns whether any was freed.
    pub(super) async fn clean_dead(
        &self,
        seen: &PageWindow,
        pages: u64,
        table: &impl Relocate,
    ) -> Result<bool> {
        let least = pages + self.reserve_among(seen);
        let least_dead = if self.evicts() {
            LEAST_DEAD_OF_CACHE
        } else {
            LEAST_DEAD
        };
        let mut runs: Vec<_> = seen.runs().filter(|run| run.word.is_cleanable()).collect();
        let now = self.now_of_ends();
        runs.retain(|run| run.is_dead() || self.dead_part(run, now) * 64 >= least_dead << 10);
        runs.sort_by_cached_key(|run| self.living_part(run, now));
        runs.reverse();
        let plan = CleaningPlan {
            runs,
            free: seen.free() * self.pages.bytes,
            since: self.endpoint.now(),
        };
        self.follow(plan, least, table).await
    }

    /// Frees runs as they are planned, until there are some more free pages than the least that are
    /// needed, or these, where that takes much and in calls. Returns whether any was freed. What a
    /// call has left stays planned.
    pub(super) async fn follow(
        &self,
        mut plan: CleaningPlan,
        least: u64,
        table: &impl Relocate,
    ) -> Result<bool> {
        let may_wait = self.endpoint.core().may_wait();
        let goal = least + self.size() / GOAL;
        let now = self.now_of_ends();
        let (mut cleaned, mut any) = (0, false);
        let followed = loop {
            let is_enough = plan.free >= least * self.pages.bytes;
            let has_done_much = cleaned >= MOST_CLEANED_BYTES || !may_wait;
            if plan.free >= goal * self.pages.bytes || is_enough && has_done_much {
                break Ok(any);
            }
            if let Err(over) = check_turn(&*self.endpoint) {
                break Err(over);
            }
            let Some(run) = plan.runs.pop() else {
                break Ok(any);
            };
            let is_dead = run.is_dead();
            let of_run = self.bytes_of_run(&run);
            // What lives in it takes as much elsewhere.
            let lives = ((self.living_part(&run, now) * of_run) >> 10).min(of_run);
            if !is_dead && lives > plan.free {
                continue;
            }
            let freed = match is_dead {
                true => self.free_run(run).await,
                false => self.clean_run(run, table, RecordFate::Moved).await,
            };
            // Of one whose cleaning a turn has cut the next operation frees the rest.
            if matches!(freed, Ok(true) | Err(IndexError::TurnOver { .. })) {
                plan.free += of_run - lives;
            }
            match freed {
                Ok(is_freed) => any |= is_freed,
                Err(_) => break freed,
            }
            cleaned += if is_dead { 0 } else { of_run };
        };
        let is_over = matches!(followed, Ok(_) | Err(IndexError::TurnOver { .. }));
        if !may_wait && is_over && !plan.runs.is_empty() {
            if followed.is_ok() {
                // What is enough now is taken when the plan is followed again.
                plan.free = plan.free.min(least.saturating_sub(1) * self.pages.bytes);
            }
            self.cleaning.planned.replace(Some(plan));
        }
        followed
    }
}
