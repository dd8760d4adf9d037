//! How a fabric serves an admitted client: TCP executes its verbs, RDMA verbs set up a queue pair.

use super::counters::Tally;
use crate::error::{Carrier, Malformed, Refusal};
use crate::memory::Node;
use crate::net::admission::Issued;
use crate::net::stream::{Inbound, Outbound};
use crate::{FabricError, RegionInfo};
use std::sync::Arc;
use std::time::Duration;

/// How an agent serves the clients that it admits.
pub(crate) trait Service: Send + Sync {
    /// What carries the verbs.
    fn carrier(&self) -> Carrier;

    /// Begins to serve a client.
    fn admit(&self, client: Client<'_>) -> Box<dyn Serve>;
}

/// A client that was just admitted.
pub(crate) struct Client<'a> {
    pub(crate) node: &'a Node,
    pub(crate) grant: Arc<Issued>,
    /// The node's regions, with the rights that this client has.
    pub(crate) regions: &'a [RegionInfo],
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
    /// Takes what has come and answers it; tells of verbs that are refused.
    fn run(
        &mut self,
        input: &mut Inbound,
        out: &mut Outbound,
        served: &Served,
        tell: &mut Tell<'_>,
    ) -> Result<Pause, Malformed>;
}

/// What an agent serves, and within which limits.
pub(crate) struct Served {
    pub(crate) node: Node,
    /// The limit of frames, in words.
    pub(crate) frame_words: u32,
    /// Bytes of answers that may wait for a client before none of its verbs is executed.
    pub(crate) unsent_bytes: usize,
    pub(crate) tally: Tally,
}

/// Why no more verbs are executed for now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pause {
    /// There is no whole verb any more; the next needs so many words.
    Hungry(usize),
    /// Enough answers wait to be sent.
    Full,
    /// A message waits for its receiver.
    Stalled,
    /// The client is not served any more.
    Refused(Refusal),
}
