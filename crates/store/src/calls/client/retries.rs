//! How a client asks again for what an owner has not come to.

use farslot_fabric::{Endpoint, EndpointExt, Nanos};

/// The first pause between two calls of which the first came to nothing, in nanoseconds, and the
/// longest.
const FIRST_PAUSE: Nanos = 50_000;
const LONGEST_PAUSE: Nanos = 10_000_000;

/// Calls without progress after which a client does by verbs what it can.
const ENOUGH: u32 = 3;

/// The calls for an operation, or for several, that have come to nothing so far.
pub(super) struct Retries {
    /// When the last progress was made.
    since: Nanos,
    pause: Nanos,
    calls: u32,
}

impl Retries {
    /// None so far.
    pub(super) fn new<E: Endpoint>(endpoint: &E) -> Self {
        Self {
            since: endpoint.now(),
            pause: FIRST_PAUSE,
            calls: 0,
        }
    }

    /// Notes that a call came to nothing. Whether it is time to do without the owner: one that the
    /// machine has stopped in its turn would have come to it in the next.
    pub(super) fn are_enough(&mut self) -> bool {
        self.calls += 1;
        self.calls >= ENOUGH
    }

    /// Waits before the next call, each time longer; false if there has been no progress for as
    /// long as a verb may take, and no call is to follow.
    pub(super) async fn wait<E: Endpoint>(&mut self, endpoint: &E) -> bool {
        let span = endpoint.core().limits.verb_timeout;
        if endpoint.now().saturating_sub(self.since) >= span {
            return false;
        }
        endpoint.sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }
}
