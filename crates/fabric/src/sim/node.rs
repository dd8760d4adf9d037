//! The owner's side of a simulated node: its memory, its receive queue, its CPU.

use super::clock::{from_nanos, to_nanos};
use super::memory::Masked;
use super::state::Node;
use super::world::World;
use crate::endpoint::Inbox;
use crate::{Handler, Message, Nanos, NodeId, NodeInfo, RegionId};
use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;

/// A node as its owner has it. Reaches memory without verbs, time, or rights; panics where a
/// region or a word does not exist.
#[derive(Clone)]
pub struct SimNode {
    world: World,
    node: NodeId,
}

impl fmt::Debug for SimNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimNode")
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

impl World {
    /// The owner's side of a node.
    #[must_use]
    pub fn node_handle(&self, node: NodeId) -> SimNode {
        assert!(
            usize::from(node.0) < self.lock().nodes.len(),
            "no node {}",
            node.0
        );
        SimNode {
            world: self.clone(),
            node,
        }
    }
}

impl SimNode {
    /// The node.
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.node
    }

    /// What an endpoint that connects now learns of it.
    #[must_use]
    pub fn info(&self) -> NodeInfo {
        self.world.lock().node_info(self.node.0)
    }

    /// Whether the node runs.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.with(|node| node.up)
    }

    /// A word, as the owner's CPU sees it: late writes are not there yet.
    #[must_use]
    pub fn peek(&self, region: RegionId, offset: u64) -> u64 {
        self.with(|node| node.memory.settled(region.0)[word_at(offset)])
    }

    /// Writes a word.
    pub fn poke(&self, region: RegionId, offset: u64, value: u64) {
        let mask = u64::MAX;
        let word = word_at(offset) as u64;
        self.with(|node| node.memory.write(region.0, word, Masked { value, mask }));
    }

    /// Looks at all words of a region, as the owner's CPU sees them.
    pub fn with_region<T>(&self, region: RegionId, look: impl FnOnce(&[u64]) -> T) -> T {
        self.with(|node| look(node.memory.settled(region.0)))
    }

    /// Changes the words of a region, for bulk loads. All writes to it become visible first. Must
    /// not use the world from within `change`.
    pub fn with_region_mut<T>(&self, region: RegionId, change: impl FnOnce(&mut [u64]) -> T) -> T {
        self.with(|node| change(node.memory.region_mut(region.0)))
    }

    /// Occupies the owner's CPU for a request: the profile's `handler_ns`, and `work` nanoseconds
    /// more. Returns when that is done; requests are served one after the other. The handler sleeps
    /// until then.
    #[must_use]
    pub fn occupy_cpu(&self, work: Nanos) -> Nanos {
        let mut state = self.world.lock();
        let span = state.costs.handler + from_nanos(work);
        let now = state.now;
        let node = &mut state.nodes[usize::from(self.node.0)];
        node.cpu_free = node.cpu_free.max(now) + span;
        to_nanos(node.cpu_free)
    }

    /// Has calls to the node answered by a handler, which is made now, and anew whenever the node
    /// comes back. It must not use the world, which waits for it.
    pub fn serve_calls(&self, make: impl Fn() -> Arc<dyn Handler> + Send + 'static) {
        self.with(|node| node.calls.serve(Box::new(make)));
    }

    /// The next message, once there is one.
    pub fn message(&self) -> impl Future<Output = Message> + '_ {
        poll_fn(|cx| {
            self.with(|node| match node.inbox.pop_front() {
                Some(message) => Poll::Ready(message),
                None => {
                    let waker = cx.waker();
                    if !node
                        .inbox_waiters
                        .iter()
                        .any(|known| known.will_wake(waker))
                    {
                        node.inbox_waiters.push(waker.clone());
                    }
                    Poll::Pending
                }
            })
        })
    }

    fn with<T>(&self, use_it: impl FnOnce(&mut Node) -> T) -> T {
        use_it(&mut self.world.lock().nodes[usize::from(self.node.0)])
    }
}

impl Inbox for SimNode {
    fn take_message(&self) -> Option<Message> {
        self.with(|node| node.inbox.pop_front())
    }
}

fn word_at(offset: u64) -> usize {
    assert!(offset.is_multiple_of(8), "offset {offset:#x} is no word");
    (offset / 8) as usize
}
