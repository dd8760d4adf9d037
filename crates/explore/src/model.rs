//! What can be explored: states of a fixed number of words, and their successors.

/// A system with a finite set of states, to be explored.
///
/// A state is a fixed number of bits in 64-bit words, in which the model packs what it likes; two
/// states are the same if their words are. States of up to 63 bits are stored as they are; longer
/// ones are compressed, and the better the fewer different values each of their 32-bit halves
/// takes.
pub trait Model: Sync {
    /// Bits of a state, at least 1. It has as many words as that takes; bits above are 0.
    fn bits(&self) -> usize;

    /// The initial states.
    fn initial(&self) -> Vec<Vec<u64>>;

    /// Pushes every successor of `state`; one for each transition that is enabled, so that the same
    /// state may be pushed more than once.
    ///
    /// # Errors
    /// [`StateOverflow`] if a successor does not fit into the words of a state.
    fn successors(&self, state: &[u64], out: &mut Successors) -> Result<(), StateOverflow>;

    /// Whether `state` is as it should be. Exploration looks for a shortest way to a state that is
    /// not.
    fn invariant(&self, state: &[u64]) -> bool {
        let _ = state;
        true
    }

    /// How many tokens `state` holds, for models that are nets.
    fn tokens(&self, state: &[u64]) -> Option<Tokens> {
        let _ = state;
        None
    }

    /// What an action, as numbered by [`Model::successors`], is called.
    fn action(&self, action: u32) -> String {
        format!("action {action}")
    }

    /// A state for people.
    fn show(&self, state: &[u64]) -> String {
        format!("{state:x?}")
    }
}

/// Most tokens, over one or several states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tokens {
    /// In one place.
    pub in_place: u64,
    /// In all places of one state together.
    pub in_state: u64,
}

impl Tokens {
    /// The larger of both, number by number.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            in_place: self.in_place.max(other.in_place),
            in_state: self.in_state.max(other.in_state),
        }
    }
}

/// A part of a state has no room for its next value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("part {part} of a state has no room for the value {value}")]
pub struct StateOverflow {
    /// Which part: of a net, the place's index.
    pub part: usize,
    /// The value that does not fit.
    pub value: u64,
}

/// Successors of some states, as a model pushes them.
#[derive(Debug)]
pub struct Successors {
    words: usize,
    states: Vec<u64>,
    actions: Vec<u32>,
}

impl Successors {
    /// An empty list of states of `words` words.
    #[must_use]
    pub fn new(words: usize) -> Self {
        Self {
            words,
            states: Vec::new(),
            actions: Vec::new(),
        }
    }

    /// Adds a successor that `action` leads to, and returns it to be changed: it begins as a copy
    /// of `state`.
    ///
    /// # Panics
    /// If `state` is not of the model's number of words.
    #[inline]
    pub fn push(&mut self, action: u32, state: &[u64]) -> &mut [u64] {
        assert_eq!(state.len(), self.words, "words of a state");
        let start = self.states.len();
        self.states.extend_from_slice(state);
        self.actions.push(action);
        &mut self.states[start..]
    }

    /// States in the list.
    #[must_use]
    pub fn len(&self) -> usize {
        self.actions.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// The words of all states, one after the other.
    #[must_use]
    pub fn states(&self) -> &[u64] {
        &self.states
    }

    /// The actions that led to them.
    #[must_use]
    pub fn actions(&self) -> &[u32] {
        &self.actions
    }

    /// Empties the list and keeps its memory.
    pub fn clear(&mut self) {
        self.states.clear();
        self.actions.clear();
    }
}
