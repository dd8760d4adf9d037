//! One node with the queue pair to it and the set-up connection beside it.

use super::calls::CallsInFlight;
use super::common::{CompletionCount, PeerContext};
use super::connect::{KeyedAreas, PairedNode};
use super::setup::SetupNotice;
use crate::error::Refusal;
use crate::memory::mailbox;
use crate::net::dialer::{Connected, Dialer, RedialResult};
use crate::net::peers::NetworkPeer;
use crate::verbs::abi::{
    IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_INV_REQ_ERR, IBV_WC_RETRY_EXC_ERR, IBV_WC_RNR_RETRY_EXC_ERR,
    IBV_WC_SUCCESS, ibv_wc,
};
use crate::verbs::path::RefusedVerb;
use crate::verbs::resource::QueuePair;
use crate::verbs::work::WorkList;
use crate::{FabricError, Nanos, NodeId, NodeInfo, RemoteAddr, Rights, Verb};
use std::collections::VecDeque;
use std::net::TcpStream;
use std::sync::Arc;

/// A node as its endpoint knows it, and the connection to it.
pub(in crate::verbs) struct VerbsPeer {
    dialer: Arc<Dialer<PairedNode>>,
    pub(super) node: NodeId,
    /// The connection, or what is left of one; nothing before the first.
    pub(super) connection: Option<Connected<PairedNode>>,
    pub(in crate::verbs) info: NodeInfo,
    /// Where they are, and the keys to them.
    pub(in crate::verbs) regions: Vec<KeyedAreas>,
    /// The most bytes of one request.
    pub(super) largest: usize,
    pub(super) work: WorkList,
    /// Calls have a queue pair of their own, which ends with the connection.
    pub(in crate::verbs) calls: CallsInFlight,
    /// Verbs that have not completed, in the order of their posting.
    pub(super) pending: VecDeque<PendingVerb>,
    /// Of them those that a doorbell has sent off.
    sent: usize,
    /// The number of the next request. They go on from one queue pair to the next, so that a
    /// completion that is late is not taken for another's.
    pub(super) next_request: u64,
    /// The first request of this queue pair.
    first_request: u64,
    /// When the oldest verb began to be waited for: its doorbell, or the completion before it.
    waiting_since: Nanos,
    /// Verbs that failed with their connection. No other is made use of before their tasks know it:
    /// nothing that they would not post then may take effect behind what was lost.
    lost: Vec<u32>,
    pub(super) state: State,
    /// What verbs fail with where nothing is known that is worse.
    down: FabricError,
}

/// A verb that has not completed.
pub(super) struct PendingVerb {
    /// The numbers of its last request, and of all of them how many there are.
    pub(super) last: u64,
    pub(super) requests: u32,
    pub(super) slot: u32,
    /// Where an atomic's word is left.
    pub(super) found: Option<u32>,
    pub(super) access: RemoteAccess,
}

/// What a verb was to do where; a gather with its first piece.
#[derive(Clone, Copy)]
pub(super) struct RemoteAccess {
    pub(super) at: RemoteAddr,
    pub(super) bytes: usize,
    pub(super) needed: Rights,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Open,
    /// The NIC of the node refused the oldest verb, and the agent is asked why.
    Asking,
    Broken,
}

/// Bits of a request's number; the rest of its identity says which node it goes to.
pub(super) const NUMBER_BITS: u32 = 48;

/// The node that a completion is of.
pub(super) fn node_of(completion: &ibv_wc) -> NodeId {
    NodeId((completion.wr_id >> NUMBER_BITS) as u16)
}

/// How many requests a verb takes.
#[inline]
pub(super) fn requests_of(verb: &Verb) -> usize {
    match verb {
        Verb::ReadMany { pieces, .. } => pieces.len(),
        // Of a queue of its own.
        Verb::Call { .. } => 0,
        _ => 1,
    }
}

impl NetworkPeer for VerbsPeer {
    type Connection = PairedNode;

    fn unconnected(dialer: Arc<Dialer<PairedNode>>, node: NodeId, down: FabricError) -> Self {
        Self {
            dialer,
            node,
            connection: None,
            info: NodeInfo::UNKNOWN,
            regions: Vec::new(),
            largest: 0,
            work: WorkList::default(),
            calls: CallsInFlight::default(),
            pending: VecDeque::new(),
            sent: 0,
            next_request: 0,
            first_request: 0,
            waiting_since: 0,
            lost: Vec::new(),
            state: State::Broken,
            down,
        }
    }

    fn dialer(&self) -> &Arc<Dialer<PairedNode>> {
        &self.dialer
    }

    fn info(&self) -> &NodeInfo {
        &self.info
    }

    #[inline]
    fn is_open(&self) -> bool {
        self.state == State::Open && !self.dialer.has_none()
    }

    fn open(&mut self, connected: Connected<PairedNode>) {
        let paired = &connected.made;
        self.info.clone_from(&paired.info);
        self.regions.clone_from(&paired.regions);
        self.largest = paired.largest;
        self.connection = Some(connected);
        self.first_request = self.next_request;
        self.lost.clear();
        self.state = State::Open;
        self.down = FabricError::NodeStopped {
            node: self.node,
            sent: true,
        };
    }

    fn reason(&self) -> FabricError {
        match self.is_revoked() {
            true => FabricError::GrantRevoked { node: self.node },
            false => self.down.clone(),
        }
    }

    /// That its grant was revoked ends the connection, and then the attempts to make another.
    fn was_told(&self, attempt: &FabricError) -> bool {
        matches!(attempt, FabricError::NotAdmitted { reason, .. } if *reason == Refusal::GrantRevoked)
    }
}

impl VerbsPeer {
    /// Gives up a connection that has ended, unless completions may still come; returns what
    /// failed.
    pub(super) fn let_go(&mut self, common: &PeerContext<'_>, now: Nanos) -> CompletionCount {
        // It may have been said why.
        let mut done = self.look(common, now);
        if self.state == State::Open && !self.is_waiting() {
            // What was posted since the last doorbell is not sent any more.
            let stopped = FabricError::NodeStopped {
                node: self.node,
                sent: true,
            };
            done += self.break_with(&stopped, self.later(), common);
        }
        done
    }

    /// What there is in place of a connection that has ended.
    pub(super) fn next(&mut self, common: &PeerContext<'_>) -> RedialResult {
        self.lost.retain(|slot| common.slots.is_failed(*slot));
        if self.state != State::Broken || !self.lost.is_empty() {
            return RedialResult::None(None);
        }
        self.dialer.next()
    }

    /// What to poll for news.
    pub(super) fn stream(&self) -> Option<&TcpStream> {
        let connection = self.connection.as_ref();
        connection.map(|connection| connection.made.setup.stream())
    }

    #[inline]
    pub(super) fn queue_pair(&self) -> Option<&QueuePair> {
        self.connection.as_ref()?.made.queue_pair.as_ref()
    }

    /// Has the NIC let go of whatever was posted.
    fn drop_queue_pair(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.made.queue_pair = None;
        }
        self.work.clear();
    }

    pub(super) fn is_revoked(&self) -> bool {
        let connection = self.connection.as_ref();
        connection.is_some_and(|connection| connection.made.setup.is_revoked())
    }

    pub(super) fn hear(&mut self) -> SetupNotice {
        match &mut self.connection {
            Some(connection) => connection.made.setup.hear(self.node),
            None => SetupNotice::Closed,
        }
    }

    /// Whether completions are on their way, or replies.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        self.sent > 0 || self.calls.is_waiting()
    }

    /// When the verbs on their way are given up.
    pub(super) fn give_up_at(&self, verb_timeout: Nanos) -> Nanos {
        let of_verbs = match self.sent {
            0 => Nanos::MAX,
            _ => self.waiting_since.saturating_add(verb_timeout),
        };
        match self.calls.is_waiting() {
            true => of_verbs.min(self.calls.give_up_at(verb_timeout)),
            false => of_verbs,
        }
    }

    /// Hands what was posted to the NIC; returns what failed at once.
    #[inline]
    pub(super) fn send(
        &mut self,
        common: &PeerContext<'_>,
        now: impl Fn() -> Nanos,
    ) -> CompletionCount {
        let mut done = self.send_verbs(common, &now);
        if self.calls.is_waiting() {
            done += self.send_calls(common, now);
        }
        done
    }

    /// Hands what was posted to the NIC, with one doorbell; returns what failed at once.
    #[inline]
    fn send_verbs(
        &mut self,
        common: &PeerContext<'_>,
        now: impl FnOnce() -> Nanos,
    ) -> CompletionCount {
        if self.work.is_empty() {
            return CompletionCount::default();
        }
        let connection = self.connection.as_ref();
        let Some(queue_pair) =
            connection.and_then(|connection| connection.made.queue_pair.as_ref())
        else {
            return CompletionCount::default();
        };
        if self.sent == 0 {
            self.waiting_since = now();
        }
        self.sent = self.pending.len();
        // SAFETY: the bytes of each request are of a buffer in a slot, or of a word, of this
        // endpoint, which keeps them from everybody until the verb has completed or `queue_pair` is
        // dropped.
        match unsafe { self.work.post(queue_pair) } {
            Ok(()) => CompletionCount::default(),
            Err(error) => {
                log::warn!("{}: {error}", self.address());
                let stopped = FabricError::NodeStopped {
                    node: self.node,
                    sent: true,
                };
                self.break_with(&stopped, stopped.clone(), common)
            }
        }
    }

    /// Takes a completion of this peer.
    #[inline]
    pub(super) fn complete(
        &mut self,
        completion: &ibv_wc,
        common: &PeerContext<'_>,
        now: impl Fn() -> Nanos,
    ) -> CompletionCount {
        // The number as it was counted: the bits above those of the identity are those of the next
        // one.
        let mask = (1 << NUMBER_BITS) - 1;
        let behind = self.next_request.wrapping_sub(completion.wr_id) & mask;
        let number = self.next_request - behind;
        if number < self.first_request || self.queue_pair().is_none() {
            // Of a queue pair that is gone.
            return CompletionCount::default();
        }
        let succeeded = completion.status == IBV_WC_SUCCESS;
        let mut done = CompletionCount::default();
        let mut arrivals = common.slots.arrivals();
        while let Some(oldest) = self.pending.front() {
            // Verbs complete in their order: the signaled one, and all before it.
            if oldest.last > number || (oldest.last == number && !succeeded) {
                break;
            }
            let word = oldest
                .found
                .map_or(0, |found| common.found.give_back(found));
            arrivals.complete(oldest.slot, words(oldest, &word));
            done.verbs += 1;
            done.requests += oldest.requests as usize;
            self.sent -= 1;
            self.pending.pop_front();
        }
        drop(arrivals);
        self.waiting_since = now();
        if !succeeded {
            done += self.fail(completion, common, now());
        }
        done
    }

    /// Takes the failure of the oldest verb.
    #[cold]
    fn fail(
        &mut self,
        completion: &ibv_wc,
        common: &PeerContext<'_>,
        now: Nanos,
    ) -> CompletionCount {
        let node = self.node;
        let Some(oldest) = self.pending.front() else {
            return CompletionCount::default();
        };
        let error = match completion.status {
            IBV_WC_REM_ACCESS_ERR | IBV_WC_REM_INV_REQ_ERR if self.is_revoked() => {
                FabricError::GrantRevoked { node }
            }
            IBV_WC_REM_ACCESS_ERR | IBV_WC_REM_INV_REQ_ERR => {
                let RemoteAccess { at, bytes, needed } = oldest.access;
                let refused = RefusedVerb {
                    region: at.region,
                    offset: at.offset,
                    bytes: bytes as u32,
                    needed,
                };
                // The verbs stay with their slots; the NIC uses nothing of theirs any more.
                self.drop_queue_pair();
                self.state = State::Asking;
                self.waiting_since = now;
                if let Some(connection) = &self.connection {
                    connection.made.setup.ask(&refused);
                }
                return CompletionCount::default();
            }
            IBV_WC_RNR_RETRY_EXC_ERR => FabricError::ReceiverNotReady {
                node,
                capacity: mailbox::CAPACITY as usize,
            },
            IBV_WC_RETRY_EXC_ERR if matches!(self.hear(), SetupNotice::Nothing) => {
                FabricError::TimedOut {
                    node,
                    after: common.verb_timeout,
                }
            }
            IBV_WC_RETRY_EXC_ERR => FabricError::NodeStopped { node, sent: true },
            // A part of it may have been sent.
            status => {
                let (address, vendor) = (self.address(), completion.vendor_err);
                log::warn!("{address}: a verb failed with status {status} ({vendor:#x})");
                FabricError::NodeStopped { node, sent: true }
            }
        };
        self.break_with(&error, self.later(), common)
    }

    /// What verbs fail with from now on that the connection is broken.
    pub(super) fn later(&self) -> FabricError {
        let node = self.node;
        if self.is_revoked() {
            FabricError::GrantRevoked { node }
        } else {
            FabricError::NodeStopped { node, sent: true }
        }
    }

    /// Looks at the clock and at the set-up connection; returns what failed for what they say.
    #[cold]
    pub(super) fn look(&mut self, common: &PeerContext<'_>, now: Nanos) -> CompletionCount {
        if self.state == State::Broken {
            return CompletionCount::default();
        }
        let node = self.node;
        let stopped = FabricError::NodeStopped { node, sent: true };
        let asking = self.state == State::Asking;
        let news = self.hear();
        if let SetupNotice::Called(half) = news {
            return self.take_called(half, common, now);
        }
        let mut done = CompletionCount::default();
        if self.is_revoked() {
            // The agent answers what it has received, and nothing more.
            done += self.calls.fail_unsent(&self.later(), common);
        }
        let is_idle = self.pending.is_empty() && !self.calls.is_waiting();
        let (error, later) = match news {
            SetupNotice::Explained(error) if asking => (error, self.later()),
            SetupNotice::Refused(Refusal::GrantRevoked) if asking || is_idle => {
                (self.later(), self.later())
            }
            SetupNotice::Nothing if self.is_revoked() && is_idle => (self.later(), self.later()),
            SetupNotice::Malformed(reason) => {
                let peer = self.address().to_owned();
                let error = FabricError::Protocol { peer, reason };
                (error.clone(), error)
            }
            SetupNotice::Closed if asking || !self.is_waiting() || !self.is_revoked() => {
                (stopped, self.later())
            }
            SetupNotice::Refused(reason) if reason != Refusal::GrantRevoked => {
                (stopped, self.later())
            }
            // What is on its way under a grant that was revoked the NIC completes or refuses.
            _ if self.is_waiting() && now > self.give_up_at(common.verb_timeout) => {
                let error = FabricError::TimedOut {
                    node,
                    after: common.verb_timeout,
                };
                (if asking { stopped } else { error }, self.later())
            }
            _ => return done,
        };
        done += self.break_with(&error, later, common);
        done
    }

    /// Ends the connection. The oldest verb fails with `error`, those behind it with that or with
    /// the news that the connection is no more, as calls do, and those that are posted later with
    /// `later`.
    #[cold]
    pub(super) fn break_with(
        &mut self,
        error: &FabricError,
        later: FabricError,
        common: &PeerContext<'_>,
    ) -> CompletionCount {
        // The NIC lets go of all buffers before anybody else can have them.
        self.drop_queue_pair();
        let calls = self.calls.end();
        if let Some(connection) = &self.connection {
            connection.made.setup.close();
        }
        self.first_request = self.next_request;
        self.sent = 0;
        let stopped = FabricError::NodeStopped {
            node: self.node,
            sent: true,
        };
        let of_all = match error {
            // Once one was refused for that, none behind it was executed.
            FabricError::GrantRevoked { .. }
            | FabricError::TimedOut { .. }
            | FabricError::Protocol { .. } => error,
            _ => &stopped,
        };
        let mut arrivals = common.slots.arrivals();
        let mut done = CompletionCount::default();
        for (index, verb) in self.pending.drain(..).enumerate() {
            if let Some(found) = verb.found {
                common.found.give_back(found);
            }
            let error = if index == 0 { error } else { of_all };
            arrivals.fail(verb.slot, error.clone());
            self.lost.push(verb.slot);
            done.verbs += 1;
            done.requests += verb.requests as usize;
        }
        let of_calls = match of_all {
            // That no verb was executed behind another says nothing of calls.
            FabricError::GrantRevoked { .. } => &stopped,
            other => other,
        };
        for slot in calls {
            arrivals.fail(slot, of_calls.clone());
            self.lost.push(slot);
            done.verbs += 1;
        }
        drop(arrivals);
        self.state = State::Broken;
        self.down = later;
        self.dialer.redial();
        done
    }
}

/// What a slot is completed with: the bytes of a READ are in its buffer already.
#[inline]
fn words<'w>(verb: &PendingVerb, word: &'w u64) -> &'w [u64] {
    match verb.found {
        Some(_) => std::slice::from_ref(word),
        None => &[],
    }
}
