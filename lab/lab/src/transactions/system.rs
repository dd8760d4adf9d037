//! What a system is to the measurement.

use super::round::{RoundTotals, TransactionRound, thread_cpu};
use super::workload::{Call, Outcome, Workload, WorkloadClient};
use crate::Result;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// How long and how wide a round is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// How long each client thread draws transactions.
    pub time: Duration,
    /// Transactions under way at once, of each client thread.
    pub width: usize,
}

/// A system under measurement, as it is served.
pub(super) trait TransactionSystem {
    fn name(&self) -> &'static str;

    fn version(&self) -> String;

    /// Puts all rows of a workload.
    fn load(&self, workload: &dyn Workload) -> Result<()>;

    /// Runs transactions, by as many client threads as there are states.
    fn round(
        &self,
        workload: &dyn Workload,
        clients: &mut [WorkloadClient],
        plan: Plan,
    ) -> Result<TransactionRound>;

    /// The workload's total as it is now.
    fn total(&self, workload: &dyn Workload) -> Result<i64>;
}

/// One thread's connection to a system that takes transactions one after the other, many at a time.
pub(super) trait Pipelined {
    /// Runs transactions; returns how often one was run again because of another.
    fn run(&mut self, calls: &[Call], outcomes: &mut Vec<Outcome>) -> Result<u64>;
}

/// A round of a system whose clients send batches: each transaction's latency is its batch's.
pub(super) fn batches<C: Pipelined>(
    workload: &dyn Workload,
    clients: &mut [WorkloadClient],
    plan: Plan,
    connect: impl Fn() -> Result<C> + Sync,
    server_cpu: impl Fn() -> Result<Option<f64>>,
) -> Result<TransactionRound> {
    let start = Barrier::new(clients.len() + 1);
    let work = |state: &mut WorkloadClient| -> Result<RoundTotals> {
        let client = connect();
        // All are here before any is told that one of them could not connect.
        start.wait();
        let mut client = client?;
        let mut share = RoundTotals::new(workload);
        let (mut calls, mut outcomes) = (Vec::new(), Vec::new());
        let (cpu, since) = (thread_cpu(), Instant::now());
        let mut before = since;
        while before - since < plan.time {
            calls.clear();
            calls.extend((0..plan.width).map(|_| workload.draw(state)));
            outcomes.clear();
            share.conflicts += client.run(&calls, &mut outcomes)?;
            let now = Instant::now();
            let latency = (now - before).as_nanos() as u64;
            for (call, outcome) in calls.iter().zip(&outcomes) {
                share.note(workload, call, *outcome, latency);
            }
            before = now;
        }
        share.time = (before - since).as_nanos() as u64;
        share.cpu = thread_cpu().saturating_sub(cpu);
        Ok(share)
    };
    let before = server_cpu()?;
    let shares = thread::scope(|scope| {
        let work = &work;
        let threads = clients.iter_mut();
        let threads: Vec<_> = threads
            .map(|state| scope.spawn(move || work(state)))
            .collect();
        start.wait();
        let ends = threads.into_iter().map(|thread| thread.join());
        ends.map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Result<Vec<_>>>()
    })?;
    let used = before
        .zip(server_cpu()?)
        .map(|(before, after)| after - before);
    Ok(TransactionRound::of(workload, shares, used))
}
