//! Lookups in tables in which each key has one slot that the client knows.

use super::OutOfBand;
use super::work::{VerbCosts, Work};

/// A lookup: one slot is read, found or not. With records out of band a hit reads its own as well,
/// and a miss the one that the slot names, if that looks like the key's.
#[must_use]
pub fn perfect_lookup(
    costs: &VerbCosts,
    slot_bytes: f64,
    hit_ratio: f64,
    records: Option<OutOfBand>,
) -> Work {
    let slot = costs.transfer(slot_bytes);
    let Some(records) = records else {
        return slot;
    };
    let miss = records.in_vain(costs, 1.0, false);
    slot + records.found(costs) * hit_ratio + miss * (1.0 - hit_ratio)
}

#[cfg(test)]
mod tests {
    use super::super::work::tests::COSTS;
    use super::*;

    #[test]
    fn one_slot_is_read_and_the_record_of_a_hit() {
        let slot = COSTS.transfer(16.0);
        for hit_ratio in [0.0, 0.5, 1.0] {
            assert_eq!(perfect_lookup(&COSTS, 16.0, hit_ratio, None), slot);
        }
        let records = Some(OutOfBand::sealed(80.0, 1.0));
        let verbs = |hit_ratio| perfect_lookup(&COSTS, 6.0, hit_ratio, records).verbs;
        assert!((verbs(1.0) - 2.0).abs() < 1e-9);
        assert!((verbs(0.0) - 1.0 - 1.0 / 256.0).abs() < 1e-9);
    }
}
