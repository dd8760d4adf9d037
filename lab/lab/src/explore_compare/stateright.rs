//! Our models through Stateright's trait.
//!
//! A state is one word, and so is an action: the state that it leads to. So Stateright computes
//! each successor once, by the same code as our explorer, and copies nothing larger than a word.

use super::model::{CommonModel, Kind};
use super::outcome::OneExplored;
use super::system::ExplorationTool;
use crate::Result;
use farslot_explore::model::{Model, Successors};
use farslot_explore::models::{Filter, Philosophers, TwoPhase};
use stateright::{Checker, Property};
use std::cell::RefCell;
use std::time::Instant;

/// As in Cargo.lock.
pub(super) const VERSION: &str = "0.31.0";

pub(super) fn explore(
    model: CommonModel,
    workers: usize,
    system: ExplorationTool,
) -> Result<OneExplored> {
    let failed = |error: String| system.failure(model, error);
    let size = |error: farslot_explore::models::SizeError| failed(error.to_string());
    match model.kind {
        Kind::Philosophers => check(
            Philosophers::new(model.size).map_err(size)?,
            workers,
            system,
        ),
        Kind::Peterson => check(Filter::new(model.size).map_err(size)?, workers, system),
        Kind::TwoPhase => check(
            TwoPhase::new(model.size, false).map_err(size)?,
            workers,
            system,
        ),
    }
    .ok_or_else(|| failed("the invariant is violated".into()))
}

/// A model whose states are one word each.
struct OneWord<M>(M);

thread_local! {
    /// Where a thread's model pushes successors.
    static SUCCESSORS: RefCell<Successors> = RefCell::new(Successors::new(1));
}

impl<M: Model> stateright::Model for OneWord<M> {
    type State = u64;
    type Action = u64;

    fn init_states(&self) -> Vec<u64> {
        self.0.initial().concat()
    }

    fn actions(&self, state: &u64, actions: &mut Vec<u64>) {
        SUCCESSORS.with_borrow_mut(|successors| {
            successors.clear();
            // These models have room for all of their states.
            let _ = self.0.successors(&[*state], successors);
            actions.extend_from_slice(successors.states());
        });
    }

    fn next_state(&self, _: &u64, action: u64) -> Option<u64> {
        Some(action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("invariant", |model: &Self, state| {
            model.0.invariant(&[*state])
        })]
    }
}

/// Explores all states; nothing if one violates the invariant.
fn check<M: Model + Send + 'static>(
    model: M,
    workers: usize,
    system: ExplorationTool,
) -> Option<OneExplored> {
    let since = Instant::now();
    let builder = stateright::Model::checker(OneWord(model)).threads(workers);
    let (states, violated) = match system {
        ExplorationTool::StaterightDfs => ended(builder.spawn_dfs().join()),
        _ => ended(builder.spawn_bfs().join()),
    };
    (!violated).then(|| OneExplored {
        states,
        seconds: since.elapsed().as_secs_f64(),
        set_bytes: None,
        peak_bytes: None,
    })
}

/// States, and whether the invariant is violated.
fn ended<M: Model>(checker: impl Checker<OneWord<M>>) -> (u64, bool) {
    let violated = checker.discovery("invariant").is_some();
    (checker.unique_state_count() as u64, violated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_one_that_is_built() {
        let lock = include_str!("../../../../Cargo.lock");
        let package = format!("name = \"stateright\"\nversion = \"{VERSION}\"\n");
        assert!(lock.contains(&package), "{VERSION}");
    }
}
