//! Explicit exploration: every reachable state is visited once, breadth first, by several threads,
//! or by several processes ([`ranks`]).
//!
//! The search goes by levels: level 0 has the initial states, level d + 1 those successors of level
//! d that were in no level before. Within a level, threads take blocks of its states, generate
//! their successors, and find-or-put each: whoever inserts a state puts it into the next level, so
//! each state is in exactly one level, once. A barrier ends the level.
//!
//! **Termination** needs no detection beyond the barrier. A thread passes it only when no block of
//! the level is left and the successors of all its blocks are in the set; when all have arrived,
//! every successor of every state of the level is in the set, and the next level is complete. If
//! that is empty, the set holds the successors of all of its states: nothing more is reachable. As
//! levels are complete, a state's level is the length of a shortest path to it, and the last level
//! that is not empty is the depth.

mod journal;
mod level;
mod net;
mod options;
pub mod ranks;
mod store;
mod trace;
mod worker;

pub(crate) use journal::digest_of;
pub use journal::{Header, LevelJournal};
pub use net::explore_net;
pub use options::{Options, Progress};

use crate::error::ExploreError;
use crate::model::{Model, Tokens};
use level::{Blocks, ExpandedLevel};
use std::time::Instant;
use worker::{Search, Totals, Worker};

/// What an exploration found.
#[derive(Debug, Clone, PartialEq)]
pub struct Explored {
    /// Reachable states; where a violation was found, those found until then.
    pub states: u64,
    /// Transitions between them, one for each that is enabled in each state.
    pub transitions: u64,
    /// States without successors.
    pub deadlocks: u64,
    /// The longest of all shortest paths from an initial state.
    pub depth: u64,
    /// Most tokens, if the model has any.
    pub tokens: Option<Tokens>,
    /// A shortest path to a state that violates the invariant.
    pub violation: Option<Vec<TraceStep>>,
    /// Bytes of the set of states.
    pub bytes: u64,
    /// Seconds that it took.
    pub seconds: f64,
    /// Seconds before that: of a net, in which it was looked at and packed, and explored with too
    /// few bits for a place.
    pub preparation: f64,
}

impl Explored {
    /// With all that was done since then, and before the exploration, as preparation.
    fn since(self, started: Instant) -> Self {
        let all = started.elapsed().as_secs_f64();
        Self {
            preparation: (all - self.seconds).max(0.0),
            ..self
        }
    }
}

/// A state on a path, and the action that led to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceStep {
    /// The action, by its number; `None` for the initial state.
    pub action: Option<u32>,
    /// The state.
    pub state: Vec<u64>,
}

/// Explores a model to its end, or to its first violation. With a journal, every level is written
/// to it when it is complete, and the exploration goes on from the levels that are in it.
///
/// # Errors
/// [`ExploreError`]: too little memory, a state without room, or a journal that fails.
pub fn explore<M: Model>(
    model: &M,
    options: &Options,
    journal: Option<&mut LevelJournal>,
    progress: &Progress,
) -> Result<Explored, ExploreError> {
    let started = Instant::now();
    let search = Search::new(model, options, progress)?;
    let found = std::thread::scope(|scope| {
        for _ in 1..options.threads.get() {
            scope.spawn(|| search.help());
        }
        let found = run(&search, journal);
        search.dismiss();
        found
    })?;
    let Finished { totals, violation } = found;
    Ok(Explored {
        states: totals.states,
        transitions: totals.transitions,
        deadlocks: totals.deadlocks,
        depth: totals.depth,
        tokens: totals.tokens,
        violation,
        bytes: search.bytes(),
        seconds: started.elapsed().as_secs_f64(),
        preparation: 0.0,
    })
}

struct Finished {
    totals: Totals,
    violation: Option<Vec<TraceStep>>,
}

fn run<M: Model>(
    search: &Search<'_, M>,
    mut journal: Option<&mut LevelJournal>,
) -> Result<Finished, ExploreError> {
    let mut worker = Worker::new(search);
    let mut totals = Totals::default();
    let mut levels: Vec<Blocks> = Vec::new();
    let mut level = match &mut journal {
        Some(journal) => search.replay(&mut worker, journal, &mut totals, &mut levels)?,
        None => Blocks::default(),
    };
    if level.is_empty() {
        level = worker.insert(&search.model.initial().concat())?;
        totals.states = level.len();
        if let Some(journal) = &mut journal {
            search.record(&mut worker, journal, &level, &totals)?;
        }
    }
    loop {
        search.show(&totals);
        let ExpandedLevel { current, next } = search.expand(&mut worker, level, &mut totals)?;
        if search.checks_invariant() {
            levels.push(current);
        }
        if let Some(code) = totals.violation {
            let violation = Some(search.trace(&levels, code)?);
            return Ok(Finished { totals, violation });
        }
        if next.is_empty() {
            let violation = None;
            return Ok(Finished { totals, violation });
        }
        totals.depth += 1;
        level = next;
        if let Some(journal) = &mut journal {
            search.record(&mut worker, journal, &level, &totals)?;
        }
    }
}
