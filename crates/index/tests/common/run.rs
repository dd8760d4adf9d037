//! One simulated run of a table's clients: what they share, how it ends, and the judge of it.

use super::Slot;
use super::chaos::{Caller, Failure, Record, Tally, limits};
use farslot_check::{RegisterMap, Summary, check};
use farslot_fabric::sim::{ClientId, FaultPlan, RunEnd, SimEndpoint, Simulation, World};
use farslot_fabric::{Endpoint, EndpointExt, Executor, Nanos, VerbKind};
use farslot_index::Index;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::cell::Cell;
use std::rc::Rc;

/// No client of a run needs longer, in virtual time.
pub const LONGEST_RUN: Nanos = 10_000_000_000;

/// The history of a run, and what is counted of it; its clients have clones.
#[derive(Clone)]
pub struct Run {
    pub slot: Slot,
    pub seed: u64,
    pub record: Record,
    pub tally: Rc<Cell<Tally>>,
    /// Whether the table evicts.
    pub forgets: bool,
}

impl Run {
    pub fn new(slot: Slot, seed: u64) -> Self {
        Self {
            slot,
            seed,
            record: Record::new(),
            tally: Rc::default(),
            forgets: false,
        }
    }

    /// One coroutine's way to a table; `client` is its number in the history.
    pub fn caller<'t, T: ?Sized>(&'t self, table: &'t T, client: u32) -> Caller<'t, T> {
        Caller {
            table,
            slot: self.slot,
            record: &self.record,
            tally: &self.tally,
            client,
        }
    }

    /// Adds to what is counted.
    pub fn count(&self, add: impl FnOnce(&mut Tally)) {
        let mut tally = self.tally.get();
        add(&mut tally);
        self.tally.set(tally);
    }

    /// Runs the simulation to its end, and counts what became of these clients.
    pub fn finish(&self, simulation: &mut Simulation, clients: &[ClientId]) {
        self.finish_within(LONGEST_RUN, simulation, clients);
    }

    /// The same where clients may need that long, in virtual time.
    pub fn finish_within(&self, span: Nanos, simulation: &mut Simulation, clients: &[ClientId]) {
        let end = simulation.run_until(span);
        let Self { slot, seed, .. } = self;
        assert_eq!(end, RunEnd::Done, "{} {seed}: a client waits", slot.name);
        for client in clients {
            let endpoint = simulation.endpoint(*client);
            let counters = endpoint.core().counters.snapshot();
            let mut classes = counters.operations.iter();
            self.count(|tally| {
                tally.stopped += u64::from(endpoint.is_stopped());
                tally.gathers += counters.verbs_of(VerbKind::ReadMany);
                tally.laborious += u64::from(classes.any(|class| class.most_round_trips > 12));
            });
        }
    }

    /// What the run has come to, unless no order of its operations explains it.
    pub fn judge(&self, world: &World) -> Result<(Tally, Summary), Box<Failure>> {
        let tally = Tally {
            runs: 1,
            digest: world.digest(),
            ..self.tally.get()
        };
        let model = match self.forgets {
            true => RegisterMap::new().that_forgets(),
            false => RegisterMap::new(),
        };
        match check(&self.record.take(), &model) {
            Ok(summary) => Ok((tally, summary)),
            Err(error) => Err(Box::new(Failure {
                seed: self.seed,
                slot: self.slot.name,
                error,
            })),
        }
    }

    /// What the run has come to; panics if no order of its operations explains it.
    pub fn judged(&self, world: &World) -> Tally {
        match self.judge(world) {
            Ok((tally, _)) => tally,
            Err(failure) => panic!("{}", failure.error),
        }
    }
}

/// When all faults are over, and no verb is under way, a client that knows nothing looks around.
pub fn look_around(world: &World, look: impl AsyncFnOnce(Rc<SimEndpoint>)) {
    look_around_after(1_000_000, world, look);
}

/// When all faults are over, a client that knows nothing looks around after so long.
pub fn look_around_after(span: Nanos, world: &World, look: impl AsyncFnOnce(Rc<SimEndpoint>)) {
    world.set_faults(FaultPlan::default());
    world.advance_to(world.now() + span);
    let endpoint = world.endpoint(limits());
    Executor::new(Rc::clone(&endpoint)).block_on(look(endpoint));
}

/// Awaits an operation, or drops it after `span`, and returns whether it has ended. One that was
/// dropped stays in the history without an end: its coroutine is to stop, for the next operation
/// would be another client's.
pub async fn within(
    endpoint: &Rc<impl Endpoint>,
    span: Option<Nanos>,
    operation: impl Future<Output = ()>,
) -> bool {
    match span {
        Some(span) => endpoint.timeout(span, operation).await.is_ok(),
        None => {
            operation.await;
            true
        }
    }
}

/// What a coroutine does: so many operations, one after the other.
pub struct Turns {
    pub operations: u32,
    /// The longest pause before an operation.
    pub pause: Nanos,
    /// Whether some are dropped before they have ended.
    pub some_are_dropped: bool,
}

impl Turns {
    /// Does them. Each is given a number that no other of the run has, 1 or more: so no two write
    /// the same value. One that was dropped is the coroutine's last, as [`within`] says.
    pub async fn take<T: Index>(
        &self,
        caller: &Caller<'_, T>,
        endpoint: &Rc<impl Endpoint>,
        rng: &mut ChaCha8Rng,
        mut operation: impl AsyncFnMut(u64, &mut ChaCha8Rng),
    ) {
        for turn in 0..self.operations {
            if self.pause > 0 {
                endpoint.sleep(rng.random_range(0..=self.pause)).await;
            }
            let number = u64::from(caller.client * 64 + turn) + 1;
            let span = caller.span(turn, self.some_are_dropped);
            if !within(endpoint, span, operation(number, rng)).await {
                return;
            }
        }
    }
}

/// Does something when it is dropped: also where the client whose coroutine holds it is stopped.
pub struct AtEnd<F: FnMut()>(pub F);

impl<F: FnMut()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
