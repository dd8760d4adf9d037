//! A net as a model whose markings are packed: a few bits a place, with firing as word additions.
//!
//! How many tokens a place can hold is not known beforehand. [`PackedNet::sampled`] guesses the
//! bits from random walks. A guess that is too small is noticed exactly: the transition that would
//! overflow a place fails with [`StateOverflow`], and the exploration begins anew with
//! [`PackedNet::widened`].
//!
//! Where a marking would not fit into one word, places of which exactly one always has a token
//! (`exclusive`) share a field, which says which of them it is: a state is shorter then, mostly
//! one word, and takes a bucket of 8 bytes.

use crate::exclusive;
use crate::formula::Formula;
use crate::model::{Model, StateOverflow, Successors, Tokens};
use crate::net::Net;
use crate::order::places_in_order;
use crate::sample::Samples;
use crate::split;
use std::sync::Arc;

/// Some bits of a state.
#[derive(Debug, Clone, Copy)]
struct BitField {
    word: usize,
    shift: u32,
    /// The largest number that fits.
    most: u64,
}

impl BitField {
    #[inline]
    fn of(self, state: &[u64]) -> u64 {
        (state[self.word] >> self.shift) & self.most
    }
}

/// Where a place's tokens are.
#[derive(Debug, Clone, Copy)]
enum TokenLocation {
    /// Their number is in a field.
    Own(BitField),
    /// The place has its one token where the field of its group has this value.
    Member(BitField, u64),
}

impl TokenLocation {
    #[inline]
    fn of(self, state: &[u64]) -> u64 {
        match self {
            Self::Own(field) => field.of(state),
            Self::Member(field, value) => u64::from(field.of(state) == value),
        }
    }
}

/// Places that share a field, which has the position of the one with the token.
#[derive(Debug)]
struct PlaceGroup {
    field: BitField,
    places: Vec<u32>,
}

/// Bits of a word that must be as they are in `value`.
#[derive(Debug, Clone, Copy)]
struct Bits {
    word: usize,
    mask: u64,
    value: u64,
}

impl Bits {
    #[inline]
    fn are_in(&self, state: &[u64]) -> bool {
        state[self.word] & self.mask == self.value
    }
}

/// Tokens that a place of several bits must have, or must have room for.
#[derive(Debug, Clone, Copy)]
struct Amount {
    place: usize,
    field: BitField,
    tokens: u64,
}

#[derive(Debug, Default)]
struct Step {
    /// Bits that places of one bit, and groups, must have.
    set: Vec<Bits>,
    /// Places that must hold so many tokens.
    needs: Vec<Amount>,
    /// Bits that must be clear once it is enabled, or it overflows.
    clear: Vec<Bits>,
    /// Places that must have room.
    room: Vec<Amount>,
    /// What is added to each word. Fields neither overflow nor go below zero, so that one addition
    /// changes all fields of a word.
    add: Vec<(usize, u64)>,
    /// It needs two places of a group, and so never is enabled.
    is_dead: bool,
}

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
    bits: usize,
    /// The place to which each bit of each word belongs, where it is not a group's.
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
        Self::packed(net, invariant, widths.collect(), samples)
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
        Some(Self::packed(self.net, self.invariant, widths, samples))
    }

    /// A net with these numbers of bits for its places, each 1 to 32 and enough for the initial
    /// marking. Those of 1 may share a field.
    #[must_use]
    pub fn with_widths(net: &'n Net, invariant: Option<&'n Formula>, widths: Vec<u32>) -> Self {
        Self::packed(net, invariant, widths, Arc::new(Samples::of(net)))
    }

    fn packed(
        net: &'n Net,
        invariant: Option<&'n Formula>,
        mut widths: Vec<u32>,
        samples: Arc<Samples>,
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
        let items = Items::new(&widths, groups);
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
        let spots = items.spots(&fields);
        let words = bits.div_ceil(64);
        let (mut owner, mut owned) = (vec![0; words * 64], vec![0; words]);
        for (place, spot) in spots.iter().enumerate() {
            match spot {
                TokenLocation::Own(field) => {
                    let start = field.word * 64 + field.shift as usize;
                    owner[start..start + widths[place] as usize].fill(place as u32);
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
            .map(|transition| step(&transition.effects(), &spots))
            .collect();
        Self {
            net,
            invariant,
            widths,
            samples,
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

    /// Bits of each place; 0 where it has none of its own.
    #[must_use]
    pub fn widths(&self) -> &[u32] {
        &self.widths
    }

    /// The tokens of each place.
    #[must_use]
    pub fn marking(&self, state: &[u64]) -> Vec<u64> {
        self.spots.iter().map(|spot| spot.of(state)).collect()
    }

    /// Calls `each` with every place that has tokens, and their number.
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
        let next = out.push(number, state);
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

impl Model for PackedNet<'_> {
    fn bits(&self) -> usize {
        self.bits
    }

    fn initial(&self) -> Vec<Vec<u64>> {
        let mut state = vec![0; self.bits.div_ceil(64)];
        for (spot, place) in self.spots.iter().zip(self.net.places()) {
            match spot {
                TokenLocation::Own(field) => {
                    state[field.word] |= u64::from(place.initial) << field.shift
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
    }

    fn invariant(&self, state: &[u64]) -> bool {
        let Some(formula) = self.invariant else {
            return true;
        };
        formula.holds(&|place| self.spots[place].of(state))
    }

    fn tokens(&self, state: &[u64]) -> Option<Tokens> {
        let mut tokens = Tokens::default();
        self.marked(state, |_, here| {
            tokens.in_place = tokens.in_place.max(here);
            tokens.in_state += here;
        });
        Some(tokens)
    }

    fn action(&self, action: u32) -> String {
        self.net.transitions()[action as usize].id.clone()
    }

    fn show(&self, state: &[u64]) -> String {
        let mut marked = Vec::new();
        self.marked(state, |place, tokens| marked.push((place, tokens)));
        self.net.show(marked)
    }
}

fn bits_for(tokens: u64) -> u32 {
    (u64::BITS - tokens.leading_zeros()).max(1)
}

/// States of so many bits are stored as they are, in one word.
const ONE_WORD: usize = 63;
/// Halves of words, of which longer states have at least so many.
const LEAST_HALVES: usize = 4;

/// Puts fields of these widths into words, in this order, and returns them with the bits of a
/// state. Long states are spread evenly over the halves of their words, so that none of the pairs
/// that they are compressed to takes most of the information. No field lies in two halves.
fn lay_out(widths: &[u32], order: &[usize]) -> (Vec<BitField>, usize) {
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

/// Lists each transition at the place, of those that it needs, that the fewest transitions need.
fn list_transitions(net: &Net) -> (Vec<Vec<u32>>, Vec<u32>) {
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

/// What gets a field: a group of places, or a place that belongs to none.
struct Items {
    /// By item: groups first.
    widths: Vec<u32>,
    of_group: Vec<Vec<usize>>,
    /// By place: its item, and its position in the group if that is one.
    of_place: Vec<(usize, u64)>,
}

impl Items {
    fn new(widths: &[u32], groups: Vec<Vec<usize>>) -> Self {
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

    /// The items in the order of the first of their places.
    fn in_order(&self, places: &[usize]) -> Vec<usize> {
        let mut is_there = vec![false; self.widths.len()];
        let items = places.iter().map(|place| self.of_place[*place].0);
        let first = items.filter(|item| !std::mem::replace(&mut is_there[*item], true));
        first.collect()
    }

    /// The samples with a number for each item.
    fn markings(&self, samples: &Samples) -> Samples {
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

    fn spots(&self, fields: &[BitField]) -> Vec<TokenLocation> {
        let spot = |(item, position): &(usize, u64)| match *item < self.of_group.len() {
            true => TokenLocation::Member(fields[*item], *position),
            false => TokenLocation::Own(fields[*item]),
        };
        self.of_place.iter().map(spot).collect()
    }

    fn groups(self, fields: &[BitField]) -> Vec<PlaceGroup> {
        let groups = self.of_group.into_iter().zip(fields);
        let groups = groups.map(|(places, field)| PlaceGroup {
            field: *field,
            places: places.into_iter().map(|place| place as u32).collect(),
        });
        groups.collect()
    }
}

fn step(effects: &[crate::net::PlaceEffect], spots: &[TokenLocation]) -> Step {
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
    step.add.retain(|(_, add)| *add != 0);
    step
}

/// What a transition needs of a place with a field of its own.
fn own_effect(step: &mut Step, effect: &crate::net::PlaceEffect, field: BitField) {
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
