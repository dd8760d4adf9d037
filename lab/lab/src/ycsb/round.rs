//! One round of one system: its clients, side by side, for as long as the plan says.

use super::record::Records;
use super::system::{Client, Request, RoundTrips, WorkloadSystem};
use super::workload::{Batch, Generator};
use crate::{Result, threads};
use farslot_bench::Answers;
use farslot_bench::process;
use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Records of the batches that are drawn together, before the clock runs.
const DRAWN_TOGETHER: usize = 1 << 14;
/// Records of a batch of the load.
const LOADED_TOGETHER: u64 = 128;

/// What a round is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// What is written and read.
    pub records: Records,
    /// Records under way at once, of each client.
    pub width: usize,
    /// How long each client is timed.
    pub time: Duration,
    /// Records that a client may insert.
    pub inserts: u64,
    /// Whether reads are of scans.
    pub is_scan: bool,
}

/// A client from round to round.
#[derive(Clone, Debug)]
pub(super) struct YcsbClient {
    pub generator: Generator,
    /// Values that it has written, for their versions.
    pub written: u64,
}

/// What a round gave.
pub(super) struct YcsbRound {
    pub operations: u64,
    pub operations_per_second: f64,
    /// Nanoseconds, of each operation.
    pub latency: Histogram<u64>,
    pub server_cpu_seconds: Option<f64>,
    pub client_cpu_seconds: f64,
    pub round_trips: Option<RoundTrips>,
}

/// Puts the records `0..count`.
pub(super) fn load(
    system: &dyn WorkloadSystem,
    records: &Records,
    count: u64,
    clients: usize,
) -> Result<()> {
    let next = AtomicU64::new(0);
    threads::on_each(clients, || {
        let mut client = system.connect()?;
        let mut request = Request::default();
        let mut answers = Answers::default();
        loop {
            let first = next.fetch_add(LOADED_TOGETHER, Ordering::Relaxed);
            if first >= count {
                return Ok(answers.check()?);
            }
            request.clear();
            for record in first..count.min(first + LOADED_TOGETHER) {
                request.writes.push(records.key(record));
                records.append_value(record, 0, &mut request.values);
            }
            let written = client.ask(&request, &mut |_, _| {})?;
            answers.see(written);
        }
    })
}

/// Runs a round: every client does its batches one after the other. Batches are drawn while no
/// clock runs; to make their values and to check those that come back is part of what is timed, for
/// all systems alike.
pub(super) fn run(
    system: &dyn WorkloadSystem,
    clients: &mut [YcsbClient],
    plan: &Plan,
) -> Result<YcsbRound> {
    let start = Barrier::new(clients.len());
    let cpu = || system.process().map(process::cpu_seconds).transpose();
    let before = cpu()?;
    let shares: Vec<Result<ClientShare>> = thread::scope(|scope| {
        let clients = clients.iter_mut().enumerate();
        let clients = clients.map(|(number, state)| {
            let start = &start;
            scope.spawn(move || Worker::work(system, number as u64, state, plan, start))
        });
        let clients: Vec<_> = clients.collect();
        let ends = clients.into_iter().map(|client| client.join());
        ends.map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let after = cpu()?;
    let mut round = YcsbRound {
        operations: 0,
        operations_per_second: 0.0,
        latency: histogram(),
        server_cpu_seconds: before.zip(after).map(|(before, after)| after - before),
        client_cpu_seconds: 0.0,
        round_trips: None,
    };
    for share in shares {
        round.add(share?);
    }
    Ok(round)
}

impl YcsbRound {
    fn add(&mut self, share: ClientShare) {
        self.operations += share.operations;
        self.operations_per_second += share.operations as f64 / share.time.as_secs_f64();
        // Both have the same bounds.
        self.latency += share.latency;
        self.client_cpu_seconds += share.cpu.as_secs_f64();
        if let Some(more) = share.round_trips {
            let all = self.round_trips.get_or_insert_default();
            all.records += more.records;
            all.round_trips += more.round_trips;
            all.cache_hits += more.cache_hits;
        }
    }
}

/// A client's part of a round.
struct ClientShare {
    operations: u64,
    time: Duration,
    cpu: Duration,
    latency: Histogram<u64>,
    round_trips: Option<RoundTrips>,
}

/// A client during a round.
struct Worker<'a> {
    client: Box<dyn Client>,
    /// Whether what it reads is to be checked.
    stores: bool,
    number: u64,
    plan: &'a Plan,
    request: Request,
    answers: Answers,
    share: ClientShare,
}

impl<'a> Worker<'a> {
    fn work(
        system: &dyn WorkloadSystem,
        number: u64,
        state: &mut YcsbClient,
        plan: &'a Plan,
        start: &Barrier,
    ) -> Result<ClientShare> {
        let client = system.connect();
        // All are here before any is told that one of them could not connect.
        start.wait();
        let mut worker = Self {
            client: client?,
            stores: system.stores(),
            number,
            plan,
            request: Request::default(),
            answers: Answers::default(),
            share: ClientShare {
                operations: 0,
                time: Duration::ZERO,
                cpu: Duration::ZERO,
                latency: histogram(),
                round_trips: None,
            },
        };
        let round_trips = worker.client.round_trips();
        let last_insert = state.generator.inserted() + plan.inserts;
        let mut batches = vec![Batch::default(); DRAWN_TOGETHER.div_ceil(plan.width)];
        let mut drawn = batches.len();
        // A client that may insert no more ends early.
        while worker.share.time < plan.time && drawn == batches.len() {
            drawn = 0;
            for batch in &mut batches {
                if state.generator.inserted() > last_insert {
                    break;
                }
                state.generator.fill(plan.width, batch);
                drawn += 1;
            }
            worker.timed(&batches[..drawn], &mut state.written)?;
        }
        worker.answers.check()?;
        worker.share.round_trips =
            worker
                .client
                .round_trips()
                .zip(round_trips)
                .map(|(after, before)| RoundTrips {
                    records: after.records - before.records,
                    round_trips: after.round_trips - before.round_trips,
                    cache_hits: after.cache_hits - before.cache_hits,
                });
        Ok(worker.share)
    }

    fn timed(&mut self, batches: &[Batch], written: &mut u64) -> Result<()> {
        let (cpu, since) = (thread_cpu(), Instant::now());
        let mut before = since;
        for batch in batches {
            self.batch(batch, written)?;
            let now = Instant::now();
            let latency = (now - before).as_nanos() as u64;
            self.share
                .latency
                .saturating_record_n(latency, batch.operations);
            self.share.operations += batch.operations;
            before = now;
        }
        self.share.time += before - since;
        self.share.cpu += thread_cpu().saturating_sub(cpu);
        Ok(())
    }

    /// Does a batch: what it reads and writes at once, then what it writes because of what it has
    /// read.
    fn batch(&mut self, batch: &Batch, written: &mut u64) -> Result<()> {
        let records = &self.plan.records;
        self.request.clear();
        self.request.is_scan = self.plan.is_scan;
        self.request
            .reads
            .extend(batch.reads.iter().map(|record| records.key(*record)));
        self.request.updates = batch.updates.len();
        self.write(&batch.updates, written);
        self.write(&batch.inserts, written);
        self.ask(&batch.reads)?;
        if !batch.rewrites.is_empty() {
            self.request.clear();
            self.request.updates = batch.rewrites.len();
            self.write(&batch.rewrites, written);
            self.ask(&[])?;
        }
        Ok(())
    }

    /// Adds a new value of each of these records to what is asked for.
    fn write(&mut self, numbers: &[u64], written: &mut u64) {
        let records = &self.plan.records;
        for record in numbers {
            *written += 1;
            let version = self.number << 48 | *written;
            self.request.writes.push(records.key(*record));
            records.append_value(*record, version, &mut self.request.values);
        }
    }

    /// Asks, and checks what is read.
    fn ask(&mut self, reads: &[u64]) -> Result<()> {
        if self.request.is_empty() {
            return Ok(());
        }
        let records = &self.plan.records;
        let (answers, stores) = (&mut self.answers, self.stores);
        let mut answered = 0;
        let written = self.client.ask(&self.request, &mut |number, value| {
            answered += 1;
            let right = match (reads.get(number), value) {
                (Some(record), Some(value)) => !stores || records.is_value_of(*record, value),
                _ => false,
            };
            answers.see(right);
        })?;
        // One for what was written, one for what was read: each read answered once.
        answers.see(written);
        answers.see(answered == reads.len());
        Ok(())
    }
}

/// Processor time of the calling thread.
fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}

/// A histogram of nanoseconds up to ten seconds, to three digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 10_000_000_000, 3).expect("these bounds are in order")
}
