//! What a symbolic exploration is given, and what it finds.

use crate::model::Tokens;
use num_bigint::BigUint;
use std::num::NonZeroUsize;

/// How to explore symbolically.
#[derive(Debug, Clone)]
pub struct SymbolicOptions {
    /// Threads of this process: the same number on every rank.
    pub threads: NonZeroUsize,
    /// Bytes that nodes and operation cache of all ranks may take together.
    pub memory: u64,
}

impl Default for SymbolicOptions {
    fn default() -> Self {
        Self {
            threads: NonZeroUsize::MIN,
            memory: u64::MAX,
        }
    }
}

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
    /// Bytes of the nodes and the operation cache.
    pub bytes: u64,
    /// Seconds that it took.
    pub seconds: f64,
}
