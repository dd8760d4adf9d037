//! Models in Rust: examples of [`Model`], and what other checkers are compared on.

mod as_net;
mod bits;
mod filter;
mod mutual_exclusion;
mod philosophers;
mod puzzle;
mod size;
mod two_phase;

pub use as_net::ModelNet;
pub use filter::Filter;
pub use mutual_exclusion::{Algorithm, MutualExclusion};
pub use philosophers::Philosophers;
pub use puzzle::Puzzle;
pub use size::SizeError;
pub use two_phase::TwoPhase;

use crate::error::{ExploreError, RankError};
use crate::explicit::ranks::{Exchange, Exploring, RingShape, explore_rank, join_journals};
use crate::explicit::{Explored, Header, LevelJournal, Options, Progress, digest_of, explore};
use crate::model::Model;
use std::path::Path;

/// A model that has a name.
#[derive(Debug, Clone, Hash)]
pub enum Named {
    /// `puzzle:RxC`: the sliding puzzle.
    Puzzle(Puzzle),
    /// `peterson`, `peterson-broken`, `dekker`, `dekker-broken`.
    MutualExclusion(MutualExclusion),
    /// `peterson:N`: for N processes.
    Filter(Filter),
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
        "no model is called {0:?}: a .pnml file, puzzle:RxC, peterson, peterson:N, peterson-broken, \
         dekker, dekker-broken, philosophers:N, 2pc:N or 2pc-broken:N"
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
            "peterson" => Self::Filter(Filter::new(number(size)?)?),
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
    /// Explores it and checks its invariant. With a path for a journal, the exploration goes on
    /// from the journal there, or begins one.
    ///
    /// # Errors
    /// [`ExploreError`].
    pub fn explore(
        &self,
        options: &Options,
        journal: Option<&Path>,
        progress: &Progress,
    ) -> Result<NamedExplored, ExploreError> {
        let header = self.header((0, 1));
        let opened = journal.map(|path| LevelJournal::open_or_create(path, header));
        let mut journal = opened.transpose()?;
        let journal = journal.as_mut();
        match self {
            Self::Puzzle(model) => run(model, options, journal, progress),
            Self::MutualExclusion(model) => run(model, options, journal, progress),
            Self::Filter(model) => run(model, options, journal, progress),
            Self::Philosophers(model) => run(model, options, journal, progress),
            Self::TwoPhase(model) => run(model, options, journal, progress),
        }
    }

    /// [`Named::explore`] by several ranks, each of which calls this: see [`explore_rank`]. With a
    /// path for a journal, each writes one of its own there, as [`join_journals`] says.
    ///
    /// # Errors
    /// As [`explore_rank`] and [`join_journals`].
    pub fn explore_rank<'x>(
        &'x self,
        options: &'x Options,
        exchange: &'x mut Exchange,
        journal: Option<&'x Path>,
        progress: &'x Progress,
    ) -> Exploring<'x, NamedExplored> {
        let header = self.header((exchange.rank(), exchange.ranks()));
        let part = Part {
            options,
            exchange,
            journal: journal.map(|path| (path, header)),
            progress,
        };
        match self {
            Self::Puzzle(model) => Box::pin(part.run(model)),
            Self::MutualExclusion(model) => Box::pin(part.run(model)),
            Self::Filter(model) => Box::pin(part.run(model)),
            Self::Philosophers(model) => Box::pin(part.run(model)),
            Self::TwoPhase(model) => Box::pin(part.run(model)),
        }
    }

    /// The model as a net of that name: with as many states, and as many transitions.
    #[must_use]
    pub fn as_net(&self, name: &str) -> ModelNet {
        match self {
            Self::Puzzle(model) => model.as_net(name),
            Self::MutualExclusion(model) => model.as_net(name),
            Self::Filter(model) => model.as_net(name),
            Self::Philosophers(model) => model.as_net(name),
            Self::TwoPhase(model) => model.as_net(name),
        }
    }

    /// What a journal of it belongs to. Its states are what the code says, so the version of that
    /// is part of it.
    fn header(&self, ranks: (usize, usize)) -> Header {
        Header {
            bits: self.bits() as u64,
            digest: digest_of(&(env!("CARGO_PKG_VERSION"), self), ranks),
            layout: Vec::new(),
        }
    }

    /// The rings that ranks need for it.
    ///
    /// # Errors
    /// As [`RingShape::for_states`].
    pub fn rings(&self, ranks: u32) -> Result<RingShape, RankError> {
        RingShape::for_states(ranks, self.bits().div_ceil(64))
    }

    fn bits(&self) -> usize {
        match self {
            Self::Puzzle(model) => model.bits(),
            Self::MutualExclusion(model) => model.bits(),
            Self::Filter(model) => model.bits(),
            Self::Philosophers(model) => model.bits(),
            Self::TwoPhase(model) => model.bits(),
        }
    }
}

/// What a rank explores a model with.
struct Part<'a> {
    options: &'a Options,
    exchange: &'a mut Exchange,
    journal: Option<(&'a Path, Header)>,
    progress: &'a Progress,
}

impl Part<'_> {
    async fn run(self, model: &impl Model) -> Result<NamedExplored, ExploreError> {
        let (options, exchange) = (self.options, self.exchange);
        let mut journal = match self.journal {
            Some((path, header)) => {
                Some(join_journals(model, options, exchange, path, header).await?)
            }
            None => None,
        };
        let journal = journal.as_mut();
        let explored = explore_rank(model, options, exchange, journal, self.progress).await?;
        Ok(NamedExplored::of(model, explored))
    }
}

fn run(
    model: &impl Model,
    options: &Options,
    journal: Option<&mut LevelJournal>,
    progress: &Progress,
) -> Result<NamedExplored, ExploreError> {
    let explored = explore(model, options, journal, progress)?;
    Ok(NamedExplored::of(model, explored))
}

impl NamedExplored {
    fn of(model: &impl Model, explored: Explored) -> Self {
        let violation = explored.violation.as_ref();
        let trace = violation.map(|steps| steps_as_text(model, steps));
        Self { explored, trace }
    }
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
