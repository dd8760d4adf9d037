//! Where a table that grows takes memory from.

use crate::{IndexError, Result};
use farslot_fabric::{Endpoint, EndpointExt, RemoteAddr};

/// Extents start at multiples of this.
const ALIGNMENT: u64 = 4096;

/// Memory of zeros, of which those who use it take one piece after the other. A word says how many bytes
/// are taken; it may be the word by which a store's catalog counts the memory of its tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GrowthMemory {
    /// The word that counts the bytes taken, in whole multiples of 4096 if they were taken by this.
    pub mark: RemoteAddr,
    /// Where the memory starts: on the table's node.
    pub start: RemoteAddr,
    /// Its bytes.
    pub bytes: u64,
}

impl GrowthMemory {
    /// Takes zeros that nobody else has. If it fails with its effect in doubt, they may be taken for good.
    pub(in super::super) async fn take<E: Endpoint>(
        &self,
        endpoint: &E,
        bytes: u64,
    ) -> Result<RemoteAddr> {
        let mut taken = endpoint.read(self.mark, 8).await?.words()[0];
        loop {
            let end = taken.checked_add(bytes);
            let end = end.and_then(|end| end.checked_next_multiple_of(ALIGNMENT));
            let Some(end) = end.filter(|end| *end <= self.bytes) else {
                return Err(IndexError::OutOfMemory {
                    requested: bytes,
                    free: self.bytes.saturating_sub(taken),
                });
            };
            let seen = endpoint.compare_swap(self.mark, taken, end).await?;
            if seen == taken {
                return Ok(self.start.plus(taken));
            }
            taken = seen;
        }
    }
}
