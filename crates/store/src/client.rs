//! The clients of the schemes, as far as they differ.

use crate::{Result, StoreError, Survey};
use farslot_fabric::Endpoint;
use farslot_index::cuckoo::CuckooTable;
use farslot_index::linear::LinearTable;
use farslot_index::sealed::SealedTable;
use farslot_index::{Index, IndexError};

/// What a scheme's client does beside what every index does. A table that any number of clients may
/// write needs no writer: the defaults are for it.
pub(crate) trait Client: Index {
    /// Whether one write of a batch may wait until others have ended.
    const WRITES_WAIT: bool = false;

    /// Slots that one READ of a lookup fetches.
    fn read_size(&self) -> u64;

    /// Looks at every slot.
    async fn survey(&self) -> Result<Survey>;

    /// The writer that the table has, where it admits one.
    async fn writer(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Becomes the writer, where the table admits one.
    async fn start_writing(&self) -> Result<()> {
        Ok(())
    }

    /// Becomes the writer in place of one that is dead.
    async fn take_over(&self) -> Result<()> {
        Ok(())
    }

    /// Whether the table can never change again.
    fn is_sealed(&self) -> bool {
        false
    }

    /// Fills the empty table with all its records and seals it.
    async fn build(&self, records: &[(&[u8], &[u8])]) -> Result<()>;

    /// Is the writer no longer.
    async fn resign(&self) -> Result<()> {
        Ok(())
    }
}

impl<E: Endpoint> Client for LinearTable<E> {
    fn read_size(&self) -> u64 {
        Self::read_size(self)
    }

    async fn survey(&self) -> Result<Survey> {
        Ok(Survey::Linear(Self::survey(self).await?))
    }

    async fn build(&self, _: &[(&[u8], &[u8])]) -> Result<()> {
        Err(StoreError::NotBuildable { scheme: "linear" })
    }
}

impl<E: Endpoint> Client for CuckooTable<E> {
    const WRITES_WAIT: bool = true;

    fn read_size(&self) -> u64 {
        u64::from(self.layout().bucket_slots)
    }

    async fn survey(&self) -> Result<Survey> {
        Ok(Survey::Cuckoo(Self::survey(self).await?))
    }

    async fn writer(&self) -> Result<Option<u64>> {
        Ok(Self::writer(self).await?)
    }

    async fn start_writing(&self) -> Result<()> {
        Ok(Self::start_writing(self).await?)
    }

    async fn take_over(&self) -> Result<()> {
        Ok(Self::take_over(self).await?)
    }

    fn is_sealed(&self) -> bool {
        Self::is_sealed(self)
    }

    async fn build(&self, records: &[(&[u8], &[u8])]) -> Result<()> {
        Ok(Self::build(self, records).await?)
    }

    async fn resign(&self) -> Result<()> {
        Ok(Self::resign(self).await?)
    }
}

impl<E: Endpoint> Client for SealedTable<E> {
    fn read_size(&self) -> u64 {
        Self::read_size(self)
    }

    async fn survey(&self) -> Result<Survey> {
        Ok(Survey::Sealed(self.occupancy().await?))
    }

    async fn start_writing(&self) -> Result<()> {
        let operation = "writing";
        Err(IndexError::Sealed { operation }.into())
    }

    fn is_sealed(&self) -> bool {
        true
    }

    async fn build(&self, records: &[(&[u8], &[u8])]) -> Result<()> {
        Ok(Self::build(self, records).await?)
    }
}
