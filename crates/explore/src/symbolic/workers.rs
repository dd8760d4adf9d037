//! The threads of a symbolic exploration: worker 0, which saturates, and those that help.

use super::count;
use super::crew::Idle;
use super::explored::SymbolicallyExplored;
use super::memory::SharedMemory;
use super::nodes::{Halt, Limits, Nodes};
use super::saturate::Saturation;
use crate::error::{ExploreError, RankError};
use crate::explicit::Progress;
use crate::net::Net;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// Stack of a thread: this much, and so much more for each level that it may be deep in.
const STACK: usize = 16 << 20;
const STACK_PER_LEVEL: usize = 4 << 10;

/// Limits within which each order of the places is tried first, and how many times as much next.
const LEAST: Limits = Limits {
    memory: 16 << 20,
    operations: 100_000,
    garbage: 1 << 18,
};
const MORE: u64 = 4;

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
    let nodes: Result<Vec<Nodes>, ExploreError> = (0..memory.threads())
        .map(|thread| {
            let operations = if (memory.rank(), thread) == (0, 0) {
                LEAST.operations
            } else {
                u64::MAX
            };
            let limits = Limits {
                memory: LEAST.memory.min(memory.bytes()),
                operations,
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
    nodes: Nodes,
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
/// larger ones.
fn reach<'n>(
    net: &'n Net,
    orders: &'n [Vec<usize>],
    mut nodes: Nodes,
    memory: u64,
    progress: &'n Progress,
) -> Result<(Saturation<'n>, u32), ExploreError> {
    let mut limits = LEAST;
    let mut is_first = true;
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
                    let operations = u64::MAX;
                    saturation.nodes_mut().allow(Limits {
                        memory,
                        operations,
                        ..limits
                    });
                    return Ok((saturation, reached));
                }
                Err(Halt::Operations | Halt::Stopped) => {}
                Err(Halt::Failed(error @ ExploreError::OutOfMemory { .. })) => {
                    too_small = Some(error);
                }
                Err(Halt::Failed(error)) => return Err(error),
            }
            nodes = saturation.into_nodes();
        }
        match too_small {
            Some(error) if limits.memory >= memory => return Err(error),
            _ => {
                limits.memory = limits.memory.saturating_mul(MORE);
                limits.operations = limits.operations.saturating_mul(MORE);
            }
        }
    }
}

/// Any other worker.
fn help(
    net: &Net,
    orders: &[Vec<usize>],
    mut nodes: Nodes,
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
            Ok(()) | Err(Halt::Operations | Halt::Stopped) => {}
            Err(Halt::Failed(ExploreError::OutOfMemory { .. })) => has_memory = false,
            Err(Halt::Failed(error)) => return Err(error),
        }
    }
}
