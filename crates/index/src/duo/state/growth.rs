//! When a table grows by itself, and where it takes memory from.

use crate::{IndexError, Result};
use farslot_fabric::{Endpoint, EndpointExt, RemoteAddr};

/// Keys per slot from which on a table grows, unless told otherwise.
const GROWS_AT: f64 = 0.85;
/// Extents start at multiples of this.
const ALIGNMENT: u64 = 4096;

/// Memory of zeros, of which those who use it take one piece after the other. A word says how many
/// bytes are taken; it may be the word by which a store's catalog counts the memory of its tables.
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
    /// Takes zeros that nobody else has. If it fails with its effect in doubt, they may be taken
    /// for good.
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

/// When a table grows by itself, by how much, and where.
#[derive(Clone, Copy, Debug)]
pub struct DuoGrowth {
    /// Where the table takes memory from.
    pub memory: GrowthMemory,
    /// How many times as large it is after each growth: 2 to 4096.
    pub ratio: u64,
    /// Keys per slot from which on an insertion lets it grow: above 0 and at most 1.
    pub at_load: f64,
}

/// Where extents are put.
#[derive(Clone, Copy)]
pub(in super::super) enum ExtentSource {
    Memory(GrowthMemory),
    /// Behind the table, in memory of its own.
    Reserve,
}

/// How a table grows by itself.
#[derive(Clone, Copy)]
pub(in super::super) struct GrowthPolicy {
    pub(in super::super) place: ExtentSource,
    pub(in super::super) ratio: u64,
    pub(in super::super) at_load: f64,
}

impl GrowthPolicy {
    /// That of a table with memory of its own to grow into.
    pub(in super::super) const IN_RESERVE: Self = Self {
        place: ExtentSource::Reserve,
        ratio: 2,
        at_load: GROWS_AT,
    };
}

impl DuoGrowth {
    /// To twice the size, when the table is 0.85 full: with 8 slots a bucket there is room for a
    /// tenth more.
    #[must_use]
    pub const fn from(memory: GrowthMemory) -> Self {
        Self {
            memory,
            ratio: 2,
            at_load: GROWS_AT,
        }
    }
}
