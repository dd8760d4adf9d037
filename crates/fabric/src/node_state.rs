//! The state of a node, as an endpoint knows it.

use crate::FabricError;

/// The state of a node as far as the endpoint knows, from its connection and from the outcome of
/// earlier verbs.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NodeState {
    /// The node is reachable and has not restarted.
    Up,
    /// The node is unreachable: verbs to it fail with this error. The endpoint keeps trying to
    /// reconnect in the background.
    Down(FabricError),
    /// The node is reachable but restarted with empty memory: verbs to it fail with
    /// [`NodeRestarted`](FabricError::NodeRestarted) until it is [adopted](crate::Endpoint::adopt).
    Restarted {
        /// The node's new incarnation.
        incarnation: u64,
    },
}
