//! A world: nodes, hosts and client threads under one virtual clock.

use super::clock::{Picos, from_nanos, to_nanos};
use super::faults::FaultPlan;
use super::op::ClientId;
use super::parts::{HostId, NodeConfig};
use super::profile::NicProfile;
use super::state::State;
use crate::{Nanos, NodeId, Rights};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A simulated fabric. Clones are handles of the same world.
///
/// A run is determined by the seed, the profile, the faults, and what the tasks do, as long as one
/// thread of the operating system drives all of it. More threads are safe, but the order in which
/// they take turns is not deterministic.
#[derive(Clone)]
pub struct World {
    state: Arc<Mutex<State>>,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Another handle of it may be in use further up the stack.
        match self.state.try_lock() {
            Ok(state) => f
                .debug_struct("World")
                .field("now", &to_nanos(state.now))
                .field("nodes", &state.nodes.len())
                .field("clients", &state.clients.len())
                .finish_non_exhaustive(),
            Err(_) => f.debug_struct("World").finish_non_exhaustive(),
        }
    }
}

impl World {
    /// A world without nodes. Its host 0 is where clients run unless told otherwise.
    #[must_use]
    pub fn new(seed: u64, profile: NicProfile) -> Self {
        let state = State::new(seed, profile);
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Adds a machine, for clients or nodes that are to have a NIC of their own.
    #[must_use]
    pub fn add_host(&self) -> HostId {
        HostId(self.lock().add_host())
    }

    /// Adds a node with these regions (length in bytes, rights), on a machine of its own.
    pub fn add_node(&self, regions: &[(u64, Rights)]) -> NodeId {
        self.add_node_with(&NodeConfig::new(regions))
    }

    /// Adds a node. Only endpoints created afterwards are connected to it.
    pub fn add_node_with(&self, config: &NodeConfig) -> NodeId {
        NodeId(self.lock().add_node(config))
    }

    /// The machine that a node runs on.
    ///
    /// # Panics
    /// If there is no such node; so do all that follow.
    #[must_use]
    pub fn host_of(&self, node: NodeId) -> HostId {
        HostId(self.lock().nodes[usize::from(node.0)].host)
    }

    /// Puts a fault plan in force, in place of the one before. Verbs are counted from here on.
    pub fn set_faults(&self, faults: FaultPlan) {
        self.lock().set_faults(faults);
    }

    /// Stops a node now. Verbs to it fail, and those that it has not answered yet.
    pub fn stop_node(&self, node: NodeId) {
        self.lock().stop_node(node.0, None);
    }

    /// Brings a stopped node back: its memory zeroed, with another incarnation.
    pub fn return_node(&self, node: NodeId) {
        self.lock().return_node(node.0);
    }

    /// Stops a client thread now: none of its tasks runs again.
    pub fn stop_client(&self, client: ClientId) {
        self.lock().stop_client(client.0);
    }

    /// The virtual clock.
    #[must_use]
    pub fn now(&self) -> Nanos {
        to_nanos(self.lock().now)
    }

    /// The virtual clock in picoseconds, in which it counts.
    #[must_use]
    pub fn now_picos(&self) -> Picos {
        self.lock().now
    }

    /// Executes all events up to a time, without running any task.
    pub fn advance_to(&self, time: Nanos) {
        let limit = from_nanos(time);
        let due = |state: &State| state.queue.next_time().is_some_and(|next| next <= limit);
        while self.lock().now < limit || due(&self.lock()) {
            self.advance(Some(limit));
        }
    }

    /// A hash of everything that has happened so far, in order: same seed, same run, same digest.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.lock().digest.value()
    }

    /// Has all that happens from now on told line by line: when, who, which verb, and what became
    /// of it. The run stays the same.
    pub fn trace_to(&self, sink: impl std::io::Write + Send + 'static) {
        self.lock().trace.to(Box::new(sink));
    }

    /// Verbs that the fabric or a future still holds.
    #[must_use]
    pub fn verbs_under_way(&self) -> usize {
        self.lock().ops.in_use()
    }

    /// The hardware.
    #[must_use]
    pub fn profile(&self) -> NicProfile {
        self.lock().costs.profile().clone()
    }

    /// Lets events happen until a task could notice something, or until `limit`; returns whether
    /// the clock has stopped for want of events.
    pub(super) fn advance(&self, limit: Option<Picos>) -> bool {
        let mut state = self.lock();
        let idle = state.advance(limit);
        let to_wake = std::mem::take(&mut state.to_wake);
        drop(state);
        to_wake.into_iter().for_each(std::task::Waker::wake);
        idle
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
