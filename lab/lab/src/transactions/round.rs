//! What a round of a system gives.

use super::workload::{Call, Outcome, Workload};
use farslot::fabric::OperationClass;
use farslot::fabric::counters::CounterSnapshot;
use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The class that an endpoint counts transactions under.
pub(super) const TRANSACTION: OperationClass = OperationClass(0);

/// Transactions of a kind.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct CommitTally {
    pub attempted: u64,
    pub committed: u64,
}

/// What one client thread did in a round, or all together.
#[derive(Clone, Debug)]
pub(super) struct RoundTotals {
    /// By kind.
    pub tallies: Vec<CommitTally>,
    /// Nanoseconds.
    pub latency: Histogram<u64>,
    /// Times that a transaction met another one and was run again.
    pub conflicts: u64,
    /// By how much the total has changed.
    pub change: i64,
    /// Transactions that came to what they cannot come to.
    pub wrong: u64,
    /// Nanoseconds that it took.
    pub time: u64,
    pub cpu: Duration,
    /// What Farslot's clients have posted.
    pub posted: CounterSnapshot,
}

impl RoundTotals {
    pub(super) fn new(workload: &dyn Workload) -> Self {
        Self {
            tallies: vec![CommitTally::default(); workload.kinds().len()],
            latency: Histogram::new_with_bounds(1, 10_000_000_000, 3)
                .expect("these bounds are in order"),
            conflicts: 0,
            change: 0,
            wrong: 0,
            time: 0,
            cpu: Duration::ZERO,
            posted: CounterSnapshot::default(),
        }
    }

    pub(super) fn note(
        &mut self,
        workload: &dyn Workload,
        call: &Call,
        outcome: Outcome,
        latency: u64,
    ) {
        let tally = &mut self.tallies[call.kind];
        tally.attempted += 1;
        tally.committed += u64::from(outcome.is_some());
        self.change += workload.change(call, outcome);
        self.wrong += u64::from(!workload.is_right(call, outcome));
        self.latency.saturating_record(latency);
    }

    pub(super) fn attempted(&self) -> u64 {
        self.tallies.iter().map(|tally| tally.attempted).sum()
    }

    pub(super) fn committed(&self) -> u64 {
        self.tallies.iter().map(|tally| tally.committed).sum()
    }
}

/// A round of a system.
pub(super) struct TransactionRound {
    pub attempted_per_second: f64,
    pub committed_per_second: f64,
    pub server_cpu_seconds: Option<f64>,
    /// All threads together.
    pub all: RoundTotals,
}

impl TransactionRound {
    pub(super) fn of(
        workload: &dyn Workload,
        shares: Vec<RoundTotals>,
        server_cpu_seconds: Option<f64>,
    ) -> Self {
        let mut round = Self {
            attempted_per_second: 0.0,
            committed_per_second: 0.0,
            server_cpu_seconds,
            all: RoundTotals::new(workload),
        };
        for share in shares {
            let seconds = share.time.max(1) as f64 / 1e9;
            round.attempted_per_second += share.attempted() as f64 / seconds;
            round.committed_per_second += share.committed() as f64 / seconds;
            let all = &mut round.all;
            for (all, own) in all.tallies.iter_mut().zip(&share.tallies) {
                all.attempted += own.attempted;
                all.committed += own.committed;
            }
            all.latency += share.latency;
            all.conflicts += share.conflicts;
            all.change += share.change;
            all.wrong += share.wrong;
            all.cpu += share.cpu;
            all.posted = all.posted.plus(&share.posted);
        }
        round
    }
}

/// Processor time of the calling thread.
pub(super) fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}
