//! What fails while a batch is under way.

use crate::{BatchError, Result, StoreError};

/// What has failed so far of a batch.
#[derive(Default)]
pub(crate) struct FailedOperations(Vec<(usize, StoreError)>);

impl FailedOperations {
    #[cold]
    pub(crate) fn note(&mut self, number: usize, error: StoreError) {
        self.0.push((number, error));
    }

    /// What an operation has come to, unless it failed.
    #[inline]
    pub(crate) fn noted<T>(&mut self, number: usize, outcome: Result<T>) -> Option<T> {
        outcome.map_err(|error| self.note(number, error)).ok()
    }

    /// What a batch of so many has come to, in which these have failed beside those of `beneath`.
    pub(crate) fn of_all(
        mut self,
        beneath: Result<(), BatchError>,
        operations: usize,
    ) -> Result<(), BatchError> {
        self.0.extend(beneath.err().into_iter().flatten());
        self.of(operations)
    }

    /// What a batch of so many has come to.
    pub(crate) fn of(self, operations: usize) -> Result<(), BatchError> {
        let mut failures = self.0;
        if failures.is_empty() {
            return Ok(());
        }
        failures.sort_by_key(|(number, _)| *number);
        Err(BatchError::of(operations, failures))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use farslot_index::IndexError;
    use std::error::Error;

    fn batch(failures: &[(usize, StoreError)], operations: usize) -> Result<(), BatchError> {
        let mut failed = FailedOperations::default();
        for number in 0..operations {
            let of = failures.iter().find(|(of, _)| *of == number);
            let outcome = of.map_or(Ok(number), |(_, error)| Err(error.clone()));
            let is_told = failed.noted(number, outcome) == Some(number);
            assert_eq!(is_told, of.is_none());
        }
        failed.of(operations)
    }

    #[test]
    fn a_batch_names_what_failed_in_the_order_of_the_numbers() {
        assert_eq!(batch(&[], 3), Ok(()));
        let [first, second] = [StoreError::HandleClosed, StoreError::QueueFull];
        let mut failed = FailedOperations::default();
        failed.note(4, second.clone());
        failed.note(2, first.clone());
        let failed = failed.of(7).unwrap_err();
        assert_eq!(failed.operations(), 7);
        assert_eq!(failed.failures(), [(2, first.clone()), (4, second)]);
        let said = "2 of 7 operations failed, the first of them number 2: the handle is closed, \
                    and takes no more operations";
        assert_eq!(failed.to_string(), said);
        assert_eq!(failed.source().unwrap().to_string(), first.to_string());
        let of_store = StoreError::from(failed.clone());
        assert_eq!(of_store.to_string(), said);
        assert_eq!(of_store.kind(), ErrorKind::Closed);
        assert_eq!(failed.into_first(), first);
    }

    #[test]
    fn a_batch_may_have_taken_effect_if_any_of_it_has_or_may_have() {
        let refused = StoreError::Index(IndexError::EmptyKey);
        let doubtful = StoreError::WorkerPanicked;
        for (failures, may_have) in [
            (vec![(0, refused.clone()), (1, refused.clone())], false),
            (vec![(0, refused.clone()), (1, doubtful)], true),
            (vec![(1, refused)], true),
        ] {
            let failed = StoreError::from(batch(&failures, 2).unwrap_err());
            assert_eq!(failed.may_have_taken_effect(), may_have, "{failed}");
        }
    }
}
