//! What a reproduction may vary, and what it is to the list of all.

use crate::{LabError, Progress, ReproReport, Result};

/// What a reproduction may vary; where there is nothing, it has a default of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Slots of each table.
    pub slots: Option<u64>,
    /// Tables that are averaged over.
    pub tables: Option<u32>,
    /// Lookups, in each table, behind each cell.
    pub lookups: Option<u32>,
    /// What all chance derives from.
    pub seed: u64,
}

/// [`Options`] with nothing left open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    pub(crate) slots: u64,
    pub(crate) tables: u32,
    pub(crate) lookups: u32,
    pub(crate) seed: u64,
}

impl Scale {
    pub(crate) fn with(self, options: &Options) -> Result<Self> {
        let scale = Self {
            slots: options.slots.unwrap_or(self.slots),
            tables: options.tables.unwrap_or(self.tables),
            lookups: options.lookups.unwrap_or(self.lookups),
            seed: options.seed,
        };
        // Keys have 4 bytes; and the longest READ must not be longer than the table.
        if !(1 << 10..=1 << 31).contains(&scale.slots) {
            return Err(LabError::bad("slots", scale.slots, "from 2^10 to 2^31"));
        }
        if scale.tables == 0 {
            return Err(LabError::bad("tables", 0, "at least 1"));
        }
        if scale.lookups == 0 {
            return Err(LabError::bad("lookups", 0, "at least 1"));
        }
        Ok(scale)
    }

    /// The seed of one of the tables.
    pub(crate) fn seed_of(&self, table: u32) -> u64 {
        self.seed.wrapping_mul(1 << 20).wrapping_add(table.into())
    }
}

/// A table or figure, and how it is reproduced.
pub(crate) struct Reproduction {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) scale: Scale,
    pub(crate) run: fn(&Scale, Progress<'_>) -> Result<ReproReport>,
}
