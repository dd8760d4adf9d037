//! Glances at many keys, in groups: while one group is hashed, what the one before it wants is fetched,
//! and what the one before that has asked for is looked at.

use super::glance::{Glance, Glanced};
use super::lookup::{Lookup, MANY_READS};
use crate::answers::End;
use farslot_fabric::{InPlace, Tally};

/// Keys of a group.
const GROUP: usize = 16;

/// The keys of a group, as far as they have come.
struct Group<Prepared, Place> {
    prepared: [Prepared; GROUP],
    places: [Place; GROUP],
    /// Those that have a place, a bit each.
    placed: u32,
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
    let mut more = MoreReads::default();
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
    tally.took_more(more.reads, glance.more_bytes(), more.most);
    table.glanced(decided, more.many);
    lefts
}

/// READs behind the usual steps.
#[derive(Default)]
struct MoreReads {
    reads: u64,
    /// The most that a lookup has taken.
    most: u32,
    /// Lookups that have taken [`MANY_READS`] in all.
    many: usize,
}

impl<Prepared: Copy + Default, Place: Copy + Default> Default for Group<Prepared, Place> {
    fn default() -> Self {
        Self {
            prepared: [Prepared::default(); GROUP],
            places: [Place::default(); GROUP],
            placed: 0,
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
        self.placed = 0;
        for (number, asked) in asked.iter().take(GROUP).enumerate() {
            if let Some(place) = glance.place(*asked, self.prepared[number], view) {
                self.places[number] = place;
                self.placed |= 1 << number;
            }
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
        more: &mut MoreReads,
    ) -> u32 {
        let mut undecided = 0;
        let found = End::word(glance.value_len());
        for number in 0..keys.min(GROUP) {
            let glanced = match self.placed >> number & 1 {
                0 => Glanced::Undecided,
                _ => glance.look(&self.places[number], view),
            };
            let took_more = match glanced {
                Glanced::Found(value, took_more) => {
                    words[number] = value;
                    ends[number] = found;
                    took_more
                }
                Glanced::Absent(took_more) => {
                    ends[number] = End::ABSENT;
                    took_more
                }
                Glanced::Undecided => {
                    ends[number] = End::ELSEWHERE;
                    undecided |= 1 << number;
                    continue;
                }
            };
            if took_more > 0 {
                more.reads += u64::from(took_more);
                more.most = more.most.max(took_more);
                more.many += usize::from(took_more + 1 >= MANY_READS);
            }
        }
        undecided
    }
}
