//! Glances at many keys, in groups: while one group is hashed, what the one before it wants is fetched,
//! and what the one before that has asked for is looked at.

use super::glance::{Glance, Glanced, More};
use super::lookup::Lookup;
use crate::answers::End;
use crate::client::MANY_READS;
use farslot_fabric::{InPlace, Tally};

/// Keys of a group.
const GROUP: usize = 16;

/// The keys of a group, as far as they have come.
struct Group<Prepared, Place> {
    prepared: [Prepared; GROUP],
    /// Of those that have one.
    places: [Option<Place>; GROUP],
}

/// Glances at keys, at most 256. The numbers of those that are left undecided come into `left`, and
/// how many they are is returned; of the others `ends` and `words` say how they have ended.
#[inline(never)]
pub(super) fn glance_at<'k, L: Lookup>(
    table: &L,
    view: InPlace<'_>,
    asked: &[L::Asked<'k>],
    (ends, words): (&mut [End], &mut [u64]),
    (left, tally): (&mut [u8], &mut Tally),
) -> usize {
    let Some(glance) = table.glance(&view, asked) else {
        let all = (0..=u8::MAX).zip(left).zip(ends).take(asked.len());
        all.for_each(|((number, left), end)| (*left, *end) = (number, End::ELSEWHERE));
        return asked.len();
    };
    let mut groups: [Group<_, _>; 3] = std::array::from_fn(|_| Group::default());
    let mut lefts = 0;
    let mut more = AllMore::default();
    let (ends, _) = ends.as_chunks_mut::<GROUP>();
    let (words, _) = words.as_chunks_mut::<GROUP>();
    let mut results = ends.iter_mut().zip(words).enumerate();
    let chunk = |number: usize| {
        let behind = asked.get(number * GROUP..).unwrap_or(&[]);
        &behind[..behind.len().min(GROUP)]
    };
    for turn in 0..asked.len().div_ceil(GROUP) + 2 {
        groups[turn % 3].prepare(&glance, &view, chunk(turn));
        if turn >= 1 {
            groups[(turn - 1) % 3].place(&glance, &view, chunk(turn - 1));
        }
        if turn >= 2
            && let Some((number, results)) = results.next()
        {
            let keys = chunk(number).len();
            let mut undecided = groups[number % 3].look(&glance, &view, keys, results, &mut more);
            while undecided != 0 {
                left[lefts] = (number * GROUP) as u8 + undecided.trailing_zeros() as u8;
                lefts += 1;
                undecided &= undecided - 1;
            }
        }
    }
    view.acquire();
    let decided = asked.len() - lefts;
    tally.usual_ended(decided as u64, glance.usual());
    match takes_more_beside(&glance) {
        true => tally.took_beside(more.reads, glance.more_bytes()),
        false => tally.took_more(more.reads, glance.more_bytes(), more.most),
    }
    tally.took_swaps(more.swaps);
    table.glanced(decided, more.many);
    glance.ended();
    lefts
}

/// Whether READs besides the usual ones are side by side with those.
const fn takes_more_beside<Asked, G: Glance<Asked>>(_: &G) -> bool {
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
}

impl<Prepared: Copy + Default, Place: Copy> Default for Group<Prepared, Place> {
    fn default() -> Self {
        Self {
            prepared: [Prepared::default(); GROUP],
            places: [None; GROUP],
        }
    }
}

impl<Prepared: Copy, Place: Copy> Group<Prepared, Place> {
    /// Prepares keys.
    #[inline(always)]
    fn prepare<Asked: Copy>(
        &mut self,
        glance: &impl Glance<Asked, Prepared = Prepared, Place = Place>,
        view: &InPlace<'_>,
        asked: &[Asked],
    ) {
        for (asked, prepared) in asked.iter().zip(&mut self.prepared) {
            *prepared = glance.prepare(*asked, view);
        }
    }

    /// Places keys that are prepared. A function of its own, as the next: so the processor's registers
    /// suffice.
    #[inline(never)]
    fn place<Asked: Copy>(
        &mut self,
        glance: &impl Glance<Asked, Prepared = Prepared, Place = Place>,
        view: &InPlace<'_>,
        asked: &[Asked],
    ) {
        let keys = asked.iter().zip(&self.prepared).zip(&mut self.places);
        for ((asked, prepared), place) in keys {
            *place = glance.place(*asked, *prepared, view);
        }
    }

    /// Looks at the first of the keys, so many; returns which are left undecided, a bit each.
    #[inline(never)]
    fn look<Asked>(
        &self,
        glance: &impl Glance<Asked, Prepared = Prepared, Place = Place>,
        view: &InPlace<'_>,
        keys: usize,
        (ends, words): (&mut [End; GROUP], &mut [u64; GROUP]),
        more: &mut AllMore,
    ) -> u32 {
        let mut undecided = 0;
        let found = End::word(glance.value_len());
        let keys = keys.min(GROUP);
        let ends = &mut ends[..keys];
        let results = self.places[..keys].iter().zip(ends).zip(&mut words[..keys]);
        for (number, ((place, end), word)) in results.enumerate() {
            let glanced = match place {
                Some(place) => glance.look(place, view),
                None => Glanced::Undecided,
            };
            let (answer, took_more) = match glanced {
                Glanced::Found(value, reads) => (Some(value), More { reads, swaps: 0 }),
                Glanced::Absent(reads) => (None, More { reads, swaps: 0 }),
                Glanced::Written(was, more) => (was, more),
                Glanced::Undecided => {
                    *end = End::ELSEWHERE;
                    undecided |= 1 << number;
                    continue;
                }
            };
            match answer {
                Some(value) => (*word, *end) = (value, found),
                None => *end = End::ABSENT,
            }
            if took_more != More::default() {
                more.reads += u64::from(took_more.reads);
                more.swaps += u64::from(took_more.swaps);
                more.most = more.most.max(took_more.reads + took_more.swaps);
                more.many += usize::from(took_more.reads + 1 >= MANY_READS);
            }
        }
        undecided
    }
}
