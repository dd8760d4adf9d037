//! The schemes whose lookups are measured side by side.

use farslot::layout::{CuckooShape, DuoShape, RaceShape};
use farslot::{FieldSize, TableOptions};
use std::fmt;
use std::str::FromStr;

/// A scheme as stores make it, with buckets of its usual size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LookupScheme {
    /// Linear probing.
    Linear,
    /// Linear probing, built whole.
    Sealed,
    /// Built whole, with one slot for each key, which a perfect hash function names.
    Perfect,
    /// Cuckoo hashing: three buckets of four slots, read side by side.
    Cuckoo,
    /// RACE hashing: its records are out of band.
    Race,
    /// CuckooDuo, its clients readers beside the writer.
    Duo,
    /// CuckooDuo for its writer alone, which is the client that looks keys up.
    DuoAlone,
}

impl LookupScheme {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Linear,
        Self::Sealed,
        Self::Perfect,
        Self::Cuckoo,
        Self::Race,
        Self::Duo,
        Self::DuoAlone,
    ];

    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Sealed => "sealed",
            Self::Perfect => "perfect",
            Self::Cuckoo => "cuckoo",
            Self::Race => "race",
            Self::Duo => "duo",
            Self::DuoAlone => "duo-alone",
        }
    }

    /// The load factor up to which it is measured.
    #[must_use]
    pub fn limit(self) -> f64 {
        match self {
            Self::Linear | Self::Sealed | Self::Cuckoo => 0.95,
            Self::Perfect => 0.995,
            Self::Race => RaceShape::default().limit(),
            Self::Duo | Self::DuoAlone => DuoShape::default().limit(),
        }
    }

    /// Whether its tables become so full.
    pub(super) fn has_room_at(self, load: f64) -> bool {
        load > 0.0 && load <= self.limit()
    }

    /// Whether its tables are built whole.
    pub(super) const fn is_built(self) -> bool {
        matches!(self, Self::Sealed | Self::Perfect)
    }

    /// Whether any number of clients may write.
    #[must_use]
    pub const fn has_many_writers(self) -> bool {
        matches!(self, Self::Linear | Self::Race)
    }

    /// Cache lines on which the READs of a hit lie, on average: so many READs, with so many bytes
    /// in all, in a table of keys and values of 8 bytes. A lookup in place may have its answer
    /// before the last line.
    pub(super) fn lines(self, reads: f64, bytes: f64) -> f64 {
        // READs that begin anywhere at multiples of so many bytes, and are as long as some of
        // these.
        let aligned = |unit: f64| reads * (1.0 - unit / 64.0) + bytes / 64.0;
        match self {
            Self::Linear | Self::Sealed | Self::Perfect => aligned(16.0),
            // Buckets of 96 bytes; slots of 32.
            Self::Cuckoo | Self::Duo | Self::DuoAlone => aligned(32.0),
            // Two spans of two whole lines each, and records of 32 bytes that begin at multiples of
            // 16.
            Self::Race => 4.0 + (reads - 2.0) * 1.25,
        }
    }

    /// Whether a client learns from its lookups where other keys are. It is measured once it has.
    pub(super) const fn learns(self) -> bool {
        matches!(self, Self::Duo)
    }

    /// A table of about so many slots, with keys and values of 8 bytes, which may become as full as
    /// tables of the scheme do. A sealed one is full to `load`.
    pub(crate) fn table(self, slots: u64, load: f64) -> TableOptions {
        let full = match self {
            Self::Linear | Self::Cuckoo => 1.0,
            Self::Sealed | Self::Perfect => load,
            Self::Race | Self::Duo | Self::DuoAlone => self.limit(),
        };
        let capacity = (slots as f64 * full) as u64;
        let options = TableOptions::new(capacity)
            .load_factor(full)
            .keys(FieldSize::Fixed(8))
            .values(FieldSize::Fixed(8));
        match self {
            Self::Linear => options,
            Self::Sealed => options.sealed(),
            Self::Perfect => options.perfect(),
            Self::Cuckoo => options.cuckoo(CuckooShape::default()),
            Self::Race => options.race(RaceShape::default()),
            Self::Duo => options.duo(DuoShape::default()),
            Self::DuoAlone => options.duo(DuoShape {
                readers: false,
                ..DuoShape::default()
            }),
        }
    }
}

impl fmt::Display for LookupScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LookupScheme {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let known = Self::ALL.into_iter().find(|scheme| scheme.name() == text);
        known.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no scheme {text:?}: choose from {names}")
        })
    }
}
