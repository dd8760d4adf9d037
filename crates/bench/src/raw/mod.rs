//! Bare READs of one client thread, beside what their bytes take with nothing around them: over TCP
//! a plain echo, over shared memory plain loads.
//!
//! Over TCP the node's agent has one thread and runs in this process, as the echo's server does,
//! over loopback. The echo does nothing but move bytes: its client sends as many as a doorbell of
//! so many READs takes, its server answers with as many as their completions do, both look for
//! bytes without ever sleeping, and neither looks at them. What the READs lose to it is the
//! fabric's: encoding, checks, copies from memory at random places, and the executor.
//!
//! Under TLS the READs take the same way through a session of TLS 1.3, with the cipher that both
//! sides choose by themselves. The echo stays as it is, so what the READs lose to it is the price
//! of TLS as well.
//!
//! Over shared memory the loads are of the same lines through the same mapping, with the next ones
//! prefetched where READs are many. What the READs lose to them is the fabric's as well.
//!
//! Over verbs nothing is measured beside the READs: what a NIC can do bare, its maker's tools tell
//! (`ib_read_bw -s 64`, `ib_read_lat -s 64`). With Soft-RoCE every READ is the work of this
//! machine's processors.
//!
//! Every figure is the median over repetitions, and within each repetition everything is measured
//! once, one after the other. Every READ's first word is checked.

mod echo;
mod loads;
mod options;
mod reads;
mod secured;

use crate::median::median;
use crate::{BenchReport, BenchRow, Progress, Result};
use echo::Echoes;
use farslot::fabric::Endpoint;
use hdrhistogram::Histogram;
use loads::Loads;
use options::Ceiling;
pub use options::{Fabric, Options};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use reads::InFlightReads;

/// Measures READs and what they are held against in turns.
///
/// # Errors
/// [`BenchError::BadOption`](crate::BenchError::BadOption); what the fabric says;
/// [`BenchError::WrongAnswers`](crate::BenchError::WrongAnswers).
pub fn run(options: &Options, progress: Progress<'_>) -> Result<BenchReport> {
    options.check()?;
    progress("filling the memory");
    let (fabric, rows) = match options.fabric {
        Fabric::Tcp => {
            let reads = InFlightReads::over_tcp(options)?;
            let fabric = match options.tls {
                false => "TCP over loopback, one client thread and one agent thread",
                true => "TCP under TLS over loopback, one client thread and one agent thread",
            };
            (
                fabric.into(),
                measure(options, reads, Some(&Echoes), progress)?,
            )
        }
        Fabric::Shm => {
            let (reads, mapping) = InFlightReads::over_shm(options)?;
            let page = mapping.info().page_bytes >> 10;
            let fabric = format!("shared memory, one client thread, in pages of {page} KiB");
            let rows = measure(options, reads, Some(&Loads(mapping)), progress)?;
            (fabric, rows)
        }
        Fabric::Verbs => {
            let (reads, device) = InFlightReads::over_verbs(options)?;
            let fabric = format!("RDMA verbs through {device}, one client thread");
            (fabric, measure(options, reads, None, progress)?)
        }
    };
    Ok(BenchReport {
        bench: "raw",
        fabric,
        rows,
    })
}

fn measure<E: Endpoint, S>(
    options: &Options,
    mut reads: InFlightReads<E, S>,
    ceiling: Option<&dyn Ceiling>,
    progress: Progress<'_>,
) -> Result<Vec<BenchRow>> {
    let mut random = ChaCha8Rng::seed_from_u64(options.seed);
    let mut samples = RawSamples::default();
    for repetition in 1..=options.repetitions {
        let of = options.repetitions;
        progress(&format!("repetition {repetition} of {of}"));
        if let Some(ceiling) = ceiling {
            samples.limit.push(ceiling.rate(options, &mut random)?);
        }
        samples.reads.push(reads.rate(options, &mut random)?);
        let mut latency = histogram();
        if let Some(ceiling) = ceiling {
            ceiling.latency(options, &mut random, &mut latency)?;
            samples.limit_latency.push(quantiles(&latency));
            latency.reset();
        }
        reads.latency(options, &mut random, &mut latency)?;
        samples.latency.push(quantiles(&latency));
    }
    Ok(samples.rows(options, ceiling))
}

#[derive(Default)]
struct RawSamples {
    /// READs/s.
    reads: Vec<f64>,
    /// READs/s that the ceiling stands for.
    limit: Vec<f64>,
    /// p50 and p99, in nanoseconds.
    latency: Vec<[f64; 2]>,
    limit_latency: Vec<[f64; 2]>,
}

impl RawSamples {
    fn rows(&self, options: &Options, ceiling: Option<&dyn Ceiling>) -> Vec<BenchRow> {
        let size = options.read_bytes;
        let of =
            |samples: &[[f64; 2]], which: usize| median(samples.iter().map(|sample| sample[which]));
        let mut rows = Vec::new();
        let mut add = |row: BenchRow, limit: Option<(String, f64)>| match limit {
            None => rows.push(row),
            Some((figure, limit)) => {
                let unit = row.unit;
                rows.push(row.limited_by(limit));
                rows.push(BenchRow::new(figure, limit, unit));
            }
        };
        let many = format!("READs of {size} B, {} outstanding", options.outstanding);
        let reads = BenchRow::new(many, median(self.reads.iter().copied()), "READs/s");
        let limit =
            ceiling.map(|ceiling| (ceiling.many(options), median(self.limit.iter().copied())));
        add(reads, limit);
        for (which, name) in ["p50", "p99"].into_iter().enumerate() {
            let read = format!("READ of {size} B, one outstanding, {name}");
            let read = BenchRow::new(read, of(&self.latency, which), "ns");
            let limit = ceiling.map(|ceiling| {
                let one = ceiling.one(options);
                (format!("{one}, {name}"), of(&self.limit_latency, which))
            });
            add(read, limit);
        }
        rows
    }
}

/// A histogram of nanoseconds up to a second, to three digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 1_000_000_000, 3).expect("these bounds are in order")
}

fn quantiles(latency: &Histogram<u64>) -> [f64; 2] {
    [0.5, 0.99].map(|quantile| latency.value_at_quantile(quantile) as f64)
}
