//! How long to wait between attempts to connect to a node.

use crate::Nanos;
use rand::RngExt;
use std::time::Duration;

/// How long to wait between attempts to connect to a node: exponential, up to a limit. Each wait is
/// shortened at random by up to a half, so that clients that lost a node together do not all
/// reconnect at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Backoff {
    /// The wait before the second attempt; the first attempt is immediate.
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
        for (wait, longest) in waits.iter().zip([50, 100, 200, 300, 300, 300]) {
            let longest = Duration::from_millis(longest);
            assert!((longest / 2..=longest).contains(wait), "{waits:?}");
        }
        let never = Backoff {
            first: Duration::MAX,
            longest: Duration::ZERO,
        };
        assert_eq!(never.waits().next(), Some(Duration::ZERO));
    }
}
