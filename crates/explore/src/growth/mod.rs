//! Nets that are unbounded, found before their markings fill the memory.
//!
//! Where firings lead from a marking to another that has as many tokens everywhere and more in some
//! place, the same firings can follow again, and again: that place gets any number of tokens (Karp
//! and Miller, 1969). Short random walks look for two such markings. What they find is certain; not
//! to find any says nothing.

use crate::error::ExploreError;
use crate::model::NoRoom;
use crate::net::{Effect, Net};
use crate::sample::Chance;

/// Walks, and the longest length of each.
const WALKS: usize = 16;
const STEPS: usize = 400;
/// Tokens of places that one walk keeps, and tests of transitions and places in all of them.
const KEPT: usize = 4 << 20;
const TESTS: usize = 50_000_000;

/// Fails if the net is seen to be unbounded.
pub(crate) fn check(net: &Net) -> Result<(), ExploreError> {
    match growing_place(net) {
        None => Ok(()),
        Some(place) => Err(ExploreError::Unbounded {
            place: net.places()[place].id.clone(),
        }),
    }
}

/// The same error, or a better one where memory is full: that the net is unbounded, or which place
/// has last got more tokens than it seemed to.
pub(crate) fn explained(net: &Net, error: ExploreError, grown: Option<NoRoom>) -> ExploreError {
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

fn growing_place(net: &Net) -> Option<usize> {
    let effects: Vec<Vec<Effect>> = net
        .transitions()
        .iter()
        .map(|transition| transition.effects())
        .collect();
    if effects.is_empty() {
        return None;
    }
    let steps = (KEPT / net.places().len().max(1)).min(STEPS);
    let mut chance = Chance::new(2);
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
                let mut effects = effects[number].iter();
                effects.all(|effect| marking[effect.place] >= u64::from(effect.needs))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{Arc, Place, Transition};

    /// Places and weights.
    type Arcs<'a> = &'a [(usize, u32)];

    /// Two places, with what transitions take and put.
    fn net(initial: [u32; 2], transitions: &[(Arcs<'_>, Arcs<'_>)]) -> Net {
        let place = |at: usize| Place {
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
}
