//! The threads of a symbolic exploration: worker 0, which saturates, and those that help.

use super::count;
use super::crew::Idle;
use super::explored::SymbolicallyExplored;
use super::memory::SharedMemory;
use super::nodes::{DiagramLimits, DiagramNodes, Halt};
use super::saturate::Saturation;
use crate::error::{ExploreError, RankError};
use crate::explicit::Progress;
use crate::growth::{self, TokenGrowth};
use crate::net::Net;
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

/// Runs this process's threads to the end. What was found is of worker 0.
pub(super) fn run(
    net: &Net,
    orders: &[Vec<usize>],
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
                    lead(net, orders, nodes, memory.bytes(), progress, started).map(Some)
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

/// Worker 0.
fn lead(
    net: &Net,
    orders: &[Vec<usize>],
    nodes: DiagramNodes,
    memory: u64,
    progress: &Progress,
    started: Instant,
) -> Result<SymbolicallyExplored, ExploreError> {
    let (mut saturation, reached) = reach(net, orders, nodes, memory, progress)?;
    let dead = saturation.disabled(reached)?;
    let counts = count::Counts::of(&saturation, reached);
    let explored = SymbolicallyExplored {
        transitions: counts.transitions(&saturation),
        deadlocks: count::Counts::of(&saturation, dead).states(),
        states: counts.states(),
        tokens: counts.tokens(&saturation),
        nodes: counts.nodes(&saturation),
        bytes: saturation.bytes(),
        seconds: started.elapsed().as_secs_f64(),
    };
    saturation.nodes_mut().end();
    Ok(explored)
}

/// Reaches all markings by the first order that does it within small limits; if none does, within
/// larger ones. Once there is no more memory to be had, it goes on for as long as no place gets
/// more tokens that nothing seems to bound.
fn reach<'n>(
    net: &'n Net,
    orders: &'n [Vec<usize>],
    mut nodes: DiagramNodes,
    memory: u64,
    progress: &'n Progress,
) -> Result<(Saturation<'n>, u32), ExploreError> {
    let mut limits = LEAST;
    let mut is_first = true;
    let mut growth = TokenGrowth::new(net);
    loop {
        limits.memory = limits.memory.min(memory);
        let mut too_small = None;
        for (number, order) in orders.iter().enumerate() {
            if !std::mem::take(&mut is_first) {
                nodes.restart(number as u64, limits)?;
            }
            let mut saturation = Saturation::new(net, order, nodes, progress);
            match saturation.reachable() {
                Ok(reached) => {
                    let steps = u64::MAX;
                    saturation.nodes_mut().allow(DiagramLimits {
                        memory,
                        steps,
                        ..limits
                    });
                    return Ok((saturation, reached));
                }
                Err(Halt::Steps | Halt::Stopped) => {}
                Err(Halt::Failed(error @ ExploreError::OutOfMemory { .. })) => {
                    too_small = Some(error);
                }
                Err(Halt::Failed(error)) => return Err(error),
            }
            growth.note(saturation.most());
            let is_suspicious = limits.branches == BRANCHES_IF_SUSPICIOUS;
            if !is_suspicious && growth.since_start(MANY_TOKENS).is_some() {
                limits.branches = BRANCHES_IF_SUSPICIOUS;
            }
            nodes = saturation.into_nodes();
        }
        let is_first_round = limits.steps == LEAST.steps;
        if is_first_round {
            growth::check_far(net)?;
        }
        if limits.memory >= memory {
            match (too_small, growth.in_round()) {
                (Some(short), Some((place, tokens))) => {
                    return Err(ExploreError::Grown {
                        place,
                        tokens: tokens.into(),
                        short: Box::new(short),
                    });
                }
                (Some(short), None) => return Err(short),
                (None, Some((place, tokens))) if !is_first_round => {
                    return Err(ExploreError::StillGrows {
                        place,
                        tokens,
                        steps: limits.steps,
                        memory,
                    });
                }
                (None, _) => {}
            }
        }
        growth.end_round();
        limits.memory = limits.memory.saturating_mul(MORE);
        limits.steps = limits.steps.saturating_mul(MORE);
    }
}

/// Any other worker.
fn help(
    net: &Net,
    orders: &[Vec<usize>],
    mut nodes: DiagramNodes,
    progress: &Progress,
) -> Result<(), ExploreError> {
    let mut order = 0;
    loop {
        let places = orders
            .get(order as usize)
            .ok_or_else(|| RankError::malformed(0, "the number of an order that there is not"))?;
        let mut saturation = Saturation::new(net, places, nodes, progress);
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
