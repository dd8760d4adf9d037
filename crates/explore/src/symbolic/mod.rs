//! Symbolic exploration of nets: sets of markings as list decision diagrams, by saturation.
//!
//! A set of markings is a diagram with one level a variable: a place with its tokens, or places of
//! which exactly one always has a token, with the position of that one. A node is a triple (value,
//! down, right): markings whose next variable has this value go on `down`, others `right`, in
//! ascending order of values. Equal nodes are one: the unique table is find-or-put over the nodes
//! (paper 002, section 1: "distributed symbolic verification, which only requires a find-or-put
//! operation").
//!
//! Saturation (Ciardo, Luettgen and Siminiscu, TACAS 2001) works from the last level up: a node is
//! saturated when no transition that begins at its level or below it leads out of the set. To
//! saturate a node, the transitions that begin at its level are fired until nothing new comes; what
//! they lead to below is saturated first. The union of saturated sets is saturated, for a
//! transition leads from single markings to single markings.
//!
//! Garbage, the nodes of what was in between, is collected between two firings of the outermost
//! list, where only its own branches and their diagrams are in use: mark, sweep, rebuild, and
//! forget what the cache says of dropped nodes.
//!
//! Several workers, threads of one or more processes, share the nodes and the cache, all of which
//! lies in memory that all of them have mapped. Worker 0 saturates; the others do operations that
//! it is about to need, or that they need for these themselves (`crew`). As equal diagrams are one
//! node, whoever makes it, no result depends on who has done what.

mod cache;
mod count;
mod crew;
mod explored;
mod layers;
mod memory;
mod nodes;
mod saturate;
mod search;
mod workers;

pub use explored::{MarkingStep, MarkingViolation, SymbolicOptions, SymbolicallyExplored};
pub use memory::{SharedMemory, share_memory};

use crate::error::ExploreError;
use crate::explicit::Progress;
use crate::formula::Formula;
use crate::growth;
use crate::net::Net;
use crate::order::orders;
use crate::variables::Variables;
use std::time::Instant;

/// Explores a net symbolically, by threads of this process. Where a condition is given, a marking
/// that violates it is looked for, and a shortest path to that: after all markings are found, or,
/// of a net whose markings are too many or without end, among those nearest to the initial one
/// until memory is full.
///
/// # Errors
/// [`ExploreError::OutOfMemory`]; [`ExploreError::Unbounded`] of a net that is seen to be so;
/// [`ExploreError::AboveLimit`] where a place takes too many different numbers of tokens;
/// [`ExploreError::StillGrows`] where one gets ever more.
pub fn explore_symbolically(
    net: &Net,
    condition: Option<&Formula>,
    options: &SymbolicOptions,
    progress: &Progress,
) -> Result<SymbolicallyExplored, ExploreError> {
    let memory = SharedMemory::alone(options)?;
    let explored = explore_symbolically_together(net, condition, &memory, progress)?;
    // Rank 0 is this process.
    explored.ok_or(ExploreError::Panicked)
}

/// [`explore_symbolically`] by the threads of several processes, which share their memory
/// ([`share_memory`]): all call this with the same net and condition. Rank 0 gets what was found.
///
/// # Errors
/// As [`explore_symbolically`]; [`ExploreError::Rank`] where another process has ended or given up.
pub fn explore_symbolically_together(
    net: &Net,
    condition: Option<&Formula>,
    memory: &SharedMemory,
    progress: &Progress,
) -> Result<Option<SymbolicallyExplored>, ExploreError> {
    let started = Instant::now();
    // The same on every rank.
    if condition.is_none() {
        growth::check(net)?;
    }
    let variables = [Variables::of(net), Variables::single(net)];
    // Without groups both are the same. Else the best order of each comes before the second best.
    let tried = if variables[0] == variables[1] { 1 } else { 2 };
    let orders = variables[..tried].iter().flat_map(|variables| {
        let orders = orders(net, variables).into_iter().enumerate();
        orders.map(move |(rank, order)| (rank, (variables, order)))
    });
    let mut orders: Vec<_> = orders.collect();
    orders.sort_by_key(|(rank, _)| *rank);
    let orders: Vec<_> = orders.into_iter().map(|(_, order)| order).collect();
    let preparation = started.elapsed().as_secs_f64();
    let explored = workers::run(net, condition, &orders, memory, progress)?;
    Ok(explored.map(|explored| SymbolicallyExplored {
        preparation,
        ..explored
    }))
}

#[cfg(test)]
mod tests {
    use super::nodes::{DiagramLimits, Halt};
    use super::saturate::Saturation;
    use super::*;
    use crate::net::{Arc, NetPlace, Transition};

    /// Tokens that go round a ring of places, forwards and two at a time backwards.
    fn ring(places: usize, tokens: u32) -> Net {
        let place = |at: usize| NetPlace {
            id: format!("p{at}"),
            initial: if at == 0 { tokens } else { 0 },
        };
        let step = |name: &str, from: usize, to: usize, weight| Transition {
            id: format!("{name}{from}"),
            takes: vec![Arc {
                place: from,
                weight,
            }],
            puts: vec![Arc { place: to, weight }],
        };
        let forwards = (0..places).map(|at| step("f", at, (at + 1) % places, 1));
        let backwards = (0..places).map(|at| step("b", (at + 1) % places, at, 2));
        let transitions = forwards.chain(backwards).collect();
        Net::new("ring", (0..places).map(place).collect(), transitions).unwrap()
    }

    #[test]
    fn collecting_garbage_changes_no_number() {
        let net = ring(10, 8);
        let order: Vec<usize> = (0..10).collect();
        let variables = Variables::single(&net);
        let progress = Progress::default();
        let limits = DiagramLimits {
            memory: 1 << 30,
            steps: u64::MAX,
            branches: 64,
            garbage: 100,
        };
        let memory = SharedMemory::alone(&SymbolicOptions::default()).unwrap();
        let nodes = memory.nodes(0, limits).unwrap();
        let mut saturation = Saturation::new(&net, &variables, &order, nodes, &progress);
        let reached = saturation.reachable().unwrap();
        assert!(saturation.nodes().collections() > 0);
        let counts = count::Counts::of(&saturation, reached);
        // Eight tokens over ten places: 17 choose 8.
        assert_eq!(counts.states(), 24_310_u32.into());
        let plain =
            explore_symbolically(&net, None, &SymbolicOptions::default(), &progress).unwrap();
        assert_eq!(plain.states, counts.states());
        assert_eq!(plain.transitions, counts.transitions(&saturation));
        let dead = saturation.disabled(reached).unwrap();
        assert_eq!(count::Counts::of(&saturation, dead).states(), 0_u32.into());
    }

    /// A token that comes to the last of many places, where it begins anew at each, and there adds
    /// to another place, at once or by a second transition.
    fn growing(places: usize, by_two: bool) -> Net {
        let id = |at: usize| NetPlace {
            id: format!("p{at}"),
            initial: u32::from(at == 0),
        };
        let (grown, other, last) = (places, places + 1, places - 1);
        let step = |takes: usize, puts: &[usize]| {
            let arc = |place: usize| Arc { place, weight: 1 };
            Transition {
                id: "t".into(),
                takes: vec![arc(takes)],
                puts: puts.iter().copied().map(arc).collect(),
            }
        };
        let back = (1..last).map(|at| step(at, &[0]));
        let on = (0..last).map(|at| step(at, &[at + 1]));
        let end = match by_two {
            false => vec![step(last, &[last, grown])],
            true => vec![step(last, &[other]), step(other, &[last, grown])],
        };
        let transitions = back.chain(on).chain(end).collect();
        Net::new("growing", (0..places + 2).map(id).collect(), transitions).unwrap()
    }

    #[test]
    fn a_firing_that_can_follow_for_ever_is_seen_within_few_steps() {
        let progress = Progress::default();
        let limits = DiagramLimits {
            memory: 64 << 20,
            steps: 20_000,
            branches: 64,
            garbage: u64::MAX,
        };
        for by_two in [false, true] {
            let net = growing(40, by_two);
            // No walk comes that far.
            assert!(growth::check(&net).is_ok() && growth::check_far(&net).is_ok());
            let variables = Variables::single(&net);
            let ends = orders(&net, &variables).into_iter().map(|order| {
                let memory = SharedMemory::alone(&SymbolicOptions::default()).unwrap();
                let nodes = memory.nodes(0, limits).unwrap();
                let mut saturation = Saturation::new(&net, &variables, &order, nodes, &progress);
                let end = saturation.reachable();
                let steps = saturation.nodes().steps();
                println!("by two: {by_two}, {steps} steps: {end:?}");
                assert!(steps <= limits.steps + 100, "{steps} steps");
                match end {
                    Err(Halt::Failed(ExploreError::Unbounded { place })) => place == "p40",
                    Err(Halt::Steps) => false,
                    end => panic!("{end:?}"),
                }
            });
            let seen: Vec<bool> = ends.collect();
            assert!(seen.contains(&true), "{seen:?}");
            // One transition that adds is seen with every order.
            assert!(by_two || !seen.contains(&false), "{seen:?}");
        }
    }

    #[test]
    fn lists_in_the_making_count_as_memory() {
        let options = SymbolicOptions {
            memory: 64 << 20,
            ..SymbolicOptions::default()
        };
        let memory = SharedMemory::alone(&options).unwrap();
        let limits = DiagramLimits {
            memory: 4 << 20,
            steps: u64::MAX,
            branches: 64,
            garbage: u64::MAX,
        };
        let mut nodes = memory.nodes(0, limits).unwrap();
        let free = limits.memory - nodes.bytes();
        nodes.hold((free / 16) as usize).unwrap();
        let end = nodes.hold(1);
        assert!(
            matches!(end, Err(Halt::Failed(ExploreError::OutOfMemory { .. }))),
            "{end:?}"
        );
        nodes.release(2);
        nodes.hold(1).unwrap();
    }
}
