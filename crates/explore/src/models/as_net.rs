//! Models as place/transition nets, with as many states and transitions: for symbolic exploration.
//!
//! A variable is a group of places, one for each of its values; the place of its value has a token.

use crate::formula::Formula;
use crate::net::{Arc, Net, NetPlace, Transition};

/// A model as a net, and what its markings must meet.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelNet {
    /// The net. A marking stands for a state of the model, and the other way round.
    pub net: Net,
    /// The model's invariant, if it has one.
    pub invariant: Option<Formula>,
}

/// A net in the making.
#[derive(Debug, Default)]
pub(super) struct NetBuilder {
    places: Vec<NetPlace>,
    transitions: Vec<Transition>,
}

/// What a transition does, by the numbers of places.
#[derive(Debug, Default)]
pub(super) struct TokenMoves {
    takes: Vec<usize>,
    puts: Vec<usize>,
}

impl TokenMoves {
    /// Also takes the token from one place and puts it into another, which may be the same one.
    pub(super) fn and(mut self, from: usize, to: usize) -> Self {
        self.takes.push(from);
        self.puts.push(to);
        self
    }

    /// Also puts a token into a place.
    pub(super) fn and_put(mut self, place: usize) -> Self {
        self.puts.push(place);
        self
    }

    /// Also takes the token from a place.
    pub(super) fn and_take(mut self, place: usize) -> Self {
        self.takes.push(place);
        self
    }

    /// Also only where these places have tokens, which stay there.
    pub(super) fn if_all(mut self, places: impl IntoIterator<Item = usize>) -> Self {
        for place in places {
            self = self.and(place, place);
        }
        self
    }
}

impl NetBuilder {
    /// A place with a token, or an empty one. Its number.
    pub(super) fn place(&mut self, id: impl Into<String>, has_token: bool) -> usize {
        self.places.push(NetPlace {
            id: id.into(),
            initial: has_token.into(),
        });
        self.places.len() - 1
    }

    /// A variable that begins with its first value: the place of each value.
    pub(super) fn variable(&mut self, ids: impl IntoIterator<Item = String>) -> Vec<usize> {
        let ids = ids.into_iter().enumerate();
        ids.map(|(value, id)| self.place(id, value == 0)).collect()
    }

    pub(super) fn transition(&mut self, id: impl Into<String>, moves: TokenMoves) {
        let arcs = |mut places: Vec<usize>| {
            places.sort_unstable();
            let arcs = places.into_iter().map(|place| Arc { place, weight: 1 });
            arcs.collect()
        };
        self.transitions.push(Transition {
            id: id.into(),
            takes: arcs(moves.takes),
            puts: arcs(moves.puts),
        });
    }

    /// # Panics
    /// If a transition takes from, or puts into, one place twice.
    pub(super) fn build(self, name: &str, invariant: Option<Formula>) -> ModelNet {
        let net = Net::new(name, self.places, self.transitions);
        ModelNet {
            net: net.expect("arcs to places that are there, one each"),
            invariant,
        }
    }
}
