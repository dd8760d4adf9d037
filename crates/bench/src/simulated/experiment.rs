//! Lookups in a table, from its first to its last.

use super::clients::ClientThreads;
use super::lookups::{Answer, Ask, Lookups};
use super::measured::Measured;
use super::records::Records;
use super::table::SimulatedTable;
use crate::{BenchError, Result};
use farslot::fabric::Nanos;
use farslot::fabric::sim::World;
use std::cell::RefCell;
use std::rc::Rc;

/// Virtual time after which it is looked whether there were lookups enough.
const STEP: Nanos = 10_000;
/// Virtual time for any experiment: one that needs longer has come to a standstill.
const LONGEST: Nanos = 10_000_000_000;

/// How often each lookup under way must have been followed by another before clients have settled,
/// from their start on.
const SETTLING: u64 = 8;

/// How long an experiment is measured, once its clients have settled: when several times as many
/// lookups have ended as are under way. Where lookups differ much in length, the short ones of the
/// start would count too much.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunLimit {
    /// Until so many lookups have ended.
    Lookups(u64),
    /// So many nanoseconds of virtual time.
    Elapsed(Nanos),
}

/// What is looked up in which table, by how many at once.
#[derive(Clone)]
pub struct Experiment {
    /// The table.
    pub table: SimulatedTable,
    /// What is in it.
    pub records: Records,
    /// Which keys are looked up.
    pub ask: Ask,
    /// What a lookup returns.
    pub answer: Answer,
    /// Client threads, each with a queue pair.
    pub threads: usize,
    /// Lookups that each has under way.
    pub width: usize,
    /// Virtual time before it is measured, at least: [`WARM_UP`](super::WARM_UP), or more where
    /// clients learn.
    pub warm_up: Nanos,
    /// How long it is measured.
    pub until: RunLimit,
    /// What all chance derives from.
    pub seed: u64,
}

impl Experiment {
    /// Runs it in a world whose node 0 holds the table.
    ///
    /// # Errors
    /// [`BenchError::WrongAnswers`], [`BenchError::EndedEarly`], or what the table says.
    pub fn run(&self, world: World) -> Result<Measured> {
        let measured = Rc::new(RefCell::new(Measured::default()));
        let mut clients = ClientThreads::start(world, self.threads, self.seed, |endpoint, seed| {
            let lookups = Lookups {
                table: self.table.clone(),
                records: self.records.clone(),
                ask: self.ask.clone(),
                answer: self.answer,
                width: self.width,
                seed,
                measured: Rc::clone(&measured),
            };
            lookups.run(endpoint)
        });
        clients.run_until(self.warm_up)?;
        let settling = SETTLING * (self.threads * self.width) as u64;
        let settled =
            self.warm_up + run_until_ended(&mut clients, self.warm_up, settling, &measured)?;
        measured.borrow_mut().begin();
        let before = clients.counted();
        let span = match self.until {
            RunLimit::Elapsed(span) => {
                clients.run_until(settled + span)?;
                span
            }
            RunLimit::Lookups(enough) => run_until_ended(&mut clients, settled, enough, &measured)?,
        };
        let mut measured = measured.take();
        measured.span = span;
        measured.counted = clients.counted().since(&before);
        Ok(measured)
    }
}

/// Lets clients run on from a time until so many lookups have ended; returns how long that took.
fn run_until_ended(
    clients: &mut ClientThreads,
    from: Nanos,
    enough: u64,
    measured: &RefCell<Measured>,
) -> Result<Nanos> {
    let mut span = 0;
    while measured.borrow().lookups < enough {
        if span >= LONGEST {
            return Err(BenchError::EndedEarly {
                end: "no more lookups ended".into(),
            });
        }
        span += STEP;
        clients.run_until(from + span)?;
    }
    Ok(span)
}
