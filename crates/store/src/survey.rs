//! What a look at every slot has shown, whatever the scheme.

use crate::Occupancy;
use farslot_index::{cuckoo, linear};

/// What was seen of a table, slot by slot. Others may have written meanwhile: it is no snapshot.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Survey {
    /// Of a linear table: how its keys cluster.
    Linear(linear::Survey),
    /// Of a cuckoo table: how full its buckets are.
    Cuckoo(cuckoo::Survey),
    /// Of a sealed table: what its builder has counted, for nothing has changed since.
    Sealed(Occupancy),
}

impl Survey {
    /// All slots.
    #[must_use]
    pub const fn slots(&self) -> u64 {
        match self {
            Self::Linear(survey) => survey.slots,
            Self::Cuckoo(survey) => survey.slots,
            Self::Sealed(built) => built.slots,
        }
    }

    /// Slots that hold a record. In a cuckoo table whose writer has died, some keys may stand twice
    /// until they are next written.
    #[must_use]
    pub const fn live(&self) -> u64 {
        match self {
            Self::Linear(survey) => survey.live,
            Self::Cuckoo(survey) => survey.live,
            Self::Sealed(built) => built.entries,
        }
    }

    /// Slots of keys that were removed, or never got a value: no other key can have them.
    #[must_use]
    pub const fn dead(&self) -> u64 {
        match self {
            Self::Linear(survey) => survey.dead,
            Self::Cuckoo(_) | Self::Sealed(_) => 0,
        }
    }

    /// Slots in use, live or dead, per slot, 0 to 1.
    #[must_use]
    pub fn load_factor(&self) -> f64 {
        match self {
            Self::Linear(survey) => survey.load_factor(),
            Self::Cuckoo(survey) => survey.load_factor(),
            Self::Sealed(built) => built.load_factor(),
        }
    }

    /// Slots in use per slot in each of up to 64 equal parts of the table; of a sealed table nothing.
    #[must_use]
    pub fn parts(&self) -> &[f64] {
        match self {
            Self::Linear(survey) => &survey.parts,
            Self::Cuckoo(survey) => &survey.parts,
            Self::Sealed(_) => &[],
        }
    }
}
