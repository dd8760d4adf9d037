//! A net as a model whose markings are packed: a few bits a place, with firing as word additions.
//!
//! How many tokens a place can hold is not known beforehand. [`PackedNet::sampled`] guesses the
//! bits from random walks. A guess that is too small is noticed exactly: the transition that would
//! overflow a place fails with [`NoRoom`], and the exploration begins anew with
//! [`PackedNet::widened`].

use crate::formula::Formula;
use crate::model::{Model, NoRoom, Successors, Tokens};
use crate::net::Net;
use crate::order::places_in_order;
use crate::sample::Samples;
use crate::split;
use std::sync::Arc;

/// Where a place's tokens are in the words of a state.
#[derive(Debug, Clone, Copy)]
struct Field {
    word: usize,
    shift: u32,
    /// The largest number of tokens that fits.
    most: u64,
}

impl Field {
    #[inline]
    fn of(self, state: &[u64]) -> u64 {
        (state[self.word] >> self.shift) & self.most
    }
}

/// Bits that must all be set in a word (needs one token of places of one bit), or all clear.
#[derive(Debug, Clone, Copy)]
struct Bits {
    word: usize,
    mask: u64,
}

/// Tokens that a place of several bits must have, or must have room for.
#[derive(Debug, Clone, Copy)]
struct Amount {
    place: usize,
    field: Field,
    tokens: u64,
}

#[derive(Debug, Default)]
struct Step {
    /// Bits that must be set.
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
}

/// A net whose markings are packed into words, with an optional invariant.
#[derive(Debug)]
pub struct PackedNet<'n> {
    net: &'n Net,
    invariant: Option<&'n Formula>,
    widths: Vec<u32>,
    samples: Arc<Samples>,
    fields: Vec<Field>,
    bits: usize,
    /// The place to which each bit of each word belongs.
    owner: Vec<u32>,
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
    pub fn widened(&self, no_room: NoRoom) -> Option<Self> {
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
    /// marking.
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
        let mut order = places_in_order(net);
        let (mut fields, mut bits) = lay_out(&widths, &order);
        if bits > ONE_WORD {
            let halves = bits.div_ceil(32);
            let side = |field: &Field| {
                let at = 2 * field.word + (field.shift / 32) as usize;
                split::side_of(at, halves)
            };
            let sides: Vec<usize> = fields.iter().map(side).collect();
            split::improve(&mut order, &sides, &widths, &samples);
            (fields, bits) = lay_out(&widths, &order);
        }
        let mut owner = vec![0; bits.div_ceil(64) * 64];
        for (place, (field, width)) in fields.iter().zip(&widths).enumerate() {
            let start = field.word * 64 + field.shift as usize;
            owner[start..start + *width as usize].fill(place as u32);
        }
        let (listed, free) = list_transitions(net);
        let steps = net.transitions().iter();
        let steps = steps
            .map(|transition| step(&transition.effects(), &fields))
            .collect();
        Self {
            net,
            invariant,
            widths,
            samples,
            fields,
            bits,
            owner,
            steps,
            listed,
            free,
        }
    }

    /// Bits of each place.
    #[must_use]
    pub fn widths(&self) -> &[u32] {
        &self.widths
    }

    /// The tokens of each place.
    #[must_use]
    pub fn marking(&self, state: &[u64]) -> Vec<u64> {
        self.fields.iter().map(|field| field.of(state)).collect()
    }

    /// Calls `each` with every place that has tokens, and their number.
    #[inline]
    fn marked(&self, state: &[u64], mut each: impl FnMut(usize, u64)) {
        for (word, &bits) in state.iter().enumerate() {
            let mut rest = bits;
            while rest != 0 {
                let place = self.owner[word * 64 + rest.trailing_zeros() as usize] as usize;
                let field = self.fields[place];
                each(place, (bits >> field.shift) & field.most);
                rest &= !(field.most << field.shift);
            }
        }
    }

    #[inline]
    fn fire(&self, number: u32, state: &[u64], out: &mut Successors) -> Result<(), NoRoom> {
        let step = &self.steps[number as usize];
        let has = |bits: &Bits| state[bits.word] & bits.mask == bits.mask;
        if !step.set.iter().all(has) || !step.needs.iter().all(|a| a.field.of(state) >= a.tokens) {
            return Ok(());
        }
        if step
            .clear
            .iter()
            .any(|bits| state[bits.word] & bits.mask != 0)
        {
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
                return Err(NoRoom {
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
    fn first_without_room(&self, number: u32, state: &[u64]) -> NoRoom {
        let effects = self.net.transitions()[number as usize].effects();
        let over = effects.iter().find_map(|effect| {
            let field = self.fields[effect.place];
            let value = field.of(state).saturating_add_signed(effect.change);
            let part = effect.place;
            (value > field.most).then_some(NoRoom { part, value })
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
        for (field, place) in self.fields.iter().zip(self.net.places()) {
            state[field.word] |= u64::from(place.initial) << field.shift;
        }
        vec![state]
    }

    #[inline]
    fn successors(&self, state: &[u64], out: &mut Successors) -> Result<(), NoRoom> {
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
        formula.holds(&|place| self.fields[place].of(state))
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
        let mut shown = String::new();
        self.marked(state, |place, tokens| {
            if !shown.is_empty() {
                shown.push(' ');
            }
            shown.push_str(&self.net.places()[place].id);
            if tokens != 1 {
                shown.push_str(&format!("={tokens}"));
            }
        });
        shown
    }
}

fn bits_for(tokens: u64) -> u32 {
    (u64::BITS - tokens.leading_zeros()).max(1)
}

/// States of so many bits are stored as they are, in one word.
const ONE_WORD: usize = 63;
/// Halves of words, of which longer states have at least so many.
const LEAST_HALVES: usize = 4;

/// Puts the places' fields into words, in this order, and returns them with the bits of a state.
/// Long states are spread evenly over the halves of their words, so that none of the pairs that
/// they are compressed to takes most of the information. No field lies in two halves.
fn lay_out(widths: &[u32], order: &[usize]) -> (Vec<Field>, usize) {
    let total: usize = widths.iter().map(|width| *width as usize).sum();
    let spread = total > ONE_WORD;
    let halves = total.div_ceil(32).next_multiple_of(2).max(LEAST_HALVES);
    let share = total.div_ceil(halves);
    let nowhere = Field {
        word: 0,
        shift: 0,
        most: 0,
    };
    let mut fields = vec![nowhere; widths.len()];
    let mut at = 0;
    for &place in order {
        let width = widths[place] as usize;
        let used = at % 32;
        if spread && (used >= share || used + width > 32) {
            at = at.next_multiple_of(32);
        }
        fields[place] = Field {
            word: at / 64,
            shift: (at % 64) as u32,
            most: (1 << width) - 1,
        };
        at += width;
    }
    let least = if spread { LEAST_HALVES * 32 } else { 1 };
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

fn step(effects: &[crate::net::Effect], fields: &[Field]) -> Step {
    let mut step = Step::default();
    for effect in effects {
        let field = fields[effect.place];
        let amount = |tokens: u64| Amount {
            place: effect.place,
            field,
            tokens,
        };
        let one = Bits {
            word: field.word,
            mask: 1 << field.shift,
        };
        let needs = u64::from(effect.needs);
        if needs == 1 && field.most == 1 {
            gather(&mut step.set, one);
        } else if needs > 0 {
            step.needs.push(amount(needs));
        }
        if effect.change == 1 && field.most == 1 {
            gather(&mut step.clear, one);
        } else if effect.change > 0 {
            step.room.push(amount(effect.change.unsigned_abs()));
        }
        let change = effect.change.cast_unsigned() << field.shift;
        match step.add.iter_mut().find(|(word, _)| *word == field.word) {
            Some((_, add)) => *add = add.wrapping_add(change),
            None => step.add.push((field.word, change)),
        }
    }
    step.add.retain(|(_, add)| *add != 0);
    step
}

fn gather(all: &mut Vec<Bits>, one: Bits) {
    match all.iter_mut().find(|bits| bits.word == one.word) {
        Some(bits) => bits.mask |= one.mask,
        None => all.push(one),
    }
}
