//! The pages of a heap: how many, how large, and the words of each.
//!
//! ```text
//! heap      | a word a page | dead bytes a page | a stamp a page, perhaps | page 0 | page 1 | ...
//! page word | claim, 29 bits | uses, 16 | pages of the run, 16 | kind, 3 |
//! open      | drawn, 21 bits | tick, 8 |                                             its claim
//! left      | used, in 64 bytes, 15 bits | records, 14 |                            its claim
//! sealed    | records, 29 bits |                                                    its claim
//! dead word | granules, 31 bits | records, 22 | generation, 11 |
//! ```
//! Pages that lie one behind the other form a run; the word of the first says what the run is. A
//! run is free, open (one client appends records to it), left (some room, and nobody appends),
//! sealed (full), or being cleaned (one client moves out of it what lives). Of a heap whose memory
//! is made of segments a free page may be away: it has no memory. `claim` differs from
//! claim to claim of a run that is open or cleaned, and says at which tick of the heap it was made;
//! of a run that is left or sealed it says how many records were written. Each use of a page has
//! another generation, the low bits of `uses`: a slot that names a record of an earlier use names
//! none.
//!
//! A heap that evicts has a stamp for each page, and one whose records end has another (`eviction`,
//! `ends`).
//!
//! The dead word counts the records that died and start in this page, and about how many granules
//! they had. It counts no record twice and none that lives: a client tells of what died only while
//! so few runs were opened since that no page can have come to the same generation again. So a run
//! of whose records all are dead is free without a look at them. It may count too few: what a
//! client that was killed had counted is lost until the run is cleaned.

use super::layout::{BlockRef, GENERATION_BITS, GRANULE};
use std::ops::Range;

/// The most pages of a heap whose pages are smaller than [`LARGEST_PAGE`].
const USUAL_PAGES: u64 = 4096;
/// The fewest pages of a heap, if that leaves pages of [`SMALLEST_PAGE`].
const FEWEST_PAGES: u64 = 64;
const SMALLEST_PAGE: u64 = 64;
/// Pages of this size are not made smaller to have [`FEWEST_PAGES`].
const USUAL_PAGE: u64 = 16 << 10;
const LARGEST_PAGE: u64 = 1 << 20;
/// The most pages that are left to those that move records.
const MOST_RESERVED: u64 = 16;
/// Bytes of a word of a page.
const WORD_BYTES: u64 = 8;
/// The most pages of a run.
pub(super) const LONGEST_RUN: u64 = (1 << RUN_BITS) - 1;

const KIND_BITS: u32 = 3;
const RUN_BITS: u32 = 16;
const USES_BITS: u32 = 16;
const CLAIM_BITS: u32 = 29;
const TICK_BITS: u32 = 8;

/// The pages of a heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct HeapPages {
    /// Bytes of each.
    pub(super) bytes: u64,
    pub(super) count: u64,
    /// Bytes from the heap's start to the first.
    pub(super) start: u64,
}

impl HeapPages {
    /// The pages of a heap of so many bytes; of one whose memory is made of segments of so many
    /// (else 0) none lies in two.
    pub(super) const fn of(heap_bytes: u64, has_stamps: bool, segment: u64) -> Self {
        let words = if has_stamps { 3 } else { 2 } * WORD_BYTES;
        let usual = heap_bytes.div_ceil(USUAL_PAGES);
        let small = largest_power(heap_bytes / FEWEST_PAGES);
        let small = clamp(small, SMALLEST_PAGE, USUAL_PAGE);
        let bytes = clamp(usual.next_power_of_two(), small, LARGEST_PAGE);
        let bytes = if segment > 0 && bytes > segment {
            segment
        } else {
            bytes
        };
        let count = heap_bytes / (bytes + words);
        let start = (count * words).next_multiple_of(if segment > 64 { segment } else { 64 });
        let room = heap_bytes.saturating_sub(start);
        let fit = room / bytes;
        Self {
            bytes,
            count: if fit < count { fit } else { count },
            start,
        }
    }

    /// Bytes from the heap's start of the word of a page.
    pub(super) const fn word_at(self, page: u64) -> u64 {
        page * 8
    }

    /// Bytes from the heap's start of the dead word of a page.
    pub(super) const fn dead_at(self, page: u64) -> u64 {
        (self.count + page) * 8
    }

    /// Bytes from the heap's start of the stamp of a page.
    pub(super) const fn stamp_at(self, page: u64) -> u64 {
        (2 * self.count + page) * 8
    }

    /// Bytes from the heap's start of a page.
    pub(super) const fn page_at(self, page: u64) -> u64 {
        self.start + page * self.bytes
    }

    /// The page that has this granule of the heap.
    pub(super) const fn page_of(self, granule: u64) -> u64 {
        (granule * GRANULE).saturating_sub(self.start) / self.bytes
    }

    /// The bytes of a run, from the heap's start.
    pub(super) const fn bytes_of(self, first: u64, pages: u64) -> Range<u64> {
        self.page_at(first)..self.page_at(first + pages)
    }

    /// How many pages lie below a mark.
    pub(super) const fn below(self, mark: u64) -> u64 {
        let pages = mark.saturating_sub(self.start) / self.bytes;
        if pages < self.count {
            pages
        } else {
            self.count
        }
    }

    /// The fewest pages that hold so many bytes.
    pub(super) const fn fewest_for(self, bytes: u64) -> u64 {
        bytes.div_ceil(self.bytes)
    }

    /// Whether so many bytes fit beside pages that are left to those that move records.
    pub(super) const fn hold(self, bytes: u64, reserve: u64) -> bool {
        self.fewest_for(bytes) <= self.count.saturating_sub(reserve)
    }

    /// The pages of a run for records of so many bytes, where there are so many pages: so many
    /// that little is left at its end.
    pub(super) fn run_for(self, bytes: u64, size: u64) -> u64 {
        let fewest = self.fewest_for(bytes);
        let most = (bytes * 16).div_ceil(self.bytes).min(reserve_of(size));
        // What is left at the end of so many, in 1,024ths of them.
        let left = |pages: u64| (pages * self.bytes) % bytes * 1024 / (pages * self.bytes);
        let mut best = fewest;
        for pages in fewest..=most.max(fewest) {
            if left(best) < 64 {
                break;
            }
            if left(pages) < left(best) {
                best = pages;
            }
        }
        best
    }
}

/// Pages of so many that are left to those that move records out of others: as many as the longest
/// run has that is opened for records that are shorter.
pub(super) const fn reserve_of(size: u64) -> u64 {
    clamp(size / 16, 0, MOST_RESERVED)
}

const fn clamp(value: u64, least: u64, most: u64) -> u64 {
    if value < least {
        least
    } else if value > most {
        most
    } else {
        value
    }
}

/// The largest power of two that is at most this.
const fn largest_power(value: u64) -> u64 {
    match value {
        0 => 0,
        value => 1 << value.ilog2(),
    }
}

/// What a run is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Free,
    /// A page of a run behind its first.
    Behind,
    Open,
    Left,
    Sealed,
    Cleaned,
    /// Pages whose memory is being given back.
    Withdrawn,
    /// A page that nobody has, and for which there is no memory.
    Away,
}

/// The word of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PageWord(pub(super) u64);

impl PageWord {
    pub(super) const fn new(kind: Kind, pages: u64, uses: u64, claim: u64) -> Self {
        let kind = match kind {
            Kind::Free => 0,
            Kind::Behind => 1,
            Kind::Open => 2,
            Kind::Left => 3,
            Kind::Sealed => 4,
            Kind::Cleaned => 5,
            Kind::Away => 6,
            Kind::Withdrawn => 7,
        };
        let pages = pages & LONGEST_RUN;
        let uses = uses & ((1 << USES_BITS) - 1);
        let claim = claim & ((1 << CLAIM_BITS) - 1);
        Self(
            kind | pages << KIND_BITS
                | uses << (KIND_BITS + RUN_BITS)
                | claim << (KIND_BITS + RUN_BITS + USES_BITS),
        )
    }

    /// What the page is.
    pub(super) const fn kind(self) -> Kind {
        match self.0 & ((1 << KIND_BITS) - 1) {
            0 => Kind::Free,
            2 => Kind::Open,
            3 => Kind::Left,
            4 => Kind::Sealed,
            5 => Kind::Cleaned,
            6 => Kind::Away,
            7 => Kind::Withdrawn,
            _ => Kind::Behind,
        }
    }

    /// Whether nobody appends to the run that begins here, or cleans it.
    pub(super) const fn is_cleanable(self) -> bool {
        matches!(self.kind(), Kind::Left | Kind::Sealed)
    }

    /// Pages of the run that begins here.
    pub(super) const fn pages(self) -> u64 {
        let pages = self.0 >> KIND_BITS & LONGEST_RUN;
        if pages == 0 { 1 } else { pages }
    }

    pub(super) const fn uses(self) -> u64 {
        self.0 >> (KIND_BITS + RUN_BITS) & ((1 << USES_BITS) - 1)
    }

    pub(super) const fn claim(self) -> u64 {
        self.0 >> (KIND_BITS + RUN_BITS + USES_BITS)
    }

    /// The generation of records in a page of this use.
    pub(super) const fn generation(self) -> u64 {
        generation_of(self.uses())
    }

    /// The same run as another kind, under another claim.
    pub(super) const fn as_kind(self, kind: Kind, claim: u64) -> Self {
        Self::new(kind, self.pages(), self.uses(), claim)
    }

    /// The word of a free page that had the use before this one last, for nothing had this use.
    pub(super) const fn unused(self) -> Self {
        Self::new(Kind::Free, 0, self.uses().wrapping_sub(1), 0)
    }

    /// The word of a free page that had this use last.
    pub(super) const fn freed(self) -> Self {
        Self::new(Kind::Free, 0, self.uses(), 0)
    }

    /// The word of a page without memory that had this use last.
    pub(super) const fn away(self) -> Self {
        Self::new(Kind::Away, 0, self.uses(), 0)
    }

    /// The word of a page behind the first of a run with this word, by that one's number.
    pub(super) const fn behind(self, first: u64) -> Self {
        Self::new(Kind::Behind, 0, self.uses(), first)
    }

    /// The next use of free pages with these words, a run together: of a generation that none of
    /// them had for the longest time.
    pub(super) fn next_use(words: &[Self]) -> u64 {
        let mut had: Vec<u64> = words.iter().map(|word| word.generation()).collect();
        had.sort_unstable();
        had.dedup();
        let behind = had.iter().copied().cycle().skip(1);
        let gap = |(had, next): &(u64, u64)| (next + GENERATIONS - had - 1) % GENERATIONS;
        // Of pages that have had as many uses each, the next generation.
        let last = had.iter().copied().zip(behind).max_by_key(gap);
        let last = last.map_or(0, |(had, _)| had);
        let most = words.iter().map(|word| word.uses()).max().unwrap_or(0);
        let ahead = (last + GENERATIONS - generation_of(most)) % GENERATIONS;
        (most + ahead + 1) & ((1 << USES_BITS) - 1)
    }
}

/// So often a page may be opened until it has come to the same generation again.
pub(super) const GENERATIONS: u64 = BlockRef::LAST_GENERATION + 1;

pub(super) const fn generation_of(uses: u64) -> u64 {
    uses & BlockRef::LAST_GENERATION
}

/// A claim that was made at this tick of the heap.
pub(super) const fn claim_at(tick: u64, drawn: u64) -> u64 {
    drawn << TICK_BITS | tick & ((1 << TICK_BITS) - 1)
}

/// How many ticks ago a claim was made, of as many as can be told apart.
pub(super) const fn ticks_since(claim: u64, tick: u64) -> u64 {
    tick.wrapping_sub(claim) & ((1 << TICK_BITS) - 1)
}

/// What a run that was left says: how far it is used, and by how many records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LeftClaim {
    /// Bytes, a multiple of [`LEFT_UNIT`].
    pub(super) used: u64,
    pub(super) records: u64,
}

/// A run that is left is used up to a multiple of this.
pub(super) const LEFT_UNIT: u64 = 64;
const LEFT_RECORDS_BITS: u32 = 14;

impl LeftClaim {
    /// As a claim; nothing if it cannot be said.
    pub(super) const fn pack(self) -> Option<u64> {
        let used = self.used.div_ceil(LEFT_UNIT);
        let fits =
            self.records >> LEFT_RECORDS_BITS == 0 && used >> (CLAIM_BITS - LEFT_RECORDS_BITS) == 0;
        if fits {
            return Some(self.records | used << LEFT_RECORDS_BITS);
        }
        None
    }

    pub(super) const fn unpack(claim: u64) -> Self {
        Self {
            used: (claim >> LEFT_RECORDS_BITS) * LEFT_UNIT,
            records: claim & ((1 << LEFT_RECORDS_BITS) - 1),
        }
    }
}

/// The dead word of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct DeadWord(pub(super) u64);

const DEAD_RECORDS_BITS: u32 = 22;
const DEAD_GRANULES_AT: u32 = GENERATION_BITS + DEAD_RECORDS_BITS;

impl DeadWord {
    pub(super) const fn new(generation: u64, dead: Dead) -> Self {
        Self(generation & BlockRef::LAST_GENERATION).plus(dead)
    }

    const fn plus(self, dead: Dead) -> Self {
        Self(self.0 + (dead.records << GENERATION_BITS) + (dead.granules << DEAD_GRANULES_AT))
    }

    /// What died of the use of that generation.
    pub(super) const fn of(self, generation: u64) -> Dead {
        if !self.is_of(generation) {
            return Dead {
                records: 0,
                granules: 0,
            };
        }
        Dead {
            records: self.0 >> GENERATION_BITS & ((1 << DEAD_RECORDS_BITS) - 1),
            granules: self.0 >> DEAD_GRANULES_AT,
        }
    }

    /// Whether it counts the dead of that generation.
    pub(super) const fn is_of(self, generation: u64) -> bool {
        self.0 & BlockRef::LAST_GENERATION == generation
    }

    /// The same with more dead of that generation; nothing if the page has had another use since,
    /// or so many more cannot be said.
    pub(super) fn with(self, generation: u64, more: Dead) -> Option<Self> {
        let (records, granules) = {
            let dead = self.of(generation);
            (dead.records + more.records, dead.granules + more.granules)
        };
        let fits = records >> DEAD_RECORDS_BITS == 0 && granules >> (64 - DEAD_GRANULES_AT) == 0;
        (self.is_of(generation) && fits).then(|| Self::new(generation, Dead { records, granules }))
    }
}

/// Records that died.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Dead {
    pub(super) records: u64,
    /// About how many granules they had.
    pub(super) granules: u64,
}

/// When a run was opened, and for what; of a heap whose records end, when those of the run do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Stamp(pub(super) u64);

impl Stamp {
    /// Bits of a stamp behind that which says whether its records are kept.
    const KEPT: u64 = 1 << 63;

    pub(super) const fn new(opening: u64, is_kept: bool) -> Self {
        let kept = if is_kept { Self::KEPT } else { 0 };
        Self(opening & !Self::KEPT | kept)
    }

    /// Whether the records of the run were moved there, for they had been read.
    pub(super) const fn is_kept(self) -> bool {
        self.0 & Self::KEPT != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn heaps_of_all_sizes_have_pages_within_them() {
        for heap in [
            0,
            64,
            100,
            512,
            4 << 10,
            1 << 20,
            300 << 20,
            5 << 32,
            256 << 30,
        ] {
            for evicts in [false, true] {
                let pages = HeapPages::of(heap, evicts, 0);
                assert!(
                    pages.page_at(pages.count) <= heap.max(pages.start),
                    "{heap}"
                );
                assert!(pages.dead_at(pages.count) <= pages.start);
                assert!(!evicts || pages.stamp_at(pages.count) <= pages.start);
                assert!(pages.bytes.is_power_of_two() && pages.bytes >= SMALLEST_PAGE);
                assert!(pages.count == 0 || pages.start >= GRANULE);
                // What is not in pages is little.
                let lost = heap - pages.count * pages.bytes;
                let most = pages.bytes + (pages.count + 1) * 3 * WORD_BYTES + 64;
                assert!(lost <= most, "{heap}: {lost} lost");
            }
        }
    }

    #[test]
    fn no_page_lies_in_two_segments() {
        for bits in 20..40 {
            for node in [
                1_u64 << bits,
                (1 << bits) + (3 << (bits - 2)),
                (1 << bits) - 300_000,
            ] {
                let segment = node.div_ceil(4096).next_power_of_two().max(64 << 10);
                let pages =
                    HeapPages::of(node.next_multiple_of(segment) + 2 * segment, true, segment);
                assert!(
                    pages.bytes <= segment && pages.start.is_multiple_of(segment),
                    "{node}"
                );
                assert!(pages.count * pages.bytes + 2 * segment > node, "{node}");
            }
        }
    }

    #[test]
    fn a_run_for_large_records_leaves_little_at_its_end() {
        let pages = HeapPages::of(256 << 20, false, 0);
        for bytes in [48, 1_040, 9_000, 100_040, 150_000, 600_000, 1_000_040] {
            let run = pages.run_for(bytes, pages.count);
            let left = run * pages.bytes % bytes;
            assert!(left * 8 <= run * pages.bytes, "{bytes}: {run} pages");
            assert!(run >= pages.fewest_for(bytes));
        }
    }

    proptest! {
        #[test]
        fn words_survive_packing(
            kind in prop::sample::select(vec![
                Kind::Free, Kind::Behind, Kind::Open, Kind::Left, Kind::Sealed, Kind::Cleaned,
                Kind::Away, Kind::Withdrawn,
            ]),
            pages in 1..=LONGEST_RUN, uses in 0u64..1 << 16, claim in 0u64..1 << 29,
            records in 0u64..1 << 22, granules in 0u64..1 << 31,
        ) {
            let word = PageWord::new(kind, pages, uses, claim);
            let parts = (word.kind(), word.pages(), word.uses(), word.claim());
            prop_assert_eq!(parts, (kind, pages, uses, claim));
            let dead = Dead { records, granules };
            let word = DeadWord::new(word.generation(), dead);
            prop_assert_eq!(word.of(uses & 0x7ff), dead);
            prop_assert_eq!(word.of(uses & 0x7ff ^ 1), Dead::default());
            let none = DeadWord::new(uses, Dead::default());
            prop_assert_eq!(none.with(uses & 0x7ff, dead), Some(word));
            prop_assert_eq!(none.with(uses & 0x7ff ^ 1, dead), None);
            let claim = claim_at(uses, claim);
            prop_assert_eq!(ticks_since(claim, uses + records % 256), records % 256);
            let used = (uses * LEFT_UNIT).min(32_767 * LEFT_UNIT);
            let left = LeftClaim { used, records: records % (1 << 14) };
            prop_assert_eq!(LeftClaim::unpack(left.pack().unwrap()), left);
        }

        #[test]
        fn a_generation_is_none_that_a_page_had_lately(
            uses in prop::collection::vec(0u64..1 << 16, 1..9),
        ) {
            let words: Vec<_> = uses
                .iter()
                .map(|uses| PageWord::new(Kind::Free, 0, *uses, 0))
                .collect();
            let next = PageWord::next_use(&words);
            // Of eight pages two that are next to each other are an eighth of all apart, at least.
            for uses in uses {
                let ahead = (generation_of(next) + 2048 - generation_of(uses)) % 2048;
                prop_assert!((1..=2048 * 7 / 8 + 1).contains(&ahead), "{uses} {next}");
            }
            let alike = vec![words[0]; 5];
            let next = (words[0].uses() + 1) & 0xffff;
            prop_assert_eq!(PageWord::next_use(&alike), next);
        }
    }
}
