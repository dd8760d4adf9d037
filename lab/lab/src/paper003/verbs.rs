//! Systems of which there are only the verbs: those that Storm is compared with.

use super::mix::{Kind, Step, VerbMix};
use crate::cluster::{Program, Seat};
use crate::{LabError, Result};
use farslot::fabric::sim::SimEndpoint;
use farslot::fabric::{
    Call, CallAnswer, Endpoint, EndpointExt, FabricError, Handler, NodeId, RegionId, RemoteAddr,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Bytes between the places that are READ: more than any READ.
pub(super) const PLACE: u64 = 1024;

/// Threads that do what a mix says, at random places.
pub(super) struct VerbThreads {
    pub(super) mix: VerbMix,
    /// Places of a node's memory.
    pub(super) places: u64,
}

/// Answers a call with as many bytes as the caller has room for.
struct Answer;

impl Handler for Answer {
    fn handle(&self, call: Call<'_>) -> CallAnswer {
        CallAnswer::Now(call.reply.len())
    }
}

/// A thread.
pub(super) struct Worker {
    endpoint: Rc<SimEndpoint>,
    others: Vec<NodeId>,
    random: RefCell<ChaCha8Rng>,
}

impl Program for VerbThreads {
    type Thread = Worker;

    fn bytes(&self) -> u64 {
        self.places * PLACE
    }

    fn handler(&self) -> Result<Arc<dyn Handler>> {
        Ok(Arc::new(Answer))
    }

    fn thread(&self, endpoint: &Rc<SimEndpoint>, seat: Seat) -> Result<Worker> {
        Ok(Worker {
            endpoint: Rc::clone(endpoint),
            others: seat.others,
            random: RefCell::new(ChaCha8Rng::seed_from_u64(seat.seed)),
        })
    }

    async fn operation(&self, worker: &Worker) -> Result<()> {
        for (step, times) in &self.kind(worker).steps {
            let chance: f64 = worker.random.borrow_mut().random();
            let times = *times as u64 + u64::from(chance < times.fract());
            for _ in 0..times {
                let taken = worker.take(*step, self.place(worker)).await;
                taken.map_err(LabError::from)?;
            }
        }
        Ok(())
    }
}

impl VerbThreads {
    fn kind(&self, worker: &Worker) -> &Kind {
        let mut at: f64 = worker.random.borrow_mut().random();
        let chosen = self.mix.iter().find(|kind| {
            at -= kind.share;
            at < 0.0
        });
        // Shares may sum to a bit less than one.
        chosen.unwrap_or(&self.mix[self.mix.len() - 1])
    }

    fn place(&self, worker: &Worker) -> RemoteAddr {
        let mut random = worker.random.borrow_mut();
        RemoteAddr {
            node: worker.others[random.random_range(0..worker.others.len())],
            region: RegionId(0),
            offset: random.random_range(0..self.places) * PLACE,
        }
    }
}

impl Worker {
    async fn take(&self, step: Step, at: RemoteAddr) -> std::result::Result<(), FabricError> {
        let endpoint = &self.endpoint;
        match step {
            Step::Read(bytes) => drop(endpoint.read(at, bytes).await?),
            Step::Call(bytes) => {
                let request = endpoint.core().buffers.take(bytes)?;
                drop(endpoint.call((at.node, at.region), request, bytes).await?);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Cluster, ClusterMeasurement, measure};
    use crate::paper003::mix::{Demand, only};
    use farslot::fabric::sim::NicProfile;

    fn cluster() -> Cluster {
        Cluster {
            profile: NicProfile::connectx4_edr(),
            machines: 4,
            threads: 20,
            width: 16,
            page_bytes: PLACE,
            operations: 20_000,
            expected: 20.0,
            seed: 1,
        }
    }

    fn rate(cluster: &Cluster, mix: &VerbMix, places: u64) -> ClusterMeasurement {
        let mix = mix.clone();
        measure(cluster, VerbThreads { mix, places }).unwrap()
    }

    #[test]
    fn the_simulator_is_as_fast_as_the_busiest_part_of_a_machine_allows() {
        for mix in [
            only(vec![(Step::Read(128), 1.0)]),
            only(vec![(Step::Read(1024), 1.25)]),
            only(vec![(Step::Call(128), 1.0)]),
            only(vec![(Step::Read(128), 1.0), (Step::Call(128), 0.3)]),
        ] {
            let (cluster, measured) = (cluster(), rate(&cluster(), &mix, 64));
            // What was to be done, and what the endpoints have counted.
            for demand in [
                Demand::of(&cluster.profile, &mix),
                Demand::counted(&cluster.profile, &measured),
            ] {
                let model = demand.rate(20);
                let ratio = measured.rate / model;
                assert!((0.9..1.02).contains(&ratio), "{mix:?}: {ratio} of {model}");
            }
        }
    }

    #[test]
    fn a_cache_that_is_too_small_costs_what_the_model_says() {
        let mix = only(vec![(Step::Read(128), 1.0)]);
        let mut small = cluster();
        small.profile.cache.capacity_bytes = 60 * u64::from(small.profile.cache.queue_pair_bytes);
        let demand = Demand::of(&small.profile, &mix);
        let cached = demand.with_cache(&small.profile, 2 * 4 * 20, 4).unwrap();
        let (model, simulated) = (cached.rate(20), rate(&small, &mix, 4).rate);
        assert!((simulated / model - 1.0).abs() < 0.1, "{simulated} {model}");
        assert!(model < 0.5 * demand.rate(20));
    }
}
