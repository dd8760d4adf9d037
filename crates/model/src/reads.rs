//! How many READs a lookup takes.

use crate::ProbeDistribution;

impl ProbeDistribution {
    /// E\[X(R)\] of paper 000, Eq. 4: the mean number of READs of `read_size` slots until a lookup
    /// ends.
    ///
    /// A lookup at distance d takes floor(d / R) + 1 READs, so the mean is the sum over i = 0, 1,
    /// ... of P(distance >= i R). A READ that runs over the table's end counts as one; a
    /// `read_size` of 0 is taken as 1.
    pub fn expected_reads(&self, read_size: usize) -> f64 {
        let step = read_size.max(1);
        let tabulated = self.tabulated();
        let near: f64 = tabulated.iter().step_by(step).sum();
        let first_beyond = tabulated.len().div_ceil(step).saturating_mul(step);
        near + self.tail_sum(first_beyond, step)
    }

    /// Prob_i(R) of paper 000, Eq. 5: the probability that a lookup takes exactly `reads` READs of
    /// `read_size` slots (0 is taken as 1).
    pub fn probability_of_reads(&self, reads: u64, read_size: usize) -> f64 {
        let Some(before) = reads.checked_sub(1) else {
            return 0.0;
        };
        let step = read_size.max(1) as u64;
        self.survival(before.saturating_mul(step)) - self.survival(reads.saturating_mul(step))
    }
}

#[cfg(test)]
mod tests {
    use crate::{ProbeDistribution, TableLoad};

    fn miss(slots: u64, load: f64) -> ProbeDistribution {
        ProbeDistribution::miss(TableLoad::from_load(slots, load).unwrap())
    }

    #[test]
    fn one_slot_at_a_time_takes_a_read_per_probe() {
        for load in [0.0, 0.3, 0.9, 0.97] {
            let distances = miss(1 << 20, load);
            assert!((distances.expected_reads(1) - distances.mean() - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn a_read_as_large_as_the_table_is_the_only_one() {
        let distances = miss(64, 0.9);
        assert!((distances.expected_reads(64) - 1.0).abs() < 1e-12);
        assert_eq!(distances.expected_reads(0), distances.expected_reads(1));
        assert!((distances.expected_reads(usize::MAX) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_full_table_is_read_whole() {
        let distances = miss(100, 1.0);
        assert_eq!(distances.expected_reads(1), 100.0);
        assert_eq!(distances.expected_reads(32), 4.0);
        assert_eq!(distances.expected_reads(50), 2.0);
        assert_eq!(distances.expected_reads(100), 1.0);
    }

    #[test]
    fn the_probabilities_of_eq_5_give_the_mean_of_eq_4() {
        let distances = miss(1 << 16, 0.85);
        let mean: f64 = (1..1000)
            .map(|i| i as f64 * distances.probability_of_reads(i, 23))
            .sum();
        assert!((mean - distances.expected_reads(23)).abs() < 1e-9);
        assert_eq!(distances.probability_of_reads(0, 23), 0.0);
    }

    #[test]
    fn beyond_the_tabulated_part_the_mean_stays_exact() {
        // A table of 2^40 slots with one empty slot: half the table, on average.
        let table = TableLoad::new(1 << 40, (1 << 40) - 1).unwrap();
        let distances = ProbeDistribution::miss(table);
        let expected = ((1u64 << 40) - 1) as f64 / 2.0;
        assert!((distances.expected_reads(1) / (expected + 1.0) - 1.0).abs() < 1e-6);
        assert!((distances.expected_reads(1024) / (expected / 1024.0) - 1.0).abs() < 1e-6);
    }
}
