//! Memory as its owner has it, without a fabric.

use farslot_fabric::{FabricError, NodeId, OwnerMemory, RegionId, RemoteAddr, Result};

/// A region of plain words.
#[derive(Debug)]
pub struct PlainMemory(pub Vec<u64>);

impl PlainMemory {
    /// One of so many bytes, all 0.
    #[must_use]
    pub fn of(bytes: u64) -> Self {
        Self(vec![0; (bytes / 8) as usize])
    }

    fn first(&self, offset: u64, words: usize) -> Result<usize> {
        let at = RemoteAddr {
            node: NodeId(0),
            region: RegionId(0),
            offset,
        };
        if !offset.is_multiple_of(8) {
            return Err(FabricError::Misaligned { at });
        }
        let first = usize::try_from(offset / 8).unwrap_or(usize::MAX);
        match first.checked_add(words) {
            Some(end) if end <= self.0.len() => Ok(first),
            _ => Err(FabricError::OutOfBounds {
                at,
                len: words as u64 * 8,
                region_len: self.bytes(),
            }),
        }
    }
}

impl OwnerMemory for PlainMemory {
    fn bytes(&self) -> u64 {
        self.0.len() as u64 * 8
    }

    fn load(&self, offset: u64) -> Result<u64> {
        Ok(self.0[self.first(offset, 1)?])
    }

    fn store(&mut self, offset: u64, value: u64) -> Result<()> {
        let first = self.first(offset, 1)?;
        self.0[first] = value;
        Ok(())
    }

    fn compare_swap(&mut self, offset: u64, expected: u64, new: u64) -> Result<u64> {
        let first = self.first(offset, 1)?;
        let seen = self.0[first];
        if seen == expected {
            self.0[first] = new;
        }
        Ok(seen)
    }

    fn copy_out(&self, offset: u64, into: &mut [u64]) -> Result<()> {
        let first = self.first(offset, into.len())?;
        into.copy_from_slice(&self.0[first..first + into.len()]);
        Ok(())
    }

    fn copy_in(&mut self, offset: u64, words: &[u64]) -> Result<()> {
        let first = self.first(offset, words.len())?;
        self.0[first..first + words.len()].copy_from_slice(words);
        Ok(())
    }
}
