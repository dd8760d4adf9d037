//! What an endpoint knows of a node.

use crate::FabricError;

/// How an endpoint stands with a node, as far as it knows: from the connection itself, and from what
/// became of earlier verbs.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NodeState {
    /// It can be reached, and is the one that this endpoint knows.
    Up,
    /// It cannot be reached: verbs to it fail with this until it can. The endpoint goes on trying by
    /// itself.
    Down(FabricError),
    /// It can be reached, but came back empty: verbs to it fail with
    /// [`NodeRestarted`](FabricError::NodeRestarted) until it is [adopted](crate::Endpoint::adopt).
    Restarted {
        /// What it is now: another incarnation than the one that this endpoint knows.
        incarnation: u64,
    },
}
