//! Client threads in a simulation, each busy for ever.

use crate::{BenchError, Result};
use farslot::fabric::counters::CounterSnapshot;
use farslot::fabric::sim::{ClientId, HostId, RunEnd, SimEndpoint, Simulation, World};
use farslot::fabric::{Endpoint, Limits, Nanos, VerbKind};
use std::cell::RefCell;
use std::rc::Rc;

/// Virtual time before a measurement: the queues fill in a small part of it.
pub const WARM_UP: Nanos = 100_000;

/// Client threads of one machine, each with one queue pair: as many as in paper 000, section 5.1.
pub const CLIENT_THREADS: usize = 28;

/// The client threads of one machine, and the world that they run in.
pub struct ClientThreads {
    simulation: Simulation,
    ids: Vec<ClientId>,
    failed: Rc<RefCell<Option<BenchError>>>,
}

impl ClientThreads {
    /// Starts so many threads. `work` makes what one does, from its endpoint and a seed of its own;
    /// it only ever ends by an error.
    pub fn start<F>(
        world: World,
        threads: usize,
        seed: u64,
        work: impl Fn(Rc<SimEndpoint>, u64) -> F,
    ) -> Self
    where
        F: Future<Output = BenchError> + 'static,
    {
        let mut simulation = Simulation::new(world);
        let failed = Rc::new(RefCell::new(None));
        let ids = (0..threads as u64).map(|number| {
            let id = simulation.add_client(HostId(0), Limits::default());
            let failed = Rc::clone(&failed);
            simulation.spawn(id, |endpoint| {
                let work = work(endpoint, seed.wrapping_add(number << 32));
                async move { *failed.borrow_mut() = Some(work.await) }
            });
            id
        });
        let ids = ids.collect();
        Self {
            simulation,
            ids,
            failed,
        }
    }

    /// Lets the virtual clock reach a time.
    ///
    /// # Errors
    /// That of a client that failed; [`BenchError::EndedEarly`] where nothing can happen any more.
    pub fn run_until(&mut self, time: Nanos) -> Result<()> {
        let end = self.simulation.run_until(time);
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        match end {
            RunEnd::TimeLimit => Ok(()),
            end => Err(BenchError::EndedEarly {
                end: format!("{end:?}"),
            }),
        }
    }

    /// READs that the clients have posted so far.
    #[must_use]
    pub fn reads_posted(&self) -> u64 {
        self.counted().verbs_of(VerbKind::Read)
    }

    /// What the clients' endpoints have counted so far, together.
    #[must_use]
    pub fn counted(&self) -> CounterSnapshot {
        let counters = self.ids.iter().map(|id| {
            let endpoint = self.simulation.endpoint(*id);
            endpoint.core().counters.snapshot()
        });
        counters.fold(CounterSnapshot::default(), |sum, one| sum.plus(&one))
    }
}
