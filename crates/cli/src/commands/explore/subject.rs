//! What several ranks explore: the same on all of them.

use farslot_explore::explicit::ranks::{
    Exchange, FaultPlan, RingShape, TableShape, explore_net_rank, rings_for_net, simulate,
};
use farslot_explore::explicit::{Options, Progress};
use farslot_explore::formula::Formula;
use farslot_explore::models::{Named, steps_as_text};
use farslot_explore::net::Net;
use farslot_explore::report::Report;
use farslot_explore::{ExploreError, Terms};
use farslot_terminal::failure::{Failure, Result};
use std::path::Path;

/// What a command has to tell of an exploration.
pub(super) struct ExplorationOutcome {
    pub(super) report: Report,
    /// A state that violates the invariant.
    pub(super) violation: Option<FoundViolation>,
}

/// A state that violates the invariant, and how it is reached.
pub(super) enum FoundViolation {
    /// The steps of a shortest way to it, each with its action and its state.
    Steps(Vec<(String, String)>),
    /// The state alone.
    State(String),
}

impl ExplorationOutcome {
    /// Of an explicit exploration.
    pub(super) fn explicit(report: Report, trace: Option<Vec<(String, String)>>) -> Self {
        Self {
            report,
            violation: trace.map(FoundViolation::Steps),
        }
    }
}

/// How bad the simulator's faults are: as the test suites have them.
const CHAOS: f64 = 0.6;

/// A model, and what is to be checked of it.
#[derive(Clone)]
pub(super) enum ExplorationSubject {
    Net(Net, Option<Formula>),
    /// A model by its name.
    Named(String, Named),
}

impl ExplorationSubject {
    /// The rings that the ranks need.
    pub(super) fn rings(&self, ranks: u32) -> Result<RingShape> {
        let shape = match self {
            Self::Net(net, _) => rings_for_net(net, ranks),
            Self::Named(_, model) => model.rings(ranks),
        };
        shape.map_err(|error| Failure::Failed(error.to_string()))
    }

    /// What the ranks must have alike of it.
    pub(super) fn terms(&self, condition: Option<&str>) -> Terms {
        match self {
            Self::Net(net, _) => Terms::of_net(net, condition),
            Self::Named(name, _) => Terms::of_model(name),
        }
    }

    /// One rank's part of the exploration.
    pub(super) async fn part(
        &self,
        options: &Options,
        exchange: &mut Exchange,
        journal: Option<&Path>,
        progress: &Progress,
    ) -> std::result::Result<ExplorationOutcome, ExploreError> {
        match self {
            Self::Net(net, formula) => {
                let formula = formula.as_ref();
                let found = explore_net_rank(net, formula, options, exchange, journal, progress);
                let (explored, packed) = found.await?;
                let violation = explored.violation.as_ref();
                let trace = violation.map(|steps| steps_as_text(&packed, steps));
                let report = Report::explicit(net.name(), &explored);
                Ok(ExplorationOutcome::explicit(report, trace))
            }
            Self::Named(name, model) => {
                let options = Options {
                    check_invariant: true,
                    ..options.clone()
                };
                let found = model.explore_rank(&options, exchange, journal, progress);
                let found = found.await?;
                let report = Report::explicit(name, &found.explored);
                Ok(ExplorationOutcome::explicit(report, found.trace))
            }
        }
    }

    /// All ranks in the simulator, under faults that a seed decides. What rank 0 has found.
    pub(super) fn simulated(
        self,
        ranks: u32,
        table: Option<TableShape>,
        seed: u64,
        options: &Options,
    ) -> Result<ExplorationOutcome> {
        let faults = FaultPlan::chaos(seed, CHAOS);
        let rings = self.rings(ranks)?;
        let ends = simulate(seed, faults, rings, table, |mut exchange| {
            let (subject, options) = (self.clone(), options.clone());
            async move {
                let progress = Progress::default();
                subject.part(&options, &mut exchange, None, &progress).await
            }
        });
        let failed = |error: ExploreError| Failure::Failed(error.to_string());
        let first = ends.map_err(failed)?.into_iter().next().flatten();
        let stopped = || Failure::Failed("rank 0 did not come to its end".into());
        first.ok_or_else(stopped)?.map_err(failed)
    }
}
