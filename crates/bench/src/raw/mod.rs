//! Bare READs of one client thread through TCP, beside a plain echo of the same bytes.
//!
//! The node's agent has one thread and runs in this process, as the echo's server does, over loopback. The
//! echo does nothing but move bytes: its client sends as many as a doorbell of so many READs takes, its
//! server answers with as many as their completions do, both look for bytes without ever sleeping, and
//! neither looks at them. What the READs lose to it is the fabric's: encoding, checks, copies from memory at
//! random places, and the executor.
//!
//! Every figure is the median over repetitions, and within each repetition everything is measured once, one
//! after the other. Every READ's first word is checked.

mod echo;
mod reads;

use crate::{BenchError, BenchReport, BenchRow, Progress, Result};
use echo::Echo;
use hdrhistogram::Histogram;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use reads::Reads;

/// What the benchmark may vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of the memory that is read from, at random places.
    pub memory: u64,
    /// Bytes of a READ, a multiple of 8.
    pub read_bytes: usize,
    /// READs under way at once.
    pub outstanding: usize,
    /// Repetitions, of which the median counts.
    pub repetitions: usize,
    /// READs of one repetition, with so many under way.
    pub operations: usize,
    /// READs of one repetition that are timed one by one, with no other under way.
    pub single_reads: usize,
    /// What the places derive from.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory: 256 << 20,
            read_bytes: 64,
            outstanding: 64,
            repetitions: 7,
            operations: 1 << 21,
            single_reads: 1 << 15,
            seed: 0,
        }
    }
}

impl Options {
    fn check(&self) -> Result<()> {
        let bad =
            |option, value: usize, limit: &str| Err(BenchError::bad(option, value as u64, limit));
        if self.read_bytes == 0 || !self.read_bytes.is_multiple_of(8) || self.read_bytes > 1 << 20 {
            return bad("read bytes", self.read_bytes, "a multiple of 8 up to 1 MiB");
        }
        if !(1..=4096).contains(&self.outstanding) {
            return bad("outstanding", self.outstanding, "from 1 to 4096");
        }
        if self.memory < 1 << 20 || self.memory < self.read_bytes as u64 {
            return Err(BenchError::bad("memory", self.memory, "at least 1 MiB"));
        }
        for (option, value) in [
            ("repetitions", self.repetitions),
            ("operations", self.operations),
            ("single reads", self.single_reads),
        ] {
            if value == 0 {
                return bad(option, 0, "at least 1");
            }
        }
        Ok(())
    }
}

/// Measures READs and the echo in turns.
///
/// # Errors
/// [`BenchError::BadOption`]; what the fabric says; [`BenchError::WrongAnswers`].
pub fn run(options: &Options, progress: Progress<'_>) -> Result<BenchReport> {
    options.check()?;
    progress("filling the memory");
    let mut reads = Reads::start(options)?;
    let mut random = ChaCha8Rng::seed_from_u64(options.seed);
    let mut samples = Samples::default();
    let batches = options.operations.div_ceil(options.outstanding);
    let batch = Echo::of_reads(options.outstanding, options.read_bytes);
    let single = Echo::of_reads(1, options.read_bytes);
    for repetition in 1..=options.repetitions {
        progress(&format!(
            "repetition {repetition} of {}",
            options.repetitions
        ));
        let echoed = batch.rate(batches)?;
        samples.echo.push(echoed * options.outstanding as f64);
        samples.reads.push(reads.rate(options, &mut random)?);
        let mut latency = histogram();
        single.latency(options.single_reads, &mut latency)?;
        samples.echo_latency.push(quantiles(&latency));
        latency.reset();
        reads.latency(options, &mut random, &mut latency)?;
        samples.latency.push(quantiles(&latency));
    }
    Ok(BenchReport {
        bench: "raw",
        fabric: "TCP over loopback, one client thread and one agent thread".into(),
        rows: samples.rows(options),
    })
}

#[derive(Default)]
struct Samples {
    /// READs/s.
    reads: Vec<f64>,
    /// READs/s that the echo's batches stand for.
    echo: Vec<f64>,
    /// p50 and p99, in nanoseconds.
    latency: Vec<[f64; 2]>,
    echo_latency: Vec<[f64; 2]>,
}

impl Samples {
    fn rows(&self, options: &Options) -> Vec<BenchRow> {
        let size = options.read_bytes;
        let (reads, echo) = (median(self.reads.clone()), median(self.echo.clone()));
        let of = |samples: &[[f64; 2]], which: usize| {
            median(samples.iter().map(|sample| sample[which]).collect())
        };
        let many = options.outstanding;
        let mut rows = vec![
            BenchRow::new(
                format!("READs of {size} B, {many} outstanding"),
                reads,
                "READs/s",
            )
            .limited_by(echo),
            BenchRow::new(
                format!("echo of the bytes of {many} READs"),
                echo,
                "READs/s",
            ),
        ];
        for (which, name) in ["p50", "p99"].into_iter().enumerate() {
            let (ours, echo) = (of(&self.latency, which), of(&self.echo_latency, which));
            let read = format!("READ of {size} B, one outstanding, {name}");
            rows.push(BenchRow::new(read, ours, "ns").limited_by(echo));
            let echoed = format!("echo of the bytes of one READ, {name}");
            rows.push(BenchRow::new(echoed, echo, "ns"));
        }
        rows
    }
}

/// The value in the middle, the upper one of two.
fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A histogram of nanoseconds up to a second, to three digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 1_000_000_000, 3).expect("these bounds are in order")
}

fn quantiles(latency: &Histogram<u64>) -> [f64; 2] {
    [0.5, 0.99].map(|quantile| latency.value_at_quantile(quantile) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_there_beside_its_echo() {
        let options = Options {
            memory: 1 << 20,
            repetitions: 2,
            operations: 1 << 9,
            single_reads: 1 << 6,
            ..Options::default()
        };
        let report = run(&options, &|_| {}).unwrap();
        assert_eq!(report.rows.len(), 6);
        for pair in report.rows.chunks(2) {
            assert!(pair[0].value > 0.0 && pair[1].value > 0.0, "{pair:?}");
            assert_eq!(pair[0].limit, Some(pair[1].value));
        }
        let odd = Options {
            read_bytes: 12,
            ..options
        };
        assert!(run(&odd, &|_| {}).unwrap_err().is_usage());
    }
}
