//! Fast paths of many keys, in groups: while one group is hashed, what the one before it wants is
//! fetched, what the one before that has asked for is looked at, and of the one before that what
//! lay behind it.

use super::fast_path::{FastPath, FastPathResult, More};
use super::lookup::Lookup;
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

/// How the keys of a group have ended, and what they took.
struct GroupEnds<'r> {
    ends: &'r mut [AnswerCode; GROUP],
    words: &'r mut [u64; GROUP],
    more: &'r mut AllMore,
}

/// Takes the fast paths of keys, at most 256. The numbers of those that are left undecided come
/// into `left`, and how many they are is returned; of the others `ends` and `words` say how they
/// have ended.
#[inline(never)]
pub(super) fn take_fast_paths<'k, L: Lookup>(
    table: &L,
    view: InPlace<'_>,
    asked: &[impl Copy + Into<L::Asked<'k>>],
    (ends, words): (&mut [AnswerCode], &mut [u64]),
    (left, tally): (&mut [u8], &mut Tally),
) -> usize {
    let fast_path = asked.first().map(|first| ((*first).into(), asked.len()));
    let Some(fast_path) = fast_path.and_then(|asked| table.fast_path(&view, asked)) else {
        let all = (0..=u8::MAX).zip(left).zip(ends).take(asked.len());
        all.for_each(|((number, left), end)| (*left, *end) = (number, AnswerCode::ELSEWHERE));
        return asked.len();
    };
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
        groups[turn % GROUPS].prepare(&fast_path, &view, chunk(turn));
        if turn >= 1 {
            groups[(turn - 1) % GROUPS].place(&fast_path, &view, chunk(turn - 1));
        }
        for (back, is_first) in [(2, true), (3, false)] {
            let Some(number) = turn.checked_sub(back) else {
                break;
            };
            let (Some(ends), Some(words)) = (ends.get_mut(number), words.get_mut(number)) else {
                continue;
            };
            let group = &mut groups[number % GROUPS];
            let all = GroupEnds {
                ends,
                words,
                more: &mut more,
            };
            let mut undecided = match is_first {
                true => group.look(&fast_path, &view, chunk(number).len(), all),
                false => group.look_on(&fast_path, &view, all),
            };
            while undecided != 0 {
                left[lefts] = (number * GROUP) as u8 + undecided.trailing_zeros() as u8;
                lefts += 1;
                undecided &= undecided - 1;
            }
        }
    }
    view.acquire();
    let decided = asked.len() - lefts;
    tally.usual_ended(more.unread as u64, Steps::default());
    tally.usual_ended((decided - more.unread) as u64, fast_path.usual());
    match takes_more_beside(&fast_path) {
        true => tally.took_beside(more.reads, fast_path.more_bytes()),
        false => tally.took_more(more.reads, fast_path.more_bytes(), more.most),
    }
    tally.took_swaps(more.swaps);
    table.note_fast_paths(decided, more.many);
    fast_path.ended();
    lefts
}

/// Whether READs besides the usual ones are side by side with those.
const fn takes_more_beside<Asked, G: FastPath<Asked>>(_: &G) -> bool {
    G::MORE_BESIDE
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
        for place in self.places[..asked.len().min(GROUP)].iter().flatten() {
            fast_path.fetch(place, view);
        }
    }

    /// Looks at the first of the keys, so many; returns which are left undecided, a bit each.
    #[inline(never)]
    fn look<Asked>(
        &mut self,
        fast_path: &impl FastPath<Asked, Prepared = Prepared, Place = Place>,
        view: &InPlace<'_>,
        keys: usize,
        mut all: GroupEnds<'_>,
    ) -> u32 {
        let mut undecided = 0;
        self.fetching = 0;
        let found = AnswerCode::word(fast_path.value_len());
        for (number, place) in self.places[..keys.min(GROUP)].iter().enumerate() {
            let glanced = match place {
                Some(place) => fast_path.look(place, view),
                None => FastPathResult::Undecided,
            };
            match all.take(number, glanced, found) {
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
        mut all: GroupEnds<'_>,
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
            if !matches!(all.take(number, glanced, found), FastPathProgress::Ended) {
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

impl GroupEnds<'_> {
    /// Takes what a look at a key has come to, and says `found` of those that have a value.
    #[inline(always)]
    fn take(
        &mut self,
        number: usize,
        glanced: FastPathResult,
        found: AnswerCode,
    ) -> FastPathProgress {
        let (end, word) = (&mut self.ends[number], &mut self.words[number]);
        let (answer, took_more) = match glanced {
            FastPathResult::Found(value, reads) => (Some(value), More { reads, swaps: 0 }),
            FastPathResult::Absent(reads) => (None, More { reads, swaps: 0 }),
            FastPathResult::AbsentUnread => {
                self.more.unread += 1;
                (None, More::default())
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
            let more = &mut self.more;
            more.reads += u64::from(took_more.reads);
            more.swaps += u64::from(took_more.swaps);
            more.most = more.most.max(took_more.reads + took_more.swaps);
            more.many += usize::from(took_more.reads + 1 >= MANY_READS);
        }
        FastPathProgress::Ended
    }
}
