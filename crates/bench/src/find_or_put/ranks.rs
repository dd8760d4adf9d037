//! Those who measure together: processes of a job, or threads.

use crate::Result;
use farslot_set::job::Job;

/// One of several that measure together, in step.
pub trait Ranks {
    /// Which of them, from 0.
    fn rank(&self) -> usize;

    /// How many there are.
    fn ranks(&self) -> usize;

    /// Gives every rank the numbers of all, in the order of the ranks, once all have come here.
    ///
    /// # Errors
    /// That another rank will never come.
    fn gather(&mut self, numbers: [u64; 3]) -> Result<Vec<[u64; 3]>>;

    /// Waits until all ranks have come here.
    ///
    /// # Errors
    /// As [`Ranks::gather`].
    fn meet(&mut self) -> Result<()> {
        self.gather([0; 3]).map(drop)
    }
}

/// The processes of a job.
pub struct JobRanks<'j>(pub &'j mut Job);

impl JobRanks<'_> {
    /// Gives every process the names of all.
    pub(super) fn gather_names(&mut self, name: &str) -> Result<Vec<String>> {
        let names = self.0.all_gather(name.as_bytes())?;
        let names = names
            .into_iter()
            .map(|name| String::from_utf8_lossy(&name).into_owned());
        Ok(names.collect())
    }
}

impl Ranks for JobRanks<'_> {
    fn rank(&self) -> usize {
        self.0.rank() as usize
    }

    fn ranks(&self) -> usize {
        self.0.ranks() as usize
    }

    fn gather(&mut self, numbers: [u64; 3]) -> Result<Vec<[u64; 3]>> {
        let bytes: Vec<u8> = numbers
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect();
        let all = self.0.all_gather(&bytes)?;
        let numbers = |bytes: &Vec<u8>| {
            let (words, _) = bytes.as_chunks::<8>();
            let at = |at: usize| words.get(at).map_or(0, |word| u64::from_le_bytes(*word));
            [at(0), at(1), at(2)]
        };
        Ok(all.iter().map(numbers).collect())
    }
}
