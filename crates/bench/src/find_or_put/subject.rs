//! What a set is to the measurement.

use crate::Result;
use farslot_set::Outcome;
use rand_chacha::ChaCha8Rng;

/// A set of words under measurement, as one of the ranks that share it has it.
pub trait Subject {
    /// What it is called in the report.
    fn name(&self) -> &str;

    /// This rank's part in emptying the set. No rank uses it meanwhile.
    ///
    /// # Errors
    /// What the set says.
    fn renew(&mut self, rank: usize) -> Result<()>;

    /// Called on every rank once all have [renewed](Subject::renew) the set.
    ///
    /// # Errors
    /// What the set says.
    fn open(&mut self) -> Result<()> {
        Ok(())
    }

    /// Finds or inserts words of up to 62 bits.
    ///
    /// # Errors
    /// What the set says.
    fn find_or_put_all(&mut self, words: &[u64]) -> Result<Answers>;
}

/// A set with what its memory bounds find-or-puts by: bare compare-and-swaps of random buckets, as
/// many under way as find-or-puts have.
pub trait Limited: Subject {
    /// What is swapped in, for the report.
    fn memory(&self) -> &'static str;

    /// Draws so many buckets, and returns what swaps them.
    fn swaps<'s>(
        &'s self,
        count: usize,
        random: &mut ChaCha8Rng,
    ) -> Box<dyn FnOnce() -> Result<()> + 's>;
}

/// What a set has said of words; of all others that it has found them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Answers {
    /// How many were inserted.
    pub inserted: u64,
    /// For how many there is no bucket where the set looks for one (`Full` in paper 002, figure 1).
    pub full: u64,
}

impl Answers {
    pub(super) fn note<I>(&mut self, put: &Outcome<I>) {
        match put {
            Outcome::Inserted(_) => self.inserted += 1,
            Outcome::Found(_) => {}
            Outcome::Full => self.full += 1,
        }
    }
}
