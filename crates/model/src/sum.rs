//! A compensated sum: a million small terms without a million roundings.

/// A running sum with the rounding error of each addition carried along.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CompensatedSum {
    sum: f64,
    lost: f64,
}

impl CompensatedSum {
    pub(crate) fn starting_at(sum: f64) -> Self {
        Self { sum, lost: 0.0 }
    }

    pub(crate) fn add(&mut self, term: f64) {
        let sum = self.sum + term;
        // Knuth's TwoSum: the error without a branch on which operand is the larger.
        let added = sum - self.sum;
        self.lost += (self.sum - (sum - added)) + (term - added);
        self.sum = sum;
    }

    pub(crate) fn value(self) -> f64 {
        self.sum + self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_terms_survive_a_large_sum() {
        let mut sum = CompensatedSum::starting_at(1e16);
        for _ in 0..1000 {
            sum.add(0.25);
        }
        sum.add(-1e16);
        assert_eq!(sum.value(), 250.0);
    }
}
