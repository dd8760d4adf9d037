//! Counting what died: by a client for itself, and now and then in the pages' dead words; with
//! which it says what it has read.

use super::client::Heap;
use super::pages::{Dead, DeadWord, GENERATIONS};
use crate::UPKEEP;
use farslot_fabric::{Endpoint, EndpointExt, Nanos, window};

/// Swaps under way at a time.
const WIDTH: usize = 64;
/// How often another client may be faster at a dead word: what is not counted then comes back when
/// the page is cleaned.
const ATTEMPTS: u32 = 8;
/// How long what died may wait until all of it is told.
const TELLS_AFTER: Nanos = 100_000_000;
/// In so short a time no page comes to the same generation again, whoever opens runs.
const CERTAIN: Nanos = 500_000;

impl<E: Endpoint> Heap<E> {
    /// Whether so much died or was read in a table's heap, if it has one, or died so long ago, that
    /// it is to be told of.
    #[inline]
    pub(crate) fn has_to_tell(heap: Option<&Self>) -> bool {
        heap.is_some_and(|heap| heap.has_hints() || heap.has_to_tell_dead())
    }

    #[inline]
    fn has_to_tell_dead(&self) -> bool {
        let uncounted = self.uncounted.borrow();
        uncounted.granules >= self.pages.bytes / super::GRANULE
            || !uncounted.is_empty() && self.since(uncounted.since) > TELLS_AFTER
    }

    fn since(&self, then: Nanos) -> Nanos {
        self.endpoint.now().saturating_sub(then)
    }

    /// Tells of it, if so.
    pub(crate) async fn tell_if_due(heap: Option<&Self>) {
        let Some(heap) = heap else {
            return;
        };
        if heap.has_to_tell_dead() {
            heap.endpoint.operation(UPKEEP, heap.tell_dead(false)).await;
        }
        if heap.has_hints() {
            heap.report_hints().await;
        }
    }

    /// Tells of what died, in the pages' dead words: of all, or where much did. What cannot be told
    /// comes back when the page is cleaned.
    pub(super) async fn tell_dead(&self, all: bool) {
        let granules = self.pages.bytes / super::GRANULE;
        let (due, died) = {
            let uncounted = &mut *self.uncounted.borrow_mut();
            let is_old = !uncounted.is_empty() && self.since(uncounted.since) > TELLS_AFTER;
            let due = uncounted.due(all || is_old, granules);
            (due, (uncounted.since, uncounted.openings))
        };
        if due.is_empty() {
            return;
        }
        let telling = due.iter().map(|dead| self.tell(*dead, died));
        window(WIDTH, telling, |_, _| {}).await;
    }

    /// Tells of what died of a page, not before that time, when runs had been opened at least so
    /// often.
    async fn tell(
        &self,
        (page, generation, more): (u64, u64, Dead),
        (since, openings): (Nanos, Option<u64>),
    ) -> crate::Result<()> {
        let at = self.at_byte(self.pages.dead_at(page));
        let mut seen = DeadWord(self.endpoint.read(at, 8).await?.words()[0]);
        for _ in 0..ATTEMPTS {
            let now = self.endpoint.read(self.openings_at(), 8).await?.words()[0];
            self.openings.set(Some(now));
            let is_certain = match openings {
                Some(then) => now.wrapping_sub(then) < GENERATIONS,
                None => self.since(since) < CERTAIN,
            };
            let new = seen.with(generation, more).filter(|_| is_certain);
            let Some(new) = new else {
                break;
            };
            let swap = self.endpoint.compare_swap(at, seen.0, new.0);
            let before = DeadWord(swap.await?);
            if before == seen {
                break;
            }
            seen = before;
        }
        Ok(())
    }
}
