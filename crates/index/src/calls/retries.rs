//! How a client asks again for what an owner has not come to.

use farslot_fabric::{Endpoint, EndpointExt, Nanos};

/// The first pause between two calls of which the first came to nothing, in nanoseconds, and the
/// longest.
const FIRST_PAUSE: Nanos = 50_000;
const LONGEST_PAUSE: Nanos = 10_000_000;

/// The calls for an operation, or for several, that have come to nothing so far.
pub(super) struct Retries {
    /// When the last progress was made.
    since: Nanos,
    pause: Nanos,
}

impl Retries {
    /// None so far.
    pub(super) fn new<E: Endpoint>(endpoint: &E) -> Self {
        Self {
            since: endpoint.now(),
            pause: FIRST_PAUSE,
        }
    }

    /// Waits before the next call, each time longer; false if there has been no progress for as long as
    /// a verb may take, and no call is to follow.
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
