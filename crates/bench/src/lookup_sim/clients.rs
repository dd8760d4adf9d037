//! Client threads in a simulation, each busy for ever, and how to measure them.

use crate::answers::Answers;
use crate::filling::{TABLE_AT, value_of};
use crate::paper000::CLIENT_THREADS;
use crate::{BenchError, Keys, Result};
use farslot::fabric::counters::Snapshot;
use farslot::fabric::sim::{ClientId, HostId, RunEnd, SimEndpoint, Simulation, World};
use farslot::fabric::{Endpoint, EndpointExt, Limits, Nanos, VerbKind, window};
use farslot::index::linear::{KeyRule, LinearLayout, LinearTable, ReadSizes};
use farslot::index::{GET, GET_ALL, Index};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::RefCell;
use std::iter;
use std::rc::Rc;

/// Virtual time before a measurement: the queues fill in a small part of it.
const WARM_UP: Nanos = 100_000;

/// What clients do in a second of virtual time, together.
pub(crate) struct Rates {
    /// Lookups.
    pub(crate) operations: f64,
    /// READs.
    pub(crate) reads: f64,
}

/// The client threads of one machine.
pub(crate) struct Clients {
    simulation: Simulation,
    ids: Vec<ClientId>,
    failed: Rc<RefCell<Option<BenchError>>>,
}

impl Clients {
    pub(crate) fn start<F>(
        world: World,
        seed: u64,
        client: impl Fn(Rc<SimEndpoint>, u64) -> F,
    ) -> Self
    where
        F: Future<Output = BenchError> + 'static,
    {
        let mut simulation = Simulation::new(world);
        let failed = Rc::new(RefCell::new(None));
        let ids = (0..CLIENT_THREADS as u64).map(|number| {
            let id = simulation.add_client(HostId(0), Limits::default());
            let failed = Rc::clone(&failed);
            let work = |endpoint| client(endpoint, seed.wrapping_add(number << 32));
            simulation.spawn(id, |endpoint| {
                let work = work(endpoint);
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

    /// Lets the clients warm up, then measures them.
    pub(crate) fn rates(self, span: Nanos) -> Result<Rates> {
        self.rates_after(WARM_UP, span)
    }

    /// The same with a warm-up of its own, which should be many times as long as a lookup takes: before
    /// that, those of few READs are over first and count too often.
    pub(crate) fn rates_after(mut self, warm_up: Nanos, span: Nanos) -> Result<Rates> {
        self.run_until(warm_up)?;
        let before = self.counted();
        self.run_until(warm_up + span)?;
        let counted = self.counted().since(&before);
        let seconds = span as f64 / 1e9;
        let operations = [GET, GET_ALL].map(|class| counted.operation(class).count);
        Ok(Rates {
            operations: operations.iter().sum::<u64>() as f64 / seconds,
            reads: reads_of(&counted) as f64 / seconds,
        })
    }

    fn run_until(&mut self, time: Nanos) -> Result<()> {
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

    fn counted(&self) -> Snapshot {
        let snapshots = self.ids.iter().map(|id| {
            let endpoint = self.simulation.endpoint(*id);
            endpoint.core().counters.snapshot()
        });
        snapshots.fold(Snapshot::default(), |sum, one| sum.plus(&one))
    }
}

/// READs that were posted; one that wraps around the table's end counts once.
fn reads_of(counted: &Snapshot) -> u64 {
    counted.verbs_of(VerbKind::Read) + counted.verbs_of(VerbKind::ReadMany)
}

/// One client thread's lookups.
pub(crate) struct LookingUp {
    pub(crate) layout: LinearLayout,
    pub(crate) sizes: ReadSizes,
    pub(crate) keys: Keys,
    pub(crate) records: u32,
    pub(crate) width: usize,
    pub(crate) seed: u64,
}

impl LookingUp {
    /// Looks up random keys for ever, or until an answer is wrong.
    pub(crate) async fn run(self, endpoint: Rc<SimEndpoint>) -> BenchError {
        let rule = self.layout.keys;
        let opening = LinearTable::open(endpoint, TABLE_AT, self.layout, self.sizes).await;
        let table = match opening {
            Ok(table) => table,
            Err(error) => return error.into(),
        };
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let failed = RefCell::new(None);
        let next = || {
            failed
                .borrow()
                .is_none()
                .then(|| random.random_range(0..self.records))
        };
        let lookups = iter::from_fn(next).map(|index| {
            let (key, table) = (self.keys.short(index), &table);
            async move { found(table, rule, &key, &value_of(index)).await }
        });
        window(self.width, lookups, |_, answer| {
            let mut answers = Answers::default();
            answers.note(answer);
            if let Err(error) = answers.check() {
                *failed.borrow_mut() = Some(error);
            }
        })
        .await;
        failed.take().expect("lookups end by an error only")
    }
}

/// Whether a lookup finds the one record that there is.
async fn found<E: Endpoint>(
    table: &LinearTable<E>,
    rule: KeyRule,
    key: &[u8],
    value: &[u8],
) -> farslot::index::Result<bool> {
    match rule {
        KeyRule::Unique => Ok(table.get(key).await?.as_deref() == Some(value)),
        KeyRule::Multi => {
            let mut right = false;
            let records = table.get_all(key, |found| right = found == value).await?;
            Ok(right && records == 1)
        }
    }
}

/// READs random words for ever, or until one fails.
pub(crate) async fn bare_reads(
    endpoint: Rc<SimEndpoint>,
    bytes: usize,
    last: u64,
    width: usize,
    seed: u64,
) -> BenchError {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let failed = RefCell::new(None);
    let next = || {
        failed
            .borrow()
            .is_none()
            .then(|| random.random_range(0..=last / 8) * 8)
    };
    let reads = iter::from_fn(next).map(|offset| endpoint.read(TABLE_AT.plus(offset), bytes));
    window(width, reads, |_, answer| {
        if let Err(error) = answer {
            *failed.borrow_mut() = Some(error.into());
        }
    })
    .await;
    failed.take().expect("READs end by an error only")
}
