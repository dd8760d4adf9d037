//! A net as a model whose markings are packed: a few bits a place, with firing as word additions.
//!
//! How many tokens a place can hold is not known beforehand. [`PackedNet::sampled`] guesses the
//! bits from random walks. A guess that is too small is noticed exactly: the transition that would
//! overflow a place fails with [`StateOverflow`], and the exploration begins anew with
//! [`PackedNet::widened`].
//!
//! Where a marking would not fit into one word, places of which exactly one always has a token
//! (`exclusive`) share a field, which says which of them it is: a state is shorter then, mostly
//! one word, and takes a bucket of 8 bytes. Where that is not enough, places whose tokens follow
//! from others' (`dependent`) are left out, if the rest fits into one word: they are computed
//! anew for each state.

mod dependent;
mod layout;
mod step;

use crate::exclusive;
use crate::formula::Formula;
use crate::model::{Model, StateOverflow, Successors, Tokens};
use crate::net::Net;
use crate::order::places_in_order;
use crate::sample::Samples;
use crate::split;
use dependent::DependentPlace;
use layout::{BitField, Items, ONE_WORD, PlaceGroup, TokenLocation, bits_for, lay_out};
use std::sync::Arc;
use step::{Amount, Step, list_transitions, step};

/// Words of a state with the places behind them that follow from others, at most.
const MOST_WORDS: usize = 1 + dependent::MOST / 2;

/// A net whose markings are packed into words, with an optional invariant.
#[derive(Debug)]
pub struct PackedNet<'n> {
    net: &'n Net,
    invariant: Option<&'n Formula>,
    widths: Vec<u32>,
    samples: Arc<Samples>,
    /// By place.
    spots: Vec<TokenLocation>,
    groups: Vec<PlaceGroup>,
    dependent: Vec<DependentField>,
    bits: usize,
    /// The place to which each bit of each word belongs, where it is not a group's. Behind a
    /// state's words are those of dependent places.
    owner: Vec<u32>,
    /// The bits of each word that are no group's.
    owned: Vec<u64>,
    steps: Vec<Step>,
    /// Transitions that are tested only where this place has tokens: each is listed at one of the
    /// places that it needs.
    listed: Vec<Vec<u32>>,
    /// Transitions that need no tokens.
    free: Vec<u32>,
}

impl<'n> PackedNet<'n> {
    /// A net with so many bits a place as random walks from the initial marking needed.
    #[must_use]
    pub fn sampled(net: &'n Net, invariant: Option<&'n Formula>) -> Self {
        let samples = Arc::new(Samples::of(net));
        let widths = samples.largest.iter().map(|most| bits_for(*most));
        Self::packed(net, invariant, widths.collect(), samples, true)
    }

    /// The same net with more bits for a place that had no room, or `None` where it has 32 already.
    #[must_use]
    pub fn widened(&self, no_room: StateOverflow) -> Option<Self> {
        let mut widths = self.widths.clone();
        let width = &mut widths[no_room.part];
        if *width >= u32::BITS || no_room.value > u64::from(u32::MAX) {
            return None;
        }
        *width = (*width * 2).max(bits_for(no_room.value)).min(u32::BITS);
        let samples = Arc::clone(&self.samples);
        let packed = Self::packed(self.net, self.invariant, widths, samples, false);
        Some(packed)
    }

    /// A net with these numbers of bits for its places, each 1 to 32 and enough for the initial
    /// marking. Those of 1 may share a field.
    #[must_use]
    pub fn with_widths(net: &'n Net, invariant: Option<&'n Formula>, widths: Vec<u32>) -> Self {
        let samples = Arc::new(Samples::of(net));
        Self::packed(net, invariant, widths, samples, false)
    }

    fn packed(
        net: &'n Net,
        invariant: Option<&'n Formula>,
        mut widths: Vec<u32>,
        samples: Arc<Samples>,
        may_widen: bool,
    ) -> Self {
        widths.resize(net.places().len(), 1);
        for (width, place) in widths.iter_mut().zip(net.places()) {
            *width = (*width).clamp(bits_for(u64::from(place.initial)), u32::BITS);
        }
        let total: u32 = widths.iter().sum();
        let groups = match total as usize > ONE_WORD {
            true => exclusive::groups(net, &samples, |place| widths[place] == 1),
            false => Vec::new(),
        };
        let mut items = Items::new(&widths, groups);
        let dependent = items.without_dependent(net);
        if may_widen {
            items.use_spare_bits(&mut widths, &samples);
        }
        let mut order = items.in_order(&places_in_order(net));
        let (mut fields, mut bits) = lay_out(&items.widths, &order);
        if bits > ONE_WORD {
            let halves = bits.div_ceil(32);
            let side = |field: &BitField| {
                let at = 2 * field.word + (field.shift / 32) as usize;
                split::side_of(at, halves)
            };
            let sides: Vec<usize> = fields.iter().map(side).collect();
            split::improve(&mut order, &sides, &items.widths, &items.markings(&samples));
            (fields, bits) = lay_out(&items.widths, &order);
        }
        let words = bits.div_ceil(64);
        for (number, dependent) in dependent.iter().enumerate() {
            fields[items.of_place[dependent.place].0] = BitField {
                word: words + number / 2,
                shift: 32 * (number % 2) as u32,
                most: u32::MAX.into(),
            };
        }
        let spots = items.spots(&fields);
        let all_words = words + dependent.len().div_ceil(2);
        let (mut owner, mut owned) = (vec![0; all_words * 64], vec![0; all_words]);
        for (place, spot) in spots.iter().enumerate() {
            match spot {
                TokenLocation::Own(field) => {
                    let start = field.word * 64 + field.shift as usize;
                    let width = field.most.count_ones() as usize;
                    owner[start..start + width].fill(place as u32);
                    owned[field.word] |= field.most << field.shift;
                }
                // It has no bits of its own.
                TokenLocation::Member(..) => widths[place] = 0,
            }
        }
        let groups = items.groups(&fields);
        let (listed, free) = list_transitions(net);
        let steps = net.transitions().iter();
        let steps = steps
            .map(|transition| step(&transition.effects(), &spots, words))
            .collect();
        let dependent = dependent.iter();
        let dependent = dependent.map(|place| DependentField::new(place, &spots));
        Self {
            net,
            invariant,
            widths,
            samples,
            dependent: dependent.collect(),
            spots,
            groups,
            bits,
            owner,
            owned,
            steps,
            listed,
            free,
        }
    }

    /// Bits of each place, also where it needs none, as its tokens follow from others'; 0 where it
    /// has none of its own.
    #[must_use]
    pub fn widths(&self) -> &[u32] {
        &self.widths
    }

    /// The tokens of each place.
    #[must_use]
    pub fn marking(&self, state: &[u64]) -> Vec<u64> {
        self.with_dependent(state, |state| {
            self.spots.iter().map(|spot| spot.of(state)).collect()
        })
    }

    /// Calls `with` with a state's words and, behind them, those of dependent places.
    #[inline]
    fn with_dependent<T>(&self, state: &[u64], with: impl FnOnce(&[u64]) -> T) -> T {
        if self.dependent.is_empty() {
            return with(state);
        }
        let mut words = [0; MOST_WORDS];
        // All others are in the one word of the state.
        words[0] = state[0];
        for place in &self.dependent {
            words[place.field.word] |= place.tokens(state[0]) << place.field.shift;
        }
        with(&words[..self.owned.len()])
    }

    /// Calls `each` with every place that has tokens, and their number. `state` has the words of
    /// dependent places.
    #[inline]
    fn marked(&self, state: &[u64], mut each: impl FnMut(usize, u64)) {
        for (word, &bits) in state.iter().enumerate() {
            let mut rest = bits & self.owned[word];
            while rest != 0 {
                let place = self.owner[word * 64 + rest.trailing_zeros() as usize] as usize;
                // Only places with fields of their own are owners.
                let TokenLocation::Own(field) = self.spots[place] else {
                    break;
                };
                each(place, (bits >> field.shift) & field.most);
                rest &= !(field.most << field.shift);
            }
        }
        for group in &self.groups {
            // Of a state that is reachable it is one of them.
            if let Some(place) = group.places.get(group.field.of(state) as usize) {
                each(*place as usize, 1);
            }
        }
    }

    #[inline]
    fn fire(&self, number: u32, state: &[u64], out: &mut Successors) -> Result<(), StateOverflow> {
        let step = &self.steps[number as usize];
        let is_set = step.set.iter().all(|bits| bits.are_in(state));
        if !is_set || !step.needs.iter().all(|a| a.field.of(state) >= a.tokens) || step.is_dead {
            return Ok(());
        }
        if !step.clear.iter().all(|bits| bits.are_in(state)) {
            return Err(self.first_without_room(number, state));
        }
        for Amount {
            place,
            field,
            tokens,
        } in &step.room
        {
            let value = field.of(state) + tokens;
            if value > field.most {
                return Err(StateOverflow {
                    part: *place,
                    value,
                });
            }
        }
        let next = out.push(number, &state[..self.bits.div_ceil(64)]);
        for &(word, add) in &step.add {
            next[word] = next[word].wrapping_add(add);
        }
        Ok(())
    }

    #[cold]
    fn first_without_room(&self, number: u32, state: &[u64]) -> StateOverflow {
        let effects = self.net.transitions()[number as usize].effects();
        let over = effects.iter().find_map(|effect| {
            let TokenLocation::Own(field) = self.spots[effect.place] else {
                return None;
            };
            let value = field.of(state).saturating_add_signed(effect.change);
            let part = effect.place;
            (value > field.most).then_some(StateOverflow { part, value })
        });
        over.expect("a place of one bit holds a token and gets another")
    }
}

/// A dependent place: where its tokens go, and what they are computed from.
#[derive(Debug)]
struct DependentField {
    field: BitField,
    constant: i64,
    terms: Vec<(BitField, i64)>,
}

impl DependentField {
    fn new(place: &DependentPlace, spots: &[TokenLocation]) -> Self {
        let field = |place: usize| match spots[place] {
            TokenLocation::Own(field) | TokenLocation::Member(field, _) => field,
        };
        let terms = place.terms.iter();
        Self {
            field: field(place.place),
            constant: place.constant,
            terms: terms
                .map(|(other, factor)| (field(*other), *factor))
                .collect(),
        }
    }

    /// In a marking that can be reached, neither less than 0 nor more than a field has room for.
    #[inline]
    fn tokens(&self, word: u64) -> u64 {
        let terms = self.terms.iter();
        let sum = terms.fold(self.constant, |sum, (field, factor)| {
            let tokens = (word >> field.shift) & field.most;
            sum.wrapping_add(factor.wrapping_mul(tokens.cast_signed()))
        });
        sum.cast_unsigned() & self.field.most
    }
}

impl Model for PackedNet<'_> {
    fn bits(&self) -> usize {
        self.bits
    }

    fn initial(&self) -> Vec<Vec<u64>> {
        let mut state = vec![0; self.bits.div_ceil(64)];
        for (spot, place) in self.spots.iter().zip(self.net.places()) {
            match spot {
                TokenLocation::Own(field) => {
                    if let Some(word) = state.get_mut(field.word) {
                        *word |= u64::from(place.initial) << field.shift;
                    }
                }
                TokenLocation::Member(field, value) if place.initial == 1 => {
                    state[field.word] |= value << field.shift;
                }
                TokenLocation::Member(..) => {}
            }
        }
        vec![state]
    }

    #[inline]
    fn successors(&self, state: &[u64], out: &mut Successors) -> Result<(), StateOverflow> {
        self.with_dependent(state, |state| {
            for &transition in &self.free {
                self.fire(transition, state, out)?;
            }
            let mut failed = None;
            self.marked(state, |place, _| {
                for &transition in &self.listed[place] {
                    if let Err(no_room) = self.fire(transition, state, out) {
                        failed = Some(no_room);
                    }
                }
            });
            failed.map_or(Ok(()), Err)
        })
    }

    fn invariant(&self, state: &[u64]) -> bool {
        let Some(formula) = self.invariant else {
            return true;
        };
        self.with_dependent(state, |state| {
            formula.holds(&|place| self.spots[place].of(state))
        })
    }

    fn tokens(&self, state: &[u64]) -> Option<Tokens> {
        let mut tokens = Tokens::default();
        self.with_dependent(state, |state| {
            self.marked(state, |_, here| {
                tokens.in_place = tokens.in_place.max(here);
                tokens.in_state += here;
            });
        });
        Some(tokens)
    }

    fn action(&self, action: u32) -> String {
        self.net.transitions()[action as usize].id.clone()
    }

    fn show(&self, state: &[u64]) -> String {
        let mut marked = Vec::new();
        self.with_dependent(state, |state| {
            self.marked(state, |place, tokens| marked.push((place, tokens)));
        });
        self.net.show(marked)
    }
}
