//! Readers beside the owners of a CuckooDuo table, whose lookups are part of the history.

use super::TABLE;
use super::from_sim;
use super::owners::Owners;
use super::run::Run;
use farslot_check::{TableOp, TableRet};
use farslot_fabric::sim::{HostId, Simulation};
use farslot_fabric::{Endpoint, EndpointExt, Limits, Nanos};
use farslot_index::IndexError;
use farslot_index::duo::{DuoLayout, DuoReader};
use farslot_testbed::AnyEndpoint;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Readers of a run.
#[derive(Clone)]
pub struct Beside {
    pub run: Run,
    pub owners: Owners,
    pub layout: DuoLayout,
    pub keys: u64,
    /// The longest pause between two lookups.
    pub pause: Nanos,
}

impl Beside {
    /// Adds so many to a simulation, each a client of its own. They look keys up until the last
    /// owner is gone.
    pub fn spawn(
        &self,
        simulation: &mut Simulation,
        readers: u32,
        limits: Limits,
        rng: &mut ChaCha8Rng,
    ) {
        for number in 0..readers {
            let client = simulation.add_client(HostId(number % 2), limits);
            let (beside, rng) = (self.clone(), ChaCha8Rng::seed_from_u64(rng.random()));
            simulation.spawn(client, async move |endpoint| {
                let reader =
                    DuoReader::open(from_sim(endpoint), TABLE, beside.layout.clone()).unwrap();
                beside.look_up(&reader, 500 + number, rng).await;
            });
        }
    }

    /// Looks keys up, and refreshes the copy of the index now and then.
    async fn look_up(&self, reader: &DuoReader<AnyEndpoint>, client: u32, mut rng: ChaCha8Rng) {
        while !self.owners.are_gone() {
            let pause = rng.random_range(0..=self.pause);
            reader.endpoint().sleep(pause).await;
            if rng.random_bool(0.05) {
                if let Err(error) = reader.refresh().await {
                    assert!(error.may_have_taken_effect(), "refresh: {error}");
                }
            } else {
                let key = rng.random_range(0..self.keys);
                self.look(reader, client, key).await;
            }
        }
    }

    async fn look(&self, reader: &DuoReader<AnyEndpoint>, client: u32, key: u64) {
        let Run { slot, record, .. } = &self.run;
        let now = || reader.endpoint().now();
        let started = record.invoke(client, key, TableOp::Get, now());
        match reader.get(&slot.key(key)).await {
            Ok(value) => {
                self.run
                    .count(|tally| tally.read_beside += u64::from(value.is_some()));
                let value = value.map(|value| slot.number(&value));
                record.complete(started, TableRet::Got(value), now());
            }
            Err(error) => {
                // An owner that hangs in the middle of a change keeps nobody from reading.
                let fabric = matches!(error, IndexError::Fabric(_));
                assert!(fabric, "{}: {error}", slot.name);
                record.no_effect(started, now());
            }
        }
    }
}
