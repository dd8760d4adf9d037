//! The measurement: who fills what when, and what is timed.

use super::draw::{self, InsertSpan, Mix};
use super::options::Options;
use super::ranks::Ranks;
use super::subject::{Answers, Limited, Subject};
use crate::median::median;
use crate::{BenchError, BenchRow, Progress, Result};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rustix::time::{ClockId, clock_gettime};

/// Elements that are inserted at once before a measurement.
const FILLED_TOGETHER: u64 = 1 << 16;

/// Measures a set beside the limit of the memory that it is in, and other sets. All ranks call
/// it, each with its own handles of the same sets in the same order, and all get the same rows.
/// `who` says what a rank is: a process or a thread.
///
/// # Errors
/// [`BenchError::BadOption`]; [`BenchError::WrongAnswers`]; what a set or the other ranks say.
pub fn measure(
    options: &Options,
    ranks: &mut dyn Ranks,
    set: &mut dyn Limited,
    rivals: &mut [&mut dyn Subject],
    worker: &str,
    progress: Progress<'_>,
) -> Result<Vec<BenchRow>> {
    options.check()?;
    let names = std::iter::once(set.name()).chain(rivals.iter().map(|other| other.name()));
    let mut samples = RunSamples::new(options, names.map(str::to_owned).collect());
    let mut random = ChaCha8Rng::seed_from_u64(options.seed);
    random.set_stream(ranks.rank() as u64);
    for repetition in 1..=options.repetitions {
        for (of_mix, mix) in options.mixes.iter().enumerate() {
            let of = options.repetitions;
            progress(&format!("repetition {repetition} of {of}, {mix}"));
            for number in 0..=rivals.len() {
                let mut filling = FillingSet {
                    options,
                    mix: *mix,
                    present: 0,
                };
                let subject = subject_of(number, set, rivals);
                subject.renew(ranks.rank())?;
                ranks.meet()?;
                subject.open()?;
                for (of_load, load) in options.loads.iter().enumerate() {
                    let subject = subject_of(number, set, rivals);
                    let (rate, full) = filling.measure(*load, ranks, subject, &mut random)?;
                    samples.add(of_mix, of_load, number, rate);
                    samples.refused(of_mix, of_load, number, full);
                    if number == 0 {
                        let swaps = filling.operations(*load).div_ceil(ranks.ranks() as u64);
                        let swap = set.swaps(swaps as usize, &mut random);
                        let limit = timed(ranks, swaps, swap)?;
                        samples.add(of_mix, of_load, rivals.len() + 1, limit);
                    }
                }
            }
        }
    }
    Ok(samples.rows(options, &counted(ranks.ranks(), worker), set.memory()))
}

/// The set, or one of the others.
fn subject_of<'s>(
    number: usize,
    set: &'s mut dyn Limited,
    rivals: &'s mut [&mut dyn Subject],
) -> &'s mut dyn Subject {
    match number.checked_sub(1) {
        None => set,
        Some(other) => rivals[other],
    }
}

pub(super) fn counted(ranks: usize, worker: &str) -> String {
    match ranks {
        1 => format!("1 {worker}"),
        _ if worker.ends_with('s') => format!("{ranks} {worker}es"),
        _ => format!("{ranks} {worker}s"),
    }
}

/// A set as it fills.
struct FillingSet<'o> {
    options: &'o Options,
    mix: Mix,
    /// Elements in it.
    present: u64,
}

impl FillingSet<'_> {
    fn span(&self, load: f64) -> InsertSpan {
        InsertSpan::up_to(load, self.options.slots)
    }

    fn operations(&self, load: f64) -> u64 {
        self.mix.operations(self.span(load).inserts)
    }

    /// Fills a set up to where the measurement begins, then times the find-or-puts of all ranks;
    /// returns how many a second there were, and how often the set had no bucket.
    fn measure(
        &mut self,
        load: f64,
        ranks: &mut dyn Ranks,
        subject: &mut dyn Subject,
        random: &mut ChaCha8Rng,
    ) -> Result<(f64, u64)> {
        let mut full = 0;
        let (seed, span) = (self.options.seed, self.span(load));
        let place = (ranks.rank() as u64, ranks.ranks() as u64);
        let share = draw::share(self.present..span.first, place);
        for first in share.clone().step_by(FILLED_TOGETHER as usize) {
            let some = first..share.end.min(first + FILLED_TOGETHER);
            let words: Vec<u64> = some.map(|number| draw::element(seed, number)).collect();
            let answers = subject.find_or_put_all(&words)?;
            expect(answers, words.len() as u64)?;
            full += answers.full;
        }
        let (words, new) = span.draw(self.mix, seed, place, random);
        ranks.meet()?;
        let mut answers = Answers::default();
        let rate = timed(ranks, words.len() as u64, || {
            answers = subject.find_or_put_all(&words)?;
            Ok(())
        })?;
        expect(answers, new)?;
        full += answers.full;
        self.present = span.first + span.inserts;
        let all = ranks.gather([full, 0, 0])?;
        Ok((rate, all.iter().map(|[full, ..]| full).sum()))
    }
}

/// Checks what is said of words of which so many are new. One that was refused is refused again
/// where it is looked for.
pub(super) fn expect(answers: Answers, new: u64) -> Result<()> {
    let Answers { inserted, full } = answers;
    if (inserted..=inserted + full).contains(&new) {
        return Ok(());
    }
    Err(BenchError::WrongAnswers {
        wrong: inserted.abs_diff(new),
        operations: new,
    })
}

/// Runs `work` on all ranks at once, `operations` of this one; returns how many a second all of
/// them did together, from the first rank's start to the last one's end.
fn timed(ranks: &mut dyn Ranks, operations: u64, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    ranks.meet()?;
    let start = monotonic();
    work()?;
    let all = ranks.gather([operations, start, monotonic()])?;
    let operations: u64 = all.iter().map(|[operations, ..]| operations).sum();
    let start = all.iter().map(|[_, start, _]| *start).min();
    let end = all.iter().map(|[.., end]| *end).max();
    let nanoseconds = end.zip(start).map_or(1, |(end, start)| end - start);
    Ok(1e9 * operations as f64 / nanoseconds.max(1) as f64)
}

/// Nanoseconds of a clock that all processes of this host share.
fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Rates by mix, load and subject; behind the subjects the limit.
pub(super) struct RunSamples {
    names: Vec<String>,
    loads: usize,
    rates: Vec<Vec<f64>>,
    /// How often there was no bucket; the most of all repetitions.
    full: Vec<u64>,
}

impl RunSamples {
    pub(super) fn new(options: &Options, names: Vec<String>) -> Self {
        let (mixes, loads) = (options.mixes.len(), options.loads.len());
        Self {
            rates: vec![Vec::new(); mixes * loads * (names.len() + 1)],
            full: vec![0; mixes * loads * (names.len() + 1)],
            names,
            loads,
        }
    }

    fn place(&self, mix: usize, load: usize, subject: usize) -> usize {
        (mix * self.loads + load) * (self.names.len() + 1) + subject
    }

    pub(super) fn add(&mut self, mix: usize, load: usize, subject: usize, rate: f64) {
        let place = self.place(mix, load, subject);
        self.rates[place].push(rate);
    }

    pub(super) fn refused(&mut self, mix: usize, load: usize, subject: usize, full: u64) {
        let place = self.place(mix, load, subject);
        self.full[place] = self.full[place].max(full);
    }

    pub(super) fn rows(&self, options: &Options, ranks: &str, memory: &str) -> Vec<BenchRow> {
        let mut rows = Vec::new();
        for (of_mix, mix) in options.mixes.iter().enumerate() {
            for (of_load, load) in options.loads.iter().enumerate() {
                let of = |subject| {
                    let rates = &self.rates[self.place(of_mix, of_load, subject)];
                    median(rates.iter().copied())
                };
                let limit = of(self.names.len());
                let case = format!("{mix}, load {load}, {ranks}");
                for (subject, name) in self.names.iter().enumerate() {
                    let name = format!("{case}, {name}");
                    let full = self.full[self.place(of_mix, of_load, subject)];
                    let refused = format!("{name}, refused for want of a bucket");
                    let row = BenchRow::new(name, of(subject), "find-or-puts/s");
                    rows.push(row.limited_by(limit));
                    if full > 0 {
                        rows.push(BenchRow::new(refused, full as f64, "find-or-puts"));
                    }
                }
                let name = format!("{case}, compare-and-swap of {memory}");
                rows.push(BenchRow::new(name, limit, "swaps/s"));
            }
        }
        rows
    }
}
