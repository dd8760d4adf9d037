//! A table of a store as a set.

use super::options::Options;
use super::subject::{Answers, Subject};
use crate::lookup::{self, LookupScheme};
use crate::{BenchError, Result};
use farslot::{Store, Table};

const TABLE: &str = "bench-find-or-put";
/// Records whose find-or-puts are under way at once.
const TOGETHER: usize = 1 << 10;

/// Bytes that the store must have.
///
/// # Errors
/// As [`lookup::memory`].
pub fn memory(options: &Options) -> Result<u64> {
    let load = options.loads.iter().copied().fold(0.5, f64::max);
    lookup::memory(&lookup::Options {
        loads: vec![load],
        ..lookup::Options::new(vec![LookupScheme::Linear], options.slots)
    })
}

/// A linear table of a store that all ranks have opened: keys are the elements, values their 8
/// bytes once more.
pub struct StoredSet {
    store: Store,
    table: Option<Table>,
    slots: u64,
}

impl StoredSet {
    /// A set in the store at an address, which must have [`memory`] bytes.
    ///
    /// # Errors
    /// What the store says.
    pub fn open(address: &str, slots: u64) -> Result<Self> {
        Ok(Self {
            store: Store::open(address)?,
            table: None,
            slots,
        })
    }
}

impl Subject for StoredSet {
    fn name(&self) -> &str {
        "store (linear), find_or_put_many"
    }

    fn renew(&mut self, rank: usize) -> Result<()> {
        let was = self.table.take().is_some();
        if rank == 0 {
            if was {
                self.store.drop_table(TABLE)?;
            }
            let shape = LookupScheme::Linear.table(self.slots, 1.0);
            self.store.create(TABLE, &shape)?;
        }
        Ok(())
    }

    fn open(&mut self) -> Result<()> {
        self.table = Some(self.store.table(TABLE)?);
        Ok(())
    }

    fn find_or_put_all(&mut self, words: &[u64]) -> Result<Answers> {
        let table = self
            .table
            .as_ref()
            .expect("a set is opened before it is used");
        let (mut inserted, mut wrong) = (0, 0);
        let mut keys: Vec<[u8; 8]> = Vec::with_capacity(TOGETHER);
        for words in words.chunks(TOGETHER) {
            keys.clear();
            keys.extend(words.iter().map(|word| word.to_le_bytes()));
            let records: Vec<(&[u8], &[u8])> =
                keys.iter().map(|key| (&key[..], &key[..])).collect();
            table.find_or_put_many(&records, |at, was| match was {
                None => inserted += 1,
                Some(value) => wrong += u64::from(value != keys[at]),
            })?;
        }
        if wrong > 0 {
            let operations = words.len() as u64;
            return Err(BenchError::WrongAnswers { wrong, operations });
        }
        Ok(Answers { inserted, full: 0 })
    }
}
