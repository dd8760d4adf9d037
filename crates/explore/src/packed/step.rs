//! What a transition tests and changes in the words of a state.

use super::layout::{BitField, TokenLocation};
use crate::net::{Net, PlaceEffect};

/// Bits of a word that must be as they are in `value`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bits {
    pub(super) word: usize,
    pub(super) mask: u64,
    pub(super) value: u64,
}

impl Bits {
    #[inline]
    pub(super) fn are_in(&self, state: &[u64]) -> bool {
        state[self.word] & self.mask == self.value
    }
}

/// Tokens that a place of several bits must have, or must have room for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Amount {
    pub(super) place: usize,
    pub(super) field: BitField,
    pub(super) tokens: u64,
}

#[derive(Debug, Default)]
pub(super) struct Step {
    /// Bits that places of one bit, and groups, must have.
    pub(super) set: Vec<Bits>,
    /// Places that must hold so many tokens.
    pub(super) needs: Vec<Amount>,
    /// Bits that must be clear once it is enabled, or it overflows.
    pub(super) clear: Vec<Bits>,
    /// Places that must have room.
    pub(super) room: Vec<Amount>,
    /// What is added to each word. Fields neither overflow nor go below zero, so that one addition
    /// changes all fields of a word.
    pub(super) add: Vec<(usize, u64)>,
    /// It needs two places of a group, and so never is enabled.
    pub(super) is_dead: bool,
}

/// Lists each transition at the place, of those that it needs, that the fewest transitions need.
pub(super) fn list_transitions(net: &Net) -> (Vec<Vec<u32>>, Vec<u32>) {
    let mut takers = vec![0_u32; net.places().len()];
    for arc in net
        .transitions()
        .iter()
        .flat_map(|transition| &transition.takes)
    {
        takers[arc.place] += 1;
    }
    let mut listed = vec![Vec::new(); net.places().len()];
    let mut free = Vec::new();
    for (number, transition) in net.transitions().iter().enumerate() {
        let places = transition.takes.iter().map(|arc| arc.place);
        match places.min_by_key(|&place| takers[place]) {
            Some(place) => listed[place].push(number as u32),
            None => free.push(number as u32),
        }
    }
    (listed, free)
}

/// A transition with these effects, in states of so many words.
pub(super) fn step(effects: &[PlaceEffect], spots: &[TokenLocation], words: usize) -> Step {
    let mut step = Step::default();
    for effect in effects {
        let (field, change) = match spots[effect.place] {
            TokenLocation::Own(field) => {
                own_effect(&mut step, effect, field);
                (field, effect.change.cast_unsigned())
            }
            TokenLocation::Member(field, value) => {
                let bits = Bits {
                    word: field.word,
                    mask: field.most << field.shift,
                    value: value << field.shift,
                };
                if effect.needs > 0 {
                    step.is_dead |= !gather(&mut step.set, bits);
                }
                (field, effect.change.cast_unsigned().wrapping_mul(value))
            }
        };
        let change = change << field.shift;
        match step.add.iter_mut().find(|(word, _)| *word == field.word) {
            Some((_, add)) => *add = add.wrapping_add(change),
            None => step.add.push((field.word, change)),
        }
    }
    // What follows from other places is behind the state's words.
    step.add.retain(|(word, add)| *add != 0 && *word < words);
    step
}

/// What a transition needs of a place with a field of its own.
fn own_effect(step: &mut Step, effect: &PlaceEffect, field: BitField) {
    let amount = |tokens: u64| Amount {
        place: effect.place,
        field,
        tokens,
    };
    let mask = 1 << field.shift;
    let bit = |value| Bits {
        word: field.word,
        mask,
        value,
    };
    let needs = u64::from(effect.needs);
    if needs == 1 && field.most == 1 {
        gather(&mut step.set, bit(mask));
    } else if needs > 0 {
        step.needs.push(amount(needs));
    }
    if effect.change == 1 && field.most == 1 {
        gather(&mut step.clear, bit(0));
    } else if effect.change > 0 {
        step.room.push(amount(effect.change.unsigned_abs()));
    }
}

/// Adds bits to those that are needed; false if they are needed otherwise already.
fn gather(all: &mut Vec<Bits>, one: Bits) -> bool {
    match all.iter_mut().find(|bits| bits.word == one.word) {
        Some(bits) => {
            let agree = (bits.value ^ one.value) & bits.mask & one.mask == 0;
            bits.mask |= one.mask;
            bits.value |= one.value;
            agree
        }
        None => {
            all.push(one);
            true
        }
    }
}
