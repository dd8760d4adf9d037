//! What a symbolic exploration is given, and what it finds.

use crate::model::Tokens;
use crate::net::Net;
use num_bigint::BigUint;
use std::num::NonZeroUsize;

/// How to explore symbolically.
#[derive(Debug, Clone)]
pub struct SymbolicOptions {
    /// Threads of this process: the same number on every rank.
    pub threads: NonZeroUsize,
    /// Bytes that nodes and operation cache of all ranks may take together.
    pub memory: u64,
}

impl Default for SymbolicOptions {
    fn default() -> Self {
        Self {
            threads: NonZeroUsize::MIN,
            memory: u64::MAX,
        }
    }
}

/// A marking that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkingViolation {
    /// The tokens of each place.
    pub marking: Vec<u32>,
    /// A shortest path to it, from the initial marking on; none where the memory does not suffice
    /// to find one.
    pub path: Option<Vec<MarkingStep>>,
}

/// A marking on a path, and the transition that led to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkingStep {
    /// The transition, by its number; `None` for the initial marking.
    pub transition: Option<usize>,
    /// The tokens of each place.
    pub marking: Vec<u32>,
}

impl MarkingViolation {
    /// The steps of the path for people: the transition that leads to each marking, and that.
    #[must_use]
    pub fn path_as_text(&self, net: &Net) -> Option<Vec<(String, String)>> {
        let steps = self.path.as_ref()?.iter().map(|step| {
            let action = match step.transition {
                Some(number) => net.transitions()[number].id.clone(),
                None => "initially".into(),
            };
            (action, marking_as_text(net, &step.marking))
        });
        Some(steps.collect())
    }

    /// The marking for people.
    #[must_use]
    pub fn marking_as_text(&self, net: &Net) -> String {
        marking_as_text(net, &self.marking)
    }
}

fn marking_as_text(net: &Net, marking: &[u32]) -> String {
    net.show(marking.iter().map(|tokens| u64::from(*tokens)).enumerate())
}

/// What a symbolic exploration found. Where a violation was found before all markings, the numbers
/// are of those that were found until then.
#[derive(Debug, Clone, PartialEq)]
pub struct SymbolicallyExplored {
    /// Reachable markings.
    pub states: BigUint,
    /// Transitions between them, one for each that is enabled in each marking.
    pub transitions: BigUint,
    /// Markings in which no transition is enabled.
    pub deadlocks: BigUint,
    /// Most tokens.
    pub tokens: Tokens,
    /// A marking that violates the condition, if one was given and there is one.
    pub violation: Option<MarkingViolation>,
    /// Nodes of the diagram of all reachable markings.
    pub nodes: u64,
    /// Bytes of the nodes and the operation cache.
    pub bytes: u64,
    /// Seconds that it took.
    pub seconds: f64,
    /// Seconds before that, in which the net was looked at, and its places put in order.
    pub preparation: f64,
}
