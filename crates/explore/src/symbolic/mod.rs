//! Symbolic exploration of nets: sets of markings as list decision diagrams, by saturation.
//!
//! A set of markings is a diagram with one level a place. A node is a triple (value, down, right):
//! markings whose next place has `value` tokens go on `down`, others `right`, in ascending order of
//! values. Equal nodes are one: the unique table is find-or-put over the nodes (paper 002, section
//! 1: "distributed symbolic verification, which only requires a find-or-put operation").
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

mod cache;
mod count;
mod nodes;
mod saturate;

use crate::error::ExploreError;
use crate::explicit::Progress;
use crate::model::Tokens;
use crate::net::Net;
use crate::order::orders;
use nodes::{Halt, Limits, Nodes};
use num_bigint::BigUint;
use saturate::Saturation;
use std::time::Instant;

/// Stack of the exploring thread: this much, and so much more for each level that it may be deep
/// in.
const STACK: usize = 16 << 20;
const STACK_PER_LEVEL: usize = 4 << 10;

/// Limits within which each order of the places is tried first, and how many times as much next.
const LEAST: Limits = Limits {
    memory: 16 << 20,
    operations: 100_000,
    garbage: 1 << 18,
};
const MORE: u64 = 4;

/// What a symbolic exploration found.
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
    /// Nodes of the diagram of all reachable markings.
    pub nodes: u64,
    /// Bytes of all nodes that were made, and of the operation cache.
    pub bytes: u64,
    /// Seconds that it took.
    pub seconds: f64,
}

/// Explores a net symbolically, within `memory` bytes for nodes and the operation cache.
///
/// # Errors
/// [`ExploreError::OutOfMemory`]; [`ExploreError::Unbounded`] where a place takes too many
/// different numbers of tokens.
pub fn explore_symbolically(
    net: &Net,
    memory: u64,
    progress: &Progress,
) -> Result<SymbolicallyExplored, ExploreError> {
    let stack = STACK + STACK_PER_LEVEL * net.places().len();
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(stack);
        let thread = thread.spawn_scoped(scope, || explore_here(net, memory, progress));
        let thread = thread.map_err(ExploreError::Thread)?;
        thread.join().unwrap_or(Err(ExploreError::Panicked))
    })
}

fn explore_here(
    net: &Net,
    memory: u64,
    progress: &Progress,
) -> Result<SymbolicallyExplored, ExploreError> {
    let started = Instant::now();
    let orders = orders(net);
    let (mut saturation, reached) = reach(net, &orders, memory, progress)?;
    let dead = saturation.disabled(reached).map_err(|halt| match halt {
        Halt::Failed(error) => error,
        Halt::Operations => {
            unreachable!("operations are not limited once all markings are reached")
        }
    })?;
    let counts = count::Counts::of(&saturation, reached);
    Ok(SymbolicallyExplored {
        transitions: counts.transitions(&saturation),
        deadlocks: count::Counts::of(&saturation, dead).states(),
        states: counts.states(),
        tokens: counts.tokens(&saturation),
        nodes: counts.nodes(&saturation),
        bytes: saturation.bytes(),
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// Reaches all markings by the first order that does it within small limits; if none does, within
/// larger ones.
fn reach<'n>(
    net: &'n Net,
    orders: &'n [Vec<usize>],
    memory: u64,
    progress: &'n Progress,
) -> Result<(Saturation<'n>, u32), ExploreError> {
    let mut limits = LEAST;
    loop {
        limits.memory = limits.memory.min(memory);
        let mut too_small = None;
        for order in orders {
            let mut saturation = Saturation::new(net, order, Nodes::new(limits)?, progress);
            match saturation.reachable() {
                Ok(reached) => {
                    let operations = u64::MAX;
                    saturation.allow(Limits {
                        memory,
                        operations,
                        ..limits
                    });
                    return Ok((saturation, reached));
                }
                Err(Halt::Operations) => {}
                Err(Halt::Failed(error @ ExploreError::OutOfMemory { .. })) => {
                    too_small = Some(error);
                }
                Err(Halt::Failed(error)) => return Err(error),
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{Arc, Place, Transition};

    /// Tokens that go round a ring of places, forwards and two at a time backwards.
    fn ring(places: usize, tokens: u32) -> Net {
        let place = |at: usize| Place {
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
        let progress = Progress::default();
        let limits = Limits {
            memory: 1 << 30,
            operations: u64::MAX,
            garbage: 100,
        };
        let mut saturation = Saturation::new(&net, &order, Nodes::new(limits).unwrap(), &progress);
        let reached = saturation.reachable().unwrap();
        assert!(saturation.nodes().collections() > 0);
        let counts = count::Counts::of(&saturation, reached);
        // Eight tokens over ten places: 17 choose 8.
        assert_eq!(counts.states(), 24_310_u32.into());
        let plain = explore_symbolically(&net, 1 << 30, &progress).unwrap();
        assert_eq!(plain.states, counts.states());
        assert_eq!(plain.transitions, counts.transitions(&saturation));
        let dead = saturation.disabled(reached).unwrap();
        assert_eq!(count::Counts::of(&saturation, dead).states(), 0_u32.into());
    }
}
