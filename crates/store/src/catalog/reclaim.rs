//! Taking segments back that tables do not need, for one that does.
//!
//! Whoever finds no free segment takes the catalog's lock, and has other tables give back those of
//! which no page is anybody's ([`Heap::withdraw`]). Their lists forget them, the tables' versions
//! are counted up, so that clients who know where they lay forget it too; and when these must have
//! looked, the segments are made zeros and are free. So come back those as well that clients took
//! who died before any list named them. What a table's reserve lacks is kept for it then, and not
//! free.

use super::change::GRACE;
use super::entry::VERSIONS_AT;
use super::listing::CatalogSnapshot;
use super::lock::Change;
use super::pool::{Claim, beyond_reserve, is_kept, segments_of, segments_with};
use super::record::TableRecord;
use super::region::Catalog;
use super::sizes::segment_bytes;
use crate::Result;
use farslot_fabric::{Endpoint, EndpointExt, Segments};
use farslot_index::heap::{Heap, Withdrawal};

/// Bytes that are taken from tables at a time, and segments at least.
const MOST_TAKEN: u64 = 256 << 20;
const FEWEST_TAKEN: u64 = 64;

/// What is taken back of what tables do not need.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReclaimScope {
    /// All of it, even if segments are free.
    All,
    /// All of it, if no segment is free.
    Wanted,
    /// Half of it, if no segment is free: for calls, which cannot wait for memory.
    Ahead,
}

/// A table that gives back segments.
struct Giving<E> {
    record: TableRecord,
    segments: Segments,
    /// Nothing if no more is taken.
    heap: Option<Heap<E>>,
    withdrawn: Vec<Withdrawal>,
    /// Segments with their words that no list names.
    lost: Vec<(u64, u64)>,
}

impl<E: Endpoint> Catalog<'_, E> {
    /// Takes back segments that tables do not need; false if none is free then. `heap_of` opens the
    /// heap of a table.
    pub(crate) async fn reclaim_segments<H: Endpoint>(
        &self,
        scope: ReclaimScope,
        heap_of: impl Fn(&TableRecord) -> Option<Heap<H>>,
    ) -> Result<bool> {
        self.changing(async |change| {
            // Others may have done so meanwhile, and what nobody has is free now.
            let snapshot = change.settled().await?;
            if scope != ReclaimScope::All && self.has_free(&snapshot.segments) {
                return Ok(true);
            }
            change.reclaim_segments(scope, &snapshot, &heap_of).await
        })
        .await
    }

    /// Whether no segment of the node is free.
    pub(crate) async fn is_full(&self) -> Result<bool> {
        Ok(!self.has_free(&self.pool().words().await?))
    }

    fn has_free(&self, words: &[u64]) -> bool {
        self.pool().free_from_end(words).next().is_some()
    }
}

impl<E: Endpoint> Change<'_, '_, E> {
    async fn reclaim_segments<H: Endpoint>(
        &self,
        scope: ReclaimScope,
        snapshot: &CatalogSnapshot,
        heap_of: &impl Fn(&TableRecord) -> Option<Heap<H>>,
    ) -> Result<bool> {
        let mut left = MOST_TAKEN / segment_bytes(self.catalog.region_bytes);
        left = left.max(FEWEST_TAKEN);
        let part = if scope == ReclaimScope::Ahead { 2 } else { 1 };
        let mut all = Vec::new();
        for (_, record) in snapshot.tables() {
            let Some(segments) = segments_of(self.catalog.node, record) else {
                continue;
            };
            self.show().await?;
            let list = self.list_of(&segments).await?;
            let of_table = segments_with(&snapshot.segments, record.tag);
            let unlisted = of_table.filter(|(of, word)| !is_kept(*word) && !list.contains(of));
            let mut of = Giving {
                record: record.clone(),
                segments,
                heap: heap_of(record).filter(|_| left > 0),
                withdrawn: Vec::new(),
                lost: unlisted.collect(),
            };
            if let Some(heap) = &of.heap {
                // A table that is damaged, or was dropped just now, keeps what it has.
                of.withdrawn = heap.withdraw(left, part).await.unwrap_or_default();
                // Its reserve stays its own.
                let others = beyond_reserve(&snapshot.segments, record);
                left -= others.min(of.withdrawn.len() as u64);
            }
            self.lose(&mut of).await?;
            all.push(of);
        }
        if all.iter().any(|of| !of.lost.is_empty()) {
            self.wait(GRACE).await?;
        }
        let mut is_any = false;
        for of in &all {
            is_any |= self.give_back_lost(of).await?;
        }
        for of in all {
            for withdrawal in of.withdrawn {
                if let Some(heap) = &of.heap {
                    // If that fails, others take them over.
                    let _ = heap.end_withdrawal(withdrawal).await;
                }
            }
        }
        Ok(is_any)
    }

    /// Has a table's list forget what it gives back, and marks that as lost, and what the list did
    /// not name before.
    async fn lose<H: Endpoint>(&self, of: &mut Giving<H>) -> Result<()> {
        let unlisted = std::mem::take(&mut of.lost);
        if of.withdrawn.is_empty() && unlisted.is_empty() {
            return Ok(());
        }
        self.count_version(&of.record, true).await?;
        let taken = self.forget_segments(of).await?;
        let words = self.catalog.pool().words().await?;
        let segments = segments_with(&words, of.record.tag);
        let segments = segments.filter(|(segment, _)| taken.contains(segment));
        // Whoever dies now leaves them as others that no list names.
        for segment in segments.chain(unlisted) {
            of.lost.extend(self.mark_lost(segment).await?);
        }
        self.count_version(&of.record, false).await
    }

    /// Gives back what a table has lost, and what is kept for it beyond its reserve; whether there
    /// was any.
    async fn give_back_lost<H: Endpoint>(&self, of: &Giving<H>) -> Result<bool> {
        let mut back = Vec::new();
        if !of.lost.is_empty() {
            let list = self.list_of(&of.segments).await?;
            for lost in &of.lost {
                // Its client may have been about to name it.
                match list.contains(&lost.0) {
                    true => self.is_found(*lost).await?,
                    false => back.push(*lost),
                }
            }
        }
        if Claim::of(&of.record).reserves {
            let words = self.catalog.pool().words().await?;
            let own = segments_with(&words, of.record.tag);
            back.extend(own.filter(|(_, word)| is_kept(*word)));
        }
        self.give_back(&of.record, back).await
    }

    /// The words of a table's list.
    async fn list_of(&self, segments: &Segments) -> Result<Vec<u64>> {
        let bytes = segments.count() as usize * 8;
        let read = self.catalog.endpoint.read(segments.list, bytes).await?;
        Ok(read.words().to_vec())
    }

    /// Counts the versions of a table up: to an odd count before its list forgets segments, and to
    /// an even one behind that. Whoever died in between has left it odd.
    async fn count_version(&self, record: &TableRecord, begins: bool) -> Result<()> {
        let at = self.catalog.entry_at(record.entry).plus(VERSIONS_AT);
        let seen = self.catalog.endpoint.read(at, 8).await?.words()[0];
        if seen.is_multiple_of(2) == begins {
            self.swap(at, seen, seen.wrapping_add(1)).await?;
        }
        Ok(())
    }

    /// Has a table's list forget the segments that it gives back; returns them.
    async fn forget_segments<H: Endpoint>(&self, of: &Giving<H>) -> Result<Vec<u64>> {
        let list = self.list_of(&of.segments).await?;
        let mut taken = Vec::new();
        for withdrawal in &of.withdrawn {
            for number in of.segments.numbers(withdrawal.segment).unwrap_or(0..0) {
                let word = list.get(number as usize).copied().unwrap_or(0);
                let stands = withdrawal.stands(self.catalog.endpoint.now());
                if word != 0 && stands && self.swap(of.segments.word_at(number), word, 0).await? {
                    taken.push(word);
                }
            }
        }
        Ok(taken)
    }
}
