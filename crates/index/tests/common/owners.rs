//! Clients that own a table one after the other: each takes it over from one that has resigned, or
//! was stopped anywhere.

use super::run::AtEnd;
use farslot_fabric::sim::{ClientId, HostId, SimEndpoint, Simulation};
use farslot_fabric::{EndpointExt, Limits};
use farslot_index::duo::DuoTable;
use farslot_index::{Index, IndexError, Result};
use farslot_testbed::AnyEndpoint;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::Cell;
use std::rc::Rc;

/// A table that one client at a time owns.
pub trait Owned: Index + 'static {
    /// Becomes the owner in place of one that is gone.
    async fn take_over(&self) -> Result<()>;
    /// Is the owner no longer.
    async fn resign(&self) -> Result<()>;
}

impl Owned for DuoTable<AnyEndpoint> {
    async fn take_over(&self) -> Result<()> {
        Self::take_over(self).await
    }

    async fn resign(&self) -> Result<()> {
        Self::resign(self).await
    }
}

/// Owners of a table, one after the other; clones are the same ones.
#[derive(Clone)]
pub struct Owners {
    count: u32,
    /// Of each.
    threads: u32,
    /// The owner whose turn it is.
    turn: Rc<Cell<u32>>,
}

impl Owners {
    pub fn new(count: u32) -> Self {
        Self {
            count,
            threads: 1,
            turn: Rc::default(),
        }
    }

    /// Each of so many threads, which share what it is.
    pub fn of_threads(self, threads: u32) -> Self {
        Self { threads, ..self }
    }

    /// Whether the last one has resigned, or was stopped.
    pub fn are_gone(&self) -> bool {
        self.turn.get() >= self.count
    }

    /// Adds them to a simulation. Each has a client of its own, and a number from 0 on; it opens
    /// the table, waits for its turn, takes the table over, works, and resigns.
    pub fn spawn<T: Owned>(
        &self,
        simulation: &mut Simulation,
        limits: Limits,
        rng: &mut ChaCha8Rng,
        open: impl Fn(Rc<SimEndpoint>) -> T + 'static,
        work: impl AsyncFn(&T, u32, ChaCha8Rng) + 'static,
    ) -> Vec<ClientId> {
        assert_eq!(self.threads, 1, "threads share something");
        let open = move |(): &(), endpoint| open(endpoint);
        let work = async move |table: &T, number, _, rng| work(table, number, rng).await;
        self.spawn_threads(simulation, limits, rng, || (), open, work)
    }

    /// The same where each owner has threads, with a client each: all take the table over and work,
    /// and the last one that is left resigns. If that one is stopped, or the others are, the next
    /// owner has the turn as well.
    pub fn spawn_threads<S: 'static, T: Owned>(
        &self,
        simulation: &mut Simulation,
        limits: Limits,
        rng: &mut ChaCha8Rng,
        share: impl Fn() -> S,
        open: impl Fn(&S, Rc<SimEndpoint>) -> T + 'static,
        work: impl AsyncFn(&T, u32, u32, ChaCha8Rng) + 'static,
    ) -> Vec<ClientId> {
        let own = Rc::new((open, work));
        let mut clients = Vec::new();
        for number in 0..self.count {
            let shared = Rc::new((share(), Cell::new(self.threads)));
            for thread in 0..self.threads {
                let client = simulation.add_client(HostId(0), limits);
                let (owners, own, shared) = (self.clone(), Rc::clone(&own), Rc::clone(&shared));
                let rng = ChaCha8Rng::seed_from_u64(rng.random());
                simulation.spawn(client, async move |endpoint| {
                    let ((open, work), (share, left)) = (&*own, &*shared);
                    let table = open(share, Rc::clone(&endpoint));
                    let next = owners.turn.clone();
                    let _over = AtEnd(|| {
                        left.set(left.get() - 1);
                        if left.get() == 0 {
                            next.set(next.get().max(number + 1));
                        }
                    });
                    while owners.turn.get() < number {
                        endpoint.sleep(500).await;
                    }
                    take_over(&table).await;
                    work(&table, number, thread, rng).await;
                    if left.get() > 1 {
                        return;
                    }
                    while let Err(error) = table.resign().await {
                        assert!(error.may_have_taken_effect(), "resign: {error}");
                    }
                });
                clients.push(client);
            }
        }
        clients
    }
}

/// Takes the table over, however often that takes.
async fn take_over(table: &impl Owned) {
    while let Err(error) = table.take_over().await {
        // A claim of the one before may have been under way when it was stopped.
        let late = matches!(error, IndexError::WriterBusy { .. });
        assert!(late || error.may_have_taken_effect(), "take over: {error}");
    }
}
