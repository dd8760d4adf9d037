//! Places of which exactly one has a token, and one token only, in every marking: the places where
//! a process can be, or the values of a variable. Such a group needs as many bits as its number of
//! places takes, rather than a bit for each.
//!
//! A group is proved and not guessed: one of its places has a token at first, and no transition
//! changes the sum of its tokens (the group is a P-invariant of weights 1). It is found by search:
//! where a transition takes the token out of what is a group so far, one of the places that it puts
//! a token into must belong to the group, and the other way round. Sampled markings tell which
//! cannot, as two places of a group never have tokens together.

use crate::net::Net;
use crate::sample::Samples;
use std::collections::BTreeSet;

/// Words of samples and arcs that the search looks at, at most: a bound on the time.
const VISITS: usize = 50_000_000;

/// Groups of at least two places, no place in two of them, each in ascending order; only places
/// that `may_belong` says yes to.
pub(crate) fn groups(
    net: &Net,
    samples: &Samples,
    may_belong: impl Fn(usize) -> bool,
) -> Vec<Vec<usize>> {
    let mut search = Search::new(net, samples, may_belong);
    let mut groups = Vec::new();
    for place in 0..net.places().len() {
        if net.places()[place].initial != 1 || !search.is_free[place] {
            continue;
        }
        let Some(mut group) = search.group_of(place) else {
            continue;
        };
        if group.len() > 1 {
            for place in &group {
                search.is_free[*place] = false;
            }
            group.sort_unstable();
            groups.push(group);
        }
    }
    groups
}

struct Search {
    /// Places that may belong to a group and belong to none yet.
    is_free: Vec<bool>,
    /// By how much transitions change a place.
    changes_of: Vec<Vec<(usize, i64)>>,
    /// By how much a transition changes places.
    changes: Vec<Vec<(usize, i64)>>,
    /// The samples in which a place has tokens, a bit each.
    marked: Vec<Vec<u64>>,
    /// In how many samples it has.
    frequency: Vec<u32>,
    /// Which places have tokens at first.
    starts: Vec<bool>,
    visits_left: usize,
}

/// What a search from one place has of a group so far.
struct PartialGroup {
    members: Vec<usize>,
    /// By how much a transition changes the tokens of the members together.
    balance: Vec<i64>,
    /// The transitions that do.
    unbalanced: BTreeSet<usize>,
    /// The samples in which a member has a token.
    covered: Vec<u64>,
}

/// A transition that is to be balanced, and the places that may do so.
struct BalanceChoice {
    /// Those that were not tried, the best last.
    left: Vec<usize>,
    tried: bool,
}

impl Search {
    fn new(net: &Net, samples: &Samples, may_belong: impl Fn(usize) -> bool) -> Self {
        let places = net.places().len();
        let mut is_free: Vec<bool> = (0..places).map(may_belong).collect();
        let (mut changes_of, mut changes) = (vec![Vec::new(); places], Vec::new());
        for (number, transition) in net.transitions().iter().enumerate() {
            for arc in transition.takes.iter().chain(&transition.puts) {
                // A place that ever takes part with more than one token has more than one value.
                is_free[arc.place] &= arc.weight == 1;
            }
            let effects = transition.effects();
            let changing = effects.iter().filter(|effect| effect.change != 0);
            let changing: Vec<_> = changing
                .map(|effect| (effect.place, effect.change))
                .collect();
            for (place, change) in &changing {
                changes_of[*place].push((number, *change));
            }
            changes.push(changing);
        }
        let words = samples.markings.len().div_ceil(64);
        let mut marked = vec![vec![0; words]; places];
        let mut frequency = vec![0; places];
        for (number, marking) in samples.markings.iter().enumerate() {
            for (place, tokens) in marking.iter().enumerate() {
                if *tokens > 0 {
                    marked[place][number / 64] |= 1 << (number % 64);
                    frequency[place] += 1;
                }
                is_free[place] &= *tokens <= 1;
            }
        }
        Self {
            is_free,
            changes_of,
            changes,
            marked,
            frequency,
            starts: net.places().iter().map(|place| place.initial > 0).collect(),
            visits_left: VISITS,
        }
    }

    /// A group with this place, which has a token at first.
    fn group_of(&mut self, place: usize) -> Option<Vec<usize>> {
        let mut group = PartialGroup {
            members: Vec::new(),
            balance: vec![0; self.changes.len()],
            unbalanced: BTreeSet::new(),
            covered: vec![0; self.marked[place].len()],
        };
        self.add(&mut group, place);
        let mut choices: Vec<BalanceChoice> = Vec::new();
        loop {
            let Some(transition) = group.unbalanced.first() else {
                return Some(group.members);
            };
            let left = self.candidates(&group, *transition);
            choices.push(BalanceChoice { left, tried: false });
            // The next place of the last choice that has one left.
            loop {
                let choice = choices.last_mut()?;
                if std::mem::replace(&mut choice.tried, false) {
                    self.remove_last(&mut group);
                }
                if let Some(next) = choice.left.pop() {
                    choice.tried = true;
                    self.add(&mut group, next);
                    break;
                }
                choices.pop();
            }
            if self.visits_left == 0 {
                return None;
            }
        }
    }

    /// The places that could balance a transition, the most rarely marked one last: it is most
    /// likely one of many.
    fn candidates(&mut self, group: &PartialGroup, transition: usize) -> Vec<usize> {
        let balance = group.balance[transition];
        let changes = &self.changes[transition];
        self.visits_left = self
            .visits_left
            .saturating_sub(changes.len() * (1 + group.covered.len()));
        let could = |(place, change): &(usize, i64)| {
            let is_apart = || {
                let both = self.marked[*place].iter().zip(&group.covered);
                both.clone().all(|(one, other)| one & other == 0)
            };
            let is_opposite = change.signum() == -balance.signum();
            is_opposite && self.is_free[*place] && !self.starts[*place] && is_apart()
        };
        let places = changes
            .iter()
            .filter(|change| could(change))
            .map(|change| change.0);
        let mut places: Vec<usize> = places
            .filter(|place| !group.members.contains(place))
            .collect();
        places.sort_by_key(|place| std::cmp::Reverse(self.frequency[*place]));
        places
    }

    fn add(&mut self, group: &mut PartialGroup, place: usize) {
        group.members.push(place);
        self.change(group, place, 1);
    }

    fn remove_last(&mut self, group: &mut PartialGroup) {
        if let Some(place) = group.members.pop() {
            self.change(group, place, -1);
        }
    }

    /// Adds a place's changes to a search's balance, or takes them back. No two members have tokens
    /// in one sample.
    fn change(&mut self, group: &mut PartialGroup, place: usize, times: i64) {
        for (transition, change) in &self.changes_of[place] {
            let balance = &mut group.balance[*transition];
            *balance += times * change;
            match *balance {
                0 => group.unbalanced.remove(transition),
                _ => group.unbalanced.insert(*transition),
            };
        }
        for (covered, marked) in group.covered.iter_mut().zip(&self.marked[place]) {
            *covered ^= marked;
        }
        let visits = self.changes_of[place].len() + group.covered.len() + 1;
        self.visits_left = self.visits_left.saturating_sub(visits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{Arc, NetPlace, Transition};

    /// A net from the places that have a token at first, and what transitions take and put.
    fn net(places: usize, marked: &[usize], transitions: &[(&[usize], &[usize])]) -> Net {
        let place = |number: usize| NetPlace {
            id: format!("p{number}"),
            initial: marked.contains(&number).into(),
        };
        let arcs = |places: &[usize]| {
            let arc = |place: &usize| Arc {
                place: *place,
                weight: 1,
            };
            places.iter().map(arc).collect::<Vec<_>>()
        };
        let transition = |(number, (takes, puts)): (usize, &(&[usize], &[usize]))| Transition {
            id: format!("t{number}"),
            takes: arcs(takes),
            puts: arcs(puts),
        };
        let transitions = transitions.iter().enumerate().map(transition).collect();
        Net::new("net", (0..places).map(place).collect(), transitions).unwrap()
    }

    fn groups_of(net: &Net) -> Vec<Vec<usize>> {
        groups(net, &Samples::of(net), |_| true)
    }

    #[test]
    fn processes_and_variables_are_groups() {
        // A process at 0, 1 or 2, and a flag that is 3 or 4; 5 counts the rounds.
        let rounds: &[(&[usize], &[usize])] = &[
            (&[0, 3], &[1, 4]),
            (&[1], &[2]),
            (&[2, 4], &[0, 3, 5]),
            (&[5], &[]),
        ];
        let net = net(6, &[0, 3], rounds);
        // 0 goes with 1 and 2, or with 4; 3 has what is left. All are groups by themselves.
        let found = groups_of(&net);
        let all: Vec<usize> = found.iter().flatten().copied().collect();
        assert!(!all.contains(&5), "{found:?}");
        assert!(found.iter().all(|group| group.len() > 1), "{found:?}");
        for group in &found {
            for transition in net.transitions() {
                let changes = transition.effects();
                let changes = changes
                    .iter()
                    .filter(|effect| group.contains(&effect.place));
                assert_eq!(
                    changes.map(|effect| effect.change).sum::<i64>(),
                    0,
                    "{found:?}"
                );
            }
            let marked = group
                .iter()
                .filter(|place| net.places()[**place].initial == 1);
            assert_eq!(marked.count(), 1, "{found:?}");
        }
        assert!(all.contains(&0) && all.contains(&3), "{found:?}");
    }

    #[test]
    fn a_token_that_can_vanish_or_multiply_makes_no_group() {
        assert!(groups_of(&net(2, &[0], &[(&[0], &[1]), (&[1], &[])])).is_empty());
        let doubling = net(3, &[0], &[(&[0], &[1, 2]), (&[1], &[0]), (&[2], &[1])]);
        assert!(groups_of(&doubling).is_empty());
        // Two tokens in the cycle at first.
        assert!(groups_of(&net(2, &[0, 1], &[(&[0], &[1]), (&[1], &[0])])).is_empty());
        assert!(
            groups(
                &net(2, &[0], &[(&[0], &[1])]),
                &Samples::of(&net(2, &[0], &[])),
                |_| false
            )
            .is_empty()
        );
    }
}
