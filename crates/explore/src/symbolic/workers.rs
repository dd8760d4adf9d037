//! The threads of a symbolic exploration: worker 0, which saturates, and those that help.

use super::count;
use super::crew::Idle;
use super::explored::{MarkingStep, MarkingViolation, SymbolicallyExplored};
use super::layers;
use super::memory::SharedMemory;
use super::nodes::{DiagramLimits, DiagramNodes, EMPTY, Halt};
use super::saturate::Saturation;
use super::search::ViolationSearch;
use crate::error::{ExploreError, RankError};
use crate::explicit::Progress;
use crate::formula::Formula;
use crate::growth::{self, TokenGrowth};
use crate::net::Net;
use crate::variables::Variables;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// Stack of a thread: this much, and so much more for each level that it may be deep in.
const STACK: usize = 16 << 20;
const STACK_PER_LEVEL: usize = 4 << 10;

/// Limits within which each order of the places is tried first, and how many times as much next.
const LEAST: DiagramLimits = DiagramLimits {
    memory: 16 << 20,
    steps: 100_000,
    branches: 64,
    garbage: 1 << 18,
};
const MORE: u64 = 4;
/// A place with so many tokens that nothing seems to bound makes a net suspicious: long lists are
/// all that is to be expected from then on, and so many of their branches are a step.
const MANY_TOKENS: u32 = 64;
const BRANCHES_IF_SUSPICIOUS: u64 = 8;

/// Some variables, and their order in the levels of diagrams.
pub(super) type VariableOrder<'v> = (&'v Variables, Vec<usize>);

/// Runs this process's threads to the end. What was found is of worker 0.
pub(super) fn run(
    net: &Net,
    condition: Option<&Formula>,
    orders: &[VariableOrder<'_>],
    memory: &SharedMemory,
    progress: &Progress,
) -> Result<Option<SymbolicallyExplored>, ExploreError> {
    let started = Instant::now();
    let stack = STACK + STACK_PER_LEVEL * net.places().len();
    // All that may fail before any thread waits for another.
    let nodes: Result<Vec<DiagramNodes>, ExploreError> = (0..memory.threads())
        .map(|thread| {
            let steps = if (memory.rank(), thread) == (0, 0) {
                LEAST.steps
            } else {
                u64::MAX
            };
            let limits = DiagramLimits {
                memory: LEAST.memory.min(memory.bytes()),
                steps,
                ..LEAST
            };
            memory.nodes(thread, limits)
        })
        .collect();
    let ends = std::thread::scope(|scope| {
        let mut handles = Vec::new();
        for (thread, nodes) in nodes?.into_iter().enumerate() {
            let builder = std::thread::Builder::new().stack_size(stack);
            let spawned = builder.spawn_scoped(scope, move || {
                let crew = memory.crew(thread)?;
                let work = AssertUnwindSafe(|| {
                    if crew.share().worker > 0 {
                        return help(net, orders, nodes, progress).map(|()| None);
                    }
                    let lead = Lead {
                        net,
                        condition,
                        orders,
                        memory: memory.bytes(),
                        progress,
                        started,
                    };
                    lead.explore(nodes).map(Some)
                });
                let end = catch_unwind(work).unwrap_or(Err(ExploreError::Panicked));
                if end.is_err() {
                    crew.fail();
                }
                end
            });
            match spawned {
                Ok(handle) => handles.push(handle),
                Err(error) => {
                    memory.crew(thread)?.fail();
                    return Err(ExploreError::Thread(error));
                }
            }
        }
        let ends = handles.into_iter();
        let ends = ends.map(|handle| handle.join().unwrap_or(Err(ExploreError::Panicked)));
        Ok(ends.collect::<Vec<_>>())
    })?;
    let mut found = None;
    let mut failed = None;
    for end in ends {
        match end {
            Ok(end) => found = found.or(end),
            // What is wrong here is better told than that somebody gave up.
            Err(error) => {
                let is_echo = matches!(error, ExploreError::Rank(RankError::GaveUp { .. }));
                if failed.is_none() || !is_echo {
                    failed = Some(error);
                }
            }
        }
    }
    failed.map_or(Ok(found), Err)
}

/// Worker 0, and what it is given.
#[derive(Clone, Copy)]
struct Lead<'n> {
    net: &'n Net,
    condition: Option<&'n Formula>,
    orders: &'n [VariableOrder<'n>],
    /// Bytes.
    memory: u64,
    progress: &'n Progress,
    started: Instant,
}

impl<'n> Lead<'n> {
    fn explore(self, nodes: DiagramNodes) -> Result<SymbolicallyExplored, ExploreError> {
        // Without a condition it was checked before.
        let bounded = match self.condition {
            Some(_) => growth::check(self.net),
            None => Ok(()),
        };
        let (mut saturation, reached) = match bounded {
            Ok(()) => self.reach(nodes),
            Err(unbounded) => (self.saturation(0, nodes), Err(unbounded)),
        };
        let explored = match (reached, self.condition) {
            (Ok(reached), None) => self.explored(&mut saturation, reached)?,
            (Ok(reached), Some(condition)) => {
                let explored = self.explored(&mut saturation, reached)?;
                let violation = self.violation(&mut saturation, condition, reached)?;
                SymbolicallyExplored {
                    violation,
                    seconds: self.started.elapsed().as_secs_f64(),
                    ..explored
                }
            }
            (Err(error), Some(condition)) if is_too_much(&error) => {
                let (now, explored) = self.layers(saturation, condition, error)?;
                saturation = now;
                explored
            }
            (Err(error), _) => return Err(error),
        };
        saturation.nodes_mut().end();
        Ok(explored)
    }

    fn saturation(self, order: usize, nodes: DiagramNodes) -> Saturation<'n> {
        let (variables, order) = &self.orders[order];
        Saturation::new(self.net, variables, order, nodes, self.progress)
    }

    fn limits(self) -> DiagramLimits {
        DiagramLimits {
            memory: self.memory,
            steps: u64::MAX,
            ..LEAST
        }
    }

    /// The numbers of a diagram's markings.
    fn explored(
        self,
        saturation: &mut Saturation<'n>,
        reached: u32,
    ) -> Result<SymbolicallyExplored, ExploreError> {
        let dead = saturation.disabled(reached)?;
        let counts = count::Counts::of(saturation, reached);
        Ok(SymbolicallyExplored {
            transitions: counts.transitions(saturation),
            deadlocks: count::Counts::of(saturation, dead).states(),
            states: counts.states(),
            tokens: counts.tokens(saturation),
            violation: None,
            nodes: counts.nodes(saturation),
            bytes: saturation.bytes(),
            seconds: self.started.elapsed().as_secs_f64(),
            preparation: 0.0,
        })
    }

    /// A violation among all markings, and a shortest path to one if the memory suffices.
    fn violation(
        self,
        saturation: &mut Saturation<'n>,
        condition: &Formula,
        reached: u32,
    ) -> Result<Option<MarkingViolation>, ExploreError> {
        let mut search = ViolationSearch::new(condition, saturation.places());
        let Some(marking) = search.find(saturation.nodes(), reached)? else {
            return Ok(None);
        };
        match layers::explore(saturation, &mut search, reached, self.progress) {
            Ok(layered) => Ok(layered.path.map(|path| self.path(saturation, path))),
            Err(Halt::Failed(ExploreError::OutOfMemory { .. })) => Ok(Some(MarkingViolation {
                marking: saturation.marking(&marking),
                path: None,
            })),
            Err(error) => Err(error.into()),
        }
    }

    /// Goes layer by layer where all markings, for the reason of `error`, were too much.
    fn layers(
        self,
        saturation: Saturation<'n>,
        condition: &Formula,
        error: ExploreError,
    ) -> Result<(Saturation<'n>, SymbolicallyExplored), ExploreError> {
        let mut nodes = saturation.into_nodes();
        nodes.restart(0, self.limits())?;
        let mut saturation = self.saturation(0, nodes);
        let mut search = ViolationSearch::new(condition, saturation.places());
        let layered = match layers::explore(&mut saturation, &mut search, EMPTY, self.progress) {
            Ok(layered) => layered,
            Err(Halt::Failed(end)) if is_too_much(&end) => return Err(error),
            Err(end) => return Err(end.into()),
        };
        let explored = self.explored(&mut saturation, layered.all)?;
        let violation = layered.path.map(|path| self.path(&saturation, path));
        let explored = SymbolicallyExplored {
            violation,
            ..explored
        };
        Ok((saturation, explored))
    }

    fn path(self, saturation: &Saturation<'n>, path: Vec<layers::Firing>) -> MarkingViolation {
        let steps = path.into_iter().map(|(transition, marking)| MarkingStep {
            transition,
            marking: saturation.marking(&marking),
        });
        let steps: Vec<MarkingStep> = steps.collect();
        let last = steps.last();
        MarkingViolation {
            marking: last.map(|step| step.marking.clone()).unwrap_or_default(),
            path: Some(steps),
        }
    }

    /// Reaches all markings by the first order that does it within small limits; if none does,
    /// within larger ones. Once there is no more memory to be had, it goes on for as long as no
    /// place gets more tokens that nothing seems to bound.
    fn reach(self, nodes: DiagramNodes) -> (Saturation<'n>, Result<u32, ExploreError>) {
        let mut limits = LEAST;
        let mut growth = TokenGrowth::new(self.net);
        let mut saturation = self.saturation(0, nodes);
        let mut is_first = true;
        loop {
            limits.memory = limits.memory.min(self.memory);
            let mut too_small = None;
            for number in 0..self.orders.len() {
                if !std::mem::take(&mut is_first) {
                    let mut nodes = saturation.into_nodes();
                    let restarted = nodes.restart(number as u64, limits);
                    saturation = self.saturation(number, nodes);
                    if let Err(halt) = restarted {
                        return (saturation, Err(halt.into()));
                    }
                }
                match saturation.reachable() {
                    Ok(reached) => {
                        saturation.nodes_mut().allow(self.limits());
                        return (saturation, Ok(reached));
                    }
                    Err(Halt::Steps | Halt::Stopped) => {}
                    Err(Halt::Failed(error @ ExploreError::OutOfMemory { .. })) => {
                        too_small = Some(error);
                    }
                    Err(Halt::Failed(error)) => return (saturation, Err(error)),
                }
                growth.note(saturation.most());
                let is_suspicious = limits.branches == BRANCHES_IF_SUSPICIOUS;
                if !is_suspicious && growth.since_start(MANY_TOKENS).is_some() {
                    limits.branches = BRANCHES_IF_SUSPICIOUS;
                }
            }
            if let Err(error) = self.may_go_on(limits, too_small, &growth) {
                return (saturation, Err(error));
            }
            growth.end_round();
            limits.memory = limits.memory.saturating_mul(MORE);
            limits.steps = limits.steps.saturating_mul(MORE);
        }
    }

    /// Whether, after a round within these limits, there is a point in another one.
    fn may_go_on(
        self,
        limits: DiagramLimits,
        too_small: Option<ExploreError>,
        growth: &TokenGrowth<'_>,
    ) -> Result<(), ExploreError> {
        let is_first_round = limits.steps == LEAST.steps;
        if is_first_round {
            growth::check_far(self.net)?;
        }
        if limits.memory < self.memory {
            return Ok(());
        }
        match (too_small, growth.in_round()) {
            (Some(short), Some((place, tokens))) => Err(ExploreError::Grown {
                place,
                tokens: tokens.into(),
                short: Box::new(short),
            }),
            (Some(short), None) => Err(short),
            (None, Some((place, tokens))) if !is_first_round => Err(ExploreError::StillGrows {
                place,
                tokens,
                steps: limits.steps,
                memory: self.memory,
            }),
            (None, _) => Ok(()),
        }
    }
}

/// Whether all markings of a net were too much, and not something else the matter.
fn is_too_much(error: &ExploreError) -> bool {
    matches!(
        error,
        ExploreError::OutOfMemory { .. }
            | ExploreError::Unbounded { .. }
            | ExploreError::AboveLimit { .. }
            | ExploreError::StillGrows { .. }
            | ExploreError::Grown { .. }
    )
}

/// Any other worker.
fn help(
    net: &Net,
    orders: &[VariableOrder<'_>],
    mut nodes: DiagramNodes,
    progress: &Progress,
) -> Result<(), ExploreError> {
    let mut order = 0;
    loop {
        let (variables, variables_in_order) = orders
            .get(order as usize)
            .ok_or_else(|| RankError::malformed(0, "the number of an order that there is not"))?;
        let mut saturation = Saturation::new(net, variables, variables_in_order, nodes, progress);
        match help_with(&mut saturation, order)? {
            Some(next) => order = next,
            None => return Ok(()),
        }
        nodes = saturation.into_nodes();
    }
}

/// Helps for as long as the order of the places stays. The next order; none at the end.
fn help_with(saturation: &mut Saturation<'_>, order: u64) -> Result<Option<u64>, ExploreError> {
    let mut idle = Idle::default();
    // Without memory for what it does, a worker waits until garbage was collected.
    let mut has_memory = true;
    loop {
        if saturation.nodes().crew.is_requested() {
            let next = saturation.nodes_mut().stop()?;
            if next != Some(order) {
                return Ok(next);
            }
            (idle, has_memory) = (Idle::default(), true);
            continue;
        }
        let hint = match has_memory {
            true => saturation.nodes_mut().crew.take(),
            false => None,
        };
        let Some(hint) = hint else {
            saturation.nodes().crew.check()?;
            idle.wait();
            if idle.is_long() {
                saturation.nodes().crew.check_all()?;
            }
            continue;
        };
        idle = Idle::default();
        let helped = saturation.help(hint);
        saturation.nodes_mut().give_up();
        match helped {
            Ok(()) | Err(Halt::Steps | Halt::Stopped) => {}
            // Worker 0 finds that too, and tells it to the others.
            Err(Halt::Failed(ExploreError::Unbounded { .. } | ExploreError::AboveLimit { .. })) => {
            }
            Err(Halt::Failed(ExploreError::OutOfMemory { .. })) => has_memory = false,
            Err(Halt::Failed(error)) => return Err(error),
        }
    }
}
