//! Readers beside the owner of a CuckooDuo table, whose lookups are part of the history.

use super::chaos::{Record, Tally};
use super::{Slot, TABLE};
use farslot_check::{TableOp, TableRet};
use farslot_fabric::sim::SimEndpoint;
use farslot_fabric::{Endpoint, EndpointExt, Nanos};
use farslot_index::IndexError;
use farslot_index::duo::{DuoLayout, DuoReader};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::cell::Cell;
use std::rc::Rc;

/// A reader and what its lookups are recorded in.
pub struct Beside<'r> {
    pub slot: Slot,
    pub keys: u64,
    /// The longest pause between two lookups.
    pub pause: Nanos,
    pub record: &'r Record,
    pub tally: &'r Cell<Tally>,
    /// Its number in the history.
    pub client: u32,
}

impl Beside<'_> {
    /// Looks keys up until it is time to stop, and refreshes its copy of the index now and then.
    pub async fn look_up(
        &self,
        endpoint: Rc<SimEndpoint>,
        layout: &DuoLayout,
        mut rng: ChaCha8Rng,
        over: impl Fn() -> bool,
    ) {
        let reader = DuoReader::open(endpoint, TABLE, layout.clone()).unwrap();
        while !over() {
            let pause = rng.random_range(0..=self.pause);
            reader.endpoint().sleep(pause).await;
            if rng.random_bool(0.05) {
                if let Err(error) = reader.refresh().await {
                    assert!(error.may_have_taken_effect(), "refresh: {error}");
                }
            } else {
                self.look(&reader, rng.random_range(0..self.keys)).await;
            }
        }
    }

    async fn look(&self, reader: &DuoReader<SimEndpoint>, key: u64) {
        let now = || reader.endpoint().now();
        let started = self.record.invoke(self.client, key, TableOp::Get, now());
        match reader.get(&self.slot.key(key)).await {
            Ok(value) => {
                let mut tally = self.tally.get();
                tally.read_beside += u64::from(value.is_some());
                self.tally.set(tally);
                let value = value.map(|value| self.slot.number(&value));
                self.record.complete(started, TableRet::Got(value), now());
            }
            Err(error) => {
                // An owner that hangs in the middle of a change keeps nobody from reading.
                let fabric = matches!(error, IndexError::Fabric(_));
                assert!(fabric, "{}: {error}", self.slot.name);
                self.record.no_effect(started, now());
            }
        }
    }
}
