//! How much the clients of a grant may ask for in a second.
//!
//! Those who ask for more are slowed: their verbs wait at the agent, and nothing more is read from
//! them meanwhile. A refusal would have to be handled by everything above, amid inserts and
//! transactions that hold locks; a verb that takes longer is nothing new to them. A client whose
//! verb waits for longer than its own verb timeout gives the connection up.

use super::socket::now;
use crate::{FabricError, Nanos, Result};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The most that the clients of a grant may ask for, all together, in a second of the long run; a
/// tenth of it may come at once.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Rate {
    /// Verbs, a call being one. Nothing for no limit.
    pub operations: Option<u64>,
    /// Bytes of frames, in both directions together. Nothing for no limit.
    pub bytes: Option<u64>,
}

impl Rate {
    /// No limit.
    pub const UNLIMITED: Self = Self {
        operations: None,
        bytes: None,
    };

    /// Checks that something may be done.
    pub(crate) fn check(self) -> Result<()> {
        for (option, rate) in [
            ("a grant's operations a second", self.operations),
            ("a grant's bytes a second", self.bytes),
        ] {
            if rate == Some(0) {
                return Err(FabricError::BadOption {
                    option,
                    value: 0,
                    limit: "at least 1",
                });
            }
        }
        Ok(())
    }
}

/// What is left of a rate.
#[derive(Debug)]
pub(crate) struct RateMeter(Mutex<[Option<Bucket>; 2]>);

/// What may be done now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RateAllowance {
    /// At most so many verbs and bytes.
    Do(usize, usize),
    /// Nothing for so long.
    Wait(Duration),
}

impl RateMeter {
    /// Nothing for a rate without limits.
    pub(crate) fn new(rate: Rate) -> Option<Self> {
        let now = now();
        let bucket = |rate: Option<u64>, least| rate.map(|rate| Bucket::new(rate, least, now));
        let buckets = [bucket(rate.operations, 1.0), bucket(rate.bytes, 4096.0)];
        let limited = buckets.iter().any(Option::is_some);
        limited.then(|| Self(Mutex::new(buckets)))
    }

    /// What may be done now.
    pub(crate) fn may(&self) -> RateAllowance {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = now();
        let mut left = [usize::MAX; 2];
        let mut wait = Duration::ZERO;
        for (bucket, left) in buckets.iter_mut().zip(&mut left) {
            if let Some(bucket) = bucket {
                match bucket.left(now) {
                    Ok(tokens) => *left = tokens,
                    Err(until) => wait = wait.max(until),
                }
            }
        }
        if wait.is_zero() {
            RateAllowance::Do(left[0], left[1])
        } else {
            RateAllowance::Wait(wait)
        }
    }

    /// Counts what was done, which may be more than was allowed: it is made up for later.
    pub(crate) fn done(&self, verbs: usize, bytes: usize) {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (bucket, spent) in buckets.iter_mut().zip([verbs, bytes]) {
            if let Some(bucket) = bucket {
                bucket.tokens -= spent as f64;
            }
        }
    }
}

/// Tokens that fill a bucket steadily.
#[derive(Debug)]
struct Bucket {
    /// Tokens a second.
    rate: f64,
    /// The most that it holds.
    most: f64,
    /// Less than none where more was done than allowed.
    tokens: f64,
    /// When it had so many.
    at: Nanos,
}

impl Bucket {
    /// A full one, which holds a tenth of a second's tokens, or `least` if these are more.
    fn new(rate: u64, least: f64, now: Nanos) -> Self {
        let rate = rate as f64;
        let most = (rate / 10.0).max(least);
        Self {
            rate,
            most,
            tokens: most,
            at: now,
        }
    }

    /// The whole tokens that there are, or how long until there is one.
    fn left(&mut self, now: Nanos) -> std::result::Result<usize, Duration> {
        let since = now.saturating_sub(self.at) as f64 / 1e9;
        self.at = self.at.max(now);
        self.tokens = (self.tokens + since * self.rate).min(self.most);
        if self.tokens >= 1.0 {
            return Ok(self.tokens as usize);
        }
        let wait = (1.0 - self.tokens) / self.rate;
        // Not so short that the thread does nothing else, nor so long that it is no time.
        Err(Duration::from_secs_f64(wait.clamp(0.0005, 3600.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::socket::nanos;

    #[test]
    fn in_the_long_run_the_rate_is_kept_whatever_is_asked_for() {
        for (rate, at_once) in [(1, 1), (10, 3), (1000, 10_000), (1 << 30, 256 << 10)] {
            let (mut now, mut done) = (0, 0_u64);
            let mut bucket = Bucket::new(rate, 1.0, now);
            let end = nanos(Duration::from_secs(100));
            while now < end {
                match bucket.left(now) {
                    Ok(tokens) => {
                        let asked = tokens.min(at_once);
                        bucket.tokens -= asked as f64;
                        done += asked as u64;
                        now += 1000;
                    }
                    Err(wait) => now += nanos(wait),
                }
            }
            let (least, most) = (rate * 99, rate * 100 + (rate / 10).max(1) + at_once as u64);
            assert!((least..=most).contains(&done), "{done} at {rate}/s");
        }
    }

    #[test]
    fn what_was_too_much_is_made_up_for() {
        let mut bucket = Bucket::new(1000, 1.0, 0);
        assert_eq!(bucket.left(0), Ok(100));
        bucket.tokens -= 1100.0;
        let wait = bucket.left(0).unwrap_err();
        assert!(wait > Duration::from_millis(1000) && wait < Duration::from_millis(1002));
        assert_eq!(bucket.left(nanos(wait) + 1000), Ok(1));
        // Nothing is saved up beyond what the bucket holds.
        assert_eq!(bucket.left(nanos(Duration::from_secs(1000))), Ok(100));
    }

    #[test]
    fn a_rate_of_nothing_is_refused_and_one_without_limits_is_none() {
        let none = Rate {
            operations: Some(0),
            bytes: None,
        };
        assert!(matches!(none.check(), Err(FabricError::BadOption { .. })));
        assert!(Rate::UNLIMITED.check().is_ok() && RateMeter::new(Rate::UNLIMITED).is_none());
    }
}
