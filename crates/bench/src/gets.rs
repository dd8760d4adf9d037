//! Timed lookups whose answers are all checked, and the READs that they took.

use crate::Result;
use crate::answers::Answers;
use farslot::fabric::{Endpoint, Executor};
use farslot::index::Index;
use std::cell::Cell;
use std::time::Instant;

/// Gets these keys in one batch; returns gets/s. `expected` says which value the key of a number in the batch has, or that
/// it is absent.
///
/// # Errors
/// [`WrongAnswers`](crate::BenchError::WrongAnswers), or what the table says.
pub(crate) fn per_second<'k, E: Endpoint, V: AsRef<[u8]>>(
    executor: &Executor<E>,
    table: &impl Index,
    keys: impl ExactSizeIterator<Item = &'k [u8]>,
    expected: impl Fn(usize) -> Option<V>,
) -> Result<f64> {
    let (count, mut answers) = (keys.len(), Answers::default());
    let since = Instant::now();
    executor.block_on(table.get_many(keys, |number, found| {
        let expected = expected(number);
        let expected = expected.as_ref().map(V::as_ref);
        answers.note(found.map(|value| value.as_deref() == expected));
    }));
    let rate = count as f64 / since.elapsed().as_secs_f64();
    answers.check()?;
    Ok(rate)
}

/// How many READs lookups have taken, hits and misses told apart.
#[derive(Debug, Default)]
pub(crate) struct ReadsTaken {
    /// Lookups and READs of misses and of hits.
    counted: [Cell<(u64, u64)>; 2],
}

impl ReadsTaken {
    /// Adds lookups that were all hits, or all misses.
    pub(crate) fn add(&self, hits: bool, lookups: usize, reads: u64) {
        let counted = &self.counted[usize::from(hits)];
        let (all, all_reads) = counted.get();
        counted.set((all + lookups as u64, all_reads + reads));
    }

    /// READs per lookup so far; not a number if there was none.
    pub(crate) fn per_lookup(&self, hits: bool) -> f64 {
        let (lookups, reads) = self.counted[usize::from(hits)].get();
        reads as f64 / lookups as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_and_misses_are_counted_apart() {
        let taken = ReadsTaken::default();
        assert!(taken.per_lookup(true).is_nan());
        taken.add(true, 4, 5);
        taken.add(true, 4, 4);
        taken.add(false, 2, 0);
        assert_eq!(
            (taken.per_lookup(true), taken.per_lookup(false)),
            (1.125, 0.0)
        );
    }
}
