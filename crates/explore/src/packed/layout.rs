//! Where a marking's places are in the words of a state.

use super::dependent::{DependentPlace, dependent_places};
use crate::net::Net;
use crate::sample::Samples;

/// Some bits of a state.
#[derive(Debug, Clone, Copy)]
pub(super) struct BitField {
    pub(super) word: usize,
    pub(super) shift: u32,
    /// The largest number that fits.
    pub(super) most: u64,
}

impl BitField {
    #[inline]
    pub(super) fn of(self, state: &[u64]) -> u64 {
        (state[self.word] >> self.shift) & self.most
    }
}

/// Where a place's tokens are.
#[derive(Debug, Clone, Copy)]
pub(super) enum TokenLocation {
    /// Their number is in a field.
    Own(BitField),
    /// The place has its one token where the field of its group has this value.
    Member(BitField, u64),
}

impl TokenLocation {
    #[inline]
    pub(super) fn of(self, state: &[u64]) -> u64 {
        match self {
            Self::Own(field) => field.of(state),
            Self::Member(field, value) => u64::from(field.of(state) == value),
        }
    }
}

/// Places that share a field, which has the position of the one with the token.
#[derive(Debug)]
pub(super) struct PlaceGroup {
    pub(super) field: BitField,
    pub(super) places: Vec<u32>,
}

pub(super) fn bits_for(tokens: u64) -> u32 {
    (u64::BITS - tokens.leading_zeros()).max(1)
}

/// States of so many bits are stored as they are, in one word.
pub(super) const ONE_WORD: usize = 63;
/// Halves of words, of which longer states have at least so many.
pub(super) const LEAST_HALVES: usize = 4;

/// Puts fields of these widths into words, in this order, and returns them with the bits of a
/// state. Long states are spread evenly over the halves of their words, so that none of the pairs
/// that they are compressed to takes most of the information. No field lies in two halves.
pub(super) fn lay_out(widths: &[u32], order: &[usize]) -> (Vec<BitField>, usize) {
    let total: usize = widths.iter().map(|width| *width as usize).sum();
    let spans_words = total > ONE_WORD;
    let halves = total.div_ceil(32).next_multiple_of(2).max(LEAST_HALVES);
    let share = total.div_ceil(halves);
    let nowhere = BitField {
        word: 0,
        shift: 0,
        most: 0,
    };
    let mut fields = vec![nowhere; widths.len()];
    let mut at = 0;
    for &place in order {
        let width = widths[place] as usize;
        let used = at % 32;
        if spans_words && (used >= share || used + width > 32) {
            at = at.next_multiple_of(32);
        }
        fields[place] = BitField {
            word: at / 64,
            shift: (at % 64) as u32,
            most: (1 << width) - 1,
        };
        at += width;
    }
    let least = if spans_words { LEAST_HALVES * 32 } else { 1 };
    (fields, at.max(least))
}

/// What gets a field: a group of places, or a place that belongs to none.
pub(super) struct Items {
    /// By item: groups first.
    pub(super) widths: Vec<u32>,
    pub(super) of_group: Vec<Vec<usize>>,
    /// By place: its item, and its position in the group if that is one.
    pub(super) of_place: Vec<(usize, u64)>,
}

impl Items {
    pub(super) fn new(widths: &[u32], groups: Vec<Vec<usize>>) -> Self {
        let mut of_place = vec![None; widths.len()];
        let mut of_items = Vec::new();
        for (item, group) in groups.iter().enumerate() {
            for (position, place) in group.iter().enumerate() {
                of_place[*place] = Some((item, position as u64));
            }
            of_items.push(bits_for(group.len() as u64 - 1));
        }
        let of_place = of_place.into_iter().zip(widths).map(|(member, width)| {
            member.unwrap_or_else(|| {
                of_items.push(*width);
                (of_items.len() - 1, 0)
            })
        });
        let of_place = of_place.collect();
        Self {
            widths: of_items,
            of_group: groups,
            of_place,
        }
    }

    /// Takes away the bits of places whose tokens follow from others', if what is left fits into
    /// one word, and did not before.
    pub(super) fn without_dependent(&mut self, net: &Net) -> Vec<DependentPlace> {
        let bits: u32 = self.widths.iter().sum();
        if bits as usize <= ONE_WORD {
            return Vec::new();
        }
        let is_own = |place: usize| self.of_place[place].0 >= self.of_group.len();
        let dependent = dependent_places(net, is_own);
        let items = dependent.iter().map(|place| self.of_place[place.place].0);
        let saved: u32 = items.clone().map(|item| self.widths[item]).sum();
        if (bits - saved) as usize > ONE_WORD {
            return Vec::new();
        }
        let items: Vec<usize> = items.collect();
        for item in items {
            self.widths[item] = 0;
        }
        dependent
    }

    /// Gives the bits that are left of one word to places that may turn out to need them: first to
    /// those of which samples had as many tokens as their bits say.
    pub(super) fn use_spare_bits(&mut self, widths: &mut [u32], samples: &Samples) {
        let bits: u32 = self.widths.iter().sum();
        let spare = ONE_WORD.saturating_sub(bits as usize);
        let room = |place: usize| (1 << widths[place]) - 1 - samples.largest[place];
        let mut places: Vec<usize> = (0..widths.len())
            .filter(|&place| {
                (2..u32::BITS).contains(&widths[place]) && self.widths[self.of_place[place].0] > 0
            })
            .collect();
        places.sort_by_key(|&place| room(place));
        for place in places.into_iter().take(spare) {
            widths[place] += 1;
            self.widths[self.of_place[place].0] += 1;
        }
    }

    /// The items in the order of the first of their places.
    pub(super) fn in_order(&self, places: &[usize]) -> Vec<usize> {
        let mut is_there = vec![false; self.widths.len()];
        let items = places.iter().map(|place| self.of_place[*place].0);
        let first = items.filter(|item| !std::mem::replace(&mut is_there[*item], true));
        first.collect()
    }

    /// The samples with a number for each item.
    pub(super) fn markings(&self, samples: &Samples) -> Samples {
        let of_marking = |marking: &Vec<u64>| {
            let mut of_items = vec![0; self.widths.len()];
            for (place, tokens) in marking.iter().enumerate() {
                let (item, position) = self.of_place[place];
                of_items[item] += match item < self.of_group.len() {
                    true => tokens * position,
                    false => *tokens,
                };
            }
            of_items
        };
        Samples {
            largest: Vec::new(),
            markings: samples.markings.iter().map(of_marking).collect(),
        }
    }

    pub(super) fn spots(&self, fields: &[BitField]) -> Vec<TokenLocation> {
        let spot = |(item, position): &(usize, u64)| match *item < self.of_group.len() {
            true => TokenLocation::Member(fields[*item], *position),
            false => TokenLocation::Own(fields[*item]),
        };
        self.of_place.iter().map(spot).collect()
    }

    pub(super) fn groups(self, fields: &[BitField]) -> Vec<PlaceGroup> {
        let groups = self.of_group.into_iter().zip(fields);
        let groups = groups.map(|(places, field)| PlaceGroup {
            field: *field,
            places: places.into_iter().map(|place| place as u32).collect(),
        });
        groups.collect()
    }
}
