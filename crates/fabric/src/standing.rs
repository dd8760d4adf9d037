//! How an endpoint stands with its nodes, and how long it lets one be between attempts to reach it.

use crate::{FabricError, Nanos, NodeId, Result};
use rand::RngExt;
use std::cell::RefCell;
use std::time::Duration;

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

/// How long to wait between attempts to reach a node: twice as long each time, up to a limit. Each wait is
/// shortened by a random part of at most a half, so that clients that lost a node together do not all come
/// back to it in the same moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Backoff {
    /// Before the second attempt; the first is made at once.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(50),
            longest: Duration::from_secs(1),
        }
    }
}

impl Backoff {
    /// The waits, one after each attempt that failed.
    pub(crate) fn waits(self) -> impl Iterator<Item = Duration> {
        let double = move |wait: &Duration| Some(wait.saturating_mul(2).min(self.longest));
        std::iter::successors(Some(self.first.min(self.longest)), double).map(|wait| {
            let nanos = Nanos::try_from(wait.as_nanos()).unwrap_or(Nanos::MAX);
            Duration::from_nanos(rand::rng().random_range(nanos / 2..=nanos))
        })
    }
}

/// A node as its endpoint knows it.
pub(crate) trait Known {
    /// Where it is connected to.
    fn address(&self) -> &str;

    /// What it was when it was connected to last; 0 before that.
    fn incarnation(&self) -> u64;
}

/// Checks that no two nodes are one.
pub(crate) fn check_all_unique(nodes: &[RefCell<impl Known>]) -> Result<()> {
    // From the last on, so that an error names first the address that repeats another.
    for (node, known) in nodes.iter().enumerate().rev() {
        let known = known.borrow();
        check_unique(
            nodes,
            NodeId(node as u16),
            known.address(),
            known.incarnation(),
        )?;
    }
    Ok(())
}

/// Checks that no other node has this incarnation.
pub(crate) fn check_unique(
    nodes: &[RefCell<impl Known>],
    node: NodeId,
    address: &str,
    incarnation: u64,
) -> Result<()> {
    let others = (0..).zip(nodes);
    for (_, other) in others.filter(|(other, _)| *other != node.0) {
        let other = other.borrow();
        if incarnation != 0 && other.incarnation() == incarnation {
            return Err(FabricError::DuplicateNode {
                address: address.into(),
                other: other.address().into(),
                incarnation,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let backoff = Backoff {
            first: Duration::from_millis(50),
            longest: Duration::from_millis(300),
        };
        let waits: Vec<_> = backoff.waits().take(6).collect();
        for (wait, whole) in waits.iter().zip([50, 100, 200, 300, 300, 300]) {
            let whole = Duration::from_millis(whole);
            assert!((whole / 2..=whole).contains(wait), "{waits:?}");
        }
        let never = Backoff {
            first: Duration::MAX,
            longest: Duration::ZERO,
        };
        assert_eq!(never.waits().next(), Some(Duration::ZERO));
    }
}
