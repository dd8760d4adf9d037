//! Pages of which the words were read, and the runs among them.

use super::pages::{Dead, DeadWord, Kind, LeftClaim, PageWord, Stamp};
use std::ops::Range;

/// The kinds of pages that nobody has.
pub(super) const FREE_OR_AWAY: &[Kind] = &[Kind::Free, Kind::Away];

/// Pages that lie one behind the other, as they were seen.
pub(super) struct PageWindow {
    pub(super) first: u64,
    pub(super) words: Vec<PageWord>,
    runs: Vec<SeenRun>,
    free: u64,
}

/// A run among them, that is not free.
#[derive(Clone, Copy)]
pub(super) struct SeenRun {
    pub(super) first: u64,
    pub(super) word: PageWord,
    pub(super) dead: Dead,
    pub(super) stamp: Option<Stamp>,
}

impl SeenRun {
    /// Whether nobody appends to it, and none of its records lives.
    pub(super) fn is_dead(&self) -> bool {
        let written = self.written(0);
        written.is_some_and(|written| self.dead.records >= written.records)
    }

    /// How far it is used, of pages of so many bytes, and by how many records; nothing while
    /// somebody appends to it or cleans it.
    pub(super) fn written(&self, page_bytes: u64) -> Option<LeftClaim> {
        match self.word.kind() {
            Kind::Sealed => Some(LeftClaim {
                used: self.word.pages() * page_bytes,
                records: self.word.claim(),
            }),
            Kind::Left => Some(LeftClaim::unpack(self.word.claim())),
            _ => None,
        }
    }

    /// Whether its records were moved there, for they had been read: of a heap that evicts.
    pub(super) fn is_kept(&self) -> bool {
        self.stamp.is_some_and(Stamp::is_kept)
    }

    /// Whether it has one of these pages.
    pub(super) fn overlaps(&self, pages: &Range<u64>) -> bool {
        self.first < pages.end && pages.start < self.first + self.word.pages()
    }
}

impl PageWindow {
    /// Pages from this one on, with their words, their dead words and, where the heap has any,
    /// their stamps.
    pub(super) fn new(
        first: u64,
        words: Vec<PageWord>,
        dead: &[DeadWord],
        stamps: &[Stamp],
    ) -> Self {
        let (mut runs, mut free, mut at) = (Vec::new(), 0, 0);
        while let Some(word) = words.get(at) {
            let begin = at;
            at += 1;
            match word.kind() {
                Kind::Free => free += 1,
                Kind::Away | Kind::Behind => {}
                _ => {
                    // Memory that was damaged may name more pages than there are.
                    let Some(of_run) = words.get(begin..begin + word.pages() as usize) else {
                        continue;
                    };
                    // One that is being claimed or freed has others not yet, or no more.
                    let behind = word.behind(first + begin as u64);
                    let has_it = |page: &&PageWord| **page == behind;
                    at += of_run[1..].iter().take_while(has_it).count();
                    let of_pages = dead[begin..at].iter();
                    let dead = of_pages.fold(Dead::default(), |sum, page| {
                        let of_page = page.of(word.generation());
                        Dead {
                            records: sum.records + of_page.records,
                            granules: sum.granules + of_page.granules,
                        }
                    });
                    runs.push(SeenRun {
                        first: first + begin as u64,
                        word: *word,
                        dead,
                        stamp: stamps.get(begin).copied(),
                    });
                }
            }
        }
        Self {
            first,
            words,
            runs,
            free,
        }
    }

    /// The runs that are not free, of which all pages were seen: as far as their pages name them.
    pub(super) fn runs(&self) -> impl Iterator<Item = SeenRun> + '_ {
        self.runs.iter().copied()
    }

    /// How many pages are free.
    pub(super) const fn free(&self) -> u64 {
        self.free
    }

    /// How many pages are of a kind.
    pub(super) fn of_kind(&self, kind: Kind) -> u64 {
        let is_of = |word: &&PageWord| word.kind() == kind;
        self.words.iter().filter(is_of).count() as u64
    }

    /// The first row of so many pages that are free or away, at least one of them away: its first
    /// page, and its words.
    pub(super) fn row_with_away(&self, pages: u64) -> Option<(u64, &[PageWord])> {
        let is_away = |word: &PageWord| word.kind() == Kind::Away;
        let is_left = |word: &PageWord| FREE_OR_AWAY.contains(&word.kind());
        let mut rows = self.words.windows(pages.max(1) as usize);
        let at = rows.position(|row| row.iter().all(is_left) && row.iter().any(is_away))?;
        Some((self.first + at as u64, &self.words[at..at + pages as usize]))
    }

    /// So many free pages in a row that the caller does not avoid, the first from this page on, if
    /// there are some, or any: with the words of those.
    pub(super) fn free_run(
        &self,
        pages: u64,
        from: u64,
        avoid: &Range<u64>,
    ) -> Option<(u64, &[PageWord])> {
        let last = self.words.len().checked_sub(pages as usize)?;
        let start = (from.saturating_sub(self.first) as usize).min(last);
        let suits = |at: &usize| {
            let (first, end) = (self.first + *at as u64, self.first + *at as u64 + pages);
            let words = &self.words[*at..*at + pages as usize];
            let is_avoided = first < avoid.end && avoid.start < end;
            !is_avoided && words.iter().all(|word| word.kind() == Kind::Free)
        };
        let at = (start..=last).chain(0..start).find(suits)?;
        let words = &self.words[at..at + pages as usize];
        Some((self.first + at as u64, words))
    }
}
