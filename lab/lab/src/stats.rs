//! Means over tables, with their errors.

use crate::ReproRow;

/// A mean and its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Mean {
    pub(crate) mean: f64,
    /// A single value does not tell.
    pub(crate) standard_error: Option<f64>,
}

impl Mean {
    /// The mean of at least one value.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.into_iter().collect();
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let standard_error = (count > 1.0).then(|| (squares / (count - 1.0) / count).sqrt());
        Self {
            mean,
            standard_error,
        }
    }

    /// A cell with that mean.
    pub(crate) fn row(self, cell: impl Into<String>, paper: Option<f64>) -> ReproRow {
        ReproRow {
            standard_error: self.standard_error,
            ..ReproRow::new(cell, paper, self.mean)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_knows_its_error() {
        let mean = Mean::of([1.0, 3.0]);
        assert_eq!((mean.mean, mean.standard_error), (2.0, Some(1.0)));
        assert_eq!(Mean::of([5.0]).standard_error, None);
    }
}
