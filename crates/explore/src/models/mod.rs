//! Models in Rust: examples of [`Model`], and what other checkers are compared on.

mod bits;
mod mutual_exclusion;
mod philosophers;
mod puzzle;
mod size;
mod two_phase;

pub use mutual_exclusion::{Algorithm, MutualExclusion};
pub use philosophers::Philosophers;
pub use puzzle::Puzzle;
pub use size::SizeError;
pub use two_phase::TwoPhase;

use crate::error::ExploreError;
use crate::explicit::{Explored, Options, Progress, explore};
use crate::model::Model;

/// A model that has a name.
#[derive(Debug, Clone)]
pub enum Named {
    /// `puzzle:RxC`: the sliding puzzle.
    Puzzle(Puzzle),
    /// `peterson`, `peterson-broken`, `dekker`, `dekker-broken`.
    MutualExclusion(MutualExclusion),
    /// `philosophers:N`.
    Philosophers(Philosophers),
    /// `2pc:N`, `2pc-broken:N`.
    TwoPhase(TwoPhase),
}

/// Why a name is not a model's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No model has this name.
    #[error(
        "no model is called {0:?}: a .pnml file, puzzle:RxC, peterson, peterson-broken, dekker, \
         dekker-broken, philosophers:N, 2pc:N or 2pc-broken:N"
    )]
    Unknown(String),
    /// A size that it cannot have.
    #[error(transparent)]
    Size(#[from] SizeError),
}

impl std::str::FromStr for Named {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let unknown = || NameError::Unknown(name.into());
        let (kind, size) = name.split_once(':').unwrap_or((name, ""));
        let number = |text: &str| text.parse::<usize>().map_err(|_| unknown());
        if let ("peterson" | "peterson-broken" | "dekker" | "dekker-broken", "") = (kind, size) {
            let algorithm = match kind {
                "peterson" => Algorithm::Peterson,
                "peterson-broken" => Algorithm::PetersonTurnFirst,
                "dekker" => Algorithm::Dekker,
                _ => Algorithm::DekkerTestFirst,
            };
            return Ok(Self::MutualExclusion(MutualExclusion::new(algorithm)));
        }
        Ok(match kind {
            "puzzle" => {
                let (rows, columns) = size.split_once('x').ok_or_else(unknown)?;
                Self::Puzzle(Puzzle::new(number(rows)?, number(columns)?)?)
            }
            "philosophers" => Self::Philosophers(Philosophers::new(number(size)?)?),
            "2pc" => Self::TwoPhase(TwoPhase::new(number(size)?, false)?),
            "2pc-broken" => Self::TwoPhase(TwoPhase::new(number(size)?, true)?),
            _ => return Err(unknown()),
        })
    }
}

/// What exploring a named model found, and its trace as text: an action and a state a line.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedExplored {
    /// The numbers.
    pub explored: Explored,
    /// The steps of [`Explored::violation`], each with its action and its state.
    pub trace: Option<Vec<(String, String)>>,
}

impl Named {
    /// Explores it and checks its invariant.
    ///
    /// # Errors
    /// [`ExploreError`].
    pub fn explore(
        &self,
        options: &Options,
        progress: &Progress,
    ) -> Result<NamedExplored, ExploreError> {
        match self {
            Self::Puzzle(model) => run(model, options, progress),
            Self::MutualExclusion(model) => run(model, options, progress),
            Self::Philosophers(model) => run(model, options, progress),
            Self::TwoPhase(model) => run(model, options, progress),
        }
    }
}

fn run(
    model: &impl Model,
    options: &Options,
    progress: &Progress,
) -> Result<NamedExplored, ExploreError> {
    let explored = explore(model, options, None, progress)?;
    let trace = explored
        .violation
        .as_ref()
        .map(|steps| steps_as_text(model, steps));
    Ok(NamedExplored { explored, trace })
}

/// A trace for people: the action that leads to each state, and the state.
pub fn steps_as_text(
    model: &impl Model,
    steps: &[crate::explicit::TraceStep],
) -> Vec<(String, String)> {
    let shown = steps.iter().map(|step| {
        let action = step
            .action
            .map_or("initially".into(), |action| model.action(action));
        (action, model.show(&step.state))
    });
    shown.collect()
}
