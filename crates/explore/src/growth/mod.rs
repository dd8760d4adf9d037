//! Nets that are unbounded, found before their markings fill the memory.
//!
//! Where firings lead from a marking to another that has as many tokens everywhere and more in some
//! place, the same firings can follow again, and again: that place gets any number of tokens (Karp
//! and Miller, 1969). Random walks look for two such markings: short ones at first, and long ones
//! when an exploration has taken a while. What they find is certain; not to find any says nothing.
//! Then [`TokenGrowth`] tells which place gets ever more tokens, and whether anything could stop
//! it.

mod structure;

use crate::error::ExploreError;
use crate::model::StateOverflow;
use crate::net::{Net, PlaceEffect};
use crate::sample::SplitMix;

/// Walks, and the longest length of each.
const WALKS: usize = 16;
const STEPS: usize = 400;
/// Tokens of places that one walk keeps, and tests of transitions and places in all of them.
const KEPT: usize = 4 << 20;
const TESTS: usize = 50_000_000;
/// Long walks, and tests of all of them.
const LONG_WALKS: usize = 8;
const LONG_TESTS: usize = 20_000_000;
/// Markings that a long walk keeps, each of about twice the age of the one before.
const AGES: usize = 20;
/// Places whose tokens are copied in the time of a test.
const COPIED: usize = 8;
/// Places that are looked at for what bounds them, at most.
const CANDIDATES: usize = 8;

/// Fails if the net is seen to be unbounded.
pub(crate) fn check(net: &Net) -> Result<(), ExploreError> {
    match growing_place(net) {
        None => Ok(()),
        Some(place) => Err(ExploreError::Unbounded {
            place: net.places()[place].id.clone(),
        }),
    }
}

/// [`check`] by long walks.
pub(crate) fn check_far(net: &Net) -> Result<(), ExploreError> {
    let effects = effects(net);
    if effects.is_empty() {
        return Ok(());
    }
    let mut takers = vec![Vec::new(); net.places().len()];
    for (number, effects) in effects.iter().enumerate() {
        for effect in effects.iter().filter(|effect| effect.needs > 0) {
            takers[effect.place].push(number);
        }
    }
    for number in 0..LONG_WALKS {
        let walk = LongWalk::new(net, &effects, &takers, number);
        if let Some(place) = walk.growing_place() {
            let place = net.places()[place].id.clone();
            return Err(ExploreError::Unbounded { place });
        }
    }
    Ok(())
}

/// The same error, or a better one where memory is full: that the net is unbounded, or which place
/// has last got more tokens than it seemed to.
pub(crate) fn explained(
    net: &Net,
    error: ExploreError,
    grown: Option<StateOverflow>,
) -> ExploreError {
    if !matches!(error, ExploreError::OutOfMemory { .. }) {
        return error;
    }
    match (check(net), grown) {
        (Err(unbounded), _) => unbounded,
        (Ok(()), Some(grown)) => ExploreError::Grown {
            place: net.places()[grown.part].id.clone(),
            tokens: grown.value,
            short: Box::new(error),
        },
        (Ok(()), None) => error,
    }
}

fn effects(net: &Net) -> Vec<Vec<PlaceEffect>> {
    let transitions = net.transitions().iter();
    transitions.map(|transition| transition.effects()).collect()
}

fn growing_place(net: &Net) -> Option<usize> {
    let effects = effects(net);
    if effects.is_empty() {
        return None;
    }
    let steps = (KEPT / net.places().len().max(1)).min(STEPS);
    let mut chance = SplitMix::new(2);
    let mut tests = 0;
    for _ in 0..WALKS {
        let initial = net.initial().into_iter().map(u64::from);
        let mut walk = vec![initial.collect::<Vec<u64>>()];
        while walk.len() <= steps && tests < TESTS {
            let marking = walk.last()?;
            let start = chance.below(effects.len());
            let mut tried = (start..effects.len()).chain(0..start);
            let enabled = tried.find(|&number| {
                tests += 1;
                is_enabled(&effects[number], marking)
            });
            let Some(number) = enabled else { break };
            let mut next = marking.clone();
            for effect in &effects[number] {
                next[effect.place] = next[effect.place].saturating_add_signed(effect.change);
            }
            for before in &walk {
                let covered = before.iter().zip(&next).take_while(|(had, has)| had <= has);
                let covered = covered.count();
                tests += covered + 1;
                if covered == next.len()
                    && let Some(place) = (0..next.len()).find(|&place| before[place] < next[place])
                {
                    return Some(place);
                }
            }
            walk.push(next);
        }
    }
    None
}

/// A walk that keeps few of its markings: of each age from 1 on one that is between half and twice
/// as old. Firings that repeat are seen, however long it takes until they begin.
struct LongWalk<'n> {
    effects: &'n [Vec<PlaceEffect>],
    takers: &'n [Vec<usize>],
    marking: Vec<u64>,
    /// All tokens of it.
    sum: u64,
    kept: Vec<(u64, Vec<u64>)>,
    enabled: Vec<usize>,
    /// How often each transition was fired, in walks that fire the rarest one that they can: they
    /// come through places where chance would go to and fro.
    fired: Option<Vec<u64>>,
    chance: SplitMix,
    tests: usize,
}

impl<'n> LongWalk<'n> {
    /// With the transitions that each place is needed for.
    fn new(
        net: &Net,
        effects: &'n [Vec<PlaceEffect>],
        takers: &'n [Vec<usize>],
        number: usize,
    ) -> Self {
        let marking: Vec<u64> = net.initial().into_iter().map(u64::from).collect();
        let enabled = (0..effects.len()).filter(|&at| is_enabled(&effects[at], &marking));
        Self {
            effects,
            takers,
            sum: marking.iter().sum(),
            kept: vec![(u64::MAX, Vec::new()); AGES],
            enabled: enabled.collect(),
            marking,
            fired: (number % 2 == 1).then(|| vec![0; effects.len()]),
            chance: SplitMix::new(3 + number as u64),
            tests: effects.len(),
        }
    }

    fn growing_place(mut self) -> Option<usize> {
        for step in 1_u64.. {
            let kept = &mut self.kept[(step.trailing_zeros() as usize).min(AGES - 1)];
            kept.0 = self.sum;
            kept.1.clone_from(&self.marking);
            self.tests += self.marking.len() / COPIED;
            let number = self.chosen()?;
            self.fire(number);
            if let Some(place) = self.grown() {
                return Some(place);
            }
            if self.tests > LONG_TESTS / LONG_WALKS {
                return None;
            }
        }
        None
    }

    /// One of the transitions that can fire.
    fn chosen(&mut self) -> Option<usize> {
        if self.enabled.is_empty() {
            return None;
        }
        let start = self.chance.below(self.enabled.len());
        let Some(fired) = &mut self.fired else {
            return Some(self.enabled[start]);
        };
        self.tests += self.enabled.len();
        let (before, behind) = self.enabled.split_at(start);
        let from_start = behind.iter().chain(before).copied();
        let rarest = from_start.min_by_key(|&number| fired[number])?;
        fired[rarest] += 1;
        Some(rarest)
    }

    fn fire(&mut self, number: usize) {
        for effect in &self.effects[number] {
            let tokens = &mut self.marking[effect.place];
            self.sum = self.sum.wrapping_sub(*tokens);
            *tokens = tokens.saturating_add_signed(effect.change);
            self.sum = self.sum.wrapping_add(*tokens);
        }
        for effect in &self.effects[number] {
            for &taker in &self.takers[effect.place] {
                let is_enabled = is_enabled(&self.effects[taker], &self.marking);
                match self.enabled.binary_search(&taker) {
                    Ok(at) if !is_enabled => drop(self.enabled.remove(at)),
                    Err(at) if is_enabled => self.enabled.insert(at, taker),
                    _ => {}
                }
                self.tests += self.effects[taker].len();
            }
        }
    }

    /// A place that has more tokens than in a marking that was kept, where none has fewer.
    fn grown(&mut self) -> Option<usize> {
        // The sum of all of them is more then.
        for (_, before) in self.kept.iter().filter(|kept| kept.0 < self.sum) {
            let both = before.iter().zip(&self.marking);
            let covered = both.clone().take_while(|(had, has)| had <= has).count();
            self.tests += covered + 1;
            if covered == before.len() {
                return both.clone().position(|(had, has)| had < has);
            }
        }
        None
    }
}

fn is_enabled(effects: &[PlaceEffect], marking: &[u64]) -> bool {
    let mut effects = effects.iter();
    effects.all(|effect| marking[effect.place] >= u64::from(effect.needs))
}

/// The most tokens that places get in rounds of an exploration, each of which goes farther.
#[derive(Debug)]
pub(crate) struct TokenGrowth<'n> {
    net: &'n Net,
    /// In the round before, or at first, and in this one.
    before: Vec<u32>,
    now: Vec<u32>,
}

impl<'n> TokenGrowth<'n> {
    pub(crate) fn new(net: &'n Net) -> Self {
        Self {
            net,
            before: net.initial(),
            now: net.initial(),
        }
    }

    /// Takes note of how many tokens places have got.
    pub(crate) fn note(&mut self, most: impl Iterator<Item = (usize, u32)>) {
        for (place, tokens) in most {
            self.now[place] = self.now[place].max(tokens);
        }
    }

    /// The place with most tokens, and how many, of those that have got more than at first, and as
    /// many as `least`, and that nothing in the net's structure bounds.
    pub(crate) fn since_start(&self, least: u32) -> Option<(String, u32)> {
        self.place_since(&self.net.initial(), least)
    }

    /// The same of those that have got more than in the round before; in the first one: than at
    /// first.
    pub(crate) fn in_round(&self) -> Option<(String, u32)> {
        self.place_since(&self.before, 0)
    }

    /// The next round begins.
    pub(crate) fn end_round(&mut self) {
        self.before = std::mem::replace(&mut self.now, self.net.initial());
    }

    fn place_since(&self, before: &[u32], least: u32) -> Option<(String, u32)> {
        let now = &self.now;
        let has_grown = |&place: &usize| before[place] < now[place] && now[place] >= least;
        let mut grown: Vec<usize> = (0..now.len()).filter(has_grown).collect();
        grown.sort_by_key(|&place| std::cmp::Reverse(now[place]));
        let mut grown = grown.into_iter().take(CANDIDATES);
        let place = grown.find(|&place| structure::may_grow(self.net, place))?;
        Some((self.net.places()[place].id.clone(), now[place]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{Arc, NetPlace, Transition};

    /// Places and weights.
    type Arcs<'a> = &'a [(usize, u32)];

    /// Two places, with what transitions take and put.
    fn net(initial: [u32; 2], transitions: &[(Arcs<'_>, Arcs<'_>)]) -> Net {
        let place = |at: usize| NetPlace {
            id: format!("p{at}"),
            initial: initial[at],
        };
        let arcs = |arcs: Arcs<'_>| {
            let arcs = arcs.iter().map(|&(place, weight)| Arc { place, weight });
            arcs.collect()
        };
        let transitions = transitions.iter().map(|(takes, puts)| Transition {
            id: "t".into(),
            takes: arcs(takes),
            puts: arcs(puts),
        });
        Net::new("n", vec![place(0), place(1)], transitions.collect()).unwrap()
    }

    #[test]
    fn a_place_that_grows_is_found_and_none_that_does_not() {
        let none: Arcs<'_> = &[];
        assert_eq!(growing_place(&net([0, 0], &[(none, &[(1, 1)])])), Some(1));
        // What is taken is put back, and more elsewhere.
        let looped = net([1, 0], &[(&[(0, 1)], &[(0, 1), (1, 1)])]);
        assert_eq!(growing_place(&looped), Some(1));
        // It takes two firings.
        let round = net([1, 0], &[(&[(0, 1)], &[(1, 2)]), (&[(1, 1)], &[(0, 1)])]);
        assert!(growing_place(&round).is_some());
        let there_and_back = net([9, 0], &[(&[(0, 1)], &[(1, 1)]), (&[(1, 1)], &[(0, 1)])]);
        assert_eq!(growing_place(&there_and_back), None);
        assert_eq!(growing_place(&net([1, 0], &[(&[(0, 1)], &[(0, 1)])])), None);
        assert_eq!(growing_place(&net([5, 0], &[(&[(0, 2)], &[(1, 3)])])), None);
        assert_eq!(growing_place(&net([1, 1], &[])), None);
    }

    #[test]
    fn long_walks_see_what_begins_late_and_nothing_else() {
        let one = |place| Arc { place, weight: 1 };
        let step = |takes, puts: Vec<Arc>| Transition {
            id: "t".into(),
            takes: vec![one(takes)],
            puts,
        };
        for gain in [0, 1] {
            // A token that goes to and fro on its way, and at its end adds to the last place.
            let places = (0..302).map(|at| NetPlace {
                id: format!("p{at}"),
                initial: u32::from(at == 0),
            });
            let mut transitions = Vec::new();
            for at in 0..300 {
                transitions.push(step(at + 1, vec![one(at)]));
                transitions.push(step(at, vec![one(at + 1)]));
            }
            let more = (301..301 + gain).map(one);
            transitions.push(step(300, [one(300)].into_iter().chain(more).collect()));
            let net = Net::new("late", places.collect(), transitions).unwrap();
            assert!(check(&net).is_ok());
            match check_far(&net) {
                Err(ExploreError::Unbounded { place }) => assert_eq!((gain, &*place), (1, "p301")),
                end => assert!(gain == 0 && end.is_ok(), "{end:?}"),
            }
        }
    }
}
