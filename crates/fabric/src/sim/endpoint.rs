//! An endpoint of the simulated fabric.

use super::clock::{Picos, from_nanos};
use super::op::{ClientId, NONE, Stage};
use super::parts::HostId;
use super::world::World;
use crate::verb::{Piece, Verb, check_access, check_aligned};
use crate::{
    Buffer, Completion, Endpoint, EndpointCore, FabricError, Limits, Nanos, NodeId, NodeInfo,
    NodeState, PostError, RemoteAddr, Result, Rights,
};
use smallvec::SmallVec;
use std::cell::{OnceCell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// What is shown each verb that is posted.
type Observer = Box<dyn Fn(&Verb)>;

/// The [`Endpoint`] of the simulated fabric. Made by [`World::endpoint`].
pub struct SimEndpoint {
    world: World,
    client: u32,
    core: EndpointCore,
    nodes: RefCell<Vec<NodeInfo>>,
    observer: OnceCell<Observer>,
}

impl fmt::Debug for SimEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimEndpoint")
            .field("client", &self.client)
            .field("world", &self.world)
            .finish_non_exhaustive()
    }
}

/// A verb that was posted on a [`SimEndpoint`].
pub struct SimPosted {
    world: World,
    op: u32,
    /// Filled when the completion is taken; until then the words stay in the world.
    into: Option<Buffer>,
}

impl fmt::Debug for SimPosted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimPosted")
            .field("op", &self.op)
            .finish_non_exhaustive()
    }
}

impl Drop for SimPosted {
    fn drop(&mut self) {
        if self.op != NONE {
            self.world.lock().abandon(self.op);
        }
    }
}

impl World {
    /// An endpoint for a new client thread on host 0, connected to all nodes.
    #[must_use]
    pub fn endpoint(&self, limits: Limits) -> Rc<SimEndpoint> {
        self.endpoint_on(HostId(0), limits)
    }

    /// An endpoint for a new client thread on a machine, connected to all nodes.
    #[must_use]
    pub fn endpoint_on(&self, host: HostId, limits: Limits) -> Rc<SimEndpoint> {
        Rc::new(SimEndpoint::connect(self.clone(), host, limits))
    }
}

impl SimEndpoint {
    pub(super) fn connect(world: World, host: HostId, mut limits: Limits) -> Self {
        let mut state = world.lock();
        let depth = state.costs.profile().send_queue_depth;
        limits.send_queue_depth = limits.send_queue_depth.min(depth).max(1);
        let client = state.add_client(host.0, limits.verb_timeout);
        let nodes = 0..state.nodes.len() as u16;
        let nodes = nodes.map(|node| state.connect(client, node)).collect();
        drop(state);
        Self {
            world,
            client,
            core: EndpointCore::new(limits),
            nodes: RefCell::new(nodes),
            observer: OnceCell::new(),
        }
    }

    /// Shows each verb that is posted from here on to `observer`; one can be set, once.
    pub fn observe(&self, observer: impl Fn(&Verb) + 'static) {
        let is_first = self.observer.set(Box::new(observer)).is_ok();
        debug_assert!(is_first, "an endpoint has one observer");
    }

    /// The client thread that this endpoint belongs to.
    #[must_use]
    pub fn client(&self) -> ClientId {
        ClientId(self.client)
    }

    /// The world.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Whether the client was stopped by a fault: its verbs go nowhere and never complete.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.world.lock().clients[self.client as usize].stopped
    }

    /// Takes at least `least` of the client's CPU time; returns when it is free again.
    pub(super) fn end_turn(&self, least: Picos) -> Picos {
        let mut state = self.world.lock();
        let now = state.now;
        let client = &mut state.clients[self.client as usize];
        client.cpu_free = client.cpu_free.max(now + least);
        client.cpu_free
    }

    /// The error of a verb that no node must see.
    fn check(&self, verb: &Verb) -> Result<()> {
        let needed = verb.needs();
        match verb {
            Verb::Read { from, into } => self.check_one(*from, into.len(), needed),
            Verb::ReadMany { pieces, .. } => self.check_pieces(pieces, verb.node(), needed),
            Verb::Write { to, data } | Verb::WriteImm { to, data, .. } => {
                self.check_one(*to, data.len(), needed)
            }
            Verb::Call { node, region, .. } => {
                let (node, region) = (*node, *region);
                let start = RemoteAddr {
                    node,
                    region,
                    offset: 0,
                };
                self.check_one(start, 0, needed)
            }
            Verb::CompareSwap { at, .. } | Verb::FetchAdd { at, .. } => {
                check_aligned(*at)?;
                self.check_one(*at, 8, needed)
            }
        }
    }

    fn check_pieces(&self, pieces: &[Piece], node: NodeId, needed: Rights) -> Result<()> {
        assert!(
            pieces.iter().all(|piece| piece.from.node == node),
            "the pieces of a gather lie on one node"
        );
        self.check_node(node)?;
        let mut pieces = pieces.iter();
        pieces.try_for_each(|piece| self.check_one(piece.from, piece.len, needed))
    }

    fn check_node(&self, node: NodeId) -> Result<()> {
        let connected = self.nodes.borrow().len();
        if usize::from(node.0) < connected {
            return Ok(());
        }
        Err(FabricError::UnknownNode { node, connected })
    }

    fn check_one(&self, at: RemoteAddr, len: usize, needed: Rights) -> Result<()> {
        self.check_node(at.node)?;
        let nodes = self.nodes.borrow();
        let regions = &nodes[usize::from(at.node.0)].regions;
        match regions.get(usize::from(at.region.0)) {
            Some(region) => check_access(at, len as u64, needed, region),
            None => Err(FabricError::UnknownRegion {
                node: at.node,
                region: at.region,
                regions: regions.len(),
            }),
        }
    }
}

impl Endpoint for SimEndpoint {
    type Posted = SimPosted;

    fn core(&self) -> &EndpointCore {
        &self.core
    }

    fn node_count(&self) -> usize {
        self.nodes.borrow().len()
    }

    fn node(&self, node: NodeId) -> Result<NodeInfo> {
        self.check_node(node)?;
        Ok(self.nodes.borrow()[usize::from(node.0)].clone())
    }

    fn node_state(&self, node: NodeId) -> Result<NodeState> {
        self.check_node(node)?;
        Ok(self.world.lock().standing(self.client, node.0))
    }

    fn adopt(&self, node: NodeId) -> Result<NodeInfo> {
        match self.node_state(node)? {
            NodeState::Up => return self.node(node),
            NodeState::Down(error) => return Err(error),
            NodeState::Restarted { .. } => {}
        }
        let info = self.world.lock().adopt(self.client, node.0);
        self.nodes.borrow_mut()[usize::from(node.0)].clone_from(&info);
        Ok(info)
    }

    fn post(&self, verb: Verb) -> std::result::Result<SimPosted, PostError> {
        self.check(&verb).map_err(PostError::Rejected)?;
        let mut state = self.world.lock();
        if state.clients[self.client as usize].in_flight >= self.core.limits.send_queue_depth {
            return Err(PostError::QueueFull(verb));
        }
        // What a client knows to have stopped gets nothing from it.
        if let NodeState::Down(error @ FabricError::NodeStopped { .. }) =
            state.standing(self.client, verb.node().0)
        {
            return Err(PostError::Rejected(error));
        }
        if let Some(observer) = self.observer.get() {
            observer(&verb);
        }
        let of = self.core.counters.current_class();
        let (op, into) = state.post(self.client, verb, of);
        drop(state);
        Ok(SimPosted {
            world: self.world.clone(),
            op,
            into,
        })
    }

    fn poll_posted(
        &self,
        posted: &mut SimPosted,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Completion>> {
        let mut state = self.world.lock();
        let op = &mut state.ops[posted.op];
        if op.stage != Stage::Completed {
            match &mut op.waker {
                Some(waker) => waker.clone_from(cx.waker()),
                none => *none = Some(cx.waker().clone()),
            }
            return Poll::Pending;
        }
        let outcome = std::mem::replace(&mut op.outcome, Ok(()));
        let completed = outcome.map(|()| op.completion(posted.into.take()));
        state.ops.free(std::mem::replace(&mut posted.op, NONE));
        Poll::Ready(completed)
    }

    fn ring_doorbell(&self) {
        let doorbells = self.world.lock().ring(self.client);
        for _ in 0..doorbells {
            self.core.counters.doorbell_rung();
        }
    }

    fn poll_completions(&self) -> usize {
        let mut tasks: SmallVec<[Waker; 16]> = SmallVec::new();
        let completed = self
            .world
            .lock()
            .take_completions(self.client, |waker| tasks.push(waker));
        tasks.into_iter().for_each(Waker::wake);
        if completed > 0 {
            self.core.queue_has_room();
        }
        completed
    }

    fn now(&self) -> Nanos {
        self.world.now()
    }

    /// Advances the virtual clock until something happens that a task could notice, or to the
    /// deadline.
    ///
    /// # Panics
    /// If the client was stopped by a fault: what waits here could wait for ever. Run such clients
    /// in a [`Simulation`](super::Simulation).
    fn wait(&self, deadline: Option<Nanos>, idle_turns: u32) {
        assert!(
            !self.is_stopped(),
            "client {} was stopped by a fault; run it in a Simulation",
            self.client
        );
        if !self.world.lock().clients[self.client as usize]
            .arrived
            .is_empty()
        {
            return;
        }
        // Without events only another thread of the operating system can bring something about.
        if self.world.advance(deadline.map(from_nanos)) {
            let pause = if idle_turns < 100 { 0 } else { 50 };
            std::thread::sleep(Duration::from_micros(pause));
        }
    }
}

impl Drop for SimEndpoint {
    fn drop(&mut self) {
        self.world.lock().disconnect(self.client);
    }
}
