//! Place/transition nets: places hold tokens, a transition takes tokens from some places and puts
//! tokens into others.

/// A place of a [`Net`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NetPlace {
    /// Unique among the net's places.
    pub id: String,
    /// Tokens in the initial marking.
    pub initial: u32,
}

/// Tokens moved at one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Arc {
    /// Index of the place.
    pub place: usize,
    /// Tokens, at least 1.
    pub weight: u32,
}

/// A transition of a [`Net`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Transition {
    /// Unique among the net's transitions.
    pub id: String,
    /// What it takes, in ascending order of places. It is enabled where all of that is there.
    pub takes: Vec<Arc>,
    /// What it puts, in ascending order of places.
    pub puts: Vec<Arc>,
}

/// What a transition does to one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaceEffect {
    /// Index of the place.
    pub place: usize,
    /// Tokens that must be there; 0 where the transition only puts.
    pub needs: u32,
    /// Tokens there afterwards, less those before.
    pub change: i64,
}

impl Transition {
    /// What the transition does at each of its places, in ascending order of places.
    #[must_use]
    pub fn effects(&self) -> Vec<PlaceEffect> {
        let mut effects: Vec<PlaceEffect> = Vec::with_capacity(self.takes.len() + self.puts.len());
        for arc in &self.takes {
            effects.push(PlaceEffect {
                place: arc.place,
                needs: arc.weight,
                change: -i64::from(arc.weight),
            });
        }
        for arc in &self.puts {
            effects.push(PlaceEffect {
                place: arc.place,
                needs: 0,
                change: i64::from(arc.weight),
            });
        }
        // Stable: at one place, what is taken stands before what is put.
        effects.sort_by_key(|effect| effect.place);
        effects.dedup_by(|next, kept| {
            let same = next.place == kept.place;
            if same {
                kept.needs += next.needs;
                kept.change += next.change;
            }
            same
        });
        effects
    }
}

/// Why places and transitions are not a net.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetError {
    /// An arc names a place that the net does not have.
    #[error(
        "transition {transition:?} has an arc to place {place}, but the net has {places} places"
    )]
    NoSuchPlace {
        /// The transition.
        transition: String,
        /// The place's index.
        place: usize,
        /// Places in the net.
        places: usize,
    },
    /// A transition's arcs are not in strictly ascending order of places, or one has weight 0.
    #[error(
        "the arcs of transition {transition:?} are not one a place, in order, with weights of 1 and more"
    )]
    BadArcs {
        /// The transition.
        transition: String,
    },
}

/// A place/transition net with its initial marking.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Net {
    name: String,
    places: Vec<NetPlace>,
    transitions: Vec<Transition>,
}

impl Net {
    /// A net of these places and transitions.
    ///
    /// # Errors
    /// [`NetError`] for arcs to places that are not there, arcs out of order, and weights of 0.
    pub fn new(
        name: impl Into<String>,
        places: Vec<NetPlace>,
        transitions: Vec<Transition>,
    ) -> Result<Self, NetError> {
        for transition in &transitions {
            for arcs in [&transition.takes, &transition.puts] {
                if let Some(arc) = arcs.iter().find(|arc| arc.place >= places.len()) {
                    return Err(NetError::NoSuchPlace {
                        transition: transition.id.clone(),
                        place: arc.place,
                        places: places.len(),
                    });
                }
                let ordered = arcs.windows(2).all(|pair| pair[0].place < pair[1].place);
                if !ordered || arcs.iter().any(|arc| arc.weight == 0) {
                    return Err(NetError::BadArcs {
                        transition: transition.id.clone(),
                    });
                }
            }
        }
        Ok(Self {
            name: name.into(),
            places,
            transitions,
        })
    }

    /// The net's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The places; arcs name them by their index here.
    #[must_use]
    pub fn places(&self) -> &[NetPlace] {
        &self.places
    }

    /// The transitions.
    #[must_use]
    pub fn transitions(&self) -> &[Transition] {
        &self.transitions
    }

    /// Tokens of the initial marking, one number a place.
    #[must_use]
    pub fn initial(&self) -> Vec<u32> {
        self.places.iter().map(|place| place.initial).collect()
    }

    /// A marking for people, from places with their tokens: the ids of those that have some.
    #[must_use]
    pub fn show(&self, tokens: impl IntoIterator<Item = (usize, u64)>) -> String {
        let mut shown = String::new();
        for (place, tokens) in tokens {
            let gap = if shown.is_empty() { "" } else { " " };
            let id = &self.places[place].id;
            match tokens {
                0 => {}
                1 => shown.extend([gap, id]),
                _ => shown.extend([gap, id, "=", &tokens.to_string()]),
            }
        }
        shown
    }

    /// The index of the place with this id.
    #[must_use]
    pub fn place(&self, id: &str) -> Option<usize> {
        self.places.iter().position(|place| place.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arc(place: usize, weight: u32) -> Arc {
        Arc { place, weight }
    }

    #[test]
    fn effects_join_what_is_taken_and_put_at_a_place() {
        let transition = Transition {
            id: "t".into(),
            takes: vec![arc(0, 2), arc(2, u32::MAX)],
            puts: vec![arc(1, 3), arc(2, 1)],
        };
        let effects: Vec<_> = transition
            .effects()
            .iter()
            .map(|e| (e.place, e.needs, e.change))
            .collect();
        let most = u32::MAX;
        assert_eq!(
            effects,
            [(0, 2, -2), (1, 0, 3), (2, most, 1 - i64::from(most))]
        );
    }

    #[test]
    fn arcs_are_checked() {
        let with = |takes| {
            let transition = Transition {
                id: "t".into(),
                takes,
                puts: vec![],
            };
            let place = NetPlace {
                id: "p".into(),
                initial: 0,
            };
            Net::new("n", vec![place], vec![transition])
        };
        assert!(with(vec![arc(0, 1)]).is_ok());
        assert!(matches!(
            with(vec![arc(1, 1)]),
            Err(NetError::NoSuchPlace {
                place: 1,
                places: 1,
                ..
            })
        ));
        assert!(matches!(
            with(vec![arc(0, 0)]),
            Err(NetError::BadArcs { .. })
        ));
        assert!(matches!(
            with(vec![arc(0, 1), arc(0, 1)]),
            Err(NetError::BadArcs { .. })
        ));
    }
}
