//! The memory of a heap that is made of segments: had when pages are opened, and given back when
//! nobody has them.
//!
//! Who gives a segment back claims its pages first, as a run, so that no other client opens them;
//! then has the table forget the segment; and when no client can know it any more, says of the
//! pages that they are away. If it dies before that, others take the run over as any that was being
//! cleaned, and whoever opens it finds that it has no memory.

use super::client::{CLAIM_LASTS, Heap};
use super::opening::{OpenAttempt, RunRequest};
use super::pages::{HeapPages, Kind, PageWord, reserve_of};
use super::seen::{FREE_OR_AWAY, PageWindow, SeenRun};
use crate::Result;
use farslot_fabric::{Endpoint, Nanos, Piece};
use std::ops::Range;

/// How long a withdrawal goes on with claiming.
const LONGEST: Nanos = 500_000_000;

/// The pages of a segment that this client has claimed to give the segment back.
#[derive(Debug)]
pub struct Withdrawal {
    /// The segment's bytes, by the addresses of the table.
    pub segment: Piece,
    /// When this client began to claim them.
    claimed_at: Nanos,
    first: u64,
    word: PageWord,
}

impl Withdrawal {
    /// Whether the claim stands at this time, so that nobody uses the pages.
    #[must_use]
    pub const fn stands(&self, now: Nanos) -> bool {
        now.saturating_sub(self.claimed_at) < CLAIM_LASTS
    }
}

impl<E: Endpoint> Heap<E> {
    /// Gets memory for so many more pages, also such as other tables do not need; false if there is
    /// none, or the heap is not made of segments.
    pub(super) async fn gain(&self, pages: u64) -> Result<bool> {
        if self.segment == 0 || !self.endpoint.core().may_wait() {
            return Ok(false);
        }
        let all = self.look_at_all().await?;
        if let Some((row, _)) = all.row_with_away(pages)
            && self.provide(row..row + pages, true).await?
        {
            return Ok(true);
        }
        let first = self.size();
        let end = first + pages + self.reserve();
        Ok(end <= self.pages.count && self.provide(first..end, true).await?)
    }

    /// Whether the reserve of those that move records has memory: so many pages from this one on,
    /// beyond the mark.
    pub(super) async fn has_reserve(&self, first: u64, pages: u64) -> Result<bool> {
        if self.segment == 0 || pages == 0 || self.reserved_from.get() == first {
            return Ok(true);
        }
        let is_there = self.provide(first..first + pages, false).await?;
        if is_there {
            self.reserved_from.set(first);
        }
        Ok(is_there)
    }

    /// Gives memory again to a row of pages of which some are away; [`OpenAttempt::None`] if there
    /// is no such row, or no memory.
    pub(super) async fn bring_back(
        &self,
        all: &PageWindow,
        request: RunRequest,
    ) -> Result<OpenAttempt> {
        let Some((first, words)) = all.row_with_away(request.pages) else {
            return Ok(OpenAttempt::None);
        };
        if !self.provide(first..first + request.pages, false).await? {
            return Ok(OpenAttempt::None);
        }
        let pages = (first..).zip(words);
        let away = pages.filter(|(_, word)| word.kind() == Kind::Away);
        let swaps = away.map(|(page, word)| (page, *word, word.freed()));
        Ok(match self.swap_words(swaps).await? {
            true => OpenAttempt::Freed,
            false => OpenAttempt::LostRace,
        })
    }

    /// Sees to it that these pages and their words have memory; false if there is none.
    pub(super) async fn provide(&self, pages: Range<u64>, reclaims: bool) -> Result<bool> {
        if self.segment == 0 {
            return Ok(true);
        }
        let words = [HeapPages::word_at, HeapPages::dead_at, HeapPages::stamp_at];
        let words = &words[..if self.has_stamps() { 3 } else { 2 }];
        for word_at in words {
            let from = word_at(self.pages, pages.start);
            let end = word_at(self.pages, pages.end);
            if !self.provide_bytes(from..end, reclaims).await? {
                return Ok(false);
            }
        }
        let bytes = self.pages.page_at(pages.start)..self.pages.page_at(pages.end);
        self.provide_bytes(bytes, reclaims).await
    }

    async fn provide_bytes(&self, bytes: Range<u64>, reclaims: bool) -> Result<bool> {
        let from = self.at_byte(bytes.start);
        let len = (bytes.end - bytes.start) as usize;
        Ok(self.endpoint.provide(Piece { from, len }, reclaims).await?)
    }

    /// Claims whole segments of which no page is in use, or has a record that lives: at most so
    /// many, and at most one `part`th of the pages that are free.
    ///
    /// # Errors
    /// What the fabric says. What was claimed is taken over by others some time.
    pub async fn withdraw(&self, most: u64, part: u64) -> Result<Vec<Withdrawal>> {
        let mut withdrawn = Vec::new();
        if self.segment == 0 {
            return Ok(withdrawn);
        }
        let mut seen = self.look_at_all().await?;
        let mut is_any_dead = false;
        for run in seen.runs().filter(SeenRun::is_dead) {
            is_any_dead |= self.free_run(run).await?;
        }
        if is_any_dead {
            seen = self.look_at_all().await?;
        }
        let of_segment = (self.segment / self.pages.bytes).max(1);
        // Those that move records keep theirs.
        let used = self.size() - seen.free() - seen.of_kind(Kind::Away);
        let mut spare = seen.free().saturating_sub(reserve_of(used) + 1) / part;
        let began = self.endpoint.now();
        for (number, words) in (0..).zip(seen.words.chunks(of_segment as usize)) {
            let claimed_at = self.endpoint.now();
            let is_over = claimed_at.saturating_sub(began) > LONGEST;
            if withdrawn.len() as u64 == most || spare == 0 || is_over {
                break;
            }
            let is_left = words.iter().all(|word| FREE_OR_AWAY.contains(&word.kind()));
            let free = words.iter().filter(|word| word.kind() == Kind::Free);
            let free = free.count() as u64;
            if !is_left || free == 0 || free > spare || words.len() < of_segment as usize {
                continue;
            }
            let first = number * of_segment;
            let claimed = self.claim_pages(first, words, Kind::Withdrawn).await;
            // What was claimed before is given back all the same.
            let Ok(claimed) = claimed else {
                break;
            };
            if let Some(word) = claimed {
                let segment = Piece {
                    from: self.at_byte(self.pages.page_at(first)),
                    len: self.segment as usize,
                };
                spare -= free;
                withdrawn.push(Withdrawal {
                    segment,
                    claimed_at,
                    first,
                    word,
                });
            }
        }
        Ok(withdrawn)
    }

    /// Says of the pages of a segment that was given back that they are away.
    ///
    /// # Errors
    /// What the fabric says.
    pub async fn end_withdrawal(&self, of: Withdrawal) -> Result<()> {
        let given_up = self.give_up_pages(of.first, of.word, of.word.away());
        given_up.await.map(drop)
    }
}
