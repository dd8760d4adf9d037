//! Whether a lookup begins with a READ, or with the call that must follow a READ which does not
//! tell.

use std::cell::Cell;

/// What a call costs, and how often a client that calls tries a READ.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PolicyOptions {
    /// What a call costs, in READs; `None` is what the fabric says
    /// ([`Endpoint::call_cost`](farslot_fabric::Endpoint::call_cost)). At 1 or less all lookups
    /// call, but for probes; at infinity none does at once.
    pub call_cost: Option<f64>,
    /// One of so many lookups is a READ while calls are chosen.
    pub probe_every: u32,
}

impl Default for PolicyOptions {
    fn default() -> Self {
        Self {
            call_cost: None,
            probe_every: 64,
        }
    }
}

impl PolicyOptions {
    /// All lookups READ first, as in paper 003's algorithm 1.
    pub const READS: Self = Self {
        call_cost: Some(f64::INFINITY),
        probe_every: u32::MAX,
    };
    /// All lookups call.
    pub const CALLS: Self = Self {
        call_cost: Some(0.0),
        probe_every: u32::MAX,
    };
}

/// Chooses between a READ first and a call at once (paper 003, section 4, principle 4).
///
/// In calls, a lookup that READs first costs `read + f`, where `f` is the share of READs that do
/// not tell; one that calls at once costs 1. The share is a moving average over some 128 READs that
/// starts at 0. The choice changes where the other one saves 2 % at least, so that neither chance
/// nor costs that are nearly equal make it change to and fro.
#[derive(Debug)]
pub struct Policy {
    /// What a READ costs, in calls.
    read: f64,
    probe_every: u32,
    failing: Cell<f64>,
    reads: Cell<bool>,
    since_probe: Cell<u32>,
}

/// How much the newest READ counts in the average.
const WEIGHT: f64 = 1.0 / 128.0;
/// What a change of the choice must save, in calls a lookup.
const MARGIN: f64 = 0.02;

impl Policy {
    /// A policy that has seen nothing yet, where a call costs so many READs unless the options say
    /// otherwise.
    #[must_use]
    pub fn new(options: PolicyOptions, call_cost: f64) -> Self {
        let read = 1.0 / options.call_cost.unwrap_or(call_cost);
        Self {
            read,
            probe_every: options.probe_every,
            failing: Cell::new(0.0),
            reads: Cell::new(read < 1.0),
            since_probe: Cell::new(0),
        }
    }

    /// Whether READs pay at present.
    #[must_use]
    pub fn prefers_reads(&self) -> bool {
        self.reads.get()
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
        let probes = since >= self.probe_every;
        self.since_probe.set(if probes { 0 } else { since });
        probes
    }

    /// Notes whether a READ told.
    pub(crate) fn note(&self, answered: bool) {
        let failed = if answered { 0.0 } else { 1.0 };
        let failing = self.failing.get();
        let failing = failing + (failed - failing) * WEIGHT;
        self.failing.set(failing);
        let saved = 1.0 - (self.read + failing);
        if saved.abs() > MARGIN {
            self.reads.set(saved > 0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of so many lookups begin with a READ.
    fn reads(policy: &Policy, lookups: u32, answered: impl Fn(u32) -> bool) -> u32 {
        let read = (0..lookups).filter(|lookup| {
            let reads = policy.reads_next();
            if reads {
                policy.note(answered(*lookup));
            }
            reads
        });
        read.count() as u32
    }

    #[test]
    fn reads_that_keep_failing_give_way_to_calls_and_come_back() {
        let policy = Policy::new(PolicyOptions::default(), 2.0);
        assert_eq!(reads(&policy, 100, |_| true), 100);
        assert!(reads(&policy, 4000, |_| false) < 250, "mostly calls");
        assert!(!policy.prefers_reads());
        reads(&policy, 8000, |_| true);
        assert_eq!(reads(&policy, 100, |_| true), 100);
    }

    #[test]
    fn what_a_call_costs_decides() {
        // Of 10 READs 4 do not tell.
        let answered = |lookup: u32| lookup % 10 >= 4;
        for (call_cost, pay) in [
            (0.0, false),
            (1.0, false),
            (1.4, false),
            (2.0, true),
            (20.0, true),
        ] {
            let policy = Policy::new(PolicyOptions::default(), call_cost);
            reads(&policy, 1000, answered);
            assert_eq!(policy.prefers_reads(), pay, "{call_cost}");
        }
        let calls = Policy::new(PolicyOptions::CALLS, 2.0);
        assert_eq!(reads(&calls, 1000, |_| true), 0);
        let first = Policy::new(PolicyOptions::READS, 2.0);
        assert_eq!(reads(&first, 1000, |_| false), 1000);
    }
}
