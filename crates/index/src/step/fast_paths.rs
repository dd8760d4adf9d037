//! Fast paths of many keys, in groups: while one group is hashed, what the one before it wants is
//! fetched, what the one before that has asked for is looked at, and of the one before that what
//! lay behind it.

use super::fast_path::{FastPath, FastPathResult, More};
use super::lookup::{Answer, Lookup};
use super::scratch::Mapped;
use crate::Value;
use crate::answers::AnswerCode;
use crate::client::MANY_READS;
use farslot_fabric::{InPlace, Steps, Tally};

/// Keys of a group.
const GROUP: usize = 16;

/// Groups under way.
const GROUPS: usize = 4;

/// The keys of a group, as far as they have come.
struct FastPathGroup<Prepared, Place> {
    prepared: [Prepared; GROUP],
    /// Of those that have one.
    places: [Option<Place>; GROUP],
    /// Those that are to be looked at again, a bit each.
    fetching: u32,
}

/// How the keys of a group have ended, with which words, and what they took.
type GroupEnds<'r> = (
    &'r mut [AnswerCode; GROUP],
    &'r mut [u64; GROUP],
    &'r mut AllMore,
);

/// Takes the fast paths of keys, at most 256. The numbers of those that are left undecided come
/// into `left`, and how many they are is returned; of the others `ends` and `words` say how they
/// have ended.
pub(super) fn take_fast_paths<'k, L: Lookup>(
    table: &L,
    read: &mut Mapped<'_>,
    asked: &[impl Copy + Into<L::Asked<'k>>],
    results: (&mut [AnswerCode], &mut [u64], &mut [u8]),
) -> usize {
    let first = asked.first().map(|first| ((*first).into(), asked.len()));
    let view = read.view;
    if let Some(fast_path) = first.and_then(|first| table.fast_path(&view, first)) {
        return take_all(table, &fast_path, read, asked, results);
    }
    if let Some(fast_path) = first.and_then(|first| table.record_path(&view, first)) {
        return take_all(table, &fast_path, read, asked, results);
    }
    let (ends, _, left) = results;
    let all = (0..=u8::MAX).zip(left).zip(ends).take(asked.len());
    all.for_each(|((number, left), end)| (*left, *end) = (number, AnswerCode::ELSEWHERE));
    asked.len()
}

/// Takes the fast path of one operation; its answer, unless it is left undecided.
#[inline(always)]
pub(super) fn take_fast_path<L: Lookup>(
    table: &L,
    (view, read): (&InPlace<'_>, &mut Mapped<'_>),
    asked: L::Asked<'_>,
) -> Option<Answer> {
    if let Some(fast_path) = table.fast_path(view, (asked, 1)) {
        return take_one(table, &fast_path, read, asked);
    }
    let fast_path = table.record_path(view, (asked, 1))?;
    take_one(table, &fast_path, read, asked)
}

#[inline(always)]
fn take_one<L: Lookup, Asked: Copy>(
    table: &L,
    fast_path: &impl FastPath<Asked>,
    read: &mut Mapped<'_>,
    asked: Asked,
) -> Option<Answer> {
    let prepared = fast_path.prepare(asked, &read.view);
    let place = fast_path.place(asked, prepared, &read.view)?;
    read.view.acquire();
    let mut looked = fast_path.look_in(&place, read);
    if let FastPathResult::Fetching = looked {
        looked = fast_path.look_on(&place, &read.view);
    }
    read.view.acquire();
    let (mut end, mut word, mut more) = (AnswerCode::ELSEWHERE, 0, AllMore::default());
    let found = AnswerCode::word(fast_path.value_len());
    let progress = more.take((&mut end, &mut word), looked, found);
    if !matches!(progress, FastPathProgress::Ended) {
        return None;
    }
    book(table, fast_path, (1, more), &mut read.tally);
    Some(match end {
        AnswerCode::ABSENT => Ok(None),
        AnswerCode::KEPT => Ok(Some(read.kept_value(word))),
        _ => Ok(Some(Value::of_word(word, fast_path.value_len()))),
    })
}

/// Books what was decided, so many operations.
#[inline(always)]
fn book<Asked, G: FastPath<Asked>>(
    table: &impl Lookup,
    fast_path: &G,
    (decided, more): (usize, AllMore),
    tally: &mut Tally,
) {
    if !G::BOOKS {
        tally.usual_ended(more.unread as u64, Steps::default());
        tally.usual_ended((decided - more.unread) as u64, fast_path.usual());
        tally.took_more(more.reads, fast_path.more_bytes(), more.most);
        tally.took_swaps(more.swaps);
    }
    table.note_fast_paths(decided, more.many);
    fast_path.ended();
}

#[inline(never)]
fn take_all<Asked>(
    table: &impl Lookup,
    fast_path: &impl FastPath<Asked>,
    read: &mut Mapped<'_>,
    asked: &[impl Copy + Into<Asked>],
    (ends, words, left): (&mut [AnswerCode], &mut [u64], &mut [u8]),
) -> usize {
    let mut groups: [FastPathGroup<_, _>; GROUPS] =
        std::array::from_fn(|_| FastPathGroup::default());
    let mut lefts = 0;
    let mut more = AllMore::default();
    let (ends, _) = ends.as_chunks_mut::<GROUP>();
    let (words, _) = words.as_chunks_mut::<GROUP>();
    let chunk = |number: usize| {
        let behind = asked.get(number * GROUP..).unwrap_or(&[]);
        &behind[..behind.len().min(GROUP)]
    };
    for turn in 0..asked.len().div_ceil(GROUP) + GROUPS - 1 {
        groups[turn % GROUPS].prepare(fast_path, &read.view, chunk(turn));
        if turn >= 1 {
            groups[(turn - 1) % GROUPS].place(fast_path, &read.view, chunk(turn - 1));
        }
        for (back, is_first) in [(2, true), (3, false)] {
            let Some(number) = turn.checked_sub(back) else {
                break;
            };
            let (Some(ends), Some(words)) = (ends.get_mut(number), words.get_mut(number)) else {
                continue;
            };
            let group = &mut groups[number % GROUPS];
            let all = (ends, words, &mut more);
            let mut undecided = match is_first {
                true => group.look(fast_path, read, chunk(number).len(), all),
                false => group.look_on(fast_path, &read.view, all),
            };
            while undecided != 0 {
                left[lefts] = (number * GROUP) as u8 + undecided.trailing_zeros() as u8;
                lefts += 1;
                undecided &= undecided - 1;
            }
        }
    }
    read.view.acquire();
    book(
        table,
        fast_path,
        (asked.len() - lefts, more),
        &mut read.tally,
    );
    lefts
}

/// What all have taken besides the usual steps.
#[derive(Default)]
struct AllMore {
    reads: u64,
    swaps: u64,
    /// The most that one has taken.
    most: u32,
    /// Those that have taken [`MANY_READS`] in all.
    many: usize,
    /// Those for which nothing was read.
    unread: usize,
}

impl<Prepared: Copy + Default, Place: Copy> Default for FastPathGroup<Prepared, Place> {
    fn default() -> Self {
        Self {
            prepared: [Prepared::default(); GROUP],
            places: [None; GROUP],
            fetching: 0,
        }
    }
}

impl<Prepared: Copy, Place: Copy> FastPathGroup<Prepared, Place> {
    /// Prepares keys.
    #[inline(always)]
    fn prepare<Asked>(
        &mut self,
        fast_path: &impl FastPath<Asked, Prepared = Prepared, Place = Place>,
        view: &InPlace<'_>,
        asked: &[impl Copy + Into<Asked>],
    ) {
        for (asked, prepared) in asked.iter().zip(&mut self.prepared) {
            *prepared = fast_path.prepare((*asked).into(), view);
        }
    }

    /// Places keys that are prepared. A function of its own, as the next: so the processor's
    /// registers suffice.
    #[inline(never)]
    fn place<Asked>(
        &mut self,
        fast_path: &impl FastPath<Asked, Prepared = Prepared, Place = Place>,
        view: &InPlace<'_>,
        asked: &[impl Copy + Into<Asked>],
    ) {
        let keys = asked.iter().zip(&self.prepared).zip(&mut self.places);
        for ((asked, prepared), place) in keys {
            *place = fast_path.place((*asked).into(), *prepared, view);
        }
        // What is looked at next was published before the words that were seen.
        view.acquire();
        for place in self.places[..asked.len().min(GROUP)].iter().flatten() {
            fast_path.fetch(place, view);
        }
    }

    /// Looks at the first of the keys, so many; returns which are left undecided, a bit each.
    #[inline(never)]
    fn look<Asked>(
        &mut self,
        fast_path: &impl FastPath<Asked, Prepared = Prepared, Place = Place>,
        read: &mut Mapped<'_>,
        keys: usize,
        (ends, words, more): GroupEnds<'_>,
    ) -> u32 {
        let mut undecided = 0;
        self.fetching = 0;
        let found = AnswerCode::word(fast_path.value_len());
        for (number, place) in self.places[..keys.min(GROUP)].iter().enumerate() {
            let glanced = match place {
                Some(place) => fast_path.look_in(place, read),
                None => FastPathResult::Undecided,
            };
            match more.take((&mut ends[number], &mut words[number]), glanced, found) {
                FastPathProgress::Ended => {}
                FastPathProgress::Fetching => self.fetching |= 1 << number,
                FastPathProgress::Undecided => undecided |= 1 << number,
            }
        }
        undecided
    }

    /// Looks at what the first look has had fetched; returns which are left undecided.
    #[inline(always)]
    fn look_on<Asked>(
        &mut self,
        fast_path: &impl FastPath<Asked, Prepared = Prepared, Place = Place>,
        view: &InPlace<'_>,
        (ends, words, more): GroupEnds<'_>,
    ) -> u32 {
        let mut undecided = 0;
        let found = AnswerCode::word(fast_path.value_len());
        while self.fetching != 0 {
            let number = self.fetching.trailing_zeros() as usize % GROUP;
            self.fetching &= self.fetching - 1;
            let glanced = match &self.places[number] {
                Some(place) => fast_path.look_on(place, view),
                None => FastPathResult::Undecided,
            };
            let told = (&mut ends[number], &mut words[number]);
            if !matches!(more.take(told, glanced, found), FastPathProgress::Ended) {
                undecided |= 1 << number;
            }
        }
        undecided
    }
}

/// What has become of one key of a group.
enum FastPathProgress {
    Ended,
    Fetching,
    Undecided,
}

impl AllMore {
    /// Takes what a look has come to, and says `found` if that is a word.
    #[inline(always)]
    fn take(
        &mut self,
        (end, word): (&mut AnswerCode, &mut u64),
        glanced: FastPathResult,
        found: AnswerCode,
    ) -> FastPathProgress {
        let (answer, took_more) = match glanced {
            FastPathResult::Found(value, reads) => (Some(value), More { reads, swaps: 0 }),
            FastPathResult::Absent(reads) => (None, More { reads, swaps: 0 }),
            FastPathResult::AbsentUnread => {
                self.unread += 1;
                (None, More::default())
            }
            FastPathResult::Kept(kept) => {
                (*word, *end) = (kept, AnswerCode::KEPT);
                return FastPathProgress::Ended;
            }
            FastPathResult::Written(was, more) => (was, more),
            FastPathResult::Fetching => return FastPathProgress::Fetching,
            FastPathResult::Undecided => {
                *end = AnswerCode::ELSEWHERE;
                return FastPathProgress::Undecided;
            }
        };
        match answer {
            Some(value) => (*word, *end) = (value, found),
            None => *end = AnswerCode::ABSENT,
        }
        if took_more != More::default() {
            self.reads += u64::from(took_more.reads);
            self.swaps += u64::from(took_more.swaps);
            self.most = self.most.max(took_more.reads + took_more.swaps);
            self.many += usize::from(took_more.reads + 1 >= MANY_READS);
        }
        FastPathProgress::Ended
    }
}
