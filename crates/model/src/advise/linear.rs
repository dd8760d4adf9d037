//! Lookups in linear tables, puts of new keys, and replaced values.

use super::OutOfBand;
use super::work::{VerbCosts, Work};
use crate::{HitPolicy, ModelError, ProbeDistribution, TableLoad, Workload};

/// The slots of a linear table, and how they are read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinearSlots {
    /// Bytes of a slot.
    pub slot_bytes: usize,
    /// Slots of a READ.
    pub read_slots: usize,
    /// Whether keys stand in the order of their hashes, where a miss ends at the first that comes
    /// after it.
    pub ordered: bool,
}

impl LinearSlots {
    fn miss(&self, table: TableLoad) -> ProbeDistribution {
        if self.ordered {
            ProbeDistribution::ordered_miss(table)
        } else {
            ProbeDistribution::miss(table)
        }
    }

    fn hit(&self, table: TableLoad, policy: HitPolicy) -> Result<ProbeDistribution, ModelError> {
        let hits = Workload::hits(policy);
        if self.ordered {
            ProbeDistribution::ordered(table, hits)
        } else {
            ProbeDistribution::lookup(table, hits)
        }
    }

    fn read(&self, costs: &VerbCosts, distances: &ProbeDistribution) -> Work {
        let one = costs.transfer((self.read_slots * self.slot_bytes) as f64);
        let reads = one * distances.expected_reads(self.read_slots);
        let slot = self.slot_bytes as f64;
        // The slot where it ends is looked at too.
        costs.looked_at(reads, (distances.mean() + 1.0) * slot, slot)
    }

    /// Slots of other keys of which a lookup compares a part of the hash: up to where it ends, but
    /// all that were read where those that look alike are read together.
    fn foreign_keys(
        &self,
        table: TableLoad,
        distances: &ProbeDistribution,
        together: bool,
        met: f64,
    ) -> f64 {
        if self.ordered {
            // A slot says its home too, so only the keys of that.
            return table.load();
        }
        let ended = distances.mean();
        if !together {
            return ended - met;
        }
        let read = distances.expected_reads(self.read_slots) * self.read_slots as f64;
        let to_empty = ProbeDistribution::miss(table).mean();
        (read - met).min((to_empty - met).max(ended))
    }
}

/// A lookup. With records out of band a hit reads its own as well, and now and then another's whose
/// slot looks like it.
///
/// # Errors
/// [`ModelError::NoKeys`] if the table is empty and there are hits.
pub fn linear_lookup(
    costs: &VerbCosts,
    table: TableLoad,
    slots: LinearSlots,
    workload: Workload,
    records: Option<OutOfBand>,
) -> Result<Work, ModelError> {
    let policy = workload.hit_policy();
    let share = workload.hit_ratio();
    let missing = |met: f64, distances: &ProbeDistribution| {
        let together = records.is_some_and(|records| records.together);
        slots.foreign_keys(table, distances, together, met)
    };
    let misses = slots.miss(table);
    let mut miss = slots.read(costs, &misses);
    if let Some(records) = records {
        miss = miss + records.in_vain(costs, missing(0.0, &misses), false);
    }
    if share == 0.0 {
        return Ok(miss);
    }
    let hits = slots.hit(table, policy)?;
    let mut hit = slots.read(costs, &hits);
    if let Some(records) = records {
        // A hit that reads on to the empty slot meets its own key on the way.
        let met = match policy {
            HitPolicy::AllMatches => 1.0,
            HitPolicy::StopAtMatch if records.together => 1.0,
            HitPolicy::StopAtMatch => 0.0,
        };
        hit = hit + records.found(costs) + records.in_vain(costs, missing(met, &hits), true);
    }
    Ok(hit * share + miss * (1.0 - share))
}

/// What a put writes once it knows the slot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LinearWrite {
    /// One word, by a compare-and-swap.
    Word,
    /// A key and then a value, by two.
    Pair,
    /// A claim, then the rest of the slot of so many bytes and the word that publishes it together.
    Inline(f64),
    /// A record of so many bytes while the slot is looked for, then one word.
    Out(f64),
}

/// The put of a new key: the lookup of a key that is not there, and what is written.
///
/// # Errors
/// None but those of [`linear_lookup`].
pub fn linear_put(
    costs: &VerbCosts,
    table: TableLoad,
    slots: LinearSlots,
    records: Option<OutOfBand>,
    write: LinearWrite,
) -> Result<Work, ModelError> {
    let misses = Workload::new(0.0, HitPolicy::StopAtMatch)?;
    let looked = linear_lookup(costs, table, slots, misses, records)?;
    let swap = costs.atomic();
    Ok(looked
        + match write {
            LinearWrite::Word => swap,
            LinearWrite::Pair => swap * 2.0,
            LinearWrite::Inline(bytes) => swap + costs.together_with(swap, costs.transfer(bytes)),
            LinearWrite::Out(bytes) => swap + costs.transfer(bytes).waited_for(costs.post_ns),
        })
}

/// The replacement of the value of a key that is there: its lookup, and a swap of a word; where the
/// record goes out of band, behind the WRITE of its `record_bytes` bytes in the same batch.
///
/// # Errors
/// Those of [`linear_lookup`].
pub fn linear_update(
    costs: &VerbCosts,
    table: TableLoad,
    slots: LinearSlots,
    records: Option<OutOfBand>,
    record_bytes: Option<f64>,
) -> Result<Work, ModelError> {
    let hits = Workload::hits(HitPolicy::StopAtMatch);
    let found = linear_lookup(costs, table, slots, hits, records)?;
    let written = record_bytes.map(|bytes| costs.transfer(bytes));
    let verbs: Vec<Work> = written.into_iter().chain([costs.atomic()]).collect();
    Ok(found + costs.together(&verbs))
}

#[cfg(test)]
mod tests {
    use super::super::work::tests::{COSTS, IN_PLACE};
    use super::*;
    use crate::{Objective, ReadSizeModel};

    const SLOTS: LinearSlots = LinearSlots {
        slot_bytes: 8,
        read_slots: 7,
        ordered: false,
    };

    fn table() -> TableLoad {
        TableLoad::from_load(1 << 20, 0.8).unwrap()
    }

    #[test]
    fn it_costs_what_the_read_size_model_says() {
        let workload = Workload::new(0.9, HitPolicy::StopAtMatch).unwrap();
        let work = linear_lookup(&COSTS, table(), SLOTS, workload, None).unwrap();
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

    /// A processor looks at the slots up to the match; a NIC moves all that a READ asks for.
    #[test]
    fn in_place_a_lookup_loads_the_lines_up_to_the_match() {
        let hits = Workload::hits(HitPolicy::StopAtMatch);
        let of = |read_slots| {
            let slots = LinearSlots {
                slot_bytes: 16,
                read_slots,
                ordered: false,
            };
            linear_lookup(&IN_PLACE, table(), slots, hits, None).unwrap()
        };
        // Three slots on average at load 0.8 (Knuth): 48 bytes, half a line more than one slot.
        let (short, long) = (of(4), of(64));
        assert!((short.lines - 1.5).abs() < 1e-3 && short.lines == long.lines);
        assert!((short.client_ns - 5.0 * short.verbs - 30.0).abs() < 0.02);
        assert!(long.bytes > 3.0 * short.bytes && long.node_ns() == 0.0);
    }

    #[test]
    fn a_hit_reads_its_record_and_hardly_ever_anothers() {
        let lookup = |share, record: Option<f64>| {
            let workload = Workload::new(share, HitPolicy::StopAtMatch).unwrap();
            let record = record.map(|bytes| OutOfBand::tagged(1.0, bytes));
            linear_lookup(&COSTS, table(), SLOTS, workload, record).unwrap()
        };
        let records = |share| lookup(share, Some(80.0)).verbs - lookup(share, None).verbs;
        let (hits, misses) = (records(1.0), records(0.0));
        // Two keys stand before a match at load 0.8, and twelve before the empty slot.
        assert!((hits - 1.0 - 2.0 / 1024.0).abs() < 1e-4, "{hits}");
        assert!((misses - 12.0 / 1024.0).abs() < 1e-4, "{misses}");
    }

    #[test]
    fn slots_in_order_end_misses_early_and_hardly_ever_look_alike() {
        let workload = Workload::new(0.0, HitPolicy::StopAtMatch).unwrap();
        let lookup = |ordered, records| {
            let slots = LinearSlots { ordered, ..SLOTS };
            linear_lookup(&COSTS, table(), slots, workload, records).unwrap()
        };
        let records = Some(OutOfBand::sealed(80.0, 1.0));
        assert!(lookup(true, None).verbs < 0.6 * lookup(false, None).verbs);
        let vain = |ordered| lookup(ordered, records).verbs - lookup(ordered, None).verbs;
        assert!((vain(true) - 0.8 / 256.0).abs() < 1e-6);
        assert!((vain(false) - 12.0 / 256.0).abs() < 1e-4);
    }

    #[test]
    fn an_update_finds_the_key_and_writes_in_one_batch() {
        let hits = Workload::hits(HitPolicy::StopAtMatch);
        let found = linear_lookup(&COSTS, table(), SLOTS, hits, None).unwrap();
        for (record_bytes, verbs) in [(None, 1.0), (Some(80.0), 2.0)] {
            let update = linear_update(&COSTS, table(), SLOTS, None, record_bytes).unwrap();
            assert!((update.verbs - found.verbs - verbs).abs() < 1e-9);
            assert!((update.round_trips - found.round_trips - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn a_put_looks_for_the_empty_slot_and_swaps() {
        let put = |write| linear_put(&COSTS, table(), SLOTS, None, write).unwrap();
        let misses = Workload::new(0.0, HitPolicy::StopAtMatch).unwrap();
        let miss = linear_lookup(&COSTS, table(), SLOTS, misses, None).unwrap();
        let more = [
            (LinearWrite::Word, 1.0, 1.0),
            (LinearWrite::Pair, 2.0, 2.0),
            (LinearWrite::Inline(64.0), 3.0, 2.0),
            (LinearWrite::Out(64.0), 2.0, 1.0),
        ];
        for (write, verbs, round_trips) in more {
            let put = put(write);
            assert!((put.verbs - miss.verbs - verbs).abs() < 1e-9);
            assert!((put.round_trips - miss.round_trips - round_trips).abs() < 1e-9);
        }
    }
}
