//! What readers are told of splits.
//!
//! Invariant: the pages of the new buckets are there before the bit; the bucket's own segment
//! counts a change after it, and before anything is taken away from the bucket's own page. So a
//! reader that has read the page without a key which the split has taken elsewhere meets another
//! count when it reads the counts once more, and one that goes by the new count finds the bit.
//! Readers go by the bit; who goes by the counts, and has not seen it, is right until a key comes
//! to a new bucket. An atomic ends the batch: so when the split is done, all of it is visible.

use crate::Result;
use crate::duo::bytes::{SlotNumber, bucket_entry};
use crate::duo::changes::Change;
use crate::duo::state::DuoTable;
use farslot_fabric::{Endpoint, EndpointExt};
use std::collections::{BTreeMap, BTreeSet};

/// The keys of a bucket: their slots and their hashes.
pub(super) type Keys = Vec<(SlotNumber, u64)>;

/// The words of pages.
type PageImages = BTreeMap<u64, Vec<u64>>;

/// Which of the buckets that a bucket is split into.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SplitHalf {
    New,
    Old,
}

impl<E: Endpoint> DuoTable<E> {
    /// Publishes what buckets that are to be split will hold: nothing if there are no readers.
    pub(super) fn publish_split(
        &self,
        buckets: &[(u64, Keys)],
        of: SplitHalf,
    ) -> Result<Publication> {
        let pages: PageImages = buckets
            .iter()
            .flat_map(|(origin, keys)| self.pages_after(*origin, keys, of))
            .collect();
        let segment_of = |page: &u64| self.vault.segment_of(*page);
        let segments = pages.keys().map(segment_of);
        let segments: BTreeSet<u64> = segments.collect();
        let count = |segment| Change::Add(self.vault.count_at(segment), 1);
        Ok(Publication {
            counts: segments.into_iter().map(count).collect(),
            pages: self.page_writes(&pages)?,
        })
    }

    /// The pages of a bucket, or of those that come of it, as they are once it is split.
    fn pages_after(&self, origin: u64, keys: &Keys, of: SplitHalf) -> PageImages {
        let Some(versions) = &self.versions else {
            return PageImages::new();
        };
        let index = self.index.borrow();
        let entry = |(slot, hash): &_| {
            let (fingerprint, backup) = index.fingerprint_at(*slot);
            let entry = bucket_entry(fingerprint, backup, self.layout.fingerprint_bits);
            (index.slot_after_split(*slot, *hash).0, entry)
        };
        let entries: BTreeMap<u64, u64> = keys.iter().map(entry).collect();
        let buckets = index.siblings(origin);
        let buckets = buckets.filter(|bucket| (*bucket == origin) == (of == SplitHalf::Old));
        let page = |bucket: u64| {
            let (shape, version) = (self.layout.bucket_page(), versions.next(bucket));
            let first = self.layout.first_of_page(bucket).0;
            let word = |word| {
                shape.pack(word, version, |number| {
                    let slot = first + u64::from(number);
                    entries.get(&slot).copied().unwrap_or(0)
                })
            };
            (bucket, (0..shape.words()).map(word).collect())
        };
        buckets.map(page).collect()
    }

    /// Writes pages: those that lie side by side at once.
    fn page_writes(&self, pages: &PageImages) -> Result<Vec<Change>> {
        let mut runs: Vec<(u64, Vec<u64>)> = Vec::new();
        for (page, words) in pages {
            let at = |page| self.vault.page_at(&self.layout, page);
            match runs.last_mut() {
                Some((first, run)) if at(*first).plus(8 * run.len() as u64) == at(*page) => {
                    run.extend(words);
                }
                _ => runs.push((*page, words.clone())),
            }
        }
        let write = |(first, words): &(u64, Vec<u64>)| {
            let mut bytes = self.endpoint.core().buffers.take(8 * words.len())?;
            bytes.words_mut().copy_from_slice(words);
            let at = self.vault.page_at(&self.layout, *first);
            Ok(Change::Write(at, bytes))
        };
        runs.iter().map(write).collect()
    }

    /// Counts a change of every segment whose buckets were split in the last growth, or are to be:
    /// the owner before may have set a bit and told nobody. Readers read all of that anew.
    pub(in super::super) async fn count_splits(&self) -> Result<()> {
        // A count that lands late would take back what another thread has counted since.
        let doubt = self.doubt(Vec::new());
        for (at, words) in self.vault.counts_of_origins() {
            let mut counts = self.endpoint.read(at, words as usize * 8).await?;
            let words = counts.words_mut().iter_mut();
            words.for_each(|count| *count = count.wrapping_add(1));
            self.endpoint.write(at, counts).await?;
        }
        // Nothing but an atomic: other threads count from now on.
        let at = self.vault.count_at(0);
        self.endpoint.fetch_add(at, 0).await?;
        doubt.resolve();
        Ok(())
    }
}

/// Steps that publish.
pub(super) struct Publication {
    pub(super) pages: Vec<Change>,
    /// Of the segments of these pages.
    pub(super) counts: Vec<Change>,
}
