//! What died by a client and is in no dead word yet.

use super::pages::Dead;
use farslot_fabric::Nanos;
use foldhash::fast::FixedState;
use std::collections::HashMap;

/// Pages of which a client counts for itself before it tells of all.
const MOST_PAGES: usize = 2048;
/// It has told of some so often before it tells of all.
const TELL_ALL_AFTER: u32 = 16;
/// It tells of a page whose dead are this part of it, whenever a page's worth has died.
const TELL_PART: u64 = 16;

/// What died by this client and is in no dead word yet.
#[derive(Default)]
pub(super) struct Uncounted {
    pages: HashMap<u64, (u64, Dead), FixedState>,
    /// How many granules died since it told of some, and how often that was not of all.
    pub(super) granules: u64,
    /// When the oldest of them died, or before, and how often runs had been opened by then, as far
    /// as this client knew; nothing if it did not.
    pub(super) since: Nanos,
    pub(super) openings: Option<u64>,
    reports: u32,
}

impl Uncounted {
    /// Counts what died of a page, of the use of that generation.
    #[inline]
    pub(super) fn add(&mut self, page: u64, generation: u64, more: Dead) {
        let (of, dead) = self.pages.entry(page).or_default();
        if *of != generation {
            (*of, *dead) = (generation, Dead::default());
        }
        dead.records += more.records;
        dead.granules += more.granules;
        self.granules += more.granules;
    }

    /// Takes out what is to be told now: all, or of pages of so many granules of which much is
    /// dead.
    pub(super) fn due(&mut self, all: bool, page_granules: u64) -> Vec<(u64, u64, Dead)> {
        self.granules = 0;
        self.reports += 1;
        let all = all || self.reports >= TELL_ALL_AFTER || self.pages.len() > MOST_PAGES;
        if all {
            self.reports = 0;
        }
        let is_due = |dead: &Dead| all || dead.granules >= page_granules / TELL_PART;
        let due = self.pages.extract_if(|_, (_, dead)| is_due(dead));
        due.map(|(page, (generation, dead))| (page, generation, dead))
            .collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }
}
