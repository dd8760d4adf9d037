//! The schemes whose lookups are measured side by side.

use farslot::{CuckooShape, DuoShape, FieldSize, RaceShape, TableOptions};

/// A scheme as stores make it, with buckets of its usual size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LookupScheme {
    /// Linear probing.
    Linear,
    /// Cuckoo hashing: three buckets of four slots, read side by side.
    Cuckoo,
    /// RACE hashing: its records are out of band.
    Race,
    /// CuckooDuo, its clients readers beside the writer.
    Duo,
}

impl LookupScheme {
    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Cuckoo => "cuckoo",
            Self::Race => "race",
            Self::Duo => "duo",
        }
    }

    /// Whether any number of clients may write.
    #[must_use]
    pub const fn has_many_writers(self) -> bool {
        matches!(self, Self::Linear | Self::Race)
    }

    /// Whether a client learns from its lookups where other keys are: it is to be measured when it has.
    pub(crate) const fn learns(self) -> bool {
        matches!(self, Self::Duo)
    }

    /// A table of about so many slots, with keys and values of 8 bytes, which may become as full as tables of the scheme do.
    pub(crate) fn table(self, slots: u64) -> TableOptions {
        let full = match self {
            Self::Linear | Self::Cuckoo => 1.0,
            Self::Race => RaceShape::default().limit(),
            Self::Duo => DuoShape::default().limit(),
        };
        let capacity = (slots as f64 * full) as u64;
        let options = TableOptions::new(capacity)
            .load_factor(full)
            .keys(FieldSize::Fixed(8))
            .values(FieldSize::Fixed(8));
        match self {
            Self::Linear => options,
            Self::Cuckoo => options.cuckoo(CuckooShape::default()),
            Self::Race => options.race(RaceShape::default()),
            Self::Duo => options.duo(DuoShape::default()),
        }
    }
}
