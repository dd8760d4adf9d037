//! Whether a lookup begins with a READ or with the call that would have to follow one in vain.

use std::cell::Cell;

/// What READs and calls cost, and how often a client that calls tries a READ.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PolicyOptions {
    /// What a READ costs, in any unit.
    pub read_cost: f64,
    /// What a call costs, in the same unit. Where it is no more than a READ, lookups call.
    pub call_cost: f64,
    /// One of so many lookups is a READ while calls are chosen.
    pub probe_every: u32,
}

impl Default for PolicyOptions {
    /// The round trips of paper 003, table 5, over InfiniBand: 1.8 and 2.7 us.
    fn default() -> Self {
        Self {
            read_cost: 1.8,
            call_cost: 2.7,
            probe_every: 16,
        }
    }
}

/// Chooses between a READ first and a call at once (paper 003, section 4, principle 4).
///
/// A lookup that READs first costs `read + f * call`, where `f` is the share of READs that do not
/// tell; one that calls at once costs `call`. So READs pay while `f < 1 - read / call`. The share
/// is a moving average over some 32 READs, and starts at 0.
#[derive(Debug)]
pub struct Policy {
    options: PolicyOptions,
    failing: Cell<f64>,
    since_probe: Cell<u32>,
}

/// How much the newest READ counts in the average.
const WEIGHT: f64 = 1.0 / 32.0;

impl Policy {
    /// A policy that has seen nothing yet.
    #[must_use]
    pub fn new(options: PolicyOptions) -> Self {
        Self {
            options,
            failing: Cell::new(0.0),
            since_probe: Cell::new(0),
        }
    }

    /// Whether READs pay at present.
    #[must_use]
    pub fn prefers_reads(&self) -> bool {
        self.failing.get() < 1.0 - self.options.read_cost / self.options.call_cost
    }

    /// The share of READs that did not tell lately, from 0 to 1.
    #[must_use]
    pub fn failing(&self) -> f64 {
        self.failing.get()
    }

    /// Whether the next lookup is to begin with a READ.
    pub(crate) fn reads_next(&self) -> bool {
        if self.prefers_reads() {
            return true;
        }
        let since = self.since_probe.get() + 1;
        let probes = since >= self.options.probe_every;
        self.since_probe.set(if probes { 0 } else { since });
        probes
    }

    /// Notes whether a READ told.
    pub(crate) fn note(&self, told: bool) {
        let failed = if told { 0.0 } else { 1.0 };
        let failing = self.failing.get();
        self.failing.set(failing + (failed - failing) * WEIGHT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_that_keep_failing_give_way_to_calls_and_come_back() {
        let policy = Policy::new(PolicyOptions::default());
        let lookups = |count: u32, told: bool| {
            let read = (0..count).filter(|_| {
                let reads = policy.reads_next();
                if reads {
                    policy.note(told);
                }
                reads
            });
            read.count() as u32
        };
        assert_eq!(lookups(100, true), 100);
        assert!(lookups(1000, false) < 100, "mostly calls");
        assert!(!policy.prefers_reads());
        lookups(2000, true);
        assert_eq!(lookups(100, true), 100);
        let always_call = PolicyOptions {
            read_cost: 1.0,
            call_cost: 1.0,
            ..PolicyOptions::default()
        };
        assert!(!Policy::new(always_call).prefers_reads());
    }
}
