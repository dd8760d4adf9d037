//! The peers of an endpoint: how it connects to all of them at once, and the state of each.

use super::dialer::{Connected, Connection, Dialer, RedialResult};
use crate::{FabricError, NodeId, NodeInfo, NodeState, Result};
use std::cell::{RefCell, RefMut};
use std::fmt;
use std::sync::Arc;
use std::thread::ScopedJoinHandle;

/// The most nodes of an endpoint: they are numbered by 16 bits.
const MOST_NODES: usize = u16::MAX as usize;

/// A node as its endpoint knows it, and the connection to it.
pub(crate) trait NetworkPeer: Sized {
    /// What carries the verbs.
    type Connection: Connection;

    /// A peer without a connection. Until it has one, verbs fail with `down`.
    fn unconnected(dialer: Arc<Dialer<Self::Connection>>, node: NodeId, down: FabricError) -> Self;

    /// What connects to the node.
    fn dialer(&self) -> &Arc<Dialer<Self::Connection>>;

    /// What the node was when it was connected to last; of incarnation 0 before that.
    fn info(&self) -> &NodeInfo;

    /// Whether the connection can carry verbs, as far as is known.
    fn is_open(&self) -> bool;

    /// Begins with a connection by which nothing was posted yet.
    fn open(&mut self, connected: Connected<Self::Connection>);

    /// What verbs fail with while there is no connection, and nothing is known that is worse.
    fn reason(&self) -> FabricError;

    /// Whether the node has said before what an attempt to connect failed with.
    fn was_told(&self, _attempt: &FabricError) -> bool {
        false
    }

    /// A peer with its first connection, or with the error that connecting failed with.
    fn new(
        dialer: Arc<Dialer<Self::Connection>>,
        node: NodeId,
        first: Result<Connected<Self::Connection>>,
    ) -> Self {
        match first {
            Ok(connected) => {
                let mut peer =
                    Self::unconnected(dialer, node, FabricError::NodeStopped { node, sent: true });
                peer.open(connected);
                peer
            }
            Err(error) => {
                let peer = Self::unconnected(dialer, node, error);
                peer.dialer().redial();
                peer
            }
        }
    }

    /// What verbs fail with while there is no connection, if the last attempt to make one failed
    /// with this.
    fn down(&self, attempt: Option<FabricError>) -> FabricError {
        // Of a node that was there, it is the same news that nobody answers at its address now.
        let known = self.info().incarnation != 0;
        attempt
            .filter(|error| !(known && error.is_outage() || self.was_told(error)))
            .unwrap_or_else(|| self.reason())
    }

    /// Where the node is connected to.
    fn address(&self) -> &str {
        &self.dialer().address
    }

    /// Uses the next connection, if there still is one to the node with this incarnation.
    fn open_next(&mut self, incarnation: u64) -> Result<()> {
        if let Some(connected) = self.dialer().take_next(incarnation) {
            self.open(connected);
        }
        if self.is_open() {
            Ok(())
        } else {
            Err(self.down(None))
        }
    }
}

/// A dialer, and its first connection or why there is none.
pub(crate) type Dialed<C> = (Arc<Dialer<C>>, Result<Connected<C>>);

/// Connects to all addresses at the same time.
///
/// # Errors
/// [`FabricError::BadOption`] of no addresses or too many.
pub(crate) fn dial_all<C: Connection>(
    addresses: &[impl AsRef<str> + Sync],
    dialer: impl Fn(&str) -> Arc<Dialer<C>> + Sync,
) -> Result<Vec<Dialed<C>>> {
    if !(1..=MOST_NODES).contains(&addresses.len()) {
        return Err(FabricError::BadOption {
            option: "the number of nodes",
            value: addresses.len() as u64,
            limit: "from 1 to 65535",
        });
    }
    let dial = |address: &str| {
        let dialer = dialer(address);
        let first = dialer.connect();
        (dialer, first)
    };
    // Most endpoints have one node, and need no thread for it.
    if let [one] = addresses {
        return Ok(vec![dial(one.as_ref())]);
    }
    std::thread::scope(|scope| {
        let attempts: Vec<_> = addresses
            .iter()
            .map(|address| scope.spawn(|| dial(address.as_ref())))
            .collect();
        let ends = attempts.into_iter().map(ScopedJoinHandle::join);
        ends.map(|end| Ok(end.unwrap_or_else(|panic| std::panic::resume_unwind(panic))))
            .collect()
    })
}

/// Checks that every node was reached.
///
/// # Errors
/// That of the first address that has one.
pub(crate) fn all_reached<C>(dialed: &[Dialed<C>]) -> Result<()>
where
    C: Connection,
{
    match errors(dialed).next() {
        Some(error) => Err(error.clone()),
        None => Ok(()),
    }
}

/// Checks that a node was reached, and that nothing keeps the others which no node is the better
/// for waiting.
///
/// # Errors
/// The first that is no outage; else, where all are down, that of the first.
pub(crate) fn some_reached<C: Connection>(dialed: &[Dialed<C>]) -> Result<()> {
    let lasting = errors(dialed).find(|error| !error.is_outage());
    let none = errors(dialed).count() == dialed.len();
    match lasting.or(errors(dialed).next().filter(|_| none)) {
        Some(error) => Err(error.clone()),
        None => Ok(()),
    }
}

fn errors<C: Connection>(dialed: &[Dialed<C>]) -> impl Iterator<Item = &FabricError> {
    dialed.iter().filter_map(|(_, first)| first.as_ref().err())
}

/// All peers of an endpoint, by their nodes.
pub(crate) struct Peers<L>(Box<[RefCell<L>]>);

impl<P: NetworkPeer> fmt::Debug for Peers<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses = self.0.iter().filter_map(|peer| {
            let peer = peer.try_borrow().ok()?;
            Some(peer.address().to_owned())
        });
        f.debug_list().entries(addresses).finish()
    }
}

impl<L: NetworkPeer> Peers<L> {
    /// The peers of what was dialed, in the order of the nodes.
    ///
    /// # Errors
    /// [`FabricError::DuplicateNode`].
    pub(crate) fn new(dialed: Vec<Dialed<L::Connection>>) -> Result<Self> {
        let peers = (0..).map(NodeId).zip(dialed);
        let peers = Self(
            peers
                .map(|(node, (dialer, first))| RefCell::new(L::new(dialer, node, first)))
                .collect(),
        );
        // From the last on, so that an error names first the address that repeats another.
        for (node, peer) in peers.0.iter().enumerate().rev() {
            let peer = peer.borrow();
            peers.check_unique(NodeId(node as u16), &*peer, peer.info().incarnation)?;
        }
        Ok(peers)
    }

    /// How many nodes there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// In the order of the nodes.
    #[inline]
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, RefCell<L>> {
        self.0.iter()
    }

    /// The peer to a node.
    ///
    /// # Errors
    /// [`FabricError::UnknownNode`].
    #[inline(always)]
    pub(crate) fn get(&self, node: NodeId) -> Result<&RefCell<L>> {
        match self.0.get(usize::from(node.0)) {
            Some(peer) => Ok(peer),
            None => Err(self.unknown(node)),
        }
    }

    #[cold]
    fn unknown(&self, node: NodeId) -> FabricError {
        FabricError::UnknownNode {
            node,
            connected: self.len(),
        }
    }

    /// The peer to a node, which is open. `next` says what there is in place of a connection that
    /// has ended.
    ///
    /// # Errors
    /// Why it cannot be.
    #[inline(always)]
    pub(crate) fn open(
        &self,
        node: NodeId,
        next: impl FnOnce(&mut L) -> RedialResult,
    ) -> Result<RefMut<'_, L>> {
        let peer = self.get(node)?.borrow_mut();
        if peer.is_open() {
            return Ok(peer);
        }
        drop(peer);
        self.reopened(node, next)
    }

    #[cold]
    fn reopened(
        &self,
        node: NodeId,
        next: impl FnOnce(&mut L) -> RedialResult,
    ) -> Result<RefMut<'_, L>> {
        match self.closed_state(node, next)? {
            NodeState::Up => Ok(self.get(node)?.borrow_mut()),
            NodeState::Down(error) => Err(error),
            NodeState::Restarted { .. } => Err(FabricError::NodeRestarted {
                node,
                expected: self.get(node)?.borrow().info().incarnation,
            }),
        }
    }

    /// The state of a node.
    ///
    /// # Errors
    /// [`FabricError::UnknownNode`].
    pub(crate) fn state(
        &self,
        node: NodeId,
        next: impl FnOnce(&mut L) -> RedialResult,
    ) -> Result<NodeState> {
        if self.get(node)?.borrow().is_open() {
            return Ok(NodeState::Up);
        }
        self.closed_state(node, next)
    }

    /// The state of a node whose connection is not open. One that is the same as
    /// before, or was never connected to, is up again.
    #[cold]
    fn closed_state(
        &self,
        node: NodeId,
        next: impl FnOnce(&mut L) -> RedialResult,
    ) -> Result<NodeState> {
        let mut peer = self.get(node)?.borrow_mut();
        let incarnation = match next(&mut peer) {
            RedialResult::None(attempt) => return Ok(NodeState::Down(peer.down(attempt))),
            RedialResult::Made(incarnation) => incarnation,
        };
        let known = peer.info().incarnation;
        if known != incarnation {
            if let Err(duplicate) = self.check_unique(node, &*peer, incarnation) {
                return Ok(NodeState::Down(duplicate));
            }
            if known != 0 {
                return Ok(NodeState::Restarted { incarnation });
            }
        }
        Ok(match peer.open_next(incarnation) {
            Ok(()) => NodeState::Up,
            Err(error) => NodeState::Down(error),
        })
    }

    /// Accepts a node that restarted empty, as [`Endpoint::adopt`](crate::Endpoint::adopt)
    /// says.
    ///
    /// # Errors
    /// Why it is down.
    pub(crate) fn adopt(
        &self,
        node: NodeId,
        next: impl FnOnce(&mut L) -> RedialResult,
    ) -> Result<NodeInfo> {
        match self.state(node, next)? {
            NodeState::Up => {}
            NodeState::Down(error) => return Err(error),
            NodeState::Restarted { incarnation } => {
                self.get(node)?.borrow_mut().open_next(incarnation)?;
            }
        }
        Ok(self.get(node)?.borrow().info().clone())
    }

    /// Checks that no other node has the incarnation that this one has now.
    fn check_unique(&self, node: NodeId, peer: &L, incarnation: u64) -> Result<()> {
        let peers = (0..).zip(self.iter());
        for (_, other) in peers.filter(|(other, _)| *other != node.0) {
            let other = other.borrow();
            if incarnation != 0 && other.info().incarnation == incarnation {
                return Err(FabricError::DuplicateNode {
                    address: peer.address().into(),
                    other: other.address().into(),
                    incarnation,
                });
            }
        }
        Ok(())
    }
}

impl<'l, L: NetworkPeer> IntoIterator for &'l Peers<L> {
    type Item = &'l RefCell<L>;
    type IntoIter = std::slice::Iter<'l, RefCell<L>>;

    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
