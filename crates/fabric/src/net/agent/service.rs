//! How a fabric serves an admitted client: TCP executes its verbs, RDMA verbs set up a queue pair.

use super::counters::AgentTotals;
use crate::error::{Carrier, Malformed, Refusal};
use crate::memory::Node;
use crate::net::admission::Issued;
use crate::net::room::ByteBudget;
use crate::net::stream::{Inbound, Outbound};
use crate::{FabricError, RegionInfo, Rights};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

/// How an agent serves the clients that it admits.
pub(crate) trait VerbService: Send + Sync {
    /// What carries the verbs.
    fn carrier(&self) -> Carrier;

    /// Begins to serve a client.
    fn admit(&self, client: Client<'_>) -> Box<dyn Serve>;
}

/// A client that was just admitted.
pub(crate) struct Client<'a> {
    pub(crate) node: &'a Node,
    /// Where it connects from.
    pub(crate) peer: SocketAddr,
    pub(crate) grant: Arc<Issued>,
    /// The node's regions, with the rights that this client has.
    pub(crate) regions: &'a [RegionInfo],
    /// The most rights that it asked for.
    pub(crate) asked: Rights,
    /// How long its messages may wait for room.
    pub(crate) receiver_wait: Duration,
    /// The number of its session.
    pub(crate) session: u64,
    /// The session in whose place it came, or 0: no verb of that may be executed once this client
    /// is told that it is admitted.
    pub(crate) last_session: u64,
}

/// Where to tell of verbs that are refused, with the name of the grant.
pub(crate) type Tell<'t> = dyn FnMut(&str, &FabricError) + 't;

/// One client that is served.
pub(crate) trait Serve: Send {
    /// Takes what has come and answers it, within the quota; tells of verbs that are refused.
    /// `bell` is woken when it should go on, as an answer has come.
    fn run(
        &mut self,
        input: &mut Inbound,
        out: &mut Outbound,
        served: &ServedNode,
        quota: &mut Quota,
        tell: &mut Tell<'_>,
        bell: &Waker,
    ) -> Result<ExecutionPause, Malformed>;

    /// Bytes that it holds for calls which are not answered.
    fn held_bytes(&self) -> usize;

    /// The grant that it was admitted under.
    fn grant(&self) -> &Arc<Issued>;
}

/// What an agent serves, and within which limits.
pub(crate) struct ServedNode {
    pub(crate) node: Node,
    /// The limit of frames, in words.
    pub(crate) frame_words: u32,
    /// Bytes of answers that may wait for a client before none of its verbs is executed, where
    /// there is room for so many.
    pub(crate) unsent_bytes: usize,
    /// What all connections hold.
    pub(crate) room: ByteBudget,
    pub(crate) totals: Arc<AgentTotals>,
}

/// What a turn of a client may come to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quota {
    /// Work that is left of the turn, as bytes that are moved; a verb counts as
    /// [`VERB`](Quota::VERB) besides.
    pub(crate) work: usize,
    /// Bytes of answers that may wait before no verb is executed.
    pub(crate) unsent: usize,
    /// The most bytes of an answer that can only be made at once.
    pub(crate) at_once: usize,
    /// Verbs that may still be executed.
    pub(crate) verbs: usize,
}

impl Quota {
    /// The work of one turn: some 50 microseconds.
    pub(crate) const TURN: usize = 256 << 10;
    /// The same where clients of other grants wait meanwhile.
    pub(crate) const SHORT_TURN: usize = 16 << 10;
    /// The work of a verb, whatever it moves.
    pub(crate) const VERB: usize = 64;
    /// The work of a verb that is refused, and of a step of a handshake.
    pub(crate) const REFUSED: usize = 8 << 10;

    /// Counts work that is known by the time that it took: a nanosecond as a byte, so that calls
    /// end a short turn after some 16 microseconds, and a long one after 256.
    pub(crate) fn spend_time(&mut self, took: Duration) {
        self.spend(usize::try_from(took.as_nanos()).unwrap_or(usize::MAX));
    }

    /// Counts work that was done.
    #[inline]
    pub(crate) fn spend(&mut self, work: usize) {
        self.work = self.work.saturating_sub(work);
    }
}

/// Why no more verbs are executed for now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ExecutionPause {
    /// There is no whole verb any more; the next needs so many words.
    Hungry(usize),
    /// Enough answers wait to be sent.
    Full,
    /// The turn has done its work, or as many verbs as the grant allows for now.
    Spent,
    /// The client asks again and again for what is refused: it rests for a while.
    Resting,
    /// A message waits for its receiver.
    Stalled,
    /// No verb is begun before its oldest call is answered.
    Unanswered,
    /// The client is not served any more.
    Refused(Refusal),
    /// The client is not served any more, and its answer cannot be ended either.
    Cut,
}
