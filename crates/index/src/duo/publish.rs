//! Keeping the published index current: the owner's part.
//!
//! The words that name a key are written in the batch that makes its slot live, before the slot's
//! head, and the count of their segment grows in between: no insertion takes a round trip more. A
//! removal does, as it swaps out the word that publishes the record, and must know it
//! (`bytes/slot.rs`).

use super::bytes::{SlotNumber, bucket_entry, stash_entry};
use super::changes::{Batch, Change};
use super::placement::Placement;
use super::state::{DuoTable, PageVersions};
use crate::Result;
use crate::client::scan;
use farslot_fabric::{Endpoint, EndpointExt, Piece};
use std::collections::BTreeSet;

/// The entry that a slot is to have.
pub(super) type NewEntry = (SlotNumber, u64);

impl<E: Endpoint> DuoTable<E> {
    /// Publishes, in a batch, that slots of one bucket, or one slot of the stash, are to be live
    /// with these entries. To be followed by what makes them live.
    pub(super) fn publish(&self, batch: &mut Batch, entries: &[NewEntry]) {
        if let Some(page) = self.publish_words(batch, entries) {
            self.count_change(batch, page);
        }
    }

    /// Counts a change of a page's segment of the published index.
    fn count_change(&self, batch: &mut Batch, page: u64) {
        let at = self.vault.count_at(self.vault.segment_of(page));
        batch.changes.push(Change::Add(at, 1));
    }

    /// Publishes, in a batch, that a slot is dead. Readers need not be told: they see it at the
    /// slot.
    pub(super) fn unpublish(&self, batch: &mut Batch, slot: SlotNumber) {
        self.publish_words(batch, &[(slot, 0)]);
    }

    /// Writes the words of these slots, which are of one page.
    fn publish_words(&self, batch: &mut Batch, entries: &[NewEntry]) -> Option<u64> {
        let versions = self.versions.as_ref()?;
        let (page, _) = self.layout.page_of(entries.first()?.0);
        let shape = self.layout.page_shape(page);
        let word_of = |(slot, _): &NewEntry| shape.word_of(self.layout.page_of(*slot).1);
        let version = versions.next(page);
        for (number, entry) in entries.iter().enumerate() {
            let word = word_of(entry);
            let is_new = |before: &NewEntry| word_of(before) != word;
            if entries[..number].iter().all(is_new) {
                let at = self.vault.page_at(&self.layout, page);
                let at = at.plus(u64::from(word) * 8);
                let word = self.word_of_page(page, word, version, entries);
                batch.changes.push(Change::WriteWord(at, word));
            }
        }
        Some(page)
    }

    /// The word of the published index that names what is in a slot.
    #[inline]
    pub(super) fn published_word(&self, slot: SlotNumber) -> Piece {
        let (page, number) = self.layout.page_of(slot);
        let word = self.layout.page_shape(page).word_of(number);
        let from = self.vault.page_at(&self.layout, page);
        Piece {
            from: from.plus(u64::from(word) * 8),
            len: 8,
        }
    }

    /// A word of a page as the index has it, but for these entries.
    fn word_of_page(&self, page: u64, word: u32, version: u32, but: &[NewEntry]) -> u64 {
        let first = self.layout.first_of_page(page);
        let index = self.index.borrow();
        self.layout.page_shape(page).pack(word, version, |number| {
            let slot = SlotNumber(first.0 + u64::from(number));
            let new = but.iter().find(|(changed, _)| *changed == slot);
            new.map_or_else(|| self.entry_in(&index, slot), |(_, entry)| *entry)
        })
    }

    /// A slot's entry, as the index has it.
    fn entry_of(&self, slot: SlotNumber) -> u64 {
        self.entry_in(&self.index.borrow(), slot)
    }

    fn entry_in(&self, index: &Placement, slot: SlotNumber) -> u64 {
        match index.stashed_at(slot) {
            Some(stashed) => stashed.map_or(0, stash_entry),
            None => {
                let (fingerprint, backup) = index.fingerprint_at(slot);
                bucket_entry(fingerprint, backup, self.layout.fingerprint_bits)
            }
        }
    }

    /// Publishes the pages of these slots as the index has them.
    pub(super) async fn publish_pages_of(&self, slots: &[SlotNumber]) -> Result<()> {
        if self.versions.is_none() {
            return Ok(());
        }
        let pages: BTreeSet<u64> = slots
            .iter()
            .map(|slot| self.layout.page_of(*slot).0)
            .collect();
        let mut batch = Batch::default();
        for page in pages {
            let (first, shape) = (
                self.layout.first_of_page(page),
                self.layout.page_shape(page),
            );
            let slots = (first.0..).map(SlotNumber).take(shape.slots as usize);
            let entries: Vec<NewEntry> = slots.map(|slot| (slot, self.entry_of(slot))).collect();
            // Before anything is taken away, as in a split.
            self.count_change(&mut batch, page);
            self.publish(&mut batch, &entries);
        }
        self.run(batch).await
    }

    /// Reads what was published, and publishes what the index has otherwise. Called by a new owner
    /// that has made its index, alone. Until then what the owner before has published is good: it
    /// names the keys of all live slots.
    pub(super) async fn publish_all(&self) -> Result<()> {
        let Some(versions) = &self.versions else {
            return Ok(());
        };
        for run in self.vault.page_runs(&self.layout) {
            let mut next = run.start;
            while next < run.end {
                next = self.publish_piece(next, run.end, versions).await?;
            }
        }
        self.count_splits().await
    }

    /// Does so with a piece of the pages; returns where the next begins.
    async fn publish_piece(&self, first: u64, end: u64, versions: &PageVersions) -> Result<u64> {
        let shape = self.layout.page_shape(first);
        let words = shape.words() as usize;
        let pages = scan::piece(first, end, words * 8);
        let from = self.vault.page_at(&self.layout, first);
        let piece = self.endpoint.read(from, pages as usize * words * 8).await?;
        let mut different = Vec::new();
        for (page, published) in (first..).zip(piece.words().chunks_exact(words)) {
            let newest = published.iter().map(|word| shape.version(*word)).max();
            versions.set(page, newest.unwrap_or(0));
            let slots = (self.layout.first_of_page(page).0..).map(SlotNumber);
            let mut entries = shape.entries(published).zip(slots);
            if entries.any(|(entry, slot)| entry != self.entry_of(slot)) {
                different.push(self.layout.first_of_page(page));
            }
        }
        if !different.is_empty() {
            self.publish_pages_of(&different).await?;
        }
        Ok(first + pages)
    }
}
