//! The variables of a net: a place of its own, or places of which exactly one always has a token.

use crate::exclusive;
use crate::net::{Net, Transition};
use crate::sample::Samples;

/// A net's places as variables. The value of a place is its tokens; that of a group of places, of
/// which exactly one always has a token, is the position of that one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variables {
    /// The places of each variable.
    places: Vec<Vec<usize>>,
    /// By place: its variable, and its position there.
    of_place: Vec<(usize, u32)>,
}

/// What a transition does to one variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VariableEffect {
    pub(crate) variable: usize,
    /// The values with which it is enabled.
    pub(crate) least: u32,
    pub(crate) most: u32,
    /// The value afterwards, less that before.
    pub(crate) change: i64,
}

impl Variables {
    /// With as many groups as are found; the same for the same net.
    pub(crate) fn of(net: &Net) -> Self {
        let groups = exclusive::groups(net, &Samples::few(net), |_| true);
        Self::with_groups(net, groups)
    }

    /// Each place by itself.
    pub(crate) fn single(net: &Net) -> Self {
        Self::with_groups(net, Vec::new())
    }

    fn with_groups(net: &Net, groups: Vec<Vec<usize>>) -> Self {
        let mut of_place = vec![None; net.places().len()];
        let mut places = groups;
        for (variable, group) in places.iter().enumerate() {
            for (position, place) in group.iter().enumerate() {
                of_place[*place] = Some((variable, position as u32));
            }
        }
        let of_place = of_place.into_iter().enumerate().map(|(place, of)| {
            of.unwrap_or_else(|| {
                places.push(vec![place]);
                (places.len() - 1, 0)
            })
        });
        Self {
            of_place: of_place.collect(),
            places,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// The places of a variable: one, whose tokens are its value, or several.
    pub(crate) fn places(&self, variable: usize) -> &[usize] {
        &self.places[variable]
    }

    /// Whether a variable's value is the position of a place.
    pub(crate) fn is_group(&self, variable: usize) -> bool {
        self.places[variable].len() > 1
    }

    /// The initial value of each variable.
    pub(crate) fn initial(&self, net: &Net) -> Vec<u32> {
        let places = self.places.iter().map(|places| match places[..] {
            [place] => net.places()[place].initial,
            _ => {
                let marked = places
                    .iter()
                    .position(|&place| net.places()[place].initial > 0);
                marked.unwrap_or_default() as u32
            }
        });
        places.collect()
    }

    /// The tokens of each place, from the value of each variable.
    pub(crate) fn marking(&self, values: impl IntoIterator<Item = (usize, u32)>) -> Vec<u32> {
        let mut marking = vec![0; self.of_place.len()];
        for (variable, value) in values {
            match self.places[variable][..] {
                [place] => marking[place] = value,
                ref group => marking[group[value as usize]] = 1,
            }
        }
        marking
    }

    /// What a transition does, in ascending order of variables.
    pub(crate) fn effects(&self, transition: &Transition) -> Vec<VariableEffect> {
        let mut effects: Vec<VariableEffect> = Vec::new();
        // Of a group the place that has the token before, and the one that has it then.
        let mut moves: Vec<(usize, Option<u32>, Option<u32>)> = Vec::new();
        for effect in transition.effects() {
            let (variable, position) = self.of_place[effect.place];
            if !self.is_group(variable) {
                effects.push(VariableEffect {
                    variable,
                    least: effect.needs,
                    most: u32::MAX,
                    change: effect.change,
                });
                continue;
            }
            if effect.needs > 0 {
                moves.push((variable, Some(position), None));
            }
            if effect.change >= 0 {
                moves.push((variable, None, Some(position)));
            }
        }
        moves.sort_unstable();
        for group in moves.chunk_by(|one, two| one.0 == two.0) {
            let mut before = group.iter().filter_map(|(_, before, _)| *before);
            let after = group.iter().find_map(|(.., after)| *after);
            let (first, second) = (before.next(), before.next());
            effects.push(match (first, second, after) {
                (Some(before), None, Some(after)) => VariableEffect {
                    variable: group[0].0,
                    least: before,
                    most: before,
                    change: i64::from(after) - i64::from(before),
                },
                // It needs two tokens of a group that has one.
                _ => VariableEffect {
                    variable: group[0].0,
                    least: 1,
                    most: 0,
                    change: 0,
                },
            });
        }
        effects.sort_by_key(|effect| effect.variable);
        effects
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{Arc, NetPlace};

    /// A process that goes from one of three places to the next, and counts its rounds down; one
    /// transition only looks at it, and one can never fire.
    fn rounds() -> Net {
        let place = |id: &str, initial| NetPlace {
            id: id.into(),
            initial,
        };
        let arcs = |places: &[usize]| {
            let arcs = places.iter().map(|&place| Arc { place, weight: 1 });
            arcs.collect::<Vec<_>>()
        };
        let transition = |takes: &[usize], puts: &[usize]| Transition {
            id: format!("{takes:?}"),
            takes: arcs(takes),
            puts: arcs(puts),
        };
        let transitions = vec![
            transition(&[0], &[2]),
            transition(&[2], &[3]),
            transition(&[1, 3], &[0]),
            transition(&[1, 2], &[2]),
            transition(&[0, 2], &[0, 3]),
        ];
        let places = vec![
            place("a", 1),
            place("left", 5),
            place("b", 0),
            place("c", 0),
        ];
        Net::new("rounds", places, transitions).unwrap()
    }

    #[test]
    fn places_of_which_one_has_a_token_are_one_variable() {
        let net = rounds();
        let variables = Variables::of(&net);
        assert_eq!(variables.places, [vec![0, 2, 3], vec![1]]);
        assert_eq!(variables.initial(&net), [0, 5]);
        assert_eq!(variables.marking([(1, 4), (0, 2)]), [0, 4, 0, 1]);
        let effects = |number: usize| variables.effects(&net.transitions()[number]);
        let group = |least, most, change| VariableEffect {
            variable: 0,
            least,
            most,
            change,
        };
        let taken = VariableEffect {
            variable: 1,
            least: 1,
            most: u32::MAX,
            change: -1,
        };
        assert_eq!(effects(0), [group(0, 0, 1)]);
        assert_eq!(effects(2), [group(2, 2, -2), taken]);
        assert_eq!(effects(3), [group(1, 1, 0), taken]);
        let [never] = effects(4)[..] else { panic!() };
        assert!(never.least > never.most);
    }
}
