//! Lookups in linear tables.

use super::false_matches;
use super::work::{VerbCosts, Work};
use crate::{HitPolicy, ModelError, ProbeDistribution, TableLoad, Workload};

/// A lookup that reads `read_slots` slots of `slot_bytes` bytes at a time. With records out of band, of
/// `record_bytes` bytes each, a hit reads its own as well, and now and then another's whose slot looks like it.
///
/// # Errors
/// [`ModelError::NoKeys`] if the table is empty and there are hits.
pub fn linear_lookup(
    costs: &VerbCosts,
    table: TableLoad,
    slot_bytes: usize,
    read_slots: usize,
    workload: Workload,
    record_bytes: Option<usize>,
) -> Result<Work, ModelError> {
    let policy = workload.hit_policy();
    let share = workload.hit_ratio();
    let probe = |distances: &ProbeDistribution, own: bool| {
        let reads = distances.expected_reads(read_slots);
        let slots = costs.transfer((read_slots * slot_bytes) as f64) * reads;
        let Some(bytes) = record_bytes else {
            return slots;
        };
        // A hit that reads on to the empty slot meets its own key on the way.
        let met = if own && policy == HitPolicy::AllMatches {
            1.0
        } else {
            0.0
        };
        let records = f64::from(u8::from(own)) + false_matches(distances.mean() - met);
        slots + costs.transfer(bytes as f64) * records
    };
    let missing = probe(&ProbeDistribution::miss(table), false) * (1.0 - share);
    if share == 0.0 {
        return Ok(missing);
    }
    let hits = ProbeDistribution::lookup(table, Workload::hits(policy))?;
    Ok(probe(&hits, true) * share + missing)
}

#[cfg(test)]
mod tests {
    use super::super::work::tests::COSTS;
    use super::*;
    use crate::{Objective, ReadSizeModel};

    fn table() -> TableLoad {
        TableLoad::from_load(1 << 20, 0.8).unwrap()
    }

    #[test]
    fn it_costs_what_the_read_size_model_says() {
        let workload = Workload::new(0.9, HitPolicy::StopAtMatch).unwrap();
        let work = linear_lookup(&COSTS, table(), 8, 7, workload, None).unwrap();
        let distances = ProbeDistribution::lookup(table(), workload).unwrap();
        for (objective, cost) in [
            (Objective::Throughput, work.node_ns()),
            (Objective::Latency, work.latency_ns),
        ] {
            let model = ReadSizeModel::new(8, objective, COSTS.nic).unwrap();
            let expected = model.cost(&distances, 7).cost_ns;
            assert!((cost / expected - 1.0).abs() < 1e-9, "{cost} {expected}");
        }
        assert_eq!(work.verbs, work.round_trips);
    }

    #[test]
    fn a_hit_reads_its_record_and_hardly_ever_anothers() {
        let lookup = |share, record| {
            let workload = Workload::new(share, HitPolicy::StopAtMatch).unwrap();
            linear_lookup(&COSTS, table(), 8, 7, workload, record).unwrap()
        };
        let records = |share| lookup(share, Some(80)).verbs - lookup(share, None).verbs;
        let (hits, misses) = (records(1.0), records(0.0));
        // Two keys stand before a match at load 0.8, and twelve before the empty slot.
        assert!((hits - 1.0 - 2.0 / 1024.0).abs() < 1e-4, "{hits}");
        assert!((misses - 12.0 / 1024.0).abs() < 1e-4, "{misses}");
    }
}
